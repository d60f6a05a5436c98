-- token: a purchase token, as engine_decide_token() decides it. ARGV: run, epoch, nonce, buyer, admission, before.
--@include number
--@include kept
--@include buyer
local nonce, buyer, asked, before = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
if #ARGV ~= 6 or not is_number(nonce) or not is_kept(buyer, @BUYER_BYTES_MAX@) or (asked ~= '2' and asked ~= '3') or
    (before ~= '0' and not is_number(before)) then
    return { 'BAD_INPUT' }
end
--@include open
--@include closed
if is_closed then return { 'CLOSED', now, available } end
if admission ~= tonumber(asked) then return { 'NO_TOKENS_NEEDED', now, available } end
local grabs, _, standing = buyer_read(redis.call('HGET', KEYS[2], buyer))
if not grabs then return { 'DAMAGED', 'what stands of a buyer cannot be read' } end
if grabs >= grabs_max then
    local line = redis.call('HGET', KEYS[3], standing)
    if not line then return { 'DAMAGED', 'a buyer has an order that is not there' } end
    return { 'ALREADY_WON', now, available, '0', '', standing, line }
end
if available == 0 then return { 'SOLD_OUT', now, available } end
local has = redis.call('HGET', KEYS[5], buyer)
if before ~= '0' and before ~= has then return { 'TOKEN_INVALID', now, available } end
if has then return { 'REPEATED', now, available, has, '' } end
if tokens_max ~= 0 and tokens_given >= tokens_max then return { 'NO_TOKENS_LEFT', now, available } end
--@include room
tokens_given = tokens_given + 1
--@include add_up
local entry_id = redis.call('XADD', KEYS[7], '*', 'kind', 'token_given', 'epoch', epoch, 'at', now, 'no', nonce, 'buyer', buyer)
--@include save
redis.call('HSET', KEYS[5], buyer, nonce)
return { 'DONE', now, available, nonce, entry_id }
