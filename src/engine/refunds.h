/* refunds: the refunds decided of late, by the number of the order.
 *
 * A payment for an order that memory has let go of is judged by the ledger's row, and the ledger is a little behind: what
 * was decided meanwhile stands here, so that a payment told twice is one refund. A table of 65,536 places, four for each
 * number, of which the oldest gives way to a new one: but only when it has been filed, and for longer than anyone may still
 * hold a row that was read before. Until then the new one has to wait. Under the engine's lock. */
#ifndef STAMPEDE_ENGINE_REFUNDS_H
#define STAMPEDE_ENGINE_REFUNDS_H

#include "base/fault.h"
#include "base/region.h"

#include <stdbool.h>
#include <stdint.h>

#define REFUND_KEPT_MS_MIN 60000 /* far longer than a request waits for its row */

struct refund {
    uint64_t order_no; /* 0: nobody's */
    uint64_t ref_hash;
    uint64_t seq, at_ms; /* of its decision */
};

struct refunds {
    struct region places; /* struct refund */
    uint64_t seq_filed;
};

enum fault refunds_open(struct refunds *refunds) MUST_USE;
void refunds_close(struct refunds *refunds);
/* The ledger has filed every decision up to this one. */
void refunds_filed(struct refunds *refunds, uint64_t seq);
/* Whether a refund of this order displaces none that is still needed. */
bool refunds_have_room(const struct refunds *refunds, uint64_t order_no, uint64_t now_ms);
/* Displaces the oldest where there is no room: in replay only, when no row has been read yet. */
void refunds_put(struct refunds *refunds, const struct refund *refund);
/* The hash of the ref by which this order is due a refund; 0: not known here. */
uint64_t refunds_find(const struct refunds *refunds, uint64_t order_no);

#endif
