/* What the payment provider says. Its signature is checked over the body as it came, before anything of it is read; the
 * provider may say the same thing any number of times, late or out of order, and hears how the order stands now. */
#include "base/text.h"
#include "gateway/request.h"
#include "gateway/resources.h"
#include "people/payment_keys.h"

/* Far more than a payment needs: what nobody signed is not worth hashing. */
#define PAYMENT_BODY_BYTES_MAX 4096

struct payment_body {
    char order[24], payment_ref[PAYMENT_REF_BYTES_MAX + 1], status[16];
    int64_t amount;
};

static const struct json_field payment_fields[] = {
    { .name = "order",
      .kind = JSON_TEXT,
      .required = true,
      .min = 1,
      .max = sizeof(((struct payment_body *)0)->order) - 1,
      .offset = offsetof(struct payment_body, order) },
    { .name = "amount",
      .kind = JSON_INTEGER,
      .required = true,
      .nullable = true,
      .max = INT64_MAX,
      .offset = offsetof(struct payment_body, amount) },
    { .name = "payment_ref",
      .kind = JSON_TEXT,
      .required = true,
      .min = 1,
      .max = PAYMENT_REF_BYTES_MAX,
      .offset = offsetof(struct payment_body, payment_ref) },
    { .name = "status",
      .kind = JSON_TEXT,
      .required = true,
      .min = 1,
      .max = sizeof(((struct payment_body *)0)->status) - 1,
      .offset = offsetof(struct payment_body, status) },
};

/* NULL, or what is wrong with the signature and what to do. */
static const char *signature_objection(struct request *request)
{
    const struct http_request *http = &request->http;
    const struct server *server = request->reactor->server;
    struct signed_message message = { .id = http->webhook_id, .body = http->body };
    if (http->webhook_id.len == 0 || http->webhook_timestamp.len == 0 || http->webhook_signature.len == 0)
        return "Payments are signed: send the headers webhook-id, webhook-timestamp and webhook-signature.";
    if (!signature_id_good(http->webhook_id))
        return "webhook-id must be 1 to 128 printable bytes of ASCII without a space or a full stop.";
    if (!text_to_u64(http->webhook_timestamp, &message.timestamp_s))
        return "webhook-timestamp must be whole seconds since 1970.";
    uint64_t now_s = gate_shop_ms(server->rooms.gate) / 1000;
    switch (signature_age(message.timestamp_s, now_s, server->options.payment_tolerance_s)) {
    case SIGNATURE_TOO_OLD:
        return "webhook-timestamp is too old: sign again for every try, and check the clock of the sender.";
    case SIGNATURE_TOO_NEW:
        return "webhook-timestamp is in the future: it is in seconds, not milliseconds; check the clock of the sender.";
    case SIGNATURE_TIMELY:
        break;
    }
    if (payment_keys_fit(server->rooms.payment_keys, &message, http->webhook_signature)) return NULL;
    return "No v1 signature in webhook-signature fits: sign ID.TIMESTAMP.BODY, the body as it is sent, with a secret of"
           " payment_keys.";
}

static void order_answer(struct request *request, const struct order *order)
{
    struct json_out out;
    render_order(reply_json(request, &out), order);
    reply_send(request, 200, &out);
}

/* The order tells the provider what was wrong. */
static void order_problem(struct request *request, enum problem problem, const struct order *order)
{
    struct json_out out;
    reply_problem_begin(request, &out, problem, NULL);
    json_key(&out, "order");
    render_order(&out, order);
    reply_problem_send(request, problem, &out);
}

static void payment_answer(struct request *request, enum verdict verdict, const struct order *order)
{
    switch (verdict) {
    case VERDICT_DONE:
    case VERDICT_REPEATED:
        order_answer(request, order);
        break;
    case VERDICT_AMOUNT_MISMATCH:
        order_problem(request, PROBLEM_AMOUNT_MISMATCH, order);
        break;
    case VERDICT_ALREADY_PAID:
        order_problem(request, PROBLEM_ALREADY_PAID, order);
        break;
    default:
        reply_verdict(request, verdict);
    }
}

static struct payment payment_of(const struct request *request)
{
    return (struct payment){ .order_no = request->id, .ref = slice_of(request->payment_ref), .amount = request->amount };
}

/* At the demonstration provider the buyer is known: others' orders are not there (P8), and what is paid is what is due. The
 * provider that signs is nobody's buyer. */
static bool payer_fits(struct request *request, const struct order *order)
{
    if (request->who.role == ROLE_NONE) return true;
    request->amount = order->amount;
    return slice_is(request->who.name, order->buyer);
}

static void past_done(struct gate_ticket *ticket)
{
    struct request *request = REQUEST_OF(ticket, ticket);
    enum verdict verdict = ticket->verdict == VERDICT_NO_SUCH_ORDER ? VERDICT_BUSY : ticket->verdict; /* memory has it */
    payment_answer(request, verdict, &ticket->order);
}

static void past_run(struct query *query, struct ledger *ledger)
{
    query->fault = ledger_order(ledger, query->id, &query->filed, &query->found);
}

static void past_filed(struct crew_job *job)
{
    struct request *request = REQUEST_OF(job, query.job);
    struct query *query = &request->query;
    if (job->late || query->fault != FAULT_NONE) {
        reply_problem(request, PROBLEM_BUSY, NULL);
    } else if (!query->found || !payer_fits(request, &query->filed.order)) {
        reply_problem(request, PROBLEM_NO_SUCH_ORDER, NULL);
    } else if (request->failed) {
        order_answer(request, &query->filed.order);
    } else {
        const struct ledger_order filed = query->filed; /* the ticket lies where the query does */
        struct payment payment = payment_of(request);
        request->ticket.done = past_done;
        request->ticket.order = filed.order;
        gate_pay_past(request->reactor->lane, &payment, slice_of(filed.payment_ref), &request->ticket);
    }
}

/* The sale is over and memory has let go of it: only the ledger knows the order, once it knows all that was decided. */
static void payment_past(struct request *request)
{
    request->query.id = request->id;
    request->query.seq_wait = gate_seq_decided(request_rooms(request)->gate);
    request_query(request, past_run, past_filed);
}

static void payment_done(struct gate_ticket *ticket)
{
    struct request *request = REQUEST_OF(ticket, ticket);
    if (ticket->verdict == VERDICT_NO_SUCH_ORDER) {
        payment_past(request);
    } else {
        payment_answer(request, ticket->verdict, &ticket->order);
    }
}

static void payment_tell(struct request *request)
{
    request->ticket.done = payment_done;
    if (request->failed) {
        gate_order(request->reactor->lane, request->id, &request->ticket);
        return;
    }
    struct payment payment = payment_of(request);
    gate_pay(request->reactor->lane, &payment, &request->ticket);
}

static bool status_read(struct request *request, const char *status)
{
    request->failed = strcmp(status, "failed") == 0;
    if (request->failed || strcmp(status, "succeeded") == 0) return true;
    reply_problem(request, PROBLEM_BAD_INPUT, "status must be succeeded or failed");
    return false;
}

/* False: has replied. */
static bool payment_read(struct request *request)
{
    struct payment_body body = { .amount = -1 };
    struct json_found found;
    if (!body_read(request, payment_fields, sizeof payment_fields / sizeof *payment_fields, &body, &found)) return false;
    if (!status_read(request, body.status)) return false;
    if (!text_to_u64(slice_of(body.order), &request->id)) request->id = 0; /* opaque: none of ours looks so */
    request->amount = body.amount;
    memcpy(request->payment_ref, body.payment_ref, sizeof request->payment_ref);
    return true;
}

void payments_post(struct request *request)
{
    struct gate *gate = request_rooms(request)->gate;
    if (request->http.body.len > PAYMENT_BODY_BYTES_MAX) {
        reply_problem(request, PROBLEM_BODY_TOO_LARGE, "A payment has at most 4096 bytes.");
        return;
    }
    const char *objection = signature_objection(request);
    if (objection != NULL) {
        reply_problem(request, PROBLEM_BAD_SIGNATURE, objection);
        return;
    }
    if (!payment_read(request)) return;
    if (!gate_order_possible(gate, request->id)) {
        reply_problem(request, PROBLEM_NO_SUCH_ORDER, NULL); /* a number not given out yet costs no query */
        return;
    }
    payment_tell(request);
}

static void demo_found(struct gate_ticket *ticket)
{
    struct request *request = REQUEST_OF(ticket, ticket);
    if (ticket->verdict == VERDICT_NO_SUCH_ORDER) {
        payment_past(request);
    } else if (ticket->verdict != VERDICT_DONE) {
        reply_verdict(request, ticket->verdict);
    } else if (!payer_fits(request, &ticket->order)) {
        reply_problem(request, PROBLEM_NO_SUCH_ORDER, NULL);
    } else {
        payment_tell(request);
    }
}

/* Goes the way of a signed payment from where the signature has been found good. An order has one payment_ref here, so that
 * a buyer who asks again after a lost answer pays once. */
void demo_payment_post(struct request *request)
{
    const struct json_field *field = &payment_fields[sizeof payment_fields / sizeof *payment_fields - 1];
    struct payment_body body;
    struct json_found found;
    if (!body_read(request, field, 1, &body, &found) || !status_read(request, body.status)) return;
    if (!gate_order_possible(request_rooms(request)->gate, request->id)) {
        reply_problem(request, PROBLEM_NO_SUCH_ORDER, NULL);
        return;
    }
    snprintf(request->payment_ref, sizeof request->payment_ref, "demo-%llu", (unsigned long long)request->id);
    request->ticket.done = demo_found;
    gate_order(request->reactor->lane, request->id, &request->ticket);
}
