/* Names and headers of segments, and the batches in them, byte by byte: the tables of journal/format.h. */
#include "journal/batch.h"
#include "journal/segment.h"

#include "base/checksum.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct segment_header header_sample(void)
{
    struct segment_header header = { .bytes = 1 << 20, .number = 0x0102, .seq_first = 0x0304 };
    memset(header.uuid, 0xEE, sizeof header.uuid);
    memset(header.chain_before, 0xCC, sizeof header.chain_before);
    return header;
}

static void a_segment_header_stands_as_the_table_says(void **state)
{
    (void)state;
    const struct segment_header header = header_sample();
    uint8_t sector[SECTOR_BYTES];
    segment_header_put(&header, sector);
    assert_memory_equal(sector, "STAMPEDE\1\0\0\0\0\0\20\0", 16);
    assert_memory_equal(sector + 16, header.uuid, 16);
    assert_memory_equal(sector + 32, "\2\1\0\0\0\0\0\0\4\3\0\0\0\0\0\0", 16);
    assert_memory_equal(sector + 48, header.chain_before, 32);
    assert_int_equal(sector[80], PADDING_BYTE);
    assert_int_equal(sector[507], PADDING_BYTE);
    assert_int_equal(le32_get(sector + 508), crc32c(0, sector, 508));

    struct segment_header got = { .bytes = 0 };
    assert_null(segment_header_get(sector, &got));
    assert_memory_equal(&got, &header, sizeof got);
}

static void every_flipped_bit_of_a_header_is_refused(void **state)
{
    (void)state;
    const struct segment_header header = header_sample();
    uint8_t sector[SECTOR_BYTES];
    segment_header_put(&header, sector);
    for (uint32_t bit = 0; bit < SECTOR_BYTES * 8; bit++) {
        struct segment_header got;
        sector[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_non_null(segment_header_get(sector, &got));
        sector[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static void impossible_headers_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint32_t bytes;
        uint64_t number, seq_first;
        bool good;
    } rows[] = {
        { 1 << 20, 1, 1, true },
        { 0, 1, 1, false },
        { 512, 1, 1, false },
        { (1 << 20) + 1, 1, 1, false },
        { 1024, 1, 1, true },
        { SEGMENT_BYTES_MAX, 1, 1, true },
        { SEGMENT_BYTES_MAX + 512, 1, 1, false },
        { 1 << 20, 0, 1, false },
        { 1 << 20, 1, 0, false },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct segment_header header = { .bytes = rows[i].bytes, .number = rows[i].number, .seq_first = rows[i].seq_first };
        uint8_t sector[SECTOR_BYTES];
        segment_header_put(&header, sector);
        assert_int_equal(segment_header_get(sector, &header) == NULL, rows[i].good);
    }
}

static void a_mark_stands_as_the_table_says_and_every_flipped_bit_is_seen(void **state)
{
    (void)state;
    uint8_t sector[SECTOR_BYTES];
    mark_put(0x0506, 77, sector);
    assert_memory_equal(sector, "\xFFNEXT\xFF\xFF\xFF\1\0\0\0\6\5\0\0\0\0\0\0", 20);
    assert_int_equal(sector[20], PADDING_BYTE);
    assert_int_equal(sector[507], PADDING_BYTE);
    assert_int_equal(le32_get(sector + 508), crc32c(77, sector, 508));

    uint64_t seq_next = 0;
    assert_int_equal(mark_get(sector, 77, &seq_next), MARK_WHOLE);
    assert_int_equal(seq_next, 0x0506);
    assert_int_equal(mark_get(sector, 78, &seq_next), MARK_TORN); /* of another segment */
    for (uint32_t bit = 0; bit < SECTOR_BYTES * 8; bit++) {
        sector[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(mark_get(sector, 77, &seq_next), bit < 64 ? MARK_NONE : MARK_TORN);
        sector[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static void batches_leave_room_for_the_mark(void **state)
{
    (void)state;
    assert_int_equal(segment_room(4096, 512), 3072);
    assert_int_equal(segment_room(4096, 3072), 512);
    assert_int_equal(segment_room(4096, 3584), 0);
    assert_int_equal(segment_room(4096, 4096), 0); /* filled by an earlier release */
}

static void names_are_read_strictly(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t seq;
        bool unfinished;
    } rows[] = {
        { "00000000000000000001.seg", 1, false },
        { "18446744073709551615.seg", UINT64_MAX, false },
        { "18446744073709551616.seg", 0, false },
        { "99999999999999999999.seg", 0, false },
        { "00000000000000000000.seg", 0, false },
        { "0000000000000000001.seg", 0, false },
        { "000000000000000000001.seg", 0, false },
        { "00000000000000000001.seg.new", 0, true },
        { "00000000000000000001.segx", 0, false },
        { "0000000000000000000x.seg", 0, false },
        { "+0000000000000000001.seg", 0, false },
        { "spare.new", 0, true },
        { "my.new", 0, false },
        { ".new", 0, false },
        { "", 0, false },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t seq = 0;
        assert_int_equal(segment_name_read(rows[i].name, &seq), rows[i].seq != 0);
        if (rows[i].seq != 0) assert_int_equal(seq, rows[i].seq);
        assert_int_equal(segment_name_unfinished(rows[i].name), rows[i].unfinished);
    }
    char path[PATH_BYTES];
    segment_path(path, "/d", 42, ".new");
    assert_string_equal(path, "/d/00000000000000000042.seg.new");
}

static void a_parent_is_found_for_any_spelling(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        { "/data/journal", "/data" }, { "/data/journal/", "/data" }, { "/data//journal", "/data" },  { "/journal", "/" },
        { "journal", "." },           { "data/journal", "data" },    { "./data/journal", "./data" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char path[PATH_BYTES];
        folder_parent(path, rows[i][0]);
        assert_string_equal(path, rows[i][1]);
    }
}

static void a_batch_stands_as_the_table_says(void **state)
{
    (void)state;
    struct chain chain;
    assert_int_equal(chain_open(&chain), FAULT_NONE);
    uint8_t bytes[1024];
    memset(bytes, 0, sizeof bytes);
    struct batch batch = { .bytes = bytes, .seq_first = 5, .at_ms = 6, .digest = 7 };
    batch_reset(&batch);
    assert_int_equal(batch.length, 80);
    memset(bytes + 80, 'r', 450);
    batch.length += 450;
    batch.count = 3;
    assert_int_equal(batch_seal(&batch, 9, &chain), 1024);

    static const uint8_t due[] = { 'B', 'T', 'C', 'H', 2, 0, 0, 0, 18, 2, 0, 0, 3, 0, 0, 0, 5, 0, 0, 0,
                                   0,   0,   0,   0,   6, 0, 0, 0, 0,  0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0 };
    assert_memory_equal(bytes, due, sizeof due);
    assert_memory_equal(bytes + 40, chain.value, 32);
    assert_int_equal(le32_get(bytes + 72), crc32c(9, bytes + 80, 1024 - 80));
    assert_int_equal(le32_get(bytes + 76), crc32c(9, bytes, 76));
    assert_int_equal(bytes[530], PADDING_BYTE);
    assert_int_equal(bytes[1023], PADDING_BYTE);

    /* The chain is SHA-256 of what format.h says, and the context can be used again. */
    uint8_t all[32 + 40 + 1024 - 80] = { 0 }, digest[32];
    memcpy(all + 32, bytes, 40);
    memcpy(all + 72, bytes + 80, 1024 - 80);
    unsigned int len = 0;
    assert_int_equal(EVP_Digest(all, sizeof all, digest, &len, EVP_sha256(), NULL), 1);
    assert_memory_equal(digest, chain.value, 32);
    memcpy(all, digest, 32);
    chain_advance(&chain, bytes, 1024);
    assert_int_equal(EVP_Digest(all, sizeof all, digest, &len, EVP_sha256(), NULL), 1);
    assert_memory_equal(digest, chain.value, 32);

    struct batch_header header;
    assert_null(batch_header_get(bytes, 9, &header));
    assert_true(batch_intact(bytes, &header, 9));
    assert_false(batch_intact(bytes, &header, 8));
    assert_int_equal(header.version, 2);
    assert_non_null(batch_header_get(bytes, 8, &header)); /* of another segment */
    for (uint32_t version = 0; version < 4; version++) {
        le32_put(bytes + 4, version);
        le32_put(bytes + 76, crc32c(9, bytes, 76));
        assert_int_equal(batch_header_get(bytes, 9, &header) == NULL, version == 1 || version == 2);
    }
    chain_close(&chain);
}

static void a_batch_of_another_segment_or_journal_has_another_seed(void **state)
{
    (void)state;
    struct segment_header a = header_sample(), b = header_sample(), c = header_sample();
    b.number++;
    c.uuid[15] ^= 1;
    assert_int_not_equal(segment_seed(&a), segment_seed(&b));
    assert_int_not_equal(segment_seed(&a), segment_seed(&c));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_segment_header_stands_as_the_table_says),
        cmocka_unit_test(every_flipped_bit_of_a_header_is_refused),
        cmocka_unit_test(impossible_headers_are_refused),
        cmocka_unit_test(a_mark_stands_as_the_table_says_and_every_flipped_bit_is_seen),
        cmocka_unit_test(batches_leave_room_for_the_mark),
        cmocka_unit_test(names_are_read_strictly),
        cmocka_unit_test(a_parent_is_found_for_any_spelling),
        cmocka_unit_test(a_batch_stands_as_the_table_says),
        cmocka_unit_test(a_batch_of_another_segment_or_journal_has_another_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
