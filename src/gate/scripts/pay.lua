-- pay: what the ledger has decided about a payment. ARGV: run, epoch, no, ref, amount, kind.
local kind = ARGV[6]
if #ARGV ~= 6 or (kind ~= 'paid' and kind ~= 'refund_due') then return { 'BAD_INPUT' } end
--@include payment
-- The ledger says so, and it has the last word; but the gate's order is not one that this could happen to.
if (kind == 'paid') ~= (order.state == '0') then return { 'NOT_HELD', now, available, '', '', no, line } end

if kind == 'paid' then held, sold = held - order.units, sold + order.units end
--@include add_up
redis.call('ZCARD', KEYS[6])
order.state, order.ref = kind == 'paid' and '1' or '4', ref
line = order_line(order)
redis.call('HSET', KEYS[3], no, line)
--@include save
if kind == 'paid' then redis.call('ZREM', KEYS[6], no) end
return { 'DONE', now, available, '', '', no, line }
