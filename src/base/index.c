#include "base/index.h"

#include <assert.h>

/* Linear hashing (Litwin 1980). With m = level_mask + 1 buckets at the start of a level, buckets [0, bucket_count - m) have
 * been split already and their entries are found by one bit more of the hash; bucket_count runs from m to 2m, then the level
 * ends. A split walks one chain, of one or two entries on average, so growing costs every insertion the same. */

#define BUCKETS_INITIAL UINT32_C(64)

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
    uint32_t bucket = hash & (index->level_mask * 2 + 1);
    if (bucket >= index->bucket_count) bucket &= index->level_mask;
    return (uint32_t *)(void *)index->buckets.base + bucket;
}

enum fault index_open(struct index *index, const struct pool *cells, uint32_t hash_offset, uint32_t link_offset)
{
    assert(cells->cell_bytes % sizeof(uint32_t) == 0);
    assert(hash_offset % sizeof(uint32_t) == 0 && hash_offset + sizeof(uint32_t) <= cells->cell_bytes);
    assert(link_offset % sizeof(uint32_t) == 0 && link_offset + sizeof(uint32_t) <= cells->cell_bytes);
    assert(hash_offset != link_offset);

    *index = (struct index){
        .cells = cells,
        .hash_offset = hash_offset,
        .link_offset = link_offset,
        .bucket_count = BUCKETS_INITIAL,
        .level_mask = BUCKETS_INITIAL - 1,
    };
    size_t buckets_max = cells->cells_max > BUCKETS_INITIAL ? cells->cells_max : BUCKETS_INITIAL;
    return region_open(&index->buckets, buckets_max * sizeof(uint32_t));
}

void index_close(struct index *index)
{
    region_close(&index->buckets);
    *index = (struct index){ 0 };
}

/* Moves the entries of the next bucket in turn whose new hash bit is set into a bucket added at the end; both chains keep
 * their order. */
static void bucket_split(struct index *index)
{
    uint32_t *heads = (uint32_t *)(void *)index->buckets.base;
    uint32_t bit = index->level_mask + 1;
    uint32_t *stays = &heads[index->bucket_count - bit];
    uint32_t *moves = &heads[index->bucket_count];

    uint32_t cell = *stays;
    while (cell != 0) {
        uint32_t *link = link_of(index, cell);
        uint32_t next = *link;
        if (*hash_of(index, cell) & bit) {
            *moves = cell;
            moves = link;
        } else {
            *stays = cell;
            stays = link;
        }
        cell = next;
    }
    *stays = 0;
    *moves = 0;

    index->bucket_count++;
    if (index->bucket_count == bit * 2) index->level_mask = bit * 2 - 1;

    /* The next split is known already; its chain lies anywhere in memory, so let it come nearer in the meantime. */
    cell = heads[index->bucket_count - index->level_mask - 1];
    __builtin_prefetch(hash_of(index, cell));
}

void index_put(struct index *index, uint32_t cell)
{
    assert(cell != 0 && cell <= index->cells->cells_max);
    assert(index->count < index->cells->cells_max);

    uint32_t *head = head_of(index, *hash_of(index, cell));
    *link_of(index, cell) = *head;
    *head = cell;
    index->count++;
    if (index->count > index->bucket_count) bucket_split(index);
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

/* Buckets are never joined again: a sale that had many buyers is about to end, not to shrink. */
void index_remove(struct index *index, uint32_t cell)
{
    assert(cell != 0);
    uint32_t *place = place_of(index, cell);
    *place = *link_of(index, cell);
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
    *place = new_cell;
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

uint32_t index_first(const struct index *index, uint32_t hash)
{
    return chain_find(index, *head_of(index, hash), hash);
}

uint32_t index_next(const struct index *index, uint32_t cell)
{
    assert(cell != 0);
    return chain_find(index, *link_of(index, cell), *hash_of(index, cell));
}
