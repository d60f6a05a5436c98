/* lease: the number of a node, its own as long as it is renewed. Inside this room only; the keeper's thread.
 *
 * Two nodes of one number would make the same order numbers; scripts and ledger refuse the second of them, so nothing breaks
 * but grabs that are asked again. A number is a key of Redis that somebody owns (owned.h). */
#ifndef STAMPEDE_GATE_KEEPER_LEASE_H
#define STAMPEDE_GATE_KEEPER_LEASE_H

#include "base/fault.h"
#include "gate/keeper/owned.h"

#define LEASE_MS 15000

struct lease {
    struct owned owned;
    bool chosen; /* by us, among those that are free */
    bool held;
    uint64_t renew_ms; /* monotonic */
};

/* number 0: one that is free. Waits for the end of a lease that nobody renews. FAULT_IN_USE: another node that lives has the
 * number; FAULT_TIMEOUT: Redis did not answer. Both have been logged. */
enum fault lease_take(struct lease *lease, struct keeper *keeper, uint32_t number) MUST_USE;
/* Renews it where it is time to; what was lost is taken again, or another number where we may choose. */
void lease_keep(struct lease *lease, struct keeper *keeper);
void lease_release(struct lease *lease, struct keeper *keeper);

#endif
