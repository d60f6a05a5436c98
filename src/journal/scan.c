#include "journal/walk.h"

#include <stdlib.h>
#include <string.h>

struct journal_scan {
    struct walk *walk;
    uint64_t seq_after;
    bool held; /* the present batch was refused by the reader: it is given again */
};

enum fault journal_scan_open(struct journal_scan **out, const char *folder, const struct journal *live, uint64_t seq_after,
                             struct journal_damage *damage)
{
    memset(damage, 0, sizeof *damage);
    struct journal_scan *scan = calloc(1, sizeof *scan);
    if (scan == NULL) return FAULT_MEMORY;
    scan->seq_after = seq_after;
    struct journal_point point = { .seq = seq_after };
    if (live != NULL) memcpy(point.uuid, journal_uuid(live), sizeof point.uuid);
    const enum fault fault = walk_open(&scan->walk, folder, live, &point, damage);
    if (fault == FAULT_NONE)
        *out = scan;
    else
        journal_scan_close(scan);
    return fault;
}

enum fault journal_scan_batch(struct journal_scan *scan, const struct journal_reader *reader, bool *more,
                              struct journal_damage *damage)
{
    const struct walk *walk = scan->walk;
    *more = scan->held;
    while (!scan->held) {
        const enum fault fault = walk_next(scan->walk, more, damage);
        if (fault != FAULT_NONE || !*more) return fault;
        /* Batches before the wanted one are only passed. */
        scan->held = walk->batch.seq_first + walk->batch.count - 1 > scan->seq_after;
    }
    const enum fault fault = walk_give(walk, scan->seq_after, reader, damage);
    scan->held = fault != FAULT_NONE;
    return fault;
}

const uint8_t *journal_scan_uuid(const struct journal_scan *scan)
{
    return scan->walk->header.uuid;
}

void journal_scan_close(struct journal_scan *scan)
{
    if (scan == NULL) return;
    walk_close(scan->walk);
    free(scan);
}
