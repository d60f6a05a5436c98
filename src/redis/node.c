#include "redis/client.h"

#include "base/log.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define PAUSE_MS_MIN 50
#define PAUSE_MS_MAX 2000
/* A connection that lived as long was a good one: when it is lost the next try is made at once. */
#define READY_MS_GOOD 1000
/* A server is asked so often whether it is there, and the same: one that hangs is found before buyers find it, and one that
 * was a replica for a moment, and has the data of another since, before it has sold much of them. */
#define PULSE_MS 250
/* A server that is named a master and says it is none is not asked again more often than that. */
#define RECHECK_MS_MIN 50

static void node_connect(struct redis_node *node);
static void node_break(struct redis_node *node, bool overdue);

static void sentence_at(const struct redis_node *node, char sentence[REDIS_SENTENCE_BYTES], const char *what)
{
    char at[REDIS_ADDRESS_TEXT_BYTES];
    redis_address_print(at, &node->address);
    snprintf(sentence, REDIS_SENTENCE_BYTES, "%s at %s: %s.", node->as_sentinel ? "The Sentinel" : "Redis", at, what);
}

static void node_free(struct redis_node *node)
{
    if (!node->timer_closed || node->lookup_pending) return;
    struct redis_client *client = node->client;
    free(node);
    client_handle_closed(client);
}

static void timer_closed(uv_handle_t *handle)
{
    struct redis_node *node = handle->data;
    node->timer_closed = true;
    node_free(node);
}

static void pause_over(uv_timer_t *timer)
{
    node_connect(timer->data);
}

static void patience_over(uv_timer_t *timer)
{
    struct redis_node *node = timer->data;
    char sentence[REDIS_SENTENCE_BYTES];
    sentence_at(node, sentence,
                node->state == NODE_GREETING ? "it takes connections but does not answer"
                                             : "no connection within the time for it");
    redis_say(node->client->redis, sentence);
    node_break(node, false);
}

struct redis_node *node_open(struct redis_client *client, const struct redis_address *address, bool as_sentinel)
{
    if (client->nodes_count == REDIS_NODES_MAX) return NULL;
    struct redis_node *node = calloc(1, sizeof(*node));
    if (node == NULL) return NULL;
    node->client = client;
    node->address = *address;
    node->as_sentinel = as_sentinel;
    uv_timer_init(client->loop, &node->timer);
    node->timer.data = node;
    node->lookup.data = node;
    client->handles++;
    client->nodes[client->nodes_count++] = node;
    return node;
}

/* What was put on a connection that is no more. */
static void link_calls_end(struct redis_client *client, struct link *link)
{
    for (uint64_t at = link->first; at < link->next; at++) {
        struct link_entry *entry = link_entry_at(link, at);
        if (entry->kind != ENTRY_CALL) continue;
        struct redis_call *call = entry->call;
        if (link_entry_left(link, entry))
            call_finish(client, call, REDIS_UNKNOWN, NULL);
        else if (call->state.deadline.next == NULL || call->state.inner)
            call_finish(client, call, REDIS_DOWN, NULL);
        else
            call_route(client, call);
    }
}

static void waiting_end(struct redis_node *node)
{
    /* Those who come while these go are not their concern. */
    struct call_list waiting = node->waiting;
    node->waiting = (struct call_list){ 0 };
    while (waiting.first != NULL) {
        struct redis_call *call = waiting.first;
        call_list_remove(&waiting, call);
        call->state.stage = CALL_SENT; /* in no list */
        if (node->state != NODE_CLOSED || call->state.inner)
            call_finish(node->client, call, REDIS_DOWN, NULL);
        else
            call_route(node->client, call);
    }
}

/* The connection, or the try to make one, has come to nothing. One that was good for a while is made again at once, and
 * calls wait for that; unless it was the server who did not answer. */
static void node_break(struct redis_node *node, bool overdue)
{
    struct redis_client *client = node->client;
    struct link *link = node->link;
    uint64_t now_ms = uv_now(client->loop);
    bool good = node->state == NODE_READY && now_ms - node->ready_ms >= READY_MS_GOOD;
    node->link = NULL;
    node->rechecking = false;
    node->failures = good ? overdue : node->failures + 1;
    if (node->failures > 0) node->down = true;
    node->state = NODE_PAUSED;
    uint64_t pause_ms = client_backoff_ms(client, node->failures, PAUSE_MS_MIN, PAUSE_MS_MAX);
    uv_timer_start(&node->timer, pause_over, pause_ms, 0);
    if (link != NULL) {
        link_drop(link);
        link_calls_end(client, link);
    }
    if (node->down) waiting_end(node);
    route_node_changed(client, node);
}

void node_close(struct redis_node *node)
{
    struct redis_client *client = node->client;
    uint32_t at = 0;
    while (client->nodes[at] != node) at++;
    client->nodes[at] = client->nodes[--client->nodes_count];
    if (client->master == node) client->master = NULL;
    for (uint32_t slot = 0; slot < REDIS_SLOTS; slot++) {
        if (client->slots[slot] == node) client->slots[slot] = NULL;
    }
    struct link *link = node->link;
    node->link = NULL;
    node->state = NODE_CLOSED;
    if (link != NULL) {
        link_drop(link);
        link_calls_end(client, link);
    }
    waiting_end(node);
    if (node->lookup_pending) uv_cancel((uv_req_t *)&node->lookup);
    uv_close((uv_handle_t *)&node->timer, timer_closed);
}

static void node_try(struct redis_node *node)
{
    char sentence[REDIS_SENTENCE_BYTES];
    node->state = NODE_CONNECTING;
    node->link = link_open(node, (const struct sockaddr *)&node->targets[node->target]);
    if (node->link != NULL) return;
    sentence_at(node, sentence, "no connection can be made from here");
    redis_say(node->client->redis, sentence);
    node_break(node, false);
}

static void lookup_done(uv_getaddrinfo_t *request, int status, struct addrinfo *found)
{
    struct redis_node *node = request->data;
    node->lookup_pending = false;
    if (node->state == NODE_CLOSED) {
        uv_freeaddrinfo(found);
        node_free(node);
        return;
    }
    node->targets_count = 0;
    for (struct addrinfo *one = found; one != NULL && node->targets_count < NODE_TARGETS_MAX; one = one->ai_next) {
        if (one->ai_addrlen > sizeof(node->targets[0])) continue;
        memcpy(&node->targets[node->targets_count++], one->ai_addr, one->ai_addrlen);
    }
    uv_freeaddrinfo(found);
    /* Patience may have ended meanwhile. */
    if (node->state != NODE_RESOLVING) return;
    if (status == 0 && node->targets_count > 0) {
        node_try(node);
        return;
    }
    char sentence[REDIS_SENTENCE_BYTES];
    sentence_at(node, sentence, status != 0 ? uv_strerror(status) : "its name has no address");
    redis_say(node->client->redis, sentence);
    node_break(node, false);
}

static void node_connect(struct redis_node *node)
{
    struct redis_client *client = node->client;
    const char *host = node->address.host;
    int port = node->address.port;
    uv_timer_start(&node->timer, patience_over, client->redis->options.connect_ms, 0);
    node->target = 0;
    if (uv_ip4_addr(host, port, (struct sockaddr_in *)&node->targets[0]) == 0 ||
        uv_ip6_addr(host, port, (struct sockaddr_in6 *)&node->targets[0]) == 0) {
        node->targets_count = 1;
        node_try(node);
        return;
    }
    node->state = NODE_RESOLVING;
    /* One that takes longer than our patience is left to end, and waited for. */
    if (node->lookup_pending) return;
    char service[8];
    snprintf(service, sizeof(service), "%d", port);
    struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
    node->lookup_pending = true;
    int failed = uv_getaddrinfo(client->loop, &node->lookup, lookup_done, host, service, &hints);
    if (failed != 0) lookup_done(&node->lookup, failed, NULL);
}

bool node_idle(const struct redis_node *node)
{
    return node->waiting.count == 0 && (node->link == NULL || node->link->first == node->link->next);
}

static bool put_info(struct redis_node *node)
{
    struct slice info = SLICE("INFO");
    return link_put(node->link, (struct link_entry){ .kind = ENTRY_INFO }, &info, 1);
}

void node_connected(struct redis_node *node)
{
    const struct redis_options *options = &node->client->redis->options;
    const char *password = node->as_sentinel ? options->sentinel_password : options->password;
    const char *user = node->as_sentinel ? "" : options->place.user;
    struct slice auth[3] = { SLICE("AUTH"), slice_of(user), slice_of(password) };
    char db[12];
    bool put = true;
    node->state = NODE_GREETING;
    if (password[0] != '\0' || user[0] != '\0') {
        struct link_entry entry = { .kind = ENTRY_AUTH };
        if (user[0] == '\0') auth[1] = auth[2];
        put = link_put(node->link, entry, auth, user[0] == '\0' ? 2 : 3);
    }
    if (put && options->place.db > 0 && !node->as_sentinel) {
        snprintf(db, sizeof(db), "%u", (unsigned)options->place.db);
        struct slice select[2] = { SLICE("SELECT"), slice_of(db) };
        put = link_put(node->link, (struct link_entry){ .kind = ENTRY_SELECT }, select, 2);
    }
    if (!put || !put_info(node)) node_break(node, false);
}

void node_lost(struct redis_node *node, const char *why)
{
    char sentence[REDIS_SENTENCE_BYTES];
    if (node->state == NODE_CONNECTING && node->target + 1 < node->targets_count) {
        link_drop(node->link);
        node->target++;
        node_try(node);
        return;
    }
    sentence_at(node, sentence, why);
    redis_say(node->client->redis, sentence);
    node_break(node, false);
}

/* Of a server that has never said who it is that is for somebody to mend. */
void node_garbled(struct redis_node *node, const char *why)
{
    char what[REDIS_SENTENCE_BYTES / 2];
    snprintf(what, sizeof(what), "what answers there does not speak as Redis does (%.100s): check the address in the URL",
             why);
    if (node->state == NODE_GREETING) sentence_at(node, node->client->unfit, what);
    node_lost(node, what);
}

void node_overdue(struct redis_node *node, uint32_t waited_ms)
{
    char at[REDIS_ADDRESS_TEXT_BYTES], sentence[REDIS_SENTENCE_BYTES];
    redis_address_print(at, &node->address);
    snprintf(sentence, sizeof(sentence), "%s at %s did not answer within %u ms: what was sent may have run or not.",
             node->as_sentinel ? "The Sentinel" : "Redis", at, (unsigned)waited_ms);
    redis_say(node->client->redis, sentence);
    node_break(node, true);
}

/* It is asked who it is behind all that it still has to answer. */
static void node_recheck(struct redis_node *node)
{
    uint64_t now_ms = uv_now(node->client->loop);
    if (node->rechecking || now_ms - node->rechecked_ms < RECHECK_MS_MIN || !put_info(node)) return;
    node->rechecking = true;
    node->rechecked_ms = now_ms;
}

/* A replica that took over is asked who it is now, also where no call would find out; so is one that nobody wanted for
 * a while. */
void node_want(struct redis_node *node)
{
    if (node->state == NODE_IDLE) node_connect(node);
    if (node->unwatched) node->facts.is_master = false;
    if (node->state == NODE_READY && !node->facts.is_master) node_recheck(node);
}

void node_demoted(struct redis_node *node)
{
    node->facts.is_master = false;
    node_recheck(node);
    route_node_changed(node->client, node);
}

static bool put_pulse(struct redis_node *node)
{
    const struct slice ask[2] = { SLICE("INFO"), SLICE("replication") };
    if (!link_put(node->link, (struct link_entry){ .kind = ENTRY_PULSE }, ask, 2)) return false;
    node->link->pulses++;
    return true;
}

/* Calls that are under way say the lineage that was: they are ended with the connection. */
static void pulse_answer(struct redis_node *node, const struct redis_reply *reply)
{
    node->link->pulses--;
    if (reply->type != REDIS_TEXT) return;
    switch (facts_changed(&node->facts, reply->text)) {
    case FACTS_SAME:
        break;
    case FACTS_OTHER_ROLE:
        node_demoted(node);
        break;
    case FACTS_OTHER_LINEAGE:
        node_lost(node, "its replication id has changed: what it has is looked at anew");
        break;
    }
}

void node_put(struct redis_node *node, struct redis_call *call)
{
    struct slice asking = SLICE("ASKING");
    call_leave(node->client, call);
    call->state.stage = CALL_SENT;
    call->state.node = node;
    bool put = !call->fresh || put_pulse(node);
    if (put && call->state.asking) put = link_put(node->link, (struct link_entry){ .kind = ENTRY_ASKING }, &asking, 1);
    if (!put || !link_put_call(node->link, call, node->facts.lineage)) call_finish(node->client, call, REDIS_BUSY, NULL);
}

bool node_load(struct redis_node *node, int script)
{
    struct slice load[3] = { SLICE("SCRIPT"), SLICE("LOAD"), slice_of(node->client->redis->options.scripts[script].text) };
    if (!link_put(node->link, (struct link_entry){ .kind = ENTRY_LOAD, .script = script }, load, 3)) return false;
    node->link->loads[script] = node->link->put;
    return true;
}

void node_submit(struct redis_node *node, struct redis_call *call)
{
    struct redis_client *client = node->client;
    if (node->state == NODE_READY) {
        if (node->facts.is_master || call->state.inner) {
            node_put(node, call);
            return;
        }
        node_recheck(node);
        route_look(client);
        call_park(client, call);
        return;
    }
    if (node->down) {
        call_finish(client, call, REDIS_DOWN, NULL);
        return;
    }
    call_leave(client, call);
    call->state.stage = CALL_WAITING;
    call->state.node = node;
    call_list_add(&node->waiting, call);
    node_want(node);
}

/* Once at a time, behind all that the server still has to answer. A loop that was kept from turning has answers to read
 * before it may say that they did not come. */
static void pulse_feel(uv_timer_t *timer)
{
    struct redis_node *node = timer->data;
    struct redis_client *client = node->client;
    struct link *link = node->link;
    uint64_t now_ms = uv_now(client->loop);
    bool late = now_ms - node->pulse_ms > 2 * PULSE_MS;
    node->pulse_ms = now_ms;
    if (!node->wanted) node->unwatched = true;
    if (!node->wanted) return;
    bool idle = link->first == link->next;
    if (link->pulses == 0 && !put_pulse(node) && idle) node_break(node, true);
    if (idle || late) return;
    /* What is no call has no time of its own, nor has one that is over; and nobody came to it before what stood ahead of it
     * was answered. */
    const struct link_entry *oldest = link_entry_at(link, link->first);
    uint64_t age_ms = (uv_hrtime() - oldest->put_ns) / 1000000, quiet_ms = now_ms - link->heard_ms;
    if (age_ms > quiet_ms) age_ms = quiet_ms;
    if (oldest->kind != ENTRY_CALL && age_ms >= client->redis->options.call_ms) node_overdue(node, (uint32_t)age_ms);
}

static void node_ready(struct redis_node *node)
{
    struct redis_client *client = node->client;
    node->pulse_ms = uv_now(client->loop);
    uv_timer_start(&node->timer, pulse_feel, PULSE_MS, PULSE_MS);
    if (node->ready_ms != 0) atomic_fetch_add_explicit(&client->reconnects, 1, memory_order_relaxed);
    node->state = NODE_READY;
    node->ready_ms = uv_now(client->loop);
    node->down = false;
    if (!node->as_sentinel) redis_reached(client->redis, node);
    route_node_changed(client, node);
    struct call_list waiting = node->waiting;
    node->waiting = (struct call_list){ 0 };
    while (waiting.first != NULL) {
        struct redis_call *call = waiting.first;
        call_list_remove(&waiting, call);
        call->state.stage = CALL_SENT; /* in no list */
        node_submit(node, call);
    }
}

static void node_unfit(struct redis_node *node, const char *sentence, bool for_good)
{
    redis_say(node->client->redis, sentence);
    if (for_good) snprintf(node->client->unfit, sizeof(node->client->unfit), "%s", sentence);
    node_break(node, false);
}

static void node_greeted(struct redis_node *node, const struct link_entry *entry, const struct redis_reply *reply)
{
    static const char *const asked[] = { [ENTRY_AUTH] = "AUTH", [ENTRY_SELECT] = "SELECT", [ENTRY_INFO] = "INFO" };
    char sentence[REDIS_SENTENCE_BYTES];
    struct facts facts = { 0 };
    struct facts_question question = { .facts = &facts,
                                       .address = &node->address,
                                       .kind = node->client->redis->options.place.kind,
                                       .as_sentinel = node->as_sentinel };
    if (reply->type == REDIS_FAIL) {
        facts_explain(&question, asked[entry->kind], reply->text, sentence);
        node_unfit(node, sentence, true);
        return;
    }
    if (entry->kind != ENTRY_INFO) return;
    node->rechecking = false;
    if (reply->type != REDIS_TEXT || !facts_read(&facts, reply->text)) {
        sentence_at(node, sentence, "what answers there is no Redis");
        node_unfit(node, sentence, true);
        return;
    }
    enum facts_verdict verdict = facts_judge(&question, sentence);
    if (verdict != FACTS_FIT) {
        node_unfit(node, sentence, verdict == FACTS_UNFIT);
        return;
    }
    node->facts = facts;
    node->unwatched = false;
    if (node->state == NODE_GREETING)
        node_ready(node);
    else
        route_node_changed(node->client, node);
}

void node_answer(struct redis_node *node, struct link_entry entry, const struct redis_reply *reply)
{
    struct redis_client *client = node->client;
    switch (entry.kind) {
    case ENTRY_CALL: {
        uint64_t took_us = (uv_hrtime() - entry.put_ns) / 1000;
        uint64_t mean_us = atomic_load_explicit(&client->latency_us, memory_order_relaxed);
        mean_us = mean_us == 0 ? took_us : (mean_us * 15 + took_us + 8) / 16;
        atomic_store_explicit(&client->latency_us, mean_us, memory_order_relaxed);
        if (entry.call->holds) node->link->freed_ms = uv_now(client->loop);
        call_answered(node, entry.call, &entry, reply);
        break;
    }
    case ENTRY_AUTH:
    case ENTRY_SELECT:
    case ENTRY_INFO:
        node_greeted(node, &entry, reply);
        break;
    case ENTRY_LOAD:
        if (reply->type == REDIS_FAIL) {
            char what[REDIS_SENTENCE_BYTES / 2], sentence[REDIS_SENTENCE_BYTES];
            snprintf(what, sizeof(what), "it refuses the script %s: %.120s",
                     client->redis->options.scripts[entry.script].name, reply->text.data);
            sentence_at(node, sentence, what);
            redis_say(client->redis, sentence);
        }
        break;
    case ENTRY_PULSE:
        pulse_answer(node, reply);
        break;
    case ENTRY_GONE:
    case ENTRY_ASKING:
        break;
    }
}
