local clock = redis.call('TIME')
local clock_ms = clock[1] * 1000 + (clock[2] - clock[2] % 1000) / 1000
if clock_ms > now then now = clock_ms end
