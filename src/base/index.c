#include "base/index.h"

#include <assert.h>

#define BUCKETS_MIN UINT32_C(64)
#define BUCKETS_MAX (UINT32_C(1) << 31)

static uint32_t *hash_of(const struct index *index, uint32_t cell)
{
    return (uint32_t *)(void *)((uint8_t *)pool_cell(index->cells, cell) + index->hash_offset);
}

static uint32_t *link_of(const struct index *index, uint32_t cell)
{
    return (uint32_t *)(void *)((uint8_t *)pool_cell(index->cells, cell) + index->link_offset);
}

static uint32_t *head_of(const struct index *index, uint32_t hash)
{
    return (uint32_t *)(void *)index->buckets.base + (hash & index->mask);
}

/* By whoever does not own the index, at any moment. */
static uint32_t head_seen(const struct index *index, uint32_t hash)
{
    return atomic_load_explicit((_Atomic uint32_t *)(void *)head_of(index, hash), memory_order_relaxed);
}

/* Of a bucket's head, or of a link, which only the owner reads. Whoever else reads a head must have learned in some other
 * way, and acquired, that what they look for was put there before. */
static void place_set(uint32_t *place, uint32_t cell)
{
    atomic_store_explicit((_Atomic uint32_t *)(void *)place, cell, memory_order_release);
}

static enum fault open_with(struct index *index, const struct pool *cells, uint32_t buckets_min, uint32_t hash_offset,
                            uint32_t link_offset)
{
    assert(cells->cell_bytes % sizeof(uint32_t) == 0);
    assert(hash_offset % sizeof(uint32_t) == 0 && hash_offset + sizeof(uint32_t) <= cells->cell_bytes);
    assert(link_offset % sizeof(uint32_t) == 0 && link_offset + sizeof(uint32_t) <= cells->cell_bytes);
    assert(hash_offset != link_offset);

    uint32_t buckets = BUCKETS_MIN;
    while (buckets < buckets_min && buckets < BUCKETS_MAX) buckets *= 2;
    *index = (struct index){ .cells = cells, .hash_offset = hash_offset, .link_offset = link_offset, .mask = buckets - 1 };
    return region_open(&index->buckets, (size_t)buckets * sizeof(uint32_t));
}

enum fault index_open(struct index *index, const struct pool *cells, uint32_t hash_offset, uint32_t link_offset)
{
    return open_with(index, cells, cells->cells_max / 2 + 1, hash_offset, link_offset);
}

enum fault index_open_sparse(struct index *index, const struct pool *cells, uint32_t hash_offset, uint32_t link_offset)
{
    return open_with(index, cells, cells->cells_max, hash_offset, link_offset);
}

void index_close(struct index *index)
{
    region_close(&index->buckets);
    *index = (struct index){ 0 };
}

bool index_make_ready(struct index *index, uint32_t part)
{
    size_t ready = region_make_ready(&index->buckets, part);
    if (ready > 0) atomic_store_explicit(&index->bytes_ready, ready, memory_order_relaxed);
    return ready > 0;
}

void index_put(struct index *index, uint32_t cell)
{
    assert(cell != 0 && cell <= index->cells->cells_max);
    assert(index->count < index->cells->cells_max);

    uint32_t *head = head_of(index, *hash_of(index, cell));
    *link_of(index, cell) = *head;
    place_set(head, cell);
    index->count++;
    index->puts++;
}

/* Where the number of this cell is written: its bucket's head or the link of the cell before it. */
static uint32_t *place_of(const struct index *index, uint32_t cell)
{
    uint32_t *place = head_of(index, *hash_of(index, cell));
    while (*place != cell) {
        assert(*place != 0);
        place = link_of(index, *place);
    }
    return place;
}

void index_remove(struct index *index, uint32_t cell)
{
    assert(cell != 0);
    uint32_t *place = place_of(index, cell);
    place_set(place, *link_of(index, cell));
    *link_of(index, cell) = 0;
    index->count--;
}

void index_replace(struct index *index, uint32_t old_cell, uint32_t new_cell)
{
    assert(old_cell != 0 && new_cell != 0 && old_cell != new_cell);
    assert(*hash_of(index, old_cell) == *hash_of(index, new_cell));
    uint32_t *place = place_of(index, old_cell);
    *link_of(index, new_cell) = *link_of(index, old_cell);
    *link_of(index, old_cell) = 0;
    place_set(place, new_cell);
}

/* The cell's memory is touched for its link anyway, so entries of the bucket with another hash are passed over here. */
static uint32_t chain_find(const struct index *index, uint32_t cell, uint32_t hash)
{
    while (cell != 0 && *hash_of(index, cell) != hash) cell = *link_of(index, cell);
    return cell;
}

void index_prefetch(const struct index *index, uint32_t hash)
{
    __builtin_prefetch(head_of(index, hash), 1);
}

void index_prefetch_first(const struct index *index, uint32_t hash)
{
    uint32_t cell = head_seen(index, hash);
    if (cell != 0) __builtin_prefetch(pool_cell(index->cells, cell));
}

bool index_may_have(const struct index *index, uint32_t hash)
{
    return head_seen(index, hash) != 0;
}

uint32_t index_first(const struct index *index, uint32_t hash)
{
    return chain_find(index, *head_of(index, hash), hash);
}

uint32_t index_next(const struct index *index, uint32_t cell)
{
    assert(cell != 0);
    return chain_find(index, *link_of(index, cell), *hash_of(index, cell));
}

uint64_t index_bytes(const struct index *index)
{
    uint64_t touched = region_touched(&index->buckets, index->puts);
    uint64_t bytes = touched + atomic_load_explicit(&index->bytes_ready, memory_order_relaxed);
    return bytes < index->buckets.size ? bytes : index->buckets.size;
}
