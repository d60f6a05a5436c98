-- undo: a take that the ledger refused was never made. ARGV: run, epoch, what, no, name, entry.
--@include number
--@include kept
--@include buyer
--@include order_read
--@include order_line
local what, no, name, log_id = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
if #ARGV ~= 6 or (what ~= 'win' and what ~= 'retake') or not is_number(no) or not is_kept(name, @BUYER_BYTES_MAX@) or
    (log_id ~= '' and not string.find(log_id, '^%d+%-%d+$')) then
    return { 'BAD_INPUT' }
end
--@include open
local line = redis.call('HGET', KEYS[3], no)
local order = line and order_read(line)
if line and not order then return { 'DAMAGED', 'an order cannot be read' } end
if not order or (what == 'win' and order.buyer ~= name) then return { 'NO_SUCH_ORDER', now, available } end
local is_new = order.state == '0' or (order.state == '1' and order.pay_by == '0')
local is_retaken = order.state == '1' and order.pay_by ~= '0' and order.ref == name
if (what == 'win' and not is_new) or (what == 'retake' and not is_retaken) then
    return { 'NOT_HELD', now, available, '', '', no, line }
end

-- Its entry goes with it. Who asked again after a lost answer does not know which it is: it stays, and whoever finds it asks
-- the ledger, which remembers a win that it refused and has in an order's row what became of it. A log may be too long to be
-- looked through.
local entry = log_id ~= '' and redis.call('XRANGE', KEYS[7], log_id, log_id)[1]
if entry then
    local kind, of_kind, of_no = what == 'win' and 'won' or 'retaken', false, false
    for i = 1, #entry[2], 2 do
        of_kind = of_kind or (entry[2][i] == 'kind' and entry[2][i + 1] == kind)
        of_no = of_no or (entry[2][i] == 'no' and entry[2][i + 1] == no)
    end
    if not of_kind or not of_no then return { 'BAD_INPUT' } end
end
local grabs, returns, standing = buyer_read(redis.call('HGET', KEYS[2], order.buyer))
local has_token = redis.call('HGET', KEYS[5], order.buyer)
if not grabs or grabs < 1 then return { 'DAMAGED', 'an order is nobody\'s' } end
available = available + order.units
if order.state == '0' then held = held - order.units else sold = sold - order.units end
--@include add_up
redis.call('ZCARD', KEYS[6])
grabs = grabs - 1
if standing == no then standing = '0' end
if what == 'retake' then
    returns = returns + 1
    order.state, order.ref = '3', ''
    redis.call('HSET', KEYS[3], no, order_line(order))
else
    redis.call('HDEL', KEYS[3], no)
    redis.call('ZREM', KEYS[6], no)
    if order.key ~= '' then redis.call('HDEL', KEYS[4], order.buyer .. '\0' .. order.key) end
    if order.nonce ~= '0' and not has_token then redis.call('HSET', KEYS[5], order.buyer, order.nonce) end
end
--@include save
if grabs + returns == 0 then
    redis.call('HDEL', KEYS[2], order.buyer)
else
    redis.call('HSET', KEYS[2], order.buyer, grabs .. ' ' .. returns .. ' ' .. standing)
end
if entry then redis.call('XDEL', KEYS[7], log_id) end
return { 'DONE', now, available }
