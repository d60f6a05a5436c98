/* tally: what was taken on this node since it was last told to the others, for limits that several machines share.
 *
 * A fixed table of counts by key, in groups that are told apart from each other. Adding is for any thread, without a lock
 * and without waiting; emptying is for one. A count is there only until the next emptying, so whoever takes a little and
 * goes leaves nothing behind. Where a key finds no place it is not counted, and the limits of this node alone hold it. */
#ifndef STAMPEDE_GUARD_TALLY_H
#define STAMPEDE_GUARD_TALLY_H

#include "base/fault.h"

#include <stdbool.h>
#include <stdint.h>

#define TALLY_GROUPS 16
#define TALLY_KINDS 16

struct tally;
enum fault tally_open(struct tally **out, uint64_t now_ns) MUST_USE;
void tally_close(struct tally *tally);

/* Any thread. n is 1, or -1 for what is given back; kind is 1 to TALLY_KINDS - 1, and the same for a key always. False:
 * there is no place. */
bool tally_add(struct tally *tally, uint64_t key, uint32_t kind, int n);

/* One thread for these. Empties places of a group, at most max; how many. Those left over come first the next time. */
struct tally_count {
    uint64_t key;
    uint32_t kind;
    int32_t count;     /* not 0; below 0 where more was given back than taken since */
    uint64_t since_ns; /* all of it was taken after this */
};
uint32_t tally_empty(struct tally *tally, uint32_t group, uint64_t now_ns, struct tally_count *out, uint32_t max);
/* What was counted for a key since. */
int32_t tally_count(const struct tally *tally, uint64_t key, uint32_t kind);

#endif
