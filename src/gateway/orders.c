#include "base/text.h"
#include "gateway/request.h"
#include "gateway/resources.h"

/* Its buyer, its seller, an admin. For everyone else the order does not exist (P8). */
static bool order_is_for(const struct request *request, const struct order *order, const char *seller)
{
    struct slice name = request->who.name;
    switch (request->who.role) {
    case ROLE_CUSTOMER:
        return slice_is(name, order->buyer);
    case ROLE_SELLER:
        return slice_is(name, seller);
    case ROLE_ADMIN:
        return true;
    case ROLE_NONE:
        break;
    }
    return false;
}

static void order_reply(struct request *request, const struct order *order, const char *seller)
{
    if (!order_is_for(request, order, seller)) {
        reply_problem(request, PROBLEM_NO_SUCH_ORDER, NULL);
        return;
    }
    struct json_out out;
    render_order(reply_json(request, &out), order);
    reply_send(request, 200, &out);
}

static void order_run(struct query *query, struct ledger *ledger)
{
    query->fault = ledger_order(ledger, query->id, &query->filed, &query->found);
    bool sale_found = false;
    if (query->fault == FAULT_NONE && query->found)
        query->fault = ledger_sale(ledger, query->filed.order.sale_id, &query->sale, &sale_found);
    query->found = query->found && sale_found;
}

static void order_filed(struct crew_job *job)
{
    struct request *request = REQUEST_OF(job, query.job);
    struct query *query = &request->query;
    if (job->late || query->fault != FAULT_NONE) {
        reply_problem(request, PROBLEM_BUSY, NULL);
    } else if (!query->found) {
        /* Where the gate could not be asked it may have one that is not filed yet. */
        bool known = request->ticket.verdict != VERDICT_BUSY;
        reply_problem(request, known ? PROBLEM_NO_SUCH_ORDER : PROBLEM_BUSY, NULL);
    } else {
        order_reply(request, &query->filed.order, query->sale.seller);
    }
}

static void order_done(struct gate_ticket *ticket)
{
    struct request *request = REQUEST_OF(ticket, ticket);
    struct gate *gate = request_rooms(request)->gate;
    struct sale sale;
    if (ticket->verdict == VERDICT_DONE && gate_sale(gate, ticket->order.sale_id, &sale)) {
        order_reply(request, &ticket->order, sale.seller);
    } else if (ticket->verdict == VERDICT_UNKNOWN) {
        reply_verdict(request, ticket->verdict);
    } else {
        request->query.id = request->id;
        request->query.seq_wait = gate_seq_past(gate);
        request_query(request, order_run, order_filed);
    }
}

/* The number of the path, if it can be one. False: has replied. */
static bool order_is_given(struct request *request)
{
    if (gate_order_possible(request_rooms(request)->gate, request->id)) return true;
    reply_problem(request, PROBLEM_NO_SUCH_ORDER, NULL); /* a number not given out yet costs no query */
    return false;
}

void order_get(struct request *request)
{
    if (!order_is_given(request)) return;
    request->ticket.done = order_done;
    gate_order(request->reactor->lane, request->id, &request->ticket);
}

/* What memory has let go of is not held any more; whose it was decides whether they hear so. */
static void cancel_filed(struct crew_job *job)
{
    struct request *request = REQUEST_OF(job, query.job);
    const struct query *query = &request->query;
    if (job->late || query->fault != FAULT_NONE) {
        reply_problem(request, PROBLEM_BUSY, NULL);
    } else if (!query->found || !order_is_for(request, &query->filed.order, query->sale.seller)) {
        reply_problem(request, PROBLEM_NO_SUCH_ORDER, NULL);
    } else {
        reply_problem(request, PROBLEM_NOT_HELD, NULL);
    }
}

static void cancel_done(struct gate_ticket *ticket)
{
    struct request *request = REQUEST_OF(ticket, ticket);
    struct json_out out;
    switch (ticket->verdict) {
    case VERDICT_DONE:
        render_order(reply_json(request, &out), &ticket->order);
        reply_send(request, 200, &out);
        break;
    case VERDICT_NO_SUCH_ORDER:
        request->query.id = request->id;
        request->query.seq_wait = 0; /* what memory let go of has been filed, and none of it is held */
        request_query(request, order_run, cancel_filed);
        break;
    default:
        reply_verdict(request, ticket->verdict);
    }
}

static enum canceller canceller_of(enum role role)
{
    switch (role) {
    case ROLE_CUSTOMER:
        return CANCELLER_BUYER;
    case ROLE_SELLER:
        return CANCELLER_SELLER;
    case ROLE_ADMIN:
        return CANCELLER_ADMIN;
    case ROLE_NONE:
        break;
    }
    return CANCELLER_NONE;
}

void cancel_post(struct request *request)
{
    static const struct json_field fields[] = {
        { .name = "reason", .kind = JSON_TEXT, .min = 1, .max = CANCEL_REASON_BYTES_MAX },
    };
    char reason[CANCEL_REASON_BYTES_MAX + 1] = "";
    struct json_found found;
    if (!body_read(request, fields, 1, reason, &found)) return;
    struct cancel cancel = {
        .order_no = request->id,
        .by = canceller_of(request->who.role),
        .name = request->who.name,
        .reason = slice_of(reason),
    };
    if (cancel.by != CANCELLER_BUYER && cancel.reason.len == 0) {
        reply_problem(request, PROBLEM_BAD_INPUT, "reason is missing: say why, in a text of 1 to 200 bytes");
        return;
    }
    if (!order_is_given(request)) return;
    request->ticket.done = cancel_done;
    gate_cancel(request->reactor->lane, &cancel, &request->ticket);
}

static void orders_visit(void *arg, const struct order *order)
{
    struct query *query = arg;
    render_order(&query->list_out, order);
    query->list_count++;
    query->list_last = order->no;
}

static void orders_run(struct query *query, struct ledger *ledger)
{
    const struct ledger_orders_query ask = {
        .buyer = slice_of(query->buyer),
        .seller = slice_of(query->seller),
        .sale_id = query->id,
        .state = query->state,
        .from_ms = query->from_ms,
        .to_ms = query->to_ms,
        .after = query->after,
        .limit = query->limit,
    };
    query->fault = query_list_begin(query);
    if (query->fault == FAULT_NONE) query->fault = ledger_orders(ledger, &ask, orders_visit, query);
    if (query->fault == FAULT_NONE) query_list_end(query);
}

/* Whose orders: one's own, of one's own sales, or anyone's; of one buyer where that is asked. False: has replied. */
static bool orders_owner(struct request *request)
{
    struct query *query = &request->query;
    struct slice name = request->who.name;
    query->seller[0] = '\0';
    if (!query_text(request, "buyer", query->buyer, sizeof query->buyer)) return false;
    switch (request->who.role) {
    case ROLE_CUSTOMER:
        if (query->buyer[0] != '\0' && !slice_is(name, query->buyer)) {
            reply_problem(request, PROBLEM_BAD_INPUT, "buyer is for sellers and admins: you see your own orders");
            return false;
        }
        memcpy(query->buyer, name.data, name.len);
        query->buyer[name.len] = '\0';
        break;
    case ROLE_SELLER:
        memcpy(query->seller, name.data, name.len);
        query->seller[name.len] = '\0';
        break;
    case ROLE_ADMIN:
    case ROLE_NONE:
        break;
    }
    return true;
}

/* from is inclusive, to is not. False: has replied. */
static bool orders_span(struct request *request)
{
    struct query *query = &request->query;
    bool has_from, has_to;
    if (!query_time(request, "from", &has_from, &query->from_ms) || !query_time(request, "to", &has_to, &query->to_ms))
        return false;
    if (has_from && has_to && query->from_ms > query->to_ms) {
        reply_problem(request, PROBLEM_BAD_INPUT, "from must not be after to");
        return false;
    }
    if (has_to && query->to_ms == 0) query->to_ms = 1; /* 0 would mean no end; nothing was won at either */
    return true;
}

void orders_get(struct request *request)
{
    const char *states[ORDER_STATE_LAST + 2] = { NULL };
    for (enum order_state state = 0; state <= ORDER_STATE_LAST; state++) states[state] = order_state_word(state);
    struct query *query = &request->query;
    char sale[24];
    if (!query_page(request) || !query_choice(request, "state", states, &query->state) ||
        !query_text(request, "sale", sale, sizeof sale) || !orders_owner(request) || !orders_span(request))
        return;
    query->id = 0;
    if (sale[0] != '\0' && (!text_to_u64(slice_of(sale), &query->id) || query->id == 0)) {
        reply_problem(request, PROBLEM_BAD_INPUT, "sale must be the id of a sale");
        return;
    }
    list_ask(request, orders_run);
}
