/* Takes filed by threads of their own, and coming back to the loop that gave them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "gate/remote/filer.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WAIT_MS 20000
#define JOBS 1500

struct bench {
    char folder[64], path[128];
    struct ledger_place place;
    struct ledger *ledger;
    struct filer *filer;
    struct kept kept;
    struct filer_mailbox *box;
    _Atomic uint32_t woken;
    uint64_t sale_id, epoch;
};

static void wake(void *arg)
{
    struct bench *bench = arg;
    atomic_fetch_add(&bench->woken, 1);
}

static void sale_make(struct bench *bench, uint32_t stock)
{
    struct sale_terms terms = { .name = "one", .price = -1, .units_per_grab_max = 1, .grabs_per_buyer_max = 1 };
    terms.admission = ADMISSION_LOGIN;
    struct ledger_change change = {
        .asker = { .name = SLICE("ann"), .now_ms = 1000 }, .kind = DECISION_SALE_CREATED, .terms = &terms, .add = stock
    };
    enum verdict verdict;
    struct sale sale;
    struct ledger_errand errand;
    assert_int_equal(ledger_change(bench->ledger, &change, &verdict, &sale, &errand), FAULT_NONE);
    assert_int_equal(verdict, VERDICT_DONE);
    struct ledger_fence fence = { .job = "test" };
    assert_int_equal(ledger_fence_raise(bench->ledger, &fence), FAULT_NONE);
    assert_int_equal(ledger_epoch_raise(bench->ledger, &fence, sale.id, &bench->epoch), FAULT_NONE);
    bench->sale_id = sale.id;
}

static int setup(void **state)
{
    struct bench *bench = calloc(1, sizeof *bench);
    snprintf(bench->folder, sizeof bench->folder, "/tmp/stampede-filer-XXXXXX");
    assert_non_null(mkdtemp(bench->folder));
    snprintf(bench->path, sizeof bench->path, "%s/ledger.db", bench->folder);
    bench->place = *LEDGER_FILE(bench->path);
    assert_int_equal(ledger_open(&bench->ledger, &bench->place, LEDGER_OWNER), FAULT_NONE);
    sale_make(bench, JOBS);
    kept_init(&bench->kept);
    const struct filer_options options = { .place = &bench->place, .kept = &bench->kept, .threads = 2 };
    assert_int_equal(filer_open(&bench->filer, &options), FAULT_NONE);
    assert_int_equal(filer_mailbox_open(&bench->box, wake, bench), FAULT_NONE);
    *state = bench;
    return 0;
}

static int teardown(void **state)
{
    struct bench *bench = *state;
    filer_close(bench->filer);
    filer_mailbox_close(bench->box);
    kept_deinit(&bench->kept);
    if (bench->ledger != NULL) ledger_close(bench->ledger);
    static const char *const endings[] = { "", "-wal", "-shm" };
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        char path[160];
        snprintf(path, sizeof path, "%s%s", bench->path, endings[i]);
        remove(path);
    }
    remove(bench->folder);
    free(bench);
    return 0;
}

static char names[JOBS][16];

static struct filer_job job_of(struct bench *bench, uint32_t n)
{
    snprintf(names[n], sizeof names[n], "buyer-%u", n);
    struct filer_job job = { .until_mono_ms = mono_ms() + WAIT_MS, .mailbox = bench->box };
    job.take.epoch = bench->epoch;
    job.take.decision = (struct decision){ .seq = 1000 + n, .kind = DECISION_WON, .sale_id = bench->sale_id, .at_ms = 2000 };
    job.take.decision.won.buyer = slice_of(names[n]);
    job.take.decision.won.units = 1;
    job.take.decision.won.amount = -1;
    return job;
}

/* How many came back within the time. */
static uint32_t collect(struct bench *bench, uint32_t want, void (*look)(const struct filer_job *job))
{
    uint32_t count = 0;
    for (uint64_t until_ms = mono_ms() + WAIT_MS; count < want && mono_ms() < until_ms;) {
        struct filer_job *job = filer_collect(bench->box), *next;
        for (; job != NULL; job = next, count++) {
            next = job->next;
            look(job);
        }
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
    return count;
}

static void was_filed(const struct filer_job *job)
{
    assert_int_equal(job->fault, FAULT_NONE);
    assert_int_equal(job->take.result, TAKE_FILED);
}

static void all_come_back_filed_and_the_ledger_has_them(void **state)
{
    struct bench *bench = *state;
    static struct filer_job jobs[JOBS];
    for (uint32_t i = 0; i < JOBS; i++) {
        jobs[i] = job_of(bench, i);
        assert_true(filer_give(bench->filer, &jobs[i]));
    }
    assert_int_equal(collect(bench, JOBS, was_filed), JOBS);
    assert_true(atomic_load(&bench->woken) > 0);
    struct sale sale;
    bool found;
    assert_int_equal(ledger_sale(bench->ledger, bench->sale_id, &sale, &found), FAULT_NONE);
    assert_int_equal(sale.counts.sold, JOBS);
    assert_false(filer_failing(bench->filer));
}

/* All in one chain, as a turn of a loop gives them. */
static void a_chain_of_jobs_is_filed_whole(void **state)
{
    struct bench *bench = *state;
    static struct filer_job jobs[JOBS];
    for (uint32_t i = 0; i < JOBS; i++) jobs[i] = job_of(bench, i);
    for (uint32_t i = 0; i + 1 < JOBS; i++) jobs[i].next = &jobs[i + 1];
    assert_true(filer_give(bench->filer, jobs));
    assert_int_equal(collect(bench, JOBS, was_filed), JOBS);
    struct sale sale;
    bool found;
    assert_int_equal(ledger_sale(bench->ledger, bench->sale_id, &sale, &found), FAULT_NONE);
    assert_int_equal(sale.counts.sold, JOBS);
}

static void gather_for(struct bench *bench, uint32_t gather_ms)
{
    filer_close(bench->filer);
    const struct filer_options options = {
        .place = &bench->place, .kept = &bench->kept, .threads = 2, .gather_ms = gather_ms
    };
    assert_int_equal(filer_open(&bench->filer, &options), FAULT_NONE);
}

static void who_waits_for_others_waits_no_longer_than_for_a_batch(void **state)
{
    struct bench *bench = *state;
    static struct filer_job jobs[LEDGER_TAKES_MAX];
    gather_for(bench, 10 * WAIT_MS);
    for (uint32_t i = 0; i < LEDGER_TAKES_MAX; i++) {
        jobs[i] = job_of(bench, i);
        assert_true(filer_give(bench->filer, &jobs[i]));
    }
    assert_int_equal(collect(bench, LEDGER_TAKES_MAX, was_filed), LEDGER_TAKES_MAX);
    gather_for(bench, 1);
    struct filer_job alone = job_of(bench, LEDGER_TAKES_MAX);
    assert_true(filer_give(bench->filer, &alone));
    assert_int_equal(collect(bench, 1, was_filed), 1);
}

static void was_won_before(const struct filer_job *job)
{
    assert_int_equal(job->fault, FAULT_NONE);
    assert_int_equal(job->take.result, TAKE_ALREADY_WON);
    assert_int_equal(job->take.there.no, 1000);
}

static void what_the_ledger_refuses_comes_back_with_the_order_that_is_there(void **state)
{
    struct bench *bench = *state;
    struct filer_job first = job_of(bench, 0), second = job_of(bench, 0);
    second.take.decision.seq = 7777;
    assert_true(filer_give(bench->filer, &first));
    assert_int_equal(collect(bench, 1, was_filed), 1);
    assert_true(filer_give(bench->filer, &second));
    assert_int_equal(collect(bench, 1, was_won_before), 1);
}

static void was_not_known(const struct filer_job *job)
{
    assert_int_not_equal(job->fault, FAULT_NONE);
}

/* Somebody else writes and does not stop: nothing can be filed, and that is said when the time is over. */
static void a_ledger_that_refuses_is_told_as_unknown(void **state)
{
    struct bench *bench = *state;
    struct ledger_point point;
    struct filer_job job = job_of(bench, 0);
    job.until_mono_ms = mono_ms() + 100;
    assert_int_equal(ledger_file_begin(bench->ledger, &point), FAULT_NONE);
    assert_true(filer_give(bench->filer, &job));
    assert_int_equal(collect(bench, 1, was_not_known), 1);
    ledger_file_rollback(bench->ledger);
    job = job_of(bench, 0);
    assert_true(filer_give(bench->filer, &job));
    assert_int_equal(collect(bench, 1, was_filed), 1);
}

/* Its row is tried, whatever is remembered of it, and those of a file are never kept for long. */
static void a_sale_whose_row_was_kept_is_filed_and_forgotten(void **state)
{
    struct bench *bench = *state;
    struct filer_job job = job_of(bench, 0);
    assert_int_equal(kept_miss(&bench->kept, bench->sale_id, 1, mono_ms() - 9000), KEPT_UNSURE);
    assert_int_equal(kept_miss(&bench->kept, bench->sale_id, 1, mono_ms() - 8600), KEPT_SURE);
    assert_true(filer_give(bench->filer, &job));
    assert_int_equal(collect(bench, 1, was_filed), 1);
    assert_false(kept_has(&bench->kept, bench->sale_id));
}

/* While it is known to be kept nobody stands behind it until the time is over. */
static void what_was_taken_of_a_kept_row_comes_back_before_its_time(void **state)
{
    struct bench *bench = *state;
    struct ledger_point point;
    struct filer_job job = job_of(bench, 0);
    assert_int_equal(kept_miss(&bench->kept, bench->sale_id, 1, mono_ms() - 400), KEPT_UNSURE);
    assert_int_equal(kept_miss(&bench->kept, bench->sale_id, 1, mono_ms()), KEPT_SURE);
    assert_int_equal(ledger_file_begin(bench->ledger, &point), FAULT_NONE);
    assert_true(filer_give(bench->filer, &job));
    assert_int_equal(collect(bench, 1, was_not_known), 1);
    assert_true(mono_ms() < job.until_mono_ms);
    assert_true(kept_has(&bench->kept, bench->sale_id));
    ledger_file_rollback(bench->ledger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_come_back_filed_and_the_ledger_has_them, setup, teardown),
        cmocka_unit_test_setup_teardown(a_chain_of_jobs_is_filed_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(who_waits_for_others_waits_no_longer_than_for_a_batch, setup, teardown),
        cmocka_unit_test_setup_teardown(what_the_ledger_refuses_comes_back_with_the_order_that_is_there, setup, teardown),
        cmocka_unit_test_setup_teardown(a_ledger_that_refuses_is_told_as_unknown, setup, teardown),
        cmocka_unit_test_setup_teardown(a_sale_whose_row_was_kept_is_filed_and_forgotten, setup, teardown),
        cmocka_unit_test_setup_teardown(what_was_taken_of_a_kept_row_comes_back_before_its_time, setup, teardown),
    };
    return cmocka_run_group_tests_name("filer", tests, NULL, NULL);
}
