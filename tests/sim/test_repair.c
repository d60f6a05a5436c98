/* What repair says of a damaged journal, and what a cut leaves. */
#include "journal/format.h"
#include "journal/segment.h"
#include "tests/sim/disk_sim.h"
#include "tests/sim/journal_model.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint64_t seed;
static struct model model;
static uint64_t firsts[96];
static size_t first_count;

static void build(uint64_t run, uint32_t turns)
{
    sim_reset(seed + run);
    model_init(&model);
    assert_int_equal(model_open(&model), FAULT_NONE);
    model_work(&model, turns);
    model_close(&model);
    memset(&model.point, 0, sizeof model.point);
    first_count = 0;
    for (uint64_t seq = 1; seq <= model.appended; seq++) {
        char path[PATH_BYTES];
        size_t size;
        segment_path(path, MODEL_FOLDER, seq, "");
        if (sim_file(path, &size) != NULL) firsts[first_count++] = seq;
    }
}

static const char *segment_at(size_t at)
{
    static char path[PATH_BYTES];
    segment_path(path, MODEL_FOLDER, firsts[at], "");
    return path;
}

static void spoil(size_t at, uint64_t offset)
{
    size_t size;
    const uint8_t *bytes = sim_file(segment_at(at), &size);
    sim_spoil(segment_at(at), offset, (uint8_t)(bytes[offset] ^ 0x10));
}

/* The n-th batch of a segment. */
static uint32_t batch_at(size_t at, uint32_t n, uint64_t *seq_first)
{
    size_t size;
    const uint8_t *bytes = sim_file(segment_at(at), &size);
    uint32_t offset = SEGMENT_HEADER_BYTES;
    while (n-- > 0) offset += (le32_get(bytes + offset + BATCH_AT_LENGTH) + SECTOR_BYTES - 1) / SECTOR_BYTES * SECTOR_BYTES;
    *seq_first = le64_get(bytes + offset + BATCH_AT_SEQ_FIRST);
    return offset;
}

static struct journal_diagnosis diagnosed(void)
{
    struct journal_diagnosis diagnosis;
    const uint64_t changes = sim_changes();
    assert_int_equal(journal_diagnose(MODEL_FOLDER, &model.point, &diagnosis), FAULT_NONE);
    assert_int_equal(sim_changes(), changes);
    return diagnosis;
}

static void cut_and_open(const struct journal_diagnosis *diagnosis, const char *copy_due)
{
    char copy[512];
    assert_int_equal(journal_cut(MODEL_FOLDER, diagnosis, copy), FAULT_NONE);
    assert_string_equal(copy, copy_due);
    model.acked = diagnosis->seq_good;
    assert_int_equal(model_open(&model), FAULT_NONE);
    assert_null(model_wrong(&model));
    assert_int_equal(model.seen, diagnosis->seq_good);
    model_work(&model, 5);
    model_close(&model);
    memset(&model.point, 0, sizeof model.point); /* a ledger that has filed nothing: all of it is looked at again */
}

static void a_good_journal_has_nothing_to_cut(void **state)
{
    (void)state;
    build(1, 300);
    assert_true(first_count >= 3);
    const struct journal_diagnosis diagnosis = diagnosed();
    assert_false(diagnosis.damaged);
    assert_int_equal(diagnosis.seq_good, model.appended);
    assert_int_equal(diagnosis.bytes_lost, 0);
}

static void a_cut_keeps_all_before_the_damage_and_a_copy_of_everything(void **state)
{
    (void)state;
    build(2, 300);
    uint64_t seq_first, seq_after;
    const uint32_t offset = batch_at(1, 2, &seq_first);
    (void)batch_at(1, 3, &seq_after);
    spoil(1, offset + BATCH_HEADER_BYTES + 3);
    size_t size;
    uint8_t spoiled[MODEL_SEGMENT_BYTES];
    memcpy(spoiled, sim_file(segment_at(1), &size), sizeof spoiled);

    const struct journal_diagnosis diagnosis = diagnosed();
    assert_true(diagnosis.damaged && diagnosis.cuttable);
    assert_int_equal(diagnosis.damage.offset, offset);
    assert_string_equal(diagnosis.damage.file, segment_at(1));
    assert_int_equal(diagnosis.seq_good, seq_first - 1);
    assert_int_equal(diagnosis.decisions_lost_min, model.appended - (seq_after - 1));
    assert_true(diagnosis.bytes_lost > MODEL_SEGMENT_BYTES);
    cut_and_open(&diagnosis, MODEL_FOLDER ".damaged-1");

    char copy[PATH_BYTES];
    for (size_t i = 0; i < first_count; i++) {
        segment_path(copy, MODEL_FOLDER ".damaged-1", firsts[i], "");
        assert_non_null(sim_file(copy, &size));
        assert_int_equal(size, MODEL_SEGMENT_BYTES);
    }
    segment_path(copy, MODEL_FOLDER ".damaged-1", firsts[1], "");
    assert_memory_equal(sim_file(copy, &size), spoiled, sizeof spoiled);
    assert_false(diagnosed().damaged);
}

static void each_cut_has_a_copy_of_its_own(void **state)
{
    (void)state;
    build(3, 300);
    uint64_t seq_first;
    spoil(2, batch_at(2, 1, &seq_first) + 20);
    struct journal_diagnosis diagnosis = diagnosed();
    cut_and_open(&diagnosis, MODEL_FOLDER ".damaged-1");
    spoil(0, batch_at(0, 1, &seq_first) + 20);
    diagnosis = diagnosed();
    assert_int_equal(diagnosis.seq_good, seq_first - 1);
    cut_and_open(&diagnosis, MODEL_FOLDER ".damaged-2");
}

static void a_spoiled_header_or_a_gap_loses_from_there_on(void **state)
{
    (void)state;
    for (int gap = 0; gap < 2; gap++) {
        build(4, 300);
        if (gap == 0)
            spoil(1, SEGMENT_AT_SEQ_FIRST);
        else
            sim_delete(segment_at(1));
        const struct journal_diagnosis diagnosis = diagnosed();
        assert_true(diagnosis.damaged && diagnosis.cuttable);
        assert_int_equal(diagnosis.seq_good, firsts[1] - 1);
        const uint64_t lost = model.appended - (gap == 0 ? firsts[1] - 1 : firsts[2] - 1);
        assert_int_equal(diagnosis.decisions_lost_min, lost);
        cut_and_open(&diagnosis, MODEL_FOLDER ".damaged-1");
    }
}

static void a_missing_last_segment_is_told_and_a_cut_goes_on_without_it(void **state)
{
    (void)state;
    build(11, 300);
    const uint64_t good = firsts[first_count - 1] - 1;
    char missing[PATH_BYTES];
    memcpy(missing, segment_at(first_count - 1), sizeof missing);
    sim_delete(missing);
    const struct journal_diagnosis diagnosis = diagnosed();
    assert_true(diagnosis.damaged && diagnosis.cuttable);
    assert_string_equal(diagnosis.damage.file, missing);
    assert_int_equal(diagnosis.seq_good, good);
    assert_int_equal(diagnosis.bytes_lost, 0);
    cut_and_open(&diagnosis, MODEL_FOLDER ".damaged-1");
    assert_false(diagnosed().damaged);

    build(11, 300);
    sim_delete(missing);
    model.point.seq = good + 1; /* filed: only a copy helps */
    assert_true(diagnosed().damaged);
    assert_false(diagnosed().cuttable);
}

static void a_file_cut_short_keeps_its_beginning(void **state)
{
    (void)state;
    build(5, 300);
    uint64_t seq_second;
    const uint32_t offset = batch_at(first_count - 1, 1, &seq_second);
    sim_truncate(segment_at(first_count - 1), offset);
    const struct journal_diagnosis diagnosis = diagnosed();
    assert_true(diagnosis.damaged && diagnosis.cuttable);
    /* Zeroes follow where the newest file has one batch only: its room is lost then, and no decision. */
    assert_int_equal(diagnosis.seq_good, seq_second == 0 ? model.appended : seq_second - 1);
    cut_and_open(&diagnosis, MODEL_FOLDER ".damaged-1");
}

static void nothing_the_ledger_has_filed_is_cut(void **state)
{
    (void)state;
    build(6, 300);
    uint64_t seq_first;
    const uint32_t offset = batch_at(1, 2, &seq_first);
    spoil(1, offset + BATCH_HEADER_BYTES + 3);
    model.point.seq = seq_first;
    assert_true(diagnosed().damaged);
    assert_false(diagnosed().cuttable);
    model.point.seq = seq_first - 1;
    model.point.digest = model_digest(seq_first - 1, model.salts[seq_first - 1]);
    assert_true(diagnosed().cuttable);
    model.point.digest ^= 1; /* the ledger is of another past */
    assert_true(diagnosed().damaged);
    assert_false(diagnosed().cuttable);

    /* Nor where the beginning is missing, or another journal's. */
    build(7, 300);
    sim_delete(segment_at(0));
    assert_true(diagnosed().damaged);
    assert_false(diagnosed().cuttable);
    build(8, 300);
    model.point.uuid[5] = 1;
    assert_true(diagnosed().damaged);
    assert_false(diagnosed().cuttable);
}

static void a_cut_of_anything_but_what_was_shown_is_refused(void **state)
{
    (void)state;
    build(9, 300);
    uint64_t seq_first;
    const uint32_t offset = batch_at(1, 2, &seq_first);
    spoil(1, offset + 20);
    struct journal_diagnosis diagnosis = diagnosed();
    spoil(1, batch_at(1, 1, &seq_first) + 20);
    const uint64_t changes = sim_changes();
    char copy[512];
    assert_int_equal(journal_cut(MODEL_FOLDER, &diagnosis, copy), FAULT_DAMAGE);
    assert_int_equal(sim_changes(), changes);
}

/* Whenever a cut is cut short itself, it can be asked for again, or has been done. */
static void cut_crashed_anywhere(uint64_t good)
{
    struct sim_image *image = sim_save();
    bool done = false;
    for (uint64_t n = 1; !done; n++) {
        sim_load(image);
        struct journal_diagnosis diagnosis = diagnosed();
        char copy[512];
        sim_crash_before(n);
        done = journal_cut(MODEL_FOLDER, &diagnosis, copy) == FAULT_NONE;
        sim_power_loss(50);
        diagnosis = diagnosed();
        assert_int_equal(diagnosis.seq_good, good);
        if (diagnosis.damaged) assert_int_equal(journal_cut(MODEL_FOLDER, &diagnosis, copy), FAULT_NONE);
        diagnosis = diagnosed();
        assert_false(diagnosis.damaged);
        assert_int_equal(diagnosis.seq_good, good);
    }
    sim_discard(image);
}

static void a_cut_may_crash_anywhere(void **state)
{
    (void)state;
    build(10, 300);
    uint64_t seq_first;
    spoil(1, batch_at(1, 2, &seq_first) + 20);
    cut_crashed_anywhere(seq_first - 1);
    build(10, 300);
    spoil(1, SEGMENT_AT_SEQ_FIRST); /* the one before is cut too, by its mark */
    cut_crashed_anywhere(firsts[1] - 1);
    build(10, 300);
    sim_delete(segment_at(first_count - 1));
    cut_crashed_anywhere(firsts[first_count - 1] - 1);
}

int main(void)
{
    seed = model_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_journal_has_nothing_to_cut),
        cmocka_unit_test(a_cut_keeps_all_before_the_damage_and_a_copy_of_everything),
        cmocka_unit_test(each_cut_has_a_copy_of_its_own),
        cmocka_unit_test(a_spoiled_header_or_a_gap_loses_from_there_on),
        cmocka_unit_test(a_missing_last_segment_is_told_and_a_cut_goes_on_without_it),
        cmocka_unit_test(a_file_cut_short_keeps_its_beginning),
        cmocka_unit_test(nothing_the_ledger_has_filed_is_cut),
        cmocka_unit_test(a_cut_of_anything_but_what_was_shown_is_refused),
        cmocka_unit_test(a_cut_may_crash_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
