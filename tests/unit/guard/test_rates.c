/* As many as are allowed and not one more, whoever else asks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "guard/rates.h"

#include "tests/unit/base/dice.h"

#include <pthread.h>
#include <stdatomic.h>

#define SECOND UINT64_C(1000000000)
#define MS UINT64_C(1000000)
/* The thread sanitizer sees nothing in one thread and makes it thirty times slower. */
#ifdef __SANITIZE_THREAD__
#define OTHERS 20000
#else
#define OTHERS 1000000
#endif

static struct rates *rates_made(uint32_t keys_max)
{
    struct rates *rates;
    assert_int_equal(rates_open(&rates, keys_max), FAULT_NONE);
    return rates;
}

/* How many of so many takes pass at this moment. */
static int takes(struct rates *rates, uint64_t key, const struct rate_limit *limit, uint64_t now_ns, int tries)
{
    struct rate_answer answer;
    int passed = 0;
    for (int i = 0; i < tries; i++) passed += rates_take(rates, key, limit, now_ns, &answer);
    return passed;
}

/* A script on one bucket of 10 a second, 5 at once. */
static void a_bucket_gives_its_burst_then_one_each_interval(void **state)
{
    (void)state;
    static const struct {
        uint64_t at_ns;
        bool pass;
        uint32_t remaining;
        uint64_t retry_ms, reset_ms;
    } script[] = {
        { 5 * SECOND, true, 4, 0, 100 },
        { 5 * SECOND, true, 3, 0, 200 },
        { 5 * SECOND, true, 2, 0, 300 },
        { 5 * SECOND, true, 1, 0, 400 },
        { 5 * SECOND, true, 0, 0, 500 },
        { 5 * SECOND, false, 0, 100, 500 },
        { 5 * SECOND + 1, false, 0, 100, 500 }, /* milliseconds are rounded up */
        { 5 * SECOND + 99 * MS, false, 0, 1, 401 },
        { 5 * SECOND + 100 * MS - 1, false, 0, 1, 401 },
        { 5 * SECOND + 100 * MS, true, 0, 0, 500 },
        { 5 * SECOND + 100 * MS, false, 0, 100, 500 },
        { 5 * SECOND + 350 * MS, true, 1, 0, 350 },
        { 5 * SECOND + 350 * MS, true, 0, 0, 450 },
        { 5 * SECOND + 350 * MS, false, 0, 50, 450 },
        /* The clock stands or goes back a little: nothing is given for it. */
        { 5 * SECOND + 340 * MS, false, 0, 60, 460 },
        { 5 * SECOND + 350 * MS, false, 0, 50, 450 },
        { 5 * SECOND + 400 * MS, true, 0, 0, 500 },
        /* Long idle: the burst, not more. */
        { 60 * SECOND, true, 4, 0, 100 },
        { 60 * SECOND, true, 3, 0, 200 },
        { 60 * SECOND, true, 2, 0, 300 },
        { 60 * SECOND, true, 1, 0, 400 },
        { 60 * SECOND, true, 0, 0, 500 },
        { 60 * SECOND, false, 0, 100, 500 },
    };
    struct rates *rates = rates_made(64);
    struct rate_limit limit = rate_limit_of(10, SECOND, 5);
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++) {
        struct rate_answer answer;
        bool pass = rates_take(rates, 42, &limit, script[i].at_ns, &answer);
        if (pass != script[i].pass || answer.pass != pass || answer.remaining != script[i].remaining ||
            answer.retry_ms != script[i].retry_ms || answer.reset_ms != script[i].reset_ms)
            fail_msg("row %zu: pass %d, %" PRIu32 " left, retry %" PRIu64 ", reset %" PRIu64, i, pass, answer.remaining,
                     answer.retry_ms, answer.reset_ms);
    }
    rates_close(rates);
}

static void asking_too_often_does_not_make_the_wait_longer(void **state)
{
    (void)state;
    struct rates *rates = rates_made(64);
    struct rate_limit limit = rate_limit_of(1, SECOND, 1);
    struct rate_answer answer;
    assert_true(rates_take(rates, 1, &limit, 0, &answer));
    for (uint64_t now = 0; now < SECOND; now += MS) assert_false(rates_take(rates, 1, &limit, now, &answer));
    assert_true(rates_take(rates, 1, &limit, SECOND, &answer));
    rates_close(rates);
}

/* What is told in Retry-After is true, to the millisecond, for rates that do not divide a second too. */
static void a_take_after_retry_ms_passes(void **state)
{
    (void)state;
    static const struct {
        uint64_t takes, span_ns;
        uint32_t burst;
    } rows[] = {
        { 1, SECOND, 1 },        { 3, SECOND, 3 },      { 7, SECOND, 1 },
        { 10, 60 * SECOND, 10 }, { 999, SECOND, 10 },   { 10000000, SECOND, 1000 },
        { 1, 3600 * SECOND, 2 }, { 3, SECOND, 100000 }, { 7000000, SECOND, 1 },
    };
    uint64_t now = 12345;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rates *rates = rates_made(64);
        struct rate_limit limit = rate_limit_of(rows[i].takes, rows[i].span_ns, rows[i].burst);
        struct rate_answer answer = { .pass = true };
        uint32_t passed = 0;
        while (rates_take(rates, 9, &limit, now, &answer)) passed++;
        assert_int_equal(passed, rows[i].burst);
        assert_true(answer.retry_ms > 0);
        assert_true(rates_take(rates, 9, &limit, now + answer.retry_ms * MS, &answer));
        rates_close(rates);
    }
}

/* Asked all the time for ten seconds, a limit gives burst and what it says, within what rounding to nanoseconds makes. */
static void over_time_the_rate_is_what_was_said(void **state)
{
    (void)state;
    static const uint64_t per_s[] = { 1, 3, 7, 50, 999, 2000 };
    for (size_t i = 0; i < sizeof(per_s) / sizeof(per_s[0]); i++) {
        struct rates *rates = rates_made(64);
        struct rate_limit limit = rate_limit_of(per_s[i], SECOND, 5);
        uint64_t passed = 0;
        for (uint64_t now = 0; now < 10 * SECOND; now += 50000) passed += (uint64_t)takes(rates, 3, &limit, now, 1);
        uint64_t most = 5 + 10 * per_s[i];
        if (passed > most || passed + 1 < most) fail_msg("%" PRIu64 " a second: %" PRIu64, per_s[i], passed);
        rates_close(rates);
    }
}

static void no_limit_lets_everything_through_and_counts_nothing(void **state)
{
    (void)state;
    struct rates *rates = rates_made(64);
    struct rate_limit none = rate_limit_of(0, SECOND, 5), one = rate_limit_of(1, SECOND, 1);
    assert_int_equal(takes(rates, 3, &none, 0, 1000), 1000);
    rates_give_back(rates, 3, &none);
    assert_int_equal(takes(rates, 3, &one, 0, 5), 1);
    rates_close(rates);
}

static void what_is_given_back_can_be_taken_again_and_no_more(void **state)
{
    (void)state;
    struct rates *rates = rates_made(64);
    struct rate_limit limit = rate_limit_of(10, SECOND, 5);
    assert_int_equal(takes(rates, 3, &limit, SECOND, 9), 5);
    rates_give_back(rates, 3, &limit);
    rates_give_back(rates, 3, &limit);
    assert_int_equal(takes(rates, 3, &limit, SECOND, 9), 2);
    /* To a full bucket nothing can be added; one that is not there stays so. */
    for (int i = 0; i < 9; i++) rates_give_back(rates, 3, &limit);
    rates_give_back(rates, 4, &limit);
    assert_int_equal(takes(rates, 3, &limit, SECOND, 9), 5);
    assert_int_equal(takes(rates, 4, &limit, SECOND, 9), 5);
    rates_close(rates);
}

static void a_changed_limit_counts_within_a_second(void **state)
{
    (void)state;
    struct rates *rates = rates_made(64);
    struct rate_limit slow = rate_limit_of(1, SECOND, 100), fast = rate_limit_of(1000, SECOND, 100);
    assert_int_equal(takes(rates, 3, &slow, SECOND, 200), 100);
    /* 100 s are owed under the old limit, a tenth of a second at most under the new one. */
    assert_int_equal(takes(rates, 3, &fast, SECOND, 10), 0);
    assert_int_equal(takes(rates, 3, &fast, SECOND + 100 * MS, 200), 100);
    /* Back: what was taken stays taken, the rest of the larger burst is there. */
    assert_int_equal(takes(rates, 3, &slow, SECOND + 100 * MS, 200), 99);
    rates_close(rates);
}

/* What was taken elsewhere is owed here, also more than a burst of it, until it is paid off or limits change. */
static void what_was_taken_elsewhere_is_owed_here(void **state)
{
    (void)state;
    static const uint8_t secret[16] = "one of all nodes";
    struct rates *rates = rates_made(64), *other = rates_made(64);
    struct rate_limit limit = rate_limit_of(10, SECOND, 5);
    rates_agree(rates, secret);
    rates_agree(other, secret);
    uint64_t key = rates_key(rates, 1, SLICE("ann"));
    assert_true(key == rates_key(other, 1, SLICE("ann")));
    rates_raise(rates, key, 5 * SECOND + 300 * MS); /* three of five */
    assert_int_equal(takes(rates, key, &limit, 5 * SECOND, 9), 2);
    rates_raise(rates, key, 5 * SECOND + 300 * MS); /* told again: nothing new */
    rates_raise(rates, key, 4 * SECOND);
    assert_int_equal(takes(rates, key, &limit, 5 * SECOND + 100 * MS, 9), 1);
    rates_raise(rates, key, 15 * SECOND); /* ten seconds of debt */
    struct rate_answer answer;
    assert_false(rates_take(rates, key, &limit, 5 * SECOND, &answer));
    assert_int_equal(answer.retry_ms, 9600);
    assert_int_equal(takes(rates, key, &limit, 14 * SECOND + 500 * MS, 9), 0);
    assert_int_equal(takes(rates, key, &limit, 14 * SECOND + 600 * MS, 9), 1);
    /* Limits have changed: what is ahead may be of the old ones. */
    rates_raise(rates, key, 30 * SECOND);
    rates_relent(rates, 20 * SECOND);
    rates_relent(rates, 10 * SECOND); /* nobody is less lenient for it */
    assert_int_equal(takes(rates, key, &limit, 15 * SECOND, 9), 0);
    assert_int_equal(takes(rates, key, &limit, 15 * SECOND + 100 * MS, 9), 1);
    rates_raise(rates, key, 40 * SECOND);
    assert_int_equal(takes(rates, key, &limit, 25 * SECOND, 9), 0);
    assert_int_equal(takes(rates, key, &limit, 26 * SECOND, 9), 0);
    rates_close(rates);
    rates_close(other);
}

/* A million others, one take each, in a table of 4,096, while one asks without end. */
static void a_flood_of_other_keys_does_not_make_us_forget_an_offender(void **state)
{
    (void)state;
    struct rates *rates = rates_made(4096);
    struct rate_limit limit = rate_limit_of(50, SECOND, 100);
    struct rate_answer answer;
    uint64_t offender = rates_key(rates, 1, SLICE("offender"));
    uint64_t now = SECOND;
    int passed = takes(rates, offender, &limit, now, 1000);
    assert_int_equal(passed, 100);
    for (uint32_t i = 0; i < OTHERS; i++) {
        now += 2 * SECOND / OTHERS; /* every other stays active for 20 ms, which is 10,000 of them */
        uint64_t key = rates_key(rates, 1, (struct slice){ (const char *)&i, sizeof(i) });
        assert_true(rates_take(rates, key, &limit, now, &answer));
        if (i % 100 == 0) passed += takes(rates, offender, &limit, now, 1);
    }
    if (passed > 200) fail_msg("%d passed, 100 and 50 a second for 2 s are allowed", passed);
    assert_true(passed >= 199);
    rates_close(rates);
}

/* The same when it has stopped asking: it comes back to what it owes. */
static void a_flood_does_not_wipe_out_what_a_silent_offender_owes(void **state)
{
    (void)state;
    struct rates *rates = rates_made(4096);
    struct rate_limit limit = rate_limit_of(1, SECOND, 60);
    struct rate_answer answer;
    uint64_t offender = rates_key(rates, 1, SLICE("offender"));
    assert_int_equal(takes(rates, offender, &limit, SECOND, 100), 60);
    for (uint32_t i = 0; i < OTHERS; i++) {
        uint64_t key = rates_key(rates, 1, (struct slice){ (const char *)&i, sizeof(i) });
        assert_true(rates_take(rates, key, &limit, SECOND, &answer));
    }
    assert_int_equal(takes(rates, offender, &limit, SECOND, 100), 0);
    assert_int_equal(takes(rates, offender, &limit, 4 * SECOND, 100), 3);
    rates_close(rates);
}

static void the_idle_make_room_for_the_active(void **state)
{
    (void)state;
    struct rates *rates = rates_made(8); /* one set */
    struct rate_limit limit = rate_limit_of(1, SECOND, 2);
    for (uint64_t key = 1; key <= 8; key++) assert_int_equal(takes(rates, key, &limit, 0, 3), 2);
    /* All are idle after two seconds; eight others find room and are kept. */
    for (uint64_t key = 11; key <= 18; key++) assert_int_equal(takes(rates, key, &limit, 2 * SECOND, 3), 2);
    for (uint64_t key = 11; key <= 18; key++) assert_int_equal(takes(rates, key, &limit, 2 * SECOND, 3), 0);
    rates_close(rates);
}

static void keys_differ_by_kind_name_and_table(void **state)
{
    (void)state;
    struct rates *a = rates_made(64), *b = rates_made(64);
    struct address v4, v6, neighbour;
    assert_true(address_parse(&v4, SLICE("192.0.2.7")) && address_parse(&v6, SLICE("2001:db8::7")) &&
                address_parse(&neighbour, SLICE("2001:db8::8")));
    assert_true(rates_key(a, 1, SLICE("ann")) == rates_key(a, 1, SLICE("ann")));
    assert_true(rates_key(a, 1, SLICE("ann")) != rates_key(a, 2, SLICE("ann")));
    assert_true(rates_key(a, 1, SLICE("ann")) != rates_key(a, 1, SLICE("Ann")));
    assert_true(rates_key(a, 1, SLICE("ann")) != rates_key(b, 1, SLICE("ann")));
    assert_true(rates_key(a, 1, (struct slice){ NULL, 0 }) == rates_key(a, 1, SLICE("")));
    assert_true(rates_key_address(a, 1, &v4) != rates_key_address(a, 1, &v6));
    assert_true(rates_key_address(a, 1, &v6) == rates_key_address(a, 1, &neighbour));
    assert_true(rates_key_address(a, 1, &v6) != rates_key_address(a, 2, &v6));
    rates_close(a);
    rates_close(b);
}

/* Whatever is taken, given back and at whatever pace: never more than burst and rate over any whole run. */
static void random_takes_never_exceed_the_limit(void **state)
{
    (void)state;
    uint64_t dice = dice_seed();
    for (int run = 0; run < 200; run++) {
        struct rates *rates = rates_made(64);
        uint64_t per_s = 1 + dice_below(&dice, 5000);
        uint32_t burst = 1 + dice_below(&dice, 200);
        struct rate_limit limit = rate_limit_of(per_s, SECOND, burst);
        uint64_t start = dice_below(&dice, 1000) * SECOND, now = start, newest = now;
        uint64_t passed = 0;
        for (int i = 0; i < 2000; i++) {
            now = newest + dice_below(&dice, 2) * dice_below(&dice, 3000000);
            if (dice_below(&dice, 10) == 0 && now > start + 5 * MS) now -= dice_below(&dice, 5 * MS); /* an old reading */
            if (now > newest) newest = now;
            passed += (uint64_t)takes(rates, 7, &limit, now, 1);
        }
        uint64_t most = burst + (newest - start) / limit.interval_ns;
        if (passed > most) fail_msg("%" PRIu64 " passed of %" PRIu64, passed, most);
        rates_close(rates);
    }
}

enum { THREADS = 4, TAKES = 5000 };

struct crowd {
    struct rates *rates;
    struct rate_limit limit;
    _Atomic uint64_t passed;
};

static void *crowd_take(void *arg)
{
    struct crowd *crowd = arg;
    uint64_t passed = 0;
    for (uint64_t i = 0; i < TAKES; i++) {
        struct rate_answer answer;
        passed += rates_take(crowd->rates, 7, &crowd->limit, SECOND, &answer);
        (void)rates_take(crowd->rates, (i << 1) % 512, &crowd->limit, SECOND, &answer); /* the neighbours, all even */
        if (i % 16 == 0 && answer.pass) rates_give_back(crowd->rates, (i << 1) % 512, &crowd->limit);
    }
    atomic_fetch_add(&crowd->passed, passed);
    return NULL;
}

static void threads_together_get_the_burst_once(void **state)
{
    (void)state;
    struct crowd crowd = { .rates = rates_made(4096), .limit = rate_limit_of(1, SECOND, 1000) };
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, crowd_take, &crowd), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&crowd.passed), 1000);
    rates_close(crowd.rates);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bucket_gives_its_burst_then_one_each_interval),
        cmocka_unit_test(asking_too_often_does_not_make_the_wait_longer),
        cmocka_unit_test(a_take_after_retry_ms_passes),
        cmocka_unit_test(over_time_the_rate_is_what_was_said),
        cmocka_unit_test(no_limit_lets_everything_through_and_counts_nothing),
        cmocka_unit_test(what_is_given_back_can_be_taken_again_and_no_more),
        cmocka_unit_test(a_changed_limit_counts_within_a_second),
        cmocka_unit_test(what_was_taken_elsewhere_is_owed_here),
        cmocka_unit_test(a_flood_of_other_keys_does_not_make_us_forget_an_offender),
        cmocka_unit_test(a_flood_does_not_wipe_out_what_a_silent_offender_owes),
        cmocka_unit_test(the_idle_make_room_for_the_active),
        cmocka_unit_test(keys_differ_by_kind_name_and_table),
        cmocka_unit_test(random_takes_never_exceed_the_limit),
        cmocka_unit_test(threads_together_get_the_burst_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
