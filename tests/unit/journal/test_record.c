/* Decisions as bytes and back. */
#include "journal/format.h"
#include "journal/record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char text64[64 + 1], text128[128 + 1], text2000[2000 + 1];

static void texts_fill(void)
{
    memset(text64, 'x', 64);
    memset(text128, (char)0xC3, 128);
    memset(text2000, 'd', 2000);
}

static struct sale_terms terms_smallest(void)
{
    return (struct sale_terms){ .name = "a", .price = -1 };
}

static struct sale_terms terms_largest(void)
{
    struct sale_terms terms = {
        .currency = "JPY",
        .price = PRICE_MAX,
        .units_per_grab_max = UINT32_MAX,
        .grabs_per_buyer_max = UINT32_MAX,
        .opens_ms = UINT64_MAX,
        .closes_ms = UINT64_MAX,
        .pay_within_s = UINT32_MAX,
        .admission = ADMISSION_LINE,
        .tokens_max = UINT32_MAX,
        .admit_max = UINT32_MAX - 1,
        .line_rate_per_s = UINT32_MAX - 2,
        .line_size = UINT32_MAX - 3,
        .line_timeout_ms = UINT32_MAX - 4,
        .late_payment = LATE_PAYMENT_REFUND,
        .event_id = UINT64_MAX - 5,
    };
    memcpy(terms.line_name, text64, 32);
    memcpy(terms.name, text128, 128);
    memcpy(terms.description, text2000, 2000);
    return terms;
}

#define SCRIPT_ROWS 31

/* Every kind, with its extremes. */
static void script_fill(struct decision script[SCRIPT_ROWS])
{
    static struct sale_terms smallest, largest;
    texts_fill();
    smallest = terms_smallest();
    largest = terms_largest();
    const struct slice none = { NULL, 0 }, all64 = { text64, 64 }, all200 = { text2000, 200 };
    const struct decision rows[SCRIPT_ROWS] = {
        { .kind = DECISION_SALE_CREATED, .sale_id = 1, .created = { slice_of("s"), &smallest, 0 } },
        { .kind = DECISION_SALE_CREATED, .sale_id = UINT64_MAX, .created = { all64, &largest, STOCK_MAX } },
        { .kind = DECISION_SALE_CHANGED, .sale_id = 1, .changed = &smallest },
        { .kind = DECISION_SALE_CHANGED, .sale_id = 1, .changed = &largest },
        { .kind = DECISION_STOCK_ADDED, .sale_id = 1, .stock_added = 1 },
        { .kind = DECISION_STOCK_ADDED, .sale_id = 1, .stock_added = INT64_MIN },
        { .kind = DECISION_STOCK_ADDED, .sale_id = 1, .stock_added = INT64_MAX },
        { .kind = DECISION_SALE_PAUSED, .sale_id = 0, .at_ms = 0 },
        { .kind = DECISION_SALE_RESUMED, .sale_id = 2, .at_ms = UINT64_MAX },
        { .kind = DECISION_SALE_CLOSED, .sale_id = 3, .at_ms = 1 },
        { .kind = DECISION_WON, .sale_id = 1, .won = { slice_of("a"), none, 1, -1, 0, 0 } },
        { .kind = DECISION_WON, .sale_id = 1, .won = { all64, all64, UINT32_MAX, INT64_MAX, UINT64_MAX, UINT64_MAX } },
        { .kind = DECISION_WON, .sale_id = 1, .won = { all64, none, 1, INT64_MIN, 0, 0 } },
        { .kind = DECISION_WON, .sale_id = 1, .won = { { "\0\0b", 3 }, slice_of("k"), 7, 0, 5, 0 } },
        { .kind = DECISION_WON, .sale_id = 1, .won = { none, none, 0, 0, 0, 0 } },
        { .kind = DECISION_WON, .sale_id = 1, .won = { slice_of("a"), none, 1, -1, 0, 7 } },
        { .kind = DECISION_TOKEN_GIVEN, .sale_id = 1, .token_given = { slice_of("a") } },
        { .kind = DECISION_TOKEN_GIVEN, .sale_id = UINT64_MAX, .at_ms = 5, .token_given = { all64 } },
        { .kind = DECISION_TOKEN_GIVEN, .sale_id = 1, .token_given = { none } },
        { .kind = DECISION_PAID, .sale_id = 1, .ended = { .order_no = 7, .units = 2, .ref = slice_of("p") } },
        { .kind = DECISION_PAID, .sale_id = 1, .ended = { UINT64_MAX, UINT32_MAX, all64, none, CANCELLER_NONE } },
        { .kind = DECISION_PAID, .sale_id = 1, .ended = { .ref = { "\0p", 2 } } },
        { .kind = DECISION_RETAKEN, .sale_id = 1, .ended = { .order_no = 8, .units = 1, .ref = all64 } },
        { .kind = DECISION_RETAKEN, .sale_id = 1, .ended = { .order_no = 8, .units = 1, .ref = none } },
        { .kind = DECISION_REFUND_DUE, .sale_id = UINT64_MAX, .ended = { .order_no = 9, .units = 1, .ref = all64 } },
        { .kind = DECISION_REFUND_DUE, .sale_id = 1, .ended = { .order_no = 9, .units = 3, .ref = slice_of("r") } },
        { .kind = DECISION_CANCELLED, .sale_id = 1, .ended = { .order_no = 3, .units = 1, .by = CANCELLER_BUYER } },
        { .kind = DECISION_CANCELLED, .sale_id = 1, .ended = { UINT64_MAX, UINT32_MAX, none, all200, CANCELLER_ADMIN } },
        { .kind = DECISION_CANCELLED, .sale_id = 1, .ended = { 5, 1, none, slice_of("late"), CANCELLER_SELLER } },
        { .kind = DECISION_EXPIRED, .sale_id = 1, .ended = { .order_no = 4, .units = 1 } },
        { .kind = DECISION_EXPIRED, .sale_id = 1, .ended = { .order_no = UINT64_MAX, .units = UINT32_MAX } },
    };
    memcpy(script, rows, sizeof rows);
}

static void every_kind_comes_back_as_it_was(void **state)
{
    (void)state;
    struct decision script[SCRIPT_ROWS];
    script_fill(script);
    for (size_t i = 0; i < SCRIPT_ROWS; i++) {
        uint8_t bytes[RECORD_BYTES_MAX];
        const size_t len = record_encode(&script[i], bytes);
        struct record record;
        assert_null(record_decode(bytes, len, 41 + i, &record));
        const struct decision *got = &record.decision, *due = &script[i];
        assert_int_equal(record.bytes, len);
        assert_int_equal(got->seq, 41 + i);
        assert_int_equal(got->kind, due->kind);
        assert_int_equal(got->at_ms, due->at_ms);
        assert_int_equal(got->sale_id, due->sale_id);
        if (due->kind == DECISION_SALE_CREATED) {
            assert_true(slice_equal(got->created.seller, due->created.seller));
            assert_int_equal(got->created.stock, due->created.stock);
            assert_memory_equal(got->created.terms, due->created.terms, sizeof *due->created.terms);
        } else if (due->kind == DECISION_SALE_CHANGED) {
            assert_memory_equal(got->changed, due->changed, sizeof *due->changed);
        } else if (due->kind == DECISION_STOCK_ADDED) {
            assert_int_equal(got->stock_added, due->stock_added);
        } else if (due->kind == DECISION_WON) {
            assert_true(slice_equal(got->won.buyer, due->won.buyer));
            assert_true(slice_equal(got->won.key, due->won.key));
            assert_int_equal(got->won.units, due->won.units);
            assert_int_equal(got->won.amount, due->won.amount);
            assert_int_equal(got->won.pay_by_ms, due->won.pay_by_ms);
            assert_int_equal(got->won.token_nonce, due->won.token_nonce);
        } else if (due->kind == DECISION_TOKEN_GIVEN) {
            assert_true(slice_equal(got->token_given.buyer, due->token_given.buyer));
        } else if (due->kind >= DECISION_PAID) {
            assert_int_equal(got->ended.order_no, due->ended.order_no);
            assert_int_equal(got->ended.units, due->ended.units);
            assert_true(slice_equal(got->ended.ref, due->ended.ref));
            assert_true(slice_equal(got->ended.reason, due->ended.reason));
            assert_int_equal(got->ended.by, due->ended.by);
        }
    }
}

/* The bytes are copied to memory of exactly their length, so that a sanitizer sees every read beyond it. */
static const char *decode_exact(const uint8_t *bytes, size_t len, struct record *record, uint8_t **copy)
{
    *copy = malloc(len > 0 ? len : 1);
    assert_non_null(*copy);
    memcpy(*copy, bytes, len);
    return record_decode(*copy, len, 1, record);
}

static void a_record_cut_off_anywhere_is_refused(void **state)
{
    (void)state;
    struct decision script[SCRIPT_ROWS];
    script_fill(script);
    for (size_t i = 0; i < SCRIPT_ROWS; i++) {
        uint8_t bytes[RECORD_BYTES_MAX];
        const size_t len = record_encode(&script[i], bytes);
        for (size_t cut = 0; cut < len; cut++) {
            struct record record;
            uint8_t *copy;
            assert_non_null(decode_exact(bytes, cut, &record, &copy));
            free(copy);
            /* Also when its length says so. */
            if (cut < RECORD_HEADER_BYTES) continue;
            uint8_t shorter[RECORD_BYTES_MAX];
            memcpy(shorter, bytes, cut);
            le16_put(shorter + RECORD_AT_LENGTH, (uint16_t)cut);
            assert_non_null(decode_exact(shorter, cut, &record, &copy));
            free(copy);
        }
    }
}

static void a_record_with_bytes_too_many_is_refused(void **state)
{
    (void)state;
    struct decision script[SCRIPT_ROWS];
    script_fill(script);
    for (size_t i = 0; i < SCRIPT_ROWS; i++) {
        uint8_t bytes[RECORD_BYTES_MAX] = { 0 };
        const size_t len = record_encode(&script[i], bytes);
        struct record record;
        le16_put(bytes + RECORD_AT_LENGTH, (uint16_t)(len + 1));
        assert_non_null(record_decode(bytes, len + 1, 1, &record));
    }
}

/* The checksum of the batch finds a flipped bit. The decoder by itself must not read wildly, and what it takes it must have
 * understood: the same bytes come out again. */
static void a_flipped_record_is_refused_or_means_exactly_its_bytes(void **state)
{
    (void)state;
    struct decision script[SCRIPT_ROWS];
    script_fill(script);
    size_t refused = 0;
    for (size_t i = 0; i < SCRIPT_ROWS; i++) {
        uint8_t bytes[RECORD_BYTES_MAX];
        const size_t len = record_encode(&script[i], bytes);
        for (size_t bit = 0; bit < len * 8; bit++) {
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
            struct record record;
            uint8_t *copy;
            if (decode_exact(bytes, len, &record, &copy) != NULL) {
                refused++;
            } else {
                uint8_t out[RECORD_BYTES_MAX];
                assert_int_equal(record_encode(&record.decision, out), record.bytes);
                assert_true(record.bytes <= len);
                assert_memory_equal(out, bytes, record.bytes);
            }
            free(copy);
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
    }
    assert_true(refused > 100);
}

static void random_bytes_never_lead_astray(void **state)
{
    (void)state;
    uint64_t x = 88172645463325252u;
    for (int round = 0; round < 200000; round++) {
        uint8_t bytes[128];
        for (size_t i = 0; i < sizeof bytes; i++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            bytes[i] = (uint8_t)x;
        }
        const size_t len = 20 + x % 100;
        le16_put(bytes + RECORD_AT_LENGTH, (uint16_t)len);
        bytes[RECORD_AT_KIND] = (uint8_t)(x >> 32) % 15;
        bytes[RECORD_AT_VERSION] = RECORD_VERSION;
        if (round % 2 == 0 && len > RECORD_HEADER_BYTES + 22) {
            bytes[RECORD_HEADER_BYTES + 20] %= 40;
            bytes[RECORD_HEADER_BYTES + 21] %= 40;
        }
        if (round % 3 == 0 && len > RECORD_HEADER_BYTES + 14) { /* an ended one of just this length */
            bytes[RECORD_HEADER_BYTES + 12] = (uint8_t)(len - RECORD_HEADER_BYTES - 13);
            if (bytes[RECORD_AT_KIND] == DECISION_CANCELLED) {
                bytes[RECORD_HEADER_BYTES + 12] = (uint8_t)(x >> 40) % 5;
                bytes[RECORD_HEADER_BYTES + 13] = (uint8_t)(len - RECORD_HEADER_BYTES - 14);
            }
        }
        struct record record;
        uint8_t *copy;
        if (decode_exact(bytes, len, &record, &copy) == NULL) {
            uint8_t out[RECORD_BYTES_MAX];
            assert_int_equal(record_encode(&record.decision, out), len);
            assert_memory_equal(out, bytes, len);
        }
        free(copy);
    }
}

static void other_versions_and_kinds_are_refused(void **state)
{
    (void)state;
    const struct decision decision = { .kind = DECISION_SALE_PAUSED, .sale_id = 1 };
    uint8_t bytes[RECORD_BYTES_MAX];
    struct record record;
    const size_t len = record_encode(&decision, bytes);
    for (unsigned int value = 0; value < 256; value++) {
        bytes[RECORD_AT_VERSION] = (uint8_t)value;
        assert_int_equal(record_decode(bytes, len, 1, &record) == NULL, value == RECORD_VERSION);
    }
    bytes[RECORD_AT_VERSION] = RECORD_VERSION;
    for (unsigned int value = 0; value < 256; value++) {
        bytes[RECORD_AT_KIND] = (uint8_t)value;
        const bool bare = value == DECISION_SALE_PAUSED || value == DECISION_SALE_RESUMED || value == DECISION_SALE_CLOSED;
        assert_int_equal(record_decode(bytes, len, 1, &record) == NULL, bare);
    }
}

/* A change of these is a change of the format: a new version, and a reader of the old one. */
static void the_bytes_of_a_win_are_these(void **state)
{
    (void)state;
    const struct decision win = {
        .kind = DECISION_WON,
        .at_ms = 0x0102030405060708,
        .sale_id = 0x1112131415161718,
        .won = { slice_of("ann"), slice_of("k1"), 0x21222324, -2, 0x3132333435363738, 0x4142434445464748 },
    };
    static const uint8_t due[] = {
        55,   0,    7,    1,    8,    7,    6,    5,    4,    3,    2,    1,    0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12,
        0x11, 0x24, 0x23, 0x22, 0x21, 0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x38, 0x37, 0x36, 0x35, 0x34, 0x33,
        0x32, 0x31, 0x48, 0x47, 0x46, 0x45, 0x44, 0x43, 0x42, 0x41, 3,    2,    'a',  'n',  'n',  'k',  '1',
    };
    uint8_t bytes[RECORD_BYTES_MAX];
    assert_int_equal(record_encode(&win, bytes), sizeof due);
    assert_memory_equal(bytes, due, sizeof due);
}

static void the_bytes_of_an_end_are_these(void **state)
{
    (void)state;
    const struct decision cancelled = {
        .kind = DECISION_CANCELLED,
        .at_ms = 0x0102030405060708,
        .sale_id = 0x1112131415161718,
        .ended = { 0x5152535455565758, 0x21222324, { NULL, 0 }, slice_of("no"), CANCELLER_SELLER },
    };
    static const uint8_t due[] = {
        36,   0,    10,   1,    8,    7,    6,    5,    4,    3,    2,    1,    0x18, 0x17, 0x16, 0x15, 0x14, 0x13,
        0x12, 0x11, 0x58, 0x57, 0x56, 0x55, 0x54, 0x53, 0x52, 0x51, 0x24, 0x23, 0x22, 0x21, 2,    2,    'n',  'o',
    };
    uint8_t bytes[RECORD_BYTES_MAX];
    assert_int_equal(record_encode(&cancelled, bytes), sizeof due);
    assert_memory_equal(bytes, due, sizeof due);

    struct decision paid = cancelled;
    paid.kind = DECISION_PAID;
    paid.ended.ref = slice_of("p1");
    static const uint8_t paid_end[] = { 0x24, 0x23, 0x22, 0x21, 2, 'p', '1' };
    assert_int_equal(record_encode(&paid, bytes), sizeof due - 1);
    assert_memory_equal(bytes + 28, paid_end, sizeof paid_end);
    paid.kind = DECISION_EXPIRED;
    assert_int_equal(record_encode(&paid, bytes), 32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_comes_back_as_it_was),
        cmocka_unit_test(a_record_cut_off_anywhere_is_refused),
        cmocka_unit_test(a_record_with_bytes_too_many_is_refused),
        cmocka_unit_test(a_flipped_record_is_refused_or_means_exactly_its_bytes),
        cmocka_unit_test(random_bytes_never_lead_astray),
        cmocka_unit_test(other_versions_and_kinds_are_refused),
        cmocka_unit_test(the_bytes_of_a_win_are_these),
        cmocka_unit_test(the_bytes_of_an_end_are_these),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
