/* The breaker on an injected clock: when it opens, what it costs to be let in again, and that threads agree on it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "guard/breaker.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* 1 s of window, half of 10 answers, 100 ms is slow, 2 s open, 3 probes. */
static const struct breaker_numbers numbers = {
    .window_ms = 1000, .share_percent = 50, .slow_ms = 100, .open_ms = 2000, .probes = 3, .answers_min = 10
};
static struct breaker breaker;
static uint32_t retry_s;

static int setup(void **state)
{
    (void)state;
    breaker_init(&breaker, "test", &numbers);
    return 0;
}

static struct breaker_pass enter(uint64_t now_ms)
{
    struct breaker_pass pass;
    assert_true(breaker_enter(&breaker, now_ms, &pass, &retry_s));
    return pass;
}

static bool refused(uint64_t now_ms)
{
    struct breaker_pass pass;
    retry_s = 0;
    bool in = breaker_enter(&breaker, now_ms, &pass, &retry_s);
    if (!in) assert_true(retry_s > 0);
    return !in;
}

static void answer(enum breaker_outcome outcome, uint32_t took_ms, uint64_t now_ms)
{
    struct breaker_pass pass = enter(now_ms);
    breaker_leave(&breaker, &pass, outcome, took_ms, now_ms);
}

static void fail_until_open(uint64_t now_ms)
{
    for (int i = 0; i < 10; i++) answer(BREAKER_FAILED, 1, now_ms);
    assert_int_equal(breaker_state(&breaker), BREAKER_OPEN);
}

static void good_answers_never_open_it(void **state)
{
    (void)state;
    for (uint64_t now = 5000; now < 20000; now++) answer(BREAKER_GOOD, 100, now);
    assert_int_equal(breaker_state(&breaker), BREAKER_CLOSED);
    assert_int_equal(atomic_load(&breaker.opened_total), 0);
}

static void it_never_opens_on_fewer_than_the_minimum(void **state)
{
    (void)state;
    for (int i = 0; i < 9; i++) answer(BREAKER_FAILED, 1, 5000);
    assert_int_equal(breaker_state(&breaker), BREAKER_CLOSED);
    /* Those of a window ago no longer count: nine again are nine. */
    for (int i = 0; i < 9; i++) answer(BREAKER_FAILED, 1, 6000);
    assert_int_equal(breaker_state(&breaker), BREAKER_CLOSED);
    answer(BREAKER_FAILED, 1, 6000);
    assert_int_equal(breaker_state(&breaker), BREAKER_OPEN);
}

static void the_share_decides_not_the_number(void **state)
{
    (void)state;
    static const struct {
        int good, failed, slow, unknown;
        enum breaker_state want;
    } script[] = {
        { 100, 99, 0, 0, BREAKER_CLOSED },   { 100, 100, 0, 0, BREAKER_OPEN },   { 100, 0, 100, 0, BREAKER_OPEN },
        { 100, 50, 50, 0, BREAKER_OPEN },    { 100, 50, 49, 0, BREAKER_CLOSED }, { 0, 0, 0, 1000, BREAKER_CLOSED },
        { 100, 99, 0, 500, BREAKER_CLOSED },
    };
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++) {
        breaker_init(&breaker, "test", &numbers);
        for (int j = 0; j < script[i].unknown; j++) answer(BREAKER_UNKNOWN, 5000, 5000);
        for (int j = 0; j < script[i].good; j++) answer(BREAKER_GOOD, 1, 5000);
        for (int j = 0; j < script[i].failed; j++) answer(BREAKER_FAILED, 1, 5500);
        for (int j = 0; j < script[i].slow; j++) answer(BREAKER_GOOD, 101, 5900);
        assert_int_equal(breaker_state(&breaker), script[i].want);
    }
}

static void the_window_slides(void **state)
{
    (void)state;
    /* A tenth of the answers fail, for long; then half of one window does. */
    for (uint64_t now = 5000; now < 15000; now += 10) answer(now % 100 == 0 ? BREAKER_FAILED : BREAKER_GOOD, 1, now);
    assert_int_equal(breaker_state(&breaker), BREAKER_CLOSED);
    uint64_t opened_ms = 0;
    for (uint64_t now = 15000; opened_ms == 0 && now < 17000; now += 10) {
        answer(BREAKER_FAILED, 1, now);
        if (breaker_state(&breaker) == BREAKER_OPEN) opened_ms = now;
    }
    /* 10 % until 15000: half of a window of 1 s is reached some 400 to 500 ms later, give or take a bucket. */
    assert_in_range(opened_ms, 15300, 15550);
}

static void while_open_everybody_is_told_when_to_come_again(void **state)
{
    (void)state;
    fail_until_open(5000);
    static const struct {
        uint64_t at_ms;
        uint32_t retry_s;
    } script[] = { { 4990, 2 }, { 5000, 2 }, { 5999, 2 }, { 6000, 1 }, { 6999, 1 } };
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++) {
        assert_true(refused(script[i].at_ms));
        assert_int_equal(retry_s, script[i].retry_s);
    }
    assert_int_equal(atomic_load(&breaker.refused_total), 5);
    assert_false(refused(7000));
    assert_int_equal(breaker_state(&breaker), BREAKER_HALF_OPEN);
}

static void good_probes_close_it_and_the_past_is_forgotten(void **state)
{
    (void)state;
    fail_until_open(5000);
    struct breaker_pass probes[3];
    for (int i = 0; i < 3; i++) {
        probes[i] = enter(7000);
        assert_true(probes[i].probe);
    }
    assert_true(refused(7000)); /* no more than three */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(breaker_state(&breaker), BREAKER_HALF_OPEN);
        breaker_leave(&breaker, &probes[i], BREAKER_GOOD, 5, 7010);
    }
    assert_int_equal(breaker_state(&breaker), BREAKER_CLOSED);
    for (int i = 0; i < 9; i++) answer(BREAKER_FAILED, 1, 7011);
    assert_int_equal(breaker_state(&breaker), BREAKER_CLOSED);
    answer(BREAKER_FAILED, 1, 7011);
    assert_int_equal(breaker_state(&breaker), BREAKER_OPEN);
}

static void one_bad_probe_opens_it_again_for_the_whole_time(void **state)
{
    (void)state;
    static const struct {
        enum breaker_outcome outcome;
        uint32_t took_ms;
    } script[] = { { BREAKER_FAILED, 1 }, { BREAKER_GOOD, 101 } };
    for (size_t i = 0; i < 2; i++) {
        breaker_init(&breaker, "test", &numbers);
        fail_until_open(5000);
        struct breaker_pass first = enter(7000), second = enter(7000);
        breaker_leave(&breaker, &first, BREAKER_GOOD, 1, 7001);
        breaker_leave(&breaker, &second, script[i].outcome, script[i].took_ms, 7500);
        assert_int_equal(breaker_state(&breaker), BREAKER_OPEN);
        assert_true(refused(7600));
        assert_true(refused(9499));
        assert_false(refused(9500));
        assert_int_equal(atomic_load(&breaker.opened_total), 2);
    }
}

static void a_probe_that_says_nothing_leaves_its_place_to_another(void **state)
{
    (void)state;
    fail_until_open(5000);
    struct breaker_pass probes[3];
    for (int i = 0; i < 3; i++) probes[i] = enter(7000);
    assert_true(refused(7001));
    breaker_leave(&breaker, &probes[0], BREAKER_UNKNOWN, 9999, 7001);
    probes[0] = enter(7002);
    assert_true(refused(7002));
    for (int i = 0; i < 3; i++) breaker_leave(&breaker, &probes[i], BREAKER_GOOD, 1, 7003);
    assert_int_equal(breaker_state(&breaker), BREAKER_CLOSED);
}

static void probes_that_never_come_back_do_not_hold_the_door(void **state)
{
    (void)state;
    fail_until_open(5000);
    struct breaker_pass lost[3], probes[3];
    for (int i = 0; i < 3; i++) lost[i] = enter(7000);
    assert_true(refused(8999));
    for (int i = 0; i < 3; i++) probes[i] = enter(9000);
    /* The lost ones come late: they are of a period that is over. */
    breaker_leave(&breaker, &lost[0], BREAKER_FAILED, 2500, 9500);
    breaker_leave(&breaker, &lost[1], BREAKER_GOOD, 1, 9500);
    breaker_leave(&breaker, &lost[2], BREAKER_UNKNOWN, 1, 9500);
    assert_int_equal(breaker_state(&breaker), BREAKER_HALF_OPEN);
    for (int i = 0; i < 3; i++) breaker_leave(&breaker, &probes[i], BREAKER_GOOD, 1, 9501);
    assert_int_equal(breaker_state(&breaker), BREAKER_CLOSED);
}

static void answers_of_a_time_before_it_opened_do_not_count(void **state)
{
    (void)state;
    struct breaker_pass early[20];
    for (int i = 0; i < 20; i++) early[i] = enter(5000);
    fail_until_open(5000);
    for (int i = 0; i < 10; i++) breaker_leave(&breaker, &early[i], BREAKER_FAILED, 1, 6000); /* while open */
    for (int i = 0; i < 3; i++) answer(BREAKER_GOOD, 1, 7000);
    assert_int_equal(breaker_state(&breaker), BREAKER_CLOSED);
    for (int i = 10; i < 20; i++) breaker_leave(&breaker, &early[i], BREAKER_FAILED, 1, 7001);
    assert_int_equal(breaker_state(&breaker), BREAKER_CLOSED);
}

static void a_share_of_zero_never_opens_it_and_slowness_of_zero_is_not_judged(void **state)
{
    (void)state;
    struct breaker_numbers mine = numbers;
    mine.share_percent = 0;
    breaker_init(&breaker, "test", &mine);
    for (int i = 0; i < 1000; i++) answer(BREAKER_FAILED, 9999, 5000);
    assert_int_equal(breaker_state(&breaker), BREAKER_CLOSED);
    mine = numbers;
    mine.slow_ms = 0;
    breaker_init(&breaker, "test", &mine);
    for (int i = 0; i < 1000; i++) answer(BREAKER_GOOD, UINT32_MAX, 5000);
    assert_int_equal(breaker_state(&breaker), BREAKER_CLOSED);
}

static void a_full_bucket_keeps_the_share(void **state)
{
    (void)state;
    for (int i = 0; i < 1100000; i++) answer(BREAKER_GOOD, 1, 5000);
    for (int i = 0; i < 600000; i++) answer(BREAKER_FAILED, 1, 5000);
    assert_int_equal(breaker_state(&breaker), BREAKER_CLOSED); /* not counted, and not run over into its neighbour */
    for (int i = 0; i < 10; i++) answer(BREAKER_FAILED, 1, 6000);
    assert_int_equal(breaker_state(&breaker), BREAKER_OPEN);
}

/* Threads send requests to something that fails, then works again. */
static atomic_bool failing, stop;
static _Atomic uint64_t clock_ms, served, served_while_failing;

static void *crowd(void *arg)
{
    (void)arg;
    while (!atomic_load(&stop)) {
        struct breaker_pass pass;
        uint32_t retry;
        uint64_t now = atomic_fetch_add(&clock_ms, 1) / 64;
        if (!breaker_enter(&breaker, now, &pass, &retry)) continue;
        bool fails = atomic_load(&failing);
        atomic_fetch_add(fails ? &served_while_failing : &served, 1);
        breaker_leave(&breaker, &pass, fails ? BREAKER_FAILED : BREAKER_GOOD, 1, now);
    }
    return NULL;
}

static void threads_open_and_close_it_together(void **state)
{
    (void)state;
    pthread_t threads[4];
    atomic_store(&clock_ms, 64 * 5000);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, crowd, NULL), 0);
    for (int round = 0; round < 5; round++) {
        uint64_t before = atomic_load(&served);
        while (atomic_load(&served) < before + 2000) sched_yield();
        assert_int_equal(breaker_state(&breaker), BREAKER_CLOSED);
        atomic_store(&failing, true);
        while (breaker_state(&breaker) != BREAKER_OPEN) sched_yield();
        uint64_t sent = atomic_load(&served_while_failing), from = atomic_load(&clock_ms);
        while (atomic_load(&clock_ms) < from + UINT64_C(64) * 20000) sched_yield(); /* 20 s of it */
        /* Open for 2 s each time: at most three probes then, and those who were inside already. The clock is read last: it
         * has run on while this thread did not. */
        uint64_t let_in = atomic_load(&served_while_failing) - sent, times = (atomic_load(&clock_ms) - from) / 64 / 2000;
        assert_true(let_in <= times * 3 + 3 + 4);
        atomic_store(&failing, false);
        while (breaker_state(&breaker) != BREAKER_CLOSED) sched_yield();
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(good_answers_never_open_it, setup),
        cmocka_unit_test_setup(it_never_opens_on_fewer_than_the_minimum, setup),
        cmocka_unit_test_setup(the_share_decides_not_the_number, setup),
        cmocka_unit_test_setup(the_window_slides, setup),
        cmocka_unit_test_setup(while_open_everybody_is_told_when_to_come_again, setup),
        cmocka_unit_test_setup(good_probes_close_it_and_the_past_is_forgotten, setup),
        cmocka_unit_test_setup(one_bad_probe_opens_it_again_for_the_whole_time, setup),
        cmocka_unit_test_setup(a_probe_that_says_nothing_leaves_its_place_to_another, setup),
        cmocka_unit_test_setup(probes_that_never_come_back_do_not_hold_the_door, setup),
        cmocka_unit_test_setup(answers_of_a_time_before_it_opened_do_not_count, setup),
        cmocka_unit_test_setup(a_share_of_zero_never_opens_it_and_slowness_of_zero_is_not_judged, setup),
        cmocka_unit_test_setup(a_full_bucket_keeps_the_share, setup),
        cmocka_unit_test_setup(threads_open_and_close_it_together, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
