#include "guard/exchange.h"

#include "base/clock.h"
#include "base/log.h"
#include "guard/gossip.h"
#include "guard/tally.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#define NS_PER_US 1000
#define RESTS_MS 100           /* between two looks, while there is nothing to tell; the first that is to be told ends it */
#define AWAKE_MS 100           /* nothing was told for so long */
#define QUIET_MS 500           /* where nobody has anything to tell, Redis is asked all the same whether it answers */
#define ARRIVED_NS_MAX 1000000 /* a request is counted so long after it came, at most; or it counts a little more */
#define KEY_BYTES 128
#define BATCH ALLOWANCE_SPENT_MAX
#define ITEM_PARTS 4 /* of a bucket, as spend.lua takes them; before them all goes the key */

/* guard/scripts/spend.lua. */
extern const char lua_spend[];
const struct redis_script exchange_script = { "spend", lua_spend };

struct item {
    char name[17], spent[24], age[24], owed[24];
};

struct group {
    struct redis_call call; /* first */
    struct exchange *exchange;
    bool under_way;
    uint64_t sent_ns;
    uint64_t took_ns; /* the answer before */
    uint32_t count;
    struct allowance_spent spent[BATCH];
    struct item items[BATCH];
    char key[KEY_BYTES];
    struct slice argv[1 + BATCH * ITEM_PARTS];
};

struct exchange {
    struct exchange_options options;
    pthread_t thread;
    bool threaded, looped, handled, stopping;
    uv_loop_t loop;
    uv_timer_t tick;
    uv_async_t stop, wake;
    struct redis_client *client;
    uint64_t nodes_ms, asked_ms, told_ms; /* when these were last done */
    uint32_t nodes;
    struct group groups[TALLY_GROUPS];
    struct gossip *gossip;
    _Atomic bool answers;
    _Atomic uint64_t told, lost;
};

static void answers_note(struct exchange *exchange, bool answers)
{
    if (atomic_exchange(&exchange->answers, answers) == answers) return;
    if (answers) log_info("guard", "Redis answers: limits are shared with the other nodes");
    if (!answers) log_warn("guard", "Redis does not answer in time: limits count on this node alone");
}

/* The clocks of Redis and this machine are compared by the moment of sending, so what an answer took is not counted as paid
 * off later than it is; that the answers took differently long must not count either. */
static void group_hear(struct group *group, const struct redis_reply *reply)
{
    uint64_t took_ns = mono_ns() - group->sent_ns, slack_ns = took_ns + group->took_ns;
    group->took_ns = took_ns;
    for (uint32_t i = 0; i < group->count && i < reply->count; i++) {
        int64_t ahead_ns = reply->items[i].number * NS_PER_US - (int64_t)slack_ns;
        if (reply->items[i].type != REDIS_NUMBER || ahead_ns <= 0) continue;
        allowance_hear(group->exchange->options.allowance, &group->spent[i], group->sent_ns + (uint64_t)ahead_ns);
    }
}

static void group_answered(struct redis_call *call, const struct redis_reply *reply)
{
    struct group *group = (struct group *)call;
    struct exchange *exchange = group->exchange;
    group->under_way = false;
    if (exchange->stopping) return;
    bool answered = call->result == REDIS_ANSWERED && reply->type == REDIS_LIST;
    if ((call->result == REDIS_FAILED || call->result == REDIS_REFUSED) && atomic_load(&exchange->answers))
        log_error("guard", "Redis refused what is spent of limits: %.*s", (int)reply->text.len, reply->text.data);
    atomic_fetch_add_explicit(answered ? &exchange->told : &exchange->lost, group->count, memory_order_relaxed);
    if (answered) group_hear(group, reply);
    answers_note(exchange, answered);
}

static struct slice item_part(char *out, size_t size, const char *form, int64_t number)
{
    int len = snprintf(out, size, form, number);
    return (struct slice){ out, (size_t)len };
}

static void group_tell(struct group *group, uint64_t now_ns)
{
    struct exchange *exchange = group->exchange;
    for (uint32_t i = 0; i < group->count; i++) {
        const struct allowance_spent *spent = &group->spent[i];
        struct item *item = &group->items[i];
        struct slice *argv = &group->argv[1 + i * ITEM_PARTS];
        int64_t age_ns = (int64_t)(now_ns - spent->since_ns) + ARRIVED_NS_MAX;
        argv[0] = item_part(item->name, sizeof item->name, "%016" PRIx64, (int64_t)spent->key);
        argv[1] = item_part(item->spent, sizeof item->spent, "%" PRId64, spent->spent_ns);
        argv[2] = item_part(item->age, sizeof item->age, "%" PRId64, age_ns / NS_PER_US);
        argv[3] = item_part(item->owed, sizeof item->owed, "%" PRId64, (int64_t)(spent->owed_max / NS_PER_US));
    }
    group->call.argc = 1 + group->count * ITEM_PARTS;
    group->sent_ns = now_ns;
    group->under_way = true;
    exchange->asked_ms = now_ns / 1000000;
    redis_call(exchange->client, &group->call);
}

static void nodes_ask(struct exchange *exchange, uint64_t now_ms)
{
    if (now_ms < exchange->nodes_ms + RESTS_MS) return;
    exchange->nodes_ms = now_ms;
    uint32_t nodes = exchange->options.nodes(exchange->options.arg);
    if (nodes == exchange->nodes || nodes == 0) return;
    exchange->nodes = nodes;
    allowance_set_nodes(exchange->options.allowance, nodes);
}

static void on_tick(uv_timer_t *timer);

/* Something was spent, and this rested. */
static void on_wake(uv_async_t *wake)
{
    struct exchange *exchange = wake->data;
    exchange->told_ms = mono_ms();
    uv_timer_start(&exchange->tick, on_tick, 0, EXCHANGE_MS);
}

static void wake_up(void *arg)
{
    struct exchange *exchange = arg;
    uv_async_send(&exchange->wake);
}

/* What is spent after the rest began wakes it; what was spent before was found by the look that follows, or is by the next.
 */
static void rest_begin(struct exchange *exchange, uint64_t now_ms)
{
    if (now_ms < exchange->told_ms + AWAKE_MS || uv_timer_get_repeat(&exchange->tick) == RESTS_MS) return;
    allowance_rest(exchange->options.allowance);
    uv_timer_start(&exchange->tick, on_tick, RESTS_MS, RESTS_MS);
}

static void on_tick(uv_timer_t *timer)
{
    struct exchange *exchange = timer->data;
    uint64_t now_ns = mono_ns(), now_ms = now_ns / 1000000;
    nodes_ask(exchange, now_ms);
    rest_begin(exchange, now_ms);
    for (uint32_t i = 0; i < TALLY_GROUPS; i++) {
        struct group *group = &exchange->groups[i];
        if (group->under_way) continue;
        group->count = allowance_spent(exchange->options.allowance, i, now_ns, group->spent, BATCH);
        bool quiet = i == TALLY_GROUPS - 1 && now_ms >= exchange->asked_ms + QUIET_MS;
        if (group->count > 0) exchange->told_ms = now_ms;
        if (group->count > 0 || quiet) group_tell(group, now_ns);
    }
    if (gossip_talk(exchange->gossip, exchange->client, now_ms)) exchange->told_ms = now_ms;
}

static void handles_close(struct exchange *exchange)
{
    if (exchange->client != NULL) redis_client_close(exchange->client);
    uv_close((uv_handle_t *)&exchange->tick, NULL);
    uv_close((uv_handle_t *)&exchange->wake, NULL);
    uv_close((uv_handle_t *)&exchange->stop, NULL);
}

static void on_stop(uv_async_t *stop)
{
    struct exchange *exchange = stop->data;
    exchange->stopping = true;
    handles_close(exchange);
}

static void *exchange_run(void *arg)
{
    struct exchange *exchange = arg;
    uv_run(&exchange->loop, UV_RUN_DEFAULT);
    return NULL;
}

static void groups_make(struct exchange *exchange)
{
    for (uint32_t i = 0; i < TALLY_GROUPS; i++) {
        struct group *group = &exchange->groups[i];
        group->exchange = exchange;
        snprintf(group->key, sizeof group->key, "%s{limits:%u}", exchange->options.prefix, i);
        group->argv[0] = slice_of(group->key);
        group->call = (struct redis_call){ .key = group->argv[0],
                                           .script = exchange->options.script,
                                           .keys = 1,
                                           .argv = group->argv,
                                           .time_ms = EXCHANGE_SLOW_MS,
                                           .lenient = true,
                                           .done = group_answered };
    }
}

static enum fault exchange_loop(struct exchange *exchange)
{
    if (uv_loop_init(&exchange->loop) != 0) return FAULT_MEMORY;
    exchange->looped = true;
    uv_timer_init(&exchange->loop, &exchange->tick);
    if (uv_async_init(&exchange->loop, &exchange->stop, on_stop) != 0 ||
        uv_async_init(&exchange->loop, &exchange->wake, on_wake) != 0)
        return FAULT_MEMORY;
    exchange->stop.data = exchange->wake.data = exchange->tick.data = exchange;
    exchange->handled = true;
    allowance_on_spent(exchange->options.allowance, wake_up, exchange);
    logins_on_noted(exchange->options.logins, wake_up, exchange);
    uv_timer_start(&exchange->tick, on_tick, EXCHANGE_MS, EXCHANGE_MS);
    return redis_client_open(&exchange->client, exchange->options.redis, &exchange->loop);
}

enum fault exchange_open(struct exchange **out, const struct exchange_options *options)
{
    struct exchange *exchange = calloc(1, sizeof *exchange);
    if (exchange == NULL) return FAULT_MEMORY;
    exchange->options = *options;
    exchange->nodes = 1;
    atomic_store(&exchange->answers, true);
    groups_make(exchange);
    const struct gossip_options gossip = {
        .logins = options->logins, .script = options->script_gossip, .prefix = options->prefix, .time_ms = EXCHANGE_SLOW_MS
    };
    enum fault fault = gossip_open(&exchange->gossip, &gossip);
    if (fault == FAULT_NONE) fault = exchange_loop(exchange);
    if (fault == FAULT_NONE && pthread_create(&exchange->thread, NULL, exchange_run, exchange) != 0) fault = FAULT_MEMORY;
    if (fault != FAULT_NONE) {
        exchange_close(exchange);
        return fault;
    }
    (void)pthread_setname_np(exchange->thread, "exchange");
    exchange->threaded = true;
    *out = exchange;
    return FAULT_NONE;
}

void exchange_close(struct exchange *exchange)
{
    if (exchange == NULL) return;
    if (exchange->threaded) {
        uv_async_send(&exchange->stop);
        pthread_join(exchange->thread, NULL);
    } else if (exchange->handled) {
        handles_close(exchange);
        uv_run(&exchange->loop, UV_RUN_DEFAULT);
    }
    if (exchange->looped) uv_loop_close(&exchange->loop);
    gossip_close(exchange->gossip);
    free(exchange);
}

void exchange_status(const struct exchange *exchange, struct exchange_status *out)
{
    out->answers = atomic_load(&exchange->answers);
    struct gossip_status gossip;
    gossip_status(exchange->gossip, &gossip);
    out->told = atomic_load(&exchange->told) + gossip.told;
    out->lost = atomic_load(&exchange->lost) + gossip.lost;
}
