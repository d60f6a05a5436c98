/* pool: cells of one size in a region, by number. Number 0 is nobody. Not for several threads at once. */
#ifndef STAMPEDE_BASE_POOL_H
#define STAMPEDE_BASE_POOL_H

#include "base/region.h"

struct pool {
    struct region region;
    uint32_t cell_bytes; /* 4 to 65,536 */
    uint32_t cells_max;
    uint32_t fresh; /* cells ever used */
    uint32_t ready; /* cells whose memory has been asked for */
    uint32_t freed; /* first of the free list, 0 if none */
    uint32_t used;
};

enum fault pool_open(struct pool *pool, uint32_t cell_bytes, uint32_t cells_max) MUST_USE;
void pool_close(struct pool *pool);
uint32_t pool_acquire(struct pool *pool); /* 0: none left. A cell used before is not zeroed. */
void pool_release(struct pool *pool, uint32_t cell);

static inline void *pool_cell(const struct pool *pool, uint32_t cell)
{
    return pool->region.base + (size_t)cell * pool->cell_bytes;
}

#endif
