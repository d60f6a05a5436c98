/* Orders after their win. The ledger first: what it has written is told to the gate as an errand. Only the units that a late
 * payment takes again come from the gate first, for they are a take. */
#include "base/clock.h"
#include "engine/rules.h"
#include "gate/remote/change.h"

/* An end of a hold that is not older may not have come to the gate yet; it is not waited for longer than that. */
#define END_FRESH_MS 3000
#define END_TOLD_MS 500

/* Sales that other nodes have made just now, and orders in them, are to be found here too. */
static enum fault sales_meet(struct remote *remote, struct ledger *ledger)
{
    struct ledger_shelved sale;
    uint64_t id_last = 0, id = shelf_id_last(remote->shelf) + 1;
    bool found = false;
    enum fault fault = ledger_sale_id_last(ledger, &id_last);
    for (; id <= id_last && fault == FAULT_NONE; id++) {
        fault = ledger_shelved(ledger, id, &sale, &found);
        if (fault == FAULT_NONE && found) shelf_put(remote->shelf, &sale);
    }
    return fault;
}

/* An order that is to be looked for in Redis may be of such a sale. */
static enum fault search_prepare(struct change *change, struct ledger *ledger)
{
    bool sought = change->verdict == VERDICT_NO_SUCH_ORDER && search_is_possible(change);
    return sought ? sales_meet(change->lane->remote, ledger) : FAULT_NONE;
}

static enum fault order_read(struct change *change, struct ledger *ledger)
{
    struct ledger_order row;
    bool found;
    enum fault fault = ledger_order(ledger, change->order_no, &row, &found);
    if (fault != FAULT_NONE) return fault;
    change->verdict = found ? VERDICT_DONE : VERDICT_NO_SUCH_ORDER;
    if (found) change->order = row.order;
    change->ended_ms = found ? row.ended_ms : 0;
    return search_prepare(change, ledger);
}

/* One line of the orders in Redis. */
static void line_ask(struct change *change, void (*done)(struct redis_call *call, const struct redis_reply *reply))
{
    struct redis_call *call = &change->call;
    sale_keys(change->lane->remote, change->sale_id, change->keys);
    change->argv[0] = SLICE("HGET");
    change->argv[1] = slice_of(change->keys[2]);
    change->argv[2] = change_number(change, 1, (int64_t)change->order_no);
    call->key = change->argv[1];
    call->script = REDIS_NO_SCRIPT;
    call->argc = 3;
    call->argv = change->argv;
    call->done = done;
    redis_call(change->lane->client, call);
}

static bool line_read(const struct change *change, const struct redis_reply *reply, struct order *out)
{
    struct slice ref;
    return change->call.result == REDIS_ANSWERED && reply->type == REDIS_TEXT &&
           script_order(change->argv[2], reply->text, change->sale_id, out, &ref);
}

/* What is told of an order that was looked for in Redis. */
static enum verdict search_verdict(const struct change *change)
{
    bool unknown = change->verdict == VERDICT_NO_SUCH_ORDER && change->fault != FAULT_NONE;
    return unknown ? VERDICT_BUSY : change->verdict;
}

static void order_looked(struct change *change)
{
    change_end(change, search_verdict(change));
}

/* A hold ends in the ledger first. Whoever hears of its end may ask for the units at once, so it is told when the gate has
 * them, too, or does not come to know it for a while. */

static void end_ask(struct change *change);

static void end_answered(struct redis_call *call, const struct redis_reply *reply)
{
    struct change *change = (struct change *)call;
    struct order order;
    bool held = line_read(change, reply, &order) && order.state == ORDER_HELD;
    if (!held || mono_ms() + FLIGHT_MS - END_TOLD_MS > change->until_ms || !change->lane->attached) {
        change_end(change, VERDICT_DONE);
        return;
    }
    keeper_errands(change->lane->remote->keeper);
    change_wait(change, end_ask);
}

static void end_ask(struct change *change)
{
    change->sale_id = change->order.sale_id;
    line_ask(change, end_answered);
}

static void order_filed(struct change *change)
{
    const struct remote *remote = change->lane->remote;
    uint64_t epoch;
    if (change->fault != FAULT_NONE || change->verdict != VERDICT_DONE) {
        search_for(change, order_looked);
        return;
    }
    bool fresh = change->ended_ms + END_FRESH_MS >= remote_now_ms(&remote->gate) && change->lane->attached &&
                 (change->order.state == ORDER_EXPIRED || change->order.state == ORDER_CANCELLED) &&
                 shelf_epoch(remote->shelf, change->order.sale_id, &epoch);
    if (fresh) {
        end_ask(change);
    } else {
        change_end(change, VERDICT_DONE);
    }
}

void remote_order(struct gate_lane *base, uint64_t order_no, struct gate_ticket *ticket)
{
    struct change *change = change_open(remote_lane_of(base), ticket);
    if (change == NULL) return;
    change->of_order = true;
    change->order_no = order_no;
    change_read(change, order_read, order_filed);
}

/* Payments. */

static void pay_begin(struct change *change);
static void retake_begin(struct change *change);

static enum fault pay_work(struct change *change, struct ledger *ledger)
{
    const struct ledger_payment ask = { change->payment, change->refund ? NULL : &change->retake };
    change->retake.kind = 0;
    enum fault fault = ledger_pay(ledger, &ask, &change->verdict, &change->order, &change->errand);
    return fault != FAULT_NONE ? fault : search_prepare(change, ledger);
}

/* The order was told of and is about to be filed: whoever pays that fast waits for it. */
static void unfiled_pay(struct change *change)
{
    if (change->verdict == VERDICT_DONE) {
        change_wait(change, pay_begin);
    } else {
        change_end(change, search_verdict(change));
    }
}

static void pay_filed(struct change *change)
{
    if (change->fault != FAULT_NONE) {
        change_end(change, change_failed(change));
    } else if (change->verdict == VERDICT_NO_SUCH_ORDER) {
        search_for(change, unfiled_pay);
    } else if (change->retake.kind == DECISION_RETAKEN) {
        retake_begin(change);
    } else if (change->errand.id != 0 && gate_sale_is_past(&change->lane->remote->gate, change->errand.sale_id)) {
        change_end(change, change->verdict); /* a refund; there is no gate to be told, and the keeper strikes the errand */
    } else {
        change_errand(change);
    }
}

static void pay_begin(struct change *change)
{
    change_file(change, pay_work, pay_filed);
}

/* The units are not to be had, or not by this buyer: the money goes back. */
static void pay_refund(struct change *change)
{
    change->refund = true;
    pay_begin(change);
}

static void retake_undone(struct redis_call *call, const struct redis_reply *reply)
{
    struct change *change = (struct change *)call;
    (void)reply;
    keeper_mend(change->lane->remote->keeper, change->sale_id);
    pay_refund(change);
}

static void retake_undo(struct change *change)
{
    struct slice *argv = change->argv + GATE_KEYS + 1;
    argv[0] = SLICE("retake");
    argv[1] = change_number(change, 1, (int64_t)change->payment.order_no);
    argv[2] = change->payment.ref;
    argv[3] = slice_of(change->entry);
    change_call(change, GATE_SCRIPT_UNDO, 4, retake_undone);
}

static enum fault take_work(struct change *change, struct ledger *ledger)
{
    return ledger_takes(ledger, &change->take, 1);
}

static void retake_filed(struct change *change)
{
    change_taken(change, pay_begin, retake_undo);
}

static void retake_answered(struct redis_call *call, const struct redis_reply *reply)
{
    struct change *change = (struct change *)call;
    struct script_answer answer;
    struct slice ref;
    if (!change_answer(change, reply, &answer)) {
        change_wait(change, pay_begin); /* the same payment takes nothing twice */
        return;
    }
    if (change_later(change, answer.word, pay_begin)) return;
    if (slice_is(answer.word, "NOT_EXPIRED")) {
        keeper_errands(change->lane->remote->keeper); /* the ledger has ended it, and the gate has yet to hear of that */
        change_wait(change, pay_begin);
    } else if (slice_is(answer.word, "DONE") || slice_is(answer.word, "REPEATED")) {
        struct order order;
        change_text(change->entry, sizeof change->entry, reply_text(reply, 4));
        if (script_order(reply_text(reply, 5), reply_text(reply, 6), change->sale_id, &order, &ref)) change->order = order;
        change->take = (struct ledger_take){ .decision = change->retake, .epoch = change->epoch };
        change->take.decision.seq = change->order_no;
        change->take.decision.at_ms = answer.at_ms;
        change->take.decision.ended.ref = change->payment.ref;
        change_file(change, take_work, retake_filed);
    } else if (slice_is(answer.word, "FULL")) {
        change_end(change, change->unknown ? VERDICT_UNKNOWN : VERDICT_BUSY);
    } else if (slice_is(answer.word, "REFUND_DUE")) {
        pay_refund(change);
    } else {
        /* ALREADY_PAID: another payment has taken the units and is being filed. A refund that came before it would have it
         * undone; the ledger says of both which is late. Anything else denies what the ledger has. */
        if (!slice_is(answer.word, "ALREADY_PAID")) keeper_mend(change->lane->remote->keeper, change->sale_id);
        change_wait(change, pay_begin);
    }
}

static void retake_begin(struct change *change)
{
    change->sale_id = change->retake.sale_id;
    if (!shelf_epoch(change->lane->remote->shelf, change->sale_id, &change->epoch)) {
        pay_refund(change); /* over */
        return;
    }
    struct slice *argv = change->argv + GATE_KEYS + 1;
    argv[0] = change_number(change, 1, (int64_t)change->payment.order_no);
    argv[1] = change->payment.ref;
    argv[2] = change_number(change, 2, change->order.amount);
    change_call(change, GATE_SCRIPT_RETAKE, 3, retake_answered);
}

void remote_pay(struct gate_lane *base, struct payment *payment, struct gate_ticket *ticket)
{
    struct change *change = change_open(remote_lane_of(base), ticket);
    payment->now_ms = remote_now_ms(base->gate);
    if (change == NULL) return;
    change->of_order = true;
    change->order_no = payment->order_no;
    change->payment = *payment;
    change->payment.ref = change_text(change->ref, sizeof change->ref, payment->ref);
    change->repeatable = true; /* by its ref */
    pay_begin(change);
}

/* Memory lets go of nothing that the ledger does not know: asked again it decides the same. */
void remote_pay_past(struct gate_lane *base, struct payment *payment, struct slice ref_taken, struct gate_ticket *ticket)
{
    (void)ref_taken;
    remote_pay(base, payment, ticket);
}

/* Cancelling. */

static void cancel_begin(struct change *change);

static enum fault cancel_work(struct change *change, struct ledger *ledger)
{
    enum fault fault = ledger_cancel(ledger, &change->cancel, &change->verdict, &change->order, &change->errand);
    return fault != FAULT_NONE ? fault : search_prepare(change, ledger);
}

/* Where the ledger said no because the order is another's, it is not waited for. */
static bool cancel_is_theirs(const struct change *change)
{
    struct sale sale;
    return !shelf_sale(change->lane->remote->shelf, change->sale_id, &sale) ||
           cancel_verdict(&change->cancel, &change->order, sale.seller) != VERDICT_NO_SUCH_ORDER;
}

static void unfiled_cancel(struct change *change)
{
    if (change->verdict == VERDICT_DONE && !cancel_is_theirs(change)) {
        change_end(change, VERDICT_NO_SUCH_ORDER);
    } else if (change->verdict == VERDICT_DONE) {
        change_wait(change, cancel_begin);
    } else {
        change_end(change, search_verdict(change));
    }
}

static void cancel_filed(struct change *change)
{
    if (change->fault != FAULT_NONE) {
        change_end(change, change_failed(change));
    } else if (change->verdict == VERDICT_NO_SUCH_ORDER) {
        search_for(change, unfiled_cancel);
    } else {
        change_errand(change);
    }
}

static void cancel_begin(struct change *change)
{
    change_file(change, cancel_work, cancel_filed);
}

void remote_cancel(struct gate_lane *base, struct cancel *cancel, struct gate_ticket *ticket)
{
    struct change *change = change_open(remote_lane_of(base), ticket);
    cancel->now_ms = remote_now_ms(base->gate);
    if (change == NULL) return;
    change->of_order = true;
    change->order_no = cancel->order_no;
    change->cancel = *cancel;
    change->cancel.name = change_text(change->name, sizeof change->name, cancel->name);
    change->cancel.reason = change_text(change->reason, sizeof change->reason, cancel->reason);
    cancel_begin(change);
}
