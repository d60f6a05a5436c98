-- cancel: the end of a hold that was cancelled. ARGV: run, epoch, no, id.
--@include number
--@include kept
--@include buyer
--@include order_read
--@include order_line
local no, id = ARGV[3], ARGV[4]
if #ARGV ~= 4 or not is_number(no) or not is_kept(id, @GATE_ID_BYTES_MAX@) then return { 'BAD_INPUT' } end
--@include open
local line = redis.call('HGET', KEYS[3], no)
if not line then return { 'NO_SUCH_ORDER', now, available } end
local order = order_read(line)
if not order then return { 'DAMAGED', 'an order cannot be read' } end
if order.state == '2' and order.ref == id then return { 'REPEATED', now, available, '', '', no, line } end
if order.state ~= '0' then return { 'NOT_HELD', now, available, '', '', no, line } end

local grabs, returns, standing = buyer_read(redis.call('HGET', KEYS[2], order.buyer))
if not grabs or grabs < 1 then return { 'DAMAGED', 'a hold is nobody\'s' } end
held, available = held - order.units, available + order.units
--@include add_up
redis.call('ZCARD', KEYS[6])
order.state, order.ref = '2', id
line = order_line(order)
redis.call('HSET', KEYS[3], no, line)
--@include save
redis.call('HSET', KEYS[2], order.buyer, (grabs - 1) .. ' ' .. (returns + 1) .. ' ' .. standing)
redis.call('ZREM', KEYS[6], no)
return { 'DONE', now, available, '', '', no, line }
