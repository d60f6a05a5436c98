/* Numbers of orders that several nodes make without asking each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gate/remote/number.h"

#include <pthread.h>
#include <stdlib.h>

#define NOW_MS UINT64_C(1794800000000) /* in 2026 */
#define UNTIL_MS 1000                  /* of the lease */
#define THREADS 4
#define EACH 20000

static uint64_t number_next(struct numbers *numbers, uint64_t sale_id, uint64_t wall_ms)
{
    return numbers_next(numbers, sale_id, wall_ms, UNTIL_MS - 1);
}

static void they_rise_and_tell_when_they_were_made(void **state)
{
    (void)state;
    struct numbers numbers = { .last = 0 };
    numbers_lease(&numbers, 7, NOW_MS, UNTIL_MS);
    uint64_t last = 0;
    for (uint64_t i = 0; i < 100; i++) {
        uint64_t number = number_next(&numbers, 0, NOW_MS + 5 * i);
        assert_true(number > last && number <= INT64_MAX);
        if (i > 0) assert_int_equal(number_ms(number), NOW_MS + 5 * i);
        assert_true(number > number_first(NOW_MS + 5 * i) && number < number_first(NOW_MS + 5 * i + 5));
        last = number;
    }
}

static void a_clock_that_goes_back_makes_none_twice(void **state)
{
    (void)state;
    struct numbers numbers = { .last = 0 };
    numbers_lease(&numbers, 1, NOW_MS, UNTIL_MS);
    uint64_t before = number_next(&numbers, 0, NOW_MS + 1000);
    assert_true(number_next(&numbers, 0, NOW_MS) > before);
    assert_true(number_next(&numbers, 0, 0) > before);
}

static void a_start_gives_none_below_its_floor(void **state)
{
    (void)state;
    struct numbers numbers = { .last = 0 };
    numbers_lease(&numbers, 1, NOW_MS, UNTIL_MS);
    assert_true(number_ms(number_next(&numbers, 0, NOW_MS - 60000)) >= NOW_MS);
}

/* More than a millisecond has run ahead of it, and the next one goes on from there. */
static void a_rush_within_a_millisecond_runs_ahead(void **state)
{
    (void)state;
    struct numbers numbers = { .last = 0 };
    numbers_lease(&numbers, 1, NOW_MS, UNTIL_MS);
    uint64_t last = 0;
    for (int i = 0; i < 3 * 256; i++) {
        uint64_t number = number_next(&numbers, 0, NOW_MS + 1);
        assert_true(number > last);
        last = number;
    }
    assert_true(number_ms(last) >= NOW_MS + 3 && number_ms(last) <= NOW_MS + 4);
}

static void two_nodes_never_make_the_same(void **state)
{
    (void)state;
    struct numbers one = { .last = 0 }, two = { .last = 0 };
    numbers_lease(&one, 1, NOW_MS, UNTIL_MS);
    numbers_lease(&two, NODES_MAX, NOW_MS, UNTIL_MS);
    for (int i = 0; i < 10000; i++) {
        uint64_t a = number_next(&one, 0, NOW_MS + (uint64_t)i / 100), b = number_next(&two, 0, NOW_MS + (uint64_t)i / 100);
        assert_int_equal(a >> 12 & 1023, 1);
        assert_int_equal(b >> 12 & 1023, NODES_MAX);
    }
}

/* Whoever holds an order's number knows which sales it is not of, and those who never were nodes made none. */
static void the_number_of_an_order_tells_which_sales_it_can_be_of(void **state)
{
    (void)state;
    struct numbers numbers = { .last = 0 };
    numbers_lease(&numbers, 3, NOW_MS, UNTIL_MS);
    uint64_t last = 0;
    for (uint64_t sale_id = 1; sale_id < 5000; sale_id++) {
        uint64_t number = number_next(&numbers, sale_id, NOW_MS + sale_id / 1000);
        assert_true(number > last && number_is_of_a_node(number));
        assert_int_equal(number_mark(number), sale_mark(sale_id));
        assert_int_equal(number >> 12 & 1023, 3);
        last = number;
    }
    assert_false(number_is_of_a_node(17));
    assert_false(number_is_of_a_node(last & ~(UINT64_C(1023) << 12)));
}

static void none_is_given_under_a_lease_that_has_ended(void **state)
{
    (void)state;
    struct numbers numbers = { .last = 0 };
    assert_int_equal(numbers_node(&numbers), 0);
    assert_int_equal(numbers_next(&numbers, 1, NOW_MS, 0), 0);
    numbers_lease(&numbers, 5, NOW_MS, UNTIL_MS);
    assert_true(numbers_next(&numbers, 1, NOW_MS, UNTIL_MS - 1) != 0);
    assert_int_equal(numbers_next(&numbers, 1, NOW_MS, UNTIL_MS), 0);
    numbers_extend(&numbers, 2 * UNTIL_MS);
    assert_true(numbers_are_given(&numbers, UNTIL_MS) && numbers_next(&numbers, 1, NOW_MS, UNTIL_MS) != 0);
    numbers_extend(&numbers, 0);
    assert_int_equal(numbers_next(&numbers, 1, NOW_MS, 0), 0);
    assert_int_equal(numbers_node(&numbers), 5);
}

/* Also for one who read the time before it slept. */
static void a_lease_that_begins_anew_gives_none_of_the_time_before(void **state)
{
    (void)state;
    struct numbers numbers = { .last = 0 };
    numbers_lease(&numbers, 5, NOW_MS, UNTIL_MS);
    uint64_t before = number_next(&numbers, 1, NOW_MS + 10);
    numbers_lease(&numbers, 6, NOW_MS + 20000, UNTIL_MS);
    uint64_t after = number_next(&numbers, 1, NOW_MS + 11);
    assert_true(after > before && number_ms(after) >= NOW_MS + 20000);
    assert_int_equal(after >> 12 & 1023, 6);
    numbers_lease(&numbers, 5, NOW_MS, UNTIL_MS); /* nor does a clock that is behind bring that time back */
    assert_true(number_ms(number_next(&numbers, 1, NOW_MS)) >= NOW_MS + 20000);
}

struct maker {
    struct numbers *numbers;
    uint64_t made[EACH];
};

static void *make(void *arg)
{
    struct maker *maker = arg;
    for (int i = 0; i < EACH; i++) maker->made[i] = number_next(maker->numbers, (uint64_t)i, NOW_MS + (uint64_t)i / 50);
    return NULL;
}

static int compare(const void *a, const void *b)
{
    uint64_t one = *(const uint64_t *)a, two = *(const uint64_t *)b;
    return one < two ? -1 : one > two;
}

static void threads_of_a_node_never_make_the_same(void **state)
{
    (void)state;
    struct numbers numbers = { .last = 0 };
    static struct maker makers[THREADS];
    static uint64_t all[THREADS * EACH];
    pthread_t threads[THREADS];
    numbers_lease(&numbers, 5, NOW_MS, UNTIL_MS);
    for (int i = 0; i < THREADS; i++) {
        makers[i].numbers = &numbers;
        assert_int_equal(pthread_create(&threads[i], NULL, make, &makers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS * EACH; i++) all[i] = makers[i / EACH].made[i % EACH];
    qsort(all, THREADS * EACH, sizeof *all, compare);
    for (int i = 1; i < THREADS * EACH; i++) assert_true(all[i] != all[i - 1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_rise_and_tell_when_they_were_made),
        cmocka_unit_test(a_clock_that_goes_back_makes_none_twice),
        cmocka_unit_test(a_start_gives_none_below_its_floor),
        cmocka_unit_test(a_rush_within_a_millisecond_runs_ahead),
        cmocka_unit_test(two_nodes_never_make_the_same),
        cmocka_unit_test(none_is_given_under_a_lease_that_has_ended),
        cmocka_unit_test(a_lease_that_begins_anew_gives_none_of_the_time_before),
        cmocka_unit_test(threads_of_a_node_never_make_the_same),
        cmocka_unit_test(the_number_of_an_order_tells_which_sales_it_can_be_of),
    };
    return cmocka_run_group_tests_name("number", tests, NULL, NULL);
}
