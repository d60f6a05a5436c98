/* pool: cells of one size in a region, by number. Number 0 is nobody. Not for several threads at once, but for
 * pool_make_ready(). */
#ifndef STAMPEDE_BASE_POOL_H
#define STAMPEDE_BASE_POOL_H

#include "base/region.h"

#include <stdatomic.h>

struct pool {
    struct region region;
    uint32_t cell_bytes; /* 4 to 65,536 */
    uint32_t cells_max;
    uint32_t fresh;         /* cells ever used */
    _Atomic uint32_t ready; /* cells whose memory has been asked for; at least fresh */
    uint32_t freed;         /* first of the free list, 0 if none */
    uint32_t used;
};

enum fault pool_open(struct pool *pool, uint32_t cell_bytes, uint32_t cells_max) MUST_USE;
void pool_close(struct pool *pool);
uint32_t pool_acquire(struct pool *pool); /* 0: none left. A cell used before is not zeroed. */
void pool_release(struct pool *pool, uint32_t cell);
uint64_t pool_bytes(const struct pool *pool); /* of memory that has been asked for */
/* The number of the last of so many cells to be acquired next, but for those that were used before. */
uint32_t pool_reach(const struct pool *pool, uint32_t cells);
/* By any thread, whoever else uses the pool: memory for the next cells up to this one, before they are acquired; a part of
 * it, of 2 MB at most. False: it is all there, or comes only when it is touched. */
bool pool_make_ready(struct pool *pool, uint32_t reach);

static inline void *pool_cell(const struct pool *pool, uint32_t cell)
{
    return pool->region.base + (size_t)cell * pool->cell_bytes;
}

#endif
