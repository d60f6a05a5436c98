-- Writes what the payment leads to: kind is paid, retaken or refund_due.
if kind == 'paid' then
    held, sold = held - units, sold + units
elseif kind == 'retaken' then
    available, sold = available - units, sold + units
    grabs, returns = grabs + 1, returns - 1
    if returns < 0 then return { 'DAMAGED', 'a buyer has fewer orders than have ended' } end
end
--@include add_up
order.state, order.ref = kind == 'refund_due' and '4' or '1', ref
line = order_line(order)
redis.call('HSET', KEYS[3], no, line)
--@include save
if kind == 'paid' then redis.call('ZREM', KEYS[6], no) end
if kind == 'retaken' then redis.call('HSET', KEYS[2], order.buyer, grabs .. ' ' .. returns .. ' ' .. no) end
local entry_id = ''
if filed == '0' then
    entry_id = redis.call('XADD', KEYS[7], '*', 'kind', kind, 'epoch', epoch, 'at', now, 'no', no, 'units', units, 'ref', ref)
end
return { 'DONE', now, available, kind, entry_id, no, line }
