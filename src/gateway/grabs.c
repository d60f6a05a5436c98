/* The grab: the request everything else is there for. */
#include "base/metrics.h"
#include "base/text.h"
#include "engine/buyer.h"
#include "gateway/request.h"
#include "gateway/resources.h"

static void grab_won(struct request *request, const struct order *order)
{
    struct json_out out;
    json_object(reply_json(request, &out));
    json_key(&out, "order");
    render_order(&out, order);
    json_key(&out, "now");
    json_time(&out, gate_now_ms(request_rooms(request)->gate));
    json_object_end(&out);
    reply_send(request, 201, &out);
}

static void grab_already(struct request *request, const struct order *order)
{
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
        grab_won(request, &query->order);
    }
}

/* The sale is over and memory may have let go of it, but a win asked again with its key gets the same answer (P7): the
 * ledger knows. Without a key a closed sale costs no query. */
static void grab_past(struct request *request)
{
    struct query *query = &request->query;
    query->id = request->id;
    query->seq_wait = 0; /* what memory let go of has been filed */
    memcpy(query->buyer, request->who.name.data, request->who.name.len);
    query->buyer[request->who.name.len] = '\0';
    memcpy(query->key, request->key, sizeof query->key);
    request_query(request, past_run, past_done);
}

static void grab_done(struct gate_ticket *ticket)
{
    struct request *request = REQUEST_OF(ticket, ticket);
    enum verdict verdict = ticket->verdict;
    bool past = verdict == VERDICT_NO_SUCH_SALE && gate_sale_is_past(request_rooms(request)->gate, request->id);
    if (past) verdict = VERDICT_CLOSED;
    metrics_add_labelled(METRIC_GRABS, (uint32_t)verdict, 1);
    if (verdict == VERDICT_WON || verdict == VERDICT_REPEATED) {
        grab_won(request, &ticket->grab.order);
    } else if (verdict == VERDICT_ALREADY_WON) {
        grab_already(request, &ticket->grab.order);
    } else if (past && request->key[0] != '\0') {
        grab_past(request);
    } else {
        reply_verdict(request, verdict);
    }
}

/* 1 to 64 bytes of printable UTF-8. */
static bool key_is_good(struct slice key)
{
    return key.len >= 1 && key.len <= IDEMPOTENCY_KEY_BYTES_MAX && utf8_valid(key) && !text_has_control(key);
}

/* Who the buyer is, as the sale admits. False: has replied. */
static bool grab_buyer(struct request *request, struct slice *buyer)
{
    struct gate *gate = request_rooms(request)->gate;
    bool past = request->who.role == ROLE_NONE && request->http.has_idempotency_key && gate_sale_is_past(gate, request->id);
    if (past || gate_sale_admits_anyone(gate, request->id)) {
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

void grab_post(struct request *request)
{
    static const struct json_field fields[] = {
        { .name = "units", .kind = JSON_INTEGER, .min = 1, .max = UINT32_MAX },
    };
    int64_t units = 1;
    struct json_found found;
    if (request->http.body.len > 0 && !body_read(request, fields, 1, &units, &found)) return;
    struct slice key = request->http.idempotency_key;
    if (request->http.has_idempotency_key && !key_is_good(key)) {
        reply_problem(request, PROBLEM_BAD_INPUT, "Idempotency-Key must be 1 to 64 bytes of printable UTF-8");
        return;
    }
    struct grab grab = { .sale_id = request->id, .key = key, .units = (uint32_t)units };
    if (!grab_buyer(request, &grab.buyer)) return;

    request->units = grab.units;
    memcpy(request->key, key.data, key.len);
    request->key[key.len] = '\0';
    request->ticket.done = grab_done;
    gate_grab(request->reactor->lane, &grab, &request->ticket);
}
