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
uint64_t pool_bytes(const struct pool *pool); /* of memory that has been asked for */

/* So many cells are about to be acquired: what memory they will take that has not been asked for. Whoever calls asks for it,
 * with region_populate(), when others may use the pool again; a cell that is used before that gets its memory when it is
 * touched. */
struct pool_ahead {
    struct region *region;
    size_t begin, end; /* equal: it is all there */
};
struct pool_ahead pool_expect(struct pool *pool, uint32_t cells);

static inline void *pool_cell(const struct pool *pool, uint32_t cell)
{
    return pool->region.base + (size_t)cell * pool->cell_bytes;
}

#endif
