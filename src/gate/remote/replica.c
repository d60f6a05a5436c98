/* ack = replica: a win is told once so many replicas have it. Who asks again what became of it (P7) is told so by the
 * ledger, too, which has the last word: else nobody could hear of what they won before there are replicas again. */
#include "base/clock.h"
#include "base/log.h"
#include "gate/remote/remote.h"

#include <stdio.h>

#define SHORT_SAID_APART_MS 10000

static void short_say(struct remote_lane *lane, int64_t confirmed)
{
    const struct gate_shared_options *options = &lane->remote->options;
    uint64_t now_ms = mono_ms();
    if (lane->short_said_ms != 0 && now_ms < lane->short_said_ms + SHORT_SAID_APART_MS) return;
    lane->short_said_ms = now_ms;
    log_warn(
        "gate",
        "ack = replica: %lld of %u replicas have confirmed what was won within %u ms: buyers hear OUTCOME_UNKNOWN until "
        "they ask again; bring the replicas back, or set replicas or ack otherwise",
        (long long)confirmed, options->replicas, options->replica_ms);
}

/* One has asked for all that were won over its connection in the same turn. */
static void replicated(struct redis_call *call, const struct redis_reply *reply)
{
    struct flight *flight = (struct flight *)call;
    struct remote_lane *lane = flight->lane;
    bool counted = call->result == REDIS_ANSWERED && reply->type == REDIS_NUMBER && call->connection == flight->connection;
    bool enough = counted && reply->number >= (int64_t)lane->remote->options.replicas;
    if (counted && !enough) short_say(lane, reply->number);
    while (flight != NULL) {
        struct flight *next = flight->next;
        bool again = flight->entry[0] == '\0' && !flight->by_ledger && !filer_failing(lane->remote->filer);
        flight->next = NULL;
        if (again && !enough) {
            flight->by_ledger = true;
            flight->until_ms = mono_ms() + FLIGHT_MS;
        } else {
            flight_tell(flight, enough ? flight->verdict : VERDICT_UNKNOWN);
        }
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
