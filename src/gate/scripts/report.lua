-- report: what a node tells of itself, and what all have told. ARGV: number, report, ms after which one is forgotten.
-- Says number, age in ms and report of each.
local now = 0
--@include clock
-- Another kind of value is nobody's of ours.
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'none' and kind ~= 'hash' then redis.call('UNLINK', KEYS[1]) end
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f ', now) .. ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
local all, told = redis.call('HGETALL', KEYS[1]), {}
for i = 1, #all, 2 do
    local at, report = string.match(all[i + 1], '^(%d+) (.*)$')
    if at and now - tonumber(at) < tonumber(ARGV[3]) then
        local age = string.format('%.0f', math.max(0, now - tonumber(at)))
        told[#told + 1], told[#told + 2], told[#told + 3] = all[i], age, report
    else
        redis.call('HDEL', KEYS[1], all[i])
    end
end
return told
