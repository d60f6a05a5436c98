-- spend: what a node has given away of limits that all share. KEYS: a group of buckets, by the time at which each is full.
-- ARGV for each bucket: its name, what was spent in nanoseconds, how old that is at most and the most that can be owed in
-- microseconds. Says for each in how many microseconds it is full; below 0 where it is. A bucket that was full goes on from
-- the time before the first of what was spent; one that owes more than it can was filled under another clock.
local time = redis.call('TIME')
local now, out = time[1] * 1000000 + time[2], {}
-- Another kind of value is nobody's of ours.
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'none' and kind ~= 'zset' then redis.call('UNLINK', KEYS[1]) end
for i = 1, #ARGV, 4 do
    local full = math.max(tonumber(redis.call('ZSCORE', KEYS[1], ARGV[i]) or 0), now - ARGV[i + 2])
    full = math.min(full, now + ARGV[i + 3]) + ARGV[i + 1] / 1000
    redis.call('ZADD', KEYS[1], string.format('%.17g', full), ARGV[i])
    out[#out + 1] = math.floor(full - now)
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.17g', now))
redis.call('PEXPIRE', KEYS[1], 3600000)
return out
