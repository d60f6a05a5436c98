/* region: address space reserved at start, memory touched as it is used. Never moves, starts zeroed. */
#ifndef STAMPEDE_BASE_REGION_H
#define STAMPEDE_BASE_REGION_H

#include "base/fault.h"

#include <stddef.h>
#include <stdint.h>

struct region {
    uint8_t *base;
    size_t size;
};

enum fault region_open(struct region *region, size_t size) MUST_USE;
/* For a table that a crowd touches all over: with small pages nearly every touch would also wait for the page's own entry.
 * It then grows by 2 MB at a time. Before the first touch. */
void region_huge(struct region *region);
/* These bytes are about to be touched: asks for their memory at once. */
void region_populate(struct region *region, size_t begin, size_t end);
/* Memory there is, at most, of a region that was touched so often, anywhere. */
uint64_t region_touched(const struct region *region, uint64_t touches);
void region_close(struct region *region);

#endif
