/* filter: says without a lock that a buyer certainly holds nothing.
 *
 * A byte per place counts the buyers whose hash falls there, so that a sale let go of leaves no trace and the filter
 * is as sharp after a year as on the first day. A place that has counted to 255 stays there: it errs towards "maybe".
 * One thread writes at a time; any thread reads. */
#ifndef STAMPEDE_GATE_REMOTE_FILTER_H
#define STAMPEDE_GATE_REMOTE_FILTER_H

#include "base/fault.h"
#include "base/region.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct filter {
    struct region places; /* _Atomic uint8_t */
    uint64_t places_count;
    uint64_t entries;
};

enum fault filter_open(struct filter *filter, uint32_t entries_max) MUST_USE;
void filter_close(struct filter *filter);
void filter_add(struct filter *filter, uint32_t hash);
void filter_drop(struct filter *filter, uint32_t hash);
bool filter_has(const struct filter *filter, uint32_t hash);

#endif
