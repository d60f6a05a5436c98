/* names: which names of sales are taken, per seller and for good: also by sales that are closed and forgotten.
 *
 * Only a keyed 64-bit hash of seller and name is kept, 24 bytes a name, so that every sale ever held can stay in
 * memory. That two of four million names share a hash has odds of one in a million; then the second is told its name is
 * taken. */
#ifndef STAMPEDE_ENGINE_NAMES_H
#define STAMPEDE_ENGINE_NAMES_H

#include "base/fault.h"
#include "base/index.h"
#include "base/pool.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

struct names {
    uint8_t hash_key[16];
    struct pool cells;
    struct index by_hash;
};

enum fault names_open(struct names *names, uint32_t names_max, const uint8_t hash_key[16]) MUST_USE;
void names_close(struct names *names);
uint64_t names_hash(const struct names *names, struct slice seller, struct slice name);
uint64_t names_sale(const struct names *names, uint64_t hash); /* the sale that has it, or 0 */
bool names_have_room(const struct names *names);
/* The name is free and there is room. */
void names_put(struct names *names, uint64_t hash, uint64_t sale_id);
void names_drop(struct names *names, uint64_t hash); /* nothing where nobody has it */
uint64_t names_bytes(const struct names *names);     /* of memory touched */

#endif
