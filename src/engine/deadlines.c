#include "engine/deadlines.h"

#include <assert.h>

/* Four children to a node: half the levels of two, and those of one node lie side by side. */
#define CHILDREN 4

static struct deadline *heap_at(const struct deadlines *deadlines)
{
    return (struct deadline *)(void *)deadlines->heap.base;
}

enum fault deadlines_open(struct deadlines *deadlines, uint32_t count_max)
{
    assert(count_max > 0);
    *deadlines = (struct deadlines){ .count_max = count_max };
    return region_open(&deadlines->heap, (size_t)count_max * sizeof(struct deadline));
}

void deadlines_close(struct deadlines *deadlines)
{
    region_close(&deadlines->heap);
    *deadlines = (struct deadlines){ 0 };
}

bool deadlines_are_full(const struct deadlines *deadlines)
{
    return deadlines->count == deadlines->count_max;
}

static uint32_t tick_of(const struct deadlines *deadlines, uint64_t at_ms)
{
    uint64_t tick = at_ms / DEADLINE_TICK_MS;
    return tick <= deadlines->base ? 0 : (uint32_t)(tick - deadlines->base);
}

/* Moves the base so that this time fits. All hints move by as much, or to the base: their order stays. */
static void base_move(struct deadlines *deadlines, uint64_t at_ms)
{
    uint64_t tick = at_ms / DEADLINE_TICK_MS;
    uint64_t base = tick <= DEADLINE_TICKS_BEHIND ? 0 : tick - DEADLINE_TICKS_BEHIND;
    uint64_t shift = base - deadlines->base; /* there are hints only where it moves forward */
    struct deadline *heap = heap_at(deadlines);
    for (uint32_t i = 0; i < deadlines->count; i++) {
        heap[i].tick = heap[i].tick <= shift ? 0 : (uint32_t)(heap[i].tick - shift);
    }
    deadlines->base = base;
}

static void sift_up(struct deadline *heap, uint32_t at, struct deadline deadline)
{
    while (at > 0 && deadline.tick < heap[(at - 1) / CHILDREN].tick) {
        heap[at] = heap[(at - 1) / CHILDREN];
        at = (at - 1) / CHILDREN;
    }
    heap[at] = deadline;
}

static void sift_down(struct deadline *heap, uint32_t count, uint64_t at, struct deadline deadline)
{
    uint64_t child;
    while ((child = at * CHILDREN + 1) < count) {
        uint64_t end = child + CHILDREN < count ? child + CHILDREN : count;
        uint64_t least = child;
        for (child++; child < end; child++) {
            if (heap[child].tick < heap[least].tick) least = child;
        }
        if (deadline.tick <= heap[least].tick) break;
        heap[at] = heap[least];
        at = least;
    }
    heap[at] = deadline;
}

void deadlines_put(struct deadlines *deadlines, uint64_t at_ms, uint32_t cell)
{
    assert(!deadlines_are_full(deadlines));
    uint64_t tick = at_ms / DEADLINE_TICK_MS;
    bool beyond = tick > deadlines->base && tick - deadlines->base > UINT32_MAX;
    if (deadlines->count == 0 || beyond) base_move(deadlines, at_ms);
    sift_up(heap_at(deadlines), deadlines->count++, (struct deadline){ tick_of(deadlines, at_ms), cell });
    if (deadlines->count_peak < deadlines->count) deadlines->count_peak = deadlines->count;
}

const struct deadline *deadlines_first(const struct deadlines *deadlines)
{
    return deadlines->count == 0 ? NULL : heap_at(deadlines);
}

void deadlines_drop_first(struct deadlines *deadlines)
{
    assert(deadlines->count > 0);
    struct deadline *heap = heap_at(deadlines);
    uint32_t last = --deadlines->count;
    if (last > 0) sift_down(heap, last, 0, heap[last]);
}

const struct deadline *deadlines_next(struct deadlines *deadlines)
{
    if (deadlines->turn == 0 || deadlines->turn > deadlines->count) deadlines->turn = deadlines->count;
    return deadlines->turn == 0 ? NULL : heap_at(deadlines) + --deadlines->turn;
}

/* The last takes its place, and has been looked at; it moves up, and a parent that has not been comes down, or moves down.
 */
void deadlines_drop_next(struct deadlines *deadlines)
{
    uint32_t at = deadlines->turn++;
    assert(at < deadlines->count);
    struct deadline *heap = heap_at(deadlines);
    uint32_t last = --deadlines->count;
    if (at == last) return;
    bool up = at > 0 && heap[last].tick < heap[(at - 1) / CHILDREN].tick;
    if (up) sift_up(heap, at, heap[last]);
    if (!up) sift_down(heap, last, at, heap[last]);
}

bool deadline_is_of(const struct deadlines *deadlines, const struct deadline *deadline, uint64_t at_ms)
{
    return deadline->tick == tick_of(deadlines, at_ms);
}

void deadlines_clear(struct deadlines *deadlines)
{
    deadlines->count = 0;
}

uint64_t deadlines_bytes(const struct deadlines *deadlines)
{
    return (uint64_t)deadlines->count_peak * sizeof(struct deadline);
}
