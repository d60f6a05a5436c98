#include "journal/segment.h"

#include "base/checksum.h"
#include "base/disk.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ZEROS_BYTES (1u << 20)
#define NAME_DIGITS 20
#define NAME_SUFFIX ".seg"
#define NEW_SUFFIX ".new"

void segment_header_put(const struct segment_header *header, uint8_t sector[SECTOR_BYTES])
{
    memset(sector, PADDING_BYTE, SECTOR_BYTES);
    memcpy(sector + SEGMENT_AT_MAGIC, SEGMENT_MAGIC, sizeof SEGMENT_MAGIC - 1);
    le32_put(sector + SEGMENT_AT_VERSION, SEGMENT_VERSION);
    le32_put(sector + SEGMENT_AT_BYTES, header->bytes);
    memcpy(sector + SEGMENT_AT_UUID, header->uuid, UUID_BYTES);
    le64_put(sector + SEGMENT_AT_NUMBER, header->number);
    le64_put(sector + SEGMENT_AT_SEQ_FIRST, header->seq_first);
    memcpy(sector + SEGMENT_AT_CHAIN_BEFORE, header->chain_before, CHAIN_BYTES);
    le32_put(sector + SEGMENT_AT_CRC, crc32c(0, sector, SEGMENT_AT_CRC));
}

const char *segment_header_get(const uint8_t sector[SECTOR_BYTES], struct segment_header *out)
{
    if (memcmp(sector + SEGMENT_AT_MAGIC, SEGMENT_MAGIC, sizeof SEGMENT_MAGIC - 1) != 0) return "not a journal segment";
    if (le32_get(sector + SEGMENT_AT_CRC) != crc32c(0, sector, SEGMENT_AT_CRC)) {
        return "checksum of the segment header differs";
    }
    if (le32_get(sector + SEGMENT_AT_VERSION) != SEGMENT_VERSION) return "segment of an unknown version";

    out->bytes = le32_get(sector + SEGMENT_AT_BYTES);
    memcpy(out->uuid, sector + SEGMENT_AT_UUID, UUID_BYTES);
    out->number = le64_get(sector + SEGMENT_AT_NUMBER);
    out->seq_first = le64_get(sector + SEGMENT_AT_SEQ_FIRST);
    memcpy(out->chain_before, sector + SEGMENT_AT_CHAIN_BEFORE, CHAIN_BYTES);
    if (out->bytes > SEGMENT_BYTES_MAX || out->bytes % SECTOR_BYTES != 0 || out->bytes <= SEGMENT_HEADER_BYTES) {
        return "segment of an impossible size";
    }
    if (out->number == 0 || out->seq_first == 0) return "segment of an impossible number";
    return NULL;
}

uint32_t segment_seed(const struct segment_header *header)
{
    uint8_t number[8];
    le64_put(number, header->number);
    return crc32c(crc32c(0, header->uuid, UUID_BYTES), number, sizeof number);
}

uint32_t segment_room(uint32_t segment_bytes, uint64_t offset)
{
    return offset + MARK_BYTES < segment_bytes ? (uint32_t)(segment_bytes - MARK_BYTES - offset) : 0;
}

void mark_put(uint64_t seq_next, uint32_t seed, uint8_t sector[SECTOR_BYTES])
{
    memset(sector, PADDING_BYTE, SECTOR_BYTES);
    memcpy(sector + MARK_AT_MAGIC, MARK_MAGIC, sizeof MARK_MAGIC - 1);
    le32_put(sector + MARK_AT_VERSION, MARK_VERSION);
    le64_put(sector + MARK_AT_SEQ_NEXT, seq_next);
    le32_put(sector + MARK_AT_CRC, crc32c(seed, sector, MARK_AT_CRC));
}

bool sector_is_mark(const uint8_t sector[SECTOR_BYTES])
{
    return memcmp(sector + MARK_AT_MAGIC, MARK_MAGIC, sizeof MARK_MAGIC - 1) == 0;
}

enum mark mark_get(const uint8_t sector[SECTOR_BYTES], uint32_t seed, uint64_t *seq_next)
{
    if (!sector_is_mark(sector)) return MARK_NONE;
    if (le32_get(sector + MARK_AT_CRC) != crc32c(seed, sector, MARK_AT_CRC)) return MARK_TORN;
    if (le32_get(sector + MARK_AT_VERSION) != MARK_VERSION) return MARK_TORN;
    *seq_next = le64_get(sector + MARK_AT_SEQ_NEXT);
    return MARK_WHOLE;
}

/* A file cut short has no last sector; whoever reads its batches finds that out. */
static enum fault last_sector_read(int fd, const struct segment_header *header, uint8_t sector[SECTOR_BYTES])
{
    size_t got = 0;
    const enum fault fault = disk_read_at(fd, sector, SECTOR_BYTES, header->bytes - MARK_BYTES, &got);
    if (got < SECTOR_BYTES) memset(sector, 0, SECTOR_BYTES);
    return fault;
}

enum fault segment_mark_read(int fd, const struct segment_header *header, uint64_t batches_end, enum mark *mark,
                             uint64_t *seq_next)
{
    *mark = MARK_NONE;
    if (batches_end > header->bytes - MARK_BYTES) return FAULT_NONE;
    uint8_t sector[SECTOR_BYTES];
    const enum fault fault = last_sector_read(fd, header, sector);
    if (fault == FAULT_NONE) *mark = mark_get(sector, segment_seed(header), seq_next);
    return fault;
}

enum fault segment_mark(int fd, const struct segment_header *header, uint64_t seq_next)
{
    uint8_t sector[SECTOR_BYTES];
    enum fault fault = last_sector_read(fd, header, sector);
    if (fault != FAULT_NONE) return fault;
    if (!sector_is_zero(sector) && !sector_is_mark(sector)) return FAULT_NONE;
    mark_put(seq_next, segment_seed(header), sector);
    fault = disk_write_at(fd, sector, sizeof sector, header->bytes - MARK_BYTES);
    return fault == FAULT_NONE ? disk_sync(fd) : fault;
}

void segment_path(char path[PATH_BYTES], const char *folder, uint64_t seq_first, const char *suffix)
{
    const int len = snprintf(path, PATH_BYTES, "%s/%020" PRIu64 NAME_SUFFIX "%s", folder, seq_first, suffix);
    assert(len > 0 && len < PATH_BYTES);
}

void folder_path(char path[PATH_BYTES], const char *folder, const char *name)
{
    const int len = snprintf(path, PATH_BYTES, "%s/%s", folder, name);
    assert(len > 0 && len < PATH_BYTES);
}

bool segment_name_read(const char *name, uint64_t *seq_first)
{
    uint64_t value = 0;
    for (int i = 0; i < NAME_DIGITS; i++) {
        if (name[i] < '0' || name[i] > '9') return false;
        if (__builtin_mul_overflow(value, UINT64_C(10), &value)) return false;
        if (__builtin_add_overflow(value, (uint64_t)(name[i] - '0'), &value)) return false;
    }
    *seq_first = value;
    return value > 0 && strcmp(name + NAME_DIGITS, NAME_SUFFIX) == 0;
}

bool segment_name_unfinished(const char *name)
{
    if (strcmp(name, SPARE_NAME) == 0) return true;
    char whole[SEGMENT_NAME_BYTES];
    const size_t len = strlen(name), suffix_len = sizeof NEW_SUFFIX - 1;
    if (len <= suffix_len || len - suffix_len >= sizeof whole) return false;
    if (strcmp(name + len - suffix_len, NEW_SUFFIX) != 0) return false;
    memcpy(whole, name, len - suffix_len);
    whole[len - suffix_len] = 0;
    uint64_t seq_first;
    return segment_name_read(whole, &seq_first);
}

void folder_parent(char path[PATH_BYTES], const char *folder)
{
    size_t len = strlen(folder);
    while (len > 1 && folder[len - 1] == '/') len--;
    while (len > 0 && folder[len - 1] != '/') len--;
    while (len > 1 && folder[len - 1] == '/') len--;
    assert(len < PATH_BYTES);
    if (len == 0) {
        memcpy(path, ".", 2);
        return;
    }
    memcpy(path, folder, len);
    path[len] = 0;
}

enum fault segment_zero(int fd, uint64_t from, uint64_t to, uint32_t pause_bytes, const _Atomic bool *stop)
{
    static uint8_t zeros[ZEROS_BYTES]; /* never written; not const, so that it takes no room in the binary */
    uint64_t unsynced = 0;
    while (from < to) {
        if (stop != NULL && atomic_load_explicit(stop, memory_order_relaxed)) return FAULT_TIMEOUT;
        const size_t len = to - from < ZEROS_BYTES ? (size_t)(to - from) : ZEROS_BYTES;
        enum fault fault = disk_write_at(fd, zeros, len, from);
        if (fault != FAULT_NONE) return fault;
        from += len;
        unsynced += len;
        if (pause_bytes > 0 && unsynced >= pause_bytes) {
            fault = disk_sync(fd);
            if (fault != FAULT_NONE) return fault;
            unsynced = 0;
        }
    }
    return FAULT_NONE;
}
