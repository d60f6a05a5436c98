-- A payment, as engine_decide_payment() decides it, up to what it leads to. filed: '1' where the ledger has it already.
--@include whole
--@include number
--@include kept
--@include buyer
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
if amount ~= order.amount and not (order.amount == '-1' and amount == '0') then
    return { 'AMOUNT_MISMATCH', now, available, '', '', no, line }
end
local is_settled = order.state == '1' or order.state == '4'
if is_settled and order.ref == ref then return { 'REPEATED', now, available, '', '', no, line } end
if is_settled then return { 'ALREADY_PAID', now, available, '', '', no, line } end
local units, may_retake = order.units, false
local grabs, returns, standing
if order.state == '3' then
    grabs, returns, standing = buyer_read(redis.call('HGET', KEYS[2], order.buyer))
--@include closed
    may_retake = late_payment == @GATE_LATE_PAYMENT_RETAKE@ and not is_closed and units <= available and grabs < grabs_max
end
