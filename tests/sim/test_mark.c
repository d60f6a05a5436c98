/* The mark by which a segment says that another follows: a last segment that is gone is noticed (P11). */
#include "journal/commit.h"
#include "journal/format.h"
#include "journal/segment.h"
#include "tests/sim/disk_sim.h"
#include "tests/sim/journal_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint64_t seed;
static struct model model, model_before;
static struct sim_image *image;
/* Of the journal that was built: its last segment, the one before, and where the batches of that one end. */
static char last_path[PATH_BYTES], before_path[PATH_BYTES];
static uint64_t last_first;
static uint32_t before_end;

static void segments_find(void)
{
    size_t size;
    uint64_t before_first = 0;
    last_first = 0;
    for (uint64_t seq = 1; seq <= model.appended; seq++) {
        segment_path(last_path, MODEL_FOLDER, seq, "");
        if (sim_file(last_path, &size) == NULL) continue;
        before_first = last_first;
        last_first = seq;
    }
    assert_true(before_first > 0);
    segment_path(last_path, MODEL_FOLDER, last_first, "");
    segment_path(before_path, MODEL_FOLDER, before_first, "");
    const uint8_t *bytes = sim_file(before_path, &size);
    struct segment_header header;
    struct batch_header batch;
    assert_null(segment_header_get(bytes, &header));
    before_end = SEGMENT_HEADER_BYTES;
    while (before_end < size && batch_header_get(bytes + before_end, segment_seed(&header), &batch) == NULL) {
        before_end += batch_span(batch.length);
    }
}

/* A journal of some segments of which nothing is filed, kept aside. */
static void build(uint64_t run)
{
    sim_reset(seed + run);
    model_init(&model);
    assert_int_equal(model_open(&model), FAULT_NONE);
    model_work(&model, 400);
    model_close(&model);
    memset(&model.point, 0, sizeof model.point);
    segments_find();
    model_before = model;
    image = sim_save();
}

static void again(void)
{
    sim_load(image);
    model = model_before;
}

static void file_all(void)
{
    size_t size;
    memcpy(model.point.uuid, sim_file(last_path, &size) + SEGMENT_AT_UUID, UUID_BYTES);
    model.point.seq = model.appended;
    model.point.digest = model_digest(model.appended, model.salts[model.appended]);
}

static void must_be_whole(void)
{
    assert_int_equal(model_open(&model), FAULT_NONE);
    assert_null(model_wrong(&model));
    assert_int_equal(model.seen, model_before.appended);
    model_close(&model);
}

/* Refused, with the disk as it was but for a call that makes sure of the folder. */
static void must_be_damage_in(const char *path)
{
    const uint64_t changes = sim_changes();
    assert_int_equal(model_open(&model), FAULT_DAMAGE);
    assert_true(sim_changes() - changes <= 1);
    assert_string_equal(model.damage.file, path);
}

static void must_miss_last(void)
{
    must_be_damage_in(last_path);
    assert_int_equal(model.damage.offset, 0);
    assert_non_null(strstr(model.damage.reason, "the file is missing"));
}

static void mark_spoil(const char *path, uint32_t from, uint32_t to, uint8_t value)
{
    for (uint32_t at = from; at < to; at++) sim_spoil(path, MODEL_SEGMENT_BYTES - MARK_BYTES + at, value);
}

static void a_missing_last_segment_is_damage_that_names_the_file(void **state)
{
    (void)state;
    build(20);
    sim_delete(last_path);
    must_miss_last();
    uint64_t last;
    assert_int_equal(model_scan(&model, NULL, 0, &last), FAULT_DAMAGE);

    /* A torn tail before it is none: that batch was whole once. */
    again();
    sim_delete(last_path);
    for (uint32_t at = before_end - SECTOR_BYTES; at < before_end; at++) sim_spoil(before_path, at, 0);
    must_be_damage_in(before_path);
    sim_discard(image);
}

/* The segment is there before the mark is, so a mark that is only half there says the same. */
static void a_torn_mark_is_damage_only_where_the_next_segment_is_missing(void **state)
{
    (void)state;
    build(21);
    static const uint32_t torn_at[] = { 8, 12, 16, 20, 256, 508, 511 };
    for (size_t i = 0; i < sizeof torn_at / sizeof *torn_at; i++) {
        again();
        mark_spoil(before_path, torn_at[i], MARK_BYTES, 0);
        sim_delete(last_path);
        must_miss_last();
        again();
        mark_spoil(before_path, torn_at[i], MARK_BYTES, 0);
        must_be_whole();
        sim_delete(last_path); /* the start has written the mark anew */
        must_miss_last();
    }
    sim_discard(image);
}

static void a_mark_of_another_segment_is_damage(void **state)
{
    (void)state;
    build(22);
    size_t size;
    struct segment_header header;
    assert_null(segment_header_get(sim_file(before_path, &size), &header));
    uint8_t mark[SECTOR_BYTES];
    mark_put(last_first + 1, segment_seed(&header), mark);
    for (uint32_t at = 0; at < MARK_BYTES; at++) mark_spoil(before_path, at, at + 1, mark[at]);
    must_be_damage_in(before_path);
    sim_discard(image);
}

/* Earlier releases wrote no marks: their journals are taken as they are, and the last segment is looked after from the first
 * start on. */
static void a_journal_without_marks_is_taken_and_marked(void **state)
{
    (void)state;
    build(23);
    for (uint64_t seq = 1; seq < last_first; seq++) {
        char path[PATH_BYTES];
        size_t size;
        segment_path(path, MODEL_FOLDER, seq, "");
        if (sim_file(path, &size) != NULL) mark_spoil(path, 0, MARK_BYTES, 0);
    }
    for (int filed = 0; filed < 2; filed++) { /* filed: the start begins in the last segment and passes the one before */
        struct sim_image *unmarked = sim_save();
        if (filed == 1) file_all();
        must_be_whole();
        memset(&model.point, 0, sizeof model.point);
        sim_delete(last_path);
        must_miss_last();
        sim_load(unmarked);
        model = model_before;
        sim_discard(unmarked);
    }
    sim_discard(image);
}

/* Earlier releases kept no room for a mark: a batch that stands in its place is left alone. */
static void a_segment_full_to_its_last_sector_is_left_alone(void **state)
{
    (void)state;
    before_end = 0;
    for (uint64_t run = 100; before_end != MODEL_SEGMENT_BYTES; run++) {
        sim_reset(seed + run);
        model_init(&model);
        assert_int_equal(model_open(&model), FAULT_NONE);
        model.journal->segment_left += MARK_BYTES;
        while (model.journal->header.number == 1) model_work(&model, 1);
        model_close(&model);
        memset(&model.point, 0, sizeof model.point);
        segments_find();
    }
    model_before = model;
    size_t size;
    uint8_t full[MODEL_SEGMENT_BYTES];
    memcpy(full, sim_file(before_path, &size), sizeof full);
    for (int starts = 0; starts < 2; starts++) {
        must_be_whole();
        assert_memory_equal(sim_file(before_path, &size), full, sizeof full);
    }
}

int main(void)
{
    seed = model_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_last_segment_is_damage_that_names_the_file),
        cmocka_unit_test(a_torn_mark_is_damage_only_where_the_next_segment_is_missing),
        cmocka_unit_test(a_mark_of_another_segment_is_damage),
        cmocka_unit_test(a_journal_without_marks_is_taken_and_marked),
        cmocka_unit_test(a_segment_full_to_its_last_sector_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
