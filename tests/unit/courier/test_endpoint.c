#include "courier/endpoint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static const struct backoff backoff = { 1000, 3600000 };
#define STEADY 200 /* dice that neither lengthen nor shorten a wait */

static void waits_double_up_to_the_longest(void **state)
{
    (void)state;
    static const struct {
        uint32_t failures;
        uint64_t wait_ms;
    } script[] = { { 1, 1000 },     { 2, 2000 },     { 3, 4000 },     { 11, 1024000 },
                   { 12, 2048000 }, { 13, 3600000 }, { 64, 3600000 }, { UINT32_MAX, 3600000 } };
    for (size_t i = 0; i < sizeof script / sizeof *script; i++) {
        assert_int_equal(backoff_ms(&backoff, script[i].failures, STEADY), script[i].wait_ms);
        for (uint32_t dice = 0; dice < 2000; dice += 7) {
            uint64_t wait_ms = backoff_ms(&backoff, script[i].failures, dice);
            assert_in_range(wait_ms, script[i].wait_ms * 8 / 10, script[i].wait_ms * 12 / 10);
        }
    }
}

static void fail_at(struct endpoint *endpoint, uint64_t started_ms, uint64_t now_ms)
{
    endpoint_failed(endpoint, &backoff,
                    &(struct endpoint_failure){ .started_ms = started_ms, .now_ms = now_ms, .dice = STEADY });
}

static void an_endpoint_that_fails_is_left_alone_as_a_whole(void **state)
{
    (void)state;
    struct endpoint endpoint = { .known_pace = true };
    assert_int_equal(endpoint_room(&endpoint, 100), ENDPOINT_PARALLEL_MAX);
    endpoint.in_flight = 5;
    assert_int_equal(endpoint_room(&endpoint, 100), ENDPOINT_PARALLEL_MAX - 5);
    endpoint.in_flight = 0;
    fail_at(&endpoint, 100, 110);
    fail_at(&endpoint, 200, 210);
    assert_int_equal(endpoint_room(&endpoint, 210), ENDPOINT_PARALLEL_MAX);
    fail_at(&endpoint, 300, 310);
    assert_int_equal(endpoint_room(&endpoint, 310), 0);
    assert_int_equal(endpoint_room(&endpoint, 1309), 0);
    assert_int_equal(endpoint_room(&endpoint, 1310), 1); /* a probe */
    endpoint.in_flight = 1;
    assert_int_equal(endpoint_room(&endpoint, 5000), 0);
    endpoint.in_flight = 0;
    fail_at(&endpoint, 1310, 1400);
    assert_int_equal(endpoint_room(&endpoint, 3399), 0);
    assert_int_equal(endpoint_room(&endpoint, 3400), 1);
    endpoint_answered(&endpoint);
    assert_int_equal(endpoint_room(&endpoint, 3400), ENDPOINT_PARALLEL_MAX);
}

static void tries_that_fail_together_count_once(void **state)
{
    (void)state;
    struct endpoint endpoint = { .known_pace = true };
    for (int i = 0; i < 16; i++) fail_at(&endpoint, 100, 110 + (uint64_t)i);
    assert_int_equal(endpoint.failures, 1);
    assert_int_equal(endpoint_room(&endpoint, 200), ENDPOINT_PARALLEL_MAX);
}

static void an_endpoint_may_ask_for_more_time(void **state)
{
    (void)state;
    struct endpoint endpoint = { .known_pace = true };
    endpoint_failed(&endpoint, &backoff,
                    &(struct endpoint_failure){ .started_ms = 100, .now_ms = 110, .wait_ms_min = 30000, .dice = STEADY });
    assert_int_equal(endpoint_room(&endpoint, 30109), 0);
    assert_int_equal(endpoint_room(&endpoint, 30110), ENDPOINT_PARALLEL_MAX);
}

static void another_url_is_another_chance(void **state)
{
    (void)state;
    struct endpoint endpoint = { .known_pace = true };
    struct hook hook = { .url = "https://example.com/" };
    endpoint_change(&endpoint, &hook);
    endpoint_timed(&endpoint, 5);
    for (uint64_t at_ms = 100; at_ms < 600; at_ms += 100) fail_at(&endpoint, at_ms, at_ms + 10);
    endpoint_change(&endpoint, &hook);
    assert_int_equal(endpoint_room(&endpoint, 600), 0);
    snprintf(hook.url, sizeof hook.url, "https://example.org/");
    endpoint_change(&endpoint, &hook);
    assert_int_equal(endpoint_room(&endpoint, 600), 1); /* of which nothing is known */
    endpoint.gone = true;
    assert_int_equal(endpoint_room(&endpoint, 600), 0);
}

static void the_slower_an_endpoint_the_fewer_at_a_time(void **state)
{
    (void)state;
    static const struct {
        uint64_t took_ms;
        enum endpoint_pace pace;
        uint32_t room;
    } script[] = { { 1, ENDPOINT_QUICK, 16 },   { 250, ENDPOINT_QUICK, 16 }, { 500, ENDPOINT_QUICK, 8 },
                   { 1000, ENDPOINT_QUICK, 4 }, { 1001, ENDPOINT_SLOW, 1 },  { 9900, ENDPOINT_SLOW, 1 } };
    for (size_t i = 0; i < sizeof script / sizeof *script; i++) {
        struct endpoint endpoint = { .in_flight = 0 };
        assert_int_equal(endpoint_pace(&endpoint), ENDPOINT_UNKNOWN);
        assert_int_equal(endpoint_room(&endpoint, 100), 1);
        endpoint_timed(&endpoint, script[i].took_ms);
        assert_int_equal(endpoint_pace(&endpoint), script[i].pace);
        assert_int_equal(endpoint_room(&endpoint, 100), script[i].room);
    }
    struct endpoint endpoint = { .known_pace = true, .overdue = true };
    assert_int_equal(endpoint_room(&endpoint, 100), 1);
}

static void one_quick_answer_does_not_make_up_for_a_slow_one(void **state)
{
    (void)state;
    struct endpoint endpoint = { .in_flight = 0 };
    endpoint_timed(&endpoint, 9900);
    int answers = 0;
    while (endpoint_pace(&endpoint) == ENDPOINT_SLOW && answers < 100) {
        endpoint_timed(&endpoint, 1);
        answers++;
    }
    assert_in_range(answers, 10, 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_double_up_to_the_longest),
        cmocka_unit_test(an_endpoint_that_fails_is_left_alone_as_a_whole),
        cmocka_unit_test(tries_that_fail_together_count_once),
        cmocka_unit_test(an_endpoint_may_ask_for_more_time),
        cmocka_unit_test(another_url_is_another_chance),
        cmocka_unit_test(the_slower_an_endpoint_the_fewer_at_a_time),
        cmocka_unit_test(one_quick_answer_does_not_make_up_for_a_slow_one),
    };
    return cmocka_run_group_tests_name("endpoint", tests, NULL, NULL);
}
