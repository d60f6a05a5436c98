#include "guard/tally.h"

#include "base/log.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

#define WAYS 8
#define SETS 512 /* a power of two */
#define SETS_OF_GROUP (SETS / TALLY_GROUPS)

/* A place is one word, so that a count is never added to another key's: the high bits of the key, the kind, and the count,
 * to which COUNT_ZERO is added. 0: nobody has it. Two keys of one set that differ only between SET and TAG_SHIFT would be
 * counted as one; there are some thousands here at most, of 2^49. */
#define COUNT_BITS 20
#define COUNT_ZERO (UINT64_C(1) << (COUNT_BITS - 1))
#define COUNT_MASK ((UINT64_C(1) << COUNT_BITS) - 1)
#define KIND_BITS 4
#define TAG_SHIFT (COUNT_BITS + KIND_BITS)

_Static_assert(TALLY_KINDS == 1 << KIND_BITS && SETS < 1 << TAG_SHIFT, "key, kind and count fit one word");

struct place {
    _Atomic uint64_t word;
    _Atomic uint64_t key; /* whole; written after the word, so it may still be that of the one before */
};

struct tally {
    struct place places[SETS][WAYS];
    uint64_t emptied_ns[SETS]; /* of whoever empties, as all below */
    uint32_t next[TALLY_GROUPS];
};

enum fault tally_open(struct tally **out, uint64_t now_ns)
{
    struct tally *tally = calloc(1, sizeof *tally);
    if (tally == NULL) {
        log_error("tally", "no memory for limits that are shared");
        return FAULT_MEMORY;
    }
    for (uint32_t set = 0; set < SETS; set++) tally->emptied_ns[set] = now_ns;
    *out = tally;
    return FAULT_NONE;
}

void tally_close(struct tally *tally)
{
    free(tally);
}

/* What a word begins with, never 0. */
static uint64_t id_of(uint64_t key, uint32_t kind)
{
    assert(kind > 0 && kind < TALLY_KINDS);
    return key >> TAG_SHIFT << KIND_BITS | kind;
}

static int32_t word_count(uint64_t word)
{
    return (int32_t)(word & COUNT_MASK) - (int32_t)COUNT_ZERO;
}

/* False: the place is another's. A count that has no room for more stays, which only makes the others know of less. */
static bool place_add(struct place *place, uint64_t id, int n)
{
    uint64_t word = atomic_load_explicit(&place->word, memory_order_relaxed);
    while (word >> COUNT_BITS == id) {
        uint64_t count = word & COUNT_MASK;
        if (n > 0 ? count == COUNT_MASK : count == 0) return true;
        if (atomic_compare_exchange_weak_explicit(&place->word, &word, n > 0 ? word + 1 : word - 1, memory_order_relaxed,
                                                  memory_order_relaxed))
            return true;
    }
    return false;
}

static bool place_take(struct place *place, uint64_t key, uint64_t id, int n)
{
    uint64_t word = 0, count = n > 0 ? COUNT_ZERO + 1 : COUNT_ZERO - 1;
    if (atomic_load_explicit(&place->word, memory_order_relaxed) != 0) return false;
    if (!atomic_compare_exchange_strong_explicit(&place->word, &word, id << COUNT_BITS | count, memory_order_relaxed,
                                                 memory_order_relaxed))
        return place_add(place, id, n); /* another thread was quicker, maybe for the same key */
    atomic_store_explicit(&place->key, key, memory_order_release);
    return true;
}

bool tally_add(struct tally *tally, uint64_t key, uint32_t kind, int n)
{
    struct place *places = tally->places[key % SETS];
    uint64_t id = id_of(key, kind);
    for (int i = 0; i < WAYS; i++) {
        if (place_add(&places[i], id, n)) return true;
    }
    for (int i = 0; i < WAYS; i++) {
        if (place_take(&places[i], key, id, n)) return true;
    }
    return false;
}

/* False: there is nothing, or it is so new that its key is not there yet. */
static bool place_empty(struct place *place, uint32_t set, struct tally_count *out)
{
    uint64_t word = atomic_load_explicit(&place->word, memory_order_relaxed);
    if (word == 0) return false;
    out->key = atomic_load_explicit(&place->key, memory_order_acquire);
    out->kind = (uint32_t)(word >> COUNT_BITS) % TALLY_KINDS;
    if (out->key % SETS != set || id_of(out->key, out->kind) != word >> COUNT_BITS) return false;
    out->count = word_count(atomic_exchange_explicit(&place->word, 0, memory_order_relaxed));
    return out->count != 0;
}

uint32_t tally_empty(struct tally *tally, uint32_t group, uint64_t now_ns, struct tally_count *out, uint32_t max)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < SETS_OF_GROUP && count + WAYS <= max; i++) {
        uint32_t set = group * SETS_OF_GROUP + tally->next[group];
        for (int way = 0; way < WAYS; way++) {
            out[count].since_ns = tally->emptied_ns[set];
            if (place_empty(&tally->places[set][way], set, &out[count])) count++;
        }
        tally->emptied_ns[set] = now_ns;
        tally->next[group] = (tally->next[group] + 1) % SETS_OF_GROUP;
    }
    return count;
}

int32_t tally_count(const struct tally *tally, uint64_t key, uint32_t kind)
{
    int32_t count = 0;
    for (int i = 0; i < WAYS; i++) {
        uint64_t word = atomic_load_explicit(&tally->places[key % SETS][i].word, memory_order_relaxed);
        if (word >> COUNT_BITS == id_of(key, kind)) count += word_count(word);
    }
    return count;
}
