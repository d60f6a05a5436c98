/* walk: goes through the segments batch by batch, trusts nothing, and judges where the good part ends.
 *
 * The rule at the end of the last segment (P11): a batch that is not whole is a torn tail, which nobody was told of, only if
 * some sector of its span is still zero, nothing follows it, and the ledger has not filed it. Anything else is damage, and
 * so is a segment that says by its mark that another follows, where none does.
 *
 * Recovery, the offline scan and the repair walk to that end. The clerk walks live, behind the durable mark, where every
 * batch must be whole. A walk only reads. One thread per walk. */
#ifndef STAMPEDE_JOURNAL_WALK_H
#define STAMPEDE_JOURNAL_WALK_H

#include "journal/batch.h"
#include "journal/journal.h"
#include "journal/segment.h"

#include <stddef.h>

/* A stretch of the file in memory. */
struct window {
    uint8_t *bytes;
    size_t capacity, len;
    uint64_t offset;
    uint64_t seq_durable; /* live: the mark before it was read; what lies beyond may be older than the disk */
};

struct walk {
    char folder[FOLDER_BYTES_MAX];
    const struct journal *live; /* NULL: offline */
    struct journal_point point;
    bool digest_due; /* the batch that ends at the point must have the point's digest; set by who knows it */

    uint64_t *firsts; /* first sequence numbers of the segments, rising */
    size_t count, capacity;
    enum fault listing; /* of the folder */
    bool begun;         /* the segment to begin with was found and its header is good */

    /* The segment being read. */
    size_t at; /* in firsts */
    int fd;    /* -1: none could be opened */
    struct segment_header header;
    uint32_t seed;
    uint32_t crc; /* over its header and the good batches so far, so that a rewrite can prove it copied what was checked */
    struct chain chain; /* offline only */
    struct window window;

    uint32_t offset;   /* end of the good part so far; where a segment is damaged from its start, in the one before */
    uint64_t seq_next; /* expected there */
    bool torn;         /* set at the end: something unfinished lies after the good part */
    enum mark mark;    /* of the segment at whose end it stands; offline only */
    uint64_t mark_seq_next;

    /* The batch walk_next() gave. bytes live until the next call. */
    struct batch_header batch;
    const uint8_t *bytes;
    uint32_t batch_offset;
};

/* Stands before the batch that holds point->seq, or before the first there is when the older ones have been archived.
 * FAULT_DAMAGE has filled *damage; the walk is then good for walk_close() and for reading firsts, at, offset and
 * seq_next. An empty folder is damage unless the point is empty too; count is then 0. */
enum fault walk_open(struct walk **out, const char *folder, const struct journal *live, const struct journal_point *point,
                     struct journal_damage *damage) MUST_USE;
void walk_close(struct walk *walk);

/* The next whole batch. *more false: the end of the good part (offline), or nothing durable beyond (live). */
enum fault walk_next(struct walk *walk, bool *more, struct journal_damage *damage) MUST_USE;

/* Gives the records of the present batch after seq_after to the reader, then its end. */
enum fault walk_give(const struct walk *walk, uint64_t seq_after, const struct journal_reader *reader,
                     struct journal_damage *damage) MUST_USE;

/* len bytes at offset of the present segment, or NULL with the fault. */
const uint8_t *walk_bytes(struct walk *walk, uint64_t offset, size_t len, enum fault *fault);

/* Whether nothing has been filed yet and no journal is known. */
bool point_is_empty(const struct journal_point *point);

#endif
