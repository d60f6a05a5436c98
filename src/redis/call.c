#include "redis/client.h"
#include "redis/error.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>

/* Repeats at once; after that many the call waits a little before the next. */
#define TRIES_AT_ONCE_MAX 5
/* A script that is missing again and again is one that the server does not take. */
#define LOADS_MAX 5
#define PARK_MS_MIN 5
#define PARK_MS_MAX 100

#define CALL_OF(timer, field) ((struct redis_call *)((char *)(timer)-offsetof(struct redis_call, state.field)))

const char *redis_result_word(enum redis_result result)
{
    static const char *const words[] = { "answered", "failed", "refused", "busy", "down", "unknown" };
    return words[result];
}

void call_list_add(struct call_list *list, struct redis_call *call)
{
    call->state.next = NULL;
    call->state.prev = list->last;
    if (list->last != NULL)
        list->last->state.next = call;
    else
        list->first = call;
    list->last = call;
    list->count++;
}

void call_list_remove(struct call_list *list, struct redis_call *call)
{
    if (call->state.prev != NULL)
        call->state.prev->state.next = call->state.next;
    else
        list->first = call->state.next;
    if (call->state.next != NULL)
        call->state.next->state.prev = call->state.prev;
    else
        list->last = call->state.prev;
    call->state.next = call->state.prev = NULL;
    list->count--;
}

void call_leave(struct redis_client *client, struct redis_call *call)
{
    if (call->state.stage == CALL_WAITING) call_list_remove(&call->state.node->waiting, call);
    if (call->state.stage == CALL_PARKED) {
        call_list_remove(&client->parked, call);
        wheel_remove(&client->retries, &call->state.retry);
    }
}

void call_begin(struct redis_client *client, struct redis_call *call, uint32_t time_ms)
{
    call->state = (struct redis_call_state){ .stage = CALL_PARKED, .inner = call->state.inner };
    call_list_add(&client->parked, call);
    call->lineage = "";
    call->connection = 0;
    wheel_add(&client->deadlines, &call->state.deadline, uv_now(client->loop) + time_ms);
    client_ticks(client);
}

static void call_tell(struct redis_client *client, struct redis_call *call, const struct redis_reply *reply)
{
    call->state.stage = CALL_NONE;
    if (!call->state.inner) {
        assert(client->in_flight > 0);
        client->in_flight--;
        atomic_store_explicit(&client->in_flight_seen, client->in_flight, memory_order_relaxed);
        atomic_fetch_add_explicit(&client->counts[call->result], 1, memory_order_relaxed);
    }
    call->done(call, reply);
}

void call_finish(struct redis_client *client, struct redis_call *call, enum redis_result result,
                 const struct redis_reply *reply)
{
    call_leave(client, call);
    wheel_remove(&client->deadlines, &call->state.deadline);
    call->state.node = NULL;
    call->result = result;
    if (!client->calling || call->state.inner) {
        call_tell(client, call, reply);
        return;
    }
    assert(reply == NULL); /* nothing is read meanwhile */
    call->state.stage = CALL_ENDED;
    call_list_add(&client->ended, call);
    client_hurry(client);
}

/* Whoever is told may ask again: that is for the next turn. */
void call_tell_ended(struct redis_client *client)
{
    for (uint32_t count = client->ended.count; count > 0 && client->ended.first != NULL; count--) {
        struct redis_call *call = client->ended.first;
        call_list_remove(&client->ended, call);
        call_tell(client, call, NULL);
    }
}

void redis_call(struct redis_client *client, struct redis_call *call)
{
    const struct redis_options *options = &client->redis->options;
    assert(call->state.stage == CALL_NONE && call->argc > 0 && call->keys <= call->argc);
    assert(call->script >= REDIS_NO_SCRIPT && call->script < (int)options->scripts_count);
    call->state.inner = false;
    atomic_fetch_add_explicit(&client->calls, 1, memory_order_relaxed);
    bool busy = client->in_flight >= options->in_flight_max;
    client->in_flight++;
    atomic_store_explicit(&client->in_flight_seen, client->in_flight, memory_order_relaxed);
    client->calling = !client->closing;
    call_begin(client, call, call->time_ms > 0 ? call->time_ms : options->call_ms);
    if (busy && !client->closing)
        call_finish(client, call, REDIS_BUSY, NULL);
    else
        call_route(client, call);
    client->calling = false;
}

void redis_call_wait(struct redis_client *client, struct redis_call *call)
{
    redis_call(client, call);
    call_tell_ended(client); /* at once: nobody else is being answered */
    while (call->state.stage != CALL_NONE) uv_run(client->loop, UV_RUN_ONCE);
}

/* Certainly not run so far: to the master of its key, or nowhere if there is no hope. */
void call_route(struct redis_client *client, struct redis_call *call)
{
    struct redis_node *node = client->closing ? NULL : route_choose(client, call->key);
    call->state.asking = false;
    if (node != NULL)
        node_submit(node, call);
    else if (client->closing || client->lost)
        call_finish(client, call, REDIS_DOWN, NULL);
    else
        call_park(client, call);
}

void call_park(struct redis_client *client, struct redis_call *call)
{
    call_leave(client, call);
    uint32_t parks = call->state.tries < TRIES_AT_ONCE_MAX ? 1 : (uint32_t)(call->state.tries - TRIES_AT_ONCE_MAX) + 2;
    if (call->state.tries < UINT8_MAX) call->state.tries++;
    uint64_t pause_ms = client_backoff_ms(client, parks, PARK_MS_MIN, PARK_MS_MAX);
    call->state.stage = CALL_PARKED;
    call->state.node = NULL;
    call_list_add(&client->parked, call);
    wheel_add(&client->retries, &call->state.retry, uv_now(client->loop) + pause_ms);
    client_ticks(client);
}

/* From when on the server has been able to answer what was sent long ago: now, while it has a call in hand that holds the
 * connection; what stands behind that has its own time after it. */
static uint64_t link_free_ms(struct link *link, const struct redis_call *call, uint64_t now_ms)
{
    const struct link_entry *oldest = link_entry_at(link, link->first);
    bool held = oldest->kind == ENTRY_CALL && oldest->call->holds && oldest->call != call;
    return held ? now_ms : link->freed_ms;
}

/* Not answered in its time. Only what was sent is unknown. */
static void call_overdue(struct redis_client *client, struct redis_call *call)
{
    const struct redis_options *options = &client->redis->options;
    struct redis_node *node = call->state.node;
    if (call->state.stage != CALL_SENT) {
        call_finish(client, call, REDIS_DOWN, NULL);
        return;
    }
    struct link *link = node->link;
    uint64_t now_ms = uv_now(client->loop), free_ms = link_free_ms(link, call, now_ms);
    uint32_t time_ms = call->time_ms > 0 ? call->time_ms : options->call_ms;
    if (call->lenient) {
        link_entry_at(link, call->state.sequence)->kind = ENTRY_GONE;
        uint64_t oldest_ms = (uv_hrtime() - link_entry_at(link, link->first)->put_ns) / 1000000;
        /* Where even the patient would have given up, nobody is there. */
        if (oldest_ms > options->call_ms && now_ms - free_ms > options->call_ms) node_overdue(node, (uint32_t)oldest_ms);
        call_finish(client, call, REDIS_UNKNOWN, NULL);
    } else if (now_ms < free_ms + time_ms) {
        wheel_add(&client->deadlines, &call->state.deadline, free_ms + time_ms);
    } else {
        node_overdue(node, time_ms);
    }
}

void call_turn(struct redis_client *client, uint64_t now_ms)
{
    struct wheel_timer *timer;
    while ((timer = wheel_due(&client->deadlines, now_ms)) != NULL) call_overdue(client, CALL_OF(timer, deadline));
    while ((timer = wheel_due(&client->retries, now_ms)) != NULL) call_route(client, CALL_OF(timer, retry));
}

static void call_again(struct redis_client *client, struct redis_call *call, struct redis_node *node)
{
    atomic_fetch_add_explicit(&client->repeats, 1, memory_order_relaxed);
    if (call->state.tries >= TRIES_AT_ONCE_MAX || node == NULL) {
        call_park(client, call);
        return;
    }
    call->state.tries++;
    node_submit(node, call);
}

/* The script goes before the call, unless it went after the call had been sent: then it is there by now. */
static void call_load(struct redis_node *node, struct redis_call *call, const struct link_entry *entry,
                      const struct redis_reply *reply)
{
    struct redis_client *client = node->client;
    if (call->state.loads >= LOADS_MAX || entry->script == REDIS_NO_SCRIPT) {
        call_finish(client, call, REDIS_REFUSED, reply);
        return;
    }
    if (entry->start >= node->link->loads[entry->script] && !node_load(node, entry->script)) {
        call_finish(client, call, REDIS_BUSY, NULL);
        return;
    }
    atomic_fetch_add_explicit(&client->repeats, 1, memory_order_relaxed);
    call->state.loads++;
    node_put(node, call);
}

static void call_redirect(struct redis_node *node, struct redis_call *call, struct slice error, bool asking)
{
    struct redis_client *client = node->client;
    struct redis_address address;
    struct redis_node *target = NULL;
    if (error_target(error, &node->address, &address)) target = route_add(client, &address);
    if (target != NULL && !asking) route_moved(client, call->key, target);
    call->state.asking = asking && target != NULL;
    call_again(client, call, target);
}

static void call_refused(struct redis_node *node, struct redis_call *call, const struct redis_reply *reply)
{
    char asked[40], sentence[REDIS_SENTENCE_BYTES];
    const struct facts_question question = { .address = &node->address, .as_sentinel = node->as_sentinel };
    struct slice command = call->argv[0];
    if (call->script != REDIS_NO_SCRIPT)
        snprintf(asked, sizeof(asked), "the script %s", node->client->redis->options.scripts[call->script].name);
    else
        snprintf(asked, sizeof(asked), "%.*s", command.len < sizeof(asked) ? (int)command.len : 0, command.data);
    facts_explain(&question, asked, reply->text, sentence);
    redis_say(node->client->redis, sentence);
    const char *advice = error_advice(reply->text);
    if (advice != NULL) redis_note_refusal(node->client->redis, advice);
    call_finish(node->client, call, REDIS_REFUSED, reply);
}

void call_answered(struct redis_node *node, struct redis_call *call, const struct link_entry *entry,
                   const struct redis_reply *reply)
{
    struct redis_client *client = node->client;
    call->lineage = node->facts.lineage;
    call->connection = node->link->number;
    enum error_kind kind = reply->type == REDIS_FAIL && !call->state.inner ? error_kind(reply->text) : ERROR_OTHER;
    switch (kind) {
    case ERROR_OTHER:
        call_finish(client, call, reply->type == REDIS_FAIL ? REDIS_FAILED : REDIS_ANSWERED, reply);
        break;
    case ERROR_REFUSED:
        call_refused(node, call, reply);
        break;
    case ERROR_DEMOTED:
        node_demoted(node);
        call_again(client, call, NULL);
        break;
    case ERROR_LATER:
        route_look(client);
        call_again(client, call, NULL);
        break;
    case ERROR_MOVED:
    case ERROR_ASK:
        call_redirect(node, call, reply->text, kind == ERROR_ASK);
        break;
    case ERROR_NOSCRIPT:
        call_load(node, call, entry, reply);
        break;
    }
}
