/* The claim door: a link that people click. The first who come to a sale with admission open win and are numbered from 1,
 * the rest are numbered on. All answers have one length, for a load generator such as ab calls an answer of another length a
 * failed one. */
#include "base/text.h"
#include "doors/claim_numbers.h"
#include "doors/doors.h"
#include "gateway/request.h"
#include "gateway/resources.h"

#include <assert.h>

/* {"won":false,"claim":} around a number of 20 digits, and the end of the line. */
#define ANSWER_BYTES 43
/* A GET that takes something must reach us every time: nobody between may keep its answer. */
#define NO_STORE "Cache-Control: no-store\r\n"
#define NOT_OPEN_TO_ALL "Only a sale with admission open can be claimed here."

/* Of the process: there is one server in it, and handlers know nothing but their request. */
static struct claim_numbers losers;

static void claim_reply(struct request *request, bool won, uint64_t number)
{
    struct json_out out;
    json_object(reply_json(request, &out));
    json_key(&out, "won");
    json_bool(&out, won);
    json_key(&out, "claim");
    json_u64(&out, number);
    json_object_end(&out);
    assert(out.len < ANSWER_BYTES && ANSWER_BYTES <= out.size);
    memset(out.data + out.len, ' ', ANSWER_BYTES - out.len);
    out.data[ANSWER_BYTES - 1] = '\n';
    const struct http_head head = { .status = 200, .content_type = SLICE("application/json"), .extra = SLICE(NO_STORE) };
    reply_raw(request, &head, (struct slice){ out.data, ANSWER_BYTES });
}

static void lost_seen(struct gate_ticket *ticket)
{
    struct request *request = REQUEST_OF(ticket, ticket);
    const struct sale *sale = &ticket->sale;
    uint64_t winners = ticket->verdict == VERDICT_DONE ? sale->orders_made + sale->counts.available : 0;
    claim_reply(request, false, claim_numbers_next(&losers, request->id, winners));
}

/* Only the ledger knows whom a sale that is over has admitted, and that does not change any more: each thread remembers a
 * few, for a crowd that still clicks the link. */
#define PAST_PLACES 64
static _Thread_local struct past {
    uint64_t sale_id; /* 0: empty */
    bool open;
} pasts[PAST_PLACES];

static void past_reply(struct request *request, bool open)
{
    if (open) {
        claim_reply(request, false, claim_numbers_next(&losers, request->id, 0));
    } else {
        reply_problem(request, PROBLEM_NO_SUCH_SALE, NOT_OPEN_TO_ALL);
    }
}

static void past_run(struct query *query, struct ledger *ledger)
{
    query->fault = ledger_sale(ledger, query->id, &query->sale, &query->found);
}

static void past_seen(struct crew_job *job)
{
    struct request *request = REQUEST_OF(job, query.job);
    const struct query *query = &request->query;
    if (job->late || query->fault != FAULT_NONE) {
        reply_problem(request, PROBLEM_BUSY, NULL);
        return;
    }
    const struct past past = { request->id, query->found && query->sale.terms.admission == ADMISSION_OPEN };
    if (query->found) pasts[past.sale_id % PAST_PLACES] = past;
    past_reply(request, past.open);
}

static void past_lost(struct request *request)
{
    const struct past *past = &pasts[request->id % PAST_PLACES];
    request->counted = false; /* it has been */
    if (past->sale_id == request->id) {
        past_reply(request, past->open);
        return;
    }
    request->query.id = request->id;
    request->query.seq_wait = 0;
    request_query(request, past_run, past_seen);
}

/* Winners still to come are numbered up to as many as are left. What stands on the board is enough where all of them are
 * made here. */
static void lost_reply(struct request *request)
{
    struct board_notice notice;
    struct gate *gate = request_rooms(request)->gate;
    if (!gate_sale_notice(gate, request->id, &notice)) {
        past_lost(request);
    } else if (!gate_is_here(gate)) {
        request->ticket.done = lost_seen;
        gate_look(request->reactor->lane, request->id, &request->ticket);
    } else {
        claim_reply(request, false, claim_numbers_next(&losers, request->id, notice.orders_made + notice.available));
    }
}

/* What is no matter of luck has the status that the native interface gives it. */
static void refusal_reply(struct request *request, enum problem problem, const char *detail)
{
    struct json_out out;
    json_object(reply_json(request, &out));
    json_key(&out, "won");
    if (problem == PROBLEM_OUTCOME_UNKNOWN) {
        json_null(&out);
    } else {
        json_bool(&out, false);
    }
    json_key(&out, "code");
    json_text(&out, problem_code(problem));
    json_key(&out, "detail");
    json_text(&out, detail != NULL ? detail : problem_detail(problem));
    json_object_end(&out);
    assert(!out.overflow);
    const struct http_head head = {
        .status = problem_status(problem),
        .content_type = SLICE("application/json"),
        .extra = SLICE(NO_STORE),
    };
    reply_raw(request, &head, (struct slice){ out.data, out.len });
}

static void problem_reply(struct request *request, enum problem problem, const char *detail)
{
    if (request->won) { /* and nobody to count: it must not sound as if nothing was taken */
        refusal_reply(request, PROBLEM_OUTCOME_UNKNOWN, NULL);
        return;
    }
    switch (problem) {
    case PROBLEM_SOLD_OUT:
    case PROBLEM_CLOSED:
    case PROBLEM_NOT_OPEN:
    case PROBLEM_PAUSED:
        lost_reply(request);
        return;
    default:
        refusal_reply(request, problem, detail);
        return;
    }
}

static void place_run(struct query *query, struct ledger *ledger)
{
    query->fault = ledger_order_place(ledger, query->id, query->after, &query->place);
}

static void place_done(struct crew_job *job)
{
    struct request *request = REQUEST_OF(job, query.job);
    if (job->late || request->query.fault != FAULT_NONE) {
        reply_problem(request, PROBLEM_OUTCOME_UNKNOWN, NULL);
    } else {
        claim_reply(request, true, request->query.place);
    }
}

/* The buyer's name has the number. One who brought an Idempotency-Key is named by it, and only the ledger has counted. */
static void won_reply(struct request *request, const struct order *order)
{
    static const char prefix[] = "claim:";
    uint64_t number;
    if (strncmp(order->buyer, prefix, sizeof prefix - 1) == 0 &&
        text_to_u64(slice_of(order->buyer + sizeof prefix - 1), &number)) {
        claim_reply(request, true, number);
        return;
    }
    uint64_t sale_id = order->sale_id, no = order->no; /* the order lies where the query will */
    request->won = true;
    request->counted = false; /* it has been */
    request->query.id = sale_id;
    request->query.after = no;
    request->query.seq_wait = gate_seq_decided(request_rooms(request)->gate);
    request_query(request, place_run, place_done);
}

/* Which sale may be claimed by whoever comes; PROBLEM_NONE where this one may. */
static enum problem claim_problem(struct request *request, const char **detail)
{
    struct gate *gate = request_rooms(request)->gate;
    struct board_notice notice;
    *detail = NULL;
    if (request->http.method == HTTP_HEAD_) {
        memcpy(request->allow, "GET, POST", sizeof "GET, POST");
        *detail = "A claim is made with GET or POST; HEAD asks and takes nothing.";
        return PROBLEM_METHOD_NOT_ALLOWED;
    }
    if (gate_sale_notice(gate, request->id, &notice)) {
        *detail = NOT_OPEN_TO_ALL;
        return notice.admission == ADMISSION_OPEN ? PROBLEM_NONE : PROBLEM_NO_SUCH_SALE;
    }
    if (!gate_sale_is_past(gate, request->id)) return PROBLEM_NO_SUCH_SALE;
    request->counted = true;
    return request->http.has_idempotency_key ? PROBLEM_NONE : PROBLEM_CLOSED;
}

static void claim_begin(struct request *request)
{
    struct grab_ask ask = { .units = 1, .token = { NULL, 0 } };
    const char *detail;
    if (!grab_key(request, &ask.key)) return;
    enum problem problem = claim_problem(request, &detail);
    if (problem == PROBLEM_NONE) {
        grab_begin(request, &ask);
    } else if (request->refused != PROBLEM_NONE) {
        reply_problem(request, request->refused, NULL);
    } else if (request_guarded(request)) {
        reply_problem(request, problem, detail);
    }
}

/* The sale that the operator has named. */
static void claim_default(struct request *request)
{
    request->id = atomic_load_explicit(&request->reactor->server->luck_sale, memory_order_relaxed);
    const struct gate_stranger stranger = { .sale_id = request->id };
    if (request->id == 0 || !request_meets(request, &stranger, claim_begin)) claim_begin(request);
}

static const struct face face = { .problem = problem_reply, .won = won_reply, .already = won_reply };

static const struct route routes[] = {
    { HTTP_GET_, "/luck/{sale}", WHO_ADMITTED, RATE_GRAB, claim_begin, &face },
    { HTTP_POST_, "/luck/{sale}", WHO_ADMITTED, RATE_GRAB, claim_begin, &face },
    { HTTP_GET_, "/luck", WHO_ADMITTED, RATE_GRAB, claim_default, &face },
    { HTTP_POST_, "/luck", WHO_ADMITTED, RATE_GRAB, claim_default, &face },
};

const struct route_table claim_door = { routes, sizeof routes / sizeof *routes, "/luck", &face };
