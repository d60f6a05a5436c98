#include "redis/client.h"

#include "base/text.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>

/* Where everything is well: a Cluster tells by MOVED when something has changed, a Sentinel only when it is asked. */
#define LOOK_MS_CLUSTER 15000
#define LOOK_MS_SENTINEL 1000
/* Where a master is missing: its successor may be elected any moment. */
#define LOOK_MS_MISSING 100
/* After a hint; many come at once. */
#define LOOK_MS_HINT 20
/* When nobody could tell. */
#define LOOK_MS_FAILED_MIN 50
#define LOOK_MS_FAILED_MAX 1000
#define SLOTS_ENTRY_PARTS_MIN 3 /* first slot, last slot, master */

static enum redis_kind kind_of(const struct redis_client *client)
{
    return client->redis->options.place.kind;
}

struct redis_node *route_choose(struct redis_client *client, struct slice key)
{
    if (kind_of(client) != REDIS_CLUSTER) return client->master;
    if (key.len > 0) return client->slots[redis_slot(key)];
    struct redis_node *any = NULL;
    for (uint32_t i = 0; i < client->nodes_count; i++) {
        struct redis_node *node = client->nodes[i];
        if (!node->wanted) continue;
        if (node->state == NODE_READY && node->facts.is_master) return node;
        any = node;
    }
    return any;
}

static struct redis_node *node_at(struct redis_client *client, const struct redis_address *address, bool as_sentinel)
{
    for (uint32_t i = 0; i < client->nodes_count; i++) {
        struct redis_node *node = client->nodes[i];
        if (node->as_sentinel == as_sentinel && redis_address_equal(&node->address, address)) return node;
    }
    return node_open(client, address, as_sentinel);
}

struct redis_node *route_add(struct redis_client *client, const struct redis_address *address)
{
    return node_at(client, address, false);
}

static void look_in(struct redis_client *client, uint64_t ms);

void route_moved(struct redis_client *client, struct slice key, struct redis_node *node)
{
    if (kind_of(client) != REDIS_CLUSTER || key.len == 0) return;
    client->slots[redis_slot(key)] = node;
    node->wanted = true;
    node_want(node);
    client_count_masters(client);
    route_look(client);
}

void route_look(struct redis_client *client)
{
    if (kind_of(client) == REDIS_SINGLE || client->closing || client->questioned != NULL) return;
    if (uv_is_active((uv_handle_t *)&client->look) && uv_timer_get_due_in(&client->look) <= LOOK_MS_HINT) return;
    look_in(client, LOOK_MS_HINT / 2 + client_dice(client, LOOK_MS_HINT / 2));
}

void route_node_changed(struct redis_client *client, struct redis_node *node)
{
    client_count_masters(client);
    if (node->wanted && !client->closing && (node->state != NODE_READY || !node->facts.is_master)) route_look(client);
}

/* Whoever is down is asked only when all are. NULL: there is nobody. */
static struct redis_node *source_next(struct redis_client *client)
{
    bool sentinels = kind_of(client) == REDIS_SENTINEL;
    struct redis_node *last = NULL;
    uint32_t last_at = 0;
    for (uint32_t i = 0; i < client->nodes_count; i++) {
        uint32_t at = (client->question_next + i) % client->nodes_count;
        struct redis_node *node = client->nodes[at];
        if (node->as_sentinel != sentinels) continue;
        if (!node->down) {
            client->question_next = at + 1;
            return node;
        }
        if (last == NULL) {
            last = node;
            last_at = at;
        }
    }
    client->question_next = last_at + 1;
    return last;
}

static void source_ask(struct redis_client *client)
{
    struct redis_node *node = source_next(client);
    assert(node != NULL);
    struct redis_call *call = &client->question;
    call->state.inner = true;
    client->questioned = node;
    call_begin(client, call, call->time_ms);
    node_submit(node, call);
}

static void look_over(uv_timer_t *timer)
{
    struct redis_client *client = timer->data;
    if (client->questioned == NULL) source_ask(client);
}

static void look_in(struct redis_client *client, uint64_t ms)
{
    uv_timer_start(&client->look, look_over, ms, 0);
}

/* [host, port, …] of CLUSTER SLOTS; a host that is left out is the one that answered. */
static bool address_read(const struct redis_node *asked, const struct redis_reply *reply, struct redis_address *out)
{
    if (reply->type != REDIS_LIST || reply->count < 2) return false;
    const struct redis_reply *host = &reply->items[0], *port = &reply->items[1];
    uint64_t number = port->type == REDIS_NUMBER && port->number > 0 ? (uint64_t)port->number : 0;
    if (port->type == REDIS_TEXT && !text_to_u64(port->text, &number)) return false;
    if (number == 0 || number > UINT16_MAX) return false;
    *out = (struct redis_address){ .port = (uint16_t)number };
    if (host->type == REDIS_NIL || (host->type == REDIS_TEXT && (host->text.len == 0 || slice_is(host->text, "?")))) {
        memcpy(out->host, asked->address.host, sizeof(out->host));
        return true;
    }
    if (host->type != REDIS_TEXT || host->text.len > REDIS_HOST_BYTES_MAX) return false;
    memcpy(out->host, host->text.data, host->text.len);
    return true;
}

static bool slots_valid(const struct redis_node *asked, const struct redis_reply *reply)
{
    struct redis_address address;
    if (reply->type != REDIS_LIST) return false;
    for (size_t i = 0; i < reply->count; i++) {
        const struct redis_reply *entry = &reply->items[i];
        if (entry->type != REDIS_LIST || entry->count < SLOTS_ENTRY_PARTS_MIN) return false;
        const struct redis_reply *low = &entry->items[0], *high = &entry->items[1];
        if (low->type != REDIS_NUMBER || high->type != REDIS_NUMBER) return false;
        if (low->number < 0 || high->number >= REDIS_SLOTS || low->number > high->number) return false;
        if (!address_read(asked, &entry->items[2], &address)) return false;
    }
    return reply->count > 0;
}

/* Those who serve nothing any more, and whom nobody named, are let go once nobody waits for them. */
static void nodes_sweep(struct redis_client *client)
{
    for (uint32_t i = client->nodes_count; i-- > 0;) {
        struct redis_node *node = client->nodes[i];
        if (!node->wanted && !node->seed && node_idle(node)) node_close(node);
    }
}

static bool slots_take(struct redis_client *client, struct redis_node *asked, const struct redis_reply *reply)
{
    char at[REDIS_ADDRESS_TEXT_BYTES], sentence[REDIS_SENTENCE_BYTES];
    if (!slots_valid(asked, reply)) {
        redis_address_print(at, &asked->address);
        snprintf(sentence, sizeof(sentence),
                 "The Redis Cluster at %s serves no slots yet: make it with redis-cli --cluster create.", at);
        redis_say(client->redis, sentence);
        return false;
    }
    for (uint32_t i = 0; i < client->nodes_count; i++) client->nodes[i]->wanted = false;
    memset(client->slots, 0, sizeof(client->slots));
    for (size_t i = 0; i < reply->count; i++) {
        const struct redis_reply *entry = &reply->items[i];
        struct redis_address address;
        if (!address_read(asked, &entry->items[2], &address)) continue;
        struct redis_node *node = route_add(client, &address);
        if (node == NULL) continue;
        node->wanted = true;
        for (int64_t slot = entry->items[0].number; slot <= entry->items[1].number; slot++) client->slots[slot] = node;
    }
    nodes_sweep(client);
    for (uint32_t i = 0; i < client->nodes_count; i++) {
        if (client->nodes[i]->wanted) node_want(client->nodes[i]);
    }
    return true;
}

static bool master_take(struct redis_client *client, struct redis_node *asked, const struct redis_reply *reply)
{
    struct redis_address address;
    char at[REDIS_ADDRESS_TEXT_BYTES], sentence[REDIS_SENTENCE_BYTES];
    if (!address_read(asked, reply, &address)) {
        redis_address_print(at, &asked->address);
        snprintf(sentence, sizeof(sentence),
                 "The Sentinel at %s watches no master called %s: check the end of the Redis URL.", at,
                 client->redis->options.place.master_name);
        redis_say(client->redis, sentence);
        snprintf(client->unfit, sizeof(client->unfit), "%s", sentence);
        return false;
    }
    struct redis_node *old = client->master, *node = route_add(client, &address);
    if (node == NULL) return false;
    if (node == old) return true;
    client->master = node;
    node->wanted = true;
    node_want(node);
    /* The old one may still take writes, which the new one will never know. */
    if (old != NULL) node_close(old);
    return true;
}

static void look_again(struct redis_client *client, bool told)
{
    if (client->closing) return;
    uint32_t sources = 0;
    for (uint32_t i = 0; i < client->nodes_count; i++) {
        sources += client->nodes[i]->as_sentinel == (kind_of(client) == REDIS_SENTINEL);
    }
    if (!told) {
        client->questions_failed++;
        if (client->questions_failed >= sources) client->lost = true;
        uint32_t rounds = client->questions_failed / sources;
        look_in(client, rounds == 0 ? 1 : client_backoff_ms(client, rounds, LOOK_MS_FAILED_MIN, LOOK_MS_FAILED_MAX));
        return;
    }
    client->questions_failed = 0;
    client->lost = false;
    client->routed = true;
    client_count_masters(client);
    bool missing = atomic_load(&client->masters) != atomic_load(&client->masters_ready);
    uint32_t usual = kind_of(client) == REDIS_CLUSTER ? LOOK_MS_CLUSTER : LOOK_MS_SENTINEL;
    uint32_t ms = missing ? LOOK_MS_MISSING : usual;
    look_in(client, ms + client_dice(client, ms / 4));
}

static void question_done(struct redis_call *call, const struct redis_reply *reply)
{
    struct redis_client *client = (struct redis_client *)((char *)call - offsetof(struct redis_client, question));
    struct redis_node *asked = client->questioned;
    client->questioned = NULL;
    bool told = false;
    if (call->result == REDIS_ANSWERED && !client->closing) {
        bool cluster = kind_of(client) == REDIS_CLUSTER;
        told = cluster ? slots_take(client, asked, reply) : master_take(client, asked, reply);
    } else if (call->result == REDIS_FAILED) {
        struct facts_question question = { .address = &asked->address, .as_sentinel = asked->as_sentinel };
        char sentence[REDIS_SENTENCE_BYTES];
        facts_explain(&question, asked->as_sentinel ? "SENTINEL" : "CLUSTER SLOTS", reply->text, sentence);
        redis_say(client->redis, sentence);
    }
    look_again(client, told);
}

enum fault route_start(struct redis_client *client)
{
    const struct redis_place *place = &client->redis->options.place;
    for (uint32_t i = 0; i < place->seeds_count; i++) {
        struct redis_node *node = node_at(client, &place->seeds[i], place->kind == REDIS_SENTINEL);
        if (node == NULL) return FAULT_MEMORY;
        node->seed = true;
    }
    client->question = (struct redis_call){ .script = REDIS_NO_SCRIPT,
                                            .argc = place->kind == REDIS_CLUSTER ? 2 : 3,
                                            .argv = client->question_parts,
                                            .time_ms = client->redis->options.connect_ms,
                                            .done = question_done };
    client->question_parts[0] = place->kind == REDIS_CLUSTER ? SLICE("CLUSTER") : SLICE("SENTINEL");
    client->question_parts[1] = place->kind == REDIS_CLUSTER ? SLICE("SLOTS") : SLICE("GET-MASTER-ADDR-BY-NAME");
    client->question_parts[2] = slice_of(place->master_name);
    if (place->kind != REDIS_SINGLE) {
        look_in(client, 0);
        return FAULT_NONE;
    }
    client->master = client->nodes[0];
    client->master->wanted = true;
    client->routed = true;
    node_want(client->master);
    client_count_masters(client);
    return FAULT_NONE;
}
