/* Whom the shedding turns away, in which order, and that it does not flap. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "guard/shed.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

static const struct shed_numbers numbers = {
    .commit_lag_max = 1000, .commit_age_ms_max = 1000, .clerk_lag_max = 1000, .memory_bytes_max = 1000, .requests_max = 1000
};
static struct shed shed;
static uint64_t now_ms;

static int setup(void **state)
{
    (void)state;
    now_ms = 100000;
    shed_init(&shed, &numbers);
    return 0;
}

/* The level after the load has been so for a while. */
static enum shed_level weigh_for(struct shed_load load, uint64_t for_ms)
{
    for (uint64_t end = now_ms + for_ms; now_ms <= end; now_ms += SHED_PAUSE_MS) {
        assert_true(shed_turn(&shed, now_ms));
        assert_false(shed_turn(&shed, now_ms)); /* it is taken */
        shed_weigh(&shed, &load, now_ms);
        assert_false(shed_turn(&shed, now_ms)); /* and the next one is later */
    }
    return shed_level(&shed);
}

static enum shed_level weigh(struct shed_load load)
{
    return weigh_for(load, 0);
}

static void each_level_turns_away_more_and_grabs_last(void **state)
{
    (void)state;
    static const struct {
        uint64_t age_ms;
        bool query, write, login, grab;
    } script[] = {
        { 0, false, false, false, false },  { 699, false, false, false, false }, { 700, true, false, false, false },
        { 849, true, false, false, false }, { 850, true, true, true, false },    { 999, true, true, true, false },
        { 1000, true, true, true, true },   { 100000, true, true, true, true },
    };
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++) {
        weigh((struct shed_load){ .commit_age_ms = script[i].age_ms });
        assert_int_equal(shed_refuses(&shed, SHED_QUERY), script[i].query);
        assert_int_equal(shed_refuses(&shed, SHED_WRITE), script[i].write);
        assert_int_equal(shed_refuses(&shed, SHED_LOGIN), script[i].login);
        assert_int_equal(shed_refuses(&shed, SHED_REGISTER), script[i].login);
        assert_int_equal(shed_refuses(&shed, SHED_GRAB), script[i].grab);
    }
}

static void each_thing_has_its_marks(void **state)
{
    (void)state;
    static const struct {
        struct shed_load load;
        enum shed_level want;
    } script[] = {
        { { .commit_lag = 699 }, SHED_NOTHING },
        { { .commit_lag = 700 }, SHED_QUERIES },
        { { .commit_lag = 850 }, SHED_WRITES },
        { { .commit_lag = 1000 }, SHED_GRABS },
        { { .commit_lag = UINT64_MAX }, SHED_GRABS },
        { { .requests = 699 }, SHED_NOTHING },
        { { .requests = 700 }, SHED_QUERIES },
        { { .requests = 1000 }, SHED_GRABS },
        { { .memory_bytes = 899 }, SHED_NOTHING },
        { { .memory_bytes = 900 }, SHED_QUERIES },
        { { .memory_bytes = 950 }, SHED_WRITES },
        { { .memory_bytes = 980 }, SHED_GRABS },
        { { .clerk_lag = 999 }, SHED_NOTHING },
        { { .clerk_lag = 1000 }, SHED_QUERIES },
        { { .clerk_lag = UINT64_MAX }, SHED_QUERIES }, /* a sale goes on while the ledger is down */
        { { .clerk_lag = 5000, .memory_bytes = 950 }, SHED_WRITES },
        { { .commit_lag = 690, .commit_age_ms = 690, .clerk_lag = 990, .memory_bytes = 890, .requests = 690 },
          SHED_NOTHING },
    };
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++) {
        shed_init(&shed, &numbers);
        assert_int_equal(weigh(script[i].load), script[i].want);
    }
}

static void what_has_no_maximum_is_not_judged(void **state)
{
    (void)state;
    const struct shed_numbers none = { 0 };
    shed_init(&shed, &none);
    assert_int_equal(weigh((struct shed_load){ UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX }), SHED_NOTHING);
    const struct shed_numbers wide = { UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX };
    shed_init(&shed, &wide);
    assert_int_equal(weigh((struct shed_load){ .commit_lag = UINT64_MAX / 2 }), SHED_NOTHING);
    assert_int_equal(weigh((struct shed_load){ .commit_lag = UINT64_MAX / 4 * 3 }), SHED_QUERIES);
}

static void it_rises_at_once_and_sinks_step_by_step(void **state)
{
    (void)state;
    const struct shed_load high = { .commit_age_ms = 5000 }, none = { 0 };
    assert_int_equal(weigh(high), SHED_GRABS);
    assert_int_equal(weigh_for(none, SHED_CALM_MS - SHED_PAUSE_MS), SHED_GRABS);
    assert_int_equal(weigh(none), SHED_WRITES);
    assert_int_equal(weigh_for(none, SHED_CALM_MS - 2 * SHED_PAUSE_MS), SHED_WRITES);
    assert_int_equal(weigh(none), SHED_QUERIES);
    assert_int_equal(weigh(high), SHED_GRABS);
    assert_int_equal(weigh_for(none, 3 * SHED_CALM_MS), SHED_NOTHING);
}

static void a_load_that_swings_around_a_mark_does_not_flap(void **state)
{
    (void)state;
    assert_int_equal(weigh((struct shed_load){ .commit_lag = 850 }), SHED_WRITES);
    for (int i = 0; i < 200; i++)
        assert_int_equal(weigh((struct shed_load){ .commit_lag = i % 2 ? 855 : 720 }), SHED_WRITES);
    /* Low enough, but never for long enough. */
    for (int i = 0; i < 200; i++)
        assert_int_equal(weigh((struct shed_load){ .commit_lag = i % 8 == 0 ? 750 : 100 }), SHED_WRITES);
    /* Under the mark of its own level by enough, though not under that of the one below. */
    assert_int_equal(weigh_for((struct shed_load){ .commit_lag = 690 }, 10 * SHED_CALM_MS), SHED_QUERIES);
    assert_int_equal(weigh_for((struct shed_load){ .commit_lag = 540 }, 10 * SHED_CALM_MS), SHED_NOTHING);
}

static void one_that_calms_down_does_not_hide_another(void **state)
{
    (void)state;
    assert_false(shed_memory_short(&shed));
    assert_int_equal(weigh((struct shed_load){ .commit_lag = 1000, .memory_bytes = 955 }), SHED_GRABS);
    assert_true(shed_memory_short(&shed));
    assert_int_equal(weigh_for((struct shed_load){ .memory_bytes = 955 }, 10 * SHED_CALM_MS), SHED_WRITES);
    assert_int_equal(weigh_for((struct shed_load){ .memory_bytes = 919 }, 10 * SHED_CALM_MS), SHED_QUERIES);
    assert_int_equal(weigh_for((struct shed_load){ 0 }, 10 * SHED_CALM_MS), SHED_NOTHING);
    assert_false(shed_memory_short(&shed));
}

static void the_cap_of_memory_may_change(void **state)
{
    (void)state;
    const struct shed_load load = { .memory_bytes = 960 };
    assert_int_equal(weigh(load), SHED_WRITES);
    shed_set_memory(&shed, 2000);
    assert_int_equal(weigh_for(load, 10 * SHED_CALM_MS), SHED_NOTHING);
    shed_set_memory(&shed, 960);
    assert_int_equal(weigh_for(load, SHED_PAUSE_MS), SHED_GRABS);
    shed_set_memory(&shed, 0);
    assert_int_equal(weigh_for(load, 10 * SHED_CALM_MS), SHED_NOTHING);
}

static void time_that_goes_back_does_no_harm(void **state)
{
    (void)state;
    weigh((struct shed_load){ .requests = 1000 });
    weigh((struct shed_load){ 0 });
    assert_false(shed_turn(&shed, 5));
    now_ms += 10;
    assert_int_equal(weigh_for((struct shed_load){ 0 }, 4 * SHED_CALM_MS), SHED_NOTHING);
}

/* Many threads come by; one at a time weighs, and no two within the pause. */
static _Atomic uint64_t clock_ms;
static atomic_int weighing, overlaps, weighs;
static atomic_bool stop;
static uint64_t weighed_ms; /* of whoever has the turn: a race here is a race there */

static void *tick(void *arg)
{
    (void)arg;
    while (!atomic_load(&stop)) {
        uint64_t now = atomic_fetch_add(&clock_ms, 1) / 16;
        (void)shed_refuses(&shed, SHED_GRAB);
        if (!shed_turn(&shed, now)) continue;
        if (atomic_fetch_add(&weighing, 1) != 0 || now < weighed_ms + SHED_PAUSE_MS) atomic_fetch_add(&overlaps, 1);
        weighed_ms = now;
        struct shed_load load = { .commit_lag = now % 2000 };
        atomic_fetch_sub(&weighing, 1);
        shed_weigh(&shed, &load, now);
        atomic_fetch_add(&weighs, 1);
    }
    return NULL;
}

static void one_thread_at_a_time_has_the_turn(void **state)
{
    (void)state;
    pthread_t threads[4];
    atomic_store(&clock_ms, 16 * 100000);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, tick, NULL), 0);
    while (atomic_load(&weighs) < 500) sched_yield();
    atomic_store(&stop, true);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&overlaps), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(each_level_turns_away_more_and_grabs_last, setup),
        cmocka_unit_test_setup(each_thing_has_its_marks, setup),
        cmocka_unit_test_setup(what_has_no_maximum_is_not_judged, setup),
        cmocka_unit_test_setup(it_rises_at_once_and_sinks_step_by_step, setup),
        cmocka_unit_test_setup(a_load_that_swings_around_a_mark_does_not_flap, setup),
        cmocka_unit_test_setup(one_that_calms_down_does_not_hide_another, setup),
        cmocka_unit_test_setup(the_cap_of_memory_may_change, setup),
        cmocka_unit_test_setup(time_that_goes_back_does_no_harm, setup),
        cmocka_unit_test_setup(one_thread_at_a_time_has_the_turn, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
