/* opening: the message that an event has opened, with a part of those who wanted to know. Larger than the others, so that it
 * is made in memory of its own; and the same at every try, because nothing changes about an event once it is told. The
 * courier's thread only. */
#ifndef STAMPEDE_COURIER_OPENING_H
#define STAMPEDE_COURIER_OPENING_H

#include "base/fault.h"
#include "base/slice.h"

struct ledger;
struct notice;

/* *out is to be freed; its data is NULL where the event is not in the ledger. */
enum fault opening_render(struct ledger *ledger, const struct notice *notice, struct slice *out) MUST_USE;

#endif
