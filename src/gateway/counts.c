#include "gateway/counts.h"

#include "base/region.h"
#include "bounds.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

/* A cell of the ring: never across two cache lines. */
struct cell {
    _Atomic uint32_t stamp; /* the second, its low half; a ring's turn is shorter than 2^32 */
    _Atomic uint32_t requests, wins, refusals;
};

/* A ring has pages of its own, so that they can be given back; also where a page has 64 KB. */
#define RING_BYTES ((size_t)65536)
_Static_assert(COUNTS_SECONDS * sizeof(struct cell) <= RING_BYTES, "a ring fits");

struct block {
    _Alignas(64) _Atomic uint64_t sale_id; /* 0: nobody's, or changing hands */
    _Atomic uint64_t since;                /* the second it began: older cells are those of the sale before */
    uint64_t newest; /* the last second a cell was begun for; 0: the ring has no memory. The writer's */
    _Atomic uint64_t totals[COUNTED_KINDS];
    _Atomic uint64_t times[COUNTS_TIMES];
};

struct counts_page {
    struct block *blocks; /* [SALES_OPEN_MAX] */
    uint8_t *rings;       /* [SALES_OPEN_MAX][RING_BYTES] */
    uint32_t turn;        /* the slot that is looked at next */
};

struct counts {
    uint32_t writers;
    struct counts_page pages[REACTORS_MAX];
    struct region blocks, rings; /* of all pages */
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
    assert(writers <= REACTORS_MAX);
    counts->writers = writers;
    size_t slots = (size_t)writers * SALES_OPEN_MAX;
    enum fault fault = region_open(&counts->blocks, slots * sizeof(struct block));
    if (fault == FAULT_NONE) fault = region_open(&counts->rings, slots * RING_BYTES);
    if (fault != FAULT_NONE) {
        counts_close(counts);
        return fault;
    }
    for (uint32_t writer = 0; writer < writers; writer++) {
        struct counts_page *page = &counts->pages[writer];
        page->blocks = (struct block *)(void *)counts->blocks.base + (size_t)writer * SALES_OPEN_MAX;
        page->rings = counts->rings.base + (size_t)writer * SALES_OPEN_MAX * RING_BYTES;
    }
    *out = counts;
    return FAULT_NONE;
}

void counts_close(struct counts *counts)
{
    if (counts == NULL) return;
    region_close(&counts->blocks);
    region_close(&counts->rings);
    free(counts);
}

struct counts_page *counts_page(struct counts *counts, uint32_t writer)
{
    assert(writer < counts->writers);
    return &counts->pages[writer];
}

static struct block *block_at(const struct counts_page *page, uint64_t sale_id)
{
    return &page->blocks[sale_id % SALES_OPEN_MAX];
}

static struct cell *cell_at(const struct counts_page *page, uint64_t sale_id, uint64_t second)
{
    struct cell *ring = (struct cell *)(void *)(page->rings + sale_id % SALES_OPEN_MAX * RING_BYTES);
    return &ring[second % COUNTS_SECONDS];
}

/* The ring is left as it is, but for the cell of this second: what is older than since is not read. */
static void block_begin(struct block *block, struct cell *cell, uint64_t sale_id, uint64_t second)
{
    PUT(block->sale_id, 0);
    for (unsigned kind = 0; kind < COUNTED_KINDS; kind++) PUT(block->totals[kind], 0);
    for (unsigned i = 0; i < COUNTS_TIMES; i++) PUT(block->times[i], 0);
    PUT(cell->stamp, 0);
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
    struct cell *cell = cell_at(page, sale_id, second);
    if (owner != sale_id) block_begin(block, cell, sale_id, second);
    ADD_ONE(block->totals[kind]);

    if (OWN(cell->stamp) != (uint32_t)second) {
        cell_begin(cell, (uint32_t)second);
        if (block->newest < second) block->newest = second;
    }
    ADD_ONE(cell->requests);
    if (kind == COUNTED_WON) {
        ADD_ONE(cell->wins);
    } else if (kind != COUNTED_REPEATED) {
        ADD_ONE(cell->refusals);
    }
}

/* 0 to 3 are cells of their own; from there on the highest bit and the two below it say which. */
static unsigned time_cell(uint64_t us)
{
    if (us < 4) return (unsigned)us;
    unsigned top = 63 - (unsigned)__builtin_clzll(us);
    unsigned cell = (top - 1) * 4 + (unsigned)(us >> (top - 2) & 3);
    return cell < COUNTS_TIMES ? cell : COUNTS_TIMES - 1;
}

/* Where a cell begins; that of the one after the last is where it ends. */
static uint64_t cell_begin_us(unsigned cell)
{
    return cell < 4 ? cell : (uint64_t)(4 + cell % 4) << (cell / 4 - 1);
}

void counts_took(struct counts_page *page, uint64_t sale_id, uint64_t took_ns)
{
    struct block *block = block_at(page, sale_id);
    if (OWN(block->sale_id) == sale_id) ADD_ONE(block->times[time_cell(took_ns / 1000)]);
}

/* Nothing in such a ring may be asked for any more, whether its sale goes on or is over; a reader who is at it sees cells of
 * another second, as before, or of none. */
static bool ring_is_old(const struct block *block, uint64_t second)
{
    return block->newest != 0 && block->newest + COUNTS_SECONDS <= second;
}

void counts_tidy(struct counts_page *page, uint64_t second)
{
    enum { SLOTS_A_CALL = 64 };
    for (uint32_t i = 0; i < SLOTS_A_CALL; i++) {
        struct block *block = &page->blocks[page->turn];
        if (ring_is_old(block, second)) {
            /* Where the system does not take it back, it stays and is used again. */
            (void)madvise(page->rings + page->turn * RING_BYTES, RING_BYTES, MADV_DONTNEED);
            block->newest = 0;
        }
        page->turn = (page->turn + 1) % SALES_OPEN_MAX;
    }
}

void counts_totals(const struct counts *counts, uint64_t sale_id, uint64_t totals[COUNTED_KINDS])
{
    uint64_t seen[COUNTED_KINDS];
    for (unsigned kind = 0; kind < COUNTED_KINDS; kind++) totals[kind] = 0;
    for (uint32_t writer = 0; writer < counts->writers; writer++) {
        struct block *block = block_at(&counts->pages[writer], sale_id);
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
        struct block *block = block_at(&counts->pages[writer], sale_id);
        struct cell *cell = cell_at(&counts->pages[writer], sale_id, second);
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

void counts_times(const struct counts *counts, uint64_t sale_id, uint64_t times[COUNTS_TIMES])
{
    uint64_t seen[COUNTS_TIMES];
    for (unsigned i = 0; i < COUNTS_TIMES; i++) times[i] = 0;
    for (uint32_t writer = 0; writer < counts->writers; writer++) {
        struct block *block = block_at(&counts->pages[writer], sale_id);
        if (sale_id == 0 || GET(block->sale_id) != sale_id) continue;
        for (unsigned i = 0; i < COUNTS_TIMES; i++) seen[i] = GET(block->times[i]);
        if (GET(block->sale_id) != sale_id) continue; /* it changed hands meanwhile */
        for (unsigned i = 0; i < COUNTS_TIMES; i++) times[i] += seen[i];
    }
}

/* Those of a cell are taken for spread evenly over it. */
uint64_t counts_within_us(const uint64_t times[COUNTS_TIMES], uint32_t permille)
{
    uint64_t all = 0, below = 0;
    for (unsigned i = 0; i < COUNTS_TIMES; i++) all += times[i];
    uint64_t rank = (all * permille + 999) / 1000;
    for (unsigned i = 0; i < COUNTS_TIMES && rank > 0; i++) {
        if (below + times[i] < rank) {
            below += times[i];
            continue;
        }
        uint64_t begin_us = cell_begin_us(i), wide_us = cell_begin_us(i + 1) - begin_us;
        return begin_us + (wide_us * (rank - below) + times[i] - 1) / times[i];
    }
    return 0;
}
