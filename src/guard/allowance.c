#include "guard/allowance.h"

#include "base/log.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_S UINT64_C(1000000000)

void allowance_fields(struct json_field out[LIMIT_ROWS])
{
    for (size_t i = 0; i < LIMIT_ROWS; i++) {
        const struct limit_row *row = &limit_rows[i];
        out[i] = (struct json_field){
            .name = row->name, .kind = JSON_INTEGER, .min = row->min, .max = row->max, .offset = row->offset
        };
    }
}

void allowance_render(struct json_out *out, const struct limit_terms *terms)
{
    json_object(out);
    for (size_t i = 0; i < LIMIT_ROWS; i++) {
        json_key(out, limit_rows[i].name);
        json_i64(out, limit_terms_get(terms, &limit_rows[i]));
    }
    json_object_end(out);
}

/* A limit in force is one word, interval and burst, so that it is read whole without a lock. */
struct allowance {
    _Atomic uint64_t version;
    _Atomic uint64_t limits[RATE_SCOPES][RATE_CLASSES];
    struct rates *rates;
    uint64_t keys_global[RATE_CLASSES]; /* of the buckets of everyone */
    pthread_mutex_t lock;               /* of terms */
    struct limit_terms terms;
};

_Static_assert(RATE_PER_S_MAX <= NS_PER_S, "an interval is never 0");
_Static_assert(NS_PER_S <= UINT32_MAX && RATE_BURST_MAX <= UINT32_MAX, "interval and burst fit one word");
_Static_assert(NS_PER_S < RATE_AHEAD_NS_MAX / RATE_BURST_MAX, "the slowest rate with the largest burst can be counted");

static uint64_t limit_pack(const struct rate_terms *terms)
{
    struct rate_limit limit = rate_limit_of((uint64_t)terms->per_s, NS_PER_S, (uint32_t)terms->burst);
    return limit.interval_ns << 32 | limit.burst;
}

static void limits_publish(struct allowance *allowance, const struct limit_terms *terms)
{
    for (int scope = 0; scope < RATE_SCOPES; scope++) {
        for (int class = 0; class < RATE_CLASSES; class ++)
            atomic_store_explicit(&allowance->limits[scope][class], limit_pack(&terms->rates[scope][class]),
                                  memory_order_relaxed);
    }
    allowance->terms = *terms;
    atomic_fetch_add_explicit(&allowance->version, 1, memory_order_release);
}

enum fault allowance_open(struct allowance **out, uint32_t keys_max, const struct limit_terms *terms)
{
    char mistake[LIMIT_MISTAKE_BYTES];
    assert(limit_terms_valid(terms, mistake));
    struct allowance *allowance = calloc(1, sizeof(*allowance));
    if (allowance == NULL) {
        log_error("allowance", "no memory for the limits");
        return FAULT_MEMORY;
    }
    enum fault fault = rates_open(&allowance->rates, keys_max);
    if (fault != FAULT_NONE) {
        free(allowance);
        return fault;
    }
    for (uint32_t class = 0; class < RATE_CLASSES; class ++)
        allowance->keys_global[class] = rates_key(allowance->rates, RATE_GLOBAL * RATE_CLASSES + class, SLICE(""));
    pthread_mutex_init(&allowance->lock, NULL);
    limits_publish(allowance, terms);
    *out = allowance;
    return FAULT_NONE;
}

void allowance_close(struct allowance *allowance)
{
    if (allowance == NULL) return;
    pthread_mutex_destroy(&allowance->lock);
    rates_close(allowance->rates);
    free(allowance);
}

void allowance_change(struct allowance *allowance, const struct limit_terms *terms)
{
    char mistake[LIMIT_MISTAKE_BYTES];
    assert(limit_terms_valid(terms, mistake));
    pthread_mutex_lock(&allowance->lock);
    limits_publish(allowance, terms);
    pthread_mutex_unlock(&allowance->lock);
}

void allowance_read(struct allowance *allowance, struct limit_terms *out)
{
    pthread_mutex_lock(&allowance->lock);
    *out = allowance->terms;
    pthread_mutex_unlock(&allowance->lock);
}

uint64_t allowance_version(const struct allowance *allowance)
{
    return atomic_load_explicit(&allowance->version, memory_order_acquire);
}

static uint64_t key_make(const struct allowance *allowance, enum rate_scope scope, const struct allowance_ask *ask)
{
    uint32_t kind = (uint32_t)scope * RATE_CLASSES + (uint32_t)ask->class;
    switch (scope) {
    case RATE_USER:
        return rates_key(allowance->rates, kind, ask->user);
    case RATE_IP:
        return rates_key_address(allowance->rates, kind, ask->address);
    case RATE_GLOBAL:
    case RATE_SCOPES:
        break;
    }
    assert(scope == RATE_GLOBAL);
    return allowance->keys_global[ask->class];
}

/* Hashed once for each request, however often it is asked for. */
static uint64_t scope_key(const struct allowance *allowance, enum rate_scope scope, struct allowance_ask *ask)
{
    if (ask->keys[scope] == 0) ask->keys[scope] = key_make(allowance, scope, ask);
    return ask->keys[scope];
}

/* The limit that the scope has for this request. False: none. */
static bool scope_limit(const struct allowance *allowance, enum rate_scope scope, const struct allowance_ask *ask,
                        struct rate_limit *out)
{
    assert((unsigned)ask->class < RATE_CLASSES && (unsigned)scope < RATE_SCOPES);
    if ((scope == RATE_USER && ask->user.len == 0) || (scope == RATE_IP && ask->address == NULL)) return false;
    uint64_t packed = atomic_load_explicit(&allowance->limits[scope][ask->class], memory_order_relaxed);
    *out = (struct rate_limit){ .interval_ns = packed >> 32, .burst = (uint32_t)packed };
    return out->interval_ns != 0;
}

void allowance_expect(struct allowance *allowance, enum rate_scope scope, struct allowance_ask *ask)
{
    struct rate_limit limit;
    if (scope_limit(allowance, scope, ask, &limit)) rates_expect(allowance->rates, scope_key(allowance, scope, ask));
}

void allowance_give_back(struct allowance *allowance, struct allowance_ask *ask)
{
    while (ask->taken_count > 0) {
        ask->taken_count--;
        rates_give_back(allowance->rates, ask->taken[ask->taken_count].key, &ask->taken[ask->taken_count].limit);
    }
}

bool allowance_take(struct allowance *allowance, enum rate_scope scope, struct allowance_ask *ask,
                    struct allowance_answer *out)
{
    if (ask->taken_count == 0) out->limited = false;
    struct rate_limit limit;
    if (!scope_limit(allowance, scope, ask, &limit)) return true;

    uint64_t key = scope_key(allowance, scope, ask);
    struct rate_answer answer;
    bool pass = rates_take(allowance->rates, key, &limit, ask->now_ns, &answer);
    if (!out->limited || !pass || answer.remaining < out->rate.remaining)
        *out = (struct allowance_answer){ .limited = true, .limit = limit, .rate = answer };
    if (!pass) {
        allowance_give_back(allowance, ask);
        return false;
    }
    assert(ask->taken_count < RATE_SCOPES);
    ask->taken[ask->taken_count].key = key;
    ask->taken[ask->taken_count].limit = limit;
    ask->taken_count++;
    return true;
}
