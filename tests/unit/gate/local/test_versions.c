/* P5 over an upgrade: batches of version 1 are replayed by the digest they were written with, those of today go on after
 * them, and a batch that claims the version of the other is damage. */
#include "stand.h"

#include "base/checksum.h"
#include "command/command.h"
#include "engine/engine.h"
#include "journal/batch.h"
#include "journal/record.h"
#include "journal/segment.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SEGMENT_BYTES (1u << 20)

struct segment {
    char path[PATH_BYTES];
    uint8_t *bytes;
    struct segment_header header;
};

static void segment_load(struct segment *segment, const struct stand *stand)
{
    char folder[96];
    snprintf(folder, sizeof folder, "%s/journal", stand->folder);
    segment_path(segment->path, folder, 1, "");
    segment->bytes = malloc(SEGMENT_BYTES);
    int fd = open(segment->path, O_RDONLY);
    assert_int_equal(read(fd, segment->bytes, SEGMENT_BYTES), SEGMENT_BYTES);
    close(fd);
    assert_null(segment_header_get(segment->bytes, &segment->header));
}

static void segment_store(struct segment *segment)
{
    int fd = open(segment->path, O_WRONLY);
    assert_int_equal(write(fd, segment->bytes, SEGMENT_BYTES), SEGMENT_BYTES);
    close(fd);
    free(segment->bytes);
}

static void records_apply(struct engine *engine, const uint8_t *bytes, const struct batch_header *batch)
{
    uint32_t at = BATCH_HEADER_BYTES;
    for (uint32_t i = 0; i < batch->count; i++) {
        struct record record;
        assert_null(record_decode(bytes + at, batch->length - at, batch->seq_first + i, &record));
        engine_apply(engine, &record.decision);
        at += (uint32_t)record.bytes;
    }
}

/* Writes the journal anew as the release before would have: version 1, and the digest of that. lying: the version alone. How
 * many batches there are. */
static int journal_age(const struct stand *stand, bool lying)
{
    static const uint8_t hash_key[16] = "a key of the day";
    struct segment segment;
    segment_load(&segment, stand);
    const uint32_t seed = segment_seed(&segment.header);
    struct chain chain;
    struct engine *engine;
    assert_int_equal(chain_open(&chain), FAULT_NONE);
    assert_int_equal(engine_open(&engine, 100, hash_key), FAULT_NONE);
    engine_digest_by(engine, DIGEST_SIPHASH);
    chain_begin(&chain, segment.bytes);

    int batches = 0;
    struct batch_header batch;
    for (uint8_t *at = segment.bytes + SEGMENT_HEADER_BYTES; batch_header_get(at, seed, &batch) == NULL; batches++) {
        const uint32_t span = batch_span(batch.length);
        records_apply(engine, at, &batch);
        le32_put(at + BATCH_AT_VERSION, 1);
        if (!lying) le64_put(at + BATCH_AT_DIGEST, engine_digest(engine));
        chain_advance(&chain, at, span);
        memcpy(at + BATCH_AT_CHAIN, chain.value, CHAIN_BYTES);
        le32_put(at + BATCH_AT_CRC, crc32c(seed, at, BATCH_AT_CRC));
        at += span;
    }
    engine_close(engine);
    chain_close(&chain);
    segment_store(&segment);
    return batches;
}

static uint32_t version_of_last(const struct stand *stand)
{
    struct segment segment;
    segment_load(&segment, stand);
    struct batch_header batch = { .version = 0 };
    const uint32_t seed = segment_seed(&segment.header);
    const uint8_t *at = segment.bytes + SEGMENT_HEADER_BYTES;
    while (batch_header_get(at, seed, &batch) == NULL) at += batch_span(batch.length);
    free(segment.bytes);
    return batch.version;
}

static int audited(struct stand *stand)
{
    char *words[] = { "--data", stand->folder, NULL };
    return command_audit(2, words);
}

static uint64_t create(struct stand *stand)
{
    struct sale_terms terms = {
        .name = "phone", .price = 100, .units_per_grab_max = 1, .grabs_per_buyer_max = 1, .admission = ADMISSION_LOGIN
    };
    struct told told = stand_told(stand);
    gate_create(stand->lane, &(struct asker){ .name = SLICE("sam") }, &terms, 10, &told.ticket);
    stand_await(stand, &told);
    assert_int_equal(told.ticket.verdict, VERDICT_DONE);
    return told.ticket.sale.id;
}

/* A start on it sells one unit more. */
static void sell(struct stand *stand, uint64_t sale, const char *buyer, uint32_t left)
{
    struct told won = stand_grab(stand, sale, buyer, buyer);
    assert_int_equal(won.ticket.verdict, VERDICT_WON);
    assert_int_equal(won.ticket.grab.available, left);
}

static void a_journal_of_the_release_before_is_replayed_and_goes_on(void **state)
{
    struct stand *stand = *state;
    stand->segment_bytes = SEGMENT_BYTES;
    stand_open(stand, true);
    uint64_t sale = create(stand);
    sell(stand, sale, "ann", 9);
    sell(stand, sale, "a buyer whose name is longer than eight bytes", 8);
    stand_close(stand);
    assert_true(journal_age(stand, false) >= 3);
    assert_int_equal(version_of_last(stand), 1);
    assert_int_equal(audited(stand), 0);

    for (uint32_t start = 0; start < 3; start++) {
        char buyer[16];
        snprintf(buyer, sizeof buyer, "start%u", start);
        stand_open(stand, true);
        assert_int_equal(stand_grab(stand, sale, "ann", "again").ticket.verdict, VERDICT_ALREADY_WON);
        sell(stand, sale, buyer, 7 - start);
        stand_close(stand);
        assert_int_equal(version_of_last(stand), 2);
        assert_int_equal(audited(stand), 0);
    }
}

static void a_digest_of_the_other_version_is_damage(void **state)
{
    struct stand *stand = *state;
    stand->segment_bytes = SEGMENT_BYTES;
    stand_open(stand, true);
    sell(stand, create(stand), "ann", 9);
    stand_close(stand);
    journal_age(stand, true);

    struct journal_damage damage = { .file = "" };
    const struct gate_options options = { .folder = stand->folder, .segment_bytes = SEGMENT_BYTES, .orders_max = 100 };
    assert_int_equal(ledger_open(&stand->ledger, LEDGER_FILE(stand->ledger_path), LEDGER_OWNER), FAULT_NONE);
    assert_int_equal(gate_open(&stand->gate, &options, stand->ledger, &damage), FAULT_DAMAGE);
    assert_non_null(strstr(damage.reason, "P5"));
    ledger_close(stand->ledger);
    assert_int_equal(audited(stand), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_journal_of_the_release_before_is_replayed_and_goes_on, stand_begin, stand_end),
        cmocka_unit_test_setup_teardown(a_digest_of_the_other_version_is_damage, stand_begin, stand_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
