-- pay: what a payment leads to. ARGV: run, epoch, no, ref, amount, kind, filed.
local kind, filed = ARGV[6], ARGV[7]
if #ARGV ~= 7 or (filed ~= '0' and filed ~= '1') or (kind ~= '' and kind ~= 'paid' and kind ~= 'refund_due') then
    return { 'BAD_INPUT' }
end
--@include payment
local leads_to = order.state == '0' and 'paid' or may_retake and 'retaken' or 'refund_due'
if kind == '' then
    kind = leads_to
elseif (kind == 'paid') ~= (order.state == '0') then
    -- The ledger says so, and it has the last word; but the gate's order is not one that this could happen to.
    return { 'NOT_HELD', now, available, '', '', no, line }
end
--@include room_unless_filed
--@include payment_take
