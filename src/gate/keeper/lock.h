/* lock: a job that one node does at a time. Inside this room only; the keeper's thread.
 *
 * The lock is a key of Redis that somebody owns (owned.h), and stops two nodes from doing the same work. It cannot stop one
 * that slept past the end and goes on as if it had not: for that there is the fencing number, which the ledger gives with
 * the lock and asks for with every write of the job. */
#ifndef STAMPEDE_GATE_KEEPER_LOCK_H
#define STAMPEDE_GATE_KEEPER_LOCK_H

#include "gate/keeper/keeper.h"
#include "gate/keeper/owned.h"
#include "ledger/shared.h"

#define LOCK_MS 6000
#define LOCK_JOB_BYTES 33

struct lock {
    char job[LOCK_JOB_BYTES];
    struct owned owned;
    bool held;
    /* Monotonic; counted from before Redis was asked, so it never lasts longer here than there. */
    uint64_t renew_ms, until_ms;
    struct ledger_fence fence;
};

void lock_init(struct lock *lock, const struct keeper *keeper, const char *job);
/* False: another has it, Redis did not answer, or the ledger takes nothing. */
bool lock_take(struct lock *lock, struct keeper *keeper) MUST_USE;
/* Renews it where it is time to. False: it is lost, and nothing more may be written. */
bool lock_keep(struct lock *lock, struct keeper *keeper) MUST_USE;
void lock_release(struct lock *lock, struct keeper *keeper);
/* The ledger has said that a higher number was given: whatever Redis says, the job is another's. */
void lock_fenced(struct lock *lock);

#endif
