/* What is counted is what is read, by any thread, whichever sales have stood in the slot before. */
#include "gateway/counts.h"

#include "bounds.h"

#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define NOW UINT64_C(1800000000)

static struct counts *counts_make(uint32_t writers)
{
    struct counts *counts;
    assert_int_equal(counts_open(&counts, writers), FAULT_NONE);
    return counts;
}

static uint64_t total(const struct counts *counts, uint64_t sale_id, unsigned kind)
{
    uint64_t totals[COUNTED_KINDS];
    counts_totals(counts, sale_id, totals);
    return totals[kind];
}

static void second_is(const struct counts *counts, uint64_t sale_id, uint64_t second, const uint32_t want[3])
{
    struct counts_second at = counts_at(counts, sale_id, second);
    assert_int_equal(at.requests, want[0]);
    assert_int_equal(at.wins, want[1]);
    assert_int_equal(at.refusals, want[2]);
}
#define SECOND_IS(counts, sale, second, ...) second_is(counts, sale, second, (const uint32_t[3]){ __VA_ARGS__ })

static void an_answer_is_a_win_a_repeat_or_a_refusal(void **state)
{
    (void)state;
    struct counts *counts = counts_make(1);
    struct counts_page *page = counts_page(counts, 0);
    counts_add(page, 7, COUNTED_WON, NOW);
    counts_add(page, 7, COUNTED_REPEATED, NOW);
    counts_add(page, 7, PROBLEM_SOLD_OUT, NOW);
    counts_add(page, 7, PROBLEM_SOLD_OUT, NOW + 1);
    assert_int_equal(total(counts, 7, COUNTED_WON), 1);
    assert_int_equal(total(counts, 7, COUNTED_REPEATED), 1);
    assert_int_equal(total(counts, 7, PROBLEM_SOLD_OUT), 2);
    assert_int_equal(total(counts, 7, PROBLEM_BUSY), 0);
    SECOND_IS(counts, 7, NOW, 3, 1, 1);
    SECOND_IS(counts, 7, NOW + 1, 1, 0, 1);
    SECOND_IS(counts, 7, NOW + 2, 0, 0, 0);
    SECOND_IS(counts, 7, NOW - 1, 0, 0, 0);
    assert_string_equal(counted_word(COUNTED_WON), "WON");
    assert_string_equal(counted_word(COUNTED_REPEATED), "REPEATED");
    assert_string_equal(counted_word(PROBLEM_LINE_TIMEOUT), "LINE_TIMEOUT");
    counts_close(counts);
}

static void pages_add_up_and_sales_do_not_mix(void **state)
{
    (void)state;
    struct counts *counts = counts_make(3);
    for (uint32_t writer = 0; writer < 3; writer++) {
        for (uint32_t i = 0; i <= writer; i++) counts_add(counts_page(counts, writer), 1, PROBLEM_SOLD_OUT, NOW);
        counts_add(counts_page(counts, writer), 2, COUNTED_WON, NOW);
    }
    assert_int_equal(total(counts, 1, PROBLEM_SOLD_OUT), 6);
    assert_int_equal(total(counts, 1, COUNTED_WON), 0);
    assert_int_equal(total(counts, 2, COUNTED_WON), 3);
    assert_int_equal(total(counts, 0, COUNTED_WON), 0);
    assert_int_equal(total(counts, 1 + SALES_OPEN_MAX, PROBLEM_SOLD_OUT), 0);
    SECOND_IS(counts, 1, NOW, 6, 0, 6);
    counts_close(counts);
}

/* Also within the same second, and where cells of the sale before would be young enough. */
static void another_sale_in_the_slot_begins_at_nothing(void **state)
{
    (void)state;
    struct counts *counts = counts_make(2);
    struct counts_page *page = counts_page(counts, 0);
    uint64_t later = 5 + SALES_OPEN_MAX;
    for (uint64_t second = NOW - 10; second <= NOW; second++) counts_add(page, 5, PROBLEM_SOLD_OUT, second);
    counts_add(counts_page(counts, 1), 5, PROBLEM_SOLD_OUT, NOW);
    counts_add(page, later, COUNTED_WON, NOW);
    assert_int_equal(total(counts, later, COUNTED_WON), 1);
    assert_int_equal(total(counts, later, PROBLEM_SOLD_OUT), 0);
    SECOND_IS(counts, later, NOW, 1, 1, 0);
    for (uint64_t second = NOW - 10; second < NOW; second++) SECOND_IS(counts, later, second, 0, 0, 0);
    assert_int_equal(total(counts, 5, PROBLEM_SOLD_OUT), 1); /* the other page still has its own */

    counts_add(page, 5, PROBLEM_CLOSED, NOW); /* one that is over does not take the block back */
    assert_int_equal(total(counts, later, COUNTED_WON), 1);
    assert_int_equal(total(counts, 5, PROBLEM_CLOSED), 0);
    counts_close(counts);
}

static void the_ring_keeps_the_last_hour(void **state)
{
    (void)state;
    struct counts *counts = counts_make(1);
    struct counts_page *page = counts_page(counts, 0);
    for (uint64_t second = NOW; second < NOW + COUNTS_SECONDS + 5; second++) counts_add(page, 1, COUNTED_WON, second);
    for (uint64_t second = NOW; second < NOW + 5; second++) SECOND_IS(counts, 1, second, 0, 0, 0);
    for (uint64_t second = NOW + 5; second < NOW + COUNTS_SECONDS + 5; second++) SECOND_IS(counts, 1, second, 1, 1, 0);
    assert_int_equal(total(counts, 1, COUNTED_WON), COUNTS_SECONDS + 5);
    counts_close(counts);
}

/* Decision time is read once a turn: a second may be counted in after the next has begun. */
static void a_second_counted_late_is_counted(void **state)
{
    (void)state;
    struct counts *counts = counts_make(1);
    struct counts_page *page = counts_page(counts, 0);
    counts_add(page, 1, COUNTED_WON, NOW);
    counts_add(page, 1, COUNTED_WON, NOW + 1);
    counts_add(page, 1, PROBLEM_SOLD_OUT, NOW);
    SECOND_IS(counts, 1, NOW, 2, 1, 1);
    SECOND_IS(counts, 1, NOW + 1, 1, 1, 0);
    counts_close(counts);
}

static size_t resident_kb(void)
{
    char line[256];
    size_t kb = 0;
    FILE *file = fopen("/proc/self/status", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "VmRSS: %zu", &kb) == 1) break;
    fclose(file);
    return kb;
}

static void tidy_all(struct counts *counts, uint64_t second)
{
    for (uint32_t i = 0; i < SALES_OPEN_MAX; i++) counts_tidy(counts_page(counts, 0), second);
}

/* 500 sales that were busy for an hour; nobody may ask for seconds of before the last one. */
static void an_hour_after_the_last_answer_its_memory_is_given_back(void **state)
{
    (void)state;
    enum { SALES = 500 };
    struct counts *counts = counts_make(1);
    struct counts_page *page = counts_page(counts, 0);
    for (uint64_t sale = 1; sale <= SALES; sale++)
        for (uint64_t second = NOW; second < NOW + COUNTS_SECONDS; second++)
            counts_add(page, sale, PROBLEM_SOLD_OUT, second);
    uint64_t last = NOW + COUNTS_SECONDS - 1;
    size_t before_kb = resident_kb();
    tidy_all(counts, last + COUNTS_SECONDS - 1); /* the last second is still of this hour */
    SECOND_IS(counts, SALES, last, 1, 0, 1);
    assert_true(resident_kb() + 1000 > before_kb);
    counts_add(page, 1, COUNTED_WON, last + 1); /* this one goes on */

    tidy_all(counts, last + COUNTS_SECONDS);
    assert_true(resident_kb() + SALES * 50 < before_kb);
    SECOND_IS(counts, SALES, last, 0, 0, 0);
    SECOND_IS(counts, 1, last + 1, 1, 1, 0);
    assert_int_equal(total(counts, SALES, PROBLEM_SOLD_OUT), COUNTS_SECONDS);

    counts_add(page, SALES, COUNTED_WON, last + COUNTS_SECONDS); /* and may begin again */
    tidy_all(counts, last + COUNTS_SECONDS);
    SECOND_IS(counts, SALES, last + COUNTS_SECONDS, 1, 1, 0);
    assert_int_equal(total(counts, SALES, COUNTED_WON), 1);
    counts_close(counts);
}

struct crowd {
    struct counts *counts;
    uint32_t writer;
    _Atomic bool *stop;
    bool torn;
};
#define ANSWERS 300000

static void *crowd_write(void *arg)
{
    struct crowd *crowd = arg;
    struct counts_page *page = counts_page(crowd->counts, crowd->writer);
    /* Sales come and go in one slot, each with as many answers. */
    for (uint64_t i = 0; i < ANSWERS; i++)
        counts_add(page, 1 + i / (ANSWERS / 3) * SALES_OPEN_MAX, PROBLEM_SOLD_OUT, NOW + i / 1000);
    return NULL;
}

static void *crowd_read(void *arg)
{
    struct crowd *crowd = arg;
    uint64_t before = 0;
    while (!atomic_load(crowd->stop)) {
        uint64_t sold_out = total(crowd->counts, 1 + 2 * SALES_OPEN_MAX, PROBLEM_SOLD_OUT);
        if (sold_out < before || sold_out > 2 * (ANSWERS / 3)) crowd->torn = true;
        before = sold_out;
        struct counts_second at = counts_at(crowd->counts, 1 + SALES_OPEN_MAX, NOW + 150);
        if (at.wins != 0 || at.requests > 2000) crowd->torn = true;
    }
    return NULL;
}

static void readers_never_see_a_sale_they_did_not_ask_for(void **state)
{
    (void)state;
    struct counts *counts = counts_make(2);
    _Atomic bool stop = false;
    struct crowd crowds[3] = { { counts, 0, &stop, false }, { counts, 1, &stop, false }, { counts, 0, &stop, false } };
    pthread_t threads[3];
    assert_int_equal(pthread_create(&threads[2], NULL, crowd_read, &crowds[2]), 0);
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, crowd_write, &crowds[i]), 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    atomic_store(&stop, true);
    pthread_join(threads[2], NULL);
    assert_false(crowds[2].torn);
    assert_int_equal(total(counts, 1 + 2 * SALES_OPEN_MAX, PROBLEM_SOLD_OUT), 2 * (ANSWERS / 3));
    counts_close(counts);
}

static void percentile_is(const struct counts *counts, uint64_t sale_id, uint32_t permille, uint64_t want_us)
{
    uint64_t times[COUNTS_TIMES];
    counts_times(counts, sale_id, times);
    uint64_t got_us = counts_within_us(times, permille);
    if (got_us < want_us || got_us > want_us + want_us / 4 + 1) fail_msg("%u: %" PRIu64 " us", permille, got_us);
}

/* Never too low, and too high by a quarter at most: whoever reads "99 in 100 within 2 ms" may rely on it. */
static void the_time_of_answers_is_told_within_a_quarter(void **state)
{
    (void)state;
    struct counts *counts = counts_make(2);
    for (uint64_t us = 1; us <= 10000; us++) {
        struct counts_page *page = counts_page(counts, us % 2);
        counts_add(page, 3, PROBLEM_SOLD_OUT, NOW);
        counts_took(page, 3, us * 1000);
    }
    static const uint32_t asked[] = { 1, 10, 500, 900, 990, 999, 1000 };
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) percentile_is(counts, 3, asked[i], asked[i] * 10);
    counts_close(counts);
}

static void every_time_has_a_cell_and_one_answer_is_all_there_is(void **state)
{
    (void)state;
    static const uint64_t us[] = { 0, 1, 3, 4, 7, 8, 1000, 1023, 1024, 1000000, 33000000 };
    for (size_t i = 0; i < sizeof us / sizeof *us; i++) {
        struct counts *counts = counts_make(1);
        counts_add(counts_page(counts, 0), 1, COUNTED_WON, NOW);
        counts_took(counts_page(counts, 0), 1, us[i] * 1000);
        percentile_is(counts, 1, 1, us[i]);
        percentile_is(counts, 1, 1000, us[i]);
        counts_close(counts);
    }
    struct counts *counts = counts_make(1);
    counts_add(counts_page(counts, 0), 1, COUNTED_WON, NOW);
    percentile_is(counts, 1, 500, 0);
    counts_took(counts_page(counts, 0), 1, UINT64_MAX); /* longer than any cell */
    uint64_t times[COUNTS_TIMES];
    counts_times(counts, 1, times);
    assert_int_equal(times[COUNTS_TIMES - 1], 1);
    counts_close(counts);
}

static void times_of_the_sale_before_in_the_slot_are_gone(void **state)
{
    (void)state;
    struct counts *counts = counts_make(1);
    struct counts_page *page = counts_page(counts, 0);
    counts_add(page, 5, COUNTED_WON, NOW);
    counts_took(page, 5, 1000000);
    counts_add(page, 5 + SALES_OPEN_MAX, COUNTED_WON, NOW);
    percentile_is(counts, 5 + SALES_OPEN_MAX, 1000, 0);
    counts_took(page, 5, 1000000); /* of one that is over: nobody's */
    percentile_is(counts, 5 + SALES_OPEN_MAX, 1000, 0);
    percentile_is(counts, 0, 1000, 0);
    counts_close(counts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_is_a_win_a_repeat_or_a_refusal),
        cmocka_unit_test(pages_add_up_and_sales_do_not_mix),
        cmocka_unit_test(another_sale_in_the_slot_begins_at_nothing),
        cmocka_unit_test(the_ring_keeps_the_last_hour),
        cmocka_unit_test(a_second_counted_late_is_counted),
        cmocka_unit_test(an_hour_after_the_last_answer_its_memory_is_given_back),
        cmocka_unit_test(the_time_of_answers_is_told_within_a_quarter),
        cmocka_unit_test(every_time_has_a_cell_and_one_answer_is_all_there_is),
        cmocka_unit_test(times_of_the_sale_before_in_the_slot_are_gone),
        cmocka_unit_test(readers_never_see_a_sale_they_did_not_ask_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
