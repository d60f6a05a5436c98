#include "guard/admission.h"

#include "base/region.h"

#include <stdatomic.h>
#include <stdlib.h>

/* The low half of the sale's id and its count, in one word: one of another sale is seen and changed in one step. Ids in a
 * slot only rise, and never by 2^32 in the life of a server. */
struct admission_counts {
    struct region words; /* _Atomic uint64_t [SALES_OPEN_MAX] */
};

_Static_assert(ADMIT_MAX < UINT32_MAX, "a count fits its half");

static _Atomic uint64_t *word_at(const struct admission_counts *counts, uint64_t sale_id)
{
    return (_Atomic uint64_t *)(void *)counts->words.base + sale_id % SALES_OPEN_MAX;
}

static uint64_t word_of(uint64_t sale_id, uint32_t count)
{
    return (uint64_t)(uint32_t)sale_id << 32 | count;
}

static uint32_t word_id(uint64_t word)
{
    return (uint32_t)(word >> 32);
}

enum fault admission_open(struct admission_counts **out)
{
    *out = NULL;
    struct admission_counts *counts = calloc(1, sizeof *counts);
    if (counts == NULL) return FAULT_MEMORY;
    enum fault fault = region_open(&counts->words, SALES_OPEN_MAX * sizeof(uint64_t));
    if (fault != FAULT_NONE) {
        free(counts);
        return fault;
    }
    *out = counts;
    return FAULT_NONE;
}

void admission_close(struct admission_counts *counts)
{
    if (counts == NULL) return;
    region_close(&counts->words);
    free(counts);
}

/* Before the sale runs the crowd would use up what is there for its running, and after it is sold out what more stock would
 * bring. */
static bool may_take(const struct board_notice *notice, const struct grab *grab, uint64_t now_ms)
{
    if (notice->closed || notice->paused || notice->available == 0) return false;
    if (now_ms < notice->opens_ms || (notice->closes_ms != 0 && now_ms >= notice->closes_ms)) return false;
    bool needs_token = notice->admission == ADMISSION_TOKEN || (notice->admission == ADMISSION_LINE && grab->token_brought);
    return !needs_token || grab->token_nonce != 0;
}

bool admission_enter(struct admission_counts *counts, const struct board_notice *notice, const struct grab *grab)
{
    if (notice->admit_max == 0) return true;
    if (!may_take(notice, grab, grab->now_ms)) return false;

    _Atomic uint64_t *word = word_at(counts, notice->sale_id);
    uint64_t is = atomic_load_explicit(word, memory_order_relaxed);
    uint32_t count;
    do {
        if (is != 0 && word_id(is) > (uint32_t)notice->sale_id) return false; /* its slot has another sale by now */
        bool ours = is != 0 && word_id(is) == (uint32_t)notice->sale_id;
        count = ours ? (uint32_t)is : notice->orders_made < ADMIT_MAX ? (uint32_t)notice->orders_made : ADMIT_MAX;
        if (count >= notice->admit_max) return false;
    } while (!atomic_compare_exchange_weak_explicit(word, &is, word_of(notice->sale_id, count + 1), memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}

void admission_settle(struct admission_counts *counts, uint64_t sale_id, enum verdict verdict)
{
    switch (verdict) {
    case VERDICT_WON:
    case VERDICT_SOLD_OUT:
    case VERDICT_UNKNOWN:
        return;
    default:
        break;
    }
    _Atomic uint64_t *word = word_at(counts, sale_id);
    uint64_t is = atomic_load_explicit(word, memory_order_relaxed);
    do {
        if (word_id(is) != (uint32_t)sale_id || (uint32_t)is == 0) return;
    } while (!atomic_compare_exchange_weak_explicit(word, &is, is - 1, memory_order_relaxed, memory_order_relaxed));
}
