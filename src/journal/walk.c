#include "journal/walk.h"

#include "base/checksum.h"
#include "base/disk.h"
#include "engine/engine.h"
#include "journal/record.h"
#include "journal/remains.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Read at a time: much when the whole journal is read, little behind the durable mark, where most of it would be zeros. */
#define WINDOW_BYTES_OFFLINE (1u << 20)
#define WINDOW_BYTES_LIVE (128u << 10)

static enum fault damaged(const struct walk *walk, uint64_t offset, struct journal_damage *damage, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Of a path that is too long the end says more than the beginning. */
static void damage_in(struct journal_damage *damage, const char *path)
{
    const size_t len = strlen(path), room = sizeof damage->file - 1;
    snprintf(damage->file, sizeof damage->file, "%.*s", (int)room, path + (len > room ? len - room : 0));
}

/* Damage in the present segment; in the folder where there is none. */
static enum fault damaged(const struct walk *walk, uint64_t offset, struct journal_damage *damage, const char *format, ...)
{
    char path[PATH_BYTES];
    if (walk->count > 0)
        segment_path(path, walk->folder, walk->firsts[walk->at], "");
    else
        memcpy(path, walk->folder, sizeof walk->folder);
    damage_in(damage, path);
    damage->offset = offset;
    va_list args;
    va_start(args, format);
    vsnprintf(damage->reason, sizeof damage->reason, format, args);
    va_end(args);
    return FAULT_DAMAGE;
}

bool point_is_empty(const struct journal_point *point)
{
    static const uint8_t none[UUID_BYTES];
    return point->seq == 0 && memcmp(point->uuid, none, UUID_BYTES) == 0;
}

static bool point_names_other(const struct journal_point *point, const uint8_t uuid[UUID_BYTES])
{
    static const uint8_t none[UUID_BYTES];
    return memcmp(point->uuid, none, UUID_BYTES) != 0 && memcmp(point->uuid, uuid, UUID_BYTES) != 0;
}

const uint8_t *walk_bytes(struct walk *walk, uint64_t offset, size_t len, enum fault *fault)
{
    struct window *window = &walk->window;
    *fault = FAULT_NONE;
    if (offset >= window->offset && offset + len <= window->offset + window->len) {
        return window->bytes + (offset - window->offset);
    }
    if (len > window->capacity) {
        uint8_t *bytes = realloc(window->bytes, len);
        if (bytes == NULL) {
            *fault = FAULT_MEMORY;
            return NULL;
        }
        window->bytes = bytes;
        window->capacity = len;
    }
    window->offset = offset;
    window->len = 0;
    if (walk->live != NULL) window->seq_durable = journal_seq_durable(walk->live);
    *fault = disk_read_at(walk->fd, window->bytes, window->capacity, offset, &window->len);
    if (*fault != FAULT_NONE) return NULL;
    if (window->len < len) {
        *fault = FAULT_DAMAGE;
        return NULL;
    }
    return window->bytes;
}

/* As walk_bytes(), for bytes that the segment must have. */
static const uint8_t *bytes_due(struct walk *walk, uint64_t offset, size_t len, enum fault *fault,
                                struct journal_damage *damage)
{
    const uint8_t *bytes = walk_bytes(walk, offset, len, fault);
    if (*fault == FAULT_DAMAGE) (void)damaged(walk, offset, damage, "the file ends too early");
    return bytes;
}

static void first_add(struct walk *walk, uint64_t seq_first)
{
    if (walk->count == walk->capacity) {
        const size_t capacity = walk->capacity == 0 ? 64 : walk->capacity * 2;
        uint64_t *firsts = realloc(walk->firsts, capacity * sizeof *firsts);
        if (firsts == NULL) {
            walk->listing = FAULT_MEMORY;
            return;
        }
        walk->firsts = firsts;
        walk->capacity = capacity;
    }
    walk->firsts[walk->count++] = seq_first;
}

static void name_add(void *arg, const char *name)
{
    struct walk *walk = arg;
    uint64_t seq_first;
    if (walk->listing == FAULT_NONE && segment_name_read(name, &seq_first)) first_add(walk, seq_first);
}

static int first_compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static enum fault segments_list(struct walk *walk)
{
    enum fault fault = disk_each(walk->folder, name_add, walk);
    if (fault == FAULT_NONE) fault = walk->listing;
    if (fault == FAULT_NONE && walk->count > 1) qsort(walk->firsts, walk->count, sizeof *walk->firsts, first_compare);
    return fault;
}

static void segment_leave(struct walk *walk)
{
    if (walk->fd >= 0) disk_close(walk->fd);
    walk->fd = -1;
    walk->window.len = 0;
}

/* Opens the segment at walk->at and checks what its header says of itself. */
static enum fault segment_open(struct walk *walk, struct journal_damage *damage)
{
    const uint64_t seq_first = walk->firsts[walk->at];
    char path[PATH_BYTES];
    segment_path(path, walk->folder, seq_first, "");
    segment_leave(walk);
    enum fault fault = disk_open(path, false, &walk->fd);
    if (fault != FAULT_NONE) {
        walk->fd = -1;
        return fault;
    }

    const uint8_t *sector = bytes_due(walk, 0, SECTOR_BYTES, &fault, damage);
    if (sector == NULL) return fault;
    const char *reason = segment_header_get(sector, &walk->header);
    if (reason != NULL) return damaged(walk, 0, damage, "%s", reason);
    if (walk->header.seq_first != seq_first) {
        return damaged(walk, 0, damage, "the header begins at %" PRIu64 ", the name at %" PRIu64, walk->header.seq_first,
                       seq_first);
    }
    if (point_names_other(&walk->point, walk->header.uuid)) {
        return damaged(walk, 0, damage, "the segment is of another journal than the ledger");
    }
    return FAULT_NONE;
}

/* Once its batches are read, so that a file cut short is damaged there and not from its beginning. */
static enum fault size_check(struct walk *walk, struct journal_damage *damage)
{
    uint64_t size;
    const enum fault fault = disk_size(walk->fd, &size);
    if (fault != FAULT_NONE || size == walk->header.bytes) return fault;
    return damaged(walk, walk->offset, damage, "the file has %" PRIu64 " bytes, its header says %" PRIu32, size,
                   walk->header.bytes);
}

/* The header has been checked; batches are read from here. */
static void segment_begin(struct walk *walk)
{
    walk->seed = segment_seed(&walk->header);
    walk->crc = crc32c(0, walk->window.bytes, SECTOR_BYTES);
    if (walk->live == NULL) chain_begin(&walk->chain, walk->window.bytes);
    walk->offset = SEGMENT_HEADER_BYTES;
}

/* The segment that must follow the one before: next number, same journal, and the chain goes on in it. */
static enum fault segment_follow(struct walk *walk, const struct segment_header *before, struct journal_damage *damage)
{
    const enum fault fault = segment_open(walk, damage);
    if (fault != FAULT_NONE) return fault;
    if (memcmp(walk->header.uuid, before->uuid, UUID_BYTES) != 0) {
        return damaged(walk, SEGMENT_AT_UUID, damage, "the segment is of another journal");
    }
    if (walk->header.number != before->number + 1) {
        return damaged(walk, SEGMENT_AT_NUMBER, damage, "segment %" PRIu64 " follows segment %" PRIu64, walk->header.number,
                       before->number);
    }
    return FAULT_NONE;
}

/* The segment that holds the filed point, so that its digest can be compared; the next where that has been archived. */
static enum fault start_choose(struct walk *walk, struct journal_damage *damage)
{
    const uint64_t wanted = walk->live != NULL || walk->point.seq == 0 ? walk->point.seq + 1 : walk->point.seq;
    if (walk->firsts[0] > walk->point.seq + 1) {
        return damaged(walk, 0, damage, "the journal begins at %" PRIu64 ", but what follows %" PRIu64 " is needed",
                       walk->firsts[0], walk->point.seq);
    }
    walk->at = 0;
    while (walk->at + 1 < walk->count && walk->firsts[walk->at + 1] <= wanted) walk->at++;
    return FAULT_NONE;
}

/* Older segments are filed and not read again, but one that is missing among them is damage all the same. */
static enum fault older_check(struct walk *walk, struct journal_damage *damage)
{
    const size_t start = walk->at;
    struct segment_header before = { 0 };
    for (walk->at = 0; walk->at <= start; walk->at++) {
        const enum fault fault = walk->at == 0 ? segment_open(walk, damage) : segment_follow(walk, &before, damage);
        if (fault != FAULT_NONE) return fault;
        before = walk->header;
    }
    walk->at = start;
    return FAULT_NONE;
}

static enum fault walk_begin(struct walk *walk, struct journal_damage *damage)
{
    if (walk->live == NULL) {
        const enum fault fault = chain_open(&walk->chain);
        if (fault != FAULT_NONE) return fault;
    }
    walk->window.capacity = walk->live != NULL ? WINDOW_BYTES_LIVE : WINDOW_BYTES_OFFLINE;
    walk->window.bytes = malloc(walk->window.capacity);
    if (walk->window.bytes == NULL) return FAULT_MEMORY;

    enum fault fault = segments_list(walk);
    if (fault != FAULT_NONE) return fault;
    if (walk->count == 0) {
        if (point_is_empty(&walk->point) && walk->live == NULL) return FAULT_NONE;
        return damaged(walk, 0, damage, "no journal, but the ledger belongs to one, filed up to %" PRIu64, walk->point.seq);
    }
    fault = start_choose(walk, damage);
    if (fault != FAULT_NONE) return fault;
    walk->seq_next = walk->firsts[walk->at];
    fault = walk->live != NULL ? segment_open(walk, damage) : older_check(walk, damage);
    if (fault != FAULT_NONE) return fault;
    segment_begin(walk);
    walk->begun = true;
    return FAULT_NONE;
}

enum fault walk_open(struct walk **out, const char *folder, const struct journal *live, const struct journal_point *point,
                     struct journal_damage *damage)
{
    *out = NULL;
    if (strlen(folder) >= FOLDER_BYTES_MAX) return FAULT_CONFIG;
    struct walk *walk = calloc(1, sizeof *walk);
    if (walk == NULL) return FAULT_MEMORY;
    memcpy(walk->folder, folder, strlen(folder) + 1);
    walk->live = live;
    walk->point = *point;
    walk->fd = -1;
    walk->seq_next = 1;
    *out = walk;
    return walk_begin(walk, damage);
}

void walk_close(struct walk *walk)
{
    if (walk == NULL) return;
    segment_leave(walk);
    chain_close(&walk->chain);
    free(walk->window.bytes);
    free(walk->firsts);
    free(walk);
}

/* As remains_look(), for bytes that the segment must have. */
static enum fault remains_due(struct walk *walk, uint64_t from, uint64_t to, struct remains *out,
                              struct journal_damage *damage)
{
    const enum fault fault = remains_look(walk, from, to, out);
    if (fault == FAULT_DAMAGE) (void)damaged(walk, out->ends_at, damage, "the file ends too early");
    return fault;
}

/* The end of the good part is at walk->offset, where no batch begins or one is not whole (span bytes of it are due, 0 when
 * its header never arrived). Is it the end? */
static enum fault end_judge(struct walk *walk, uint32_t span, struct journal_damage *damage)
{
    const uint64_t begin = walk->offset, end = walk->header.bytes - (walk->mark != MARK_NONE ? MARK_BYTES : 0);
    const bool last = walk->at + 1 == walk->count && walk->mark == MARK_NONE;
    struct remains within, after;
    uint64_t reach = begin + (span > 0 ? span : BATCH_BYTES_MAX);
    if (reach > end) reach = end;
    enum fault fault = remains_due(walk, begin, reach, &within, damage);
    if (fault == FAULT_NONE) fault = remains_due(walk, reach, end, &after, damage);
    if (fault != FAULT_NONE) return fault;

    if (span > 0 && !within.zero_sector) return damaged(walk, begin, damage, "checksum of a batch differs");
    if (span > 0 && !last) return damaged(walk, begin, damage, "a batch is not whole, and a segment follows");
    if (!last && within.other) return damaged(walk, begin, damage, "a batch is missing, and a segment follows");
    /* The torn batch's own header stands at begin: looking for others starts behind it. */
    if (span > 0) {
        fault = remains_due(walk, begin + SECTOR_BYTES, reach, &within, damage);
        if (fault != FAULT_NONE) return fault;
    }
    if (within.batch) {
        return damaged(walk, begin, damage, "a batch is missing before the one at %" PRIu64, within.batch_at);
    }
    if (after.other) {
        return damaged(walk, begin, damage, "a batch is missing, bytes follow up to %" PRIu64, after.other_last);
    }
    walk->torn = span > 0 || within.other;
    return FAULT_NONE;
}

/* What the mark says against what is there. */
static enum fault mark_check(struct walk *walk, struct journal_damage *damage)
{
    if (walk->mark == MARK_WHOLE && walk->mark_seq_next != walk->seq_next) {
        return damaged(walk, walk->offset, damage, "the segment ends at %" PRIu64 ", but the next begins at %" PRIu64,
                       walk->seq_next - 1, walk->mark_seq_next);
    }
    const bool there = walk->at + 1 < walk->count && walk->firsts[walk->at + 1] <= walk->seq_next;
    if (walk->mark == MARK_NONE || there) return FAULT_NONE;
    char path[PATH_BYTES];
    segment_path(path, walk->folder, walk->seq_next, "");
    (void)damaged(walk, 0, damage,
                  "the file is missing, and with it all decisions from %" PRIu64 " on: put it back from a copy",
                  walk->seq_next);
    damage_in(damage, path);
    return FAULT_DAMAGE;
}

/* Opens the next segment and checks that it goes on where the one before ends. */
static enum fault segment_enter(struct walk *walk, const struct segment_header *before, struct journal_damage *damage)
{
    if (walk->firsts[walk->at] != walk->seq_next) {
        return damaged(walk, 0, damage, "the segment begins at %" PRIu64 ", but %" PRIu64 " is next", walk->firsts[walk->at],
                       walk->seq_next);
    }
    const enum fault fault = segment_follow(walk, before, damage);
    if (fault != FAULT_NONE) return fault;
    if (walk->live == NULL && memcmp(walk->header.chain_before, walk->chain.value, CHAIN_BYTES) != 0) {
        return damaged(walk, SEGMENT_AT_CHAIN_BEFORE, damage, "the segment does not follow from the one before");
    }
    return FAULT_NONE;
}

/* At the end of a segment's batches: on to the next one, or the end of the journal. */
static enum fault segment_next(struct walk *walk, bool *more, struct journal_damage *damage)
{
    if (walk->live != NULL && walk->at + 1 == walk->count) {
        /* The list is older than the segment: its name is known, because the next batch is durable. */
        first_add(walk, walk->seq_next);
        if (walk->listing != FAULT_NONE) return walk->listing;
    }
    enum fault fault = mark_check(walk, damage);
    if (fault != FAULT_NONE) return fault;
    if (walk->at + 1 == walk->count) {
        *more = false;
        if (walk->seq_next > walk->point.seq) return size_check(walk, damage);
        return damaged(walk, walk->offset, damage, "the journal ends at %" PRIu64 ", but %" PRIu64 " has been filed",
                       walk->seq_next - 1, walk->point.seq);
    }

    if (walk->live == NULL) {
        fault = size_check(walk, damage);
        if (fault != FAULT_NONE) return fault;
    }
    const struct segment_header before = walk->header;
    walk->at++;
    fault = segment_enter(walk, &before, damage);
    if (fault != FAULT_NONE) {
        walk->at--;
        walk->header = before;
        return fault;
    }
    segment_begin(walk);
    *more = true;
    return FAULT_NONE;
}

/* Where no batch begins, or one is not whole: span as for end_judge(). */
static enum fault segment_end(struct walk *walk, uint32_t span, bool *more, struct journal_damage *damage)
{
    if (walk->live == NULL) {
        enum fault fault = segment_mark_read(walk->fd, &walk->header, walk->offset, &walk->mark, &walk->mark_seq_next);
        if (fault == FAULT_NONE) fault = end_judge(walk, span, damage);
        if (fault != FAULT_NONE) return fault;
    }
    return segment_next(walk, more, damage);
}

/* Reads the batch whose header stands in sector, at walk->offset. *whole false: the end has to be judged. */
static enum fault batch_read(struct walk *walk, const uint8_t *sector, bool *whole, struct journal_damage *damage)
{
    const char *reason = batch_header_get(sector, walk->seed, &walk->batch);
    if (reason != NULL) return damaged(walk, walk->offset, damage, "%s", reason);
    const uint32_t span = batch_span(walk->batch.length);
    if (span > walk->header.bytes - walk->offset) {
        return damaged(walk, walk->offset, damage, "a batch reaches over the end of its segment");
    }
    if (walk->batch.seq_first != walk->seq_next) {
        return damaged(walk, walk->offset, damage, "the batch begins at %" PRIu64 ", but %" PRIu64 " is next",
                       walk->batch.seq_first, walk->seq_next);
    }

    enum fault fault;
    const uint8_t *bytes = bytes_due(walk, walk->offset, span, &fault, damage);
    if (bytes == NULL) return fault;
    *whole = batch_intact(bytes, &walk->batch, walk->seed);
    if (!*whole) return FAULT_NONE;
    if (walk->live == NULL) {
        chain_advance(&walk->chain, bytes, span);
        if (memcmp(walk->chain.value, walk->batch.chain, CHAIN_BYTES) != 0) {
            return damaged(walk, walk->offset, damage, "the batch does not follow from the one before (chain)");
        }
        const uint64_t seq_last = walk->batch.seq_first + walk->batch.count - 1;
        if (walk->digest_due && seq_last == walk->point.seq && walk->batch.digest != walk->point.digest) {
            return damaged(walk, walk->offset, damage, "%" PRIu64 ": digest differs from the ledger's", seq_last);
        }
        walk->crc = crc32c(walk->crc, bytes, span);
    }
    walk->bytes = bytes;
    walk->batch_offset = walk->offset;
    walk->offset += span;
    walk->seq_next += walk->batch.count;
    return FAULT_NONE;
}

enum fault walk_next(struct walk *walk, bool *more, struct journal_damage *damage)
{
    for (;;) {
        *more = false;
        if (walk->count == 0) return FAULT_NONE;
        if (walk->live != NULL) {
            if (walk->seq_next > journal_seq_durable(walk->live)) return FAULT_NONE;
            if (walk->seq_next > walk->window.seq_durable) walk->window.len = 0;
        }

        enum fault fault = FAULT_NONE;
        const uint64_t left = walk->header.bytes - walk->offset;
        const uint8_t *sector = left == 0 ? NULL : bytes_due(walk, walk->offset, SECTOR_BYTES, &fault, damage);
        if (fault != FAULT_NONE) return fault;
        if (sector == NULL || sector_is_zero(sector) || (left == MARK_BYTES && sector_is_mark(sector))) {
            fault = segment_end(walk, 0, more, damage);
            if (fault != FAULT_NONE || !*more) return fault;
            continue;
        }

        bool whole = false;
        fault = batch_read(walk, sector, &whole, damage);
        if (fault != FAULT_NONE) return fault;
        if (whole) {
            *more = true;
            return FAULT_NONE;
        }
        if (walk->live != NULL) {
            return damaged(walk, walk->offset, damage, "checksum of a durable batch differs");
        }
        return segment_end(walk, batch_span(walk->batch.length), more, damage);
    }
}

_Static_assert(BATCH_VERSION_MIN == (int)DIGEST_SIPHASH && BATCH_VERSION == (int)DIGEST_FOLD,
               "readers take the one for the other");

enum fault walk_give(const struct walk *walk, uint64_t seq_after, const struct journal_reader *reader,
                     struct journal_damage *damage)
{
    const struct batch_header *batch = &walk->batch;
    uint32_t at = BATCH_HEADER_BYTES;
    uint64_t at_ms = 0;
    struct record record;
    if (reader->batch_begin != NULL) reader->batch_begin(reader->arg, batch->version);
    for (uint32_t i = 0; i < batch->count; i++) {
        const uint64_t seq = batch->seq_first + i;
        const char *reason = record_decode(walk->bytes + at, batch->length - at, seq, &record);
        if (reason == NULL && seq > seq_after) reason = reader->decision(reader->arg, &record.decision);
        if (reason != NULL) {
            return damaged(walk, walk->batch_offset + at, damage, "%" PRIu64 ": %s", seq, reason);
        }
        at += (uint32_t)record.bytes;
        at_ms = record.decision.at_ms;
    }
    if (at != batch->length) {
        return damaged(walk, walk->batch_offset + at, damage, "bytes after the last record");
    }
    if (at_ms != batch->at_ms) return damaged(walk, walk->batch_offset, damage, "the time of a batch differs");

    const uint64_t seq_last = batch->seq_first + batch->count - 1;
    if (seq_last <= seq_after || reader->batch_end == NULL) return FAULT_NONE;
    const char *reason = reader->batch_end(reader->arg, seq_last, batch->digest);
    if (reason == NULL) return FAULT_NONE;
    return damaged(walk, walk->batch_offset, damage, "%" PRIu64 ": %s", seq_last, reason);
}
