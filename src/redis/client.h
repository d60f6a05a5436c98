/* client: what one loop knows of Redis: its nodes, where each slot is, the calls under way. Inside this room only; the
 * loop's thread, but for what stands under the lock of struct redis.
 *
 *   redis_call -> call_route -> node_submit -> link_put_call … node_answer -> call_answered -> done
 *                     ^              |  waits while the node gets to know its server         |
 *                     +-- retry, when what certainly did not run is parked for a moment -----+
 *
 * redis.c shares, client.c opens and closes, call.c decides about calls, route.c knows where masters are, node.c keeps up
 * one server, link.c is one connection. */
#ifndef STAMPEDE_REDIS_CLIENT_H
#define STAMPEDE_REDIS_CLIENT_H

#include "redis/facts.h"
#include "redis/link.h"
#include "redis/slot.h"

#include <pthread.h>
#include <stdatomic.h>

#define SHA1_TEXT_BYTES 40
#define NODE_TARGETS_MAX 4

/* The same sentence again, from another loop or after another try, is logged after so long only. */
#define SAID_MAX 16
#define SAID_AGAIN_MS 10000
struct redis_said {
    uint64_t at_ms;
    char sentence[REDIS_SENTENCE_BYTES];
};

/* A server takes no writes when it has refused some for so long, with no longer pause between them. Every node has one to
 * make each second (gate/keeper/roster.h). */
#define REFUSAL_MS 2000
struct redis_refusal {
    const char *advice;
    uint64_t first_ms, last_ms;
};

struct redis {
    struct redis_options options;
    char sha1[REDIS_SCRIPTS_MAX][SHA1_TEXT_BYTES + 1];
    pthread_mutex_t lock; /* over all below, and what is marked so in clients */
    struct redis_client *clients;
    struct redis_status past; /* counts of clients that were closed; the last error, run id and version */
    struct redis_said said[SAID_MAX];
    struct redis_refusal refusal;
};

enum node_state {
    NODE_IDLE,      /* nobody has needed it yet */
    NODE_RESOLVING, /* its name */
    NODE_CONNECTING,
    NODE_GREETING, /* who are you? */
    NODE_READY,
    NODE_PAUSED, /* the last try failed; the timer will begin another */
    NODE_CLOSED,
};

struct call_list {
    struct redis_call *first, *last;
    uint32_t count;
};

struct redis_node {
    struct redis_client *client;
    struct redis_address address;
    uv_timer_t timer; /* the end of a pause, or of the patience with a server that does not say who it is; then the pulse */
    uv_getaddrinfo_t lookup;
    bool lookup_pending, timer_closed;
    bool as_sentinel, seed;
    bool wanted; /* calls go to it: it is kept connected */
    bool down;   /* the breaker: calls are answered DOWN at once, until the server has been reached again */
    enum node_state state;
    uint32_t failures; /* tries in a row */
    struct sockaddr_storage targets[NODE_TARGETS_MAX];
    uint32_t targets_count, target;
    struct link *link;
    uint64_t ready_ms; /* since when; 0: never */
    uint64_t pulse_ms; /* when it was felt last */
    uint64_t rechecked_ms;
    bool rechecking; /* INFO is under way on a connection that is in use */
    bool unwatched;  /* nobody wanted it for a while, so it was not asked whether it is the same */
    struct facts facts;
    struct call_list waiting; /* until it is ready */
};

struct redis_client {
    struct redis *redis;
    uv_loop_t *loop;
    struct redis_client *next; /* under the lock */
    uv_prepare_t flush;
    uv_idle_t hurry; /* while something has to be done in the next turn, and the loop must not rest before it */
    bool hurried;    /* since the flush of this turn began */
    bool calling;    /* within redis_call(), where nobody is told anything */
    uv_timer_t tick; /* while there are deadlines */
    uint64_t ticked_ms;
    uv_timer_t look; /* the next time to ask where the masters are */
    uint32_t handles;
    bool closing;
    struct link *dirty;
    uint64_t links_made;
    struct wheel deadlines, retries;
    uint64_t dice;

    struct redis_node *nodes[REDIS_NODES_MAX];
    uint32_t nodes_count;
    struct redis_node *master;             /* but of a cluster */
    struct redis_node *slots[REDIS_SLOTS]; /* of a cluster */
    bool routed;                           /* where the masters are has been told once */
    bool lost;                             /* nobody could tell */
    struct redis_call question;            /* where are the masters? */
    struct slice question_parts[3];
    struct redis_node *questioned; /* NULL: nobody is */
    uint32_t questions_failed;     /* in a row */
    uint32_t question_next;
    uint32_t in_flight;
    struct call_list parked;
    struct call_list ended; /* within redis_call(): they are told in the next turn */

    /* Read by any thread. */
    _Atomic uint64_t counts[REDIS_UNKNOWN + 1], calls, repeats, reconnects, latency_us;
    _Atomic uint32_t in_flight_seen, masters, masters_ready;
    /* A sentence about what somebody must mend; for redis_reach(). */
    char unfit[REDIS_SENTENCE_BYTES];
};

/* redis.c. A sentence for the log and the status. */
void redis_say(struct redis *redis, const char *sentence);
void redis_note_refusal(struct redis *redis, const char *advice);
void redis_reached(struct redis *redis, const struct redis_node *node);
void redis_join(struct redis *redis, struct redis_client *client);
void redis_leave(struct redis *redis, struct redis_client *client);

/* client.c */
void client_handle_closed(struct redis_client *client);            /* one of its handles has been closed */
void client_dirty(struct redis_client *client, struct link *link); /* something was put on it */
void client_clean(struct redis_client *client, struct link *link);
void client_hurry(struct redis_client *client);
void client_ticks(struct redis_client *client);                    /* there is a deadline */
uint32_t client_dice(struct redis_client *client, uint32_t below); /* 0 to below - 1 */
/* After so many failures in a row: doubled from ms_min up to ms_max, then between half and all of it by dice, so that what
 * failed together does not come back together. */
uint64_t client_backoff_ms(struct redis_client *client, uint32_t failures, uint32_t ms_min, uint32_t ms_max);
void client_count_masters(struct redis_client *client);

/* call.c. A call's stages; only call.c and node.c change them. */
enum call_stage { CALL_NONE, CALL_WAITING, CALL_SENT, CALL_PARKED, CALL_ENDED };
void call_begin(struct redis_client *client, struct redis_call *call, uint32_t time_ms);
void call_route(struct redis_client *client, struct redis_call *call);
void call_leave(struct redis_client *client, struct redis_call *call); /* out of whatever list it waits in */
void call_park(struct redis_client *client, struct redis_call *call);
void call_finish(struct redis_client *client, struct redis_call *call, enum redis_result result,
                 const struct redis_reply *reply);
void call_answered(struct redis_node *node, struct redis_call *call, const struct link_entry *entry,
                   const struct redis_reply *reply);
void call_tell_ended(struct redis_client *client); /* those that have ended so far */
void call_list_add(struct call_list *list, struct redis_call *call);
void call_list_remove(struct call_list *list, struct redis_call *call);
void call_turn(struct redis_client *client, uint64_t now_ms); /* deadlines and retries that are due */

/* node.c */
struct redis_node *node_open(struct redis_client *client, const struct redis_address *address, bool as_sentinel);
void node_close(struct redis_node *node); /* its calls are ended or go elsewhere */
void node_want(struct redis_node *node);  /* begins to connect, if it does not already */
void node_submit(struct redis_node *node, struct redis_call *call);
void node_put(struct redis_node *node, struct redis_call *call); /* at once: it is ready */
void node_overdue(struct redis_node *node, uint32_t waited_ms);  /* an answer did not come: the connection is of no use */
void node_demoted(struct redis_node *node);                      /* it says that it is no master */
bool node_idle(const struct redis_node *node);                   /* no call depends on it */
/* The script goes before whatever is put next. False: no room. */
bool node_load(struct redis_node *node, int script) MUST_USE;
/* From its link. */
void node_connected(struct redis_node *node);
void node_lost(struct redis_node *node, const char *why);
void node_garbled(struct redis_node *node, const char *why); /* what came cannot be read */
void node_answer(struct redis_node *node, struct link_entry entry, const struct redis_reply *reply);

/* route.c */
enum fault route_start(struct redis_client *client) MUST_USE;
struct redis_node *route_choose(struct redis_client *client, struct slice key);
struct redis_node *route_add(struct redis_client *client, const struct redis_address *address);
void route_moved(struct redis_client *client, struct slice key, struct redis_node *node);
void route_look(struct redis_client *client);                                  /* soon: something is not where it was */
void route_node_changed(struct redis_client *client, struct redis_node *node); /* it is ready, or is no more */

#endif
