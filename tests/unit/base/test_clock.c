#include "base/clock.h"

#include "tests/unit/base/dice.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define NS_PER_MS UINT64_C(1000000)
#define DAY_MS INT64_C(86400000)
#define START_MS UINT64_C(1800000000000)

/* A world whose wall clock can be moved; the monotonic one cannot. */
struct sky {
    struct clock clock;
    uint64_t mono_ns;
    int64_t wall_error_ms;
    uint64_t now_ms;
};

static void sky_open(struct sky *sky, uint64_t floor_ms)
{
    *sky = (struct sky){ .mono_ns = 5000 * NS_PER_MS };
    clock_start(&sky->clock, floor_ms, sky->mono_ns, START_MS);
}

static uint64_t sky_true_ms(const struct sky *sky)
{
    return START_MS + (sky->mono_ns - 5000 * NS_PER_MS) / NS_PER_MS;
}

/* Lets time pass and reads the clock, which must not have gone back. */
static void sky_pass(struct sky *sky, uint64_t ns)
{
    sky->mono_ns += ns;
    uint64_t before = sky->now_ms;
    sky->now_ms = clock_advance(&sky->clock, sky->mono_ns, (uint64_t)((int64_t)sky_true_ms(sky) + sky->wall_error_ms));
    if (sky->now_ms < before) fail_msg("went back from %" PRIu64 " to %" PRIu64, before, sky->now_ms);
}

static void without_jumps_it_is_wall_time(void **state)
{
    (void)state;
    struct sky sky;
    sky_open(&sky, 0);
    for (int i = 0; i < 100000; i++) {
        sky_pass(&sky, 337 * NS_PER_MS / 100);
        assert_true(sky.now_ms == sky_true_ms(&sky));
    }
}

/* P12: a jump is followed by 1 ms in 200 ms, neither faster nor slower, and never backwards. */
static void a_jump_of_the_wall_clock_is_followed_slowly(void **state)
{
    (void)state;
    static const int64_t jumps_ms[] = { 1000, -1000, DAY_MS, -DAY_MS };
    for (size_t i = 0; i < sizeof jumps_ms / sizeof jumps_ms[0]; i++) {
        struct sky sky;
        sky_open(&sky, 0);
        sky_pass(&sky, 1000 * NS_PER_MS);
        sky.wall_error_ms = jumps_ms[i];
        int64_t sign = jumps_ms[i] > 0 ? 1 : -1;
        for (int ms = 1; ms <= 300000; ms++) {
            sky_pass(&sky, NS_PER_MS);
            int64_t ahead = (int64_t)(sky.now_ms - sky_true_ms(&sky)) * sign;
            int64_t allowed = ms / 200;
            if (allowed > 1000 && sign * jumps_ms[i] == 1000) allowed = 1000;
            /* A step of -1 ms may show one millisecond later, because time stands for it instead of going back. */
            if (ahead > allowed || ahead < allowed - 1) fail_msg("jump %zu after %d ms: %" PRId64 " ms", i, ms, ahead);
        }
    }
}

static void a_second_of_error_is_gone_after_200_seconds(void **state)
{
    (void)state;
    static const int64_t jumps_ms[] = { 1000, -1000 };
    for (size_t i = 0; i < 2; i++) {
        struct sky sky;
        sky_open(&sky, 0);
        sky.wall_error_ms = jumps_ms[i];
        for (int step = 0; step < 210 * 20; step++) sky_pass(&sky, 50 * NS_PER_MS);
        assert_true((int64_t)sky.now_ms == (int64_t)sky_true_ms(&sky) + jumps_ms[i]);
    }
}

/* Nobody asked for an hour: the slew may then be an hour's, 18 s, not a day's. */
static void after_an_idle_hour_the_bound_is_that_of_an_hour(void **state)
{
    (void)state;
    struct sky sky;
    sky_open(&sky, 0);
    sky.wall_error_ms = DAY_MS;
    sky_pass(&sky, 3600 * 1000 * NS_PER_MS);
    assert_true(sky.now_ms == sky_true_ms(&sky) + 18000);
}

static void time_never_falls_behind_the_floor(void **state)
{
    (void)state;
    struct sky sky;
    sky_open(&sky, START_MS + 1500);
    for (int ms = 1; ms <= 3000; ms++) {
        sky_pass(&sky, NS_PER_MS);
        uint64_t want = sky_true_ms(&sky) > START_MS + 1500 ? sky_true_ms(&sky) : START_MS + 1500;
        assert_true(sky.now_ms == want);
    }
}

/* A thread may have read the monotonic clock before another one and be served after it. */
static void an_older_reading_gets_the_newest_time(void **state)
{
    (void)state;
    struct sky sky;
    sky_open(&sky, 0);
    sky_pass(&sky, 10000 * NS_PER_MS);
    uint64_t newest = sky.now_ms;
    assert_true(clock_advance(&sky.clock, sky.mono_ns - 3000 * NS_PER_MS, START_MS) == newest);
    assert_int_equal(atomic_load(&sky.clock.slew_ms), 0);
    assert_true(clock_advance(&sky.clock, 1, START_MS) == newest);
    assert_int_equal(atomic_load(&sky.clock.slew_ms), 0);
}

/* Any mix of jumps and pauses: never back, and between two readings never more than the span plus what it may slew. */
static void random_skies_never_run_back_or_away(void **state)
{
    (void)state;
    uint64_t seed = dice_seed();
    for (uint64_t run = 0; run < 300; run++) {
        uint64_t dice = seed + run * 1000003;
        struct sky sky;
        sky_open(&sky, 0);
        sky_pass(&sky, 0);
        uint64_t first_ns = sky.mono_ns, first_ms = sky.now_ms;
        for (int step = 0; step < 2000; step++) {
            static const int64_t jumps_ms[] = { 1000, -1000, DAY_MS, -DAY_MS };
            if (dice_below(&dice, 50) == 0) sky.wall_error_ms += jumps_ms[dice_below(&dice, 4)];
            uint64_t before_ms = sky.now_ms;
            uint64_t pause_ms = dice_below(&dice, 20) == 0 ? 60000 : 3;
            uint64_t ns = dice_roll(&dice) % (pause_ms * NS_PER_MS);
            sky_pass(&sky, ns);
            uint64_t span_ms = ns / NS_PER_MS + 1;
            assert_true(sky.now_ms - before_ms <= span_ms + span_ms / 200 + 1);
            uint64_t all_ms = (sky.mono_ns - first_ns) / NS_PER_MS;
            assert_true(sky.now_ms - first_ms <= all_ms + all_ms / 200 + 1);
            assert_true(sky.now_ms - first_ms + 1 >= all_ms - all_ms / 200);
        }
    }
}

static void the_running_clock_starts_at_wall_time_and_advances(void **state)
{
    (void)state;
    struct clock clock;
    clock_init(&clock, 0);
    uint64_t begin = wall_ms();
    uint64_t now = clock_now_ms(&clock);
    assert_in_range(now, begin - 500, wall_ms() + 500);
    uint64_t first = clock_now_ms(&clock);
    uint64_t until = mono_ms() + 20;
    while (mono_ms() < until) continue;
    assert_in_range(clock_now_ms(&clock) - first, 19, 20000);

    clock_init(&clock, begin + DAY_MS);
    assert_true(clock_now_ms(&clock) == begin + DAY_MS);
}

static void *reader_run(void *arg)
{
    struct clock *clock = arg;
    uint64_t before = 0;
    for (int i = 0; i < 200000; i++) {
        uint64_t now = clock_now_ms(clock);
        if (now < before) return clock;
        before = now;
    }
    return NULL;
}

static void threads_together_see_time_go_forward(void **state)
{
    (void)state;
    struct clock clock;
    clock_init(&clock, 0);
    /* Many steps are due at once, so that threads meet in them. */
    atomic_store(&clock.slewed_ns, 0);
    clock.start_wall_ms += 100000;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, reader_run, &clock), 0);
    for (int i = 0; i < 4; i++) {
        void *failed;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_jumps_it_is_wall_time),
        cmocka_unit_test(a_jump_of_the_wall_clock_is_followed_slowly),
        cmocka_unit_test(a_second_of_error_is_gone_after_200_seconds),
        cmocka_unit_test(after_an_idle_hour_the_bound_is_that_of_an_hour),
        cmocka_unit_test(time_never_falls_behind_the_floor),
        cmocka_unit_test(an_older_reading_gets_the_newest_time),
        cmocka_unit_test(random_skies_never_run_back_or_away),
        cmocka_unit_test(the_running_clock_starts_at_wall_time_and_advances),
        cmocka_unit_test(threads_together_see_time_go_forward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
