/* Start-up of the journal: judge all of it, replay it, and only then change anything on disk. */
#include "base/checksum.h"
#include "base/disk.h"
#include "base/log.h"
#include "base/random.h"
#include "journal/commit.h"
#include "journal/walk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct name_search {
    const char *name;
    bool found;
};

static void name_match(void *arg, const char *name)
{
    struct name_search *search = arg;
    if (strcmp(search->name, name) == 0) search->found = true;
}

/* The folder is made only for a ledger that knows of no journal; otherwise its absence is damage, and damage is left as it
 * was found. */
static enum fault folder_ready(const char *folder, const struct journal_point *point, struct journal_damage *damage)
{
    if (point_is_empty(point)) return disk_folder_make(folder);

    char parent[PATH_BYTES], name[PATH_BYTES];
    folder_parent(parent, folder);
    size_t end = strlen(folder);
    while (end > 1 && folder[end - 1] == '/') end--;
    size_t begin = end;
    while (begin > 0 && folder[begin - 1] != '/') begin--;
    snprintf(name, sizeof name, "%.*s", (int)(end - begin), folder + begin);
    struct name_search search = { .name = name };
    const enum fault fault = disk_each(parent, name_match, &search);
    if (fault != FAULT_NONE || search.found) return fault;
    snprintf(damage->file, sizeof damage->file, "%.255s", folder);
    damage->offset = 0;
    snprintf(damage->reason, sizeof damage->reason, "no journal, but the ledger belongs to one, filed up to %" PRIu64,
             point->seq);
    return FAULT_DAMAGE;
}

static enum fault replay(struct walk *walk, const struct journal_point *point, const struct journal_reader *reader,
                         struct journal_damage *damage)
{
    for (;;) {
        bool more;
        enum fault fault = walk_next(walk, &more, damage);
        if (fault != FAULT_NONE || !more) return fault;
        fault = walk_give(walk, point->seq, reader, damage);
        if (fault != FAULT_NONE) return fault;
    }
}

struct leftovers {
    char names[8][SEGMENT_NAME_BYTES];
    size_t count;
};

static void leftover_note(void *arg, const char *name)
{
    struct leftovers *leftovers = arg;
    if (!segment_name_unfinished(name) || leftovers->count == sizeof leftovers->names / sizeof *leftovers->names) return;
    snprintf(leftovers->names[leftovers->count++], SEGMENT_NAME_BYTES, "%.31s", name);
}

/* What a crash left unfinished takes the space of a segment each. */
static enum fault leftovers_remove(const char *folder)
{
    struct leftovers leftovers = { .count = 0 };
    enum fault fault = disk_each(folder, leftover_note, &leftovers);
    for (size_t i = 0; i < leftovers.count && fault == FAULT_NONE; i++) {
        char path[PATH_BYTES];
        folder_path(path, folder, leftovers.names[i]);
        fault = disk_remove(path);
    }
    return fault;
}

/* A segment is made under another name and gets its own when it is whole and durable. *fd stays open. */
static enum fault segment_put(const char *folder, uint64_t seq_first, int fd)
{
    char from[PATH_BYTES], to[PATH_BYTES];
    segment_path(from, folder, seq_first, ".new");
    segment_path(to, folder, seq_first, "");
    enum fault fault = disk_sync_all(fd);
    if (fault == FAULT_NONE) fault = disk_rename(from, to);
    if (fault == FAULT_NONE) fault = disk_sync_folder(folder);
    return fault;
}

static enum fault segment_create(struct journal *journal, int *fd)
{
    char path[PATH_BYTES];
    segment_path(path, journal->folder, journal->header.seq_first, ".new");
    uint8_t sector[SECTOR_BYTES];
    segment_header_put(&journal->header, sector);
    chain_begin(&journal->chain, sector);
    enum fault fault = disk_create(path, fd);
    if (fault != FAULT_NONE) {
        *fd = -1;
        return fault;
    }
    fault = disk_write_at(*fd, sector, sizeof sector, 0);
    if (fault == FAULT_NONE) fault = segment_zero(*fd, sizeof sector, journal->header.bytes, 0, NULL);
    if (fault == FAULT_NONE) fault = segment_put(journal->folder, journal->header.seq_first, *fd);
    return fault;
}

/* The first segment of a new journal. The folder may be new as well, so its own name is synced too. */
static enum fault journal_begin(struct journal *journal)
{
    journal->header = (struct segment_header){ .bytes = journal->options.segment_bytes, .number = 1, .seq_first = 1 };
    random_bytes(journal->header.uuid, UUID_BYTES);
    journal->offset = SEGMENT_HEADER_BYTES;
    const enum fault fault = segment_create(journal, &journal->fd);
    if (fault != FAULT_NONE) return fault;
    char parent[PATH_BYTES];
    folder_parent(parent, journal->folder);
    return disk_sync_folder(parent);
}

/* Copies the good part, and proves that it is what was checked: a disk may answer twice differently. */
static enum fault good_part_copy(struct walk *walk, int fd)
{
    uint32_t crc = 0;
    for (uint64_t at = 0; at < walk->offset;) {
        const uint64_t left = walk->offset - at;
        const size_t len = left < walk->window.capacity ? (size_t)left : walk->window.capacity;
        enum fault fault;
        const uint8_t *bytes = walk_bytes(walk, at, len, &fault);
        if (bytes == NULL) return fault;
        crc = crc32c(crc, bytes, len);
        fault = disk_write_at(fd, bytes, len, at);
        if (fault != FAULT_NONE) return fault;
        at += len;
    }
    if (crc == walk->crc) return FAULT_NONE;
    log_error("journal", "the last segment reads differently the second time");
    return FAULT_DISK;
}

/* After a failed sync the page cache may show what never reached the disk. Whatever was replayed is made durable by writing
 * it anew, before anyone can be told of it; what lies behind the good part is gone with the old file. */
static enum fault last_segment_rewrite(struct journal *journal, struct walk *walk)
{
    char path[PATH_BYTES];
    segment_path(path, journal->folder, walk->header.seq_first, ".new");
    enum fault fault = disk_create(path, &journal->fd);
    if (fault != FAULT_NONE) {
        journal->fd = -1;
        return fault;
    }
    fault = good_part_copy(walk, journal->fd);
    if (fault == FAULT_NONE) fault = segment_zero(journal->fd, walk->offset, walk->header.bytes, 0, NULL);
    if (fault == FAULT_NONE) fault = segment_put(journal->folder, walk->header.seq_first, journal->fd);
    if (fault != FAULT_NONE) return fault;

    journal->header = walk->header;
    journal->offset = walk->offset;
    memcpy(journal->chain.value, walk->chain.value, CHAIN_BYTES);
    return FAULT_NONE;
}

/* Without it the loss of the last segment would go unseen: a crash may have come before it was written, and earlier releases
 * wrote none. One that can be read is written again, for the page cache may show what never reached the disk. */
static enum fault segment_before_mark(const struct walk *walk)
{
    if (walk->at == 0) return FAULT_NONE;
    char path[PATH_BYTES];
    segment_path(path, walk->folder, walk->firsts[walk->at - 1], "");
    int fd;
    enum fault fault = disk_open(path, true, &fd);
    if (fault != FAULT_NONE) return fault;
    uint8_t sector[SECTOR_BYTES];
    struct segment_header header;
    size_t got = 0;
    fault = disk_read_at(fd, sector, sizeof sector, 0, &got);
    if (fault == FAULT_NONE && (got < sizeof sector || segment_header_get(sector, &header) != NULL)) {
        log_error("journal", "%s reads differently the second time", path);
        fault = FAULT_DISK;
    }
    if (fault == FAULT_NONE) fault = segment_mark(fd, &header, walk->header.seq_first);
    disk_close(fd);
    return fault;
}

/* The journal has been judged good: from here on the disk is changed. */
static enum fault journal_ready(struct journal *journal, struct walk *walk)
{
    if (walk->torn) {
        log_warn("journal", "an unfinished batch after %" PRIu64 " is cut off; nobody was told of it", walk->seq_next - 1);
    }
    enum fault fault = leftovers_remove(journal->folder);
    if (fault != FAULT_NONE) return fault;
    fault = walk->count == 0 ? journal_begin(journal) : last_segment_rewrite(journal, walk);
    if (fault == FAULT_NONE) fault = segment_before_mark(walk);
    if (fault != FAULT_NONE) return fault;

    memcpy(journal->uuid, journal->header.uuid, UUID_BYTES);
    journal->seed = segment_seed(&journal->header);
    journal->segment_left = segment_room(journal->header.bytes, journal->offset);
    journal->seq_taken = walk->seq_next - 1;
    atomic_store(&journal->seq_appended, walk->seq_next - 1);
    atomic_store(&journal->seq_durable, walk->seq_next - 1);
    journal->look.seq = walk->seq_next - 1;
    atomic_store(&journal->spare_wanted, true);
    journal_look_at_space(journal);
    return FAULT_NONE;
}

enum fault journal_open(struct journal **out, const struct journal_options *options, const struct journal_point *point,
                        const struct journal_reader *reader, struct journal_damage *damage)
{
    memset(damage, 0, sizeof *damage);
    struct journal *journal = NULL;
    struct walk *walk = NULL;
    enum fault fault = journal_acquire(&journal, options);
    if (fault != FAULT_NONE) return fault;
    fault = folder_ready(options->folder, point, damage);
    if (fault == FAULT_NONE) fault = walk_open(&walk, options->folder, NULL, point, damage);
    if (fault == FAULT_NONE) {
        walk->digest_due = true;
        fault = replay(walk, point, reader, damage);
    }
    if (fault == FAULT_NONE) fault = journal_ready(journal, walk);
    walk_close(walk);
    if (fault == FAULT_NONE)
        *out = journal;
    else
        journal_release(journal);
    return fault;
}
