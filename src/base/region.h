/* region: address space reserved at start, memory touched as it is used. Never moves, starts zeroed. */
#ifndef STAMPEDE_BASE_REGION_H
#define STAMPEDE_BASE_REGION_H

#include "base/fault.h"

#include <stdbool.h>
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
/* These bytes are about to be touched: asks for their memory at once. False: it comes when they are touched. */
bool region_populate(struct region *region, size_t begin, size_t end);
/* Memory for one part of it after the other, each of 2 MB, before a crowd touches it all over; in huge pages where the
 * system has them and nothing of the part was touched yet. By any thread, whoever else uses the region. How many bytes of
 * it, up to the end of this part, are there; 0: it has no such part, or its memory comes only when it is touched. */
size_t region_make_ready(struct region *region, uint32_t part);
/* Memory there is, at most, of a region that was touched so often, anywhere. */
uint64_t region_touched(const struct region *region, uint64_t touches);
void region_close(struct region *region);

#endif
