/* segment: one file of the journal: its name, its header, and how it comes to be on disk. */
#ifndef STAMPEDE_JOURNAL_SEGMENT_H
#define STAMPEDE_JOURNAL_SEGMENT_H

#include "base/fault.h"
#include "journal/format.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define FOLDER_BYTES_MAX 2048
#define PATH_BYTES (FOLDER_BYTES_MAX + 64)
#define SEGMENT_NAME_BYTES 32
#define SPARE_NAME "spare.new"

struct segment_header {
    uint32_t bytes;
    uint8_t uuid[UUID_BYTES];
    uint64_t number;
    uint64_t seq_first;
    uint8_t chain_before[CHAIN_BYTES];
};

void segment_header_put(const struct segment_header *header, uint8_t sector[SECTOR_BYTES]);
/* Says why the sector is no header, or NULL. */
const char *segment_header_get(const uint8_t sector[SECTOR_BYTES], struct segment_header *out);
/* Where the checksums of the segment's batches start from. */
uint32_t segment_seed(const struct segment_header *header);

/* Bytes that batches may still take from offset on: all but the mark. */
uint32_t segment_room(uint32_t segment_bytes, uint64_t offset);

/* What the last sector of a segment says of the one that follows. */
enum mark {
    MARK_NONE, /* nothing is known: the segment is the last, or of before there were marks */
    MARK_TORN, /* begun and not whole: a segment followed all the same, for it is made first */
    MARK_WHOLE,
};
/* Whether one was begun here. */
bool sector_is_mark(const uint8_t sector[SECTOR_BYTES]);
void mark_put(uint64_t seq_next, uint32_t seed, uint8_t sector[SECTOR_BYTES]);
/* *seq_next is set for MARK_WHOLE. */
enum mark mark_get(const uint8_t sector[SECTOR_BYTES], uint32_t seed, uint64_t *seq_next);
/* batches_end: where a batch reaches into the last sector there is no mark, whatever stands there. */
enum fault segment_mark_read(int fd, const struct segment_header *header, uint64_t batches_end, enum mark *mark,
                             uint64_t *seq_next) MUST_USE;
/* Says durably that a segment beginning at seq_next follows; again, where it is said already. Leaves a segment alone that
 * batches fill to its last sector. */
enum fault segment_mark(int fd, const struct segment_header *header, uint64_t seq_next) MUST_USE;

/* FOLDER/00000000000000000001.seg, and with the suffix ".new" while it is being made. */
void segment_path(char path[PATH_BYTES], const char *folder, uint64_t seq_first, const char *suffix);
void folder_path(char path[PATH_BYTES], const char *folder, const char *name);
bool segment_name_read(const char *name, uint64_t *seq_first);
/* Left behind by a crash: not a segment, and nothing anybody was told of. */
bool segment_name_unfinished(const char *name);

/* The folder that a folder is in, so that its own name can be synced or looked for there. */
void folder_parent(char path[PATH_BYTES], const char *folder);

/* Writes zeros over [from, to). pause_bytes: sync after that many, so that commits on the same disk never queue behind a
 * whole segment; 0: never. stop, where given, ends it early with FAULT_TIMEOUT. */
enum fault segment_zero(int fd, uint64_t from, uint64_t to, uint32_t pause_bytes, const _Atomic bool *stop) MUST_USE;

#endif
