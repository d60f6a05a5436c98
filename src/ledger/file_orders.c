/* Filing: orders, what becomes of them, and purchase tokens. */
#include "ledger/file.h"

/* The order is there already. Its sale was counted in the transaction that put it there. */
static enum fault order_again(struct ledger *ledger, const struct decision *d, enum order_state state)
{
    struct ledger_order there;
    bool found;
    enum fault fault = ledger_order(ledger, d->seq, &there, &found);
    if (fault != FAULT_NONE) return fault;
    const struct order *order = &there.order;
    bool equal = found && order->sale_id == d->sale_id && slice_is(d->won.buyer, order->buyer) &&
                 slice_is(d->won.key, order->key) && order->units == d->won.units && order->amount == d->won.amount &&
                 order->state == state && order->won_ms == d->at_ms && order->pay_by_ms == d->won.pay_by_ms &&
                 order->token_nonce == d->won.token_nonce && there.ended_ms == 0;
    return equal ? FAULT_NONE : filing_damage(ledger, d->seq, "a different order with its number or key is there");
}

static enum fault token_spend(struct ledger *ledger, const struct decision *d)
{
    struct cursor *s;
    enum fault fault = filing_flush(ledger);
    if (fault == FAULT_NONE) fault = statement_open(ledger, STATEMENT_TOKEN_SPEND, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, d->won.token_nonce);
    bind_number(s, 2, d->sale_id);
    bind_slice(s, 3, d->won.buyer);
    bind_number(s, 4, d->seq);
    fault = statement_close(ledger, STATEMENT_TOKEN_SPEND, cursor_step(s));
    if (fault == FAULT_NONE && ledger_changes(ledger) != 1)
        return filing_damage(ledger, d->seq, "the token it has spent is not in the ledger, or spent already");
    return fault;
}

enum fault file_token(struct ledger *ledger, const struct decision *d)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_TOKEN_INSERT, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, d->seq);
    bind_number(s, 2, d->sale_id);
    bind_slice(s, 3, d->token_given.buyer);
    bind_number(s, 4, d->at_ms);

    bool conflict;
    fault = filing_insert(ledger, STATEMENT_TOKEN_INSERT, &conflict);
    if (fault != FAULT_NONE) return fault;
    struct tally *tally;
    if (!conflict) {
        fault = tally_find(ledger, d->sale_id, &tally);
        tally->tokens_given++;
        return fault;
    }
    /* There already, and counted in the transaction that put it there. */
    struct ledger_token there;
    bool found;
    fault = ledger_token(ledger, d->seq, &there, &found);
    if (fault != FAULT_NONE) return fault;
    bool equal = found && there.sale_id == d->sale_id && slice_is(d->token_given.buyer, there.buyer) &&
                 there.given_ms == d->at_ms;
    return equal ? FAULT_NONE : filing_damage(ledger, d->seq, "a different token with its number is there");
}

static enum order_state won_state(const struct decision *d)
{
    return d->won.pay_by_ms == 0 ? ORDER_PAID : ORDER_HELD;
}

enum fault won_bind(struct ledger *ledger, enum statement id, const struct decision *d)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, id, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, d->seq);
    bind_number(s, 2, d->sale_id);
    bind_slice(s, 3, d->won.buyer);
    bind_number(s, 4, d->won.units);
    bind_signed(s, 5, d->won.amount);
    bind_number(s, 6, (uint64_t)won_state(d));
    bind_number(s, 7, d->at_ms);
    bind_number(s, 8, d->won.pay_by_ms);
    bind_slice(s, 9, d->won.key);
    bind_number(s, 10, d->won.token_nonce);
    return FAULT_NONE;
}

enum fault won_count(struct ledger *ledger, const struct decision *d)
{
    enum fault fault = d->won.token_nonce != 0 ? token_spend(ledger, d) : FAULT_NONE;
    if (fault != FAULT_NONE) return fault;

    struct tally *tally;
    fault = tally_find(ledger, d->sale_id, &tally);
    tally->available -= d->won.units;
    *(won_state(d) == ORDER_HELD ? &tally->held : &tally->sold) += d->won.units;
    tally->orders_made++;
    numbers_won(tally, d);
    return fault;
}

enum fault file_won(struct ledger *ledger, const struct decision *d)
{
    enum fault fault = won_bind(ledger, STATEMENT_ORDER_INSERT, d);
    if (fault != FAULT_NONE) return fault;
    bool conflict;
    fault = filing_insert(ledger, STATEMENT_ORDER_INSERT, &conflict);
    if (fault != FAULT_NONE) return fault;
    return conflict ? order_again(ledger, d, won_state(d)) : won_count(ledger, d);
}

/* What each decision makes of an order, and what it must have been; a second state before only where there are two. Where
 * its units go shows in its sale's counts. */
static const struct order_end {
    enum order_state before, before_too, after;
    int available, held, sold;
} ends[] = {
    [DECISION_PAID] = { ORDER_HELD, ORDER_HELD, ORDER_PAID, 0, -1, 1 },
    [DECISION_CANCELLED] = { ORDER_HELD, ORDER_HELD, ORDER_CANCELLED, 1, -1, 0 },
    [DECISION_EXPIRED] = { ORDER_HELD, ORDER_HELD, ORDER_EXPIRED, 1, -1, 0 },
    [DECISION_RETAKEN] = { ORDER_EXPIRED, ORDER_EXPIRED, ORDER_PAID, -1, 0, 1 },
    [DECISION_REFUND_DUE] = { ORDER_EXPIRED, ORDER_CANCELLED, ORDER_REFUND_DUE, 0, 0, 0 },
};

/* *changed: there was such a row, or one is expected where many are changed at a time. */
static enum fault order_update(struct ledger *ledger, enum statement id, const struct decision *d, bool *changed)
{
    const struct order_end *end = &ends[d->kind];
    struct cursor *s;
    enum fault fault = statement_open(ledger, id, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, d->ended.order_no);
    bind_number(s, 2, d->sale_id);
    bind_number(s, 3, d->ended.units);
    bind_number(s, 5, d->at_ms);
    if (id == STATEMENT_ORDER_PAY) {
        bind_number(s, 4, (uint64_t)end->after);
        bind_slice(s, 6, d->ended.ref);
        bind_number(s, 7, (uint64_t)end->before);
        bind_number(s, 8, (uint64_t)end->before_too);
    } else if (id == STATEMENT_ORDER_CANCEL) {
        bind_number(s, 6, (uint64_t)d->ended.by);
        bind_slice(s, 7, d->ended.reason);
    }
    *changed = true;
    if (filing_queues(ledger) && (d->kind == DECISION_PAID || d->kind == DECISION_EXPIRED)) return filing_queue(ledger, id);
    fault = filing_flush(ledger);
    if (fault == FAULT_NONE) fault = statement_close(ledger, id, cursor_step(s));
    *changed = ledger_changes(ledger) == 1;
    return fault;
}

/* No row was as the decision found it. One that is just as the decision leaves it was filed and counted before. A payment
 * for an order that memory has let go of may be told twice within a moment: then the first refund stands. */
static enum fault order_ended_again(struct ledger *ledger, const struct decision *d)
{
    struct ledger_order there;
    bool found;
    enum fault fault = ledger_order(ledger, d->ended.order_no, &there, &found);
    if (fault != FAULT_NONE) return fault;
    if (!found) return filing_damage(ledger, d->seq, "its order is not in the ledger");
    if (there.order.sale_id != d->sale_id || there.order.units != d->ended.units)
        return filing_damage(ledger, d->seq, "its order is of another sale or of other units");
    if (d->kind == DECISION_REFUND_DUE && there.order.state == ORDER_REFUND_DUE) return FAULT_NONE;
    if (there.order.state != ends[d->kind].after || there.ended_ms != d->at_ms)
        return filing_damage(ledger, d->seq, "its order is not in the state that it ends");
    bool equal = slice_is(d->ended.ref, there.payment_ref);
    if (d->kind == DECISION_CANCELLED)
        equal = equal && d->ended.by == there.canceller && slice_is(d->ended.reason, there.reason);
    return equal ? FAULT_NONE : filing_damage(ledger, d->seq, "its order was ended by another payment or person");
}

enum fault file_ended(struct ledger *ledger, const struct decision *d)
{
    const struct order_end *end = &ends[d->kind];
    enum statement id = d->kind == DECISION_EXPIRED     ? STATEMENT_ORDER_EXPIRE
                        : d->kind == DECISION_CANCELLED ? STATEMENT_ORDER_CANCEL
                                                        : STATEMENT_ORDER_PAY;
    bool changed;
    enum fault fault = order_update(ledger, id, d, &changed);
    if (fault != FAULT_NONE) return fault;
    if (!changed) return order_ended_again(ledger, d);

    int64_t units = d->ended.units;
    struct tally *tally;
    fault = tally_find(ledger, d->sale_id, &tally);
    tally->available += end->available * units;
    tally->held += end->held * units;
    tally->sold += end->sold * units;
    return fault != FAULT_NONE ? fault : numbers_ended(ledger, tally, d);
}
