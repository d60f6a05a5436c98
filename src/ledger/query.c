/* Questions people ask: one sale, one order, and lists, newest first. */
#include "ledger/schema.h"
#include "ledger/sqlite.h"

#include <assert.h>

/* One row at most. */
static enum fault sale_one(struct ledger *ledger, enum statement id, struct sale *out, bool *found)
{
    int rc = sqlite3_step(ledger->statements[id]);
    *found = rc == SQLITE_ROW;
    bool damaged = *found && !row_sale(ledger->statements[id], out);
    enum fault fault = statement_close(ledger, id, rc);
    return damaged ? FAULT_DAMAGE : fault;
}

static enum fault order_one(struct ledger *ledger, enum statement id, struct ledger_order *out, bool *found)
{
    int rc = sqlite3_step(ledger->statements[id]);
    *found = rc == SQLITE_ROW;
    bool damaged = *found && !row_order(ledger->statements[id], out);
    enum fault fault = statement_close(ledger, id, rc);
    return damaged ? FAULT_DAMAGE : fault;
}

enum fault ledger_sale(struct ledger *ledger, uint64_t id, struct sale *out, bool *found)
{
    sqlite3_stmt *s;
    enum fault fault = statement_open(ledger, STATEMENT_SALE, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, id);
    return sale_one(ledger, STATEMENT_SALE, out, found);
}

enum fault ledger_order(struct ledger *ledger, uint64_t no, struct ledger_order *out, bool *found)
{
    sqlite3_stmt *s;
    enum fault fault = statement_open(ledger, STATEMENT_ORDER, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, no);
    return order_one(ledger, STATEMENT_ORDER, out, found);
}

enum fault ledger_token(struct ledger *ledger, uint64_t nonce, struct ledger_token *out, bool *found)
{
    sqlite3_stmt *s;
    enum fault fault = statement_open(ledger, STATEMENT_TOKEN, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, nonce);
    int rc = sqlite3_step(s);
    *found = rc == SQLITE_ROW;
    bool damaged = *found && !row_token(s, out);
    fault = statement_close(ledger, STATEMENT_TOKEN, rc);
    return damaged ? FAULT_DAMAGE : fault;
}

enum fault ledger_order_by_key(struct ledger *ledger, const struct ledger_key *key, struct order *out, bool *found)
{
    sqlite3_stmt *s;
    enum fault fault = statement_open(ledger, STATEMENT_ORDER_BY_KEY, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, key->sale_id);
    bind_slice(s, 2, key->buyer);
    bind_slice(s, 3, key->key);
    struct ledger_order row;
    fault = order_one(ledger, STATEMENT_ORDER_BY_KEY, &row, found);
    if (fault == FAULT_NONE && *found) *out = row.order;
    return fault;
}

/* Numbers in the database have 63 bits: no id is at or above the bound this answers. */
static uint64_t below(uint64_t after)
{
    return after == 0 || after > INT64_MAX ? INT64_MAX : after;
}

enum fault ledger_sales(struct ledger *ledger, const struct ledger_sales_query *query,
                        void (*visit)(void *arg, const struct sale *sale), void *arg)
{
    /* Sales that are not closed are few, and have an index; those that are closed are most, and need none. */
    bool live = query->state >= 0 && query->state != SALE_CLOSED;
    enum statement id = query->seller.len > 0 ? STATEMENT_SALES_LIST_SELLER
                        : live                ? STATEMENT_SALES_LIST_LIVE
                                              : STATEMENT_SALES_LIST;
    sqlite3_stmt *s;
    enum fault fault = statement_open(ledger, id, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, query->now_ms);
    bind_number(s, 2, below(query->after));
    bind_signed(s, 3, query->state);
    bind_number(s, 4, query->limit);
    if (id == STATEMENT_SALES_LIST_SELLER) bind_slice(s, 5, query->seller);

    struct sale sale;
    bool damaged = false;
    int rc;
    while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
        damaged = !row_sale(s, &sale);
        if (damaged) break;
        visit(arg, &sale);
    }
    fault = statement_close(ledger, id, rc);
    return damaged ? FAULT_DAMAGE : fault;
}

/* Visits the rows of a list whose parameters are bound, counts them, and ends its use. */
static enum fault orders_list(struct ledger *ledger, enum statement id, void (*visit)(void *arg, const struct order *order),
                              void *arg, uint32_t *count)
{
    sqlite3_stmt *s = ledger->statements[id];
    struct ledger_order row;
    bool damaged = false;
    int rc;
    while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
        damaged = !row_order(s, &row);
        if (damaged) break;
        visit(arg, &row.order);
        ++*count;
    }
    enum fault fault = statement_close(ledger, id, rc);
    return damaged ? FAULT_DAMAGE : fault;
}

static void bind_orders(sqlite3_stmt *s, enum statement id, const struct ledger_orders_query *query)
{
    if (id != STATEMENT_ORDERS_LIST) bind_slice(s, 1, query->seller);
    bind_number(s, 2, below(query->after));
    bind_signed(s, 3, query->state);
    bind_number(s, 4, query->limit);
    if (id == STATEMENT_ORDERS_LIST_BUYER) bind_slice(s, 5, query->buyer);
    if (id == STATEMENT_ORDERS_LIST_BUYER || id == STATEMENT_ORDERS_LIST_SALE) bind_number(s, 6, query->sale_id);
}

static enum fault order_last(struct ledger *ledger, uint64_t *no)
{
    sqlite3_stmt *s;
    enum fault fault = statement_open(ledger, STATEMENT_ORDERS_LAST, &s);
    if (fault != FAULT_NONE) return fault;
    int rc = sqlite3_step(s);
    *no = rc == SQLITE_ROW ? (uint64_t)sqlite3_column_int64(s, 0) : 0;
    return statement_close(ledger, STATEMENT_ORDERS_LAST, rc);
}

/* Era by era, the newest first, until the list is full. */
static enum fault orders_of_buyer(struct ledger *ledger, const struct ledger_orders_query *query,
                                  void (*visit)(void *arg, const struct order *order), void *arg)
{
    uint64_t last;
    enum fault fault = order_last(ledger, &last);
    if (fault != FAULT_NONE) return fault;
    if (below(query->after) < last) last = below(query->after);

    uint32_t count = 0;
    for (uint64_t eras = (last >> ORDERS_ERA_BITS) + 1; eras > 0 && count < query->limit; eras--) {
        sqlite3_stmt *s;
        fault = statement_open(ledger, STATEMENT_ORDERS_LIST_BUYER, &s);
        if (fault != FAULT_NONE) return fault;
        bind_orders(s, STATEMENT_ORDERS_LIST_BUYER, query);
        bind_number(s, 4, query->limit - count);
        bind_number(s, 7, eras - 1);
        fault = orders_list(ledger, STATEMENT_ORDERS_LIST_BUYER, visit, arg, &count);
        if (fault != FAULT_NONE) return fault;
    }
    return FAULT_NONE;
}

enum fault ledger_orders(struct ledger *ledger, const struct ledger_orders_query *query,
                         void (*visit)(void *arg, const struct order *order), void *arg)
{
    if (query->buyer.len > 0) return orders_of_buyer(ledger, query, visit, arg);
    enum statement id = query->sale_id != 0     ? STATEMENT_ORDERS_LIST_SALE
                        : query->seller.len > 0 ? STATEMENT_ORDERS_LIST_SELLER
                                                : STATEMENT_ORDERS_LIST;
    sqlite3_stmt *s;
    enum fault fault = statement_open(ledger, id, &s);
    if (fault != FAULT_NONE) return fault;
    bind_orders(s, id, query);
    uint32_t count = 0;
    return orders_list(ledger, id, visit, arg, &count);
}
