/* Notices that are given up, and those that failed and are sent again: many at a time. */
#include "ledger/outbox.h"
#include "ledger/database.h"

/* A change of many rows of a seller, a few thousand at a time: which they are, what is done to them, and their state after.
 */
struct bulk {
    enum statement span, change;
    enum notice_state after;
};

/* The next so many rows. */
static enum fault bulk_find(struct ledger *ledger, const struct bulk *bulk, const struct outbox_age *age, uint64_t span[3])
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, bulk->span, &s);
    if (fault != FAULT_NONE) return fault;
    bind_slice(s, 1, age->seller);
    bind_number(s, 2, age->since_ms_max);
    bind_number(s, 3, OUTBOX_AT_ONCE);
    enum step step = cursor_step(s);
    for (int i = 0; i < 3; i++) span[i] = step == STEP_ROW ? (uint64_t)column_number(s, i) : 0;
    return statement_close(ledger, bulk->span, step);
}

static enum fault bulk_step(struct ledger *ledger, enum statement id, const struct outbox_age *age, const uint64_t span[3],
                            const struct bulk *bulk)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, id, &s);
    if (fault != FAULT_NONE) return fault;
    bind_slice(s, 1, age->seller);
    bind_number(s, 2, id == STATEMENT_OUTBOX_GIVE_UP ? age->since_ms_max : age->now_ms);
    bind_number(s, 3, span[1]);
    bind_number(s, 4, span[2]);
    if (id == STATEMENT_OUTBOX_UNPARK) bind_number(s, 5, (uint64_t)bulk->after);
    return statement_close(ledger, id, cursor_step(s));
}

/* Then the streams of these rows, and no others, go on where nothing is before a parked notice any more: so that many such
 * changes one after the other read every row once. */
static enum fault bulk_change(struct ledger *ledger, const struct bulk *bulk, const struct outbox_age *age, uint64_t *count)
{
    uint64_t span[3];
    *count = 0;
    enum fault fault = small_begin(ledger);
    if (fault != FAULT_NONE) return fault;
    fault = bulk_find(ledger, bulk, age, span);
    if (fault == FAULT_NONE && span[0] > 0) {
        fault = bulk_step(ledger, bulk->change, age, span, bulk);
        if (fault == FAULT_NONE) *count = (uint64_t)ledger_changes(ledger);
        if (fault == FAULT_NONE) fault = bulk_step(ledger, STATEMENT_OUTBOX_UNPARK, age, span, bulk);
    }
    return small_end(ledger, fault);
}

enum fault ledger_outbox_give_up(struct ledger *ledger, const struct outbox_age *age, uint64_t *count)
{
    static const struct bulk give_up = { STATEMENT_OUTBOX_STALE_SPAN, STATEMENT_OUTBOX_GIVE_UP, NOTICE_FAILED };
    return bulk_change(ledger, &give_up, age, count);
}

static enum fault retry_one(struct ledger *ledger, struct slice seller, uint64_t id, uint64_t now_ms, uint64_t *count)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_OUTBOX_RETRY, &s);
    if (fault != FAULT_NONE) return fault;
    bind_slice(s, 1, seller);
    bind_number(s, 2, id);
    bind_number(s, 3, now_ms);
    ledger_queue_enter();
    fault = statement_close(ledger, STATEMENT_OUTBOX_RETRY, cursor_step(s));
    ledger_queue_leave();
    *count = fault == FAULT_NONE ? (uint64_t)ledger_changes(ledger) : 0;
    return fault;
}

enum fault ledger_outbox_retry(struct ledger *ledger, struct slice seller, uint64_t id, uint64_t now_ms, uint64_t *count)
{
    if (id != 0) return retry_one(ledger, seller, id, now_ms, count);
    static const struct bulk retry = { STATEMENT_OUTBOX_FAILED_SPAN, STATEMENT_OUTBOX_RETRY_ALL, NOTICE_PENDING };
    const struct outbox_age age = { .seller = seller, .since_ms_max = now_ms - 1, .now_ms = now_ms };
    return bulk_change(ledger, &retry, &age, count);
}
