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

static void a_row_is_left_alone_until_its_time_and_remembered_until_it_was_had(void **state)
{
    struct kept *kept = *state;
    assert_false(kept_has(kept, 7));
    kept_add(kept, 7, mono_ms() + LATER_MS);
    assert_true(kept_has(kept, 7) && kept_now(kept, 7));
    assert_false(kept_has(kept, 8) || kept_now(kept, 8));
    kept_add(kept, 7, mono_ms());
    assert_true(kept_has(kept, 7));
    assert_false(kept_now(kept, 7));
    kept_remove(kept, 7);
    kept_remove(kept, 7);
    assert_false(kept_has(kept, 7));
    kept_add(kept, 8, UINT64_MAX);
    assert_true(kept_now(kept, 8));
}

static void of_more_than_there_is_room_for_the_one_tried_longest_ago_is_forgotten(void **state)
{
    struct kept *kept = *state;
    uint64_t until_ms = mono_ms() + LATER_MS;
    for (uint64_t id = 1; id <= KEPT_MAX; id++) kept_add(kept, id, until_ms + id);
    kept_add(kept, 1, until_ms + KEPT_MAX + 1);
    kept_add(kept, 100, until_ms);
    assert_false(kept_has(kept, 2));
    for (uint64_t id = 1; id <= KEPT_MAX; id++) assert_true(id == 2 || kept_now(kept, id));
    assert_true(kept_now(kept, 100));
    for (uint64_t id = 1; id <= 100; id++) kept_remove(kept, id);
    kept_add(kept, 5, until_ms);
    assert_true(kept_now(kept, 5));
    assert_false(kept_has(kept, 100));
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
        cmocka_unit_test_setup_teardown(a_row_is_left_alone_until_its_time_and_remembered_until_it_was_had, setup, teardown),
        cmocka_unit_test_setup_teardown(of_more_than_there_is_room_for_the_one_tried_longest_ago_is_forgotten, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_wait_counts_for_whoever_was_there_before_its_end, setup, teardown),
    };
    return cmocka_run_group_tests_name("kept", tests, NULL, NULL);
}
