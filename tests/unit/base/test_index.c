#include "base/index.h"

#include "tests/unit/base/dice.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

/* The key is what the owner compares; several keys share a hash. */
struct cell {
    uint32_t key, link, hash, other_link;
};

struct world {
    struct pool pool;
    struct index index;
};

static struct cell *cell_at(const struct world *world, uint32_t cell)
{
    return pool_cell(&world->pool, cell);
}

static void world_open(struct world *world, uint32_t cells_max)
{
    assert_int_equal(pool_open(&world->pool, sizeof(struct cell), cells_max), FAULT_NONE);
    assert_int_equal(index_open(&world->index, &world->pool, offsetof(struct cell, hash), offsetof(struct cell, link)),
                     FAULT_NONE);
}

static void world_close(struct world *world)
{
    index_close(&world->index);
    pool_close(&world->pool);
}

static uint32_t world_put(struct world *world, uint32_t key, uint32_t hash)
{
    uint32_t cell = pool_acquire(&world->pool);
    assert_int_not_equal(cell, 0);
    cell_at(world, cell)->key = key;
    cell_at(world, cell)->hash = hash;
    index_put(&world->index, cell);
    return cell;
}

static uint32_t world_find(const struct world *world, uint32_t key, uint32_t hash)
{
    uint32_t cell = index_first(&world->index, hash);
    while (cell != 0 && cell_at(world, cell)->key != key) cell = index_next(&world->index, cell);
    return cell;
}

static void an_empty_index_finds_nothing(void **state)
{
    (void)state;
    struct world world;
    world_open(&world, 1);
    static const uint32_t hashes[] = { 0, 1, 63, 64, 127, 0x80000000, 0xffffffff };
    for (size_t i = 0; i < sizeof hashes / sizeof hashes[0]; i++) {
        assert_int_equal(index_first(&world.index, hashes[i]), 0);
    }
    world_close(&world);
}

static void entries_that_share_a_hash_are_all_found_newest_first(void **state)
{
    (void)state;
    struct world world;
    world_open(&world, 500);
    for (uint32_t key = 1; key <= 500; key++) (void)world_put(&world, key, key % 5 == 0 ? 77 : key * 64 + 77);
    uint32_t want = 500;
    for (uint32_t cell = index_first(&world.index, 77); cell != 0; cell = index_next(&world.index, cell)) {
        assert_int_equal(cell_at(&world, cell)->key, want);
        want -= 5;
    }
    assert_int_equal(want, 0);
    world_close(&world);
}

static void a_removed_entry_is_gone_and_its_neighbours_stay(void **state)
{
    (void)state;
    /* All in one chain; take out the first, the last and one in the middle. */
    static const uint32_t outs[] = { 1, 5, 9 };
    for (size_t i = 0; i < sizeof outs / sizeof outs[0]; i++) {
        struct world world;
        world_open(&world, 9);
        for (uint32_t key = 1; key <= 9; key++) (void)world_put(&world, key, 42);
        index_remove(&world.index, world_find(&world, outs[i], 42));
        for (uint32_t key = 1; key <= 9; key++) {
            uint32_t cell = world_find(&world, key, 42);
            if (key == outs[i]) {
                assert_int_equal(cell, 0);
            } else {
                assert_int_not_equal(cell, 0);
            }
        }
        assert_int_equal(world.index.count, 8);
        world_close(&world);
    }
}

static void a_replacement_stands_where_the_old_one_stood(void **state)
{
    (void)state;
    struct world world;
    world_open(&world, 4);
    (void)world_put(&world, 1, 9);
    uint32_t old = world_put(&world, 2, 9);
    (void)world_put(&world, 3, 9);
    uint32_t new = pool_acquire(&world.pool);
    *cell_at(&world, new) = (struct cell){ .key = 20, .hash = 9 };
    index_replace(&world.index, old, new);

    static const uint32_t want[] = { 3, 20, 1 };
    uint32_t cell = index_first(&world.index, 9);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(cell_at(&world, cell)->key, want[i]);
        cell = index_next(&world.index, cell);
    }
    assert_int_equal(cell, 0);
    assert_int_equal(world.index.count, 3);
    world_close(&world);
}

/* Every key has at most one cell here, so the model is an array. Some hashes collide wholly, some only in their low bits. */
#define KEYS UINT32_C(20000)

static uint32_t hash_of_key(uint32_t key)
{
    uint64_t dice = key;
    uint32_t hash = (uint32_t)dice_roll(&dice);
    if (key % 7 == 0) return hash & 0xff;
    if (key % 11 == 0) return hash << 16;
    return hash;
}

static void model_compare(const struct world *world, const uint32_t *model, uint32_t key)
{
    uint32_t found = world_find(world, key, hash_of_key(key));
    if (found != model[key]) fail_msg("key %u: found cell %u, want %u", key, found, model[key]);
}

static void a_million_random_operations_agree_with_a_plain_array(void **state)
{
    (void)state;
    uint64_t dice = dice_seed();
    uint32_t *model = calloc(KEYS, sizeof *model);
    assert_non_null(model);
    struct world world;
    world_open(&world, KEYS + 1);
    uint32_t count = 0;

    for (uint32_t step = 0; step < 1000000; step++) {
        uint32_t key = dice_below(&dice, KEYS), roll = dice_below(&dice, 100);
        /* Fill, then churn, then drain, then fill again. */
        uint32_t puts = step % 400000 < 100000 ? 60 : step % 400000 < 300000 ? 30 : 10;
        if (roll < 30) {
            model_compare(&world, model, key);
        } else if (roll < 30 + puts) {
            if (model[key] == 0) {
                model[key] = world_put(&world, key, hash_of_key(key));
                count++;
            } else {
                uint32_t new = pool_acquire(&world.pool);
                *cell_at(&world, new) = (struct cell){ .key = key, .hash = hash_of_key(key) };
                index_replace(&world.index, model[key], new);
                pool_release(&world.pool, model[key]);
                model[key] = new;
            }
        } else if (model[key] != 0) {
            index_remove(&world.index, model[key]);
            pool_release(&world.pool, model[key]);
            model[key] = 0;
            count--;
        }
        assert_int_equal(world.index.count, count);
    }
    for (uint32_t key = 0; key < KEYS; key++) model_compare(&world, model, key);
    world_close(&world);
    free(model);
}

/* The promise of the header: there are buckets enough for a full pool. */
static void chains_stay_short_up_to_a_full_pool(void **state)
{
    (void)state;
    enum { CELLS = 100000 };
    struct world world;
    world_open(&world, CELLS);
    uint32_t buckets = world.index.mask + 1;
    assert_in_range(buckets, CELLS / 2 + 1, CELLS);
    assert_true(buckets * sizeof(uint32_t) <= world.index.buckets.size);
    for (uint32_t key = 1; key <= CELLS; key++) {
        uint64_t dice = key;
        (void)world_put(&world, key, (uint32_t)dice_roll(&dice));
    }

    uint32_t longest = 0;
    for (uint32_t bucket = 0; bucket < buckets; bucket++) {
        uint32_t length = 0;
        for (uint32_t cell = ((uint32_t *)(void *)world.index.buckets.base)[bucket]; cell != 0;
             cell = cell_at(&world, cell)->link) {
            length++;
        }
        if (length > longest) longest = length;
    }
    /* A load of one and a half leaves the longest of 65,536 chains at about 10; 24 would be a broken spread. */
    assert_in_range(longest, 2, 24);
    for (uint32_t key = 1; key <= CELLS; key++) {
        uint64_t dice = key;
        assert_int_not_equal(world_find(&world, key, (uint32_t)dice_roll(&dice)), 0);
    }
    world_close(&world);
}

static void what_is_made_ready_is_counted_and_finds_what_was_there(void **state)
{
    (void)state;
    enum { CELLS = 3000000 };
    struct world world;
    world_open(&world, CELLS);
    for (uint32_t key = 1; key <= 1000; key++) (void)world_put(&world, key, key * 2654435761u);
    uint64_t touched = index_bytes(&world.index);
    uint32_t parts = 0;
    while (index_make_ready(&world.index, parts)) parts++;
    bool known = region_populate(&world.index.buckets, 0, 1);
    assert_true(touched < world.index.buckets.size && (known ? parts > 2 : parts == 0));
    assert_int_equal(index_bytes(&world.index), known ? world.index.buckets.size : touched);
    for (uint32_t key = 1; key <= 1000; key++) assert_int_not_equal(world_find(&world, key, key * 2654435761u), 0);
    world_close(&world);
}

static void what_is_touched_is_counted_up_to_the_whole_table(void **state)
{
    (void)state;
    enum { CELLS = 100000 };
    struct world world;
    world_open(&world, CELLS);
    assert_int_equal(index_bytes(&world.index), 0);
    index_remove(&world.index, world_put(&world, 1, 1));
    assert_int_equal(index_bytes(&world.index), sysconf(_SC_PAGESIZE)); /* the page stays */
    for (uint32_t key = 2; key <= CELLS; key++) (void)world_put(&world, key, key);
    assert_int_equal(index_bytes(&world.index), world.index.buckets.size);
    world_close(&world);
}

static void two_indexes_share_the_cells_of_one_pool(void **state)
{
    (void)state;
    struct world world;
    world_open(&world, 1000);
    struct index by_key;
    assert_int_equal(index_open(&by_key, &world.pool, offsetof(struct cell, key), offsetof(struct cell, other_link)),
                     FAULT_NONE);
    for (uint32_t key = 1; key <= 1000; key++) index_put(&by_key, world_put(&world, key, key % 10));
    for (uint32_t key = 1; key <= 1000; key++) {
        uint32_t cell = index_first(&by_key, key);
        assert_int_equal(cell_at(&world, cell)->key, key);
        assert_int_equal(world_find(&world, key, key % 10), cell);
    }
    index_close(&by_key);
    world_close(&world);
}

/* What decides without a lock who certainly is not there. */
static void nothing_that_is_there_is_ever_denied(void **state)
{
    (void)state;
    enum { CELLS = 500, STEPS = 20000 };
    uint64_t dice = dice_seed();
    struct world world;
    uint32_t cells[CELLS], count = 0;
    world_open(&world, CELLS);
    for (int step = 0; step < STEPS; step++) {
        if (count < CELLS && dice_below(&dice, 2) == 0) {
            cells[count++] = world_put(&world, 0, (uint32_t)dice_roll(&dice));
        } else if (count > 0) {
            uint32_t at = dice_below(&dice, count);
            index_remove(&world.index, cells[at]);
            pool_release(&world.pool, cells[at]);
            cells[at] = cells[--count];
        }
        for (uint32_t i = 0; i < count; i += 7) assert_true(index_may_have(&world.index, cell_at(&world, cells[i])->hash));
    }
    while (count > 0) index_remove(&world.index, cells[--count]);
    for (uint32_t hash = 0; hash <= world.index.mask; hash++) assert_false(index_may_have(&world.index, hash));
    world_close(&world);
}

static void a_full_sparse_index_still_denies_some_who_are_not_there(void **state)
{
    (void)state;
    enum { CELLS = 100000 };
    uint64_t dice = dice_seed();
    struct world world;
    world_open(&world, CELLS);
    index_close(&world.index);
    assert_int_equal(index_open_sparse(&world.index, &world.pool, offsetof(struct cell, hash), offsetof(struct cell, link)),
                     FAULT_NONE);
    uint32_t denied[2] = { 0, 0 };
    for (uint32_t i = 0; i < CELLS; i++) {
        world_put(&world, i, (uint32_t)dice_roll(&dice));
        if (i != CELLS / 10 && i != CELLS - 1) continue;
        for (uint32_t j = 0; j < CELLS; j++)
            denied[i == CELLS - 1] += !index_may_have(&world.index, (uint32_t)dice_roll(&dice));
    }
    assert_true(denied[0] > CELLS / 10 * 9);
    assert_true(denied[1] > CELLS / 3);
    world_close(&world);
}

struct watch {
    struct world world;
    uint32_t hash;
    _Atomic bool over;
    _Atomic uint64_t looks;
    uint64_t denials;
};

static void *watch_run(void *arg)
{
    struct watch *watch = arg;
    while (!watch->over) {
        watch->denials += !index_may_have(&watch->world.index, watch->hash);
        watch->looks++;
    }
    return NULL;
}

static uint32_t watch_put(struct watch *watch)
{
    return world_put(&watch->world, 0, watch->hash);
}

static void watch_remove(struct watch *watch, uint32_t cell)
{
    index_remove(&watch->world.index, cell);
    pool_release(&watch->world.pool, cell);
}

static uint32_t watch_replace(struct watch *watch, uint32_t cell)
{
    uint32_t fresh = pool_acquire(&watch->world.pool);
    cell_at(&watch->world, fresh)->hash = watch->hash;
    index_replace(&watch->world.index, cell, fresh);
    pool_release(&watch->world.pool, cell);
    return fresh;
}

/* It is replaced while it is alone, the first and the last of its bucket; others come and go before it and behind it. */
static void one_that_stays_is_seen_by_another_thread_all_the_time(void **state)
{
    (void)state;
    struct watch watch = { .hash = 7 };
    world_open(&watch.world, 64);
    uint32_t stays = watch_put(&watch);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, watch_run, &watch), 0);
    while (watch.looks == 0) sched_yield();
    for (int i = 0; i < 100000; i++) {
        stays = watch_replace(&watch, stays);
        uint32_t other = watch_put(&watch);
        stays = watch_replace(&watch, stays);
        uint32_t again = watch_put(&watch);
        watch_remove(&watch, stays);
        stays = watch_replace(&watch, again);
        watch_remove(&watch, other);
    }
    watch.over = true;
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(watch.denials, 0);
    world_close(&watch.world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_index_finds_nothing),
        cmocka_unit_test(entries_that_share_a_hash_are_all_found_newest_first),
        cmocka_unit_test(a_removed_entry_is_gone_and_its_neighbours_stay),
        cmocka_unit_test(a_replacement_stands_where_the_old_one_stood),
        cmocka_unit_test(a_million_random_operations_agree_with_a_plain_array),
        cmocka_unit_test(chains_stay_short_up_to_a_full_pool),
        cmocka_unit_test(what_is_touched_is_counted_up_to_the_whole_table),
        cmocka_unit_test(what_is_made_ready_is_counted_and_finds_what_was_there),
        cmocka_unit_test(two_indexes_share_the_cells_of_one_pool),
        cmocka_unit_test(nothing_that_is_there_is_ever_denied),
        cmocka_unit_test(a_full_sparse_index_still_denies_some_who_are_not_there),
        cmocka_unit_test(one_that_stays_is_seen_by_another_thread_all_the_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
