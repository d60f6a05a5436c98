/* index: a hash table of numbers, chained through the entries themselves.
 *
 * It has all its buckets from the start, more than half as many as its pool may have cells, in memory that is touched as it
 * is used. So nothing ever moves, no insertion pays for growth, and none reads another entry: the cost of a grab is the same
 * at a thousand and at ten million buyers. Entries are numbers (cells of a pool, never 0); where the owner keeps the hash
 * and the chain link of an entry is told by two offsets into its cells.
 *
 * Not for several threads at once, but for index_may_have(), index_prefetch(), index_prefetch_first() and
 * index_make_ready(): a bucket is never empty, not even for a moment, while something is in it. */
#ifndef STAMPEDE_BASE_INDEX_H
#define STAMPEDE_BASE_INDEX_H

#include "base/pool.h"

#include <stdatomic.h>
#include <stdbool.h>

struct index {
    struct region buckets; /* _Atomic uint32_t heads */
    const struct pool *cells;
    uint32_t hash_offset; /* of the uint32_t hash in a cell */
    uint32_t link_offset; /* of the uint32_t link in a cell */
    uint32_t mask;        /* of the hash; one less than there are buckets */
    uint32_t count;
    uint64_t puts; /* ever */
    _Atomic uint64_t bytes_ready;
};

enum fault index_open(struct index *index, const struct pool *cells, uint32_t hash_offset, uint32_t link_offset) MUST_USE;
/* With as many buckets as there may be cells or more, for index_may_have(): full, it still denies four in ten that are not
 * there, filled to a tenth nine in ten. */
enum fault index_open_sparse(struct index *index, const struct pool *cells, uint32_t hash_offset,
                             uint32_t link_offset) MUST_USE;
void index_close(struct index *index);
/* As region_make_ready() of its buckets. False: there is no such part, or no memory for it. */
bool index_make_ready(struct index *index, uint32_t part);
void index_put(struct index *index, uint32_t cell); /* its hash is set; it may share it with others */
void index_remove(struct index *index, uint32_t cell);
void index_replace(struct index *index, uint32_t old_cell, uint32_t new_cell); /* equal hashes */
void index_prefetch(const struct index *index, uint32_t hash);                 /* its bucket will be asked for soon */
void index_prefetch_first(const struct index *index, uint32_t hash);           /* and what its bucket begins with */
/* False: certainly no entry has this hash. What was written before an entry went is seen by whoever then finds it gone, and
 * has a fence to acquire. */
bool index_may_have(const struct index *index, uint32_t hash);
/* Every entry of just this hash, newest first (a replacement stands where the old one stood): compare, then ask for the
 * next; 0 ends. */
uint32_t index_first(const struct index *index, uint32_t hash);
uint32_t index_next(const struct index *index, uint32_t cell);
uint64_t index_bytes(const struct index *index); /* of memory touched, at most */

#endif
