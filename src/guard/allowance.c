#include "guard/allowance.h"

#include "base/log.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_S UINT64_C(1000000000)

/* clang-format off */
#define AT(scope, class, field) offsetof(struct allowance_terms, rates[RATE_##scope][RATE_##class].field)
#define RATE(name, scope, class, per_s_default, burst_default, what)                                                        \
    { name "_per_s", AT(scope, class, per_s), 0, RATE_PER_S_MAX, per_s_default, what " a second; 0 is no limit." },         \
    { name "_burst", AT(scope, class, burst), 1, RATE_BURST_MAX, burst_default, what " that may come at once." }

const struct allowance_row allowance_rows[ALLOWANCE_ROWS] = {
    RATE("global_grab",  GLOBAL, GRAB,  0, 10000, "Grabs of everyone together"),
    RATE("global_query", GLOBAL, QUERY, 0, 10000, "Reads of everyone together"),
    RATE("global_login", GLOBAL, LOGIN, 0, 1000,  "Logins of everyone together"),
    RATE("global_register", GLOBAL, REGISTER, 0, 1000, "Registrations of everyone together"),
    RATE("global_write", GLOBAL, WRITE, 0, 10000, "Changes by everyone together"),
    RATE("user_grab",  USER, GRAB,  1000, 10000, "Grabs of one user"),
    RATE("user_query", USER, QUERY, 20000, 50000, "Reads of one user"),
    RATE("user_login", USER, LOGIN, 50, 500, "Logins by one user who is logged in"),
    RATE("user_register", USER, REGISTER, 50, 500, "Registrations by one user who is logged in"),
    RATE("user_write", USER, WRITE, 5000, 10000, "Changes by one user"),
    RATE("ip_grab",  IP, GRAB,  50000, 100000, "Grabs from one address"),
    RATE("ip_query", IP, QUERY, 50000, 100000, "Reads from one address"),
    RATE("ip_login", IP, LOGIN, 1000,  5000, "Logins from one address"),
    RATE("ip_register", IP, REGISTER, 10, 500, "Registrations from one address"),
    RATE("ip_write", IP, WRITE, 20000, 40000, "Changes from one address"),
    { "connections_per_ip", offsetof(struct allowance_terms, connections_per_ip), 0, CONNECTIONS_PER_IP_MAX, 20000,
      "Connections from one address at once; 0 is no limit." },
};
/* clang-format on */

static const char *const class_names[RATE_CLASSES] = { "grab", "query", "login", "register", "write" };
static const char *const scope_names[RATE_SCOPES] = { "global", "user", "ip" };

const char *rate_class_name(enum rate_class class)
{
    assert((unsigned)class < RATE_CLASSES);
    return class_names[class];
}

const char *rate_scope_name(enum rate_scope scope)
{
    assert((unsigned)scope < RATE_SCOPES);
    return scope_names[scope];
}

int64_t allowance_terms_get(const struct allowance_terms *terms, const struct allowance_row *row)
{
    int64_t value;
    memcpy(&value, (const char *)terms + row->offset, sizeof(value));
    return value;
}

void allowance_terms_set(struct allowance_terms *terms, const struct allowance_row *row, int64_t value)
{
    memcpy((char *)terms + row->offset, &value, sizeof(value));
}

void allowance_terms_default(struct allowance_terms *terms)
{
    for (size_t i = 0; i < ALLOWANCE_ROWS; i++) allowance_terms_set(terms, &allowance_rows[i], allowance_rows[i].fallback);
}

bool allowance_terms_valid(const struct allowance_terms *terms, char mistake[ALLOWANCE_MISTAKE_BYTES])
{
    for (size_t i = 0; i < ALLOWANCE_ROWS; i++) {
        const struct allowance_row *row = &allowance_rows[i];
        int64_t value = allowance_terms_get(terms, row);
        if (value >= row->min && value <= row->max) continue;
        snprintf(mistake, ALLOWANCE_MISTAKE_BYTES, "%s is a whole number from %" PRId64 "%s to %" PRId64 ".", row->name,
                 row->min, row->min == 0 ? ", which is no limit," : "", row->max);
        return false;
    }
    return true;
}

void allowance_fields(struct json_field out[ALLOWANCE_ROWS])
{
    for (size_t i = 0; i < ALLOWANCE_ROWS; i++) {
        const struct allowance_row *row = &allowance_rows[i];
        out[i] = (struct json_field){
            .name = row->name, .kind = JSON_INTEGER, .min = row->min, .max = row->max, .offset = row->offset
        };
    }
}

void allowance_render(struct json_out *out, const struct allowance_terms *terms)
{
    json_object(out);
    for (size_t i = 0; i < ALLOWANCE_ROWS; i++) {
        json_key(out, allowance_rows[i].name);
        json_i64(out, allowance_terms_get(terms, &allowance_rows[i]));
    }
    json_object_end(out);
}

/* A limit in force is one word, interval and burst, so that it is read whole without a lock. */
struct allowance {
    _Atomic uint64_t limits[RATE_SCOPES][RATE_CLASSES];
    struct rates *rates;
    pthread_mutex_t lock; /* of terms */
    struct allowance_terms terms;
};

_Static_assert(RATE_PER_S_MAX <= NS_PER_S, "an interval is never 0");
_Static_assert(NS_PER_S <= UINT32_MAX && RATE_BURST_MAX <= UINT32_MAX, "interval and burst fit one word");
_Static_assert(NS_PER_S < RATE_AHEAD_NS_MAX / RATE_BURST_MAX, "the slowest rate with the largest burst can be counted");

static uint64_t limit_pack(const struct rate_terms *terms)
{
    struct rate_limit limit = rate_limit_of((uint64_t)terms->per_s, NS_PER_S, (uint32_t)terms->burst);
    return limit.interval_ns << 32 | limit.burst;
}

static void limits_publish(struct allowance *allowance, const struct allowance_terms *terms)
{
    for (int scope = 0; scope < RATE_SCOPES; scope++) {
        for (int class = 0; class < RATE_CLASSES; class ++)
            atomic_store_explicit(&allowance->limits[scope][class], limit_pack(&terms->rates[scope][class]),
                                  memory_order_relaxed);
    }
    allowance->terms = *terms;
}

enum fault allowance_open(struct allowance **out, uint32_t keys_max, const struct allowance_terms *terms)
{
    char mistake[ALLOWANCE_MISTAKE_BYTES];
    assert(allowance_terms_valid(terms, mistake));
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

void allowance_change(struct allowance *allowance, const struct allowance_terms *terms)
{
    char mistake[ALLOWANCE_MISTAKE_BYTES];
    assert(allowance_terms_valid(terms, mistake));
    pthread_mutex_lock(&allowance->lock);
    limits_publish(allowance, terms);
    pthread_mutex_unlock(&allowance->lock);
}

void allowance_read(struct allowance *allowance, struct allowance_terms *out)
{
    pthread_mutex_lock(&allowance->lock);
    *out = allowance->terms;
    pthread_mutex_unlock(&allowance->lock);
}

static uint64_t scope_key(const struct allowance *allowance, enum rate_scope scope, const struct allowance_ask *ask)
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
    return rates_key(allowance->rates, kind, SLICE(""));
}

/* The narrowest first. */
static const enum rate_scope scope_order[RATE_SCOPES] = { RATE_USER, RATE_IP, RATE_GLOBAL };

bool allowance_take(struct allowance *allowance, const struct allowance_ask *ask, struct allowance_answer *out)
{
    assert((unsigned)ask->class < RATE_CLASSES);
    struct {
        uint64_t key;
        struct rate_limit limit;
    } taken[RATE_SCOPES];
    int count = 0;

    *out = (struct allowance_answer){ .rate = { .pass = true, .remaining = UINT32_MAX } };
    for (int i = 0; i < RATE_SCOPES; i++) {
        enum rate_scope scope = scope_order[i];
        if ((scope == RATE_USER && ask->user.len == 0) || (scope == RATE_IP && ask->address == NULL)) continue;
        uint64_t packed = atomic_load_explicit(&allowance->limits[scope][ask->class], memory_order_relaxed);
        struct rate_limit limit = { .interval_ns = packed >> 32, .burst = (uint32_t)packed };
        if (limit.interval_ns == 0) continue;

        uint64_t key = scope_key(allowance, scope, ask);
        struct rate_answer answer;
        bool pass = rates_take(allowance->rates, key, &limit, ask->now_ns, &answer);
        if (!out->limited || !pass || answer.remaining < out->rate.remaining) {
            *out = (struct allowance_answer){ .limited = true, .scope = scope, .limit = limit, .rate = answer };
        }
        if (!pass) {
            while (count-- > 0) rates_give_back(allowance->rates, taken[count].key, &taken[count].limit);
            return false;
        }
        taken[count].key = key;
        taken[count].limit = limit;
        count++;
    }
    return true;
}
