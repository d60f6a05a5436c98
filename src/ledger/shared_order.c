/* What becomes of orders after their win, decided on the rows of the order and its sale while they are locked, and what a
 * gate is told of it. */
#include "ledger/shared_file.h"

#include "engine/rules.h"

#include <string.h>

/* The order as it is while its sale's row is locked. */
struct locked_order {
    struct ledger_order row;
    struct sale sale;
    uint64_t epoch;
};

static enum fault order_lock(struct ledger *ledger, uint64_t order_no, struct locked_order *out, bool *found)
{
    struct tally *tally;
    enum fault fault = ledger_order(ledger, order_no, &out->row, found);
    if (fault != FAULT_NONE || !*found) return fault;
    fault = tally_find(ledger, out->row.order.sale_id, &tally);
    out->epoch = tally->epoch;
    if (fault == FAULT_NONE) fault = ledger_order(ledger, order_no, &out->row, found);
    bool there = false;
    if (fault == FAULT_NONE && *found) fault = ledger_sale(ledger, out->row.order.sale_id, &out->sale, &there);
    if (fault == FAULT_NONE && *found && !there) return filing_damage(ledger, order_no, "its sale is not in the ledger");
    return fault;
}

static uint64_t time_after(const struct ledger_order *row, uint64_t now_ms)
{
    uint64_t last_ms = row->ended_ms > row->order.won_ms ? row->ended_ms : row->order.won_ms;
    return now_ms > last_ms ? now_ms : last_ms;
}

static struct decision decision_of(const struct locked_order *locked, enum decision_kind kind, uint64_t now_ms)
{
    struct decision d = { .kind = kind, .sale_id = locked->sale.id, .at_ms = time_after(&locked->row, now_ms) };
    d.ended.order_no = locked->row.order.no;
    d.ended.units = locked->row.order.units;
    return d;
}

/* What the gate is told of a decision about an order; 0: nothing. */
static enum errand_kind errand_of(enum decision_kind kind)
{
    switch (kind) {
    case DECISION_PAID:
        return ERRAND_PAID;
    case DECISION_CANCELLED:
        return ERRAND_CANCELLED;
    case DECISION_EXPIRED:
        return ERRAND_EXPIRED;
    case DECISION_REFUND_DUE:
        return ERRAND_REFUND;
    default:
        return 0;
    }
}

static enum fault end_file(struct ledger *ledger, const struct decision *d, uint64_t epoch, struct ledger_errand *errand)
{
    enum fault fault = shared_tell(ledger, d, file_ended(ledger, d));
    enum errand_kind kind = errand_of(d->kind);
    if (fault == FAULT_NONE && (kind == ERRAND_CANCELLED || kind == ERRAND_EXPIRED))
        fault = order_nth(ledger, d->ended.order_no, 0);
    if (fault != FAULT_NONE || kind == 0) return fault;
    *errand = (struct ledger_errand){ .kind = kind,
                                      .sale_id = d->sale_id,
                                      .epoch = epoch,
                                      .order_no = d->ended.order_no,
                                      .units = d->ended.units,
                                      .made_ms = d->at_ms };
    return errand_leave(ledger, errand);
}

/* The asker is told what became of the order before: one who pays twice is told that it is paid. */
static enum fault end_vouch(struct ledger *ledger, const struct locked_order *locked, bool *wrote)
{
    const struct order *order = &locked->row.order;
    if (order->state == ORDER_HELD) return FAULT_NONE;
    *wrote = true;
    return shared_vouch(ledger, order->no, order->sale_id);
}

struct paying {
    const struct ledger_payment *ask;
    enum verdict verdict;
    struct order *order;
    struct ledger_errand *errand;
};

static enum payment_before payment_before(const struct ledger_order *row, const struct payment *payment)
{
    if (row->payment_ref[0] == '\0') return PAYMENT_NONE_BEFORE;
    return slice_is(payment->ref, row->payment_ref) ? PAYMENT_SAME_BEFORE : PAYMENT_OTHER_BEFORE;
}

static enum fault payment_take(struct ledger *ledger, const struct paying *paying, const struct locked_order *locked,
                               bool *wrote)
{
    const struct payment *payment = &paying->ask->payment;
    struct ledger_key buyer = { .sale_id = locked->sale.id, .buyer = slice_of(locked->row.order.buyer) };
    uint32_t grabs = 0;
    enum fault fault = FAULT_NONE;
    if (locked->row.order.state != ORDER_HELD) fault = buyer_grabs(ledger, &buyer, &grabs);
    if (fault != FAULT_NONE) return fault;

    struct decision d = decision_of(locked, DECISION_REFUND_DUE, payment->now_ms);
    d.kind = payment_kind(&locked->row.order, &locked->sale, grabs, d.at_ms);
    d.ended.ref = payment->ref;
    bool retaken = d.kind == DECISION_RETAKEN;
    if (retaken && paying->ask->retake == NULL) d.kind = DECISION_REFUND_DUE;
    paying->order->state = d.kind == DECISION_REFUND_DUE ? ORDER_REFUND_DUE : ORDER_PAID;
    if (retaken && paying->ask->retake != NULL) {
        *paying->ask->retake = d;
        return FAULT_NONE;
    }
    *wrote = true;
    return end_file(ledger, &d, locked->epoch, paying->errand);
}

static enum fault pay_work(struct ledger *ledger, void *arg, bool *wrote)
{
    struct paying *paying = arg;
    const struct payment *payment = &paying->ask->payment;
    struct locked_order locked;
    bool found;
    if (paying->ask->retake != NULL) *paying->ask->retake = (struct decision){ .kind = 0 };
    *paying->errand = (struct ledger_errand){ .id = 0 };
    paying->verdict = VERDICT_NO_SUCH_ORDER;
    enum fault fault = order_lock(ledger, payment->order_no, &locked, &found);
    if (fault != FAULT_NONE || !found) return fault;
    *paying->order = locked.row.order;
    paying->verdict = payment_verdict(payment, paying->order, payment_before(&locked.row, payment));
    if (paying->verdict != VERDICT_DONE) return end_vouch(ledger, &locked, wrote);
    return payment_take(ledger, paying, &locked, wrote);
}

enum fault ledger_pay(struct ledger *ledger, const struct ledger_payment *ask, enum verdict *verdict, struct order *order,
                      struct ledger_errand *errand)
{
    *errand = (struct ledger_errand){ .id = 0 };
    *verdict = VERDICT_BAD_INPUT;
    if (!payment_is_well_formed(&ask->payment)) return FAULT_NONE;
    struct paying paying = { ask, VERDICT_NO_SUCH_ORDER, order, errand };
    enum fault fault = shared_run(ledger, pay_work, &paying);
    *verdict = paying.verdict;
    return fault;
}

struct cancelling {
    const struct cancel *cancel;
    enum verdict verdict;
    struct order *order;
    struct ledger_errand *errand;
};

static enum fault cancel_work(struct ledger *ledger, void *arg, bool *wrote)
{
    struct cancelling *cancelling = arg;
    const struct cancel *cancel = cancelling->cancel;
    struct locked_order locked;
    bool found;
    *cancelling->errand = (struct ledger_errand){ .id = 0 };
    cancelling->verdict = VERDICT_NO_SUCH_ORDER;
    enum fault fault = order_lock(ledger, cancel->order_no, &locked, &found);
    if (fault != FAULT_NONE || !found) return fault;
    *cancelling->order = locked.row.order;
    cancelling->verdict = cancel_verdict(cancel, cancelling->order, locked.sale.seller);
    if (cancelling->verdict != VERDICT_DONE) return end_vouch(ledger, &locked, wrote);

    struct decision d = decision_of(&locked, DECISION_CANCELLED, cancel->now_ms);
    d.ended.by = cancel->by;
    d.ended.reason = cancel->reason;
    cancelling->order->state = ORDER_CANCELLED;
    *wrote = true;
    return end_file(ledger, &d, locked.epoch, cancelling->errand);
}

enum fault ledger_cancel(struct ledger *ledger, const struct cancel *cancel, enum verdict *verdict, struct order *order,
                         struct ledger_errand *errand)
{
    *errand = (struct ledger_errand){ .id = 0 };
    *verdict = VERDICT_BAD_INPUT;
    if (!cancel_is_well_formed(cancel)) return FAULT_NONE;
    struct cancelling cancelling = { cancel, VERDICT_NO_SUCH_ORDER, order, errand };
    enum fault fault = shared_run(ledger, cancel_work, &cancelling);
    *verdict = cancelling.verdict;
    return fault;
}

struct expiring {
    const struct ledger_fence *fence;
    uint64_t sale_id, now_ms;
    uint32_t max, expired;
};

static enum fault due_read(struct ledger *ledger, struct expiring *expiring, struct decision *due)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_ORDERS_DUE, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, expiring->sale_id);
    bind_number(s, 2, expiring->now_ms);
    bind_number(s, 3, expiring->max);
    enum step step;
    while (expiring->expired < expiring->max && (step = cursor_step(s)) == STEP_ROW) {
        struct decision *d = &due[expiring->expired++];
        *d = (struct decision){ .kind = DECISION_EXPIRED, .sale_id = expiring->sale_id, .at_ms = expiring->now_ms };
        d->ended.order_no = (uint64_t)column_number(s, 0);
        d->ended.units = (uint32_t)column_number(s, 1);
    }
    return statement_close(ledger, STATEMENT_ORDERS_DUE, expiring->expired < expiring->max ? step : STEP_DONE);
}

static enum fault expire_work(struct ledger *ledger, void *arg, bool *wrote)
{
    struct expiring *expiring = arg;
    struct decision due[LEDGER_TAKES_MAX];
    struct tally *tally;
    expiring->expired = 0;
    enum fault fault = fence_check(ledger, expiring->fence);
    if (fault == FAULT_NONE) fault = tally_find(ledger, expiring->sale_id, &tally);
    if (fault != FAULT_NONE || !tally->there) return fault;
    uint64_t epoch = tally->epoch;
    fault = due_read(ledger, expiring, due);
    for (uint32_t i = 0; i < expiring->expired && fault == FAULT_NONE; i++) {
        struct ledger_errand errand;
        fault = end_file(ledger, &due[i], epoch, &errand);
    }
    *wrote = expiring->expired > 0;
    return fault;
}

enum fault ledger_expire(struct ledger *ledger, const struct ledger_fence *fence, const struct ledger_expiry *expiry,
                         uint32_t *expired)
{
    struct expiring expiring = { .fence = fence, .sale_id = expiry->sale_id, .now_ms = expiry->now_ms };
    expiring.max = expiry->max < LEDGER_TAKES_MAX ? expiry->max : LEDGER_TAKES_MAX;
    enum fault fault = shared_run(ledger, expire_work, &expiring);
    *expired = fault == FAULT_NONE ? expiring.expired : 0;
    return fault;
}
