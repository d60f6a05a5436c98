/* What was taken goes to the ledger, and what the ledger said of it. All of it is done once in a turn of the loop for all
 * that came in it: a lock, a wake and a command of Redis for each win would cost as much as the rest of its way. */
#include "base/clock.h"
#include "base/log.h"
#include "gate/remote/remote.h"

#include <inttypes.h>

/* XDEL and its key come before the entries. */
#define CLEARED_MAX (FLIGHT_ARGV_MAX - 2)

/* The entries of the log have done their work. Nobody waits for this: who finds one later files it once more, and finds it
 * filed. */
static void entries_cleared(struct redis_call *call, const struct redis_reply *reply)
{
    (void)reply;
    for (struct flight *flight = (struct flight *)call, *next; flight != NULL; flight = next) {
        next = flight->next;
        flight_close(flight);
    }
}

/* Of the first of them and those behind it, all of one sale. */
static void entries_clear(struct flight *first)
{
    struct redis_call *call = &first->call;
    sale_keys(first->lane->remote, first->sale_id, first->keys); /* another may have asked for it */
    first->argv[0] = SLICE("XDEL");
    first->argv[1] = slice_of(first->keys[GATE_KEYS - 1]);
    call->key = first->argv[1];
    call->script = REDIS_NO_SCRIPT;
    call->keys = 0;
    call->argc = 2;
    call->argv = first->argv;
    for (struct flight *flight = first; flight != NULL; flight = flight->next)
        first->argv[call->argc++] = slice_of(flight->entry);
    call->with_lineage = false;
    call->time_ms = 0;
    call->lenient = true;
    call->holds = false;
    call->done = entries_cleared;
    redis_call(first->lane->client, call);
}

static void clearing_end(struct remote_lane *lane, struct clearing *clearing)
{
    struct flight *first = clearing->first;
    *clearing = (struct clearing){ .first = NULL };
    if (first == NULL) return;
    if (lane->attached)
        entries_clear(first);
    else
        entries_cleared(&first->call, NULL);
}

/* Those of a sale gather, until there are many or the turn ends. */
static void entry_clear(struct flight *flight)
{
    struct remote_lane *lane = flight->lane;
    struct clearing *clearing = &lane->clearing[flight->sale_id % LANE_CLEARINGS];
    if (flight->entry[0] == '\0') {
        flight_close(flight);
        return;
    }
    if (clearing->count == CLEARED_MAX || (clearing->first != NULL && clearing->first->sale_id != flight->sale_id))
        clearing_end(lane, clearing);
    flight->next = clearing->first;
    clearing->first = flight;
    clearing->count++;
}

/* The ledger has it. */
static void take_filed(struct flight *flight)
{
    flight_tell(flight, flight->verdict);
    entry_clear(flight);
}

static void take_undone(struct redis_call *call, const struct redis_reply *reply)
{
    struct flight *flight = (struct flight *)call;
    (void)reply;
    keeper_mend(flight->lane->remote->keeper, flight->sale_id);
    flight_close(flight);
}

/* The ledger has refused what the gate gave, now or before (REPEATED, ALREADY_WON): it is taken back, and the gate is built
 * anew, for the two disagree. */
static void take_undo(struct flight *flight)
{
    const struct decision *refused = &flight->job.take.decision;
    if (flight->kind != FLIGHT_GRAB || !flight->lane->attached) {
        keeper_mend(flight->lane->remote->keeper, flight->sale_id);
        flight_close(flight);
        return;
    }
    struct slice *argv = flight->argv + GATE_KEYS + 1;
    argv[0] = SLICE("win");
    argv[1] = flight_number(flight, 1, refused->seq);
    argv[2] = slice_of(flight->order.buyer); /* the one who stands against it has the same */
    argv[3] = slice_of(flight->entry);
    flight_call(flight, GATE_SCRIPT_UNDO, 4, take_undone);
}

/* What became of an order stands in the ledger first: it is told as it stands there. One that has ended keeps its buyer from
 * no other; the gate is about to hear of that, and is asked again. */
static void filed_before(struct flight *flight)
{
    if (flight->kind == FLIGHT_GRAB) flight->order = flight->job.take.there;
    bool counts = flight->order.state == ORDER_HELD || flight->order.state == ORDER_PAID;
    if (flight->ticket != NULL && flight->verdict == VERDICT_ALREADY_WON && !counts) {
        keeper_errands(flight->lane->remote->keeper);
        flight_wait(flight);
    } else {
        take_filed(flight);
    }
}

/* Of a key that has won before. */
static enum verdict key_verdict(const struct ledger_take *take)
{
    return take->there.units == take->decision.won.units ? VERDICT_REPEATED : VERDICT_KEY_REUSED;
}

/* What the ledger said of it. */
static void take_judged(struct flight *flight)
{
    const struct ledger_take *take = &flight->job.take;
    switch (take->result) {
    case TAKE_FILED:
        take_filed(flight);
        return;
    case TAKE_FILED_BEFORE:
        filed_before(flight);
        return;
    case TAKE_STALE:
        /* One that was told before (ack = gate) is asked for again, too: as long as there is one left it is kept. */
        if (flight->ticket == NULL && flight->lane->remote->options.ack != GATE_ACK_LEDGER)
            log_warn("gate", "sale %" PRIu64 ": order %" PRIu64 " was told, and Redis lost it before it was filed",
                     flight->sale_id, flight->number);
        flight_later(flight);
        return;
    case TAKE_REPEATED:
    case TAKE_ALREADY_WON:
        flight->order = take->there;
        flight_tell(flight, take->result == TAKE_REPEATED ? key_verdict(take) : VERDICT_ALREADY_WON);
        break;
    case TAKE_SOLD_OUT:
        flight->available = 0;
        flight_tell(flight, VERDICT_SOLD_OUT);
        break;
    case TAKE_REFUSED:
        flight_tell(flight,
                    flight->kind == FLIGHT_GRAB && flight->order.token_nonce != 0 ? VERDICT_TOKEN_INVALID : VERDICT_BUSY);
        break;
    }
    log_warn("gate", "sale %" PRIu64 ": the ledger refused %" PRIu64 ", which the gate had given: %s", flight->sale_id,
             take->decision.seq, take_result_text(take->result));
    take_undo(flight);
}

/* Whoever asked is told in time, also where the ledger keeps the filer: it stands in the stream, and what becomes of it is
 * heard by asking again. */
static void filing_late(uv_timer_t *timer)
{
    struct remote_lane *lane = timer->data;
    uint64_t now_ms = mono_ms();
    if (lane->filing == NULL) uv_timer_stop(timer);
    for (struct flight *flight = lane->filing, *next; flight != NULL; flight = next) {
        next = flight->next;
        if (now_ms >= flight->until_ms) flight_tell(flight, VERDICT_UNKNOWN);
    }
}

static void filing_enter(struct flight *flight)
{
    struct remote_lane *lane = flight->lane;
    flight->prev = NULL;
    flight->next = lane->filing;
    if (lane->filing != NULL) lane->filing->prev = flight;
    lane->filing = flight;
    if (lane->attached && !uv_is_active((uv_handle_t *)&lane->filing_late))
        uv_timer_start(&lane->filing_late, filing_late, FLIGHT_LATE_MS, FLIGHT_LATE_MS);
}

static void filing_leave(struct flight *flight)
{
    *(flight->prev != NULL ? &flight->prev->next : &flight->lane->filing) = flight->next;
    if (flight->next != NULL) flight->next->prev = flight->prev;
    flight->next = flight->prev = NULL;
}

static struct flight *flight_of(struct filer_job *job)
{
    return (struct flight *)((char *)job - offsetof(struct flight, job));
}

static void collect(struct remote_lane *lane)
{
    struct filer_job *job = filer_collect(lane->filed);
    while (job != NULL) {
        struct filer_job *next = job->next;
        struct flight *flight = flight_of(job);
        lane->jobs--;
        filing_leave(flight);
        atomic_fetch_add(&lane->remote->filed, 1);
        if (job->fault == FAULT_NONE) {
            take_judged(flight);
        } else {
            /* It stands in the stream, and is filed from there once the ledger is back. */
            flight_tell(flight, VERDICT_UNKNOWN);
            flight_close(flight);
        }
        job = next;
    }
}

static void take_describe(struct flight *flight)
{
    struct ledger_take *take = &flight->job.take;
    take->epoch = flight->epoch;
    take->again = flight->entry[0] == '\0';
    if (flight->kind == FLIGHT_GRAB) {
        take->decision = decision_of_win(&flight->order);
    } else {
        take->decision = (struct decision){ .kind = DECISION_TOKEN_GIVEN,
                                            .seq = flight->number,
                                            .sale_id = flight->sale_id,
                                            .at_ms = flight->order.won_ms,
                                            .token_given.buyer = slice_of(flight->buyer) };
    }
}

/* In the order in which Redis gave them: a token goes before the win that spends it. But who asks comes before who has been
 * told: where those wait for the ledger in crowds, or it is away, more of them are left to the log, from which any node
 * files them. */
void flight_file(struct flight *flight)
{
    struct remote_lane *lane = flight->lane;
    struct filer_job *job = &flight->job;
    if (flight->ticket == NULL && (lane->told > FLIGHTS_TOLD_MAX || filer_failing(lane->remote->filer))) {
        flight_close(flight);
        return;
    }
    lane->jobs++;
    atomic_fetch_add(&lane->remote->decided, 1);
    filing_enter(flight);
    take_describe(flight);
    job->until_mono_ms = flight->until_ms;
    job->mailbox = lane->filed;
    job->next = NULL;
    *(lane->unfiled == NULL ? &lane->unfiled : &lane->unfiled_last->next) = job;
    lane->unfiled_last = job;
}

static void unfiled_give(struct remote_lane *lane)
{
    struct filer_job *jobs = lane->unfiled;
    lane->unfiled = NULL;
    if (jobs == NULL || filer_give(lane->remote->filer, jobs)) return;
    for (struct filer_job *job = jobs, *next; job != NULL; job = next) {
        next = job->next;
        lane->jobs--;
        filing_leave(flight_of(job));
        atomic_fetch_add(&lane->remote->filed, 1);
        flight_tell(flight_of(job), VERDICT_UNKNOWN); /* the log has it */
        flight_close(flight_of(job));
    }
}

void remote_file(struct remote_lane *lane)
{
    unfiled_give(lane);
    collect(lane);
    for (int i = 0; i < LANE_CLEARINGS; i++) clearing_end(lane, &lane->clearing[i]);
}
