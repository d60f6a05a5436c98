#include "gate/remote/filter.h"

#include <assert.h>

/* At two places an entry, a full filter still turns away six of ten strangers; one filled to a tenth, nineteen of twenty. */
#define PLACES_PER_ENTRY UINT64_C(2)

static _Atomic uint8_t *place_of(const struct filter *filter, uint32_t hash)
{
    uint64_t place = (hash * filter->places_count) >> 32;
    return (_Atomic uint8_t *)(void *)filter->places.base + place;
}

enum fault filter_open(struct filter *filter, uint32_t entries_max)
{
    *filter = (struct filter){ .places_count = entries_max * PLACES_PER_ENTRY };
    return region_open(&filter->places, filter->places_count);
}

void filter_close(struct filter *filter)
{
    region_close(&filter->places);
}

/* Relaxed: whoever reads a place has acquired, in some other way, that it was written before. */
void filter_add(struct filter *filter, uint32_t hash)
{
    _Atomic uint8_t *place = place_of(filter, hash);
    uint8_t count = atomic_load_explicit(place, memory_order_relaxed);
    if (count < UINT8_MAX) atomic_store_explicit(place, (uint8_t)(count + 1), memory_order_relaxed);
    filter->entries++;
}

void filter_drop(struct filter *filter, uint32_t hash)
{
    _Atomic uint8_t *place = place_of(filter, hash);
    uint8_t count = atomic_load_explicit(place, memory_order_relaxed);
    assert(count > 0 && filter->entries > 0);
    if (count < UINT8_MAX) atomic_store_explicit(place, (uint8_t)(count - 1), memory_order_relaxed);
    filter->entries--;
}

bool filter_has(const struct filter *filter, uint32_t hash)
{
    return atomic_load_explicit(place_of(filter, hash), memory_order_relaxed) != 0;
}
