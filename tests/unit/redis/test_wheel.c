/* Deadlines: never early, at most a tick late, none forgotten. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "redis/wheel.h"

#include <stdlib.h>

#define ROUND_MS (WHEEL_BUCKETS * WHEEL_TICK_MS)
#define MANY 20000

static void a_deadline_comes_once_and_never_early(void **state)
{
    (void)state;
    struct wheel wheel;
    struct wheel_timer timer = { 0 };
    static const uint64_t waits[] = { 0, 1, 7, 8, 9, 1000, ROUND_MS - 1, ROUND_MS, ROUND_MS + 1, 3 * ROUND_MS + 5 };
    for (uint64_t start = 0; start < 40; start++) {
        for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
            uint64_t now = 1000000 + start, due = now + waits[i];
            wheel_init(&wheel, now);
            wheel_add(&wheel, &timer, due);
            while (wheel_due(&wheel, now) == NULL) now++;
            assert_in_range(now, due, due + WHEEL_TICK_MS);
            assert_int_equal(wheel.count, 0);
            assert_null(wheel_due(&wheel, now + 10 * ROUND_MS));
        }
    }
}

static void what_is_removed_does_not_come(void **state)
{
    (void)state;
    struct wheel wheel;
    struct wheel_timer timers[3] = { 0 };
    wheel_init(&wheel, 0);
    for (int i = 0; i < 3; i++) wheel_add(&wheel, &timers[i], 10);
    wheel_remove(&wheel, &timers[1]);
    wheel_remove(&wheel, &timers[1]); /* again: nothing */
    assert_ptr_equal(wheel_due(&wheel, 100), &timers[0]);
    wheel_remove(&wheel, &timers[2]);
    assert_null(wheel_due(&wheel, 100));
    wheel_add(&wheel, &timers[1], 200);
    assert_null(wheel_due(&wheel, 199));
    assert_ptr_equal(wheel_due(&wheel, 300), &timers[1]);
}

static void a_time_that_has_passed_is_due_at_the_next_turn(void **state)
{
    (void)state;
    struct wheel wheel;
    struct wheel_timer timer = { 0 };
    wheel_init(&wheel, 5000);
    assert_null(wheel_due(&wheel, 9000));
    wheel_add(&wheel, &timer, 10);
    assert_ptr_equal(wheel_due(&wheel, 9000), &timer);
}

static void after_a_long_sleep_nothing_is_forgotten(void **state)
{
    (void)state;
    struct wheel *wheel = malloc(sizeof(*wheel));
    struct wheel_timer *timers = calloc(MANY, sizeof(*timers));
    assert_true(wheel != NULL && timers != NULL);
    wheel_init(wheel, 77);
    for (uint32_t i = 0; i < MANY; i++) wheel_add(wheel, &timers[i], 77 + (uint64_t)i * 7919 % (5 * ROUND_MS));
    uint32_t seen = 0;
    uint64_t now = 77;
    for (int turn = 0; turn < 40; turn++) {
        struct wheel_timer *timer;
        while ((timer = wheel_due(wheel, now)) != NULL) {
            assert_true(timer->due_ms <= now);
            seen++;
        }
        /* What is left is not due, up to a tick. */
        for (uint32_t i = 0; i < MANY; i++) assert_true(timers[i].next == NULL || timers[i].due_ms + WHEEL_TICK_MS > now);
        now += turn % 2 == 0 ? 3 : ROUND_MS / 3 + 1;
    }
    assert_int_equal(seen, MANY);
    free(timers);
    free(wheel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_deadline_comes_once_and_never_early),
        cmocka_unit_test(what_is_removed_does_not_come),
        cmocka_unit_test(a_time_that_has_passed_is_due_at_the_next_turn),
        cmocka_unit_test(after_a_long_sleep_nothing_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
