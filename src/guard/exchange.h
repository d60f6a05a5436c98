/* exchange: tells other nodes, through Redis, what this one has given away of limits that they share, and hears what all
 * have given away together (guard/allowance.h). A thread of its own: no request ever waits for Redis here.
 *
 * In Redis a bucket is what it is here: one number, the time at which it is full again. Those of a group are the members of
 * one sorted set, P{limits:GROUP}, by that time; who is full again is forgotten. The clock is Redis's. A bucket of a user
 * who stays on one node is never emptier there than it is here.
 *
 * Where Redis does not answer in time, what was to be told is dropped, and the limits of each node hold for that node. */
#ifndef STAMPEDE_GUARD_EXCHANGE_H
#define STAMPEDE_GUARD_EXCHANGE_H

#include "guard/allowance.h"
#include "guard/logins.h"
#include "redis/redis.h"

#define EXCHANGE_MS 5        /* between two tellings, while there is something to tell */
#define EXCHANGE_SLOW_MS 200 /* an answer that takes longer is none */

struct exchange;
extern const struct redis_script exchange_script;

struct exchange_options {
    struct allowance *allowance; /* that shares; the caller's */
    struct redis *redis;         /* the caller's */
    struct logins *logins;       /* that are told and heard of on the same thread (guard/gossip.h); the caller's */
    int script, script_gossip;   /* among those of redis: the numbers of exchange_script and gossip_script */
    const char *prefix;          /* of every key */
    /* How many nodes there are; asked some times a second, on the exchange's thread. */
    uint32_t (*nodes)(void *arg);
    void *arg;
};
enum fault exchange_open(struct exchange **out, const struct exchange_options *options) MUST_USE;
void exchange_close(struct exchange *exchange);

struct exchange_status {
    bool answers;  /* Redis does, in time */
    uint64_t told; /* buckets, and what happened to logins, that were told, each time counted */
    uint64_t lost; /* those that nobody was told, because Redis did not answer */
};
void exchange_status(const struct exchange *exchange, struct exchange_status *out); /* any thread */

#endif
