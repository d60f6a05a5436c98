#include "publisher/streams.h"

#include "base/random.h"

#include <string.h>

void streams_clear(struct streams *streams)
{
    if (streams->count > 0) memset(streams->words, 0, sizeof streams->words);
    streams->count = 0;
    random_bytes(streams->key, sizeof streams->key);
}

static uint32_t bit_of(const struct streams *streams, const struct notice *notice)
{
    const uint64_t stream[2] = { notice->order_no, notice->order_no != 0 ? 0 : notice->sale_id };
    return (uint32_t)(siphash(streams->key, stream, sizeof stream) % STREAMS_BITS);
}

bool streams_has(const struct streams *streams, const struct notice *notice)
{
    uint32_t bit = bit_of(streams, notice);
    return (streams->words[bit / 64] >> bit % 64 & 1) != 0;
}

bool streams_add(struct streams *streams, const struct notice *notice)
{
    uint32_t bit = bit_of(streams, notice);
    uint64_t *word = &streams->words[bit / 64], mask = UINT64_C(1) << bit % 64;
    if ((*word & mask) != 0) return false;
    *word |= mask;
    streams->count++;
    return true;
}
