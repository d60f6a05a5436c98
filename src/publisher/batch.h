/* batch: the events that are under way together. The publisher's thread only.
 *
 * 1. It has one event of a stream (an order, or a sale) at most: if only a part of it arrives, and the rest is sent again,
 *    no event has overtaken another of its stream.
 * 2. That one is the first that waits of its stream, as of one look at the ledger. What the broker gives back therefore
 *    waits with all that come after it there; and with nothing else, for a look passes over it.
 * 3. Streams whose event was given back are held: they are tried again after a while, only some at a time, so that those
 *    behind them need not wait for many that nobody wants. To forget that one is held costs a try and nothing more. */
#ifndef STAMPEDE_PUBLISHER_BATCH_H
#define STAMPEDE_PUBLISHER_BATCH_H

#include "base/fault.h"
#include "courier/message.h"
#include "ledger/publications.h"
#include "publisher/sink.h"
#include "publisher/streams.h"

#define BATCH_MAX 500

struct batch {
    struct notice notices[BATCH_MAX];
    struct sink_message messages[BATCH_MAX];
    char bodies[BATCH_MAX][MESSAGE_BYTES_MAX];
    size_t count;
    uint64_t arrived[BATCH_MAX]; /* ids, after batch_settle() */
    size_t arrived_count;
    uint32_t unwanted_kinds; /* a bit for each notice_kind that was given back, after batch_settle() */

    struct streams seen; /* by the look at the ledger */
    struct streams held;
    uint32_t held_tries;  /* in vain, one after the other */
    uint64_t held_try_ms; /* monotonic: when some of them are tried again */
    bool trying;          /* some are in this batch */
    size_t trying_count;
    uint64_t look_ms; /* what the last look took, past what is held; 0: nothing was */
};

struct batch_source {
    struct ledger *ledger;
    const char *name; /* of the ledger: see struct publishing_mark */
    const _Atomic bool *closing;
};

void batch_init(struct batch *batch); /* on zeroed memory; also where somebody else has published meanwhile */
/* Fills it with what is to be sent now, which may be nothing. */
enum fault batch_read(struct batch *batch, const struct batch_source *source) MUST_USE;
/* When the sink is done with it: what has arrived is to be deleted, what was given back is held. */
void batch_settle(struct batch *batch);

#endif
