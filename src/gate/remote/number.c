#include "gate/remote/number.h"

#include <assert.h>

#define SINCE_MS UINT64_C(1704067200000) /* 2024-01-01T00:00:00Z */
#define MARK_BITS 4
#define COUNT_BITS 12 /* with those of the mark */
#define NODE_BITS 10
#define COUNT_MASK ((UINT64_C(1) << COUNT_BITS) - 1)
_Static_assert(NUMBER_MARKS == 1 << MARK_BITS && NODES_MAX < 1 << NODE_BITS, "each has its bits");

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

uint32_t sale_mark(uint64_t sale_id)
{
    return (uint32_t)(sale_id % NUMBER_MARKS);
}

uint64_t numbers_next_of(struct numbers *numbers, uint64_t sale_id, uint64_t wall_ms)
{
    uint64_t stamp = stamp_of(wall_ms), last = atomic_load_explicit(&numbers->last, memory_order_relaxed), next;
    do {
        next = stamp > last ? stamp : last + NUMBER_MARKS;
    } while (
        !atomic_compare_exchange_weak_explicit(&numbers->last, &last, next, memory_order_relaxed, memory_order_relaxed));
    return ((next & ~COUNT_MASK) << NODE_BITS) | ((uint64_t)numbers_node(numbers) << COUNT_BITS) | (next & COUNT_MASK) |
           sale_mark(sale_id);
}

uint64_t numbers_next(struct numbers *numbers, uint64_t wall_ms)
{
    return numbers_next_of(numbers, 0, wall_ms);
}

uint64_t number_first(uint64_t ms)
{
    return stamp_of(ms) << NODE_BITS;
}

uint64_t number_ms(uint64_t number)
{
    return SINCE_MS + (number >> (NODE_BITS + COUNT_BITS));
}

bool number_is_of_a_node(uint64_t number)
{
    return (number >> COUNT_BITS & NODES_MAX) != 0;
}

uint32_t number_mark(uint64_t number)
{
    return (uint32_t)(number % NUMBER_MARKS);
}
