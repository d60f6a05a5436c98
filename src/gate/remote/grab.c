/* Takes: grabs and purchase tokens. The gate first, then the ledger. */
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "engine/buyer.h"
#include "gate/remote/remote.h"

#include <inttypes.h>
#include <string.h>

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

/* BUSY says that nothing was taken: where an earlier try may have, nobody may say so. */
static void take_refused(struct flight *flight, enum verdict verdict)
{
    flight_tell(flight, verdict == VERDICT_BUSY && flight->unknown ? VERDICT_UNKNOWN : verdict);
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
        take_refused(flight, VERDICT_BUSY);
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

/* False: the sale is over, or there never was one (whoever could not know has asked gate_meet() before), or this node may
 * make no orders at present. */
static bool take_ready(struct flight *flight)
{
    struct remote *remote = flight->lane->remote;
    enum verdict verdict = flight->unknown ? VERDICT_UNKNOWN : VERDICT_NO_SUCH_SALE;
    if (shelf_epoch(remote->shelf, flight->sale_id, &flight->epoch)) {
        if (flight->number == 0) flight->number = remote_number(remote, flight->sale_id);
        if (flight->number != 0) return true;
        verdict = VERDICT_BUSY;
    }
    take_refused(flight, verdict);
    return false;
}

/* What the pre-count says of one that came then: with a key, only what it has heard since (P7). */
static enum verdict flight_refuse(const struct flight *flight, uint64_t now_ms)
{
    uint64_t since_ms = flight->grab.key.len > 0 ? flight->until_ms - FLIGHT_MS : 0;
    return shelf_refuse(flight->lane->remote->shelf, &flight->grab, now_ms, since_ms);
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
    enum verdict verdict = flight_refuse(flight, now_ms);
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
    struct slice *argv = flight->argv + GATE_KEYS + 1;
    argv[0] = flight_number(flight, 1, flight->number);
    argv[1] = grab->buyer;
    argv[2] = grab->key;
    argv[3] = slice_of(flight->made);
    argv[4] = flight_number(flight, 2, grab->units);
    argv[5] = flight_number(flight, 3, grab->token_nonce);
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

/* While the ledger cannot be asked, or not about this sale, nothing is sold that would have to be told by it. */
static bool ledger_is_away(const struct remote *remote, uint64_t sale_id)
{
    return remote->options.ack == GATE_ACK_LEDGER &&
           (filer_failing(remote->filer) || (kept_any(&remote->kept) && kept_now(&remote->kept, sale_id)));
}

static bool grab_is_well_formed(const struct grab *grab)
{
    return grab->units > 0 && grab->buyer.len <= BUYER_BYTES_MAX && grab->key.len <= IDEMPOTENCY_KEY_BYTES_MAX;
}

/* What is told without Redis; DONE: it has to be asked, *recheck: only how the sale stands. */
static enum verdict grab_refuse(struct remote *remote, struct grab *grab, bool *recheck)
{
    grab->now_ms = remote_now_ms(&remote->gate);
    *recheck = false;
    if (!grab_is_well_formed(grab)) return VERDICT_BAD_INPUT;
    enum verdict verdict = shelf_refuse(remote->shelf, grab, grab->now_ms, 0);
    *recheck = verdict != VERDICT_DONE && grab->key.len > 0;
    if (*recheck) return VERDICT_DONE;
    return verdict == VERDICT_DONE && ledger_is_away(remote, grab->sale_id) ? VERDICT_BUSY : verdict;
}

/* The pre-count would turn it away, and Redis has been looked at since it came. */
static void grab_rechecked(struct flight *flight)
{
    struct remote *remote = flight->lane->remote;
    enum verdict verdict = flight_refuse(flight, remote_now_ms(&remote->gate));
    if (verdict == VERDICT_DONE && ledger_is_away(remote, flight->sale_id)) verdict = VERDICT_BUSY;
    flight->ask = grab_ask;
    if (verdict == VERDICT_DONE) {
        grab_ask(flight);
    } else {
        take_refused(flight, verdict);
    }
}

static void grab_begin(struct flight *flight, const struct grab *grab, bool recheck)
{
    flight->kind = FLIGHT_GRAB;
    flight->ask = recheck ? grab_rechecked : grab_ask;
    flight->sale_id = grab->sale_id;
    flight->number = 0;
    flight->available = 0;
    flight->grab = *grab;
    flight->grab.buyer = text_keep(flight->buyer, sizeof flight->buyer, grab->buyer);
    flight->grab.key = text_keep(flight->key, sizeof flight->key, grab->key);
    flight->made[0] = '\0';
    if (grab->buyer.len == 0 && grab->key.len > 0)
        buyer_of(&(struct grab){ .key = grab->key }, ADMISSION_OPEN, 0, flight->made);
    if (!recheck || !recheck_wait(flight)) flight->ask(flight);
}

void remote_grab(struct gate_lane *base, struct grab *grab, struct gate_ticket *ticket)
{
    struct remote_lane *lane = remote_lane_of(base);
    bool recheck;
    enum verdict verdict = grab_refuse(lane->remote, grab, &recheck);
    struct flight *flight = verdict == VERDICT_DONE ? flight_open(lane, ticket) : NULL;
    if (flight != NULL) {
        grab_begin(flight, grab, recheck);
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
        bool recheck;
        enum verdict verdict = grab_refuse(lane->remote, &it->grab, &recheck);
        struct flight *flight = verdict == VERDICT_DONE ? flight_open(lane, ticket) : NULL;
        it->seq = it->order_no = 0;
        it->available = 0;
        if (flight != NULL) {
            flight->together = it;
            grab_begin(flight, &it->grab, recheck);
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
    struct slice *argv = flight->argv + GATE_KEYS + 1;
    argv[0] = flight_number(flight, 1, flight->number);
    argv[1] = slice_of(flight->buyer);
    argv[2] = flight_number(flight, 2, (uint64_t)flight->token.admission);
    argv[3] = flight_number(flight, 3, flight->token.nonce);
    flight_call(flight, GATE_SCRIPT_TOKEN, 4, take_answered);
}

void remote_token(struct gate_lane *base, struct token_ask *ask, struct gate_ticket *ticket)
{
    struct remote_lane *lane = remote_lane_of(base);
    ask->now_ms = remote_now_ms(&lane->remote->gate);
    struct flight *flight = ledger_is_away(lane->remote, ask->sale_id) ? NULL : flight_open(lane, ticket);
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
