/* What was counted is told once, whoever counts meanwhile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "guard/tally.h"

#include "tests/unit/base/dice.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { MAX = 64, SETS = 512, WAYS = 8 };

static struct tally *tally_made(void)
{
    struct tally *tally;
    assert_int_equal(tally_open(&tally, 5), FAULT_NONE);
    return tally;
}

/* All that is there, added up; the number of places it was in. */
static uint32_t emptied(struct tally *tally, uint64_t now_ns, int64_t *sum)
{
    struct tally_count counts[MAX];
    uint32_t places = 0;
    *sum = 0;
    for (uint32_t group = 0; group < TALLY_GROUPS; group++) {
        for (uint32_t count = 1; count > 0;) {
            count = tally_empty(tally, group, now_ns, counts, MAX);
            for (uint32_t i = 0; i < count; i++) *sum += counts[i].count;
            places += count;
        }
    }
    return places;
}

static void counts_are_told_once_with_their_key_and_kind(void **state)
{
    (void)state;
    struct tally *tally = tally_made();
    struct tally_count counts[MAX];
    const uint64_t key = UINT64_C(0xfedcba9876543000); /* of the first set */
    for (int i = 0; i < 7; i++) assert_true(tally_add(tally, key, 9, 1));
    assert_true(tally_add(tally, key, 9, -1));
    assert_true(tally_add(tally, key, 10, 1)); /* another kind is another bucket */
    assert_int_equal(tally_count(tally, key, 9), 6);
    assert_int_equal(tally_count(tally, key, 10), 1);
    assert_int_equal(tally_count(tally, key, 11), 0);
    assert_int_equal(tally_empty(tally, 0, 100, counts, MAX), 2);
    for (int i = 0; i < 2; i++) {
        assert_true(counts[i].key == key && counts[i].since_ns == 5);
        assert_int_equal(counts[i].count, counts[i].kind == 9 ? 6 : 1);
    }
    assert_int_equal(tally_empty(tally, 0, 200, counts, MAX), 0);
    assert_int_equal(tally_count(tally, key, 9), 0);
    assert_true(tally_add(tally, key, 9, -1)); /* given back after it was told */
    assert_int_equal(tally_empty(tally, 0, 300, counts, MAX), 1);
    assert_int_equal(counts[0].count, -1);
    assert_true(counts[0].since_ns == 200);
    tally_close(tally);
}

static void a_full_set_takes_no_more_until_it_is_emptied(void **state)
{
    (void)state;
    struct tally *tally = tally_made();
    int64_t sum;
    for (uint64_t i = 1; i <= WAYS; i++) assert_true(tally_add(tally, i << 40, 7, 1));
    assert_false(tally_add(tally, UINT64_C(99) << 40, 7, 1));
    assert_true(tally_add(tally, UINT64_C(3) << 40, 7, 1));
    assert_int_equal(emptied(tally, 10, &sum), WAYS);
    assert_int_equal(sum, WAYS + 1);
    assert_true(tally_add(tally, UINT64_C(99) << 40, 7, 1));
    tally_close(tally);
}

/* Every place in use: a few at a time, all of them come, each once. */
static void what_is_left_over_comes_next(void **state)
{
    (void)state;
    struct tally *tally = tally_made();
    struct tally_count counts[MAX];
    static uint8_t seen[SETS][WAYS + 1];
    for (uint64_t set = 0; set < SETS; set++) {
        for (uint64_t i = 1; i <= WAYS; i++) assert_true(tally_add(tally, i << 50 | set, 5, 1));
    }
    for (int turn = 0; turn < 10; turn++) {
        for (uint32_t group = 0; group < TALLY_GROUPS; group++) {
            uint32_t count = tally_empty(tally, group, 10, counts, 24);
            assert_true(count <= 24);
            for (uint32_t i = 0; i < count; i++) seen[counts[i].key % SETS][counts[i].key >> 50]++;
        }
    }
    int64_t sum;
    assert_int_equal(emptied(tally, 10, &sum), SETS * WAYS - 10 * TALLY_GROUPS * 24);
    for (int set = 0; set < SETS; set++) {
        for (int i = 1; i <= WAYS; i++) assert_true(seen[set][i] <= 1);
    }
    tally_close(tally);
}

/* Neither side runs over into the key. */
static void a_count_stops_at_what_fits(void **state)
{
    (void)state;
    struct tally *tally = tally_made();
    const uint64_t key = UINT64_C(0x8000000000000001);
    for (int i = 0; i < 600000; i++) assert_true(tally_add(tally, key, 5, 1));
    assert_int_equal(tally_count(tally, key, 5), (1 << 19) - 1);
    int64_t sum;
    assert_int_equal(emptied(tally, 10, &sum), 1);
    for (int i = 0; i < 600000; i++) assert_true(tally_add(tally, key, 5, -1));
    assert_int_equal(tally_count(tally, key, 5), -(1 << 19));
    assert_int_equal(emptied(tally, 10, &sum), 1);
    tally_close(tally);
}

enum { THREADS = 4, ADDS = 100000 };
struct crowd {
    struct tally *tally;
    _Atomic int64_t added;
    _Atomic int running;
    uint64_t seed;
};

static void *crowd_add(void *arg)
{
    struct crowd *crowd = arg;
    uint64_t dice = crowd->seed + (uint64_t)(uintptr_t)&dice;
    int64_t added = 0;
    for (int i = 0; i < ADDS; i++) {
        /* Few sets and more keys than fit, so that places are taken from each other all the time. */
        uint64_t key = (uint64_t)dice_below(&dice, 12) << 40 | dice_below(&dice, 2);
        int n = dice_below(&dice, 4) == 0 ? -1 : 1;
        if (tally_add(crowd->tally, key, 5 + (uint32_t)(key >> 40) % 2, n)) added += n;
    }
    atomic_fetch_add(&crowd->added, added);
    atomic_fetch_sub(&crowd->running, 1);
    return NULL;
}

static void nothing_is_lost_or_told_twice_among_threads(void **state)
{
    (void)state;
    struct crowd crowd = { .tally = tally_made(), .running = THREADS, .seed = dice_seed() };
    pthread_t threads[THREADS];
    int64_t told = 0, sum;
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, crowd_add, &crowd), 0);
    while (atomic_load(&crowd.running) > 0) {
        emptied(crowd.tally, 10, &sum);
        told += sum;
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    emptied(crowd.tally, 10, &sum);
    told += sum;
    if (told != atomic_load(&crowd.added)) fail_msg("%" PRId64 " told of %" PRId64, told, atomic_load(&crowd.added));
    tally_close(crowd.tally);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_told_once_with_their_key_and_kind),
        cmocka_unit_test(a_full_set_takes_no_more_until_it_is_emptied),
        cmocka_unit_test(what_is_left_over_comes_next),
        cmocka_unit_test(a_count_stops_at_what_fits),
        cmocka_unit_test(nothing_is_lost_or_told_twice_among_threads),
    };
    return cmocka_run_group_tests_name("tally", tests, NULL, NULL);
}
