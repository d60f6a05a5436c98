/* The grab: the request everything else is there for. */
#include "base/clock.h"
#include "base/metrics.h"
#include "base/text.h"
#include "engine/buyer.h"
#include "gateway/request.h"
#include "gateway/resources.h"

#include <assert.h>

/* kind: COUNTED_WON or COUNTED_REPEATED. */
static void grab_won(struct request *request, const struct order *order, unsigned kind)
{
    request_count(request, kind);
    const struct face *face = request->face;
    if (face != NULL) {
        face->won(request, order);
        return;
    }
    struct json_out out;
    json_object(reply_json(request, &out));
    json_key(&out, "order");
    render_order(&out, order);
    json_key(&out, "now");
    json_time(&out, gate_now_ms(request_rooms(request)->gate));
    json_object_end(&out);
    reply_send(request, 201, &out);
}

void grab_already(struct request *request, const struct order *order)
{
    const struct face *face = request->face;
    if (face != NULL) {
        request_count(request, PROBLEM_ALREADY_WON);
        face->already(request, order);
        return;
    }
    struct json_out out;
    reply_problem_begin(request, &out, PROBLEM_ALREADY_WON, NULL);
    json_key(&out, "order");
    render_order(&out, order);
    reply_problem_send(request, PROBLEM_ALREADY_WON, &out);
}

static void past_run(struct query *query, struct ledger *ledger)
{
    struct ledger_key scope = { .sale_id = query->id, .buyer = slice_of(query->buyer), .key = slice_of(query->key) };
    query->fault = ledger_order_by_key(ledger, &scope, &query->order, &query->found);
    if (query->fault != FAULT_NONE || query->found) return;
    /* A sale with admission open knew the buyer by the key, whoever was logged in. */
    char name[BUYER_BYTES_MAX + 1];
    scope.buyer = buyer_of(&(struct grab){ .key = scope.key }, ADMISSION_OPEN, 0, name);
    query->fault = ledger_order_by_key(ledger, &scope, &query->order, &query->found);
}

static void past_done(struct crew_job *job)
{
    struct request *request = REQUEST_OF(job, query.job);
    struct query *query = &request->query;
    if (job->late || query->fault != FAULT_NONE) {
        reply_problem(request, PROBLEM_BUSY, NULL);
    } else if (!query->found) {
        reply_problem(request, PROBLEM_CLOSED, NULL);
    } else if (query->order.units != request->units) {
        reply_problem(request, PROBLEM_KEY_REUSED, NULL);
    } else {
        grab_won(request, &query->order, COUNTED_REPEATED);
    }
}

/* The sale is over and memory may have let go of it, but a win asked again with its key gets the same answer (P7): the
 * ledger knows. Without a key a closed sale costs no query. */
static void grab_past(struct request *request)
{
    struct query *query = &request->query;
    query->id = request->id;
    query->seq_wait = gate_seq_past(request_rooms(request)->gate);
    memcpy(query->buyer, request->who.name.data, request->who.name.len);
    query->buyer[request->who.name.len] = '\0';
    memcpy(query->key, request->key, sizeof query->key);
    request_query(request, past_run, past_done);
}

/* When nothing at all is left, those in line need not wait for their turn to hear so. */
static void line_tell_sold_out(struct request *request)
{
    struct board_notice notice;
    struct rooms *rooms = request_rooms(request);
    if (gate_sale_notice(rooms->gate, request->id, &notice) && notice.available == 0)
        line_sold_out(rooms->lines, request->id);
}

/* Who was let in tells those who wait with the same key, and who has won all he may leaves no slot to wait for. */
static void line_tell_answer(struct request *request, const struct gate_ticket *ticket)
{
    struct lines *lines = request_rooms(request)->lines;
    enum verdict verdict = ticket->verdict;
    if (request->let_in) line_settle(lines, &request->waiter);
    request->let_in = false;
    uint64_t spent = verdict == VERDICT_WON ? ticket->grab.order.token_nonce : 0;
    if (spent != 0) place_spent(lines, request->id, request->who.name, spent);
    if (verdict == VERDICT_WON && ticket->grab.grabs_left == 0) line_served(lines, request->id, request->who.name);
    if (verdict == VERDICT_WON || verdict == VERDICT_SOLD_OUT) line_tell_sold_out(request);
}

/* The checks of the guard that only the gate can put in their place among the problems. */
static void refusal_count(struct request *request, enum verdict verdict)
{
    struct guard *guard = request_rooms(request)->guard;
    if (verdict == VERDICT_TOKEN_REQUIRED || verdict == VERDICT_TOKEN_INVALID)
        guard_refused(guard, GUARD_TOKEN, &request->visit);
    else if (verdict == VERDICT_BUSY && request->turned_away)
        guard_refused(guard, GUARD_ADMIT, &request->visit);
}

static void grab_done(struct gate_ticket *ticket)
{
    struct request *request = REQUEST_OF(ticket, ticket);
    enum verdict verdict = ticket->verdict;
    if (request->lined) line_tell_answer(request, ticket);
    bool past = verdict == VERDICT_NO_SUCH_SALE && gate_sale_is_past(request_rooms(request)->gate, request->id);
    if (past) verdict = VERDICT_CLOSED;
    if (request->entered) admission_settle(request_rooms(request)->admissions, request->id, verdict);
    metrics_add_labelled(METRIC_GRABS, (uint32_t)verdict, 1);
    refusal_count(request, verdict);
    if (verdict == VERDICT_WON || verdict == VERDICT_REPEATED) {
        grab_won(request, &ticket->grab.order, verdict == VERDICT_WON ? COUNTED_WON : COUNTED_REPEATED);
    } else if (verdict == VERDICT_ALREADY_WON) {
        grab_already(request, &ticket->grab.order);
    } else if (past && request->key[0] != '\0') {
        grab_past(request);
    } else {
        reply_verdict(request, verdict);
    }
}

/* 1 to 64 bytes of printable UTF-8. */
bool grab_key_is_good(struct slice key)
{
    return key.len >= 1 && key.len <= IDEMPOTENCY_KEY_BYTES_MAX && text_is_printable(key);
}

/* Who the buyer is, as the sale admits. notice NULL: the sale is not in memory. False: has replied. */
static bool grab_buyer(struct request *request, const struct board_notice *notice, struct slice *buyer)
{
    bool past = notice == NULL && request->who.role == ROLE_NONE && request->http.has_idempotency_key &&
                gate_sale_is_past(request_rooms(request)->gate, request->id);
    if (past || (notice != NULL && notice->admission == ADMISSION_OPEN)) {
        request->who.name.len = 0; /* a login makes no difference: each request is a new buyer */
        *buyer = (struct slice){ "", 0 };
        return true;
    }
    if (request->who.role == ROLE_CUSTOMER) {
        *buyer = request->who.name;
        return true;
    }
    reply_problem(request, request->who.role == ROLE_NONE ? request->token_problem : PROBLEM_FORBIDDEN, NULL);
    return false;
}

/* What the guard finds goes with the grab to the gate, which puts it into the order of problems: only the guard can tell a
 * good token and how many were admitted, only the gate what was won and spent. Most sales want neither, and pay nothing. */
static void grab_guard(struct request *request, const struct board_notice *notice, struct slice token, struct grab *grab)
{
    request->entered = request->turned_away = false;
    bool takes_tokens = notice->admission == ADMISSION_TOKEN || notice->admission == ADMISSION_LINE;
    if (!takes_tokens && notice->admit_max == 0) return;
    grab->now_ms = gate_now_ms(request_rooms(request)->gate);
    struct token_claim claim = { .sale_id = grab->sale_id, .buyer = grab->buyer };
    if (takes_tokens && grab->token_brought && token_verify(request->reactor->tokens, token, grab->now_ms, &claim))
        grab->token_nonce = claim.nonce;
    if (notice->admit_max == 0) return;
    request->entered = admission_enter(request_rooms(request)->admissions, notice, grab);
    grab->turned_away = request->turned_away = !request->entered;
}

struct grab_body {
    int64_t units;
    char token[TOKEN_BYTES_MAX + 1]; /* more than any token has: what is no token is refused as one */
};

static const struct json_field grab_fields[] = {
    { .name = "units", .kind = JSON_INTEGER, .min = 1, .max = UINT32_MAX, .offset = offsetof(struct grab_body, units) },
    { .name = "token",
      .kind = JSON_TEXT,
      .nullable = true,
      .max = TOKEN_BYTES_MAX,
      .offset = offsetof(struct grab_body, token) },
};
#define GIVEN_TOKEN (1u << 1)

/* To the gate, with what the request remembers of the grab. */
static void grab_go(struct request *request, bool turned_away, void (*done)(struct gate_ticket *ticket))
{
    struct grab grab = {
        .sale_id = request->id,
        .buyer = request->who.name,
        .key = slice_of(request->key),
        .units = request->units,
        .turned_away = turned_away,
    };
    request->ticket.done = done;
    gate_grab(request->reactor->lane, &grab, &request->ticket);
}

/* By the line, without the gate: that says nothing of what is behind the breaker. */
static void grab_refuse(struct request *request, enum verdict verdict, const char *detail)
{
    guard_leave(request_rooms(request)->guard, &request->visit, 0, mono_ns());
    if (request->entered) admission_settle(request_rooms(request)->admissions, request->id, VERDICT_BUSY);
    metrics_add_labelled(METRIC_GRABS, (uint32_t)verdict, 1);
    guard_refused(request_rooms(request)->guard, GUARD_LINE, &request->visit);
    reply_verdict_detail(request, verdict, detail);
}

/* SOLD_OUT and BUSY say that no order has the key. But BUSY is also told where the gate could not be asked, which is no
 * reason to say that nothing is left; that a wait was too long is so in any case. */
static void grab_refused_asked(struct gate_ticket *ticket)
{
    struct request *request = REQUEST_OF(ticket, ticket);
    bool late = request->line_verdict == VERDICT_LINE_TIMEOUT;
    if (ticket->verdict == VERDICT_SOLD_OUT || (ticket->verdict == VERDICT_BUSY && late)) {
        grab_refuse(request, request->line_verdict, NULL);
    } else {
        grab_done(ticket);
    }
}

/* This node's line refuses. One with a key may have won with it at another node meanwhile, which the gate knows (P7). */
static void grab_refuse_unless_won(struct request *request, enum verdict verdict)
{
    if (request->key[0] == '\0') {
        grab_refuse(request, verdict, NULL);
        return;
    }
    request->line_verdict = verdict;
    grab_go(request, true, grab_refused_asked);
}

/* After it got as far as the line, so that it counts as a grab. */
static void grab_blocked(struct request *request)
{
    struct rooms *rooms = request_rooms(request);
    if (request->let_in) line_settle(rooms->lines, &request->waiter);
    if (request->entered) admission_settle(rooms->admissions, request->id, VERDICT_BUSY);
    metrics_add_labelled(METRIC_GRABS, VERDICT_BLOCKED, 1);
    reply_verdict(request, VERDICT_BLOCKED);
}

/* One that stood beside the same grab, and not on an admission of its own, is on its own after all: the first has left. */
static void grab_admit(struct request *request)
{
    struct rooms *rooms = request_rooms(request);
    struct board_notice notice;
    const struct grab grab = { .sale_id = request->id, .now_ms = gate_now_ms(rooms->gate) };
    request->entered = gate_sale_notice(rooms->gate, request->id, &notice) &&
                       admission_enter(rooms->admissions, &notice, &grab);
    request->turned_away = !request->entered;
}

/* The line has spoken. What became of the sale, or of the same grab asked before, the gate knows. */
static void grab_called(struct line_waiter *waiter, enum line_outcome outcome)
{
    struct request *request = REQUEST_OF(waiter, waiter);
    request->parked = false;
    request->let_in = outcome == LINE_ADMITTED;
    request->visit.entered_ns = mono_ns(); /* what was waited on purpose is not slowness */
    if (guard_is_blocked(request_rooms(request)->guard, &request->visit)) {
        grab_blocked(request);
        return;
    }
    switch (outcome) {
    case LINE_ADMITTED:
        if (!request->visit.inside) guard_return(request_rooms(request)->guard, &request->visit);
        if (request->turned_away) grab_admit(request);
        grab_go(request, request->turned_away, grab_done);
        return;
    case LINE_CLOSED:
    case LINE_SERVED:
    case LINE_REPEATED:
        grab_go(request, true, grab_done);
        return;
    case LINE_TIMED_OUT:
        grab_refuse_unless_won(request, VERDICT_LINE_TIMEOUT);
        return;
    case LINE_SOLD_OUT:
        grab_refuse_unless_won(request, VERDICT_SOLD_OUT);
        return;
    case LINE_FULL:
        grab_refuse(request, VERDICT_BUSY, LINE_FULL_DETAIL);
        return;
    case LINE_TWICE:
        grab_refuse(request, VERDICT_BUSY, LINE_TWICE_DETAIL);
        return;
    case LINE_WAITING:
    case LINE_LEFT:
    case LINE_OUTCOMES:
        break;
    }
    assert(!"the line tells an outcome");
}

static void grab_park(struct request *request)
{
    struct rooms *rooms = request_rooms(request);
    struct sale sale;
    struct line_terms terms;
    bool here = !request->connection->ended && request->connection->state != CONNECTION_CLOSING &&
                !request->connection->closed;
    if (!here || !gate_sale(rooms->gate, request->id, &sale) || sale.paused || sale.closed) {
        grab_go(request, true, grab_done); /* nobody is there to wait, or it was stopped in this moment */
        return;
    }
    if (!sale_line(rooms, &sale, &terms)) {
        request->retry_s = LINE_GONE_RETRY_S;
        grab_refuse(request, VERDICT_BUSY, LINE_GONE_DETAIL);
        return;
    }
    request->waiter.go = grab_called;
    request->waiter.mailbox = request->reactor->line_mailbox;
    const struct line_ask ask = {
        .sale_id = request->id,
        .buyer = request->who.name,
        .grabs_max = sale.terms.grabs_per_buyer_max,
        .key = slice_of(request->key),
        .units = request->units,
    };
    enum line_outcome outcome = line_enter(rooms->lines, &request->waiter, &ask, &terms, mono_ns());
    request->parked = outcome == LINE_WAITING;
    if (!request->parked) {
        grab_called(&request->waiter, outcome);
        return;
    }
    /* Waiting says nothing of what is behind the breaker: a probe that waits would keep it half open for everybody. */
    guard_leave(rooms->guard, &request->visit, 0, mono_ns());
    /* One that has sent far ahead while the gate was asked could not be seen to leave. */
    if (request->connection->paused) connection_close(request->connection);
}

/* Whoever would be refused anyway, or has won with this key before, is told at once; only who would win stands in line. */
static void grab_probed(struct gate_ticket *ticket)
{
    struct request *request = REQUEST_OF(ticket, ticket);
    if (ticket->verdict == VERDICT_BUSY) {
        grab_park(request);
    } else {
        grab_done(ticket);
    }
}

/* The sale as it stands outside; NULL where it is not in memory. From here on what becomes of the grab is counted. */
static const struct board_notice *grab_look(struct request *request, struct board_notice *notice)
{
    struct gate *gate = request_rooms(request)->gate;
    bool known = gate_sale_notice(gate, request->id, notice);
    request->counted = known || gate_sale_is_past(gate, request->id);
    return known ? notice : NULL;
}

/* The rest, once the input is known to be good. known NULL: the sale is not in memory. */
static void grab_enter(struct request *request, const struct board_notice *known, const struct grab_ask *ask)
{
    static const struct board_notice unknown = { .admission = ADMISSION_LOGIN };
    const struct board_notice *notice = known != NULL ? known : &unknown;
    bool admits = request->route->who & WHO_ADMITTED; /* else the way here has looked who it is */
    if (admits && request->refused != PROBLEM_NONE) {
        bool nobody = request->http.authorization.len == 0 && notice->admission != ADMISSION_OPEN;
        reply_problem(request, nobody ? PROBLEM_NOT_LOGGED_IN : request->refused, NULL);
        return;
    }
    struct grab grab = {
        .sale_id = request->id, .key = ask->key, .units = ask->units, .token_brought = ask->token.data != NULL
    };
    if (!grab_buyer(request, known, &grab.buyer)) return;
    if (admits && !request_guarded(request)) return;
    grab_guard(request, notice, ask->token, &grab);

    request->units = grab.units;
    memcpy(request->key, ask->key.data, ask->key.len);
    request->key[ask->key.len] = '\0';
    request->lined = notice->admission == ADMISSION_LINE;
    request->let_in = false;
    bool waits = request->lined && !grab.token_brought;
    /* Past admit_max only the same grab asked again waits: it was admitted the first time. */
    if (waits && grab.turned_away) {
        const struct line_ask same = { .sale_id = request->id, .buyer = grab.buyer, .key = ask->key, .units = grab.units };
        waits = line_knows(request_rooms(request)->lines, &same);
    }
    if (waits) grab.turned_away = true; /* for the probe: what is no win is told at once */
    request->ticket.done = waits ? grab_probed : grab_done;
    gate_grab(request->reactor->lane, &grab, &request->ticket);
}

void grab_begin(struct request *request, const struct grab_ask *ask)
{
    struct board_notice notice;
    grab_enter(request, grab_look(request, &notice), ask);
}

bool grab_key(struct request *request, struct slice *key)
{
    *key = request->http.idempotency_key;
    if (!request->http.has_idempotency_key || grab_key_is_good(*key)) return true;
    reply_problem(request, PROBLEM_BAD_INPUT, "Idempotency-Key must be 1 to 64 bytes of printable UTF-8");
    return false;
}

void grab_post(struct request *request)
{
    struct grab_body body;
    body.units = 1;
    body.token[0] = '\0';
    struct json_found found;
    found.given = 0;
    struct board_notice notice;
    const struct board_notice *known = grab_look(request, &notice);
    if (request->http.body.len > 0 && !body_read(request, grab_fields, 2, &body, &found)) return;
    struct slice key;
    if (!grab_key(request, &key)) return;
    bool brought = found.given & GIVEN_TOKEN;
    const struct grab_ask ask = { .units = (uint32_t)body.units,
                                  .key = key,
                                  .token = { brought ? body.token : NULL, brought ? strlen(body.token) : 0 } };
    grab_enter(request, known, &ask);
}
