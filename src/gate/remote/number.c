#include "gate/remote/number.h"

#include <assert.h>

#define SINCE_MS UINT64_C(1704067200000) /* 2024-01-01T00:00:00Z */
#define MARK_BITS 4
#define COUNT_BITS 12 /* with those of the mark */
#define NODE_BITS 10
#define COUNT_MASK ((UINT64_C(1) << COUNT_BITS) - 1)
_Static_assert(NUMBER_MARKS == 1 << MARK_BITS && NODES_MAX < 1 << NODE_BITS, "each has its bits");

/* Milliseconds and count, and as they stand in a number. */
static uint64_t stamp_of(uint64_t ms)
{
    return (ms > SINCE_MS ? ms - SINCE_MS : 0) << COUNT_BITS;
}

static uint64_t stamp_in(uint64_t number)
{
    return (number >> NODE_BITS & ~COUNT_MASK) | (number & COUNT_MASK);
}

static uint32_t node_in(uint64_t number)
{
    return (uint32_t)(number >> COUNT_BITS & NODES_MAX);
}

static uint64_t number_of(uint64_t stamp, uint32_t node)
{
    return ((stamp & ~COUNT_MASK) << NODE_BITS) | ((uint64_t)node << COUNT_BITS) | (stamp & COUNT_MASK);
}

void numbers_lease(struct numbers *numbers, uint32_t node, uint64_t floor_ms, uint64_t until_ms)
{
    assert(node >= 1 && node <= NODES_MAX);
    uint64_t floor = stamp_of(floor_ms), last = atomic_load(&numbers->last), next;
    do {
        uint64_t stamp = stamp_in(last);
        next = number_of(stamp > floor ? stamp : floor, node);
    } while (!atomic_compare_exchange_weak(&numbers->last, &last, next));
    atomic_store(&numbers->until_ms, until_ms);
}

void numbers_extend(struct numbers *numbers, uint64_t until_ms)
{
    atomic_store(&numbers->until_ms, until_ms);
}

bool numbers_are_given(const struct numbers *numbers, uint64_t mono_ms)
{
    return mono_ms < atomic_load_explicit(&numbers->until_ms, memory_order_acquire);
}

uint32_t numbers_node(const struct numbers *numbers)
{
    return node_in(atomic_load_explicit(&numbers->last, memory_order_relaxed));
}

uint32_t sale_mark(uint64_t sale_id)
{
    return (uint32_t)(sale_id % NUMBER_MARKS);
}

uint64_t numbers_next(struct numbers *numbers, uint64_t sale_id, uint64_t wall_ms, uint64_t mono_ms)
{
    if (!numbers_are_given(numbers, mono_ms)) return 0;
    uint64_t stamp = stamp_of(wall_ms), last = atomic_load_explicit(&numbers->last, memory_order_relaxed), next;
    do {
        uint64_t before = stamp_in(last);
        next = number_of(stamp > before ? stamp : before + NUMBER_MARKS, node_in(last));
    } while (
        !atomic_compare_exchange_weak_explicit(&numbers->last, &last, next, memory_order_relaxed, memory_order_relaxed));
    return next | sale_mark(sale_id);
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
    return node_in(number) != 0;
}

uint32_t number_mark(uint64_t number)
{
    return (uint32_t)(number % NUMBER_MARKS);
}
