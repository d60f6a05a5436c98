-- due: the numbers of holds that are due, those due first first. Writes nothing. ARGV: run, epoch, count.
--@include whole
local count = #ARGV == 3 and whole(ARGV[3], 1, @GATE_ITEMS_MAX@)
if not count then return { 'BAD_INPUT' } end
--@include open
local reply = redis.call('ZRANGEBYSCORE', KEYS[6], '-inf', now, 'LIMIT', 0, count)
table.insert(reply, 1, 'DONE')
table.insert(reply, 2, now)
table.insert(reply, 3, available)
return reply
