/* keeper: a node's thread for what nobody waits for, in the gate of several machines.
 *
 * Keeps the shelf as the ledger has it and the counts of sales that are asked for as Redis has them; tells gates what
 * releases have still to be told (errands); files what stands in a stream for longer than it should; builds sales anew in a
 * Redis that has lost them; and, under a lock, ends holds and warms up sales before they open. It also has the locks of jobs
 * that are done elsewhere. */
#ifndef STAMPEDE_GATE_KEEPER_KEEPER_H
#define STAMPEDE_GATE_KEEPER_KEEPER_H

#include "base/fault.h"
#include "base/slice.h"
#include "gate/gate.h"

#include <stdbool.h>
#include <stdint.h>

struct keeper;
struct remote;
struct roster;

/* Puts every sale that is not over on the shelf before it returns, and starts the thread. */
enum fault keeper_open(struct keeper **out, struct remote *remote) MUST_USE;
void keeper_close(struct keeper *keeper);

/* Any thread. The sale's gate is not there, of another server, or of another epoch than the ledger's: look at it, and build
 * it anew if that is so. Asked often, done once. */
void keeper_rebuild(struct keeper *keeper, uint64_t sale_id);
/* Any thread. The ledger has refused what the sale's gate gave, so the two disagree: build it anew, whatever it looks like.
 */
void keeper_mend(struct keeper *keeper, uint64_t sale_id);
/* Any thread. The shelf may lack a sale of this id: look into the ledger now. */
void keeper_fetch(struct keeper *keeper, uint64_t sale_id);
/* Any thread. An errand was left that this node could not do itself. */
void keeper_errands(struct keeper *keeper);

/* Any thread: see gate_owns(). */
bool keeper_owns(struct keeper *keeper, enum gate_job job, struct ledger_fence *fence);
void keeper_disown(struct keeper *keeper, enum gate_job job, const struct ledger_fence *fence);
void keeper_give_away(struct keeper *keeper, enum gate_job job);

/* Any thread: see gate_tell_logouts(). */
void keeper_tell_logouts(struct keeper *keeper, const struct gate_logouts *logouts);

/* What nodes tell of themselves (roster.h). */
struct roster *keeper_roster(struct keeper *keeper);

/* Locks of jobs that one node does at a time; those of gate_job come last. */
enum keeper_lock {
    KEEPER_LOCK_EXPIRY,
    KEEPER_LOCK_WARM,
    KEEPER_LOCK_RECONCILE,
    KEEPER_LOCK_JOBS,
    KEEPER_LOCKS = KEEPER_LOCK_JOBS + GATE_JOB_COUNT
};

struct keeper_status {
    uint64_t entries;   /* in streams, that are not filed */
    uint64_t oldest_ms; /* age of the oldest of them, once it is older than it should be */
    uint64_t errands;   /* not done */
    uint64_t rebuilds;  /* since the start */
    bool owns[KEEPER_LOCKS];
};
void keeper_status(struct keeper *keeper, struct keeper_status *out);

#endif
