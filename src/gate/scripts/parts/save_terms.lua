redis.call('HSET', KEYS[1], 'terms',
    struct.pack(@GATE_TERMS_FORMAT@, is_open, price, units_max, grabs_max, opens, closes, pay_within, admission, tokens_max,
        late_payment, paused, closed, log_max, version, #run, run, #epoch, epoch))
