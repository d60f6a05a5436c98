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

/* A claim is named by Redis, and new. */
static bool order_is_theirs(const struct flight *flight)
{
    static const char claim[] = "claim:";
    const char *buyer = flight->buyer[0] != '\0' ? flight->buyer : flight->made;
    if (buyer[0] != '\0') return strcmp(buyer, flight->order.buyer) == 0;
    return flight->verdict == VERDICT_WON && strncmp(flight->order.buyer, claim, strlen(claim)) == 0;
}

/* The reply has the order that it names, which is nobody else's. */
static bool answer_order(struct flight *flight, const struct redis_reply *reply, size_t at)
{
    struct slice ref;
    struct slice no = reply_text(reply, at), line = reply_text(reply, at + 1);
    return script_order(no, line, flight->sale_id, &flight->order, &ref) && order_is_theirs(flight);
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

/* No script of ours leaves behind what makes another fail. Many may meet it at once. */
static void damage_mend(struct remote_lane *lane, uint64_t sale_id, struct slice what)
{
    enum { SAID_APART_MS = 1000 };
    uint64_t now_ms = mono_ms();
    keeper_mend(lane->remote->keeper, sale_id);
    if (lane->damage_said_ms != 0 && now_ms < lane->damage_said_ms + SAID_APART_MS) return;
    lane->damage_said_ms = now_ms;
    log_error("gate", "sale %" PRIu64 ": what stands in Redis cannot be used, and is built anew: %.*s", sale_id,
              (int)what.len, what.data);
}

static void take_damaged(struct flight *flight, struct slice what)
{
    damage_mend(flight->lane, flight->sale_id, what);
    flight_wait(flight);
}

static void order_mend(struct flight *flight)
{
    take_damaged(flight, SLICE("an order cannot be read, or is another buyer's"));
}

/* Words that are no verdicts. */
static void take_not_now(struct flight *flight, const struct redis_reply *reply, struct slice word)
{
    if (slice_is(word, "NOT_LOADED") || slice_is(word, "STALE") || slice_is(word, "LOADING")) {
        flight_later(flight);
    } else if (slice_is(word, "NUMBER_TAKEN")) {
        flight->number = 0;
        flight_wait(flight);
    } else if (slice_is(word, "FULL")) {
        take_refused(flight, VERDICT_BUSY);
    } else if (slice_is(word, "DAMAGED")) {
        take_damaged(flight, reply_text(reply, 1));
    } else {
        log_error("gate", "sale %" PRIu64 ": the script in Redis answered %.*s", flight->sale_id, (int)word.len, word.data);
        flight_later(flight);
    }
}

static void grab_answered(struct flight *flight, const struct redis_reply *reply, const struct script_answer *answer)
{
    enum verdict verdict;
    if (!script_verdict(answer->word, &verdict)) {
        take_not_now(flight, reply, answer->word);
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
        flight->unknown = true;
        order_mend(flight);
    }
}

static void token_answered(struct flight *flight, const struct redis_reply *reply, const struct script_answer *answer)
{
    enum verdict verdict;
    if (!script_verdict(answer->word, &verdict)) {
        take_not_now(flight, reply, answer->word);
        return;
    }
    flight->verdict = verdict;
    if (verdict == VERDICT_DONE || verdict == VERDICT_REPEATED) {
        flight->number = reply_number(reply, 3);
        flight->order.won_ms = answer->at_ms;
        entry_keep(flight, reply_text(reply, 4));
        take_given(flight);
    } else if (verdict == VERDICT_ALREADY_WON && !answer_order(flight, reply, 5)) {
        order_mend(flight);
    } else {
        take_refused(flight, verdict);
    }
}

static void take_heard(struct flight *flight, enum redis_result result, const struct redis_reply *reply)
{
    struct script_answer answer;
    switch (result) {
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
    case REDIS_FAILED: /* failure_mend() has said so */
    case REDIS_UNKNOWN:
        break;
    }
    flight->unknown = true;
    flight_wait(flight);
}

static void failure_mend(const struct redis_call *call, const struct redis_reply *reply)
{
    const struct flight *flight = (const struct flight *)call;
    if (call->result == REDIS_FAILED) damage_mend(flight->lane, flight->sale_id, reply->text);
}

static void token_heard(struct redis_call *call, const struct redis_reply *reply)
{
    struct flight *flight = (struct flight *)call;
    flight->connection = call->connection;
    failure_mend(call, reply);
    take_heard(flight, call->result, reply);
}

/* Each grab has an answer of its own, unless there is one word for all of them. Whoever is told may ask again at once, with
 * the flight that is free then: nothing of one that was told is looked at any more. */
static void grabs_heard(struct redis_call *call, const struct redis_reply *reply)
{
    struct flight *flight = (struct flight *)call;
    enum redis_result result = call->result;
    uint64_t connection = call->connection;
    failure_mend(call, reply);
    bool apart = result == REDIS_ANSWERED && reply->type == REDIS_LIST && reply->count > 0 &&
                 reply->items[0].type == REDIS_LIST;
    for (size_t i = 0; flight != NULL; i++) {
        struct flight *next = flight->next;
        const struct redis_reply *own = !apart ? reply : i < reply->count ? &reply->items[i] : NULL;
        flight->next = NULL;
        flight->connection = connection;
        take_heard(flight, result, own);
        flight = next;
    }
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

static void grab_words(struct flight *flight, struct slice words[GATE_GRAB_WORDS])
{
    const struct grab *grab = &flight->grab;
    size_t flags = 0;
    if (grab->token_brought) flight->flags[flags++] = 'b';
    if (grab->turned_away) flight->flags[flags++] = 'a';
    if (grab->trusted) flight->flags[flags++] = 't';
    if (grab->won_first) flight->flags[flags++] = 'w';
    words[0] = flight_number(flight, 1, flight->number);
    words[1] = grab->buyer;
    words[2] = grab->key;
    words[3] = slice_of(flight->made);
    words[4] = flight_number(flight, 2, grab->units);
    words[5] = flight_number(flight, 3, grab->token_nonce);
    words[6] = (struct slice){ flight->flags, flags };
}

/* The first of them makes the call for all. */
static void asking_end(struct remote_lane *lane, struct asking *asking)
{
    struct flight *first = asking->first;
    struct slice *words = first->argv + GATE_KEYS + 1;
    uint32_t count = asking->count;
    for (struct flight *flight = first; flight != NULL; flight = flight->next, words += GATE_GRAB_WORDS)
        grab_words(flight, words);
    lane->asking_count -= count;
    *asking = (struct asking){ .first = NULL };
    flight_call(first, GATE_SCRIPT_GRAB, count * GATE_GRAB_WORDS, grabs_heard);
}

/* The sale's own, or one that is free; else that of another sale, which goes first. */
static struct asking *asking_of(struct remote_lane *lane, uint64_t sale_id)
{
    struct asking *first = &lane->asking[sale_id % LANE_ASKINGS], *idle = NULL;
    for (uint64_t i = 0; i < LANE_ASKINGS; i++) {
        struct asking *asking = &lane->asking[(sale_id + i) % LANE_ASKINGS];
        if (asking->first != NULL && asking->first->sale_id == sale_id) return asking;
        if (asking->first == NULL && idle == NULL) idle = asking;
    }
    return idle != NULL ? idle : first;
}

/* What a call costs in Redis beside the grab itself (the sale as it stands, the time, the counts as they are then) is as
 * much as the grab, so those of a turn that are for one sale share it. */
static void asking_add(struct flight *flight)
{
    struct remote_lane *lane = flight->lane;
    struct asking *asking = asking_of(lane, flight->sale_id);
    if (asking->first != NULL && (asking->first->sale_id != flight->sale_id || asking->first->epoch != flight->epoch))
        asking_end(lane, asking);
    if (lane->asking_count == 0) redis_client_hurry(lane->client);
    flight->next = NULL;
    *(asking->first == NULL ? &asking->first : &asking->last->next) = flight;
    asking->last = flight;
    lane->asking_count++;
    if (++asking->count == GATE_GRABS_MAX) asking_end(lane, asking);
}

/* Of a client that was closed they are answered at once, and whoever hears that may ask for more. */
void remote_ask(struct remote_lane *lane)
{
    while (lane->asking_count > 0) {
        for (struct asking *asking = lane->asking; asking < lane->asking + LANE_ASKINGS; asking++) {
            if (asking->first != NULL) asking_end(lane, asking);
        }
    }
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
    if (!take_ready(flight) || !grab_shares(flight)) return;
    metrics_add(METRIC_GRABS_ASKED, 1);
    asking_add(flight);
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
    flight_call(flight, GATE_SCRIPT_TOKEN, 4, token_heard);
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
