/* Filing: the journal's decisions as rows, and the point they reach, in one transaction (P4).
 *
 * A win changes the counts of its sale. A sale of ten thousand wins a second would write its row ten thousand times, so the
 * changes are added up in memory and written once, before the commit. */
#include "base/log.h"
#include "ledger/file.h"

#include <assert.h>
#include <inttypes.h>
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

enum fault ledger_file_begin(struct ledger *ledger, struct ledger_point *point)
{
    assert(!ledger->filing);
    ledger_queue_yield();

    enum fault fault = ledger_begin(ledger, TRANSACTION_FILE);
    if (fault != FAULT_NONE) return fault;

    ledger->filing = true;
    fault = ledger_point(ledger, point);
    if (fault == FAULT_NONE) fault = outbox_file_begin(ledger);
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

enum fault ledger_file_commit(struct ledger *ledger, const struct ledger_point *from, const struct ledger_point *to)
{
    assert(ledger->filing);
    assert(to->seq == ledger->seq);

    enum fault fault = FAULT_NONE;
    for (size_t i = 0; i < TALLIES && fault == FAULT_NONE; i++) {
        if (ledger->tallies[i].sale_id != 0) fault = tally_write(ledger, &ledger->tallies[i]);
    }
    if (fault == FAULT_NONE) fault = point_move(ledger, from, to);
    if (fault == FAULT_NONE) fault = ledger_commit(ledger);
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
