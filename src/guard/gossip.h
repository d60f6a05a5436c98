/* gossip: tells other nodes, through Redis, what has happened to logins at this one, and hears what has at others
 * (guard/logins.h), so that guessing is as slow on all of them together as on one. On the thread of the exchange: no login
 * ever waits for Redis here.
 *
 * In Redis it is a stream, P{logins}, of the last minute: entries are read once by every node, in their order. A node that
 * starts reads all of it. Where Redis does not answer in time, what was to be told is dropped, and each node counts alone.
 */
#ifndef STAMPEDE_GUARD_GOSSIP_H
#define STAMPEDE_GUARD_GOSSIP_H

#include "guard/logins.h"
#include "redis/redis.h"

extern const struct redis_script gossip_script;

struct gossip_options {
    struct logins *logins; /* the caller's */
    int script;            /* among those of the client's redis: the number of gossip_script */
    const char *prefix;    /* of every key */
    uint32_t time_ms;      /* an answer that takes longer is none */
};

struct gossip;
enum fault gossip_open(struct gossip **out, const struct gossip_options *options) MUST_USE;
void gossip_close(struct gossip *gossip); /* after the client has been closed */

/* Tells and asks, if it is time to; true: there was something to tell. On the client's thread, as often as one likes. */
bool gossip_talk(struct gossip *gossip, struct redis_client *client, uint64_t now_ms);

struct gossip_status {
    uint64_t told, lost; /* things that happened here and the others were told, or were not, because Redis did not answer */
};
void gossip_status(const struct gossip *gossip, struct gossip_status *out); /* any thread */

#endif
