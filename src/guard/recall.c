#include "guard/recall.h"

#include "base/random.h"
#include "base/siphash.h"

#include <assert.h>
#include <string.h>

#define NS_PER_MS UINT64_C(1000000)

void recall_init(struct recall *recall)
{
    memset(recall, 0, sizeof(*recall));
    random_bytes(recall->secret, sizeof(recall->secret));
}

/* Classes are counted apart, so a login has a place for each. */
static uint64_t hash_of(const struct recall *recall, struct slice login, enum rate_class class)
{
    return siphash(recall->secret, login.data, login.len) + (uint64_t) class;
}

void recall_put(struct recall *recall, struct slice login, uint64_t version, const struct allowance_ask *ask,
                const struct allowance_answer *answer)
{
    assert(!answer->rate.pass && answer->rate.retry_ms > 0 && ask->user.len <= BUYER_BYTES_MAX);
    uint64_t hash = hash_of(recall, login, ask->class);
    struct recall_refusal *place = &recall->places[hash & (RECALL_PLACES - 1)];
    /* The wait was rounded up: who comes a moment before its end may already pass. */
    place->hash = hash;
    place->until_ns = ask->now_ns + (answer->rate.retry_ms - 1) * NS_PER_MS;
    place->full_ns = ask->now_ns + answer->rate.reset_ms * NS_PER_MS;
    place->version = version;
    place->class = ask->class;
    place->limit = answer->limit;
    place->user_len = (uint32_t)ask->user.len;
    memcpy(place->user, ask->user.data, ask->user.len);
    if (place->until_ns > recall->until_ns) recall->until_ns = place->until_ns;
}

bool recall_find(const struct recall *recall, struct slice login, uint64_t version, struct allowance_ask *ask,
                 struct allowance_answer *out)
{
    if (ask->now_ns >= recall->until_ns) return false;
    uint64_t hash = hash_of(recall, login, ask->class);
    const struct recall_refusal *place = &recall->places[hash & (RECALL_PLACES - 1)];
    if (place->hash != hash || place->class != ask->class || place->version != version || place->until_ns <= ask->now_ns)
        return false;
    uint64_t retry_ns = place->until_ns + NS_PER_MS - ask->now_ns;
    ask->user = (struct slice){ place->user, place->user_len };
    *out = (struct allowance_answer){ .limited = true,
                                      .limit = place->limit,
                                      .rate = { .retry_ms = (retry_ns + NS_PER_MS - 1) / NS_PER_MS,
                                                .reset_ms = (place->full_ns - ask->now_ns) / NS_PER_MS } };
    return true;
}
