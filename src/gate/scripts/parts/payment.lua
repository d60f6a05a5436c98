-- A payment, and the order that it is for, which nobody has paid yet.
--@include whole
--@include number
--@include kept
--@include order_read
--@include order_line
local no, ref, amount = ARGV[3], ARGV[4], ARGV[5]
if not is_number(no) or not is_kept(ref, @PAYMENT_REF_BYTES_MAX@) or not whole(amount, -1, @AMOUNT_MAX@) then
    return { 'BAD_INPUT' }
end
--@include open
local line = redis.call('HGET', KEYS[3], no)
if not line then return { 'NO_SUCH_ORDER', now, available } end
local order = order_read(line)
if not order then return { 'DAMAGED', 'an order cannot be read' } end
if amount ~= order.amount then return { 'AMOUNT_MISMATCH', now, available, '', '', no, line } end
if order.state == '1' or order.state == '4' then
    return { order.ref == ref and 'REPEATED' or 'ALREADY_PAID', now, available, '', '', no, line }
end
