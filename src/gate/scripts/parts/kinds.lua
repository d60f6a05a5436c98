-- The keys of the sale that somebody has written another kind of value over.
local kinds, odd = { 'hash', 'hash', 'hash', 'hash', 'hash', 'zset', 'stream' }, {}
for i = 1, #KEYS do
    local kind = redis.call('TYPE', KEYS[i]).ok
    if kind ~= kinds[i] and kind ~= 'none' then odd[#odd + 1] = KEYS[i] end
end
