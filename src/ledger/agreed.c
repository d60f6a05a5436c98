#include "ledger/agreed.h"

#include "ledger/shared_file.h"

#include <string.h>

enum fault ledger_agreed(struct ledger *ledger, const char *name, char kept[AGREED_BYTES])
{
    struct cursor *s;
    kept[0] = '\0';
    enum fault fault = statement_open(ledger, STATEMENT_AGREED, &s);
    if (fault != FAULT_NONE) return fault;
    bind_string(s, 1, name);
    enum step step = cursor_step(s);
    struct slice text = step == STEP_ROW ? column_text(s, 0) : SLICE("");
    if (text.len > 0 && text.len < AGREED_BYTES) {
        memcpy(kept, text.data, text.len);
        kept[text.len] = '\0';
    }
    return statement_close(ledger, STATEMENT_AGREED, step);
}

struct agreeing {
    enum statement statement;
    const char *name, *value;
};

static enum fault agree_work(struct ledger *ledger, void *arg, bool *wrote)
{
    const struct agreeing *agreeing = arg;
    struct cursor *s;
    *wrote = true;
    enum fault fault = statement_open(ledger, agreeing->statement, &s);
    if (fault != FAULT_NONE) return fault;
    bind_string(s, 1, agreeing->name);
    bind_string(s, 2, agreeing->value);
    return statement_close(ledger, agreeing->statement, cursor_step(s));
}

enum fault ledger_agree(struct ledger *ledger, const char *name, const char *value, char kept[AGREED_BYTES])
{
    struct agreeing agreeing = { STATEMENT_AGREE, name, value };
    enum fault fault = shared_run(ledger, agree_work, &agreeing);
    return fault != FAULT_NONE ? fault : ledger_agreed(ledger, name, kept);
}

enum fault ledger_agree_anew(struct ledger *ledger, const char *name, const char *value)
{
    struct agreeing agreeing = { STATEMENT_AGREE_ANEW, name, value };
    return shared_run(ledger, agree_work, &agreeing);
}

enum fault ledger_each_over_limit(struct ledger *ledger,
                                  void (*visit)(void *arg, uint64_t sale_id, uint64_t orders, uint64_t max), void *arg)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_BUYERS_OVER, &s);
    if (fault != FAULT_NONE) return fault;
    enum step step;
    while ((step = cursor_step(s)) == STEP_ROW)
        visit(arg, (uint64_t)column_number(s, 0), (uint64_t)column_number(s, 1), (uint64_t)column_number(s, 2));
    return statement_close(ledger, STATEMENT_BUYERS_OVER, step);
}

enum fault ledger_sale_named(struct ledger *ledger, struct slice seller, struct slice name, uint64_t *id)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_SALE_NAMED, &s);
    if (fault != FAULT_NONE) return fault;
    bind_slice(s, 1, seller);
    bind_slice(s, 2, name);
    enum step step = cursor_step(s);
    *id = step == STEP_ROW ? (uint64_t)column_number(s, 0) : 0;
    return statement_close(ledger, STATEMENT_SALE_NAMED, step);
}
