#include "guard/allowance.h"

#include "base/clock.h"
#include "base/log.h"
#include "guard/tally.h"

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
    _Atomic uint32_t nodes; /* 1: nothing is shared */
    struct rates *kept;     /* what this node keeps to itself of what it gives; NULL: it shares nothing */
    struct tally *tally;    /* the rest */
    _Atomic uint64_t untold;
    void (*wake)(void *arg); /* NULL: nobody wants to know */
    void *wake_arg;
    _Atomic bool awake;
    uint64_t keys_global[RATE_CLASSES]; /* of the buckets of everyone */
    pthread_mutex_t lock;               /* of terms */
    struct limit_terms terms;
};

_Static_assert(RATE_PER_S_MAX <= NS_PER_S, "an interval is never 0");
_Static_assert(NS_PER_S <= UINT32_MAX && RATE_BURST_MAX <= UINT32_MAX, "interval and burst fit one word");
_Static_assert(NS_PER_S < RATE_AHEAD_NS_MAX / RATE_BURST_MAX, "the slowest rate with the largest burst can be counted");

/* By the owner of a bucket and the class. */
static uint32_t kind_of(enum rate_scope scope, enum rate_class class)
{
    return (uint32_t)scope * RATE_CLASSES + (uint32_t) class;
}
_Static_assert(RATE_GLOBAL == 0 && RATE_SCOPES * RATE_CLASSES <= TALLY_KINDS, "kinds of buckets that are shared are not 0");

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

static void keys_make(struct allowance *allowance)
{
    for (enum rate_class class = 0; class < RATE_CLASSES; class ++)
        allowance->keys_global[class] = rates_key(allowance->rates, kind_of(RATE_GLOBAL, class), SLICE(""));
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
    atomic_store(&allowance->nodes, 1);
    keys_make(allowance);
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
    rates_close(allowance->kept);
    tally_close(allowance->tally);
    free(allowance);
}

enum fault allowance_share(struct allowance *allowance, const uint8_t secret[16])
{
    enum fault fault = rates_open(&allowance->kept, rates_size(allowance->rates));
    if (fault == FAULT_NONE) fault = tally_open(&allowance->tally, mono_ns());
    if (fault != FAULT_NONE) return fault;
    rates_agree(allowance->rates, secret);
    keys_make(allowance);
    return FAULT_NONE;
}

void allowance_set_nodes(struct allowance *allowance, uint32_t nodes)
{
    assert(nodes > 0 && allowance->tally != NULL);
    atomic_store_explicit(&allowance->nodes, nodes, memory_order_relaxed);
}

uint64_t allowance_untold(const struct allowance *allowance)
{
    return atomic_load_explicit(&allowance->untold, memory_order_relaxed);
}

/* How far the fullest bucket under these terms can be ahead. */
static uint64_t ahead_max(const struct limit_terms *terms)
{
    uint64_t most = 0;
    for (int scope = 0; scope < RATE_SCOPES; scope++) {
        for (int class = 0; class < RATE_CLASSES; class ++) {
            const struct rate_terms *rate = &terms->rates[scope][class];
            uint64_t ahead = rate->per_s > 0 ? NS_PER_S / (uint64_t)rate->per_s * (uint64_t)rate->burst : 0;
            if (ahead > most) most = ahead;
        }
    }
    return most;
}

void allowance_change(struct allowance *allowance, const struct limit_terms *terms)
{
    char mistake[LIMIT_MISTAKE_BYTES];
    assert(limit_terms_valid(terms, mistake));
    pthread_mutex_lock(&allowance->lock);
    if (allowance->tally != NULL) rates_relent(allowance->rates, mono_ns() + ahead_max(&allowance->terms));
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
    uint32_t kind = kind_of(scope, ask->class);
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

static struct rate_limit limit_read(const struct allowance *allowance, uint32_t kind)
{
    uint64_t packed = atomic_load_explicit(&allowance->limits[kind / RATE_CLASSES][kind % RATE_CLASSES],
                                           memory_order_relaxed);
    return (struct rate_limit){ .interval_ns = packed >> 32, .burst = (uint32_t)packed };
}

/* The limit that the scope has for this request. False: none. */
static bool scope_limit(const struct allowance *allowance, enum rate_scope scope, const struct allowance_ask *ask,
                        struct rate_limit *out)
{
    assert((unsigned)ask->class < RATE_CLASSES && (unsigned)scope < RATE_SCOPES);
    if ((scope == RATE_USER && ask->user.len == 0) || (scope == RATE_IP && ask->address == NULL)) return false;
    *out = limit_read(allowance, kind_of(scope, ask->class));
    return out->interval_ns != 0;
}

static uint32_t nodes_known(const struct allowance *allowance)
{
    return atomic_load_explicit(&allowance->nodes, memory_order_relaxed);
}

void allowance_expect(struct allowance *allowance, enum rate_scope scope, struct allowance_ask *ask)
{
    struct rate_limit limit;
    if (!scope_limit(allowance, scope, ask, &limit)) return;
    uint64_t key = scope_key(allowance, scope, ask);
    rates_expect(allowance->rates, key);
    if (scope != RATE_GLOBAL && nodes_known(allowance) > 1) rates_expect(allowance->kept, key);
}

/* Of a limit, what each of so many nodes keeps to itself. */
static struct rate_limit limit_kept(const struct rate_limit *limit, uint32_t nodes)
{
    uint32_t parts = ALLOWANCE_PARTS * nodes, burst = limit->burst / parts;
    return (struct rate_limit){ .interval_ns = limit->interval_ns * parts, .burst = burst > 0 ? burst : 1 };
}

static void share_add(struct allowance *allowance, uint64_t key, uint32_t kind, int n)
{
    if (!tally_add(allowance->tally, key, kind, n)) atomic_fetch_add_explicit(&allowance->untold, 1, memory_order_relaxed);
    bool awake = atomic_load_explicit(&allowance->awake, memory_order_relaxed);
    if (!awake && allowance->wake != NULL && !atomic_exchange(&allowance->awake, true)) allowance->wake(allowance->wake_arg);
}

void allowance_on_spent(struct allowance *allowance, void (*wake)(void *arg), void *arg)
{
    allowance->wake = wake;
    allowance->wake_arg = arg;
}

void allowance_rest(struct allowance *allowance)
{
    atomic_store(&allowance->awake, false);
}

/* Notes what was given, to be told unless this node may keep it to itself; true: it may. */
static bool share_note(struct allowance *allowance, uint64_t key, uint32_t kind, const struct allowance_ask *ask)
{
    struct rate_answer answer;
    struct rate_limit limit = limit_read(allowance, kind), kept = limit_kept(&limit, nodes_known(allowance));
    if (rates_take(allowance->kept, key, &kept, ask->now_ns, &answer)) return true;
    share_add(allowance, key, kind, 1);
    return false;
}

void allowance_give_back(struct allowance *allowance, struct allowance_ask *ask)
{
    while (ask->taken_count > 0) {
        ask->taken_count--;
        uint64_t key = ask->taken[ask->taken_count].key;
        uint32_t kind = ask->taken[ask->taken_count].kind;
        const struct rate_limit *limit = &ask->taken[ask->taken_count].limit;
        rates_give_back(allowance->rates, key, limit);
        if (kind == 0) continue;
        struct rate_limit kept = limit_kept(limit, nodes_known(allowance));
        if (ask->taken[ask->taken_count].kept) {
            rates_give_back(allowance->kept, key, &kept);
        } else {
            share_add(allowance, key, kind, -1);
        }
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
    bool shared = scope != RATE_GLOBAL && nodes_known(allowance) > 1;
    uint32_t kind = shared ? kind_of(scope, ask->class) : 0;
    ask->taken[ask->taken_count].key = key;
    ask->taken[ask->taken_count].limit = limit;
    ask->taken[ask->taken_count].kind = (uint8_t)kind;
    ask->taken[ask->taken_count].kept = shared && share_note(allowance, key, kind, ask);
    ask->taken_count++;
    return true;
}

uint32_t allowance_spent(struct allowance *allowance, uint32_t group, uint64_t now_ns, struct allowance_spent *out,
                         uint32_t max)
{
    struct tally_count counts[ALLOWANCE_SPENT_MAX];
    if (max > ALLOWANCE_SPENT_MAX) max = ALLOWANCE_SPENT_MAX;
    uint32_t count = tally_empty(allowance->tally, group, now_ns, counts, max), told = 0;
    uint32_t nodes = nodes_known(allowance);
    for (uint32_t i = 0; i < count; i++) {
        struct rate_limit limit = limit_read(allowance, counts[i].kind);
        if (limit.interval_ns == 0) continue; /* not a limit any more */
        out[told++] = (struct allowance_spent){ .key = counts[i].key,
                                                .kind = counts[i].kind,
                                                .spent_ns = counts[i].count * (int64_t)limit.interval_ns,
                                                .since_ns = counts[i].since_ns,
                                                .owed_max = nodes * limit.interval_ns * limit.burst + NS_PER_S };
    }
    return told;
}

/* What was given since it was told comes upon it. */
void allowance_hear(struct allowance *allowance, const struct allowance_spent *spent, uint64_t full_ns)
{
    int64_t since = tally_count(allowance->tally, spent->key, spent->kind);
    struct rate_limit limit = limit_read(allowance, spent->kind);
    if (since > 0) full_ns += (uint64_t)since * limit.interval_ns;
    rates_raise(allowance->rates, spent->key, full_ns);
}
