-- gossip: what has happened to logins at one node, and what has at others since it last asked. KEYS: the stream of all of it.
-- ARGV: the last entry that the node has read, or nothing, which is a minute ago; then each thing that happened. Says what the
-- last entry is now, and for each one read how many milliseconds ago it was and what it was.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- Another kind of value is nobody's of ours.
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'none' and kind ~= 'stream' then redis.call('UNLINK', KEYS[1]) end
for i = 2, #ARGV do redis.call('XADD', KEYS[1], 'MAXLEN', '~', 10000, '*', 'e', ARGV[i]) end
if #ARGV > 1 then redis.call('PEXPIRE', KEYS[1], 60000) end
local from = ARGV[1] == '' and string.format('%.0f', now - 60000) or '(' .. ARGV[1]
local out = { ARGV[1] }
for _, entry in ipairs(redis.call('XRANGE', KEYS[1], from, '+', 'COUNT', 256)) do
    out[1] = entry[1]
    out[#out + 1] = now - string.match(entry[1], '^%d+')
    out[#out + 1] = entry[2][2]
end
return out
