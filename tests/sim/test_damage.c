/* A journal spoiled byte by byte and bit by bit: it comes back equal, or without an unfinished batch nobody was told of, or
 * it is refused; and whoever refuses has changed nothing (P11). */
#include "journal/batch.h"
#include "journal/format.h"
#include "journal/segment.h"
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

#define FIRST_SEGMENT MODEL_FOLDER "/00000000000000000001.seg"
#define FLIPS_SAMPLED 1000

static uint64_t seed;
static struct model model, model_before;
static struct sim_image *image;
/* The last batch of the journal that was built: its segment, place and first number. */
static char last_path[PATH_BYTES];
static uint64_t last_segment;
static uint32_t last_offset, last_span;
static uint64_t last_seq;

/* Finds the last batch by walking the headers of the last segment. */
static void last_batch_find(void)
{
    last_segment = 1;
    for (uint64_t seq = 1; seq <= model.appended; seq++) {
        char path[PATH_BYTES];
        size_t size;
        segment_path(path, MODEL_FOLDER, seq, "");
        if (sim_file(path, &size) != NULL) last_segment = seq;
    }
    segment_path(last_path, MODEL_FOLDER, last_segment, "");
    size_t size;
    const uint8_t *bytes = sim_file(last_path, &size);
    struct segment_header header;
    assert_null(segment_header_get(bytes, &header));
    uint32_t at = SEGMENT_HEADER_BYTES;
    struct batch_header batch;
    last_offset = 0;
    while (at < size && batch_header_get(bytes + at, segment_seed(&header), &batch) == NULL) {
        last_offset = at;
        last_span = batch_span(batch.length);
        last_seq = batch.seq_first;
        at += last_span;
    }
    assert_true(last_offset > 0);
}

/* A journal of some turns whose last batch has count decisions, kept aside. */
static void build(uint64_t run, uint32_t turns, uint32_t count)
{
    sim_reset(seed + run);
    model_init(&model);
    assert_int_equal(model_open(&model), FAULT_NONE);
    model_work(&model, turns);
    memset(&model.point, 0, sizeof model.point);
    assert_int_equal(model_append(&model, count), count);
    assert_int_equal(model_commit(&model), FAULT_NONE);
    model_close(&model);
    last_batch_find();
    model_before = model;
    image = sim_save();
}

static void again(void)
{
    sim_load(image);
    model = model_before;
}

/* Opens what was spoiled. The number of decisions that came back, or -1 for a refusal, which must have left the disk alone
 * and must say where. The decisions that came back are compared by the model. */
static int64_t recovered(void)
{
    const uint64_t changes = sim_changes();
    model.acked = 0; /* how short it may be is for the caller to say */
    const enum fault fault = model_open(&model);
    if (fault == FAULT_NONE) {
        assert_null(model_wrong(&model));
        const int64_t count = (int64_t)model.seen;
        model_close(&model);
        return count;
    }
    assert_null(model_wrong(&model));
    assert_int_equal(fault, FAULT_DAMAGE);
    /* Making sure of the folder is the one call allowed, and it was there. */
    assert_true(sim_changes() - changes <= 1);
    assert_true(strlen(model.damage.file) > 0 && strlen(model.damage.reason) > 0);
    return -1;
}

static int64_t whole(void)
{
    return (int64_t)model_before.appended;
}

static int64_t without_last(void)
{
    return (int64_t)last_seq - 1;
}

static void last_batch_zero(uint32_t from, uint32_t to)
{
    for (uint32_t at = from; at < to; at++) sim_spoil(last_path, last_offset + at, 0);
}

static void file_all(void)
{
    size_t size;
    const uint8_t *bytes = sim_file(last_path, &size);
    memcpy(model.point.uuid, bytes + SEGMENT_AT_UUID, UUID_BYTES);
    model.point.seq = model.appended;
    model.point.digest = model_digest(model.appended, model.salts[model.appended]);
}

static bool last_batch_has_zero_sector(void)
{
    size_t size;
    const uint8_t *bytes = sim_file(last_path, &size);
    for (uint32_t at = 0; at < last_span; at += SECTOR_BYTES) {
        if (sector_is_zero(bytes + last_offset + at)) return true;
    }
    return false;
}

/* A sector is written whole or not at all: a tail that breaks between sectors was torn, one that breaks inside the last
 * sector of its batch, or inside its header, was spoiled. */
static void a_tail_torn_at_any_byte_is_cut_or_refused(void **state)
{
    (void)state;
    build(1, 30, 25);
    assert_true(last_span >= 3 * SECTOR_BYTES);
    for (uint32_t k = 0; k < last_span; k++) {
        again();
        last_batch_zero(k, last_span);
        const bool header_broken = k > 0 && k < BATCH_HEADER_BYTES;
        const bool zero_sector_left = last_batch_has_zero_sector();
        const int64_t got = recovered();
        const int64_t want = !header_broken && zero_sector_left ? without_last() : -1;
        if (got != want) fail_msg("torn at %u of %u: %" PRId64 ", not %" PRId64, k, last_span, got, want);

        again();
        last_batch_zero(k, last_span);
        file_all();
        if (recovered() != -1) fail_msg("torn at %u: given up although the ledger has it", k);
    }
    sim_discard(image);
}

static void any_set_of_lost_sectors_of_the_last_batch_is_cut(void **state)
{
    (void)state;
    build(2, 30, 25);
    const uint32_t sectors = last_span / SECTOR_BYTES < 10 ? last_span / SECTOR_BYTES : 10;
    for (uint32_t lost = 0; lost < 1u << sectors; lost++) {
        again();
        for (uint32_t i = 0; i < sectors; i++) {
            if (lost >> i & 1) last_batch_zero(i * SECTOR_BYTES, (i + 1) * SECTOR_BYTES);
        }
        assert_int_equal(recovered(), lost == 0 ? whole() : without_last());
    }
    sim_discard(image);
}

static void flip(const char *path, uint64_t bit)
{
    size_t size;
    const uint8_t *bytes = sim_file(path, &size);
    sim_spoil(path, bit / 8, (uint8_t)(bytes[bit / 8] ^ 1u << bit % 8));
}

/* A refusal changes nothing, so flipping the bit back is enough then; what came back was rewritten. */
static bool flip_is_harmless(const char *path, uint64_t bit)
{
    flip(path, bit);
    const int64_t got = recovered();
    if (got != -1 && got != whole()) fail_msg("bit %" PRIu64 " of %s: %" PRId64 " decisions came back", bit, path, got);
    if (got == -1)
        flip(path, bit);
    else
        again();
    return got == whole();
}

static void last_batch_flip_all(void)
{
    for (uint64_t bit = last_offset * UINT64_C(8); bit < (last_offset + last_span) * UINT64_C(8); bit++) {
        assert_false(flip_is_harmless(last_path, bit));
    }
    sim_discard(image);
}

static void every_flipped_bit_of_the_last_batch_is_refused(void **state)
{
    (void)state;
    build(3, 10, 12);
    last_batch_flip_all();
}

/* Behind it everything is zero, as it is behind a header that arrived alone. */
static void every_flipped_bit_of_a_last_batch_of_one_sector_is_refused(void **state)
{
    (void)state;
    uint64_t run = 2000;
    for (build(run, 10, 1); last_span != SECTOR_BYTES; build(run, 10, 1)) {
        sim_discard(image);
        run++;
    }
    last_batch_flip_all();
}

static void every_flipped_bit_of_a_segment_header_is_refused(void **state)
{
    (void)state;
    build(4, 10, 3);
    for (uint64_t bit = 0; bit < SEGMENT_HEADER_BYTES * 8; bit++) assert_false(flip_is_harmless(FIRST_SEGMENT, bit));
    sim_discard(image);
}

static void flipped_bits_anywhere_in_a_megabyte_are_refused_or_change_nothing(void **state)
{
    (void)state;
    build(5, 1600, 5);
    assert_true(sim_files() >= 14);
    uint64_t firsts[96];
    size_t count = 0;
    for (uint64_t seq = 1; seq <= model.appended; seq++) {
        char path[PATH_BYTES];
        size_t size;
        segment_path(path, MODEL_FOLDER, seq, "");
        if (sim_file(path, &size) != NULL) firsts[count++] = seq;
    }
    uint32_t refused = 0;
    for (uint32_t i = 0; i < FLIPS_SAMPLED; i++) {
        char path[PATH_BYTES];
        segment_path(path, MODEL_FOLDER, firsts[sim_random() % count], "");
        if (!flip_is_harmless(path, sim_random() % (MODEL_SEGMENT_BYTES * UINT64_C(8)))) refused++;
    }
    assert_true(refused > FLIPS_SAMPLED * 8 / 10);
    sim_discard(image);
}

static void a_batch_missing_in_the_middle_is_refused(void **state)
{
    (void)state;
    build(6, 30, 25);
    assert_true(last_span > SECTOR_BYTES);
    /* A batch before the last, zeroed: the last one still follows. */
    size_t size;
    const uint8_t *bytes = sim_file(last_path, &size);
    const uint32_t first_span = batch_span(le32_get(bytes + SEGMENT_HEADER_BYTES + BATCH_AT_LENGTH));
    for (uint32_t i = 0; i < first_span; i++) sim_spoil(last_path, SEGMENT_HEADER_BYTES + i, 0);
    assert_int_equal(recovered(), -1);
    assert_int_equal(model.damage.offset, SEGMENT_HEADER_BYTES);
    assert_string_equal(model.damage.file, last_path);

    /* Likewise when only one sector of it is lost: it is not whole, and something follows. */
    again();
    for (uint32_t i = 0; i < SECTOR_BYTES; i++) sim_spoil(last_path, SEGMENT_HEADER_BYTES + i, 0);
    assert_int_equal(recovered(), -1);

    /* Bytes far behind the end are not of a batch that was being written. */
    again();
    sim_spoil(last_path, last_offset + last_span + SECTOR_BYTES, 1);
    last_batch_zero(SECTOR_BYTES, last_span);
    assert_int_equal(recovered(), -1);
    sim_discard(image);
}

/* Where the last batch of the first segment begins; *end is where it ends. */
static uint32_t first_segment_last(uint32_t *end)
{
    size_t size;
    const uint8_t *bytes = sim_file(FIRST_SEGMENT, &size);
    struct segment_header header;
    assert_null(segment_header_get(bytes, &header));
    uint32_t last = 0;
    struct batch_header batch;
    *end = SEGMENT_HEADER_BYTES;
    while (*end < size && batch_header_get(bytes + *end, segment_seed(&header), &batch) == NULL) {
        last = *end;
        *end += batch_span(batch.length);
    }
    return last;
}

static void the_last_batch_of_an_older_segment_is_never_a_torn_tail(void **state)
{
    (void)state;
    uint64_t run = 3000;
    uint32_t end, last;
    /* One that its batches did not fill: two sectors are left before the mark, so that the spoiled one is not where a batch
     * would begin. */
    for (build(run, 400, 3); (last = first_segment_last(&end)), end + 2 * SECTOR_BYTES + MARK_BYTES > MODEL_SEGMENT_BYTES;
         build(run, 400, 3)) {
        sim_discard(image);
        run++;
    }
    for (uint32_t from = last; from < end; from += SECTOR_BYTES) {
        again();
        for (uint32_t at = from; at < end; at++) sim_spoil(FIRST_SEGMENT, at, 0);
        assert_int_equal(recovered(), -1);
    }
    /* A byte in the unused end of an older segment was never written by us. */
    again();
    sim_spoil(FIRST_SEGMENT, MODEL_SEGMENT_BYTES - MARK_BYTES - 1, 1);
    assert_int_equal(recovered(), -1);
    sim_discard(image);
}

static void swapped_batches_break_the_chain(void **state)
{
    (void)state;
    build(8, 5, 4);
    /* Sealed anew with right checksums, but as if another batch had come before: only the chain can tell. */
    size_t size;
    uint8_t *bytes = sim_file(last_path, &size);
    struct segment_header header;
    assert_null(segment_header_get(bytes, &header));
    struct chain chain;
    assert_int_equal(chain_open(&chain), FAULT_NONE);
    memset(chain.value, 7, sizeof chain.value);
    uint8_t copy[64 << 10];
    memcpy(copy, bytes + last_offset, last_span);
    struct batch batch = {
        .bytes = copy,
        .length = le32_get(copy + BATCH_AT_LENGTH),
        .count = le32_get(copy + BATCH_AT_COUNT),
        .seq_first = last_seq,
        .at_ms = le64_get(copy + BATCH_AT_TIME),
        .digest = le64_get(copy + BATCH_AT_DIGEST),
    };
    assert_int_equal(batch_seal(&batch, segment_seed(&header), &chain), last_span);
    chain_close(&chain);
    for (uint32_t i = 0; i < last_span; i++) sim_spoil(last_path, last_offset + i, copy[i]);
    assert_int_equal(recovered(), -1);
    sim_discard(image);
}

static void missing_and_foreign_files_are_damage(void **state)
{
    (void)state;
    build(9, 400, 3);
    char second[PATH_BYTES];
    uint64_t second_first = 2;
    size_t size;
    do segment_path(second, MODEL_FOLDER, second_first++, "");
    while (sim_file(second, &size) == NULL);
    second_first--;
    assert_true(last_segment > second_first);

    sim_delete(second); /* a gap */
    assert_int_equal(recovered(), -1);
    again();
    sim_delete(FIRST_SEGMENT); /* nothing of it was filed */
    assert_int_equal(recovered(), -1);
    again();
    file_all();
    sim_delete(FIRST_SEGMENT); /* filed and archived */
    sim_delete(second);
    assert_int_equal(recovered(), whole());
    again();
    file_all();
    sim_delete(second); /* filed, but a gap all the same */
    assert_int_equal(recovered(), -1);
    again();
    file_all();
    sim_delete(last_path); /* the ledger has filed what it held */
    assert_int_equal(recovered(), -1);
    again();
    file_all();
    model.point.digest ^= 1;
    assert_int_equal(recovered(), -1);
    again();
    file_all();
    model.point.uuid[0] ^= 1;
    assert_int_equal(recovered(), -1);
    again();
    sim_truncate(last_path, last_offset + last_span);
    assert_int_equal(recovered(), -1);
    again();
    sim_truncate(last_path, MODEL_SEGMENT_BYTES + SECTOR_BYTES);
    assert_int_equal(recovered(), -1);
    again();
    assert_int_equal(recovered(), whole());
    sim_discard(image);
}

static void an_absent_journal_is_damage_once_the_ledger_knows_one(void **state)
{
    (void)state;
    for (int folder = 0; folder < 2; folder++) {
        sim_reset(seed);
        model_init(&model);
        if (folder == 1) { /* made and emptied */
            assert_int_equal(model_open(&model), FAULT_NONE);
            model_close(&model);
            sim_delete(FIRST_SEGMENT);
        }
        const uint64_t changes = sim_changes();
        model.point.seq = 5;
        assert_int_equal(model_open(&model), FAULT_DAMAGE);
        model.point.seq = 0;
        model.point.uuid[3] = 1;
        assert_int_equal(model_open(&model), FAULT_DAMAGE);
        assert_int_equal(sim_changes(), changes);
        assert_int_equal(sim_files(), 0);
    }
}

static uint64_t objected_at;

static const char *object_once(void *arg, const struct decision *decision)
{
    (void)arg;
    return decision->seq == objected_at ? "it cannot be" : NULL;
}

/* Checksums say what was written; whether it can be true only the engine knows. */
static void what_the_reader_objects_to_is_damage_and_offered_again(void **state)
{
    (void)state;
    build(12, 30, 9);
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    const struct journal_options options = { .folder = MODEL_FOLDER, .segment_bytes = MODEL_SEGMENT_BYTES, .lock = &lock };
    const struct journal_point point = { .seq = 0 };
    const struct journal_reader reader = { .decision = object_once };
    struct journal_damage damage;
    struct journal *journal;
    const uint64_t changes = sim_changes();
    objected_at = last_seq + 3;
    assert_int_equal(journal_open(&journal, &options, &point, &reader, &damage), FAULT_DAMAGE);
    assert_true(sim_changes() - changes <= 1);
    assert_string_equal(damage.file, last_path);
    assert_true(damage.offset > last_offset + BATCH_HEADER_BYTES && damage.offset < last_offset + last_span);
    assert_non_null(strstr(damage.reason, "it cannot be"));

    struct journal_scan *scan;
    bool more = true;
    assert_int_equal(journal_scan_open(&scan, MODEL_FOLDER, NULL, last_seq - 1, &damage), FAULT_NONE);
    for (int times = 0; times < 3; times++) {
        assert_int_equal(journal_scan_batch(scan, &reader, &more, &damage), FAULT_DAMAGE);
    }
    objected_at = 0;
    assert_int_equal(journal_scan_batch(scan, &reader, &more, &damage), FAULT_NONE);
    assert_true(more);
    assert_int_equal(journal_scan_batch(scan, &reader, &more, &damage), FAULT_NONE);
    assert_false(more);
    journal_scan_close(scan);
    sim_discard(image);
}

int main(void)
{
    seed = model_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tail_torn_at_any_byte_is_cut_or_refused),
        cmocka_unit_test(any_set_of_lost_sectors_of_the_last_batch_is_cut),
        cmocka_unit_test(every_flipped_bit_of_the_last_batch_is_refused),
        cmocka_unit_test(every_flipped_bit_of_a_last_batch_of_one_sector_is_refused),
        cmocka_unit_test(every_flipped_bit_of_a_segment_header_is_refused),
        cmocka_unit_test(flipped_bits_anywhere_in_a_megabyte_are_refused_or_change_nothing),
        cmocka_unit_test(a_batch_missing_in_the_middle_is_refused),
        cmocka_unit_test(the_last_batch_of_an_older_segment_is_never_a_torn_tail),
        cmocka_unit_test(swapped_batches_break_the_chain),
        cmocka_unit_test(what_the_reader_objects_to_is_damage_and_offered_again),
        cmocka_unit_test(missing_and_foreign_files_are_damage),
        cmocka_unit_test(an_absent_journal_is_damage_once_the_ledger_knows_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
