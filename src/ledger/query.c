/* Questions people ask: one sale, one order, and lists, newest first. */
#include "ledger/schema.h"
#include "ledger/database.h"

#include <assert.h>

enum fault ledger_sale(struct ledger *ledger, uint64_t id, struct sale *out, bool *found)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_SALE, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, id);
    enum step step = cursor_step(s);
    *found = step == STEP_ROW;
    bool damaged = *found && !row_sale(s, out);
    fault = statement_close(ledger, STATEMENT_SALE, step);
    return damaged ? FAULT_DAMAGE : fault;
}

enum fault ledger_order(struct ledger *ledger, uint64_t no, struct ledger_order *out, bool *found)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_ORDER, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, no);
    enum step step = cursor_step(s);
    *found = step == STEP_ROW;
    bool damaged = *found && !row_order(s, out);
    fault = statement_close(ledger, STATEMENT_ORDER, step);
    return damaged ? FAULT_DAMAGE : fault;
}

enum fault ledger_token(struct ledger *ledger, uint64_t nonce, struct ledger_token *out, bool *found)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_TOKEN, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, nonce);
    enum step step = cursor_step(s);
    *found = step == STEP_ROW;
    bool damaged = *found && !row_token(s, out);
    fault = statement_close(ledger, STATEMENT_TOKEN, step);
    return damaged ? FAULT_DAMAGE : fault;
}

enum fault ledger_order_by_key(struct ledger *ledger, const struct ledger_key *key, struct order *out, bool *found)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_ORDER_BY_KEY, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, key->sale_id);
    bind_slice(s, 2, key->buyer);
    bind_slice(s, 3, key->key);
    enum step step = cursor_step(s);
    *found = step == STEP_ROW;
    struct ledger_order row;
    bool damaged = *found && !row_order(s, &row);
    if (*found && !damaged) *out = row.order;
    fault = statement_close(ledger, STATEMENT_ORDER_BY_KEY, step);
    return damaged ? FAULT_DAMAGE : fault;
}

enum fault ledger_order_place(struct ledger *ledger, uint64_t sale_id, uint64_t no, uint64_t *place)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_ORDER_PLACE, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, sale_id);
    bind_number(s, 2, no);
    enum step step = cursor_step(s);
    if (step == STEP_ROW) *place = (uint64_t)column_number(s, 0);
    return statement_close(ledger, STATEMENT_ORDER_PLACE, step);
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
    enum statement id = query->event_id != 0    ? STATEMENT_SALES_LIST_EVENT
                        : query->seller.len > 0 ? STATEMENT_SALES_LIST_SELLER
                        : live                  ? STATEMENT_SALES_LIST_LIVE
                                                : STATEMENT_SALES_LIST;
    struct cursor *s;
    enum fault fault = statement_open(ledger, id, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, query->now_ms);
    bind_number(s, 2, below(query->after));
    bind_signed(s, 3, query->state);
    bind_number(s, 4, query->limit);
    if (id == STATEMENT_SALES_LIST_SELLER || id == STATEMENT_SALES_LIST_EVENT) bind_slice(s, 5, query->seller);
    if (id == STATEMENT_SALES_LIST_EVENT) bind_number(s, 6, query->event_id);

    struct sale sale;
    bool damaged = false;
    enum step step;
    while ((step = cursor_step(s)) == STEP_ROW) {
        damaged = !row_sale(s, &sale);
        if (damaged) break;
        visit(arg, &sale);
    }
    fault = statement_close(ledger, id, step);
    return damaged ? FAULT_DAMAGE : fault;
}

/* Visits the rows of a list whose parameters are bound, counts them, and ends its use. */
static enum fault orders_list(struct ledger *ledger, enum statement id, void (*visit)(void *arg, const struct order *order),
                              void *arg, uint32_t *count)
{
    struct cursor *s = ledger->statements[id];
    struct ledger_order row;
    bool damaged = false;
    enum step step;
    while ((step = cursor_step(s)) == STEP_ROW) {
        damaged = !row_order(s, &row);
        if (damaged) break;
        visit(arg, &row.order);
        ++*count;
    }
    enum fault fault = statement_close(ledger, id, step);
    return damaged ? FAULT_DAMAGE : fault;
}

/* The numbers that a list may have: from, and below. */
struct span {
    uint64_t from, below;
};

static void bind_orders(struct cursor *s, const struct ledger_orders_query *query, const struct span *span)
{
    bind_slice(s, 1, query->seller);
    bind_number(s, 2, span->below);
    bind_signed(s, 3, query->state);
    bind_number(s, 4, query->limit);
    bind_slice(s, 5, query->buyer);
    bind_number(s, 6, query->sale_id);
    bind_number(s, 8, span->from);
}

static enum fault order_last(struct ledger *ledger, uint64_t before, uint64_t *no)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_ORDERS_LAST, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, before);
    enum step step = cursor_step(s);
    *no = step == STEP_ROW ? (uint64_t)column_number(s, 0) : 0;
    return statement_close(ledger, STATEMENT_ORDERS_LAST, step);
}

/* Number and time of the first order from no on; there is one. */
static enum fault order_from(struct ledger *ledger, uint64_t no, uint64_t *found, uint64_t *won_ms)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_ORDERS_FROM, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, no);
    enum step step = cursor_step(s);
    *found = step == STEP_ROW ? (uint64_t)column_number(s, 0) : no;
    *won_ms = step == STEP_ROW ? (uint64_t)column_number(s, 1) : 0;
    return statement_close(ledger, STATEMENT_ORDERS_FROM, step);
}

/* The number at which orders won at this time or later begin. Numbers rise with time, so no index of times is kept: halving
 * finds it in a few dozen look-ups, however many orders there are. */
static enum fault order_since(struct ledger *ledger, uint64_t ms, uint64_t last, uint64_t *no)
{
    uint64_t low = 1, high = last + 1;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2, found, won_ms;
        enum fault fault = order_from(ledger, middle, &found, &won_ms);
        if (fault != FAULT_NONE) return fault;
        if (won_ms < ms) {
            low = found + 1;
        } else {
            high = middle;
        }
    }
    *no = low;
    return FAULT_NONE;
}

static enum fault span_find(struct ledger *ledger, const struct ledger_orders_query *query, struct span *span)
{
    *span = (struct span){ .below = below(query->after) };
    if (query->from_ms == 0 && query->to_ms == 0) return FAULT_NONE;
    uint64_t last, end = span->below;
    enum fault fault = order_last(ledger, INT64_MAX, &last);
    if (fault == FAULT_NONE && query->from_ms != 0) fault = order_since(ledger, query->from_ms, last, &span->from);
    if (fault == FAULT_NONE && query->to_ms != 0) fault = order_since(ledger, query->to_ms, last, &end);
    if (end < span->below) span->below = end;
    return fault;
}

struct buyer_list {
    const struct ledger_orders_query *query;
    struct span span;
    void (*visit)(void *arg, const struct order *order);
    void *arg;
    uint32_t count;
};

static enum fault buyer_list_on(struct ledger *ledger, enum statement id, uint64_t era, struct buyer_list *list)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, id, &s);
    if (fault != FAULT_NONE) return fault;
    bind_orders(s, list->query, &list->span);
    bind_number(s, 4, list->query->limit - list->count);
    if (id == STATEMENT_ORDERS_LIST_BUYER_ERA) bind_number(s, 7, era);
    return orders_list(ledger, id, list->visit, list->arg, &list->count);
}

/* The newest first: those that one index has, then, where there are eras, one after the other until the list is full. */
static enum fault orders_of_buyer(struct ledger *ledger, const struct ledger_orders_query *query,
                                  void (*visit)(void *arg, const struct order *order), void *arg)
{
    struct buyer_list list = { .query = query, .visit = visit, .arg = arg };
    enum fault fault = span_find(ledger, query, &list.span);
    if (fault == FAULT_NONE) fault = buyer_list_on(ledger, STATEMENT_ORDERS_LIST_BUYER, 0, &list);
    if (fault != FAULT_NONE || !ledger->driver->eras) return fault;

    uint64_t last = 0, before = list.span.below < ORDERS_OF_NODES ? list.span.below : ORDERS_OF_NODES;
    fault = order_last(ledger, before, &last);
    uint64_t from = list.span.from >> ORDERS_ERA_BITS, eras = (last >> ORDERS_ERA_BITS) + 1;
    for (; fault == FAULT_NONE && eras > from && list.count < query->limit; eras--)
        fault = buyer_list_on(ledger, STATEMENT_ORDERS_LIST_BUYER_ERA, eras - 1, &list);
    return fault;
}

enum fault ledger_orders(struct ledger *ledger, const struct ledger_orders_query *query,
                         void (*visit)(void *arg, const struct order *order), void *arg)
{
    if (query->buyer.len > 0) return orders_of_buyer(ledger, query, visit, arg);
    bool ended = query->state >= 0 && !order_state_counts((enum order_state)query->state);
    enum statement id = STATEMENT_ORDERS_LIST;
    if (query->sale_id != 0) {
        id = ended ? STATEMENT_ORDERS_LIST_SALE_ENDED : STATEMENT_ORDERS_LIST_SALE;
    } else if (query->seller.len > 0) {
        id = ended ? STATEMENT_ORDERS_LIST_SELLER_ENDED : STATEMENT_ORDERS_LIST_SELLER;
    } else if (ended) {
        id = STATEMENT_ORDERS_LIST_ENDED;
    }
    struct cursor *s;
    struct span span;
    enum fault fault = span_find(ledger, query, &span);
    if (fault == FAULT_NONE) fault = statement_open(ledger, id, &s);
    if (fault != FAULT_NONE) return fault;
    bind_orders(s, query, &span);
    uint32_t count = 0;
    return orders_list(ledger, id, visit, arg, &count);
}

enum fault ledger_sales_of(struct ledger *ledger, const struct ledger_page *page,
                           void (*visit)(void *arg, const struct sale *sale), void *arg)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_SALES_PAGE, &s);
    if (fault != FAULT_NONE) return fault;
    bind_slice(s, 1, page->name);
    bind_number(s, 2, page->limit);
    bind_number(s, 3, page->skip < INT64_MAX ? page->skip : INT64_MAX);
    struct sale sale;
    bool damaged = false;
    enum step step;
    while (!damaged && (step = cursor_step(s)) == STEP_ROW) {
        damaged = !row_sale(s, &sale);
        if (!damaged) visit(arg, &sale);
    }
    fault = statement_close(ledger, STATEMENT_SALES_PAGE, step);
    return damaged ? FAULT_DAMAGE : fault;
}

struct won_list {
    const struct ledger_page *page;
    void (*visit)(void *arg, const struct sale *sale);
    void *arg;
    uint64_t seen;
    uint32_t count;
};

/* What is skipped is stepped over, as an OFFSET would. */
static enum fault won_list_on(struct ledger *ledger, enum statement id, uint64_t era, struct won_list *list)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, id, &s);
    if (fault != FAULT_NONE) return fault;
    bind_slice(s, 1, list->page->name);
    if (id == STATEMENT_SALES_WON_ERA) bind_number(s, 2, era);
    struct sale sale;
    bool damaged = false;
    enum step step = STEP_DONE;
    while (!damaged && list->count < list->page->limit && (step = cursor_step(s)) == STEP_ROW) {
        if (list->seen++ < list->page->skip) continue;
        damaged = !row_sale(s, &sale);
        if (!damaged) list->visit(list->arg, &sale);
        list->count++;
    }
    fault = statement_close(ledger, id, step);
    return damaged ? FAULT_DAMAGE : fault;
}

/* The oldest first: era by era, where there are any, then those that one index has. */
enum fault ledger_sales_won(struct ledger *ledger, const struct ledger_page *page,
                            void (*visit)(void *arg, const struct sale *sale), void *arg)
{
    struct won_list list = { .page = page, .visit = visit, .arg = arg };
    uint64_t last = 0;
    enum fault fault = ledger->driver->eras ? order_last(ledger, ORDERS_OF_NODES, &last) : FAULT_NONE;
    uint64_t eras = ledger->driver->eras ? (last >> ORDERS_ERA_BITS) + 1 : 0;
    for (uint64_t era = 0; fault == FAULT_NONE && era < eras && list.count < page->limit; era++)
        fault = won_list_on(ledger, STATEMENT_SALES_WON_ERA, era, &list);
    return fault == FAULT_NONE ? won_list_on(ledger, STATEMENT_SALES_WON, 0, &list) : fault;
}
