/* deadlines: which hold is the next to expire.
 *
 * A heap of 8-byte hints in reserved memory: a time in ticks of 16 ms, and the cell of an order. Nothing is ever taken out
 * of its middle when a hold ends: whoever looks at a hint asks the order itself whether it is still held and until when, and
 * drops the hint where it is not. So a payment costs the heap nothing, and order within one tick is anyone's. Hints that do
 * not come first are looked at in turn, a few with each win, once there are many.
 *
 * Ticks count from a base that follows the latest time put in, half their range behind it. What lies further back is due
 * for longer than any hold lasts: it stands at the base, before all others.
 *
 * Under the engine's lock. */
#ifndef STAMPEDE_ENGINE_DEADLINES_H
#define STAMPEDE_ENGINE_DEADLINES_H

#include "base/fault.h"
#include "base/region.h"
#include "bounds.h"

#include <stdbool.h>
#include <stdint.h>

#define DEADLINE_TICK_MS 16
#define DEADLINE_TICKS_BEHIND (UINT64_C(1) << 31)

_Static_assert(PAY_WITHIN_S_MAX *UINT64_C(1000) / DEADLINE_TICK_MS < DEADLINE_TICKS_BEHIND,
               "what falls behind the base is due already");

struct deadline {
    uint32_t tick; /* since the base */
    uint32_t cell;
};

struct deadlines {
    struct region heap; /* struct deadline, every node before its four children */
    uint32_t count, count_max;
    uint32_t count_peak; /* memory touched */
    uint32_t turn;       /* one above the place whose turn it is; from the last to the first, round and round */
    uint64_t base;       /* in ticks since 1970 */
};

enum fault deadlines_open(struct deadlines *deadlines, uint32_t count_max) MUST_USE;
void deadlines_close(struct deadlines *deadlines);
bool deadlines_are_full(const struct deadlines *deadlines);
void deadlines_put(struct deadlines *deadlines, uint64_t at_ms, uint32_t cell); /* not when full */
/* The hint to look at first, or NULL. */
const struct deadline *deadlines_first(const struct deadlines *deadlines);
void deadlines_drop_first(struct deadlines *deadlines);
/* The hint whose turn it is to be looked at, or NULL. */
const struct deadline *deadlines_next(struct deadlines *deadlines);
/* Drops the one that deadlines_next() gave. What takes its place is looked at next. */
void deadlines_drop_next(struct deadlines *deadlines);
/* Whether a hint is the one that was put in for this time. */
bool deadline_is_of(const struct deadlines *deadlines, const struct deadline *deadline, uint64_t at_ms);
void deadlines_clear(struct deadlines *deadlines);
uint64_t deadlines_bytes(const struct deadlines *deadlines); /* of memory touched */

#endif
