-- restock: adds stock, or withdraws what is available, as engine_decide_stock() decides it. ARGV: run, epoch, id, add, filed.
--@include whole
--@include kept
local id, filed = ARGV[3], ARGV[5]
local add = #ARGV == 5 and whole(ARGV[4], -@STOCK_MAX@, @STOCK_MAX@)
-- What the ledger has filed is part of the next load: applied to a later epoch it would count twice.
if not add or not is_kept(id, @GATE_ID_BYTES_MAX@) or (filed ~= '0' and filed ~= '1') or (filed == '1' and ARGV[2] == '') then
    return { 'BAD_INPUT' }
end
--@include open
local before = redis.call('HGET', KEYS[4], '\0' .. id)
if before then return { before == ARGV[4] and 'REPEATED' or 'KEY_REUSED', now, available } end
--@include closed
if is_closed and filed == '0' then return { 'CLOSED', now, available } end
if add < -available or add > @STOCK_MAX@ - offered then return { 'NOT_AVAILABLE', now, available } end
if filed == '0' and redis.call('XLEN', KEYS[7]) >= log_max then return { 'FULL', now, available } end
offered, available = offered + add, available + add
--@include add_up
local entry_id = ''
if filed == '0' then
    entry_id = redis.call('XADD', KEYS[7], '*', 'kind', 'stock_added', 'epoch', epoch, 'at', now, 'id', id, 'add', ARGV[4])
end
redis.call('HSET', KEYS[4], '\0' .. id, ARGV[4])
--@include save
return { 'DONE', now, available, '', entry_id }
