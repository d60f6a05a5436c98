#include "gate/remote/change.h"

#include "base/clock.h"
#include "base/log.h"
#include "ledger/watch.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct change *change_open(struct remote_lane *lane, struct gate_ticket *ticket)
{
    struct change *change = lane->attached ? calloc(1, sizeof *change) : NULL;
    if (change == NULL) {
        ticket->verdict = VERDICT_BUSY;
        ticket->seq = 0;
        ticket->done(ticket);
        return NULL;
    }
    change->lane = lane;
    change->ticket = ticket;
    change->until_ms = mono_ms() + FLIGHT_MS;
    change->verdict = VERDICT_BUSY;
    return change;
}

void change_close(struct change *change)
{
    assert(change->ticket == NULL);
    free(change);
}

struct slice change_text(char *out, size_t size, struct slice text)
{
    size_t len = text.len < size ? text.len : size - 1;
    if (len > 0) memcpy(out, text.data, len); /* an empty text may be nowhere */
    out[len] = '\0';
    return (struct slice){ out, len };
}

void change_tell(struct change *change, enum verdict verdict)
{
    struct gate_ticket *ticket = change->ticket;
    if (ticket == NULL) return;
    change->ticket = NULL;
    ticket->verdict = verdict;
    ticket->seq = 0;
    if (change->of_order) {
        ticket->order = change->order;
    } else {
        ticket->sale = change->shelved.sale;
    }
    ticket->done(ticket);
}

void change_end(struct change *change, enum verdict verdict)
{
    change_tell(change, verdict);
    change_close(change);
}

enum verdict change_failed(const struct change *change)
{
    return change->begun || change->unknown ? VERDICT_UNKNOWN : VERDICT_BUSY;
}

/* A lock that somebody else keeps is waited for as long as whoever asked does. */
static enum fault change_try(struct change *change, struct ledger *ledger)
{
    uint64_t now_ms = mono_ms();
    ledger_set_patience(ledger, now_ms < change->until_ms ? (uint32_t)(change->until_ms - now_ms) : 0);
    return change->work(change, ledger);
}

/* A connection that was lost is made again, and what stood in the way of the first try is gone with it: the second says how
 * things are. A lock that was waited for in vain is still there, and others wait behind this. And what may have been
 * committed is not done again: units would be added once more, and whoever has ended a hold would hear that there is none.
 */
static void change_work(struct crew_job *job, void *tools)
{
    struct change *change = (struct change *)((char *)job - offsetof(struct change, job));
    struct change_tools *own = tools;
    for (int tries = 0; tries < 2; tries++) {
        change->fault = FAULT_LEDGER;
        enum ledger_health health = ledger_watch_health(own->place->watch);
        if (health >= LEDGER_GONE || (health == LEDGER_UNSAFE && own->ledger == NULL)) return; /* nothing is begun */
        change->fault = own->ledger == NULL ? ledger_open(&own->ledger, own->place, LEDGER_WRITER) : FAULT_NONE;
        if (change->fault != FAULT_NONE) continue;
        change->fault = change_try(change, own->ledger);
        /* After any other fault nothing was committed. */
        change->begun = change->begun || change->fault == FAULT_NONE || change->fault == FAULT_UNSURE;
        if (change->fault == FAULT_NONE || health == LEDGER_UNSAFE) return; /* such a one may still be read */
        ledger_close(own->ledger);
        own->ledger = NULL;
        if (change->fault == FAULT_TIMEOUT && ledger_watch_health(own->place->watch) == LEDGER_WELL)
            kept_wait(&change->lane->remote->kept);
        if (change->fault == FAULT_TIMEOUT || (change->fault == FAULT_UNSURE && !change->repeatable)) return;
    }
}

static void change_worked(struct crew_job *job)
{
    struct change *change = (struct change *)((char *)job - offsetof(struct change, job));
    change->lane->jobs--;
    if (job->late) change->fault = FAULT_TIMEOUT;
    change->filed(change);
}

static void change_give(struct change *change, struct crew *crew,
                        enum fault (*work)(struct change *change, struct ledger *ledger),
                        void (*filed)(struct change *change))
{
    struct remote_lane *lane = change->lane;
    change->work = work;
    change->filed = filed;
    change->job = (struct crew_job){ .work = change_work, .done = change_worked, .mailbox = lane->changed };
    lane->jobs++;
    if (crew_ask(crew, &change->job)) return;
    lane->jobs--;
    change->fault = FAULT_TIMEOUT;
    change->filed(change);
}

void change_file(struct change *change, enum fault (*work)(struct change *change, struct ledger *ledger),
                 void (*filed)(struct change *change))
{
    change_give(change, change->lane->remote->changes, work, filed);
}

void change_read(struct change *change, enum fault (*work)(struct change *change, struct ledger *ledger),
                 void (*filed)(struct change *change))
{
    change_give(change, change->lane->remote->reads, work, filed);
}

static bool change_has_time(const struct change *change)
{
    return mono_ms() + FLIGHT_ASK_AGAIN_MS < change->until_ms && change->lane->attached;
}

void change_wait(struct change *change, void (*again)(struct change *change))
{
    struct remote_lane *lane = change->lane;
    if (!change_has_time(change)) {
        change_end(change, change_failed(change));
        return;
    }
    change->again = again;
    change->next = NULL;
    *(lane->changes_waiting == NULL ? &lane->changes_waiting : &lane->changes_last->next) = change;
    lane->changes_last = change;
    lane_ask_again(lane);
}

struct slice change_number(struct change *change, uint32_t at, int64_t value)
{
    assert(at < CHANGE_NUMBERS);
    int len = snprintf(change->numbers[at], sizeof change->numbers[at], "%" PRId64, value);
    return (struct slice){ change->numbers[at], (size_t)len };
}

void change_call(struct change *change, enum gate_script_name script, uint32_t count,
                 void (*done)(struct redis_call *call, const struct redis_reply *reply))
{
    const struct script_words words = { &change->call, change->keys, change->argv };
    assert(GATE_KEYS + 1 + count <= CHANGE_ARGV_MAX);
    change->argv[GATE_KEYS] = change_number(change, 0, (int64_t)change->epoch);
    script_call(change->lane->remote, change->sale_id, script, count, &words);
    change->call.done = done;
    redis_call(change->lane->client, &change->call);
}

bool change_later(struct change *change, struct slice word, void (*again)(struct change *change))
{
    struct keeper *keeper = change->lane->remote->keeper;
    bool damaged = slice_is(word, "DAMAGED");
    if (!damaged && !slice_is(word, "NOT_LOADED") && !slice_is(word, "STALE") && !slice_is(word, "LOADING")) return false;
    (damaged ? keeper_mend : keeper_rebuild)(keeper, change->sale_id);
    change_wait(change, again);
    return true;
}

bool change_answer(struct change *change, const struct redis_reply *reply, struct script_answer *out)
{
    enum redis_result result = change->call.result;
    if (result == REDIS_ANSWERED && script_answer(reply, out)) return true;
    if (result == REDIS_FAILED) {
        log_error("gate", "sale %" PRIu64 ": a script failed in Redis: %.*s", change->sale_id, (int)reply->text.len,
                  reply->text.data);
        keeper_mend(change->lane->remote->keeper, change->sale_id);
    }
    if (result != REDIS_REFUSED && result != REDIS_BUSY && result != REDIS_DOWN) change->unknown = true;
    return false;
}

static void entry_cleared(struct redis_call *call, const struct redis_reply *reply)
{
    (void)reply;
    change_close((struct change *)call);
}

void change_clear(struct change *change)
{
    struct redis_call *call = &change->call;
    if (change->entry[0] == '\0' || !change->lane->attached) {
        change_close(change);
        return;
    }
    change->argv[0] = SLICE("XDEL");
    change->argv[1] = slice_of(change->keys[GATE_KEYS - 1]);
    change->argv[2] = slice_of(change->entry);
    call->key = change->argv[1];
    call->script = REDIS_NO_SCRIPT;
    call->keys = 0;
    call->argc = 3;
    call->with_lineage = false;
    call->lenient = true;
    call->done = entry_cleared;
    redis_call(change->lane->client, call);
}

static void counts_answered(struct redis_call *call, const struct redis_reply *reply)
{
    struct change *change = (struct change *)call;
    struct sale *sale = &change->shelved.sale;
    struct shelf_counts counts;
    if (call->result == REDIS_ANSWERED && script_counts(reply, &counts)) {
        counts.asked_mono_ms = change->counts_ms;
        remote_saw_counts(change->lane->remote, change->sale_id, &counts);
        sale->counts = counts.counts;
        sale->orders_made = counts.orders_made;
        sale->tokens_given = counts.tokens_given;
    }
    change->again(change);
}

/* The ledger may be behind what buyers have been told (ack = gate, replica), here or by another node. A seller who has
 * changed a sale hears its counts of the gate; where that does not say, the ledger's have to do. */
static void counts_ask(struct change *change, void (*then)(struct change *change))
{
    const struct script_words words = { &change->call, change->keys, change->argv };
    change->again = then;
    if (change->of_order || !change->lane->attached) {
        then(change);
        return;
    }
    change->counts_ms = mono_ms();
    change->argv[GATE_KEYS] = SLICE(""); /* of whatever epoch */
    script_call(change->lane->remote, change->sale_id, GATE_SCRIPT_PEEK, 0, &words);
    change->call.done = counts_answered;
    redis_call(change->lane->client, &change->call);
}

static void taken_end(struct change *change)
{
    change_tell(change, VERDICT_DONE);
    change_clear(change);
}

void change_taken(struct change *change, void (*again)(struct change *change), void (*undo)(struct change *change))
{
    const struct ledger_take *take = &change->take;
    if (change->fault != FAULT_NONE) {
        change_end(change, VERDICT_UNKNOWN); /* it stands in the stream, and is filed from there */
        return;
    }
    switch (take->result) {
    case TAKE_FILED:
    case TAKE_FILED_BEFORE:
        counts_ask(change, taken_end);
        break;
    case TAKE_STALE:
        change_wait(change, again);
        break;
    case TAKE_REPEATED:
    case TAKE_ALREADY_WON:
    case TAKE_SOLD_OUT:
    case TAKE_REFUSED:
        log_warn("gate", "sale %" PRIu64 ": the ledger refused %" PRIu64 ", which the gate had given: %s", change->sale_id,
                 take->decision.seq, take_result_text(take->result));
        undo(change);
    }
}

static enum fault errand_strike(struct change *change, struct ledger *ledger)
{
    return ledger_errands_done(ledger, &change->errand.id, 1);
}

/* Where striking it failed, the keeper tells the gate once more, which knows it by then, and strikes it. */
static void errand_struck(struct change *change)
{
    change_close(change);
}

/* What the ledger has written is known here already. */
static void errand_facts(const struct change *change, struct errand_facts *out)
{
    *out = (struct errand_facts){ .found = true, .order.order = change->order, .sale = change->shelved };
    memcpy(out->order.payment_ref, change->ref, sizeof change->ref);
}

static void errand_settle(struct change *change)
{
    struct remote *remote = change->lane->remote;
    change_tell(change, change->verdict);
    if (change->told == ERRAND_DONE) {
        change_file(change, errand_strike, errand_struck);
        return;
    }
    if (change->told == ERRAND_OPPOSED) keeper_mend(remote->keeper, change->sale_id);
    keeper_errands(remote->keeper);
    change_close(change);
}

/* A gate that is being built may be built from what the ledger had before: whoever hears that a sale was paused, or that
 * units came back, is to find it so. Where there is no gate at all, the ledger's word has to do. */
static void errand_told(struct redis_call *call, const struct redis_reply *reply)
{
    struct change *change = (struct change *)call;
    struct remote *remote = change->lane->remote;
    struct errand_facts facts;
    struct script_answer answer;
    errand_facts(change, &facts);
    bool answered = call->result == REDIS_ANSWERED && script_answer(reply, &answer);
    enum errand_end end = answered ? errand_judge(&change->errand, &facts, reply) : ERRAND_LATER;
    enum verdict verdict;
    if (answered && script_verdict(answer.word, &verdict) && answer.at_ms != 0) {
        remote_saw_time(remote, answer.at_ms);
        const struct shelf_left left = { change->errand.epoch, answer.at_ms, answer.available, false };
        shelf_left(remote->shelf, change->sale_id, &left);
    }
    if (end == ERRAND_LATER && answered) keeper_rebuild(remote->keeper, change->sale_id);
    if (end == ERRAND_EARLY) keeper_errands(remote->keeper);
    if (((end == ERRAND_LATER && answered) || end == ERRAND_EARLY) && change_has_time(change)) {
        change_wait(change, change_errand);
        return;
    }
    change->told = end;
    if (end == ERRAND_DONE) {
        counts_ask(change, errand_settle);
    } else {
        errand_settle(change);
    }
}

void change_errand(struct change *change)
{
    const struct ledger_errand *errand = &change->errand;
    if (errand->id == 0 || !change->lane->attached) {
        change_end(change, change->verdict);
        return;
    }
    struct errand_facts facts;
    struct telling telling;
    errand_facts(change, &facts);
    telling_init(&telling, change->argv + GATE_KEYS + 1, CHANGE_ARGV_MAX - GATE_KEYS - 1, change->text, sizeof change->text);
    enum gate_script_name script = errand_tell(errand, &facts, &telling);
    change->sale_id = errand->sale_id;
    change->epoch = errand->epoch;
    change_call(change, script, telling.argc, errand_told);
}
