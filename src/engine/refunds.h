/* refunds: the refunds decided of late, by the number of the order.
 *
 * A payment for an order that memory has let go of is judged by the ledger's row, and the ledger is a little behind: what
 * was decided meanwhile stands here, so that a payment told twice is one refund. A table that forgets: a refund gives way to
 * the next one whose number falls into its place, which is 65,536 numbers away. Under the engine's lock. */
#ifndef STAMPEDE_ENGINE_REFUNDS_H
#define STAMPEDE_ENGINE_REFUNDS_H

#include "base/fault.h"
#include "base/region.h"

#include <stdint.h>

struct refunds {
    struct region places; /* struct { uint64_t order_no, ref_hash } */
};

enum fault refunds_open(struct refunds *refunds) MUST_USE;
void refunds_close(struct refunds *refunds);
void refunds_put(struct refunds *refunds, uint64_t order_no, uint64_t ref_hash);
/* The hash of the ref by which this order is due a refund; 0: not known here. */
uint64_t refunds_find(const struct refunds *refunds, uint64_t order_no);

#endif
