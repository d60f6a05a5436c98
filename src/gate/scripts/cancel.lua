-- cancel: the end of a hold, as engine_decide_cancel() decides it. ARGV: run, epoch, no, id, by, name, reason, filed.
--@include number
--@include kept
--@include buyer
--@include order_read
--@include order_line
local no, id, by, name, reason, filed = ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]
if #ARGV ~= 8 or not is_number(no) or (id ~= '' and not is_kept(id, @GATE_ID_BYTES_MAX@)) or not string.find(by, '^[123]$') or
    (filed ~= '0' and filed ~= '1') or
    not (is_kept(reason, @CANCEL_REASON_BYTES_MAX@) or (reason == '' and by == @GATE_CANCELLER_BUYER@)) then
    return { 'BAD_INPUT' }
end
--@include open
local line = redis.call('HGET', KEYS[3], no)
if not line then return { 'NO_SUCH_ORDER', now, available } end
local order = order_read(line)
local theirs = by == @GATE_CANCELLER_ADMIN@
if by == @GATE_CANCELLER_BUYER@ then theirs = name == order.buyer end
if by == @GATE_CANCELLER_SELLER@ then theirs = name == redis.call('HGET', KEYS[1], 'seller') end
if not theirs then return { 'NO_SUCH_ORDER', now, available } end
if id ~= '' and order.state == '2' and order.ref == id then return { 'REPEATED', now, available, '', '', no, line } end
if order.state ~= '0' then return { 'NOT_HELD', now, available, '', '', no, line } end
--@include room_unless_filed

local grabs, returns, standing = buyer_read(redis.call('HGET', KEYS[2], order.buyer))
if grabs < 1 then return { 'DAMAGED', 'a hold is nobody\'s' } end
held, available = held - order.units, available + order.units
--@include add_up
order.state, order.ref = '2', id
line = order_line(order)
redis.call('HSET', KEYS[3], no, line)
--@include save
redis.call('HSET', KEYS[2], order.buyer, (grabs - 1) .. ' ' .. (returns + 1) .. ' ' .. standing)
redis.call('ZREM', KEYS[6], no)
local entry_id = ''
if filed == '0' then
    entry_id = redis.call('XADD', KEYS[7], '*', 'kind', 'cancelled', 'epoch', epoch, 'at', now, 'no', no, 'units', order.units,
        'by', by, 'reason', reason, 'id', id)
end
return { 'DONE', now, available, '', entry_id, no, line }
