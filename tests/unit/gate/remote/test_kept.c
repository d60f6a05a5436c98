/* What is known of rows that somebody keeps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "gate/remote/kept.h"

#define LATER_MS 600000

static int setup(void **state)
{
    static struct kept kept;
    kept_init(&kept);
    *state = &kept;
    return 0;
}

static int teardown(void **state)
{
    kept_deinit(*state);
    return 0;
}

static void a_row_that_does_not_change_is_kept_and_remembered_until_it_was_had(void **state)
{
    struct kept *kept = *state;
    uint64_t now_ms = mono_ms();
    assert_int_equal(kept_miss(kept, 7, 1, now_ms - 300), KEPT_UNSURE);
    assert_int_equal(kept_miss(kept, 7, 1, now_ms - 200), KEPT_UNSURE);
    assert_false(kept_has(kept, 7) || kept_now(kept, 7));
    assert_int_equal(kept_miss(kept, 7, 1, now_ms), KEPT_SURE);
    assert_true(kept_has(kept, 7) && kept_now(kept, 7));
    assert_false(kept_has(kept, 8) || kept_now(kept, 8));
    kept_remove(kept, 7);
    kept_remove(kept, 7);
    assert_false(kept_has(kept, 7));
    /* What is sure stays so at each try, however late, and is not left alone for ever. */
    assert_int_equal(kept_miss(kept, 8, 1, now_ms - 9000), KEPT_UNSURE);
    assert_int_equal(kept_miss(kept, 8, 1, now_ms - 8700), KEPT_SURE);
    assert_true(kept_has(kept, 8) && !kept_now(kept, 8));
    assert_int_equal(kept_miss(kept, 8, 1, now_ms), KEPT_SURE);
    assert_true(kept_now(kept, 8));
}

static void a_row_that_changes_is_in_demand(void **state)
{
    struct kept *kept = *state;
    uint64_t now_ms = mono_ms();
    for (uint64_t i = 0; i < 10; i++) {
        kept_wait(kept);
        assert_int_equal(kept_miss(kept, 7, i, now_ms + 2 * i * 200), KEPT_UNSURE);
        assert_int_equal(kept_miss(kept, 7, i + 1, now_ms + (2 * i + 1) * 200), KEPT_MOVES);
        assert_false(kept_has(kept, 7) || kept_since(kept, 0));
    }
    assert_int_equal(kept_miss(kept, 8, 1, now_ms - 400), KEPT_UNSURE);
    assert_int_equal(kept_miss(kept, 8, 1, now_ms), KEPT_SURE);
    assert_int_equal(kept_miss(kept, 8, 2, now_ms), KEPT_MOVES);
    assert_false(kept_has(kept, 8));
}

static void two_misses_far_apart_are_no_proof(void **state)
{
    struct kept *kept = *state;
    assert_int_equal(kept_miss(kept, 7, 1, 1000), KEPT_UNSURE);
    assert_int_equal(kept_miss(kept, 7, 1, 60000), KEPT_UNSURE);
    assert_int_equal(kept_miss(kept, 7, 1, 60300), KEPT_SURE);
}

static void of_more_than_there_is_room_for_the_one_tried_longest_ago_is_forgotten(void **state)
{
    struct kept *kept = *state;
    uint64_t now_ms = mono_ms();
    for (uint64_t id = 1; id <= KEPT_MAX; id++) {
        kept_miss(kept, id, 1, now_ms - 400);
        assert_int_equal(kept_miss(kept, id, 1, now_ms + id), KEPT_SURE);
    }
    assert_int_equal(kept_miss(kept, 1, 1, now_ms + KEPT_MAX + 1), KEPT_SURE);
    assert_int_equal(kept_miss(kept, 100, 1, now_ms + KEPT_MAX + 2), KEPT_UNSURE);
    assert_false(kept_has(kept, 2));
    for (uint64_t id = 1; id <= KEPT_MAX; id++) assert_true(id == 2 || kept_now(kept, id));
    assert_int_equal(kept_miss(kept, 100, 1, now_ms + KEPT_MAX + 302), KEPT_SURE);
    for (uint64_t id = 1; id <= 100; id++) kept_remove(kept, id);
    assert_false(kept_has(kept, 1) || kept_has(kept, 100));
}

static void a_wait_counts_for_whoever_was_there_before_its_end(void **state)
{
    struct kept *kept = *state;
    uint64_t before_ms = mono_ms() - 1;
    assert_false(kept_since(kept, before_ms));
    kept_wait(kept);
    assert_true(kept_since(kept, before_ms));
    assert_false(kept_since(kept, mono_ms()));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_row_that_does_not_change_is_kept_and_remembered_until_it_was_had, setup, teardown),
        cmocka_unit_test_setup_teardown(a_row_that_changes_is_in_demand, setup, teardown),
        cmocka_unit_test_setup_teardown(two_misses_far_apart_are_no_proof, setup, teardown),
        cmocka_unit_test_setup_teardown(of_more_than_there_is_room_for_the_one_tried_longest_ago_is_forgotten, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_wait_counts_for_whoever_was_there_before_its_end, setup, teardown),
    };
    return cmocka_run_group_tests_name("kept", tests, NULL, NULL);
}
