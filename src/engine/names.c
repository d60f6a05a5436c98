#include "engine/names.h"

#include "base/siphash.h"
#include "bounds.h"

#include <assert.h>
#include <string.h>

struct sale_name {
    uint32_t hash_low;
    uint32_t hash_high;
    uint32_t link;
    uint32_t spare;
    uint64_t sale_id;
};

enum fault names_open(struct names *names, uint32_t names_max, const uint8_t hash_key[16])
{
    *names = (struct names){ 0 };
    memcpy(names->hash_key, hash_key, sizeof names->hash_key);
    enum fault fault = pool_open(&names->cells, sizeof(struct sale_name), names_max);
    if (fault == FAULT_NONE)
        fault = index_open(&names->by_hash, &names->cells, offsetof(struct sale_name, hash_low),
                           offsetof(struct sale_name, link));
    if (fault != FAULT_NONE) names_close(names);
    return fault;
}

void names_close(struct names *names)
{
    index_close(&names->by_hash);
    pool_close(&names->cells);
}

/* The NUL between keeps "ab" + "c" apart from "a" + "bc". */
uint64_t names_hash(const struct names *names, struct slice seller, struct slice name)
{
    uint8_t bytes[USERNAME_BYTES_MAX + 1 + SALE_NAME_BYTES_MAX];
    assert(seller.len <= USERNAME_BYTES_MAX && name.len <= SALE_NAME_BYTES_MAX);
    memcpy(bytes, seller.data, seller.len);
    bytes[seller.len] = '\0';
    memcpy(bytes + seller.len + 1, name.data, name.len);
    return siphash(names->hash_key, bytes, seller.len + 1 + name.len);
}

static uint32_t names_find(const struct names *names, uint64_t hash)
{
    uint32_t cell = index_first(&names->by_hash, (uint32_t)hash);
    while (cell != 0) {
        const struct sale_name *name = pool_cell(&names->cells, cell);
        if (name->hash_high == (uint32_t)(hash >> 32)) break;
        cell = index_next(&names->by_hash, cell);
    }
    return cell;
}

uint64_t names_sale(const struct names *names, uint64_t hash)
{
    uint32_t cell = names_find(names, hash);
    if (cell == 0) return 0;
    const struct sale_name *name = pool_cell(&names->cells, cell);
    return name->sale_id;
}

bool names_have_room(const struct names *names)
{
    return names->cells.used < names->cells.cells_max;
}

void names_put(struct names *names, uint64_t hash, uint64_t sale_id)
{
    uint32_t cell = pool_acquire(&names->cells);
    assert(cell != 0);
    struct sale_name *name = pool_cell(&names->cells, cell);
    *name = (struct sale_name){ .hash_low = (uint32_t)hash, .hash_high = (uint32_t)(hash >> 32), .sale_id = sale_id };
    index_put(&names->by_hash, cell);
}

void names_drop(struct names *names, uint64_t hash)
{
    uint32_t cell = names_find(names, hash);
    if (cell == 0) return;
    index_remove(&names->by_hash, cell);
    pool_release(&names->cells, cell);
}

uint64_t names_bytes(const struct names *names)
{
    return pool_bytes(&names->cells) + index_bytes(&names->by_hash);
}
