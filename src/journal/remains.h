/* remains: what lies in a segment behind its good part. */
#ifndef STAMPEDE_JOURNAL_REMAINS_H
#define STAMPEDE_JOURNAL_REMAINS_H

#include "journal/walk.h"

struct remains {
    bool zero_sector;    /* at least one */
    bool other;          /* at least one that is not zero */
    uint64_t other_last; /* the last of those */
    bool batch;          /* one begins like a whole batch of this segment */
    uint64_t batch_at;
    uint64_t ends_at; /* FAULT_DAMAGE: the file has nothing from here on */
};

/* Looks at [from, to) of the segment that the walk is in. */
enum fault remains_look(struct walk *walk, uint64_t from, uint64_t to, struct remains *out) MUST_USE;

#endif
