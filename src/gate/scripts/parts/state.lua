-- The sale as it stands and the time, or the answer that it is not to be asked. Time never goes back (P12). What is no number
-- fails the comparisons, too.
local packed = redis.call('HMGET', KEYS[1], 'terms', 'counts')
if not packed[1] then return { 'NOT_LOADED' } end
local is_read, is_open, price, units_max, grabs_max, opens, closes, pay_within, admission, tokens_max, late_payment, paused, closed,
    log_max, version, run, epoch = pcall(struct.unpack, @GATE_TERMS_FORMAT@, packed[1])
if not is_read or not packed[2] or #packed[2] ~= @GATE_COUNTS_BYTES@ then return { 'DAMAGED', 'its terms or its counts cannot be read' } end
local now, offered, available, held, sold, orders_made, tokens_given = struct.unpack(@GATE_COUNTS_FORMAT@, packed[2])
if not (now >= 0 and now <= @TIME_MS_MAX@ and available >= 0 and held >= 0 and sold >= 0 and available + held + sold == offered) then
    return { 'DAMAGED', 'its counts contradict each other' }
end
if run ~= ARGV[1] then return { 'STALE', run, epoch, now } end
