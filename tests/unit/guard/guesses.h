/* guesses: tries at logins as tests of their protection make them. cmocka.h comes before it. */
#ifndef STAMPEDE_TESTS_UNIT_GUARD_GUESSES_H
#define STAMPEDE_TESTS_UNIT_GUARD_GUESSES_H

#include "guard/logins.h"

#define MINUTE UINT64_C(60000)

static inline struct logins *logins_made(uint32_t places)
{
    struct logins *logins;
    assert_int_equal(logins_open(&logins, places), FAULT_NONE);
    return logins;
}

static inline struct address address_of(const char *text)
{
    struct address address;
    assert_true(address_parse(&address, slice_of(text)));
    return address;
}

static inline struct address address_nth(uint32_t n)
{
    struct address address = address_of("10.0.0.0");
    for (int i = 0; i < 3; i++) address.bytes[15 - i] = (uint8_t)(n >> 8 * i);
    return address;
}

/* Whether the password was looked at, and was wrong. */
static inline bool guess(struct logins *logins, const char *account, const struct address *from, uint64_t now_ms)
{
    uint64_t retry_ms;
    if (!logins_may_try(logins, slice_of(account), from, now_ms, &retry_ms)) {
        assert_true(retry_ms > 0);
        return false;
    }
    assert_int_equal(retry_ms, 0);
    logins_failed(logins, slice_of(account), from, now_ms);
    return true;
}

static inline bool enter(struct logins *logins, const char *account, const struct address *from, uint64_t now_ms)
{
    uint64_t retry_ms;
    if (!logins_may_try(logins, slice_of(account), from, now_ms, &retry_ms)) return false;
    logins_succeeded(logins, slice_of(account), from, now_ms);
    return true;
}

/* The most tries in any 60 s, given the times of all. */
static inline int busiest_minute(const uint64_t *times, int count)
{
    int most = 0;
    for (int i = 0, first = 0; i < count; i++) {
        while (times[i] - times[first] >= MINUTE) first++;
        if (i - first + 1 > most) most = i - first + 1;
    }
    return most;
}

#endif
