/* Orders in the Redis protocol. An account sees and changes the orders of its buyers and of its sales; for everyone else
 * they do not exist (P8). */
#include "base/text.h"
#include "gateway/resp_commands.h"

static bool buyer_is_ours(const struct resp_call *call, const struct order *order)
{
    struct slice account = resp_account_name(call);
    return strncmp(order->buyer, account.data, account.len) == 0 && order->buyer[account.len] == ':';
}

static bool order_is_ours(const struct resp_call *call, const struct order *order, const char *seller)
{
    return buyer_is_ours(call, order) || slice_is(resp_account_name(call), seller);
}

static void order_say(struct resp_call *call)
{
    const struct gate_ticket *ticket = &call->front->ticket;
    if (ticket->seq > call->seq) call->seq = ticket->seq;
    resp_render_order(call->out, &ticket->order);
}

static void order_run(struct query *query, struct ledger *ledger)
{
    query->fault = ledger_order(ledger, query->id, &query->filed, &query->found);
    bool sale_found = false;
    if (query->fault == FAULT_NONE && query->found)
        query->fault = ledger_sale(ledger, query->filed.order.sale_id, &query->sale, &sale_found);
    query->found = query->found && sale_found;
}

/* False: has replied. */
static bool order_filed(struct resp_call *call, const struct query *query)
{
    if (query->fault != FAULT_NONE) {
        resp_verdict(call, VERDICT_BUSY);
    } else if (!query->found || !order_is_ours(call, &query->filed.order, query->sale.seller)) {
        resp_verdict(call, VERDICT_NO_SUCH_ORDER);
    } else {
        return true;
    }
    return false;
}

/* Where the order of the argument is. */
enum order_place {
    ORDER_REPLIED,   /* nowhere, or not ours */
    ORDER_IN_MEMORY, /* the front's ticket has it */
    ORDER_PAST,      /* only the ledger could tell */
};

static enum order_place order_find(struct resp_call *call, uint64_t *no)
{
    struct gate *gate = resp_rooms(call)->gate;
    struct gate_ticket *ticket = &call->front->ticket;
    struct sale sale;
    if (!text_to_u64(call->argv[1], no) || !gate_order_possible(gate, *no)) {
        resp_verdict(call, VERDICT_NO_SUCH_ORDER);
        return ORDER_REPLIED;
    }
    ticket->done = NULL;
    gate_order(call->front->reactor->lane, *no, ticket);
    if (ticket->verdict != VERDICT_DONE || !gate_sale(gate, ticket->order.sale_id, &sale)) return ORDER_PAST;
    if (order_is_ours(call, &ticket->order, sale.seller)) return ORDER_IN_MEMORY;
    resp_verdict(call, VERDICT_NO_SUCH_ORDER);
    return ORDER_REPLIED;
}

static void order_past_answer(struct resp_call *call, struct resp_slow *slow)
{
    if (order_filed(call, &slow->query)) resp_render_order(call->out, &slow->query.filed.order);
}

static void order_past(struct resp_call *call, uint64_t no, void (*answer)(struct resp_call *, struct resp_slow *))
{
    struct resp_slow *slow = resp_slow_new(call, answer);
    if (slow == NULL) return;
    slow->query.id = no;
    slow->query.seq_wait = gate_seq_past(resp_rooms(call)->gate);
    resp_ask(call, slow, order_run);
}

void resp_order(struct resp_call *call)
{
    uint64_t no;
    enum order_place place = order_find(call, &no);
    if (place == ORDER_IN_MEMORY) order_say(call);
    if (place == ORDER_PAST) order_past(call, no, order_past_answer);
}

static void payment_say(struct resp_call *call)
{
    const struct gate_ticket *ticket = &call->front->ticket;
    if (ticket->verdict == VERDICT_DONE || ticket->verdict == VERDICT_REPEATED) {
        order_say(call);
    } else {
        resp_verdict(call, ticket->verdict);
    }
}

static void payment_past_answer(struct resp_call *call, struct resp_slow *slow)
{
    struct gate_ticket *ticket = &call->front->ticket;
    if (!order_filed(call, &slow->query)) return;
    struct payment payment = { .order_no = slow->id, .ref = slice_of(slow->ref), .amount = slow->amount };
    ticket->done = NULL;
    ticket->order = slow->query.filed.order;
    gate_pay_past(call->front->reactor->lane, &payment, slice_of(slow->query.filed.payment_ref), ticket);
    if (ticket->verdict == VERDICT_NO_SUCH_ORDER) ticket->verdict = VERDICT_BUSY; /* memory has it after all */
    payment_say(call);
}

static void payment_past(struct resp_call *call, const struct payment *payment)
{
    struct resp_slow *slow = resp_slow_new(call, payment_past_answer);
    if (slow == NULL) return;
    slow->id = slow->query.id = payment->order_no;
    slow->amount = payment->amount;
    memcpy(slow->ref, payment->ref.data, payment->ref.len);
    slow->query.seq_wait = gate_seq_decided(resp_rooms(call)->gate); /* it must know all that was decided */
    resp_ask(call, slow, order_run);
}

void resp_pay(struct resp_call *call)
{
    struct payment payment = { .ref = call->argv[2] };
    if (payment.ref.len == 0 || payment.ref.len > PAYMENT_REF_BYTES_MAX || !utf8_valid(payment.ref) ||
        text_has_control(payment.ref)) {
        resp_problem(call, PROBLEM_BAD_INPUT, "ref must be 1 to 64 bytes of printable UTF-8");
        return;
    }
    if (!resp_to_i64(call->argv[3], 0, INT64_MAX, &payment.amount)) {
        resp_problem(call, PROBLEM_BAD_INPUT,
                     "amount must be a whole number in minor units, 0 for an order without a price");
        return;
    }
    enum order_place place = order_find(call, &payment.order_no);
    if (place == ORDER_REPLIED) return;
    if (place == ORDER_IN_MEMORY) {
        gate_pay(call->front->reactor->lane, &payment, &call->front->ticket);
        if (call->front->ticket.verdict != VERDICT_NO_SUCH_ORDER) {
            payment_say(call);
            return;
        }
    }
    payment_past(call, &payment);
}

/* What memory has let go of is not held any more; whose it was decides whether they hear so. */
static void cancel_past_answer(struct resp_call *call, struct resp_slow *slow)
{
    if (order_filed(call, &slow->query)) resp_verdict(call, VERDICT_NOT_HELD);
}

void resp_cancel(struct resp_call *call)
{
    struct gate_ticket *ticket = &call->front->ticket;
    struct cancel cancel = { .reason = call->argc == 3 ? call->argv[2] : SLICE("") };
    if (cancel.reason.len > CANCEL_REASON_BYTES_MAX || !utf8_valid(cancel.reason) || text_has_control(cancel.reason)) {
        resp_problem(call, PROBLEM_BAD_INPUT, "reason must be at most 200 bytes of printable UTF-8");
        return;
    }
    enum order_place place = order_find(call, &cancel.order_no);
    if (place == ORDER_REPLIED) return;
    if (place == ORDER_PAST) {
        order_past(call, cancel.order_no, cancel_past_answer);
        return;
    }
    const struct order order = ticket->order; /* the answer comes to lie where it does */
    bool buyer = buyer_is_ours(call, &order);
    cancel.by = buyer ? CANCELLER_BUYER : CANCELLER_SELLER;
    cancel.name = buyer ? slice_of(order.buyer) : resp_account_name(call);
    if (!buyer && cancel.reason.len == 0) cancel.reason = SLICE("cancelled by the seller");
    gate_cancel(call->front->reactor->lane, &cancel, ticket);
    if (ticket->verdict == VERDICT_DONE) {
        order_say(call);
    } else if (ticket->verdict == VERDICT_NO_SUCH_ORDER) {
        order_past(call, cancel.order_no, cancel_past_answer);
    } else {
        resp_verdict(call, ticket->verdict);
    }
}
