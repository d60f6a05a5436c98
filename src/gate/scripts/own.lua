-- own: a key that one owner has at a time, until its end. ARGV: owner, ms, new ('1': also where nobody has it).
-- Says who has it now, and for how many ms yet.
-- Ours are texts that end. Whatever else stands there would be waited for for ever.
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'none' and (kind ~= 'string' or redis.call('PTTL', KEYS[1]) == -1) then redis.call('UNLINK', KEYS[1]) end
local owner = redis.call('GET', KEYS[1])
if owner == ARGV[1] or (not owner and ARGV[3] == '1') then
    owner = ARGV[1]
    redis.call('SET', KEYS[1], owner, 'PX', ARGV[2])
end
return { owner or '', redis.call('PTTL', KEYS[1]) }
