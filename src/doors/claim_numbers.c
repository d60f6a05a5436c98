#include "doors/claim_numbers.h"

/* A word has the last number given, and above it whose it is: ids at one slot differ by multiples of SALES_OPEN_MAX. One
 * word, so that a slot changes hands in one step. */
#define NUMBER_BITS 44
#define NUMBER_MASK ((UINT64_C(1) << NUMBER_BITS) - 1)

static uint64_t word_of(uint64_t sale_id, uint64_t number)
{
    return sale_id / SALES_OPEN_MAX << NUMBER_BITS | (number & NUMBER_MASK);
}

uint64_t claim_numbers_next(struct claim_numbers *numbers, uint64_t sale_id, uint64_t winners_max)
{
    _Atomic uint64_t *word = &numbers->words[sale_id % SALES_OPEN_MAX];
    uint64_t is = atomic_load_explicit(word, memory_order_relaxed);
    uint64_t next;
    do {
        bool ours = is != 0 && is >> NUMBER_BITS == word_of(sale_id, 0) >> NUMBER_BITS;
        uint64_t last = ours ? is & NUMBER_MASK : 0;
        if (winners_max == 0 && !ours) return 0;
        next = (last > winners_max ? last : winners_max) + 1;
    } while (!atomic_compare_exchange_weak_explicit(word, &is, word_of(sale_id, next), memory_order_relaxed,
                                                    memory_order_relaxed));
    return next;
}
