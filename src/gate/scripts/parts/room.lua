-- A decision that the ledger has to hear of needs a place in the log.
if redis.call('XLEN', KEYS[7]) >= log_max then return { 'FULL', now, available } end
