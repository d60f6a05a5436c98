/* Crashes, lost sectors and failing calls at every point of the journal's life, on a simulated disk (P3, P10, P11). */
#include "journal/commit.h"
#include "tests/sim/disk_sim.h"
#include "tests/sim/journal_model.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint64_t seed;
static struct model model, model_before;

static void must_open(const char *when, uint64_t n)
{
    const enum fault fault = model_open(&model);
    if (fault != FAULT_NONE) {
        fail_msg("%s %" PRIu64 ": fault %d, %s at %s:%" PRIu64 " (seed %" PRIu64 ")", when, n, fault, model.damage.reason,
                 model.damage.file, model.damage.offset, seed);
    }
    if (model_wrong(&model) != NULL) fail_msg("%s %" PRIu64 ": %s (seed %" PRIu64 ")", when, n, model_wrong(&model), seed);
}

/* One life: made, used, closed, opened again, used. The same calls in the same order for the same seed. */
static void life(uint32_t turns)
{
    if (model_open(&model) != FAULT_NONE) return;
    model_work(&model, turns);
    model_close(&model);
    if (sim_crashed() || model_open(&model) != FAULT_NONE) return;
    model_work(&model, turns);
}

static void begin(uint64_t run)
{
    sim_reset(seed + run);
    model_init(&model);
}

static unsigned int keep_percent(void)
{
    static const unsigned int choices[] = { 0, 20, 50, 80, 100 };
    return choices[sim_random() % 5];
}

static void a_journal_comes_back_as_it_was(void **state)
{
    (void)state;
    begin(0);
    must_open("first start", 0);
    model_work(&model, 300);
    assert_true(model.acked > 1000);
    assert_true(sim_files() > 3);
    model_close(&model);
    must_open("second start", 0);
    assert_int_equal(model.seen, model.appended);
    uint64_t last;
    assert_int_equal(model_scan(&model, NULL, 0, &last), FAULT_NONE);
    assert_int_equal(last, model.acked);
    model_close(&model);
}

static void a_live_scan_follows_the_durable_mark_over_segments(void **state)
{
    (void)state;
    begin(1);
    must_open("start", 0);
    struct journal_scan *scan;
    assert_int_equal(journal_scan_open(&scan, MODEL_FOLDER, model.journal, 0, &model.damage), FAULT_NONE);
    const struct journal_reader reader = model_reader(&model);
    for (int turn = 0; turn < 300; turn++) {
        (void)model_append(&model, 12);
        for (int commits = 0; commits < 1 + turn % 3; commits++) {
            assert_int_equal(model_commit(&model), FAULT_NONE);
            (void)model_append(&model, 3);
        }
        bool more = true;
        while (more) assert_int_equal(journal_scan_batch(scan, &reader, &more, &model.damage), FAULT_NONE);
        assert_int_equal(model.seen, journal_seq_durable(model.journal));

        /* And one that begins anywhere. */
        const uint64_t mark = model.seen, after = mark > 5 ? mark - sim_random() % 5 : 0;
        uint64_t last;
        assert_int_equal(model_scan(&model, model.journal, after, &last), FAULT_NONE);
        assert_int_equal(last, mark);
    }
    assert_true(sim_files() > 5);
    journal_scan_close(scan);
    model_close(&model);
}

static void nothing_acknowledged_is_lost_by_a_crash_before_any_call(void **state)
{
    (void)state;
    begin(2);
    life(130);
    model_close(&model);
    const uint64_t total = sim_changes();
    assert_true(total > 200);
    for (uint64_t n = 1; n <= total + 1; n++) {
        begin(2);
        sim_crash_before(n);
        life(130);
        sim_crash_before(1); /* the last round crashes after everything */
        model_close(&model);
        sim_power_loss(keep_percent());
        must_open("crash before call", n);
        model_work(&model, 3);
        model_close(&model);
        must_open("the start after", n);
        model_close(&model);
    }
}

/* The last segment by its name; 1 where there is no other. */
static uint64_t last_segment_find(void)
{
    uint64_t last = 1;
    for (uint64_t seq = 1; seq <= model.appended + 1; seq++) {
        char path[PATH_BYTES];
        size_t size;
        segment_path(path, MODEL_FOLDER, seq, "");
        if (sim_file(path, &size) != NULL) last = seq;
    }
    return last;
}

/* Whatever was not synced is lost, at every call: of the mark, the segment's name and its first batch any may be the last to
 * arrive. Once the last segment holds what somebody was told of, its loss is seen; before that nothing is damaged. */
static void a_lost_last_segment_is_noticed_whenever_it_held_what_was_told(void **state)
{
    (void)state;
    begin(7);
    life(130);
    model_close(&model);
    const uint64_t total = sim_changes();
    uint32_t noticed = 0;
    for (uint64_t n = 1; n <= total + 1; n++) {
        begin(7);
        sim_crash_before(n);
        life(130);
        sim_crash_before(1);
        model_close(&model);
        sim_power_loss(n % 2 == 0 ? 0 : keep_percent());
        memset(&model.point, 0, sizeof model.point);
        const uint64_t last = last_segment_find(), acked = model.acked;
        struct sim_image *image = sim_save();
        model_before = model;
        must_open("crash before call", n);
        model_close(&model);
        sim_load(image);
        sim_discard(image);
        model = model_before;
        if (last == 1) continue;
        char path[PATH_BYTES];
        segment_path(path, MODEL_FOLDER, last, "");
        sim_delete(path);
        const enum fault fault = model_open(&model);
        model_close(&model);
        if (acked < last) continue; /* seen or not: nothing is lost */
        if (fault != FAULT_DAMAGE)
            fail_msg("crash before call %" PRIu64 ": %s is not missed (seed %" PRIu64 ")", n, path, seed);
        assert_string_equal(model.damage.file, path);
        noticed++;
    }
    assert_true(noticed > 50);
}

/* A recovery is cut short at each of its calls, and the next one as well. */
static void recovery_may_crash_anywhere_twice_in_a_row(void **state)
{
    (void)state;
    for (uint64_t n = 5; n < 160; n += 1 + n % 4) {
        begin(3);
        sim_crash_before(n);
        life(30);
        sim_crash_before(1);
        model_close(&model);
        sim_power_loss(keep_percent());
        struct sim_image *image = sim_save();
        model_before = model;
        bool through = false;
        for (uint64_t m = 1; !through; m++) {
            sim_load(image);
            model = model_before;
            for (int twice = 0; twice < 2; twice++) {
                sim_crash_before(m);
                through = model_open(&model) == FAULT_NONE;
                if (through) assert_null(model_wrong(&model));
                sim_crash_before(1);
                model_close(&model);
                sim_power_loss(keep_percent());
            }
            must_open("after crashes in recovery", n * 1000 + m);
            model_work(&model, 2);
            model_close(&model);
        }
        sim_discard(image);
    }
}

/* Every call site fails once, with EIO and with ENOSPC. Whatever was acknowledged stays; after a failed change nothing more
 * is; and what a restart finds in the page cache is durable before it is told. */
static void a_failing_call_poisons_and_never_acknowledges(void **state)
{
    (void)state;
    begin(4);
    life(40);
    model_close(&model);
    const uint64_t total = sim_calls();
    uint32_t poisoned = 0;
    for (uint64_t n = 1; n <= total; n++) {
        begin(4);
        enum sim_call which = SIM_CALLS;
        sim_fail_call(n, n % 2 == 0 ? FAULT_DISK : FAULT_SPACE, &which);
        enum fault fault = model_open(&model);
        for (int part = 0; part < 2 && fault == FAULT_NONE; part++) {
            model_work(&model, 40);
            const bool failed = which != SIM_CALLS;
            const bool harmless = which == SIM_SPACE || which == SIM_LIST;
            if (failed && !harmless) {
                if (!journal_poisoned(model.journal)) assert_int_equal(model_commit(&model), FAULT_DISK);
                assert_true(journal_poisoned(model.journal));
                assert_false(journal_has_room(model.journal));
                assert_int_equal(model.poison_calls, 1);
                const uint64_t acked = model.acked;
                assert_int_equal(model_append(&model, 1), 0);
                assert_int_equal(model_commit(&model), FAULT_DISK);
                assert_int_equal(model.acked, acked);
                poisoned++;
                break;
            }
            model_close(&model);
            if (which == SIM_REMOVE) which = SIM_CALLS; /* of the spare, at the close: the next start does it */
            if (part == 0) fault = model_open(&model);
        }
        if (fault != FAULT_NONE) assert_true(which != SIM_CALLS && fault != FAULT_DAMAGE);
        model_close(&model);
        sim_restart();
        must_open("restart after failed call", n);
        sim_crash_before(1);
        model_close(&model);
        sim_power_loss(0);
        must_open("power loss after that restart", n);
        model_close(&model);
    }
    assert_true(poisoned > 50);
}

static void low_space_refuses_before_the_disk_is_full(void **state)
{
    (void)state;
    begin(5);
    must_open("start", 0);
    model_work(&model, 10);
    sim_space((1 << 20) - 1);
    assert_int_equal(model_commit(&model), FAULT_NONE);
    assert_int_equal(model_append(&model, 1), 0);
    assert_false(journal_poisoned(model.journal));
    sim_space(1 << 30);
    assert_int_equal(model_commit(&model), FAULT_NONE);
    assert_int_equal(model_append(&model, 1), 1);
    /* Enough for selling, not for another segment: goes on to the end of the present one and then says so. */
    assert_int_equal(model_commit(&model), FAULT_NONE);
    sim_space((1 << 20) + MODEL_SEGMENT_BYTES - 1);
    uint32_t turns = 0;
    while (model_append(&model, 12) > 0) {
        assert_int_equal(model_commit(&model), FAULT_NONE);
        assert_true(++turns < 10000);
    }
    assert_false(journal_poisoned(model.journal));
    assert_int_equal(model.acked, model.appended);
    sim_space(1 << 30);
    assert_int_equal(model_commit(&model), FAULT_NONE);
    assert_int_equal(model_append(&model, 1), 1);
    model_close(&model);
}

static void a_full_batch_has_no_room(void **state)
{
    (void)state;
    begin(6);
    must_open("start", 0);
    const uint32_t taken = model_append(&model, UINT32_MAX);
    assert_true(taken > 20 && taken < 2000);
    assert_int_equal(model_append(&model, 1), 0);
    assert_int_equal(model_commit(&model), FAULT_NONE);
    assert_true(model_append(&model, 1) == 1);
    model_close(&model);
}

/* The checker itself: with syncs that do nothing it must find acknowledged decisions gone. */
static void a_disk_that_lies_about_syncs_is_caught(void **state)
{
    (void)state;
    uint32_t caught = 0;
    for (uint64_t run = 0; run < 50; run++) {
        begin(100 + run);
        assert_int_equal(model_open(&model), FAULT_NONE);
        sim_lie_about_syncs(true);
        model_work(&model, 20);
        sim_crash_before(1);
        model_close(&model);
        sim_power_loss(50);
        const enum fault fault = model_open(&model);
        if (fault == FAULT_DAMAGE || model_wrong(&model) != NULL) caught++;
        model_close(&model);
    }
    assert_true(caught >= 45);
}

static void random_lives_keep_every_acknowledgement(void **state)
{
    (void)state;
    for (uint64_t run = 0; run < 150; run++) {
        begin(1000 + run);
        for (uint32_t lives = 0; lives < 8; lives++) {
            sim_crash_before(1 + sim_random() % 200);
            if (model_open(&model) == FAULT_NONE) {
                if (model_wrong(&model) != NULL) fail_msg("run %" PRIu64 ": %s", run, model_wrong(&model));
                model_work(&model, 60);
            } else {
                assert_true(sim_crashed());
            }
            sim_crash_before(1);
            model_close(&model);
            if (sim_random() % 3 == 0)
                sim_restart();
            else
                sim_power_loss(keep_percent());
        }
        must_open("the last start of run", run);
        uint64_t last;
        assert_int_equal(model_scan(&model, model.journal, 0, &last), FAULT_NONE);
        assert_int_equal(last, model.acked);
        model_close(&model);
    }
}

int main(void)
{
    seed = model_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_journal_comes_back_as_it_was),
        cmocka_unit_test(a_live_scan_follows_the_durable_mark_over_segments),
        cmocka_unit_test(nothing_acknowledged_is_lost_by_a_crash_before_any_call),
        cmocka_unit_test(a_lost_last_segment_is_noticed_whenever_it_held_what_was_told),
        cmocka_unit_test(recovery_may_crash_anywhere_twice_in_a_row),
        cmocka_unit_test(a_failing_call_poisons_and_never_acknowledges),
        cmocka_unit_test(low_space_refuses_before_the_disk_is_full),
        cmocka_unit_test(a_full_batch_has_no_room),
        cmocka_unit_test(a_disk_that_lies_about_syncs_is_caught),
        cmocka_unit_test(random_lives_keep_every_acknowledgement),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
