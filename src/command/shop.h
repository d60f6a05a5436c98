/* shop: the gate that the options ask for, and what the nodes of a shop agree on before one of them serves. */
#ifndef STAMPEDE_COMMAND_SHOP_H
#define STAMPEDE_COMMAND_SHOP_H

#include "command/command.h"
#include "gate/gate.h"

struct jwt_ring;
struct payment_keys;

struct shop {
    const struct config *config;
    const struct command_gate *place;
    const struct ledger_place *ledger_place;
    struct ledger *ledger;
    void (*on_poison)(void *arg);
    /* What was opened. */
    struct redis *redis; /* NULL: the gate is of this process */
    struct gate *gate;
    bool damaged; /* the journal or the ledger, which has been said */
};
/* Opens the gate and starts it. A fault has been logged, with what to do. */
enum fault shop_open(struct shop *shop) MUST_USE;
void shop_close(struct shop *shop);
/* Bytes that the server may have in memory, by memory_mb_max. */
uint64_t shop_memory_max(const struct config *config);
/* The sentence for a ledger that is damaged. reason: empty where it has been logged. */
void shop_say_ledger_damaged(const struct config *config, const struct ledger_place *place, const char *reason);
/* Whether the keys stand in Redis where the nodes of this ledger have them; FAULT_CONFIG with a sentence that says what to
 * do. What none has said yet becomes theirs if it is kept. */
#define SHOP_SENTENCE_BYTES 512
struct shop_place {
    const struct redis_place *redis;
    const char *prefix;
    bool keep;
};
enum fault shop_place_check(struct ledger *ledger, const struct shop_place *place,
                            char sentence[SHOP_SENTENCE_BYTES]) MUST_USE;
/* Logins and purchase tokens of one node must count on all: the keys that sign them are compared through the ledger. */
enum fault shop_agree_keys(const struct shop *shop, const struct jwt_ring *ring) MUST_USE;
/* A payment must be taken at every node: one that has other secrets than the one before it says so in the log. */
enum fault shop_compare_payments(const struct shop *shop, struct payment_keys *keys) MUST_USE;

/* Whether events are published. begin: before anything is filed. ask: once this node serves, which no node that failed to
 * start gets to; a node of several that does not publish asks the others whether any of them does, and settles it at the
 * monotonic time that is answered; 0: there is nothing to settle. settle: turns it off if none has said so. */
enum fault shop_publishing_begin(const struct shop *shop) MUST_USE;
uint64_t shop_publishing_ask(const struct shop *shop);
void shop_publishing_settle(const struct shop *shop);

/* What one user and one address may send counts on all nodes together; nothing to do where there is one. */
struct guard;
enum fault shop_share_limits(const struct shop *shop, struct guard *guard) MUST_USE;

/* Tokens that are logged out on another node count no more here; NULL: before people are closed. */
struct people;
void shop_tell_logouts(const struct shop *shop, struct people *people);

#endif
