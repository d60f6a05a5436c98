/* admit_max: never one more than that, from however many threads; and nobody is counted who took nothing. */
#include "guard/admission.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const struct board_notice running = {
    .sale_id = 5,
    .opens_ms = 100,
    .closes_ms = 200,
    .available = 50,
    .units_per_grab_max = 1,
    .admission = ADMISSION_LOGIN,
    .admit_max = 3,
};
static const struct grab grab = { .sale_id = 5, .units = 1, .now_ms = 150 };

static struct admission_counts *counts_open(void)
{
    struct admission_counts *counts;
    assert_int_equal(admission_open(&counts), FAULT_NONE);
    return counts;
}

/* How many have entered: of so many as may, those for whom there is no room. */
static uint32_t entered(struct admission_counts *counts, const struct board_notice *notice)
{
    uint32_t room = 0;
    while (admission_enter(counts, notice, &grab)) room++;
    for (uint32_t i = 0; i < room; i++) admission_settle(counts, notice->sale_id, VERDICT_REPEATED);
    return notice->admit_max - room;
}

static void as_many_enter_as_may_and_no_more(void **state)
{
    (void)state;
    struct admission_counts *counts = counts_open();
    for (int i = 0; i < 3; i++) assert_true(admission_enter(counts, &running, &grab));
    for (int i = 0; i < 3; i++) assert_false(admission_enter(counts, &running, &grab));
    assert_int_equal(entered(counts, &running), 3);
    struct board_notice none = running;
    none.admit_max = 0;
    for (int i = 0; i < 9; i++) assert_true(admission_enter(counts, &none, &grab));
    assert_int_equal(entered(counts, &running), 3);
    admission_close(counts);
}

static void a_sale_that_does_not_run_counts_nobody(void **state)
{
    (void)state;
    struct admission_counts *counts = counts_open();
    struct board_notice notices[7];
    struct grab grabs[7];
    for (int i = 0; i < 7; i++) notices[i] = running, grabs[i] = grab;
    notices[0].closed = true;
    notices[1].paused = true;
    notices[2].available = 0;
    grabs[3].now_ms = 99;
    grabs[4].now_ms = 200;
    notices[5].admission = ADMISSION_TOKEN;
    notices[6].admission = ADMISSION_LINE;
    grabs[6].token_brought = true; /* and is no good */
    for (int i = 0; i < 7; i++) {
        for (int round = 0; round < 9; round++) assert_false(admission_enter(counts, &notices[i], &grabs[i]));
        assert_int_equal(entered(counts, &running), 0);
    }
    grabs[5].token_nonce = 9;
    assert_true(admission_enter(counts, &notices[5], &grabs[5]));
    grabs[6].token_nonce = 9;
    assert_true(admission_enter(counts, &notices[6], &grabs[6]));
    notices[5].admission = ADMISSION_LOGIN; /* takes no notice of what is brought */
    grabs[5] = grab;
    grabs[5].token_brought = true;
    assert_true(admission_enter(counts, &notices[5], &grabs[5]));
    admission_close(counts);
}

static void who_took_nothing_the_guard_could_not_know_of_is_taken_back(void **state)
{
    (void)state;
    for (enum verdict verdict = 0; verdict < VERDICT_COUNT; verdict++) {
        bool counts_on = verdict == VERDICT_WON || verdict == VERDICT_SOLD_OUT || verdict == VERDICT_UNKNOWN;
        struct admission_counts *counts = counts_open();
        assert_true(admission_enter(counts, &running, &grab));
        admission_settle(counts, 5, verdict);
        assert_int_equal(entered(counts, &running), counts_on ? 1 : 0);
        admission_settle(counts, 5 + SALES_OPEN_MAX, VERDICT_REPEATED);
        admission_settle(counts, 6, VERDICT_REPEATED);
        assert_int_equal(entered(counts, &running), counts_on ? 1 : 0);
        admission_close(counts);
    }
}

static void after_a_restart_the_orders_made_count(void **state)
{
    (void)state;
    struct admission_counts *counts = counts_open();
    struct board_notice notice = running;
    notice.orders_made = 2;
    assert_true(admission_enter(counts, &notice, &grab));
    notice.orders_made = 3; /* that one has won, and is not counted twice */
    assert_false(admission_enter(counts, &notice, &grab));
    admission_close(counts);

    counts = counts_open();
    notice.orders_made = UINT64_MAX;
    assert_false(admission_enter(counts, &notice, &grab));
    admission_close(counts);
}

static void the_next_sale_in_a_slot_begins_anew(void **state)
{
    (void)state;
    struct admission_counts *counts = counts_open();
    struct board_notice next = running;
    next.sale_id = running.sale_id + SALES_OPEN_MAX;
    for (int i = 0; i < 3; i++) assert_true(admission_enter(counts, &running, &grab));
    for (int i = 0; i < 3; i++) assert_true(admission_enter(counts, &next, &grab));
    assert_false(admission_enter(counts, &next, &grab));
    assert_false(admission_enter(counts, &running, &grab)); /* one who is late finds another sale there */
    assert_int_equal(entered(counts, &next), 3);
    admission_close(counts);
}

enum { THREADS = 4, TRIES = 50000, PLACES = 30000 };

struct rush {
    struct admission_counts *counts;
    _Atomic uint32_t entered;
};

/* Every third is taken back, as a repeat would be. */
static void *rush_run(void *arg)
{
    struct rush *rush = arg;
    struct board_notice notice = running;
    notice.admit_max = PLACES;
    uint32_t entered = 0;
    for (uint32_t i = 0; i < TRIES; i++) {
        if (!admission_enter(rush->counts, &notice, &grab)) continue;
        if (i % 3 == 0) {
            admission_settle(rush->counts, notice.sale_id, VERDICT_REPEATED);
        } else {
            entered++;
        }
    }
    atomic_fetch_add(&rush->entered, entered);
    return NULL;
}

static void from_many_threads_it_is_the_same_number(void **state)
{
    (void)state;
    struct rush rush = { .counts = counts_open() };
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, rush_run, &rush), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&rush.entered), PLACES);
    struct board_notice notice = running;
    notice.admit_max = PLACES;
    assert_false(admission_enter(rush.counts, &notice, &grab));
    notice.admit_max = PLACES + 5;
    assert_int_equal(entered(rush.counts, &notice), PLACES);
    admission_close(rush.counts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_many_enter_as_may_and_no_more),
        cmocka_unit_test(a_sale_that_does_not_run_counts_nobody),
        cmocka_unit_test(who_took_nothing_the_guard_could_not_know_of_is_taken_back),
        cmocka_unit_test(after_a_restart_the_orders_made_count),
        cmocka_unit_test(the_next_sale_in_a_slot_begins_anew),
        cmocka_unit_test(from_many_threads_it_is_the_same_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
