/* Walks over many rows: start-up, audit and export. A visitor's fault ends the walk and is its answer. */
#include "ledger/database.h"

#include <assert.h>

/* Reading in order of number takes every row from the first order of an open sale on; reading by sale takes only theirs, at
 * several times the price of each. */
#define BY_SALE_PRICE 4

static enum fault sales_walk(struct ledger *ledger, enum statement id, enum fault (*visit)(void *, const struct sale *),
                             void *arg)
{
    struct sale sale;
    enum fault fault = FAULT_NONE;
    enum step step;
    while ((step = cursor_step(ledger->statements[id])) == STEP_ROW) {
        fault = row_sale(ledger->statements[id], &sale) ? visit(arg, &sale) : FAULT_DAMAGE;
        if (fault != FAULT_NONE) break;
    }
    enum fault closed = statement_close(ledger, id, step);
    return fault != FAULT_NONE ? fault : closed;
}

static enum fault orders_walk(struct ledger *ledger, enum statement id,
                              enum fault (*visit)(void *, const struct ledger_order *), void *arg)
{
    struct ledger_order order;
    enum fault fault = FAULT_NONE;
    enum step step;
    while ((step = cursor_step(ledger->statements[id])) == STEP_ROW) {
        fault = row_order(ledger->statements[id], &order) ? visit(arg, &order) : FAULT_DAMAGE;
        if (fault != FAULT_NONE) break;
    }
    enum fault closed = statement_close(ledger, id, step);
    return fault != FAULT_NONE ? fault : closed;
}

static enum fault tokens_walk(struct ledger *ledger, enum statement id,
                              enum fault (*visit)(void *, const struct ledger_token *), void *arg)
{
    struct ledger_token token;
    enum fault fault = FAULT_NONE;
    enum step step;
    while ((step = cursor_step(ledger->statements[id])) == STEP_ROW) {
        fault = row_token(ledger->statements[id], &token) ? visit(arg, &token) : FAULT_DAMAGE;
        if (fault != FAULT_NONE) break;
    }
    enum fault closed = statement_close(ledger, id, step);
    return fault != FAULT_NONE ? fault : closed;
}

enum fault ledger_each_open_sale(struct ledger *ledger, uint64_t now_ms,
                                 enum fault (*visit)(void *arg, const struct sale *sale), void *arg)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_SALES_NOT_OVER, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, now_ms);
    return sales_walk(ledger, STATEMENT_SALES_NOT_OVER, visit, arg);
}

enum fault ledger_each_open_order(struct ledger *ledger, uint64_t now_ms,
                                  enum fault (*visit)(void *arg, const struct ledger_order *order), void *arg)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_ORDERS_SPAN, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, now_ms);
    enum step step = cursor_step(s);
    int64_t orders = column_number(s, 0);
    int64_t first = column_number(s, 1);
    int64_t last = column_number(s, 2);
    fault = statement_close(ledger, STATEMENT_ORDERS_SPAN, step);
    if (fault != FAULT_NONE) return fault;

    bool few = orders < (last - first) / BY_SALE_PRICE;
    enum statement id = few ? STATEMENT_ORDERS_NOT_OVER_FEW : STATEMENT_ORDERS_NOT_OVER;
    fault = statement_open(ledger, id, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, now_ms);
    if (!few) bind_signed(s, 2, first);
    return orders_walk(ledger, id, visit, arg);
}

enum fault ledger_each_open_token(struct ledger *ledger, uint64_t now_ms,
                                  enum fault (*visit)(void *arg, const struct ledger_token *token), void *arg)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_TOKENS_NOT_OVER, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, now_ms);
    return tokens_walk(ledger, STATEMENT_TOKENS_NOT_OVER, visit, arg);
}

enum fault ledger_each_name(struct ledger *ledger,
                            enum fault (*visit)(void *arg, struct slice seller, struct slice name, uint64_t sale_id),
                            void *arg)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_NAMES_EACH, &s);
    if (fault != FAULT_NONE) return fault;
    enum step step;
    while ((step = cursor_step(s)) == STEP_ROW) {
        struct slice seller = column_text(s, 0);
        struct slice name = column_text(s, 1);
        bool fits = seller.len <= USERNAME_BYTES_MAX && name.len <= SALE_NAME_BYTES_MAX;
        if (!fits) row_object(s, "sale", column_number(s, 2));
        fault = fits ? visit(arg, seller, name, (uint64_t)column_number(s, 2)) : FAULT_DAMAGE;
        if (fault != FAULT_NONE) break;
    }
    enum fault closed = statement_close(ledger, STATEMENT_NAMES_EACH, step);
    return fault != FAULT_NONE ? fault : closed;
}

enum fault ledger_each_sale(struct ledger *ledger, enum fault (*visit)(void *arg, const struct sale *sale), void *arg)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_SALES_EACH, &s);
    return fault != FAULT_NONE ? fault : sales_walk(ledger, STATEMENT_SALES_EACH, visit, arg);
}

enum fault ledger_each_order(struct ledger *ledger, enum fault (*visit)(void *arg, const struct ledger_order *order),
                             void *arg)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_ORDERS_EACH, &s);
    return fault != FAULT_NONE ? fault : orders_walk(ledger, STATEMENT_ORDERS_EACH, visit, arg);
}

enum fault ledger_each_order_of(struct ledger *ledger, uint64_t sale_id,
                                enum fault (*visit)(void *arg, const struct ledger_order *order), void *arg)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_ORDERS_EACH_OF, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, sale_id);
    return orders_walk(ledger, STATEMENT_ORDERS_EACH_OF, visit, arg);
}

enum fault ledger_each_uneven_sale(struct ledger *ledger,
                                   enum fault (*visit)(void *arg, uint64_t id, uint64_t held, uint64_t sold), void *arg)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_SALES_UNEVEN, &s);
    if (fault != FAULT_NONE) return fault;
    enum step step;
    while ((step = cursor_step(s)) == STEP_ROW) {
        fault = visit(arg, (uint64_t)column_number(s, 0), (uint64_t)column_number(s, 1), (uint64_t)column_number(s, 2));
        if (fault != FAULT_NONE) break;
    }
    enum fault closed = statement_close(ledger, STATEMENT_SALES_UNEVEN, step);
    return fault != FAULT_NONE ? fault : closed;
}

enum fault ledger_each_token(struct ledger *ledger, enum fault (*visit)(void *arg, const struct ledger_token *token),
                             void *arg)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_TOKENS_EACH, &s);
    return fault != FAULT_NONE ? fault : tokens_walk(ledger, STATEMENT_TOKENS_EACH, visit, arg);
}

enum fault ledger_snapshot_begin(struct ledger *ledger, struct ledger_size *size)
{
    struct cursor *s;
    enum fault fault = ledger_begin(ledger, TRANSACTION_READ);
    /* A transaction sees what was there at its first read: this one. */
    if (fault == FAULT_NONE) fault = statement_open(ledger, STATEMENT_SIZE, &s);
    if (fault != FAULT_NONE) {
        ledger_undo(ledger);
        return fault;
    }
    enum step step = cursor_step(s);
    if (step == STEP_ROW)
        *size = (struct ledger_size){ .sales = (uint64_t)column_number(s, 0), .orders = (uint64_t)column_number(s, 1) };
    fault = statement_close(ledger, STATEMENT_SIZE, step);
    if (fault != FAULT_NONE) ledger_undo(ledger);
    return fault;
}

void ledger_snapshot_end(struct ledger *ledger)
{
    ledger_undo(ledger);
}
