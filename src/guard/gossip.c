#include "guard/gossip.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "base/text.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ASK_MS 50 /* between two questions, while there is nothing to tell */
#define BATCH 128
#define KEY_BYTES 128
#define ENTRY_ID_BYTES 48

/* guard/scripts/gossip.lua. */
extern const char lua_gossip[];
const struct redis_script gossip_script = { "gossip", lua_gossip };

/* What stands in Redis, in hexadecimal and as it is in memory: all nodes are of one byte order. */
#define ENTRY_TEXT_BYTES (2 * sizeof(struct entry))
struct entry {
    uint64_t node; /* whose it is: one does not hear one's own */
    struct login_event event;
};

struct gossip {
    struct redis_call call; /* first */
    struct gossip_options options;
    uint64_t node;
    bool under_way;
    bool refused; /* and the log has a line about it */
    uint64_t asked_ms;
    uint32_t count; /* of what is being told */
    char entries[BATCH][ENTRY_TEXT_BYTES];
    char key[KEY_BYTES];
    char read[ENTRY_ID_BYTES]; /* up to which entry */
    struct slice argv[2 + BATCH];
    _Atomic uint64_t told, lost;
};

static void entry_hear(struct gossip *gossip, const struct redis_reply *age, const struct redis_reply *what, uint64_t now_ms)
{
    struct entry entry;
    if (age->type != REDIS_NUMBER || what->type != REDIS_TEXT || what->text.len != ENTRY_TEXT_BYTES) return;
    if (!hex_decode((uint8_t *)&entry, what->text)) return;
    if (entry.node == gossip->node || entry.event.news >= LOGIN_NEWS_COUNT) return;
    uint64_t age_ms = age->number > 0 ? (uint64_t)age->number : 0;
    logins_hear(gossip->options.logins, &entry.event, age_ms < now_ms ? now_ms - age_ms : 0);
}

static void reply_hear(struct gossip *gossip, const struct redis_reply *reply)
{
    uint64_t now_ms = mono_ms();
    const struct slice *last = &reply->items[0].text;
    if (reply->items[0].type != REDIS_TEXT || last->len >= sizeof gossip->read) return;
    memcpy(gossip->read, last->data, last->len);
    gossip->argv[1] = (struct slice){ gossip->read, last->len };
    for (size_t i = 1; i + 1 < reply->count; i += 2) entry_hear(gossip, &reply->items[i], &reply->items[i + 1], now_ms);
}

static void answered(struct redis_call *call, const struct redis_reply *reply)
{
    struct gossip *gossip = (struct gossip *)call;
    bool good = call->result == REDIS_ANSWERED && reply->type == REDIS_LIST && reply->count > 0;
    gossip->under_way = false;
    atomic_fetch_add_explicit(good ? &gossip->told : &gossip->lost, gossip->count, memory_order_relaxed);
    if (good) reply_hear(gossip, reply);
    bool refused = call->result == REDIS_FAILED || call->result == REDIS_REFUSED;
    if (refused && !gossip->refused)
        log_error("guard", "Redis refused what happened to logins, tries count on this node alone: %.*s",
                  (int)reply->text.len, reply->text.data);
    if (good || refused) gossip->refused = refused;
}

bool gossip_talk(struct gossip *gossip, struct redis_client *client, uint64_t now_ms)
{
    struct login_event events[BATCH];
    if (gossip->under_way) return false;
    gossip->count = logins_noted(gossip->options.logins, events, BATCH);
    if (gossip->count == 0 && now_ms < gossip->asked_ms + ASK_MS) return false;
    for (uint32_t i = 0; i < gossip->count; i++) {
        const struct entry entry = { .node = gossip->node, .event = events[i] };
        hex_encode(gossip->entries[i], (const uint8_t *)&entry, sizeof entry);
        gossip->argv[2 + i] = (struct slice){ gossip->entries[i], ENTRY_TEXT_BYTES };
    }
    gossip->call.argc = 2 + gossip->count;
    gossip->asked_ms = now_ms;
    gossip->under_way = true;
    bool tells = gossip->count > 0;
    redis_call(client, &gossip->call);
    return tells;
}

enum fault gossip_open(struct gossip **out, const struct gossip_options *options)
{
    struct gossip *gossip = calloc(1, sizeof *gossip);
    if (gossip == NULL) return FAULT_MEMORY;
    gossip->options = *options;
    random_bytes(&gossip->node, sizeof gossip->node);
    snprintf(gossip->key, sizeof gossip->key, "%s{logins}", options->prefix);
    gossip->argv[0] = slice_of(gossip->key);
    gossip->argv[1] = slice_of(gossip->read);
    gossip->call = (struct redis_call){ .key = gossip->argv[0],
                                        .script = options->script,
                                        .keys = 1,
                                        .argv = gossip->argv,
                                        .time_ms = options->time_ms,
                                        .lenient = true,
                                        .done = answered };
    *out = gossip;
    return FAULT_NONE;
}

void gossip_close(struct gossip *gossip)
{
    free(gossip);
}

void gossip_status(const struct gossip *gossip, struct gossip_status *out)
{
    out->told = atomic_load_explicit(&gossip->told, memory_order_relaxed);
    out->lost = atomic_load_explicit(&gossip->lost, memory_order_relaxed);
}
