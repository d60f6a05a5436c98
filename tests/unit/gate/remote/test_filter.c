#include "gate/remote/filter.h"

#include "tests/unit/base/dice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void what_was_added_is_always_there(void **state)
{
    (void)state;
    struct filter filter;
    assert_int_equal(filter_open(&filter, 1000), FAULT_NONE);
    uint64_t dice = dice_seed(), again = dice;
    for (int i = 0; i < 1000; i++) filter_add(&filter, (uint32_t)dice_roll(&dice));
    for (int i = 0; i < 1000; i++) assert_true(filter_has(&filter, (uint32_t)dice_roll(&again)));
    filter_close(&filter);
}

/* Whatever was dropped must not take with it what shares its place. */
static void dropping_one_leaves_the_others(void **state)
{
    (void)state;
    struct filter filter;
    assert_int_equal(filter_open(&filter, 100), FAULT_NONE);
    uint64_t seed = dice_seed(), dice = seed;
    for (int i = 0; i < 200; i++) filter_add(&filter, (uint32_t)dice_roll(&dice));
    dice = seed;
    for (int i = 0; i < 200; i++) {
        filter_drop(&filter, (uint32_t)dice_roll(&dice));
        uint64_t rest = dice;
        for (int j = i + 1; j < 200; j++) assert_true(filter_has(&filter, (uint32_t)dice_roll(&rest)));
    }
    for (uint64_t hash = 0; hash <= UINT32_MAX; hash += 1 << 20) assert_false(filter_has(&filter, (uint32_t)hash));
    filter_close(&filter);
}

static void a_crowded_place_errs_towards_maybe(void **state)
{
    (void)state;
    struct filter filter;
    assert_int_equal(filter_open(&filter, 1), FAULT_NONE);
    for (int i = 0; i < 300; i++) filter_add(&filter, 7);
    for (int i = 0; i < 299; i++) filter_drop(&filter, 7);
    assert_true(filter_has(&filter, 7));
    filter_close(&filter);
}

static void the_highest_hash_has_a_place(void **state)
{
    (void)state;
    struct filter filter;
    assert_int_equal(filter_open(&filter, UINT32_C(16000000)), FAULT_NONE);
    filter_add(&filter, UINT32_MAX);
    assert_true(filter_has(&filter, UINT32_MAX));
    assert_false(filter_has(&filter, 0));
    filter_close(&filter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_added_is_always_there),
        cmocka_unit_test(dropping_one_leaves_the_others),
        cmocka_unit_test(a_crowded_place_errs_towards_maybe),
        cmocka_unit_test(the_highest_hash_has_a_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
