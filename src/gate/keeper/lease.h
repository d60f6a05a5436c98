/* lease: the number of a node, its own as long as it is renewed. Inside this room only; the keeper's thread.
 *
 * Two nodes of one number would make the same order numbers, and with ack = gate both would be told. So a node gives order
 * numbers only while the lease certainly lasts (number.h), counted from before it was asked for: one that was paused, or cut
 * off from Redis, gives none until it has renewed it. A number is a key of Redis that somebody owns (owned.h). */
#ifndef STAMPEDE_GATE_KEEPER_LEASE_H
#define STAMPEDE_GATE_KEEPER_LEASE_H

#include "base/fault.h"
#include "gate/keeper/owned.h"

#define LEASE_MS 15000

struct lease {
    struct owned owned;
    bool chosen; /* by us, among those that are free */
    bool held;
    bool lapsed, lost;           /* it was told that numbers have stopped; that another has it */
    uint32_t number;             /* that the key is of */
    uint64_t asked_ms, renew_ms; /* monotonic */
};

/* number 0: one that is free. Waits for the end of a lease that nobody renews. FAULT_IN_USE: another node that lives has the
 * number; FAULT_TIMEOUT: Redis did not answer. Both have been logged. */
enum fault lease_take(struct lease *lease, struct keeper *keeper, uint32_t number) MUST_USE;
/* Renews it where it is time to; what was lost is taken again once it is free, or another number where we may choose. */
void lease_keep(struct lease *lease, struct keeper *keeper);
void lease_release(struct lease *lease, struct keeper *keeper);

#endif
