/* ack = replica: a win is told once so many replicas have it. */
#include "gate/remote/remote.h"

#include <stdio.h>

/* One has asked for all that were won over its connection in the same turn. */
static void replicated(struct redis_call *call, const struct redis_reply *reply)
{
    struct flight *flight = (struct flight *)call;
    const struct remote *remote = flight->lane->remote;
    bool enough = call->result == REDIS_ANSWERED && reply->type == REDIS_NUMBER && call->connection == flight->connection &&
                  reply->number >= (int64_t)remote->options.replicas;
    while (flight != NULL) {
        struct flight *next = flight->next;
        flight->next = NULL;
        flight_tell(flight, enough ? flight->verdict : VERDICT_UNKNOWN);
        flight_file(flight);
        flight = next;
    }
}

static void replicas_ask(struct flight *flight)
{
    enum { GRACE_MS = 500 };
    const struct gate_shared_options *options = &flight->lane->remote->options;
    struct redis_call *call = &flight->call;
    sale_keys(flight->lane->remote, flight->sale_id, flight->keys); /* another may have asked for it */
    snprintf(flight->numbers[1], sizeof flight->numbers[1], "%u", options->replicas);
    snprintf(flight->numbers[2], sizeof flight->numbers[2], "%u", options->replica_ms);
    flight->argv[GATE_KEYS] = SLICE("WAIT");
    flight->argv[GATE_KEYS + 1] = slice_of(flight->numbers[1]);
    flight->argv[GATE_KEYS + 2] = slice_of(flight->numbers[2]);
    call->key = slice_of(flight->keys[0]);
    call->script = REDIS_NO_SCRIPT;
    call->keys = 0;
    call->argc = 3;
    call->argv = flight->argv + GATE_KEYS;
    call->with_lineage = false;
    call->time_ms = options->replica_ms + GRACE_MS;
    call->holds = true;
    call->done = replicated;
    redis_call(flight->lane->client, call);
}

/* WAIT speaks of all that went over the connection before it, and nothing else is answered there meanwhile: so one asks for
 * all that were won in this turn. */
void remote_replicate(struct remote_lane *lane)
{
    struct flight *flights = lane->unreplicated;
    lane->unreplicated = NULL;
    while (flights != NULL) {
        struct flight *first = flights, *last = first, **at = &first->next;
        flights = NULL;
        while (*at != NULL) {
            struct flight *other = *at;
            if (other->connection == first->connection) {
                last = other;
                at = &other->next;
            } else {
                *at = other->next;
                other->next = flights;
                flights = other;
            }
        }
        last->next = NULL;
        replicas_ask(first);
    }
}
