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
    struct ledger_order row;
    query->fault = ledger_order(ledger, query->id, &row, &query->found);
    if (query->fault == FAULT_NONE && query->found) query->order = row.order;
    bool sale_found = false;
    if (query->fault == FAULT_NONE && query->found)
        query->fault = ledger_sale(ledger, query->order.sale_id, &query->sale, &sale_found);
    query->found = query->found && sale_found;
}

static void order_filed(struct crew_job *job)
{
    struct request *request = REQUEST_OF(job, query.job);
    struct query *query = &request->query;
    if (job->late || query->fault != FAULT_NONE) {
        reply_problem(request, PROBLEM_BUSY, NULL);
    } else if (!query->found) {
        reply_problem(request, PROBLEM_NO_SUCH_ORDER, NULL);
    } else {
        order_reply(request, &query->order, query->sale.seller);
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
        request->query.seq_wait = 0; /* what memory let go of has been filed */
        request_query(request, order_run, order_filed);
    }
}

void order_get(struct request *request)
{
    struct gate *gate = request_rooms(request)->gate;
    if (request->id == 0 || request->id > gate_seq_decided(gate)) {
        reply_problem(request, PROBLEM_NO_SUCH_ORDER, NULL); /* a number not given out yet costs no query */
        return;
    }
    request->ticket.done = order_done;
    gate_order(request->reactor->lane, request->id, &request->ticket);
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
        .after = query->after,
        .limit = query->limit,
    };
    query->fault = query_list_begin(query);
    if (query->fault == FAULT_NONE) query->fault = ledger_orders(ledger, &ask, orders_visit, query);
    if (query->fault == FAULT_NONE) query_list_end(query);
}

void orders_get(struct request *request)
{
    static const char *const states[] = { "held", "paid", "cancelled", "expired", NULL };
    struct query *query = &request->query;
    char sale[24];
    if (!query_page(request) || !query_choice(request, "state", states, &query->state) ||
        !query_text(request, "sale", sale, sizeof sale))
        return;
    query->id = 0;
    if (sale[0] != '\0' && (!text_to_u64(slice_of(sale), &query->id) || query->id == 0)) {
        reply_problem(request, PROBLEM_BAD_INPUT, "sale must be the id of a sale");
        return;
    }
    query->buyer[0] = query->seller[0] = '\0';
    struct slice name = request->who.name;
    char *owner = request->who.role == ROLE_CUSTOMER ? query->buyer : query->seller;
    if (request->who.role != ROLE_ADMIN) {
        memcpy(owner, name.data, name.len);
        owner[name.len] = '\0';
    }
    list_ask(request, orders_run);
}
