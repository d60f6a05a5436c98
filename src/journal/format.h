/* format: the journal on disk, as offset tables. Numbers are little endian.
 *
 * A folder holds segments named by their first sequence number, "00000000000000000001.seg". NAME.new and spare.new are
 * work that was not finished: they hold nothing anybody was told of.
 *
 * A segment is segment_bytes long from its first day: zeros, then one sector of header, then batches, each beginning on a
 * sector, then zeros. A sector reaches the disk whole or not at all. No sector of a header or batch is all zero, so a
 * zero sector is one that never was written. The last sector is kept free for the mark, which says that a segment follows:
 * it is durable before the first batch of that one is, so whoever finds a mark and no next segment has lost one. Segments
 * of before there were marks have none, and may have a batch there.
 *
 * Segment header (one sector)           Batch header
 *    0   8  magic "STAMPEDE"               0   4  magic "BTCH"
 *    8   4  version                        4   4  version
 *   12   4  segment_bytes                  8   4  length: header and records, without the padding
 *   16  16  uuid of the journal           12   4  count of records, at least 1
 *   32   8  number, 1, 2, 3 ...           16   8  sequence number of the first record
 *   40   8  first sequence number         24   8  time of the last record, ms
 *   48  32  chain at the end of the       32   8  the engine's digest after the last record
 *           segment before, or zeros      40  32  chain
 *   80 428  padding                       72   4  CRC32C of records and padding, seeded
 *  508   4  CRC32C of bytes 0..507        76   4  CRC32C of bytes 0..75, seeded
 *                                         80   .  records, then padding up to the next sector
 * Mark (one sector)
 *    0   8  magic "\xFFNEXT\xFF\xFF\xFF"      12   8  first sequence number of the segment that follows
 *    8   4  version                        20 488  padding
 *                                         508   4  CRC32C of bytes 0..507, seeded
 *
 * Seeded: the checksum goes over the uuid and the segment's number first, so that a batch of another journal or another
 * segment is not taken for one of this.
 * Chain: SHA-256 of the chain before, bytes 0..39, and all bytes from 80 to the end of the padding. The chain before the
 * first batch of a segment is the SHA-256 of the segment's header sector, which holds the chain of the segment before:
 * whoever changes a byte has to change all that follow.
 *
 * Record                                Kinds 1 SALE_CREATED: stock 4, length of seller 1, seller, terms
 *    0   2  length of it all                  2 SALE_CHANGED: terms
 *    2   1  kind                              3 STOCK_ADDED: units 8, signed
 *    3   1  version                           4 SALE_PAUSED, 5 SALE_RESUMED, 6 SALE_CLOSED: nothing
 *    4   8  time, ms                          7 WON: units 4, amount 8, pay_by 8, nonce of the token 8, length of buyer 1,
 *   12   8  sale                                 length of key 1, buyer, key
 *   20   .  by kind                           8 TOKEN_GIVEN: length of buyer 1, buyer
 *                                             9 PAID, 12 RETAKEN, 13 REFUND_DUE: order 8, units 4, length of ref 1, ref
 *                                            10 CANCELLED: order 8, units 4, by 1, length of reason 1, reason
 *                                            11 EXPIRED: order 8, units 4
 *                                       Terms: price 8, units_per_grab_max 4, grabs_per_buyer_max 4, opens 8, closes 8,
 *                                             pay_within_s 4, admission 1, tokens_max 4, admit_max 4, line: rate_per_s 4,
 *                                             size 4, timeout_ms 4, late_payment 1, event 8, lengths of currency 1,
 *                                             name 1, description 2, name of the line 1, currency, name, description,
 *                                             name of the line */
#ifndef STAMPEDE_JOURNAL_FORMAT_H
#define STAMPEDE_JOURNAL_FORMAT_H

#include "bounds.h"

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define UUID_BYTES 16
#define CHAIN_BYTES 32
#define PADDING_BYTE 0xA5

#define SEGMENT_MAGIC "STAMPEDE"
#define SEGMENT_VERSION 1
enum {
    SEGMENT_AT_MAGIC = 0,
    SEGMENT_AT_VERSION = 8,
    SEGMENT_AT_BYTES = 12,
    SEGMENT_AT_UUID = 16,
    SEGMENT_AT_NUMBER = 32,
    SEGMENT_AT_SEQ_FIRST = 40,
    SEGMENT_AT_CHAIN_BEFORE = 48,
    SEGMENT_AT_PADDING = 80,
    SEGMENT_AT_CRC = 508,
    SEGMENT_HEADER_BYTES = SECTOR_BYTES,
};

/* No text has a byte 0xFF: no sector inside a batch, which may stand there in old segments, begins like a mark. */
#define MARK_MAGIC "\xFFNEXT\xFF\xFF\xFF"
#define MARK_VERSION 1
enum {
    MARK_AT_MAGIC = 0,
    MARK_AT_VERSION = 8,
    MARK_AT_SEQ_NEXT = 12,
    MARK_AT_PADDING = 20,
    MARK_AT_CRC = 508,
    MARK_BYTES = SECTOR_BYTES,
};

#define BATCH_MAGIC "BTCH"
#define BATCH_VERSION 2
#define BATCH_VERSION_MIN 1 /* its digest is another, and nothing else */
enum {
    BATCH_AT_MAGIC = 0,
    BATCH_AT_VERSION = 4,
    BATCH_AT_LENGTH = 8,
    BATCH_AT_COUNT = 12,
    BATCH_AT_SEQ_FIRST = 16,
    BATCH_AT_TIME = 24,
    BATCH_AT_DIGEST = 32,
    BATCH_AT_CHAIN = 40,
    BATCH_AT_RECORDS_CRC = 72,
    BATCH_AT_CRC = 76,
    BATCH_HEADER_BYTES = 80,
};

#define RECORD_VERSION 1
enum {
    RECORD_AT_LENGTH = 0,
    RECORD_AT_KIND = 2,
    RECORD_AT_VERSION = 3,
    RECORD_AT_TIME = 4,
    RECORD_AT_SALE = 12,
    RECORD_HEADER_BYTES = 20,
    TERMS_BYTES_MIN = 71,
    WON_BYTES_MIN = 30,
};

_Static_assert(SEGMENT_AT_VERSION == SEGMENT_AT_MAGIC + sizeof SEGMENT_MAGIC - 1, "the magic has 8 bytes");
_Static_assert(SEGMENT_AT_NUMBER == SEGMENT_AT_UUID + UUID_BYTES, "the uuid has 16 bytes");
_Static_assert(SEGMENT_AT_PADDING == SEGMENT_AT_CHAIN_BEFORE + CHAIN_BYTES, "the chain has 32 bytes");
_Static_assert(SEGMENT_AT_CRC + 4 == SECTOR_BYTES, "the header of a segment is one sector, its checksum last");
_Static_assert(MARK_AT_VERSION == MARK_AT_MAGIC + sizeof MARK_MAGIC - 1, "the magic has 8 bytes");
_Static_assert(MARK_AT_PADDING == MARK_AT_SEQ_NEXT + 8, "a sequence number has 8 bytes");
_Static_assert(MARK_AT_CRC + 4 == MARK_BYTES, "a mark is one sector, its checksum last");
_Static_assert(BATCH_AT_VERSION == BATCH_AT_MAGIC + sizeof BATCH_MAGIC - 1, "the magic has 4 bytes");
_Static_assert(BATCH_AT_RECORDS_CRC == BATCH_AT_CHAIN + CHAIN_BYTES, "the chain has 32 bytes");
_Static_assert(BATCH_AT_CRC + 4 == BATCH_HEADER_BYTES, "the checksum ends the header of a batch");
_Static_assert(BATCH_HEADER_BYTES < SECTOR_BYTES, "the header of a batch is written whole or not at all");
_Static_assert(RECORD_HEADER_BYTES == RECORD_AT_SALE + 8, "the sale ends the header of a record");
_Static_assert(RECORD_HEADER_BYTES + 4 + 1 + USERNAME_BYTES_MAX + TERMS_BYTES_MIN + CURRENCY_BYTES + SALE_NAME_BYTES_MAX +
                       SALE_DESCRIPTION_BYTES_MAX + LINE_NAME_BYTES_MAX <=
                   RECORD_BYTES_MAX,
               "the largest record is within its limit");
_Static_assert(RECORD_BYTES_MAX <= UINT16_MAX, "the length of a record fits its field");
_Static_assert(BUYER_BYTES_MAX <= UINT8_MAX && IDEMPOTENCY_KEY_BYTES_MAX <= UINT8_MAX && USERNAME_BYTES_MAX <= UINT8_MAX &&
                   SALE_NAME_BYTES_MAX <= UINT8_MAX && LINE_NAME_BYTES_MAX <= UINT8_MAX &&
                   SALE_DESCRIPTION_BYTES_MAX <= UINT16_MAX,
               "lengths of texts fit their fields");
/* Texts have no NUL and the fields between them are short, so no 512 bytes in a row are zero. */
_Static_assert(PADDING_BYTE != 0 && RECORD_HEADER_BYTES + 5 + TERMS_BYTES_MIN < SECTOR_BYTES / 2,
               "numbers alone never fill a sector");

static inline bool sector_is_zero(const uint8_t *sector)
{
    return sector[0] == 0 && memcmp(sector, sector + 1, SECTOR_BYTES - 1) == 0;
}

static inline void le16_put(uint8_t *at, uint16_t value)
{
    value = htole16(value);
    memcpy(at, &value, sizeof value);
}

static inline void le32_put(uint8_t *at, uint32_t value)
{
    value = htole32(value);
    memcpy(at, &value, sizeof value);
}

static inline void le64_put(uint8_t *at, uint64_t value)
{
    value = htole64(value);
    memcpy(at, &value, sizeof value);
}

static inline uint16_t le16_get(const uint8_t *at)
{
    uint16_t value;
    memcpy(&value, at, sizeof value);
    return le16toh(value);
}

static inline uint32_t le32_get(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return le32toh(value);
}

static inline uint64_t le64_get(const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return le64toh(value);
}

#endif
