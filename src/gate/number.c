#include "gate/number.h"

#include <assert.h>

#define SINCE_MS UINT64_C(1704067200000) /* 2024-01-01T00:00:00Z */
#define COUNT_BITS 12
#define NODE_BITS 10
#define COUNT_MASK ((UINT64_C(1) << COUNT_BITS) - 1)

static uint64_t stamp_of(uint64_t ms)
{
    return (ms > SINCE_MS ? ms - SINCE_MS : 0) << COUNT_BITS;
}

void numbers_init(struct numbers *numbers, uint32_t node, uint64_t floor_ms)
{
    assert(node >= 1 && node <= NODES_MAX);
    atomic_store(&numbers->node, node);
    atomic_store(&numbers->last, stamp_of(floor_ms));
}

void numbers_rename(struct numbers *numbers, uint32_t node)
{
    assert(node >= 1 && node <= NODES_MAX);
    atomic_store(&numbers->node, node);
}

uint32_t numbers_node(const struct numbers *numbers)
{
    return atomic_load_explicit(&numbers->node, memory_order_relaxed);
}

uint64_t numbers_next(struct numbers *numbers, uint64_t wall_ms)
{
    uint64_t stamp = stamp_of(wall_ms), last = atomic_load_explicit(&numbers->last, memory_order_relaxed), next;
    do {
        next = stamp > last ? stamp : last + 1;
    } while (
        !atomic_compare_exchange_weak_explicit(&numbers->last, &last, next, memory_order_relaxed, memory_order_relaxed));
    return ((next & ~COUNT_MASK) << NODE_BITS) | ((uint64_t)numbers_node(numbers) << COUNT_BITS) | (next & COUNT_MASK);
}

uint64_t number_first(uint64_t ms)
{
    return stamp_of(ms) << NODE_BITS;
}

uint64_t number_ms(uint64_t number)
{
    return SINCE_MS + (number >> (NODE_BITS + COUNT_BITS));
}
