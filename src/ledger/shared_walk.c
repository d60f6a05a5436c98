/* Sales as the nodes of a shared ledger know them, and what a gate is rebuilt from. */
#include "ledger/database.h"
#include "ledger/shared_file.h"

static bool row_shelved(struct cursor *s, struct ledger_shelved *out)
{
    enum { VERSION = 28, EPOCH = 29 }; /* after SALE_COLUMNS */
    return row_sale(s, &out->sale) && row_u64(s, VERSION, INT64_MAX, &out->version) &&
           row_u64(s, EPOCH, INT64_MAX, &out->epoch);
}

enum fault ledger_each_changed_sale(struct ledger *ledger, uint64_t version_after, uint64_t now_ms,
                                    void (*visit)(void *arg, const struct ledger_shelved *sale), void *arg)
{
    enum statement id = version_after == 0 ? STATEMENT_SHELVED_NOT_OVER : STATEMENT_SHELVED_CHANGED;
    struct cursor *s;
    enum fault fault = statement_open(ledger, id, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, version_after == 0 ? now_ms : version_after);
    struct ledger_shelved sale;
    bool damaged = false;
    enum step step;
    while ((step = cursor_step(s)) == STEP_ROW) {
        damaged = !row_shelved(s, &sale);
        if (damaged) break;
        visit(arg, &sale);
    }
    fault = statement_close(ledger, id, step);
    return damaged ? FAULT_DAMAGE : fault;
}

enum fault ledger_shelved(struct ledger *ledger, uint64_t sale_id, struct ledger_shelved *out, bool *found)
{
    *found = false;
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_SHELVED, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, sale_id);
    enum step step = cursor_step(s);
    *found = step == STEP_ROW;
    bool damaged = *found && !row_shelved(s, out);
    fault = statement_close(ledger, STATEMENT_SHELVED, step);
    return damaged ? FAULT_DAMAGE : fault;
}

static enum fault orders_visit(struct ledger *ledger, uint64_t sale_id, const struct ledger_rebuild *visit)
{
    enum { NTH = 14 }; /* after ORDER_COLUMNS */
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_REBUILD_ORDERS, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, sale_id);
    enum step step;
    while ((step = cursor_step(s)) == STEP_ROW) {
        struct ledger_order order;
        uint32_t nth;
        bool good = row_order(s, &order) && row_u32(s, NTH, GRABS_PER_BUYER_MAX, &nth);
        fault = good ? visit->order(visit->arg, &order, nth) : FAULT_DAMAGE;
        if (fault != FAULT_NONE) break;
    }
    enum fault closed = statement_close(ledger, STATEMENT_REBUILD_ORDERS, step);
    return fault != FAULT_NONE ? fault : closed;
}

static enum fault tokens_visit(struct ledger *ledger, uint64_t sale_id, const struct ledger_rebuild *visit)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_REBUILD_TOKENS, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, sale_id);
    enum step step;
    while ((step = cursor_step(s)) == STEP_ROW) {
        struct ledger_token token;
        fault = row_token(s, &token) ? visit->token(visit->arg, &token) : FAULT_DAMAGE;
        if (fault != FAULT_NONE) break;
    }
    enum fault closed = statement_close(ledger, STATEMENT_REBUILD_TOKENS, step);
    return fault != FAULT_NONE ? fault : closed;
}

static enum fault errands_visit(struct ledger *ledger, uint64_t sale_id, const struct ledger_rebuild *visit)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_ERRANDS_OF, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, sale_id);
    enum step step;
    while ((step = cursor_step(s)) == STEP_ROW) {
        struct ledger_errand errand;
        fault = row_errand(s, &errand) ? visit->errand(visit->arg, &errand) : FAULT_DAMAGE;
        if (fault != FAULT_NONE) break;
    }
    enum fault closed = statement_close(ledger, STATEMENT_ERRANDS_OF, step);
    return fault != FAULT_NONE ? fault : closed;
}

static enum fault withdrawals_visit(struct ledger *ledger, uint64_t sale_id, const struct ledger_rebuild *visit)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_WITHDRAWALS_AFTER, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, sale_id);
    bind_number(s, 2, visit->withdrawn_after);
    enum step step;
    while ((step = cursor_step(s)) == STEP_ROW) {
        uint64_t number;
        uint32_t units;
        bool good = row_u64(s, 0, INT64_MAX, &number) && row_u32(s, 1, STOCK_MAX, &units);
        fault = good ? visit->withdrawal(visit->arg, number, units) : FAULT_DAMAGE;
        if (fault != FAULT_NONE) break;
    }
    enum fault closed = statement_close(ledger, STATEMENT_WITHDRAWALS_AFTER, step);
    return fault != FAULT_NONE ? fault : closed;
}

enum fault ledger_rebuild(struct ledger *ledger, uint64_t sale_id, const struct ledger_rebuild *visit)
{
    struct ledger_shelved sale;
    bool found = false;
    enum fault fault = ledger_begin(ledger, TRANSACTION_READ);
    if (fault == FAULT_NONE) fault = ledger_shelved(ledger, sale_id, &sale, &found);
    if (fault == FAULT_NONE && found) fault = visit->sale(visit->arg, &sale);
    if (fault == FAULT_NONE && found) fault = orders_visit(ledger, sale_id, visit);
    if (fault == FAULT_NONE && found) fault = tokens_visit(ledger, sale_id, visit);
    if (fault == FAULT_NONE && found && visit->errand != NULL) fault = errands_visit(ledger, sale_id, visit);
    if (fault == FAULT_NONE && found && visit->withdrawal != NULL) fault = withdrawals_visit(ledger, sale_id, visit);
    ledger_undo(ledger);
    return fault;
}
