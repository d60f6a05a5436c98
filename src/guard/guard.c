#include "guard/guard.h"

#include "base/log.h"
#include "base/metrics.h"
#include "guard/exchange.h"

#include <stdlib.h>

/* Users and addresses that can be at their limit at once, and accounts that login protection remembers. */
#define RATE_KEYS_MAX (1u << 20)
#define LOGIN_PLACES 65536

/* A check that refuses a crowd has one line in the log for so long, unless every one is asked for. */
#define LOG_PAUSE_S 10

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
    return visit->user.len == 0 || !blocks_has_expected(visit->blocks, visit->user, visit->user_hash);
}

static bool rate_passes(struct guard *guard, enum rate_scope scope, struct guard_visit *visit, uint32_t *retry_s)
{
    if (allowance_take(guard->allowance, scope, &visit->ask, &visit->allowance)) return true;
    *retry_s = (uint32_t)((visit->allowance.rate.retry_ms + 999) / 1000);
    return false;
}

static bool rate_ip_passes(struct guard *guard, struct guard_visit *visit, uint32_t *retry_s)
{
    return rate_passes(guard, RATE_IP, visit, retry_s);
}

static bool rate_global_passes(struct guard *guard, struct guard_visit *visit, uint32_t *retry_s)
{
    return rate_passes(guard, RATE_GLOBAL, visit, retry_s);
}

static bool rate_user_passes(struct guard *guard, struct guard_visit *visit, uint32_t *retry_s)
{
    if (rate_passes(guard, RATE_USER, visit, retry_s)) return true;
    if (visit->login.len > 0) recall_put(visit->recall, visit->login, visit->limits_version, &visit->ask, &visit->allowance);
    return false;
}

static bool shed_passes(struct guard *guard, struct guard_visit *visit, uint32_t *retry_s)
{
    *retry_s = SHED_RETRY_AFTER_S;
    if (!shed_refuses(&guard->shed, (enum shed_class)visit->class)) return true;
    metrics_add_labelled(METRIC_SHED_REFUSED, visit->class, 1);
    return false;
}
_Static_assert((int)SHED_GRAB == (int)RATE_GRAB && (int)SHED_QUERY == (int)RATE_QUERY &&
                   (int)SHED_LOGIN == (int)RATE_LOGIN && (int)SHED_REGISTER == (int)RATE_REGISTER &&
                   (int)SHED_WRITE == (int)RATE_WRITE,
               "one class of routes for all checks");

static bool breaker_passes(struct guard *guard, struct guard_visit *visit, uint32_t *retry_s)
{
    if (visit->heartbeat) return true;
    return breaker_enter(&guard->breakers[visit->class], visit->entered_ns / 1000000, &visit->pass, retry_s);
}

/* Who asks: guard_arrive(), guard_enter(), or some other room, which knows what guard.h says of the check. */
enum part { PART_ARRIVE, PART_ENTER, PART_ELSEWHERE };

static const struct {
    const char *name;
    enum part part;
    bool unrated; /* asked also of routes without a class */
    enum problem problem;
    bool (*passes)(struct guard *guard, struct guard_visit *visit, uint32_t *retry_s);
} checks[GUARD_CHECKS] = {
    [GUARD_CONNECTIONS] = { "connections", PART_ELSEWHERE, true, PROBLEM_BUSY, NULL },
    [GUARD_BLOCKED_ADDRESS] = { "blocked_address", PART_ARRIVE, true, PROBLEM_BLOCKED, address_passes },
    [GUARD_RATE_IP] = { "rate_ip", PART_ARRIVE, false, PROBLEM_RATE_LIMITED, rate_ip_passes },
    [GUARD_RATE_GLOBAL] = { "rate_global", PART_ARRIVE, false, PROBLEM_RATE_LIMITED, rate_global_passes },
    [GUARD_BLOCKED_USER] = { "blocked_user", PART_ENTER, true, PROBLEM_BLOCKED, user_passes },
    [GUARD_RATE_USER] = { "rate_user", PART_ENTER, false, PROBLEM_RATE_LIMITED, rate_user_passes },
    [GUARD_SHED] = { "shed", PART_ENTER, false, PROBLEM_BUSY, shed_passes },
    [GUARD_BREAKER] = { "breaker", PART_ENTER, false, PROBLEM_BUSY, breaker_passes },
    [GUARD_LOGIN] = { "login", PART_ELSEWHERE, false, PROBLEM_TOO_MANY_TRIES, NULL },
    [GUARD_TOKEN] = { "token", PART_ELSEWHERE, false, PROBLEM_TOKEN_INVALID, NULL },
    [GUARD_ADMIT] = { "admit", PART_ELSEWHERE, false, PROBLEM_BUSY, NULL },
    [GUARD_LINE] = { "line", PART_ELSEWHERE, false, PROBLEM_LINE_TIMEOUT, NULL },
};

const char *guard_check_name(uint32_t n)
{
    return n < GUARD_CHECKS ? checks[n].name : NULL;
}

/* Whether it is this thread's turn to say so: one in LOG_PAUSE_S seconds. */
static bool log_turn(struct guard *guard, enum guard_check check, uint64_t now_s)
{
    uint64_t said = atomic_load_explicit(&guard->said_s[check], memory_order_relaxed);
    if (said != 0 && now_s + 1 < said + LOG_PAUSE_S) return false;
    return atomic_compare_exchange_strong_explicit(&guard->said_s[check], &said, now_s + 1, memory_order_relaxed,
                                                   memory_order_relaxed);
}

void guard_refused(struct guard *guard, enum guard_check check, const struct guard_visit *visit)
{
    metrics_add_labelled(METRIC_GUARD_REFUSED, check, 1);
    bool each = log_speaks(LOG_DEBUG);
    if (!each && !log_turn(guard, check, visit->entered_ns / 1000000000)) return;
    char address[ADDRESS_TEXT_BYTES];
    address_print(address, &visit->client);
    log_line(each ? LOG_DEBUG : LOG_INFO, "guard", "%s refused %s %s from %s, user \"%.*s\"; %llu since the start",
             checks[check].name, visit->method, visit->path, address, (int)visit->user.len, visit->user.data,
             (unsigned long long)metrics_total(METRIC_GUARD_REFUSED, check));
}

bool guard_is_blocked(struct guard *guard, const struct guard_visit *visit)
{
    bool address = blocks_has_address(visit->blocks, visit->client.bytes);
    if (!address && (visit->user.len == 0 || !blocks_has_user(visit->blocks, visit->user))) return false;
    guard_refused(guard, address ? GUARD_BLOCKED_ADDRESS : GUARD_BLOCKED_USER, visit);
    return true;
}

bool guard_greet(struct guard *guard, const struct address *peer, uint64_t now_ns, bool *counted)
{
    *counted = false;
    if (networks_have(&guard->proxies, peer)) return true;
    *counted = peers_enter(guard->peers, peer);
    if (*counted) return true;
    const struct guard_visit visit = {
        .client = *peer, .user = { "", 0 }, .method = "a", .path = "connection", .entered_ns = now_ns
    };
    guard_refused(guard, GUARD_CONNECTIONS, &visit);
    return false;
}

static enum problem part_ask(struct guard *guard, enum part part, struct guard_visit *visit, uint32_t *retry_s)
{
    for (enum guard_check i = 0; i < GUARD_CHECKS; i++) {
        if (checks[i].part != part || (visit->class == RATE_CLASSES && !checks[i].unrated)) continue;
        if (checks[i].passes(guard, visit, retry_s)) continue;
        guard_refused(guard, i, visit);
        return checks[i].problem;
    }
    *retry_s = 0;
    return PROBLEM_NONE;
}

enum problem guard_arrive(struct guard *guard, struct guard_visit *visit, uint32_t *retry_s)
{
    visit->inside = false;
    visit->allowance.limited = false;
    visit->user = (struct slice){ "", 0 };
    visit->ask.class = visit->class;
    visit->ask.user = visit->user;
    visit->ask.address = &visit->client;
    visit->ask.now_ns = visit->entered_ns;
    for (int scope = 0; scope < RATE_SCOPES; scope++) visit->ask.keys[scope] = 0;
    visit->ask.taken_count = 0;
    visit->limits_version = allowance_version(guard->allowance);
    if (visit->class != RATE_CLASSES) allowance_expect(guard->allowance, RATE_IP, &visit->ask);
    return part_ask(guard, PART_ARRIVE, visit, retry_s);
}

enum problem guard_recall(struct guard *guard, struct guard_visit *visit, uint32_t *retry_s)
{
    if (visit->class == RATE_CLASSES || visit->login.len == 0) return PROBLEM_NONE;
    if (!recall_find(visit->recall, visit->login, visit->limits_version, &visit->ask, &visit->allowance))
        return PROBLEM_NONE;
    allowance_give_back(guard->allowance, &visit->ask);
    visit->user = visit->ask.user;
    *retry_s = (uint32_t)((visit->allowance.rate.retry_ms + 999) / 1000);
    guard_refused(guard, GUARD_RATE_USER, visit);
    return checks[GUARD_RATE_USER].problem;
}

void guard_know(struct guard *guard, struct guard_visit *visit, struct slice user)
{
    visit->user = visit->ask.user = user;
    visit->ask.keys[RATE_USER] = 0;
    visit->user_hash = blocks_expect_user(visit->blocks, user);
    if (visit->class != RATE_CLASSES) allowance_expect(guard->allowance, RATE_USER, &visit->ask);
}

enum problem guard_enter(struct guard *guard, struct guard_visit *visit, uint32_t *retry_s)
{
    enum problem problem = part_ask(guard, PART_ENTER, visit, retry_s);
    visit->inside = problem == PROBLEM_NONE && visit->class != RATE_CLASSES && !visit->heartbeat;
    return problem;
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

void guard_return(struct guard *guard, struct guard_visit *visit)
{
    visit->inside = breaker_try(&guard->breakers[visit->class], visit->entered_ns / 1000000, &visit->pass);
}

/* What one address may have at once; 0: no limit. */
static uint32_t connections_each(const struct guard *guard, const struct limit_terms *limits)
{
    uint32_t asked = (uint32_t)limits->connections_per_ip, half = (guard->connections_held + 1) / 2;
    if (asked <= half || guard->connections_held == 0) return asked;
    log_info("guard", "connections_per_ip %u is more than half of the %u connections that can be held: %u count", asked,
             guard->connections_held, half);
    return half;
}

void guard_hold(struct guard *guard, uint32_t connections_held)
{
    struct limit_terms limits;
    pthread_mutex_lock(&guard->limits_lock);
    guard->connections_held = connections_held;
    allowance_read(guard->allowance, &limits);
    peers_set_max(guard->peers, connections_each(guard, &limits));
    pthread_mutex_unlock(&guard->limits_lock);
}

void guard_change_limits(struct guard *guard, const struct limit_terms *terms, uint32_t given, struct limit_terms *now)
{
    pthread_mutex_lock(&guard->limits_lock);
    allowance_read(guard->allowance, now);
    for (size_t i = 0; i < LIMIT_ROWS; i++) {
        if (given >> i & 1) limit_terms_set(now, &limit_rows[i], limit_terms_get(terms, &limit_rows[i]));
    }
    allowance_change(guard->allowance, now);
    peers_set_max(guard->peers, connections_each(guard, now));
    pthread_mutex_unlock(&guard->limits_lock);
}
_Static_assert(LIMIT_ROWS < 32, "a bit for each row");

enum fault guard_open(struct guard **out, const struct guard_options *options)
{
    struct guard *guard = calloc(1, sizeof *guard);
    if (guard == NULL) return FAULT_MEMORY;
    pthread_mutex_init(&guard->limits_lock, NULL);
    guard->proxies = options->proxies;
    const struct limit_terms *limits = &options->limits;
    enum fault fault = allowance_open(&guard->allowance, RATE_KEYS_MAX, limits);
    if (fault == FAULT_NONE) fault = logins_open(&guard->logins, LOGIN_PLACES);
    if (fault == FAULT_NONE)
        fault = peers_open(&guard->peers, options->connections_max, (uint32_t)limits->connections_per_ip);
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

enum fault guard_share(struct guard *guard, const struct exchange_options *options, const uint8_t secret[16])
{
    struct exchange_options with = *options;
    with.allowance = guard->allowance;
    with.logins = guard->logins;
    logins_agree(guard->logins, secret);
    enum fault fault = allowance_share(guard->allowance, secret);
    return fault == FAULT_NONE ? exchange_open(&guard->exchange, &with) : fault;
}

void guard_sharing(const struct guard *guard, struct guard_sharing *out)
{
    struct exchange_status status;
    *out = (struct guard_sharing){ .shared = guard->exchange != NULL };
    if (!out->shared) return;
    exchange_status(guard->exchange, &status);
    out->answers = status.answers;
    out->told = status.told;
    out->untold = status.lost + allowance_untold(guard->allowance) + logins_untold(guard->logins);
}

void guard_close(struct guard *guard)
{
    if (guard == NULL) return;
    exchange_close(guard->exchange);
    if (guard->peers != NULL) peers_close(guard->peers);
    if (guard->logins != NULL) logins_close(guard->logins);
    if (guard->allowance != NULL) allowance_close(guard->allowance);
    pthread_mutex_destroy(&guard->limits_lock);
    free(guard);
}
