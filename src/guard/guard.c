#include "guard/guard.h"

#include "base/log.h"
#include "base/metrics.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>

/* Users and addresses that can be at their limit at once, and accounts that login protection remembers. */
#define RATE_KEYS_MAX (1u << 20)
#define LOGIN_PLACES 65536

static bool address_passes(struct guard *guard, struct guard_visit *visit, uint32_t *retry_s)
{
    (void)guard;
    *retry_s = 0;
    return !blocks_has_address(visit->blocks, visit->client.bytes);
}

static bool user_passes(struct guard *guard, struct guard_visit *visit, uint32_t *retry_s)
{
    (void)guard;
    *retry_s = 0;
    return visit->user.len == 0 || !blocks_has_user(visit->blocks, visit->user);
}

bool guard_is_blocked(const struct guard_visit *visit)
{
    return blocks_has_address(visit->blocks, visit->client.bytes) ||
           (visit->user.len > 0 && blocks_has_user(visit->blocks, visit->user));
}

static bool rate_passes(struct guard *guard, struct guard_visit *visit, uint32_t *retry_s)
{
    const struct allowance_ask ask = {
        .class = visit->class, .user = visit->user, .address = &visit->client, .now_ns = visit->entered_ns
    };
    if (allowance_take(guard->allowance, &ask, &visit->allowance)) return true;
    *retry_s = (uint32_t)((visit->allowance.rate.retry_ms + 999) / 1000);
    return false;
}

static bool shed_passes(struct guard *guard, struct guard_visit *visit, uint32_t *retry_s)
{
    *retry_s = SHED_RETRY_AFTER_S;
    return !shed_refuses(&guard->shed, (enum shed_class)visit->class);
}
_Static_assert((int)SHED_GRAB == (int)RATE_GRAB && (int)SHED_QUERY == (int)RATE_QUERY &&
                   (int)SHED_LOGIN == (int)RATE_LOGIN && (int)SHED_REGISTER == (int)RATE_REGISTER &&
                   (int)SHED_WRITE == (int)RATE_WRITE,
               "one class of routes for all checks");

static bool breaker_passes(struct guard *guard, struct guard_visit *visit, uint32_t *retry_s)
{
    return breaker_enter(&guard->breakers[visit->class], visit->entered_ns / 1000000, &visit->pass, retry_s);
}

/* The order is part of the API: a buyer sees only the first that refuses. */
static const struct {
    const char *name;
    enum problem problem;
    bool (*passes)(struct guard *guard, struct guard_visit *visit, uint32_t *retry_s);
} checks[] = {
    { "blocked_address", PROBLEM_BLOCKED, address_passes },
    { "blocked_user", PROBLEM_BLOCKED, user_passes },
    { "rate", PROBLEM_RATE_LIMITED, rate_passes },
    { "shed", PROBLEM_BUSY, shed_passes },
    { "breaker", PROBLEM_BUSY, breaker_passes },
};
#define CHECKS (sizeof checks / sizeof *checks)

const char *guard_check_name(uint32_t n)
{
    return n < CHECKS ? checks[n].name : NULL;
}

enum problem guard_enter(struct guard *guard, struct guard_visit *visit, uint32_t *retry_s)
{
    visit->inside = false;
    visit->allowance.limited = false;
    for (uint32_t i = 0; i < CHECKS; i++) {
        if (checks[i].passes(guard, visit, retry_s)) continue;
        metrics_add_labelled(METRIC_GUARD_REFUSED, i, 1);
        log_debug("guard", "%s refused a %s", checks[i].name, rate_class_name(visit->class));
        return checks[i].problem;
    }
    *retry_s = 0;
    visit->inside = true;
    return PROBLEM_NONE;
}

void guard_leave(struct guard *guard, struct guard_visit *visit, int status, uint64_t now_ns)
{
    if (!visit->inside) return;
    visit->inside = false;
    /* 503 and 504 are refusals, of the line, of admit_max or of a full queue: true answers. Only their slowness is judged.
     */
    enum breaker_outcome outcome = status == 0 ? BREAKER_UNKNOWN : status == 500 ? BREAKER_FAILED : BREAKER_GOOD;
    uint32_t took_ms = (uint32_t)((now_ns - visit->entered_ns) / 1000000);
    breaker_leave(&guard->breakers[visit->class], &visit->pass, outcome, took_ms, now_ns / 1000000);
}

static const struct allowance_row *row_named(struct slice name)
{
    for (size_t i = 0; i < ALLOWANCE_ROWS; i++) {
        if (slice_is(name, allowance_rows[i].name)) return &allowance_rows[i];
    }
    return NULL;
}

static struct slice trimmed(struct slice text)
{
    while (text.len > 0 && text.data[0] == ' ') text = (struct slice){ text.data + 1, text.len - 1 };
    while (text.len > 0 && text.data[text.len - 1] == ' ') text.len--;
    return text;
}

/* One "name=value". */
static bool limit_read(struct allowance_terms *terms, struct slice entry, char mistake[256])
{
    const char *equals = memchr(entry.data, '=', entry.len);
    struct slice name = equals == NULL ? entry : trimmed((struct slice){ entry.data, (size_t)(equals - entry.data) });
    const struct allowance_row *row = row_named(name);
    uint64_t value = 0;
    if (row == NULL) {
        snprintf(mistake, 256, "limits has no \"%.*s\"; GET /v1/limits lists the names",
                 (int)(name.len < 64 ? name.len : 64), name.data);
        return false;
    }
    struct slice number = { "", 0 };
    if (equals != NULL) number = trimmed((struct slice){ equals + 1, entry.len - (size_t)(equals + 1 - entry.data) });
    if (!text_to_u64(number, &value) || value > INT64_MAX) {
        snprintf(mistake, 256, "limits: %s must be a whole number", row->name);
        return false;
    }
    allowance_terms_set(terms, row, (int64_t)value);
    return true;
}

static bool limits_read(struct allowance_terms *terms, struct slice text, char mistake[256])
{
    allowance_terms_default(terms);
    while (text.len > 0) {
        const char *comma = memchr(text.data, ',', text.len);
        size_t len = comma == NULL ? text.len : (size_t)(comma - text.data);
        struct slice entry = trimmed((struct slice){ text.data, len });
        if (entry.len > 0 && !limit_read(terms, entry, mistake)) return false;
        text = comma == NULL ? (struct slice){ "", 0 } : (struct slice){ comma + 1, text.len - len - 1 };
    }
    return allowance_terms_valid(terms, mistake);
}

void guard_change_limits(struct guard *guard, const struct allowance_terms *terms)
{
    allowance_change(guard->allowance, terms);
    peers_set_max(guard->peers, (uint32_t)terms->connections_per_ip);
}

bool guard_set_limits(struct guard *guard, struct slice limits, char mistake[256])
{
    struct allowance_terms terms;
    if (!limits_read(&terms, limits, mistake)) return false;
    guard_change_limits(guard, &terms);
    return true;
}

enum fault guard_open(struct guard **out, const struct guard_options *options, char mistake[256])
{
    struct allowance_terms terms;
    struct guard *guard = calloc(1, sizeof *guard);
    mistake[0] = '\0';
    if (guard == NULL) return FAULT_MEMORY;
    bool valid = networks_parse(&guard->proxies, options->proxies, mistake) && limits_read(&terms, options->limits, mistake);
    enum fault fault = valid ? FAULT_NONE : FAULT_CONFIG;
    if (fault == FAULT_NONE) fault = allowance_open(&guard->allowance, RATE_KEYS_MAX, &terms);
    if (fault == FAULT_NONE) fault = logins_open(&guard->logins, LOGIN_PLACES);
    if (fault == FAULT_NONE) fault = peers_open(&guard->peers, options->connections_max, (uint32_t)terms.connections_per_ip);
    if (fault != FAULT_NONE) {
        guard_close(guard);
        return fault;
    }
    for (enum rate_class class = 0; class < RATE_CLASSES; class ++)
        breaker_init(&guard->breakers[class], rate_class_name(class), &options->breaker);
    struct shed_numbers numbers = SHED_NUMBERS_DEFAULT;
    numbers.memory_bytes_max = options->memory_bytes_max;
    shed_init(&guard->shed, &numbers);
    *out = guard;
    return FAULT_NONE;
}

void guard_close(struct guard *guard)
{
    if (guard == NULL) return;
    if (guard->peers != NULL) peers_close(guard->peers);
    if (guard->logins != NULL) logins_close(guard->logins);
    if (guard->allowance != NULL) allowance_close(guard->allowance);
    free(guard);
}
