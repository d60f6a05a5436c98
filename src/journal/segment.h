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
