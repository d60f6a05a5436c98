#include "gateway/counts.h"

#include "base/region.h"
#include "bounds.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

/* A cell of the ring: never across two cache lines. */
struct cell {
    _Atomic uint32_t stamp; /* the second, its low half; a ring's turn is shorter than 2^32 */
    _Atomic uint32_t requests, wins, refusals;
};

struct block {
    _Atomic uint64_t sale_id; /* 0: nobody's, or changing hands */
    _Atomic uint64_t since;   /* the second it began: older cells are those of the sale before */
    _Atomic uint64_t totals[COUNTED_KINDS];
    _Alignas(64) struct cell ring[COUNTS_SECONDS];
};

struct counts {
    uint32_t writers;
    struct region region; /* struct block [writers][SALES_OPEN_MAX] */
};

/* Every store is a release and every load a reader makes an acquire: whoever sees what a block or cell has after it changed
 * hands also sees that it did. On common machines that costs nothing. */
#define PUT(field, value) atomic_store_explicit(&(field), (value), memory_order_release)
#define GET(field) atomic_load_explicit(&(field), memory_order_acquire)
#define OWN(field) atomic_load_explicit(&(field), memory_order_relaxed) /* by its only writer */
#define ADD_ONE(field) PUT(field, OWN(field) + 1)

const char *counted_word(unsigned kind)
{
    assert(kind < COUNTED_KINDS);
    if (kind == COUNTED_WON) return "WON";
    return kind == COUNTED_REPEATED ? "REPEATED" : problem_code((enum problem)kind);
}

enum fault counts_open(struct counts **out, uint32_t writers)
{
    *out = NULL;
    struct counts *counts = calloc(1, sizeof *counts);
    if (counts == NULL) return FAULT_MEMORY;
    counts->writers = writers;
    enum fault fault = region_open(&counts->region, (size_t)writers * SALES_OPEN_MAX * sizeof(struct block));
    if (fault != FAULT_NONE) {
        free(counts);
        return fault;
    }
    *out = counts;
    return FAULT_NONE;
}

void counts_close(struct counts *counts)
{
    if (counts == NULL) return;
    region_close(&counts->region);
    free(counts);
}

struct counts_page *counts_page(const struct counts *counts, uint32_t writer)
{
    assert(writer < counts->writers);
    struct block *blocks = (struct block *)(void *)counts->region.base;
    return (struct counts_page *)(blocks + (size_t)writer * SALES_OPEN_MAX);
}

static struct block *block_at(struct counts_page *page, uint64_t sale_id)
{
    return (struct block *)(void *)page + sale_id % SALES_OPEN_MAX;
}

/* The ring is left as it is, but for the cell of this second: what is older than since is not read. */
static void block_begin(struct block *block, uint64_t sale_id, uint64_t second)
{
    PUT(block->sale_id, 0);
    for (unsigned kind = 0; kind < COUNTED_KINDS; kind++) PUT(block->totals[kind], 0);
    PUT(block->ring[second % COUNTS_SECONDS].stamp, 0);
    PUT(block->since, second);
    PUT(block->sale_id, sale_id);
}

static void cell_begin(struct cell *cell, uint32_t stamp)
{
    PUT(cell->stamp, 0);
    PUT(cell->requests, 0);
    PUT(cell->wins, 0);
    PUT(cell->refusals, 0);
    PUT(cell->stamp, stamp);
}

void counts_add(struct counts_page *page, uint64_t sale_id, unsigned kind, uint64_t second)
{
    assert(kind < COUNTED_KINDS);
    struct block *block = block_at(page, sale_id);
    uint64_t owner = OWN(block->sale_id);
    if (owner > sale_id) return; /* over, and its place taken: nobody asks for its numbers any more */
    if (owner != sale_id) block_begin(block, sale_id, second);
    ADD_ONE(block->totals[kind]);

    struct cell *cell = &block->ring[second % COUNTS_SECONDS];
    if (OWN(cell->stamp) != (uint32_t)second) cell_begin(cell, (uint32_t)second);
    ADD_ONE(cell->requests);
    if (kind == COUNTED_WON) {
        ADD_ONE(cell->wins);
    } else if (kind != COUNTED_REPEATED) {
        ADD_ONE(cell->refusals);
    }
}

void counts_totals(const struct counts *counts, uint64_t sale_id, uint64_t totals[COUNTED_KINDS])
{
    uint64_t seen[COUNTED_KINDS];
    for (unsigned kind = 0; kind < COUNTED_KINDS; kind++) totals[kind] = 0;
    for (uint32_t writer = 0; writer < counts->writers; writer++) {
        struct block *block = block_at(counts_page(counts, writer), sale_id);
        if (sale_id == 0 || GET(block->sale_id) != sale_id) continue;
        for (unsigned kind = 0; kind < COUNTED_KINDS; kind++) seen[kind] = GET(block->totals[kind]);
        if (GET(block->sale_id) != sale_id) continue; /* it changed hands meanwhile */
        for (unsigned kind = 0; kind < COUNTED_KINDS; kind++) totals[kind] += seen[kind];
    }
}

struct counts_second counts_at(const struct counts *counts, uint64_t sale_id, uint64_t second)
{
    struct counts_second sum = { 0, 0, 0 };
    for (uint32_t writer = 0; writer < counts->writers; writer++) {
        struct block *block = block_at(counts_page(counts, writer), sale_id);
        struct cell *cell = &block->ring[second % COUNTS_SECONDS];
        if (sale_id == 0 || GET(block->sale_id) != sale_id || second < GET(block->since)) continue;
        if (GET(cell->stamp) != (uint32_t)second) continue;
        struct counts_second seen = { GET(cell->requests), GET(cell->wins), GET(cell->refusals) };
        if (GET(cell->stamp) != (uint32_t)second || GET(block->sale_id) != sale_id) continue;
        sum.requests += seen.requests;
        sum.wins += seen.wins;
        sum.refusals += seen.refusals;
    }
    return sum;
}
