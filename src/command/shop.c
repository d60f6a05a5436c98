#include "command/shop.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/text.h"
#include "guard/exchange.h"
#include "guard/guard.h"
#include "ledger/agreed.h"
#include "ledger/publications.h"
#include "people/payment_keys.h"
#include "people/people.h"
#include "wire/jwt.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define REACH_MS 10000
#define PUBLISHERS_WAIT_MS 10000 /* one whose broker is silent looks at the ledger every 7 s or so */

/* A ledger that nodes have filed into has orders that no journal knows: an engine cannot go on from there. */
static enum fault local_check(const struct shop *shop)
{
    char kept[AGREED_BYTES];
    enum fault fault = ledger_agreed(shop->ledger, AGREED_GATE, kept);
    if (fault != FAULT_NONE || kept[0] == '\0') return fault;
    log_error("main",
              "refusing to start: this ledger belongs to nodes whose gate is in Redis; set gate to the same URL as they");
    return FAULT_CONFIG;
}

void shop_say_ledger_damaged(const struct config *config, const struct ledger_place *place, const char *reason)
{
    log_error("main",
              "refusing to start: the ledger %s cannot be used: %s; put it back from a copy; `stampede audit --data %s` "
              "shows what is wrong with it, `stampede repair --data %s` what can be done without a copy",
              place->path != NULL ? place->path : place->name,
              reason[0] != '\0' ? reason : "it cannot be read, as the line before says", config->data, config->data);
}

/* The rest is for the system, and for what is not counted as ours: pages of files, buffers of sockets. */
#define MEMORY_SHARE_PERCENT 80

uint64_t shop_memory_max(const struct config *config)
{
    if (config->memory_mb_max > 0) return (uint64_t)config->memory_mb_max << 20;
    return memory_machine() / 100 * MEMORY_SHARE_PERCENT;
}

static enum fault local_open(struct shop *shop)
{
    const struct config *config = shop->config;
    struct journal_damage damage = { .of_ledger = true }; /* which is read first */
    const struct gate_options options = {
        .folder = config->data,
        .segment_bytes = (uint32_t)config->journal_segment_mb << 20,
        .space_bytes_min = (uint64_t)config->space_mb_min << 20,
        .orders_max = (uint32_t)config->orders_max,
        .memory_bytes_max = shop_memory_max(config),
        .sales_per_seller_max = (uint32_t)config->sales_per_seller_max,
        .on_poison = shop->on_poison,
    };
    enum fault fault = local_check(shop);
    if (fault == FAULT_NONE) fault = gate_open(&shop->gate, &options, shop->ledger, &damage);
    if (fault != FAULT_DAMAGE) return fault;
    shop->damaged = true;
    if (damage.of_ledger)
        shop_say_ledger_damaged(config, shop->ledger_place, damage.reason);
    else
        log_error("main",
                  "refusing to start: %s is damaged at offset %" PRIu64
                  ": %s; `stampede repair --data %s` shows what can be done",
                  damage.file, damage.offset, damage.reason, config->data);
    return fault;
}

#define WORD_BYTES 16
/* Sixteen bytes that all nodes have: those of the first to say theirs. */
static enum fault word_agree(struct ledger *ledger, const char *name, uint8_t word[WORD_BYTES])
{
    char text[AGREED_BYTES] = "", kept[AGREED_BYTES];
    hex_encode(text, word, WORD_BYTES);
    text[2 * WORD_BYTES] = '\0';
    enum fault fault = ledger_agree(ledger, name, text, kept);
    if (fault != FAULT_NONE) return fault;
    if (strlen(kept) == 2 * WORD_BYTES && hex_decode(word, slice_of(kept))) return FAULT_NONE;
    log_error("main", "what the ledger keeps for all nodes under \"%s\" cannot be read", name);
    return FAULT_DAMAGE;
}

/* That of the journal which this ledger was filed from before, if there was one. */
static enum fault uuid_agree(struct ledger *ledger, uint8_t uuid[WORD_BYTES])
{
    static const uint8_t none[WORD_BYTES];
    struct ledger_point point;
    enum fault fault = ledger_point(ledger, &point);
    if (fault != FAULT_NONE) return fault;
    if (memcmp(point.uuid, none, sizeof none) == 0) random_bytes(point.uuid, sizeof point.uuid);
    memcpy(uuid, point.uuid, WORD_BYTES);
    return word_agree(ledger, AGREED_UUID, uuid);
}

/* One word about where the keys stand. */
struct shop_place_word {
    const char *name, *setting, *here;
};
static enum fault place_check(struct ledger *ledger, const struct shop_place *place, const struct shop_place_word *word,
                              char sentence[SHOP_SENTENCE_BYTES])
{
    char kept[AGREED_BYTES];
    enum fault fault = place->keep ? ledger_agree(ledger, word->name, word->here, kept)
                                   : ledger_agreed(ledger, word->name, kept);
    if (fault != FAULT_NONE || kept[0] == '\0' || strcmp(kept, word->here) == 0) return fault;
    snprintf(sentence, SHOP_SENTENCE_BYTES,
             "%s is %s here and %s on the nodes of this ledger: set it as they have it; to change it on all of "
             "them, stop them and delete the row '%s' of the table agreed",
             word->setting, word->here, kept, word->name);
    return FAULT_CONFIG;
}

enum fault shop_place_check(struct ledger *ledger, const struct shop_place *place, char sentence[SHOP_SENTENCE_BYTES])
{
    char database[16];
    snprintf(database, sizeof database, "%u", place->redis->db);
    const struct shop_place_word prefix = { AGREED_PREFIX, "redis_prefix", place->prefix },
                                 number = { AGREED_DATABASE, "the number of the database in the URL of gate", database };
    enum fault fault = place_check(ledger, place, &prefix, sentence);
    return fault != FAULT_NONE ? fault : place_check(ledger, place, &number, sentence);
}

static enum fault place_agree(const struct shop *shop)
{
    char sentence[SHOP_SENTENCE_BYTES];
    const struct shop_place place = { &shop->place->redis.place, shop->config->redis_prefix, true };
    enum fault fault = shop_place_check(shop->ledger, &place, sentence);
    if (fault == FAULT_CONFIG) log_error("main", "refusing to start: %s", sentence);
    return fault;
}

static enum gate_ack ack_of(const char *word)
{
    return strcmp(word, "gate") == 0 ? GATE_ACK_GATE : strcmp(word, "replica") == 0 ? GATE_ACK_REPLICA : GATE_ACK_LEDGER;
}

static enum fault shared_open(struct shop *shop)
{
    const struct config *config = shop->config;
    char sentence[REDIS_SENTENCE_BYTES], kept[AGREED_BYTES];
    struct gate_shared_options options = {
        .prefix = config->redis_prefix,
        .ledger = shop->ledger_place,
        .ack = ack_of(config->ack),
        .replicas = (uint32_t)config->replicas,
        .replica_ms = (uint32_t)config->replica_ms,
        .node = (uint32_t)config->node,
        .log_max = (uint32_t)config->stream_max,
        .sales_per_seller_max = (uint32_t)config->sales_per_seller_max,
        .filer_threads = (uint32_t)config->filer_threads,
        .warm_before_s = (uint32_t)config->warm_before_s,
        .share_percent = (uint32_t)config->share_percent,
    };
    if (strcmp(config->ledger, "sqlite") == 0)
        log_warn("main", "gate is in Redis and the ledger is a file of this machine: no other node can join");
    enum fault fault = redis_open(&shop->redis, &shop->place->redis);
    if (fault != FAULT_NONE) return fault;
    fault = redis_reach(shop->redis, REACH_MS, sentence);
    if (fault != FAULT_NONE) {
        log_error("main", "refusing to start: gate: %s", sentence);
        return fault;
    }
    fault = ledger_agree(shop->ledger, AGREED_GATE, "redis", kept);
    if (fault == FAULT_NONE) fault = place_agree(shop);
    if (fault == FAULT_NONE) fault = uuid_agree(shop->ledger, options.uuid);
    options.redis = shop->redis;
    return fault != FAULT_NONE ? fault : gate_open_shared(&shop->gate, &options);
}

enum fault shop_open(struct shop *shop)
{
    enum fault fault = shop->place->shared ? shared_open(shop) : local_open(shop);
    if (fault == FAULT_NONE) fault = gate_start(shop->gate);
    if (fault != FAULT_NONE) shop_close(shop);
    return fault;
}

void shop_close(struct shop *shop)
{
    if (shop->gate != NULL) gate_close(shop->gate);
    if (shop->redis != NULL) redis_close(shop->redis);
    shop->gate = NULL;
    shop->redis = NULL;
}

static uint32_t nodes_count(void *gate)
{
    struct gate_status status;
    gate_status(gate, &status);
    return status.nodes;
}

enum fault shop_share_limits(const struct shop *shop, struct guard *guard)
{
    uint8_t secret[WORD_BYTES];
    const struct exchange_options options = {
        .redis = shop->redis,
        .script = COMMAND_SCRIPT_SPEND,
        .script_gossip = COMMAND_SCRIPT_GOSSIP,
        .prefix = shop->config->redis_prefix,
        .nodes = nodes_count,
        .arg = shop->gate,
    };
    if (shop->redis == NULL) return FAULT_NONE;
    random_bytes(secret, sizeof secret);
    enum fault fault = word_agree(shop->ledger, AGREED_LIMITS, secret);
    return fault == FAULT_NONE ? guard_share(guard, &options, secret) : fault;
}

static void logged_out(void *people, uint64_t token_id, uint64_t expires_ms)
{
    people_logged_out(people, token_id, expires_ms);
}

void shop_tell_logouts(const struct shop *shop, struct people *people)
{
    const struct gate_logouts logouts = { logged_out, people };
    gate_tell_logouts(shop->gate, people != NULL ? &logouts : NULL);
}

static enum fault fingerprint(const struct jwt_ring *ring, size_t n, char out[AGREED_BYTES])
{
    enum { BYTES = 16 };
    uint8_t derived[JWT_DERIVED_BYTES];
    enum fault fault = jwt_ring_derive(ring, n, SLICE("fingerprint"), derived);
    if (fault != FAULT_NONE) return fault;
    hex_encode(out, derived, BYTES);
    out[2 * BYTES] = '\0';
    return FAULT_NONE;
}

/* While keys are changed a node has those from before, too: one that has neither is a stranger. */
enum fault shop_agree_keys(const struct shop *shop, const struct jwt_ring *ring)
{
    char newest[AGREED_BYTES], mine[AGREED_BYTES], kept[AGREED_BYTES];
    if (shop->redis == NULL) return FAULT_NONE;
    enum fault fault = fingerprint(ring, 0, newest);
    if (fault == FAULT_NONE) fault = ledger_agree(shop->ledger, AGREED_KEYS, newest, kept);
    for (size_t n = 0; n < jwt_ring_count(ring) && fault == FAULT_NONE; n++) {
        fault = fingerprint(ring, n, mine);
        if (fault == FAULT_NONE && strcmp(mine, kept) == 0)
            return n == 0 ? FAULT_NONE : ledger_agree_anew(shop->ledger, AGREED_KEYS, newest);
    }
    if (fault != FAULT_NONE) return fault;
    log_error("main",
              "refusing to start: the keys that sign logins are not those of the other nodes; give all nodes the same "
              "file (option keys) or STAMPEDE_KEYS_TEXT");
    return FAULT_CONFIG;
}

/* The last line of the file is the newest. Secrets are replaced while nodes run, too, and what came before is then not known
 * here: so this is no reason to refuse, and the next node is held against this one. */
enum fault shop_compare_payments(const struct shop *shop, struct payment_keys *keys)
{
    uint8_t mine[PAYMENT_KEYS_MAX][PAYMENT_FINGERPRINT_BYTES];
    char newest[AGREED_BYTES], text[AGREED_BYTES], kept[AGREED_BYTES];
    if (shop->redis == NULL) return FAULT_NONE;
    size_t count = payment_keys_fingerprints(keys, mine);
    newest[hex_encode(newest, mine[count - 1], sizeof mine[count - 1])] = '\0';
    enum fault fault = ledger_agree(shop->ledger, AGREED_PAYMENTS, newest, kept);
    if (fault != FAULT_NONE || strcmp(newest, kept) == 0) return fault;
    bool common = false;
    for (size_t i = 0; i < count && !common; i++) {
        text[hex_encode(text, mine[i], sizeof mine[i])] = '\0';
        common = strcmp(text, kept) == 0;
    }
    if (!common)
        log_warn("main", "payment_keys lacks the secret of the node that started before this one: unless all were replaced "
                         "since, some nodes will refuse payments (401); give all nodes the same file (option payment_keys) "
                         "or STAMPEDE_PAYMENT_KEYS_TEXT");
    return ledger_agree_anew(shop->ledger, AGREED_PAYMENTS, newest);
}

static bool shop_publishes(const struct shop *shop)
{
    return strcmp(shop->config->publish, "off") != 0;
}

enum fault shop_publishing_begin(const struct shop *shop)
{
    const struct publishing publishing = { shop_publishes(shop), (uint64_t)shop->config->publish_waiting_max };
    if (!publishing.on && shop->place->shared) return FAULT_NONE;
    return ledger_publishing_set(shop->ledger, &publishing, gate_now_ms(shop->gate));
}

static void publishing_unsaid(void)
{
    log_warn("main", "the ledger did not say whether events are published: it stays as it is");
}

uint64_t shop_publishing_ask(const struct shop *shop)
{
    enum publishing_state before;
    if (shop_publishes(shop) || !shop->place->shared) return 0;
    enum fault fault = ledger_publishing_turn(shop->ledger, PUBLISHING_ASKED, gate_now_ms(shop->gate), &before);
    if (fault != FAULT_NONE) publishing_unsaid();
    return fault != FAULT_NONE || before == PUBLISHING_OFF ? 0 : mono_ms() + PUBLISHERS_WAIT_MS;
}

void shop_publishing_settle(const struct shop *shop)
{
    enum publishing_state before;
    enum fault fault = ledger_publishing_turn(shop->ledger, PUBLISHING_OFF, gate_now_ms(shop->gate), &before);
    if (fault != FAULT_NONE)
        publishing_unsaid();
    else if (before == PUBLISHING_ASKED)
        log_warn("main", "events were published until now, and from now on are not: no node that runs has publish");
    else if (before == PUBLISHING_ON)
        log_error("main", "this node was started without publish, and another publishes: give all nodes the same publish");
}
