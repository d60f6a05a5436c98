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

static void order_say(struct resp_call *call, const struct gate_ticket *ticket)
{
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

/* What memory does not have; found says what is done with it. */
static void order_missed(struct resp_call *call, struct resp_slow *slow);

static void order_looked(struct resp_call *call, struct resp_slow *slow)
{
    const struct gate_ticket *ticket = &slow->ticket;
    struct sale sale;
    if (ticket->verdict == VERDICT_BUSY || ticket->verdict == VERDICT_UNKNOWN) {
        resp_verdict(call, ticket->verdict);
    } else if (ticket->verdict != VERDICT_DONE || !gate_sale(resp_rooms(call)->gate, ticket->order.sale_id, &sale)) {
        order_missed(call, slow);
    } else if (order_is_ours(call, &ticket->order, sale.seller)) {
        slow->found(call, slow);
    } else {
        resp_verdict(call, VERDICT_NO_SUCH_ORDER);
    }
}

/* The order of the argument, of which the gate is asked; NULL: has replied. */
static struct resp_slow *order_begin(struct resp_call *call, void (*found)(struct resp_call *, struct resp_slow *))
{
    uint64_t no;
    if (!text_to_u64(call->argv[1], &no) || !gate_order_possible(resp_rooms(call)->gate, no)) {
        resp_verdict(call, VERDICT_NO_SUCH_ORDER);
        return NULL;
    }
    struct resp_slow *slow = resp_gate(call, order_looked);
    if (slow == NULL) return NULL;
    slow->id = no;
    slow->found = found;
    return slow;
}

static void order_ask(struct resp_call *call, struct resp_slow *slow)
{
    gate_order(call->front->reactor->lane, slow->id, &slow->ticket);
    resp_wait(call, slow);
}

static void order_found(struct resp_call *call, struct resp_slow *slow)
{
    order_say(call, &slow->ticket);
}

void resp_order(struct resp_call *call)
{
    struct resp_slow *slow = order_begin(call, order_found);
    if (slow != NULL) order_ask(call, slow);
}

static struct payment payment_of(const struct resp_slow *slow)
{
    return (struct payment){ .order_no = slow->id, .ref = slice_of(slow->ref), .amount = slow->amount };
}

static void payment_say(struct resp_call *call, const struct gate_ticket *ticket)
{
    if (ticket->verdict == VERDICT_DONE || ticket->verdict == VERDICT_REPEATED) {
        order_say(call, ticket);
    } else {
        resp_verdict(call, ticket->verdict);
    }
}

static void past_paid(struct resp_call *call, struct resp_slow *slow)
{
    if (slow->ticket.verdict == VERDICT_NO_SUCH_ORDER) slow->ticket.verdict = VERDICT_BUSY; /* memory has it after all */
    payment_say(call, &slow->ticket);
}

static void payment_past_answer(struct resp_call *call, struct resp_slow *asked)
{
    if (!order_filed(call, &asked->query)) return;
    struct resp_slow *slow = resp_gate(call, past_paid);
    if (slow == NULL) return;
    struct payment payment = payment_of(asked);
    slow->ticket.order = asked->query.filed.order;
    gate_pay_past(call->front->reactor->lane, &payment, slice_of(asked->query.filed.payment_ref), &slow->ticket);
    resp_wait(call, slow);
}

static void payment_past(struct resp_call *call, const struct resp_slow *asked)
{
    struct resp_slow *slow = resp_slow_new(call, payment_past_answer);
    if (slow == NULL) return;
    slow->id = slow->query.id = asked->id;
    slow->amount = asked->amount;
    memcpy(slow->ref, asked->ref, sizeof slow->ref);
    slow->query.seq_wait = gate_seq_decided(resp_rooms(call)->gate); /* it must know all that was decided */
    resp_ask(call, slow, order_run);
}

static void payment_answer(struct resp_call *call, struct resp_slow *slow)
{
    if (slow->ticket.verdict == VERDICT_NO_SUCH_ORDER) {
        payment_past(call, slow);
    } else {
        payment_say(call, &slow->ticket);
    }
}

static void payment_found(struct resp_call *call, struct resp_slow *slow)
{
    struct payment payment = payment_of(slow);
    resp_again(slow, payment_answer);
    gate_pay(call->front->reactor->lane, &payment, &slow->ticket);
    resp_wait(call, slow);
}

void resp_pay(struct resp_call *call)
{
    struct slice ref = call->argv[2];
    int64_t amount;
    if (ref.len == 0 || ref.len > PAYMENT_REF_BYTES_MAX || !text_is_printable(ref)) {
        resp_problem(call, PROBLEM_BAD_INPUT, "ref must be 1 to 64 bytes of printable UTF-8");
        return;
    }
    if (!resp_to_i64(call->argv[3], 0, INT64_MAX, &amount)) {
        resp_problem(call, PROBLEM_BAD_INPUT,
                     "amount must be a whole number in minor units, 0 for an order without a price");
        return;
    }
    struct resp_slow *slow = order_begin(call, payment_found);
    if (slow == NULL) return;
    slow->amount = amount;
    memcpy(slow->ref, ref.data, ref.len);
    slow->ref[ref.len] = '\0';
    order_ask(call, slow);
}

/* What memory has let go of is not held any more; whose it was decides whether they hear so. */
static void cancel_past_answer(struct resp_call *call, struct resp_slow *slow)
{
    if (order_filed(call, &slow->query)) resp_verdict(call, VERDICT_NOT_HELD);
}

static void cancel_answer(struct resp_call *call, struct resp_slow *slow)
{
    if (slow->ticket.verdict == VERDICT_DONE) {
        order_say(call, &slow->ticket);
    } else if (slow->ticket.verdict == VERDICT_NO_SUCH_ORDER) {
        order_past(call, slow->id, cancel_past_answer);
    } else {
        resp_verdict(call, slow->ticket.verdict);
    }
}

static void cancel_found(struct resp_call *call, struct resp_slow *slow)
{
    const struct order order = slow->ticket.order; /* the answer comes to lie where it does */
    bool buyer = buyer_is_ours(call, &order);
    struct cancel cancel = { .order_no = slow->id, .reason = slice_of(slow->reason) };
    cancel.by = buyer ? CANCELLER_BUYER : CANCELLER_SELLER;
    cancel.name = buyer ? slice_of(order.buyer) : resp_account_name(call);
    if (!buyer && cancel.reason.len == 0) cancel.reason = SLICE("cancelled by the seller");
    resp_again(slow, cancel_answer);
    gate_cancel(call->front->reactor->lane, &cancel, &slow->ticket);
    resp_wait(call, slow);
}

void resp_cancel(struct resp_call *call)
{
    struct slice reason = call->argc == 3 ? call->argv[2] : SLICE("");
    if (reason.len > CANCEL_REASON_BYTES_MAX || !text_is_printable(reason)) {
        resp_problem(call, PROBLEM_BAD_INPUT, "reason must be at most 200 bytes of printable UTF-8");
        return;
    }
    struct resp_slow *slow = order_begin(call, cancel_found);
    if (slow == NULL) return;
    memcpy(slow->reason, reason.data, reason.len);
    slow->reason[reason.len] = '\0';
    order_ask(call, slow);
}

static void order_missed(struct resp_call *call, struct resp_slow *slow)
{
    if (slow->found == payment_found) {
        payment_past(call, slow);
    } else {
        order_past(call, slow->id, slow->found == cancel_found ? cancel_past_answer : order_past_answer);
    }
}
