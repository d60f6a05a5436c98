if filed == '0' and redis.call('XLEN', KEYS[7]) >= log_max then return { 'FULL', now, available } end
