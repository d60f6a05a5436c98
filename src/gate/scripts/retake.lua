-- retake: the units of an order that has expired, for a payment that came late. ARGV: run, epoch, no, ref, amount.
--@include buyer
if #ARGV ~= 5 then return { 'BAD_INPUT' } end
--@include payment
if order.state == '0' then return { 'NOT_EXPIRED', now, available, '', '', no, line } end
local grabs, returns = buyer_read(redis.call('HGET', KEYS[2], order.buyer))
if not grabs then return { 'DAMAGED', 'what stands of a buyer cannot be read' } end
--@include closed
if order.state ~= '3' or late_payment ~= @GATE_LATE_PAYMENT_RETAKE@ or is_closed or order.units > available or
    grabs >= grabs_max then
    return { 'REFUND_DUE', now, available, '', '', no, line }
end
--@include room
if returns < 1 then return { 'DAMAGED', 'a buyer has fewer orders than have ended' } end

available, sold = available - order.units, sold + order.units
--@include add_up
order.state, order.ref = '1', ref
line = order_line(order)
local entry_id = redis.call('XADD', KEYS[7], '*', 'kind', 'retaken', 'epoch', epoch, 'at', now, 'no', no, 'units', order.units,
    'ref', ref)
redis.call('HSET', KEYS[3], no, line)
--@include save
redis.call('HSET', KEYS[2], order.buyer, (grabs + 1) .. ' ' .. (returns - 1) .. ' ' .. no)
return { 'DONE', now, available, '', entry_id, no, line }
