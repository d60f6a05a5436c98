/* What became of a sale's orders, counted as they are filed: a sale of a million orders is not read to know it. */
#include "ledger/file.h"

/* A tally of a sale that has no sums yet in this transaction: where it stands, to know when it sells out. */
enum fault numbers_begin(struct ledger *ledger, struct tally *tally)
{
    struct cursor *s;
    enum statement id = ledger->hurried ? STATEMENT_SALE_LEFT_NOW : STATEMENT_SALE_LEFT;
    enum fault fault = statement_open(ledger, id, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, tally->sale_id);
    enum step step = cursor_step(s);
    if (step == STEP_ROW) {
        tally->there = true;
        tally->available_before = column_number(s, 0);
        tally->sold_out_ms = (uint64_t)column_number(s, 1);
        tally->epoch = (uint64_t)column_number(s, 2);
        tally->grabs_per_buyer_max = (uint32_t)column_number(s, 3);
        tally->tokens_left = column_number(s, 4);
        tally->refused = tally->epoch != 0 && column_number(s, 5) == (int64_t)tally->epoch;
    }
    return statement_close(ledger, id, step);
}

/* The last unit went to a buyer: the first time counts. */
static void sold_out_note(struct tally *tally, const struct decision *d)
{
    if (tally->sold_out_ms == 0 && tally->available_before + tally->available == 0) tally->sold_out_ms = d->at_ms;
}

void numbers_won(struct tally *tally, const struct decision *d)
{
    if (d->won.pay_by_ms != 0) tally->numbers.holds_made++;
    sold_out_note(tally, d);
}

/* Only someone who cancelled is named in the order's row. */
static enum fault was_cancelled(struct ledger *ledger, uint64_t order_no, bool *out)
{
    struct ledger_order order;
    bool found;
    enum fault fault = ledger_order(ledger, order_no, &order, &found);
    *out = fault == FAULT_NONE && found && order.canceller != CANCELLER_NONE;
    return fault;
}

enum fault numbers_ended(struct ledger *ledger, struct tally *tally, const struct decision *d)
{
    struct tally_numbers *numbers = &tally->numbers;
    int64_t units = d->ended.units;
    bool cancelled = d->kind == DECISION_CANCELLED;
    enum fault fault = FAULT_NONE;
    switch (d->kind) {
    case DECISION_PAID:
        numbers->holds_paid++;
        break;
    case DECISION_CANCELLED:
    case DECISION_EXPIRED:
        *(cancelled ? &numbers->orders_cancelled : &numbers->orders_expired) += 1;
        *(cancelled ? &numbers->units_cancelled : &numbers->units_expired) += units;
        numbers->units_returned += units;
        break;
    case DECISION_RETAKEN:
        numbers->holds_paid++;
        numbers->orders_expired--;
        numbers->units_expired -= units;
        sold_out_note(tally, d);
        break;
    case DECISION_REFUND_DUE:
        fault = was_cancelled(ledger, d->ended.order_no, &cancelled);
        *(cancelled ? &numbers->orders_cancelled : &numbers->orders_expired) -= 1;
        *(cancelled ? &numbers->units_cancelled : &numbers->units_expired) -= units;
        numbers->orders_refund_due++;
        numbers->units_refund_due += units;
        break;
    default:
        break;
    }
    return fault;
}

/* The parameters of the update that writes the other sums, from ?8 on. */
void numbers_bind(struct cursor *s, const struct tally *tally)
{
    const struct tally_numbers *numbers = &tally->numbers;
    bind_signed(s, 8, numbers->holds_made);
    bind_signed(s, 9, numbers->holds_paid);
    bind_signed(s, 10, numbers->orders_cancelled);
    bind_signed(s, 11, numbers->orders_expired);
    bind_signed(s, 12, numbers->orders_refund_due);
    bind_signed(s, 13, numbers->units_cancelled);
    bind_signed(s, 14, numbers->units_expired);
    bind_signed(s, 15, numbers->units_refund_due);
    bind_signed(s, 16, numbers->units_returned);
    bind_number(s, 17, tally->sold_out_ms);
}

enum fault ledger_numbers(struct ledger *ledger, uint64_t sale_id, struct ledger_numbers *out, bool *found)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_SALE_NUMBERS, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, sale_id);
    enum step step = cursor_step(s);
    *found = step == STEP_ROW;
    if (*found) {
        uint64_t values[13];
        for (int i = 0; i < 13; i++) values[i] = (uint64_t)column_number(s, i);
        uint64_t made = values[10], holds_made = values[0], holds_paid = values[1];
        *out = (struct ledger_numbers){
            .holds_made = holds_made, .holds_paid = holds_paid, .units_returned = values[8], .sold_out_ms = values[9]
        };
        for (enum order_state state = ORDER_CANCELLED; state <= ORDER_REFUND_DUE; state++) {
            out->orders[state] = values[2 + state - ORDER_CANCELLED];
            out->units[state] = values[5 + state - ORDER_CANCELLED];
        }
        out->orders[ORDER_PAID] = made - holds_made + holds_paid;
        out->orders[ORDER_HELD] = made - out->orders[ORDER_PAID] - out->orders[ORDER_CANCELLED] -
                                  out->orders[ORDER_EXPIRED] - out->orders[ORDER_REFUND_DUE];
        out->units[ORDER_HELD] = values[11];
        out->units[ORDER_PAID] = values[12];
    }
    return statement_close(ledger, STATEMENT_SALE_NUMBERS, step);
}

enum fault ledger_each_miscounted_sale(struct ledger *ledger, void (*visit)(void *arg, uint64_t id), void *arg)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_SALES_MISCOUNTED, &s);
    if (fault != FAULT_NONE) return fault;
    enum step step;
    while ((step = cursor_step(s)) == STEP_ROW) visit(arg, (uint64_t)column_number(s, 0));
    return statement_close(ledger, STATEMENT_SALES_MISCOUNTED, step);
}
