/* Takes: grabs and purchase tokens. The gate first, then the ledger. */
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "engine/buyer.h"
#include "gate/remote.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void take_filed(struct flight *flight);

/* The entry of the stream has done its work. Nobody waits for this: who finds the entry later files it once more, and finds
 * it filed. */
static void entry_cleared(struct redis_call *call, const struct redis_reply *reply)
{
    (void)reply;
    flight_close((struct flight *)call);
}

static void entry_clear(struct flight *flight)
{
    struct redis_call *call = &flight->call;
    if (flight->entry[0] == '\0' || !flight->lane->attached) {
        flight_close(flight);
        return;
    }
    flight->argv[0] = SLICE("XDEL");
    flight->argv[1] = slice_of(flight->keys[GATE_KEYS - 1]);
    flight->argv[2] = slice_of(flight->entry);
    call->key = flight->argv[1];
    call->script = REDIS_NO_SCRIPT;
    call->keys = 0;
    call->argc = 3;
    call->with_run_id = false;
    call->lenient = true;
    call->done = entry_cleared;
    redis_call(flight->lane->client, call);
}

static void take_undone(struct redis_call *call, const struct redis_reply *reply)
{
    struct flight *flight = (struct flight *)call;
    (void)reply;
    keeper_mend(flight->lane->remote->keeper, flight->sale_id);
    flight_close(flight);
}

/* The ledger has refused what the gate gave: it is taken back, and the gate is built anew, for the two disagree. */
static void take_undo(struct flight *flight)
{
    if (flight->kind != FLIGHT_GRAB || !flight->lane->attached) {
        keeper_mend(flight->lane->remote->keeper, flight->sale_id);
        flight_close(flight);
        return;
    }
    snprintf(flight->numbers[1], sizeof flight->numbers[1], "%" PRIu64, flight->number);
    struct slice *argv = flight->argv + GATE_KEYS + 1;
    argv[0] = SLICE("win");
    argv[1] = slice_of(flight->numbers[1]);
    argv[2] = slice_of(flight->order.buyer);
    argv[3] = slice_of(flight->entry);
    flight_call(flight, GATE_SCRIPT_UNDO, 4, take_undone);
}

/* What the ledger said of it. */
static void take_judged(struct flight *flight)
{
    const struct ledger_take *take = &flight->job.take;
    switch (take->result) {
    case TAKE_FILED:
    case TAKE_FILED_BEFORE:
        take_filed(flight);
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
        flight_tell(flight, take->result == TAKE_REPEATED ? VERDICT_REPEATED : VERDICT_ALREADY_WON);
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
    log_warn("gate", "sale %" PRIu64 ": the ledger refused order %" PRIu64 ", which the gate had given (%d)",
             flight->sale_id, flight->number, (int)take->result);
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

void remote_collect(struct remote_lane *lane)
{
    struct filer_job *job = filer_collect(lane->filed);
    while (job != NULL) {
        struct filer_job *next = job->next;
        struct flight *flight = (struct flight *)((char *)job - offsetof(struct flight, job));
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

void flight_file(struct flight *flight)
{
    struct remote_lane *lane = flight->lane;
    struct ledger_take *take = &flight->job.take;
    const struct order *order = &flight->order;
    /* Nobody waits for it any more: it stays in the stream until the ledger is back, and flights are left for those who buy.
     */
    if (flight->ticket == NULL && filer_failing(lane->remote->filer)) {
        flight_close(flight);
        return;
    }
    take->epoch = flight->epoch;
    take->decision.seq = flight->kind == FLIGHT_GRAB ? order->no : flight->number;
    take->decision.sale_id = flight->sale_id;
    if (flight->kind == FLIGHT_GRAB) {
        take->decision.kind = DECISION_WON;
        take->decision.at_ms = order->won_ms;
        take->decision.won.buyer = slice_of(order->buyer);
        take->decision.won.key = slice_of(order->key);
        take->decision.won.units = order->units;
        take->decision.won.amount = order->amount;
        take->decision.won.pay_by_ms = order->pay_by_ms;
        take->decision.won.token_nonce = order->token_nonce;
    } else {
        take->decision.kind = DECISION_TOKEN_GIVEN;
        take->decision.at_ms = order->won_ms;
        take->decision.token_given.buyer = slice_of(flight->buyer);
    }
    flight->job.until_mono_ms = flight->until_ms;
    flight->job.mailbox = lane->filed;
    atomic_fetch_add(&lane->remote->decided, 1);
    lane->jobs++;
    filing_enter(flight);
    if (filer_give(lane->remote->filer, &flight->job)) return;
    filing_leave(flight);
    lane->jobs--;
    atomic_fetch_add(&lane->remote->filed, 1);
    flight_tell(flight, VERDICT_UNKNOWN); /* the stream has it */
    flight_close(flight);
}

/* The ledger has it. */
static void take_filed(struct flight *flight)
{
    flight_tell(flight, flight->verdict);
    entry_clear(flight);
}

static void left_tell(const struct flight *flight)
{
    const struct shelf_left left = { flight->epoch, flight->at_ms, flight->available, flight->verdict == VERDICT_WON };
    shelf_left(flight->lane->remote->shelf, flight->sale_id, &left);
}

/* Redis has given it. */
static void take_given(struct flight *flight)
{
    struct remote *remote = flight->lane->remote;
    if (flight->kind == FLIGHT_GRAB && flight->verdict == VERDICT_WON) left_tell(flight);
    if (remote->options.ack == GATE_ACK_REPLICA) {
        flight->next = flight->lane->unreplicated;
        flight->lane->unreplicated = flight;
        return;
    }
    if (remote->options.ack == GATE_ACK_GATE) flight_tell(flight, flight->verdict);
    flight_file(flight);
}

/* The reply has the order that it names. */
static bool answer_order(struct flight *flight, const struct redis_reply *reply, size_t at)
{
    struct slice ref;
    return script_order(reply_text(reply, at), reply_text(reply, at + 1), flight->sale_id, &flight->order, &ref);
}

static void entry_keep(struct flight *flight, struct slice entry)
{
    size_t len = entry.len < sizeof flight->entry ? entry.len : 0;
    memcpy(flight->entry, entry.data, len);
    flight->entry[len] = '\0';
}

static void take_refused(struct flight *flight, enum verdict verdict)
{
    flight_tell(flight, verdict);
    flight_close(flight);
}

/* Words that are no verdicts. */
static void take_not_now(struct flight *flight, struct slice word)
{
    if (slice_is(word, "NOT_LOADED") || slice_is(word, "STALE") || slice_is(word, "LOADING")) {
        flight_later(flight);
    } else if (slice_is(word, "NUMBER_TAKEN")) {
        flight->number = 0;
        flight_wait(flight);
    } else if (slice_is(word, "FULL")) {
        take_refused(flight, VERDICT_BUSY);
    } else {
        log_error("gate", "sale %" PRIu64 ": the script in Redis answered %.*s", flight->sale_id, (int)word.len, word.data);
        flight_later(flight);
    }
}

static void grab_answered(struct flight *flight, const struct redis_reply *reply, const struct script_answer *answer)
{
    enum verdict verdict;
    if (!script_verdict(answer->word, &verdict)) {
        take_not_now(flight, answer->word);
        return;
    }
    flight_share_end(flight);
    flight->verdict = verdict;
    flight->available = answer->available;
    flight->at_ms = answer->at_ms;
    bool named = verdict == VERDICT_WON || verdict == VERDICT_REPEATED || verdict == VERDICT_ALREADY_WON;
    if (!named) {
        if (verdict == VERDICT_SOLD_OUT) left_tell(flight);
        take_refused(flight, verdict);
        return;
    }
    flight->grabs_left = (uint32_t)reply_number(reply, 3);
    entry_keep(flight, reply_text(reply, 4));
    if (answer_order(flight, reply, 5)) {
        take_given(flight);
    } else {
        log_error("gate", "sale %" PRIu64 ": Redis told an order that cannot be read", flight->sale_id);
        flight->unknown = true;
        flight_later(flight);
    }
}

static void token_answered(struct flight *flight, const struct redis_reply *reply, const struct script_answer *answer)
{
    enum verdict verdict;
    if (!script_verdict(answer->word, &verdict)) {
        take_not_now(flight, answer->word);
        return;
    }
    flight->verdict = verdict;
    if (verdict == VERDICT_DONE || verdict == VERDICT_REPEATED) {
        flight->number = reply_number(reply, 3);
        flight->order.won_ms = answer->at_ms;
        entry_keep(flight, reply_text(reply, 4));
        take_given(flight);
    } else if (verdict == VERDICT_ALREADY_WON && !answer_order(flight, reply, 5)) {
        flight_later(flight);
    } else {
        take_refused(flight, verdict);
    }
}

static void take_answered(struct redis_call *call, const struct redis_reply *reply)
{
    struct flight *flight = (struct flight *)call;
    struct script_answer answer;
    flight->connection = call->connection;
    switch (call->result) {
    case REDIS_ANSWERED:
        if (!script_answer(reply, &answer)) break;
        if (answer.at_ms != 0) remote_saw_time(flight->lane->remote, answer.at_ms);
        if (flight->kind == FLIGHT_GRAB) {
            grab_answered(flight, reply, &answer);
        } else {
            token_answered(flight, reply, &answer);
        }
        return;
    case REDIS_REFUSED: /* the client has said why */
    case REDIS_BUSY:
    case REDIS_DOWN:
        take_refused(flight, flight->unknown ? VERDICT_UNKNOWN : VERDICT_BUSY);
        return;
    case REDIS_FAILED:
        log_error("gate", "a script failed in Redis: %.*s", (int)reply->text.len, reply->text.data);
        break;
    case REDIS_UNKNOWN:
        break;
    }
    flight->unknown = true;
    flight_wait(flight);
}

/* False: the sale is over, or there never was one; whoever could not know has asked gate_meet() before. */
static bool take_ready(struct flight *flight)
{
    struct remote *remote = flight->lane->remote;
    if (flight->number == 0) flight->number = numbers_next(&remote->numbers, remote_now_ms(&remote->gate));
    if (shelf_epoch(remote->shelf, flight->sale_id, &flight->epoch)) return true;
    take_refused(flight, flight->unknown ? VERDICT_UNKNOWN : VERDICT_NO_SUCH_SALE);
    return false;
}

/* A grab that has not been asked yet waits for the node's share of the sale, or hears meanwhile that all is sold. One that
 * may have been taken is asked for, whatever is left. False: it is not to be asked now. */
static bool grab_shares(struct flight *flight)
{
    struct remote *remote = flight->lane->remote;
    if (remote->options.share_percent == 0 || flight->shares || flight->unknown) return true;
    uint64_t now_ms = remote_now_ms(&remote->gate);
    const struct shelf_share share = { .nodes = atomic_load(&remote->nodes),
                                       .percent = remote->options.share_percent,
                                       .patient = mono_ms() + FLIGHT_MS >= flight->until_ms + FLIGHT_PATIENCE_MS };
    enum verdict verdict = shelf_refuse(remote->shelf, &flight->grab, now_ms);
    if (verdict == VERDICT_DONE) {
        enum shelf_turn turn = shelf_enter(remote->shelf, flight->sale_id, now_ms, &share);
        flight->shares = turn == SHELF_TAKEN;
        if (turn != SHELF_WAIT) return true;
        metrics_add(METRIC_SHARE_WAITS, 1);
        /* Those who wait for one sale leave room for those who ask for another. */
        if (flight->lane->in_flight > FLIGHTS_MAX / 2) verdict = VERDICT_BUSY;
    }
    if (verdict == VERDICT_DONE) {
        flight_wait(flight);
    } else {
        take_refused(flight, verdict);
    }
    return false;
}

static void grab_ask(struct flight *flight)
{
    const struct grab *grab = &flight->grab;
    if (!take_ready(flight) || !grab_shares(flight)) return;
    metrics_add(METRIC_GRABS_ASKED, 1);
    size_t flags = 0;
    if (grab->token_brought) flight->flags[flags++] = 'b';
    if (grab->turned_away) flight->flags[flags++] = 'a';
    if (grab->trusted) flight->flags[flags++] = 't';
    if (grab->won_first) flight->flags[flags++] = 'w';
    snprintf(flight->numbers[1], sizeof flight->numbers[1], "%" PRIu64, flight->number);
    snprintf(flight->numbers[2], sizeof flight->numbers[2], "%u", grab->units);
    snprintf(flight->numbers[3], sizeof flight->numbers[3], "%" PRIu64, grab->token_nonce);
    struct slice *argv = flight->argv + GATE_KEYS + 1;
    argv[0] = slice_of(flight->numbers[1]);
    argv[1] = grab->buyer;
    argv[2] = grab->key;
    argv[3] = slice_of(flight->made);
    argv[4] = slice_of(flight->numbers[2]);
    argv[5] = slice_of(flight->numbers[3]);
    argv[6] = (struct slice){ flight->flags, flags };
    flight_call(flight, GATE_SCRIPT_GRAB, 7, take_answered);
}

static struct slice text_keep(char *out, size_t size, struct slice text)
{
    size_t len = text.len < size ? text.len : 0;
    if (len > 0) memcpy(out, text.data, len); /* an empty text may be nowhere */
    out[len] = '\0';
    return (struct slice){ out, len };
}

/* While the ledger cannot be asked, nothing is sold that would have to be told by it. */
static bool ledger_is_away(const struct remote *remote)
{
    return remote->options.ack == GATE_ACK_LEDGER && filer_failing(remote->filer);
}

static bool grab_is_well_formed(const struct grab *grab)
{
    return grab->units > 0 && grab->buyer.len <= BUYER_BYTES_MAX && grab->key.len <= IDEMPOTENCY_KEY_BYTES_MAX;
}

/* What is told without Redis; DONE: it has to be asked. */
static enum verdict grab_refuse(struct remote *remote, struct grab *grab)
{
    grab->now_ms = remote_now_ms(&remote->gate);
    enum verdict verdict = grab_is_well_formed(grab) ? shelf_refuse(remote->shelf, grab, grab->now_ms) : VERDICT_BAD_INPUT;
    return verdict == VERDICT_DONE && ledger_is_away(remote) ? VERDICT_BUSY : verdict;
}

static void grab_begin(struct flight *flight, const struct grab *grab)
{
    flight->kind = FLIGHT_GRAB;
    flight->ask = grab_ask;
    flight->sale_id = grab->sale_id;
    flight->number = 0;
    flight->available = 0;
    flight->grab = *grab;
    flight->grab.buyer = text_keep(flight->buyer, sizeof flight->buyer, grab->buyer);
    flight->grab.key = text_keep(flight->key, sizeof flight->key, grab->key);
    flight->made[0] = '\0';
    if (grab->buyer.len == 0 && grab->key.len > 0)
        buyer_of(&(struct grab){ .key = grab->key }, ADMISSION_OPEN, 0, flight->made);
    grab_ask(flight);
}

void remote_grab(struct gate_lane *base, struct grab *grab, struct gate_ticket *ticket)
{
    struct remote_lane *lane = remote_lane_of(base);
    enum verdict verdict = grab_refuse(lane->remote, grab);
    struct flight *flight = verdict == VERDICT_DONE ? flight_open(lane, ticket) : NULL;
    if (flight != NULL) {
        grab_begin(flight, grab);
        return;
    }
    ticket->seq = 0;
    ticket->grab.available = 0;
    ticket->verdict = verdict == VERDICT_DONE ? VERDICT_BUSY : verdict;
    ticket->done(ticket);
}

void remote_grabs_ask(struct gate_lane *base, struct gate_grab *grabs, uint32_t count, struct gate_ticket *ticket)
{
    struct remote_lane *lane = remote_lane_of(base);
    ticket->verdict = VERDICT_DONE;
    ticket->seq = 0;
    ticket->left = count + 1; /* one for this call itself */
    for (struct gate_grab *it = grabs; it < grabs + count; it++) {
        enum verdict verdict = grab_refuse(lane->remote, &it->grab);
        struct flight *flight = verdict == VERDICT_DONE ? flight_open(lane, ticket) : NULL;
        it->seq = it->order_no = 0;
        it->available = 0;
        if (flight != NULL) {
            flight->together = it;
            grab_begin(flight, &it->grab);
            continue;
        }
        it->verdict = verdict == VERDICT_DONE ? VERDICT_BUSY : verdict;
        ticket->left--;
    }
    if (--ticket->left == 0) ticket->done(ticket);
}

static void token_ask(struct flight *flight)
{
    if (!take_ready(flight)) return;
    snprintf(flight->numbers[1], sizeof flight->numbers[1], "%" PRIu64, flight->number);
    snprintf(flight->numbers[2], sizeof flight->numbers[2], "%d", (int)flight->token.admission);
    snprintf(flight->numbers[3], sizeof flight->numbers[3], "%" PRIu64, flight->token.nonce);
    struct slice *argv = flight->argv + GATE_KEYS + 1;
    argv[0] = slice_of(flight->numbers[1]);
    argv[1] = slice_of(flight->buyer);
    argv[2] = slice_of(flight->numbers[2]);
    argv[3] = slice_of(flight->numbers[3]);
    flight_call(flight, GATE_SCRIPT_TOKEN, 4, take_answered);
}

void remote_token(struct gate_lane *base, struct token_ask *ask, struct gate_ticket *ticket)
{
    struct remote_lane *lane = remote_lane_of(base);
    ask->now_ms = remote_now_ms(&lane->remote->gate);
    struct flight *flight = ledger_is_away(lane->remote) ? NULL : flight_open(lane, ticket);
    if (flight == NULL) {
        ticket->verdict = VERDICT_BUSY;
        ticket->seq = 0;
        ticket->done(ticket);
        return;
    }
    flight->kind = FLIGHT_TOKEN;
    flight->ask = token_ask;
    flight->sale_id = ask->sale_id;
    flight->number = 0;
    flight->token = *ask;
    flight->token.buyer = text_keep(flight->buyer, sizeof flight->buyer, ask->buyer);
    token_ask(flight);
}
