#include "base/pool.h"

#include "tests/unit/base/dice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void cells_are_numbered_from_one_and_run_out(void **state)
{
    (void)state;
    struct pool pool;
    assert_int_equal(pool_open(&pool, 16, 3), FAULT_NONE);
    assert_int_equal(pool_acquire(&pool), 1);
    assert_int_equal(pool_acquire(&pool), 2);
    assert_int_equal(pool_acquire(&pool), 3);
    assert_int_equal(pool.used, 3);
    assert_int_equal(pool_acquire(&pool), 0);
    assert_int_equal(pool_acquire(&pool), 0);
    assert_int_equal(pool.used, 3);
    pool_close(&pool);
}

static void a_released_cell_comes_back_before_a_fresh_one(void **state)
{
    (void)state;
    struct pool pool;
    assert_int_equal(pool_open(&pool, 4, 10), FAULT_NONE);
    uint32_t a = pool_acquire(&pool), b = pool_acquire(&pool);
    pool_release(&pool, a);
    pool_release(&pool, b);
    assert_int_equal(pool.used, 0);
    assert_int_equal(pool_acquire(&pool), b);
    assert_int_equal(pool_acquire(&pool), a);
    assert_int_equal(pool_acquire(&pool), 3);
    pool_close(&pool);
}

/* In parts, each cell's once, by whoever comes first: who makes ready, or a cell that is used before that. */
static void memory_is_made_ready_ahead_in_parts_and_only_of_fresh_cells(void **state)
{
    (void)state;
    enum { CELLS = 400000, PART = (2 << 20) / 16, EXTENDED = 65536 / 16 };
    struct pool pool;
    assert_int_equal(pool_open(&pool, 16, CELLS), FAULT_NONE);
    assert_int_equal(pool_bytes(&pool), 0);
    assert_int_equal(pool_reach(&pool, 0), 0);
    assert_false(pool_make_ready(&pool, 0));
    const uint32_t reach = pool_reach(&pool, 2 * PART - 1);
    assert_int_equal(reach, 2 * PART - 1);
    if (region_populate(&pool.region, 0, 1)) {
        assert_true(pool_make_ready(&pool, reach));
        assert_int_equal(pool_bytes(&pool), 16 * PART);
        assert_true(pool_make_ready(&pool, reach));
        assert_int_equal(pool_bytes(&pool), 16 * reach);
    }
    assert_false(pool_make_ready(&pool, reach)); /* it is there, or cannot be had */
    for (uint32_t i = 1; i <= reach; i++) assert_int_equal(pool_acquire(&pool), i);
    const uint64_t before = pool_bytes(&pool);
    uint32_t last = pool_acquire(&pool);
    assert_true(pool_bytes(&pool) >= before && pool_bytes(&pool) <= before + UINT64_C(16) * EXTENDED);

    for (uint32_t cell = 1; cell <= last; cell++) pool_release(&pool, cell);
    assert_int_equal(pool_reach(&pool, last), last); /* they come back first */
    assert_int_equal(pool_reach(&pool, last + 5), last + 5);
    assert_int_equal(pool_reach(&pool, UINT32_MAX), CELLS);
    while (pool_make_ready(&pool, CELLS)) {
    }
    for (uint32_t i = 0; i < CELLS; i++) memset(pool_cell(&pool, pool_acquire(&pool)), 1, 16);
    assert_int_equal(pool_acquire(&pool), 0);
    assert_int_equal(pool_bytes(&pool), UINT64_C(16) * CELLS);
    pool_close(&pool);
}

static void cells_do_not_overlap_and_fresh_ones_are_zero(void **state)
{
    (void)state;
    enum { CELLS = 40000 }; /* their memory is asked for in several parts, whatever their size */
    static const uint32_t sizes[] = { 4, 5, 7, 16, 64, 1000 };
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        struct pool pool;
        assert_int_equal(pool_open(&pool, sizes[s], CELLS), FAULT_NONE);
        uint8_t zeros[1000] = { 0 };
        for (uint32_t cell = pool_acquire(&pool); cell != 0; cell = pool_acquire(&pool)) {
            assert_memory_equal(pool_cell(&pool, cell), zeros, sizes[s]);
            memset(pool_cell(&pool, cell), (int)(cell % 251), sizes[s]);
        }
        assert_int_equal(pool.used, CELLS);
        for (uint32_t cell = 1; cell <= CELLS; cell++) {
            const uint8_t *bytes = pool_cell(&pool, cell);
            assert_int_equal(bytes[0], cell % 251);
            assert_memory_equal(bytes, bytes + 1, sizes[s] - 1);
        }
        pool_close(&pool);
    }
}

/* Whatever the order of taking and giving back, no cell has two owners and every cell can be had. */
static void random_use_never_gives_a_cell_twice(void **state)
{
    (void)state;
    enum { CELLS = 200, STEPS = 200000 };
    for (uint64_t seed = 1; seed <= 3; seed++) {
        uint64_t dice = seed;
        bool owned[CELLS + 1] = { false };
        uint32_t list[CELLS], owned_count = 0;
        struct pool pool;
        assert_int_equal(pool_open(&pool, 12, CELLS), FAULT_NONE);
        for (int step = 0; step < STEPS; step++) {
            /* Lean one way for a while, so that the pool is now full, now empty. */
            bool take = dice_below(&dice, 10) < (step / 5000 % 2 ? 4u : 6u);
            if (take) {
                uint32_t cell = pool_acquire(&pool);
                if (owned_count == CELLS) {
                    assert_int_equal(cell, 0);
                    continue;
                }
                assert_in_range(cell, 1, CELLS);
                assert_false(owned[cell]);
                owned[cell] = true;
                list[owned_count++] = cell;
                memset(pool_cell(&pool, cell), 0xff, 12);
            } else if (owned_count > 0) {
                uint32_t at = dice_below(&dice, owned_count);
                uint32_t cell = list[at];
                list[at] = list[--owned_count];
                owned[cell] = false;
                pool_release(&pool, cell);
            }
            assert_int_equal(pool.used, owned_count);
        }
        pool_close(&pool);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_are_numbered_from_one_and_run_out),
        cmocka_unit_test(a_released_cell_comes_back_before_a_fresh_one),
        cmocka_unit_test(memory_is_made_ready_ahead_in_parts_and_only_of_fresh_cells),
        cmocka_unit_test(cells_do_not_overlap_and_fresh_ones_are_zero),
        cmocka_unit_test(random_use_never_gives_a_cell_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
