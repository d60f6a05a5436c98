#include "base/pool.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#define EXTEND_BYTES (64u << 10)
#define READY_BYTES (2u << 20)

enum fault pool_open(struct pool *pool, uint32_t cell_bytes, uint32_t cells_max)
{
    assert(cell_bytes >= sizeof(uint32_t) && cell_bytes <= EXTEND_BYTES);
    assert(cells_max > 0 && cells_max < UINT32_MAX);

    /* Cell 0 is never given out, so that a number of 0 can mean nobody; its bytes are the price. */
    size_t size;
    bool overflow = __builtin_mul_overflow((size_t)cells_max + 1, (size_t)cell_bytes, &size);
    assert(!overflow);

    *pool = (struct pool){ .cell_bytes = cell_bytes, .cells_max = cells_max };
    return region_open(&pool->region, size);
}

static uint32_t ready_of(const struct pool *pool)
{
    return atomic_load_explicit(&pool->ready, memory_order_relaxed);
}

/* Another may have brought it further meanwhile. */
static void ready_raise(struct pool *pool, uint32_t to)
{
    uint32_t ready = ready_of(pool);
    while (ready < to &&
           !atomic_compare_exchange_weak_explicit(&pool->ready, &ready, to, memory_order_relaxed, memory_order_relaxed)) {
    }
}

/* The bytes of the cells behind those that are ready, up to this one. */
static bool cells_populate(struct pool *pool, uint32_t ready, uint32_t to)
{
    return region_populate(&pool->region, ((size_t)ready + 1) * pool->cell_bytes, ((size_t)to + 1) * pool->cell_bytes);
}

/* A page that the system has to find at the first touch of it costs several times as much as one of many that it is asked
 * for at once, and cells are touched in their order. */
static void pool_extend(struct pool *pool)
{
    uint32_t ready = ready_of(pool), to = ready + EXTEND_BYTES / pool->cell_bytes;
    (void)cells_populate(pool, ready, to);
    ready_raise(pool, to);
}

uint32_t pool_reach(const struct pool *pool, uint32_t cells)
{
    uint32_t freed = pool->fresh - pool->used, room = pool->cells_max - pool->fresh;
    uint32_t fresh = cells > freed ? cells - freed : 0;
    return pool->fresh + (fresh < room ? fresh : room);
}

bool pool_make_ready(struct pool *pool, uint32_t reach)
{
    uint32_t ready = ready_of(pool), part = READY_BYTES / pool->cell_bytes;
    if (ready >= reach) return false;
    uint32_t to = reach - ready < part ? reach : ready + part;
    if (!cells_populate(pool, ready, to)) return false;
    ready_raise(pool, to);
    return true;
}

uint64_t pool_bytes(const struct pool *pool)
{
    uint32_t ready = ready_of(pool);
    return (uint64_t)(ready < pool->cells_max ? ready : pool->cells_max) * pool->cell_bytes;
}

void pool_close(struct pool *pool)
{
    region_close(&pool->region);
    *pool = (struct pool){ 0 };
}

uint32_t pool_acquire(struct pool *pool)
{
    uint32_t cell = pool->freed;
    if (cell != 0) {
        memcpy(&pool->freed, pool_cell(pool, cell), sizeof pool->freed);
    } else {
        if (pool->fresh == pool->cells_max) return 0;
        if (pool->fresh == ready_of(pool)) pool_extend(pool);
        cell = ++pool->fresh;
    }
    pool->used++;
    return cell;
}

/* The link of the free list lies in the first bytes of the free cell itself. */
void pool_release(struct pool *pool, uint32_t cell)
{
    assert(cell != 0 && cell <= pool->fresh);
    assert(pool->used > 0);
    assert(cell != pool->freed);
    memcpy(pool_cell(pool, cell), &pool->freed, sizeof pool->freed);
    pool->freed = cell;
    pool->used--;
}
