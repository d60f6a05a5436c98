-- retake: the units of an order that has expired, for a payment that came late. ARGV: run, epoch, no, ref, amount.
if #ARGV ~= 5 then return { 'BAD_INPUT' } end
--@include payment
if order.state == '0' then return { 'NOT_EXPIRED', now, available, '', '', no, line } end
if not may_retake then return { 'REFUND_DUE', now, available, '', '', no, line } end
local kind, filed = 'retaken', '0'
--@include room
--@include payment_take
