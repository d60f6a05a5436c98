-- due: how many holds are due. Writes nothing. ARGV: run, epoch.
if #ARGV ~= 2 then return { 'BAD_INPUT' } end
--@include open
return { 'DONE', now, available, redis.call('ZCOUNT', KEYS[6], '-inf', now) }
