-- The sale as it stands and the time, or the answer that it is not to be asked. Time never goes back (P12).
local packed = redis.call('HMGET', KEYS[1], 'terms', 'counts')
if not packed[1] then return { 'NOT_LOADED' } end
local is_open, price, units_max, grabs_max, opens, closes, pay_within, admission, tokens_max, late_payment, paused, closed,
    log_max, version, run, epoch = struct.unpack(@GATE_TERMS_FORMAT@, packed[1])
if not packed[2] then return { 'DAMAGED', 'the sale has no counts' } end
local now, offered, available, held, sold, orders_made, tokens_given = struct.unpack(@GATE_COUNTS_FORMAT@, packed[2])
if run ~= ARGV[1] then return { 'STALE', run, epoch, now } end
