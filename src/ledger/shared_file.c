/* Transactions of several nodes, and what is asked within them. Who files anything about a sale holds the lock of its row,
 * by tally_find(): what is read about the sale and its orders after that is true until the end. */
#include "ledger/shared_file.h"

#include "base/clock.h"

#include <assert.h>

#define TRIES_MAX 6

enum fault shared_run(struct ledger *ledger, enum fault (*work)(struct ledger *ledger, void *arg, bool *wrote), void *arg)
{
    uint64_t until_ms = mono_ms() + ledger->patience_ms;
    for (int tries = 1;; tries++) {
        bool wrote = false;
        enum fault fault = filing_begin(ledger); /* has waited as long as it may */
        if (fault != FAULT_NONE) return fault;
        fault = work(ledger, arg, &wrote);
        if (fault == FAULT_NONE && wrote) fault = filing_commit(ledger);
        if (fault != FAULT_NONE || !wrote) ledger_file_rollback(ledger);
        ledger->filing = false;
        if (fault != FAULT_TIMEOUT || tries == TRIES_MAX || mono_ms() >= until_ms) return fault;
        ledger_lock_pause();
    }
}

/* A statement that writes, with two numbers. */
static enum fault numbers_write(struct ledger *ledger, enum statement id, uint64_t first, uint64_t second)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, id, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, first);
    bind_number(s, 2, second);
    return statement_close(ledger, id, cursor_step(s));
}

enum fault refusal_insert(struct ledger *ledger, uint64_t number, uint64_t sale_id)
{
    return numbers_write(ledger, STATEMENT_REFUSAL_INSERT, number, sale_id);
}

enum fault shared_vouch(struct ledger *ledger, uint64_t number, uint64_t sale_id)
{
    struct cursor *s;
    enum fault fault = refusal_insert(ledger, number, sale_id);
    if (fault == FAULT_NONE) fault = statement_open(ledger, STATEMENT_REFUSAL_DELETE, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, number);
    return statement_close(ledger, STATEMENT_REFUSAL_DELETE, cursor_step(s));
}

enum fault shared_tell(struct ledger *ledger, const struct decision *d, enum fault filed)
{
    return filed != FAULT_NONE ? filed : outbox_file(ledger, d);
}

static enum fault buyer_ask(struct ledger *ledger, enum statement id, const struct ledger_key *buyer, struct cursor **s)
{
    enum fault fault = statement_open(ledger, id, s);
    if (fault != FAULT_NONE) return fault;
    bind_number(*s, 1, buyer->sale_id);
    bind_slice(*s, 2, buyer->buyer);
    return FAULT_NONE;
}

/* After the last of many there is room more often than not; only then the places that were given back are looked for. */
static enum fault last_place(struct ledger *ledger, const struct ledger_key *buyer, int64_t *last)
{
    struct cursor *s;
    enum fault fault = buyer_ask(ledger, STATEMENT_BUYER_LAST, buyer, &s);
    if (fault != FAULT_NONE) return fault;
    enum step step = cursor_step(s);
    *last = step == STEP_ROW ? column_number(s, 0) : 0;
    return statement_close(ledger, STATEMENT_BUYER_LAST, step);
}

enum fault buyer_place(struct ledger *ledger, const struct ledger_key *buyer, uint32_t max, struct buyer_place *out)
{
    int64_t last = 0;
    enum fault fault = last_place(ledger, buyer, &last);
    *out = (struct buyer_place){ .nth = (uint32_t)last + 1 };
    if (fault != FAULT_NONE || last < (int64_t)max) return fault;

    struct cursor *s;
    fault = buyer_ask(ledger, STATEMENT_BUYER_NTHS, buyer, &s);
    if (fault != FAULT_NONE) return fault;
    uint32_t next = 1;
    enum step step;
    while ((step = cursor_step(s)) == STEP_ROW && column_number(s, 0) == (int64_t)next) {
        if (next == 1) out->order_no = (uint64_t)column_number(s, 1);
        next++;
    }
    out->nth = next <= max ? next : 0;
    return statement_close(ledger, STATEMENT_BUYER_NTHS, step);
}

enum fault buyer_grabs(struct ledger *ledger, const struct ledger_key *buyer, uint32_t *grabs)
{
    *grabs = 0;
    struct cursor *s;
    enum fault fault = buyer_ask(ledger, STATEMENT_BUYER_NTHS, buyer, &s);
    if (fault != FAULT_NONE) return fault;
    enum step step;
    while ((step = cursor_step(s)) == STEP_ROW) ++*grabs;
    return statement_close(ledger, STATEMENT_BUYER_NTHS, step);
}

enum fault order_nth(struct ledger *ledger, uint64_t order_no, uint32_t nth)
{
    return numbers_write(ledger, STATEMENT_ORDER_NTH, order_no, nth);
}
