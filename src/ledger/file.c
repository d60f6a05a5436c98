/* Filing: the journal's decisions as rows, and the point they reach, in one transaction (P4).
 *
 * A win changes the counts of its sale. A sale of ten thousand wins a second would write its row ten thousand times, so the
 * changes are added up in memory and written once, before the commit. */
#include "base/log.h"
#include "ledger/file.h"

#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

enum fault ledger_point(struct ledger *ledger, struct ledger_point *out)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_POINT, &s);
    if (fault != FAULT_NONE) return fault;

    enum step step = cursor_step(s);
    struct slice uuid = step == STEP_ROW ? column_text(s, 4) : SLICE("");
    bool good = uuid.len == sizeof(out->uuid);
    if (good) {
        *out = (struct ledger_point){
            .seq = (uint64_t)column_number(s, 0),
            .digest = (uint64_t)column_number(s, 1),
            .at_ms = (uint64_t)column_number(s, 2),
            .sale_id_last = (uint64_t)column_number(s, 3),
        };
        memcpy(out->uuid, uuid.data, sizeof(out->uuid));
    }
    fault = statement_close(ledger, STATEMENT_POINT, step);
    if (fault == FAULT_NONE && !good) {
        log_error("ledger", "%s does not say how far it was filed", ledger->path);
        return FAULT_DAMAGE;
    }
    return fault;
}

enum fault filing_write(struct ledger *ledger, enum statement id, bool *conflict)
{
    enum step step = cursor_step(ledger->statements[id]);
    *conflict = step == STEP_CONFLICT;
    if (*conflict) {
        cursor_reset(ledger->statements[id]);
        return FAULT_NONE;
    }
    return statement_close(ledger, id, step);
}

/* A row that is there already shows only when its whole queue is inserted, and nobody knows any more which decision it was
 * of. That happens after a point was put back by hand: the transaction is done again, one row at a time. */
static _Atomic bool one_by_one;

static enum fault queue_answer(struct ledger *ledger, enum statement id, enum step step)
{
    if (step == STEP_CONFLICT) {
        log_warn("ledger", "%s: %s: files these decisions once more, one by one", ledger->path, ledger_error(ledger));
        atomic_store(&one_by_one, true);
        return FAULT_LEDGER;
    }
    return statement_close(ledger, id, step);
}

bool filing_queues(const struct ledger *ledger)
{
    return ledger->driver->queue != NULL && ledger->filing && !ledger->one_by_one;
}

enum fault filing_flush_one(struct ledger *ledger, enum statement id)
{
    struct cursor *cursor = ledger->statements[id];
    if (ledger->driver->flush == NULL || cursor == NULL) return FAULT_NONE;
    return queue_answer(ledger, id, ledger->driver->flush(cursor));
}

/* Queues of changes to orders: what is done to one comes after what was done before. */
static const enum statement order_queues[] = { STATEMENT_ORDER_INSERT, STATEMENT_ORDER_EXPIRE, STATEMENT_ORDER_PAY };
#define ORDER_QUEUES (sizeof(order_queues) / sizeof(order_queues[0]))

enum fault filing_flush(struct ledger *ledger)
{
    enum fault fault = filing_flush_one(ledger, STATEMENT_TOKEN_INSERT);
    for (size_t i = 0; i < ORDER_QUEUES && fault == FAULT_NONE; i++) fault = filing_flush_one(ledger, order_queues[i]);
    return fault == FAULT_NONE ? filing_flush_one(ledger, STATEMENT_OUTBOX_INSERT_FIRST) : fault;
}

enum fault filing_queue(struct ledger *ledger, enum statement id)
{
    bool of_orders = false;
    enum fault fault = FAULT_NONE;
    for (size_t i = 0; i < ORDER_QUEUES; i++) of_orders = of_orders || order_queues[i] == id;
    for (size_t i = 0; of_orders && i < ORDER_QUEUES && fault == FAULT_NONE; i++) {
        if (order_queues[i] != id) fault = filing_flush_one(ledger, order_queues[i]);
    }
    return fault != FAULT_NONE ? fault : queue_answer(ledger, id, ledger->driver->queue(ledger->statements[id]));
}

enum fault filing_insert(struct ledger *ledger, enum statement id, bool *conflict)
{
    *conflict = false;
    return filing_queues(ledger) ? filing_queue(ledger, id) : filing_write(ledger, id, conflict);
}

enum fault filing_damage(const struct ledger *ledger, uint64_t seq, const char *what)
{
    log_error("ledger", "%s: decision %" PRIu64 " cannot be filed: %s", ledger->path, seq, what);
    return FAULT_DAMAGE;
}

enum fault filing_update(struct ledger *ledger, enum statement id, uint64_t seq)
{
    bool conflict;
    enum fault fault = filing_write(ledger, id, &conflict);
    if (fault != FAULT_NONE) return fault;
    if (conflict) return filing_damage(ledger, seq, ledger_error(ledger));
    if (ledger_changes(ledger) != 1) return filing_damage(ledger, seq, "its sale is not in the ledger");
    return FAULT_NONE;
}

static enum fault tally_write(struct ledger *ledger, struct tally *tally)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_SALE_COUNTS, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, tally->sale_id);
    bind_signed(s, 2, tally->offered);
    bind_signed(s, 3, tally->available);
    bind_signed(s, 4, tally->held);
    bind_signed(s, 5, tally->sold);
    bind_signed(s, 6, tally->orders_made);
    bind_signed(s, 7, tally->tokens_given);
    numbers_bind(s, tally);
    tally->sale_id = 0;
    return filing_update(ledger, STATEMENT_SALE_COUNTS, ledger->seq);
}

enum fault tally_find(struct ledger *ledger, uint64_t sale_id, struct tally **out)
{
    struct tally *tally = &ledger->tallies[sale_id % TALLIES];
    *out = tally;
    if (tally->sale_id == sale_id) return FAULT_NONE;
    enum fault fault = tally->sale_id == 0 ? FAULT_NONE : tally_write(ledger, tally);
    *tally = (struct tally){ .sale_id = sale_id };
    return fault != FAULT_NONE ? fault : numbers_begin(ledger, tally);
}

enum fault filing_begin(struct ledger *ledger)
{
    assert(!ledger->filing);
    ledger_queue_yield();

    enum fault fault = ledger_begin(ledger, TRANSACTION_FILE);
    if (fault != FAULT_NONE) return fault;
    ledger->filing = true;
    ledger->one_by_one = atomic_load(&one_by_one);
    fault = outbox_file_begin(ledger);
    if (fault != FAULT_NONE) ledger_file_rollback(ledger);
    return fault;
}

enum fault filing_commit(struct ledger *ledger)
{
    assert(ledger->filing);
    enum fault fault = filing_flush(ledger);
    for (size_t i = 0; i < TALLIES && fault == FAULT_NONE; i++) {
        if (ledger->tallies[i].sale_id != 0) fault = tally_write(ledger, &ledger->tallies[i]);
    }
    if (fault == FAULT_NONE) fault = publications_file_end(ledger);
    if (fault == FAULT_NONE) fault = ledger_commit(ledger);
    if (fault == FAULT_NONE && ledger->one_by_one) atomic_store(&one_by_one, false);
    return fault;
}

enum fault ledger_file_begin(struct ledger *ledger, struct ledger_point *point)
{
    enum fault fault = filing_begin(ledger);
    if (fault != FAULT_NONE) return fault;
    fault = ledger_point(ledger, point);
    if (fault != FAULT_NONE) {
        ledger_file_rollback(ledger);
        return fault;
    }
    ledger->seq = point->seq;
    return FAULT_NONE;
}

static enum fault decision_file(struct ledger *ledger, const struct decision *decision)
{
    switch (decision->kind) {
    case DECISION_SALE_CREATED:
        return file_created(ledger, decision);
    case DECISION_SALE_CHANGED:
        return file_changed(ledger, decision);
    case DECISION_STOCK_ADDED:
        return file_stock(ledger, decision);
    case DECISION_SALE_PAUSED:
    case DECISION_SALE_RESUMED:
    case DECISION_SALE_CLOSED:
        return file_switched(ledger, decision);
    case DECISION_WON:
        return file_won(ledger, decision);
    case DECISION_TOKEN_GIVEN:
        return file_token(ledger, decision);
    case DECISION_PAID:
    case DECISION_CANCELLED:
    case DECISION_EXPIRED:
    case DECISION_RETAKEN:
    case DECISION_REFUND_DUE:
        return file_ended(ledger, decision);
    }
    return filing_damage(ledger, decision->seq, "its kind is unknown");
}

enum fault ledger_file(struct ledger *ledger, const struct decision *decision)
{
    assert(ledger->filing);
    /* A gap would be an order that never reaches the ledger, and nobody would ever look for it. */
    if (decision->seq != ledger->seq + 1)
        return filing_damage(ledger, decision->seq, "it does not follow the one filed before");
    ledger->seq = decision->seq;

    enum fault fault = decision_file(ledger, decision);
    return fault != FAULT_NONE ? fault : outbox_file(ledger, decision);
}

static enum fault point_move(struct ledger *ledger, const struct ledger_point *from, const struct ledger_point *to)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_POINT_MOVE, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, to->seq);
    bind_number(s, 2, to->digest);
    bind_number(s, 3, to->at_ms);
    bind_number(s, 4, to->sale_id_last);
    bind_blob(s, 5, (struct slice){ (const char *)to->uuid, sizeof(to->uuid) });
    bind_number(s, 6, from->seq);
    bind_number(s, 7, from->digest);
    fault = statement_close(ledger, STATEMENT_POINT_MOVE, cursor_step(s));
    if (fault == FAULT_NONE && ledger_changes(ledger) != 1) {
        log_error("ledger", "%s: the point is not at %" PRIu64 " any more: nothing is filed from there", ledger->path,
                  from->seq);
        return FAULT_LEDGER;
    }
    return fault;
}

bool ledger_point_is_new(const struct ledger_point *point)
{
    static const uint8_t none[sizeof(point->uuid)];
    return point->seq == 0 && memcmp(point->uuid, none, sizeof(none)) == 0;
}

enum fault ledger_point_begin(struct ledger *ledger, const uint8_t uuid[16])
{
    struct ledger_point point;
    enum fault fault = small_begin(ledger);
    if (fault != FAULT_NONE) return fault;
    fault = ledger_point(ledger, &point);
    if (fault == FAULT_NONE && !ledger_point_is_new(&point)) {
        log_error("ledger", "%s belongs to a journal already", ledger->path);
        fault = FAULT_LEDGER;
    }
    if (fault == FAULT_NONE) {
        const struct ledger_point from = point;
        memcpy(point.uuid, uuid, sizeof(point.uuid));
        fault = point_move(ledger, &from, &point);
    }
    return small_end(ledger, fault);
}

enum fault ledger_file_commit(struct ledger *ledger, const struct ledger_point *from, const struct ledger_point *to)
{
    assert(to->seq == ledger->seq);

    enum fault fault = point_move(ledger, from, to);
    if (fault == FAULT_NONE) fault = filing_commit(ledger);
    if (fault != FAULT_NONE) ledger_file_rollback(ledger);
    ledger->filing = false;
    return fault;
}

void ledger_file_rollback(struct ledger *ledger)
{
    ledger_undo(ledger);
    memset(ledger->tallies, 0, sizeof(ledger->tallies));
    ledger->filing = false;
}
