-- peek: the sale as it stands. Writes nothing. ARGV: run, epoch.
if #ARGV ~= 2 then return { 'BAD_INPUT' } end
--@include kinds
if odd[1] then return { 'DAMAGED', odd[1] .. ' has another kind of value' } end
--@include decimal
--@include open
for _, number in ipairs({ offered, orders_made, tokens_given, price, units_max, grabs_max, opens, closes, pay_within, admission,
    tokens_max, late_payment, paused, closed, log_max, version }) do
    if not (number >= -1 and number <= 9007199254740991 and number % 1 == 0) then
        return { 'DAMAGED', 'its terms or its counts cannot be' }
    end
end
return { 'DONE', now, available, epoch, redis.call('XLEN', KEYS[7]), redis.call('HLEN', KEYS[3]), redis.call('HLEN', KEYS[5]),
    redis.call('ZCARD', KEYS[6]), decimal(now), decimal(offered), decimal(available), decimal(held), decimal(sold),
    decimal(orders_made), decimal(tokens_given), decimal(price), decimal(units_max), decimal(grabs_max), decimal(opens),
    decimal(closes), decimal(pay_within), decimal(admission), decimal(tokens_max), decimal(late_payment), decimal(paused),
    decimal(closed), decimal(log_max), decimal(version) }
