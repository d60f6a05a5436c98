/* Who may send how many messages: a crowd of slow endpoints leaves places for the quick, and nobody has two before all have
 * one. */
#include "courier/sharing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define PLACES 64

static struct endpoint endpoint_of(enum endpoint_pace pace, uint32_t in_flight)
{
    return (struct endpoint){ .known_pace = pace != ENDPOINT_UNKNOWN,
                              .mean_ms = pace == ENDPOINT_SLOW ? 5000 : 1,
                              .in_flight = in_flight };
}

/* Endpoints of a pace with this many messages each. */
static void add(struct sharing *sharing, enum endpoint_pace pace, uint32_t endpoints, uint32_t in_flight)
{
    struct endpoint endpoint = endpoint_of(pace, in_flight);
    for (uint32_t i = 0; i < endpoints; i++) sharing_count(sharing, &endpoint);
}

static uint32_t room(const struct sharing *sharing, enum sharing_turn turn, enum endpoint_pace pace, uint32_t in_flight)
{
    struct endpoint endpoint = endpoint_of(pace, in_flight);
    return sharing_room(sharing, turn, &endpoint, 100);
}

static void the_slow_have_half_of_the_places(void **state)
{
    (void)state;
    struct sharing sharing = { .places = PLACES };
    add(&sharing, ENDPOINT_SLOW, 31, 1);
    assert_int_equal(room(&sharing, SHARING_SLOW, ENDPOINT_SLOW, 0), 1);
    add(&sharing, ENDPOINT_SLOW, 1, 1);
    assert_int_equal(room(&sharing, SHARING_SLOW, ENDPOINT_SLOW, 0), 0);
    assert_int_equal(room(&sharing, SHARING_MORE, ENDPOINT_SLOW, 1), 0);
    assert_int_equal(room(&sharing, SHARING_UNKNOWN, ENDPOINT_UNKNOWN, 0), 1);
    assert_int_equal(room(&sharing, SHARING_QUICK, ENDPOINT_QUICK, 0), 1);
}

static void the_unknown_leave_a_quarter_to_the_quick(void **state)
{
    (void)state;
    struct sharing sharing = { .places = PLACES };
    add(&sharing, ENDPOINT_SLOW, 32, 1);
    add(&sharing, ENDPOINT_UNKNOWN, 16, 1);
    assert_int_equal(room(&sharing, SHARING_UNKNOWN, ENDPOINT_UNKNOWN, 0), 0);
    assert_int_equal(room(&sharing, SHARING_QUICK, ENDPOINT_QUICK, 0), 1);
    assert_int_equal(room(&sharing, SHARING_QUICK, ENDPOINT_UNKNOWN, 0), 0); /* not its turn */
}

static void who_has_a_place_leaves_the_last_ones_to_who_has_none(void **state)
{
    (void)state;
    struct sharing sharing = { .places = PLACES };
    add(&sharing, ENDPOINT_QUICK, 1, 1);
    assert_int_equal(room(&sharing, SHARING_MORE, ENDPOINT_QUICK, 1), 15);
    assert_int_equal(room(&sharing, SHARING_QUICK, ENDPOINT_QUICK, 1), 0);
    assert_int_equal(room(&sharing, SHARING_MORE, ENDPOINT_QUICK, 0), 0);
    add(&sharing, ENDPOINT_QUICK, 5, 1);
    assert_int_equal(room(&sharing, SHARING_MORE, ENDPOINT_QUICK, 1), 7); /* an eighth of 48 each */
    struct sharing full = { .places = PLACES };
    add(&full, ENDPOINT_QUICK, 3, 16);
    assert_int_equal(room(&full, SHARING_MORE, ENDPOINT_QUICK, 1), 0);
    assert_int_equal(room(&full, SHARING_QUICK, ENDPOINT_QUICK, 0), 1);
    assert_int_equal(room(&full, SHARING_UNKNOWN, ENDPOINT_UNKNOWN, 0), 1);
    add(&full, ENDPOINT_QUICK, 16, 1);
    assert_int_equal(room(&full, SHARING_QUICK, ENDPOINT_QUICK, 0), 0);
}

static void two_places_are_enough_for_everyone_to_have_a_turn(void **state)
{
    (void)state;
    struct sharing sharing = { .places = 2 };
    assert_int_equal(room(&sharing, SHARING_SLOW, ENDPOINT_SLOW, 0), 1);
    add(&sharing, ENDPOINT_SLOW, 1, 1);
    assert_int_equal(room(&sharing, SHARING_SLOW, ENDPOINT_SLOW, 0), 0);
    assert_int_equal(room(&sharing, SHARING_UNKNOWN, ENDPOINT_UNKNOWN, 0), 1);
    assert_int_equal(room(&sharing, SHARING_QUICK, ENDPOINT_QUICK, 0), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_slow_have_half_of_the_places),
        cmocka_unit_test(the_unknown_leave_a_quarter_to_the_quick),
        cmocka_unit_test(who_has_a_place_leaves_the_last_ones_to_who_has_none),
        cmocka_unit_test(two_places_are_enough_for_everyone_to_have_a_turn),
    };
    return cmocka_run_group_tests_name("sharing", tests, NULL, NULL);
}
