/* streams: a set of orders and sales, whose events are in order among themselves, that takes the same memory however many
 * are in it.
 *
 * It may say of one that it is in it which is not, the more often the more there are, and never the other way round. Which
 * ones those are is another matter of chance after each streams_clear(). */
#ifndef STAMPEDE_PUBLISHER_STREAMS_H
#define STAMPEDE_PUBLISHER_STREAMS_H

#include "base/siphash.h"
#include "ledger/outbox.h"

#define STREAMS_BITS (1u << 23)

struct streams {
    uint8_t key[16];
    uint64_t count; /* about, and not more than there are */
    uint64_t words[STREAMS_BITS / 64];
};

void streams_clear(struct streams *streams); /* also to begin with, on zeroed memory */
/* That of the notice's order, or of its sale where it tells of none. */
bool streams_has(const struct streams *streams, const struct notice *notice);
bool streams_add(struct streams *streams, const struct notice *notice); /* false: streams_has() it already */

#endif
