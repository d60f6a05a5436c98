#include "guard/rates.h"

#include "base/log.h"
#include "base/random.h"
#include "base/region.h"
#include "base/siphash.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define WAYS 8
#define LOCKS 256 /* a power of two; far more than threads, so that two rarely meet */
#define NS_PER_MS UINT64_C(1000000)
/* A bucket further ahead than its limit allows was filled under another limit: what is owed shrinks to a whole burst of the
 * present one, so that a raised limit counts at once. The slack is for threads whose reading of the clock is older, for whom
 * every full bucket is a little too far ahead. */
#define AHEAD_SLACK_NS (1000 * NS_PER_MS)

/* An unused way and one whose bucket is full are the same: full_ns is not ahead of now. */
struct way {
    uint64_t key;
    uint64_t full_ns;
};

struct set {
    struct way ways[WAYS];
};

struct lock {
    _Alignas(64) pthread_mutex_t mutex;
};

struct rates {
    struct lock locks[LOCKS];
    struct region region;
    struct set *sets;
    uint64_t set_mask;
    uint8_t secret[16];
    _Atomic uint64_t relents_ns; /* until then debts are forgiven; UINT64_MAX: there are none */
};

_Static_assert(sizeof(struct set) == 128, "a set is two lines of memory");

struct rate_limit rate_limit_of(uint64_t takes, uint64_t span_ns, uint32_t burst)
{
    if (takes == 0) return (struct rate_limit){ 0 };
    uint64_t interval_ns = span_ns / takes;
    assert(burst > 0 && interval_ns > 0 && interval_ns < RATE_AHEAD_NS_MAX / burst);
    return (struct rate_limit){ .interval_ns = interval_ns, .burst = burst };
}

enum fault rates_open(struct rates **out, uint32_t keys_max)
{
    assert(keys_max > 0 && keys_max <= UINT32_C(1) << 31);
    uint64_t sets = 1;
    while (sets * WAYS < keys_max) sets *= 2;

    struct rates *rates = aligned_alloc(_Alignof(struct rates), sizeof(*rates));
    if (rates == NULL) {
        log_error("rates", "no memory for the rate limits");
        return FAULT_MEMORY;
    }
    memset(rates, 0, sizeof(*rates));
    if (region_open(&rates->region, sets * sizeof(struct set)) != FAULT_NONE) {
        free(rates);
        return FAULT_MEMORY;
    }
    region_huge(&rates->region);
    rates->sets = (struct set *)(void *)rates->region.base;
    rates->set_mask = sets - 1;
    random_bytes(rates->secret, sizeof(rates->secret));
    atomic_store(&rates->relents_ns, UINT64_MAX);
    for (int i = 0; i < LOCKS; i++) pthread_mutex_init(&rates->locks[i].mutex, NULL);
    *out = rates;
    return FAULT_NONE;
}

void rates_close(struct rates *rates)
{
    if (rates == NULL) return;
    for (int i = 0; i < LOCKS; i++) pthread_mutex_destroy(&rates->locks[i].mutex);
    region_close(&rates->region);
    free(rates);
}

uint32_t rates_size(const struct rates *rates)
{
    return (uint32_t)((rates->set_mask + 1) * WAYS);
}

void rates_agree(struct rates *rates, const uint8_t secret[16])
{
    memcpy(rates->secret, secret, sizeof(rates->secret));
    atomic_store(&rates->relents_ns, 0);
}

void rates_relent(struct rates *rates, uint64_t until_ns)
{
    if (atomic_load(&rates->relents_ns) < until_ns) atomic_store(&rates->relents_ns, until_ns);
}

/* The kind goes into the secret rather than before the name, which therefore needs no copy and no longest length. */
uint64_t rates_key(const struct rates *rates, uint32_t kind, struct slice name)
{
    uint8_t secret[16];
    memcpy(secret, rates->secret, sizeof(secret));
    for (unsigned i = 0; i < sizeof(kind); i++) secret[i] ^= (uint8_t)(kind >> 8 * i);
    return siphash(secret, name.data, name.len);
}

uint64_t rates_key_address(const struct rates *rates, uint32_t kind, const struct address *address)
{
    struct address key = address_rate_key(address);
    return rates_key(rates, kind, (struct slice){ (const char *)key.bytes, sizeof(key.bytes) });
}

/* The way of a key, or else the one to give it. */
static struct way *way_find(struct set *set, uint64_t key)
{
    struct way *nearest = &set->ways[0];
    for (int i = 0; i < WAYS; i++) {
        struct way *way = &set->ways[i];
        if (way->key == key) return way;
        if (way->full_ns < nearest->full_ns) nearest = way;
    }
    return nearest;
}

static uint64_t ms_up(uint64_t ns)
{
    return ns / NS_PER_MS + (ns % NS_PER_MS != 0);
}

/* Under the lock of the set. */
static void set_take(struct rates *rates, uint64_t key, const struct rate_limit *limit, uint64_t now_ns,
                     struct rate_answer *out)
{
    struct way *way = way_find(&rates->sets[key & rates->set_mask], key);
    uint64_t ahead_max = limit->interval_ns * limit->burst;
    uint64_t full_ns = way->key == key && way->full_ns > now_ns ? way->full_ns : now_ns;
    if (full_ns - now_ns > ahead_max + AHEAD_SLACK_NS &&
        now_ns < atomic_load_explicit(&rates->relents_ns, memory_order_relaxed)) {
        full_ns = now_ns + ahead_max;
        way->full_ns = full_ns;
    }

    uint64_t ahead = full_ns - now_ns;
    out->pass = ahead + limit->interval_ns <= ahead_max;
    if (out->pass) {
        ahead += limit->interval_ns;
        *way = (struct way){ .key = key, .full_ns = now_ns + ahead };
        out->retry_ms = 0;
        out->remaining = (uint32_t)((ahead_max - ahead) / limit->interval_ns);
    } else {
        out->retry_ms = ms_up(ahead + limit->interval_ns - ahead_max);
        out->remaining = 0;
    }
    out->reset_ms = ms_up(ahead);
}

static pthread_mutex_t *lock_of(struct rates *rates, uint64_t key)
{
    return &rates->locks[key & rates->set_mask & (LOCKS - 1)].mutex;
}

void rates_expect(struct rates *rates, uint64_t key)
{
    const struct set *set = &rates->sets[key & rates->set_mask];
    __builtin_prefetch(lock_of(rates, key), 1);
    __builtin_prefetch(&set->ways[0], 1);
    __builtin_prefetch(&set->ways[WAYS / 2], 1);
}

bool rates_take(struct rates *rates, uint64_t key, const struct rate_limit *limit, uint64_t now_ns, struct rate_answer *out)
{
    if (limit->interval_ns == 0) {
        *out = (struct rate_answer){ .pass = true, .remaining = UINT32_MAX };
        return true;
    }
    assert(limit->burst > 0);
    pthread_mutex_t *lock = lock_of(rates, key);
    pthread_mutex_lock(lock);
    set_take(rates, key, limit, now_ns, out);
    pthread_mutex_unlock(lock);
    return out->pass;
}

/* A bucket given up for another key meanwhile has nothing to give back to. */
void rates_give_back(struct rates *rates, uint64_t key, const struct rate_limit *limit)
{
    if (limit->interval_ns == 0) return;
    pthread_mutex_t *lock = lock_of(rates, key);
    pthread_mutex_lock(lock);
    struct way *way = way_find(&rates->sets[key & rates->set_mask], key);
    if (way->key == key && way->full_ns >= limit->interval_ns) way->full_ns -= limit->interval_ns;
    pthread_mutex_unlock(lock);
}

void rates_raise(struct rates *rates, uint64_t key, uint64_t full_ns)
{
    pthread_mutex_t *lock = lock_of(rates, key);
    pthread_mutex_lock(lock);
    struct way *way = way_find(&rates->sets[key & rates->set_mask], key);
    if (way->full_ns < full_ns) *way = (struct way){ .key = key, .full_ns = full_ns };
    pthread_mutex_unlock(lock);
}
