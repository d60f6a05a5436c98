redis.call('HSET', KEYS[1], 'counts',
    struct.pack(@GATE_COUNTS_FORMAT@, now, offered, available, held, sold, orders_made, tokens_given))
