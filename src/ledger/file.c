/* Filing: the journal's decisions as rows, and the point they reach, in one transaction (P4).
 *
 * A win changes the counts of its sale. A sale of ten thousand wins a second would write its row ten thousand times, so the
 * changes are added up in memory and written once, before the commit. */
#include "base/log.h"
#include "ledger/sqlite.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

enum fault ledger_point(struct ledger *ledger, struct ledger_point *out)
{
    sqlite3_stmt *s;
    enum fault fault = statement_open(ledger, STATEMENT_POINT, &s);
    if (fault != FAULT_NONE) return fault;

    int rc = sqlite3_step(s);
    bool good = rc == SQLITE_ROW && sqlite3_column_bytes(s, 4) == (int)sizeof(out->uuid);
    if (good) {
        *out = (struct ledger_point){
            .seq = (uint64_t)sqlite3_column_int64(s, 0),
            .digest = (uint64_t)sqlite3_column_int64(s, 1),
            .at_ms = (uint64_t)sqlite3_column_int64(s, 2),
            .sale_id_last = (uint64_t)sqlite3_column_int64(s, 3),
        };
        memcpy(out->uuid, sqlite3_column_blob(s, 4), sizeof(out->uuid));
    }
    fault = statement_close(ledger, STATEMENT_POINT, rc);
    if (fault == FAULT_NONE && !good) {
        log_error("ledger", "%s does not say how far it was filed", ledger->path);
        return FAULT_DAMAGE;
    }
    return fault;
}

/* Runs a statement that is to change exactly one row. *conflict tells a violated constraint, which is not logged here: it
 * may be a row that is there already. */
static enum fault row_write(struct ledger *ledger, enum statement id, bool *conflict)
{
    int rc = sqlite3_step(ledger->statements[id]);
    *conflict = (rc & 0xff) == SQLITE_CONSTRAINT;
    if (*conflict) {
        sqlite3_reset(ledger->statements[id]);
        return FAULT_NONE;
    }
    return statement_close(ledger, id, rc);
}

static enum fault damage(const struct ledger *ledger, uint64_t seq, const char *what)
{
    log_error("ledger", "%s: decision %" PRIu64 " cannot be filed: %s", ledger->path, seq, what);
    return FAULT_DAMAGE;
}

static enum fault sale_update(struct ledger *ledger, enum statement id, uint64_t seq)
{
    bool conflict;
    enum fault fault = row_write(ledger, id, &conflict);
    if (fault != FAULT_NONE) return fault;
    if (conflict) return damage(ledger, seq, sqlite3_errmsg(ledger->db));
    if (sqlite3_changes(ledger->db) != 1) return damage(ledger, seq, "its sale is not in the ledger");
    return FAULT_NONE;
}

static enum fault tally_write(struct ledger *ledger, struct tally *tally)
{
    sqlite3_stmt *s;
    enum fault fault = statement_open(ledger, STATEMENT_SALE_COUNTS, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, tally->sale_id);
    bind_signed(s, 2, tally->offered);
    bind_signed(s, 3, tally->available);
    bind_signed(s, 4, tally->held);
    bind_signed(s, 5, tally->sold);
    bind_signed(s, 6, tally->orders_made);
    bind_signed(s, 7, tally->tokens_given);
    tally->sale_id = 0;
    return sale_update(ledger, STATEMENT_SALE_COUNTS, ledger->seq);
}

/* The sums of one sale; another sale's in the same place is written first. */
static enum fault tally_find(struct ledger *ledger, uint64_t sale_id, struct tally **out)
{
    struct tally *tally = &ledger->tallies[sale_id % TALLIES];
    *out = tally;
    if (tally->sale_id == sale_id) return FAULT_NONE;
    enum fault fault = tally->sale_id == 0 ? FAULT_NONE : tally_write(ledger, tally);
    *tally = (struct tally){ .sale_id = sale_id };
    return fault;
}

static void bind_terms(sqlite3_stmt *s, const struct sale_terms *terms)
{
    bind_string(s, 3, terms->name);
    bind_string(s, 4, terms->description);
    bind_string(s, 5, terms->currency);
    bind_signed(s, 6, terms->price);
    bind_number(s, 7, terms->units_per_grab_max);
    bind_number(s, 8, terms->grabs_per_buyer_max);
    bind_number(s, 9, terms->opens_ms);
    bind_number(s, 10, terms->closes_ms);
    bind_number(s, 11, terms->pay_within_s);
    bind_number(s, 12, (uint64_t)terms->admission);
    bind_number(s, 13, terms->tokens_max);
    bind_number(s, 14, terms->admit_max);
    bind_number(s, 15, terms->line_rate_per_s);
    bind_number(s, 16, terms->line_size);
    bind_number(s, 17, terms->line_timeout_ms);
    bind_string(s, 18, terms->line_name);
    bind_number(s, 19, (uint64_t)terms->late_payment);
    bind_number(s, 20, terms->event_id);
}

static enum fault file_created(struct ledger *ledger, const struct decision *d)
{
    sqlite3_stmt *s;
    enum fault fault = statement_open(ledger, STATEMENT_SALE_INSERT, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, d->sale_id);
    bind_slice(s, 2, d->created.seller);
    bind_terms(s, d->created.terms);
    bind_number(s, 21, d->created.stock);

    bool conflict;
    fault = row_write(ledger, STATEMENT_SALE_INSERT, &conflict);
    if (fault != FAULT_NONE || !conflict) return fault;

    struct sale there;
    bool found;
    fault = ledger_sale(ledger, d->sale_id, &there, &found);
    if (fault != FAULT_NONE) return fault;
    bool equal = found && slice_is(d->created.seller, there.seller) && sale_terms_equal(&there.terms, d->created.terms) &&
                 there.counts.offered == d->created.stock && there.counts.available == d->created.stock && !there.paused &&
                 !there.closed;
    return equal ? FAULT_NONE : damage(ledger, d->seq, "another sale with its id or name is there");
}

static enum fault file_changed(struct ledger *ledger, const struct decision *d)
{
    sqlite3_stmt *s;
    enum fault fault = statement_open(ledger, STATEMENT_SALE_TERMS, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, d->sale_id);
    bind_terms(s, d->changed);
    return sale_update(ledger, STATEMENT_SALE_TERMS, d->seq);
}

static enum fault file_switched(struct ledger *ledger, const struct decision *d)
{
    enum statement id = d->kind == DECISION_SALE_CLOSED ? STATEMENT_SALE_CLOSED : STATEMENT_SALE_PAUSED;
    sqlite3_stmt *s;
    enum fault fault = statement_open(ledger, id, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, d->sale_id);
    if (d->kind != DECISION_SALE_CLOSED) bind_number(s, 2, d->kind == DECISION_SALE_PAUSED);
    return sale_update(ledger, id, d->seq);
}

static enum fault file_stock(struct ledger *ledger, const struct decision *d)
{
    struct tally *tally;
    enum fault fault = tally_find(ledger, d->sale_id, &tally);
    tally->offered += d->stock_added;
    tally->available += d->stock_added;
    return fault;
}

/* The order is there already. Its sale was counted in the transaction that put it there. */
static enum fault file_again(struct ledger *ledger, const struct decision *d, enum order_state state)
{
    struct ledger_order row;
    bool found;
    enum fault fault = ledger_order(ledger, d->seq, &row, &found);
    if (fault != FAULT_NONE) return fault;
    const struct order there = row.order;
    bool equal = found && there.sale_id == d->sale_id && slice_is(d->won.buyer, there.buyer) &&
                 slice_is(d->won.key, there.key) && there.units == d->won.units && there.amount == d->won.amount &&
                 there.state == state && there.won_ms == d->at_ms && there.pay_by_ms == d->won.pay_by_ms &&
                 there.token_nonce == d->won.token_nonce;
    return equal ? FAULT_NONE : damage(ledger, d->seq, "a different order with its number or key is there");
}

static enum fault token_spend(struct ledger *ledger, const struct decision *d)
{
    sqlite3_stmt *s;
    enum fault fault = statement_open(ledger, STATEMENT_TOKEN_SPEND, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, d->won.token_nonce);
    bind_number(s, 2, d->sale_id);
    bind_slice(s, 3, d->won.buyer);
    bind_number(s, 4, d->seq);
    fault = statement_close(ledger, STATEMENT_TOKEN_SPEND, sqlite3_step(s));
    if (fault == FAULT_NONE && sqlite3_changes(ledger->db) != 1)
        return damage(ledger, d->seq, "the token it has spent is not in the ledger, or spent already");
    return fault;
}

static enum fault file_token(struct ledger *ledger, const struct decision *d)
{
    sqlite3_stmt *s;
    enum fault fault = statement_open(ledger, STATEMENT_TOKEN_INSERT, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, d->seq);
    bind_number(s, 2, d->sale_id);
    bind_slice(s, 3, d->token_given.buyer);
    bind_number(s, 4, d->at_ms);

    bool conflict;
    fault = row_write(ledger, STATEMENT_TOKEN_INSERT, &conflict);
    if (fault != FAULT_NONE) return fault;
    struct tally *tally;
    if (!conflict) {
        fault = tally_find(ledger, d->sale_id, &tally);
        tally->tokens_given++;
        return fault;
    }
    /* There already, and counted in the transaction that put it there. */
    struct ledger_token there;
    bool found;
    fault = ledger_token(ledger, d->seq, &there, &found);
    if (fault != FAULT_NONE) return fault;
    bool equal = found && there.sale_id == d->sale_id && slice_is(d->token_given.buyer, there.buyer) &&
                 there.given_ms == d->at_ms;
    return equal ? FAULT_NONE : damage(ledger, d->seq, "a different token with its number is there");
}

static enum fault file_won(struct ledger *ledger, const struct decision *d)
{
    enum order_state state = d->won.pay_by_ms == 0 ? ORDER_PAID : ORDER_HELD;
    sqlite3_stmt *s;
    enum fault fault = statement_open(ledger, STATEMENT_ORDER_INSERT, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, d->seq);
    bind_number(s, 2, d->sale_id);
    bind_slice(s, 3, d->won.buyer);
    bind_number(s, 4, d->won.units);
    bind_signed(s, 5, d->won.amount);
    bind_number(s, 6, (uint64_t)state);
    bind_number(s, 7, d->at_ms);
    bind_number(s, 8, d->won.pay_by_ms);
    bind_slice(s, 9, d->won.key);
    bind_number(s, 10, d->won.token_nonce);

    bool conflict;
    fault = row_write(ledger, STATEMENT_ORDER_INSERT, &conflict);
    if (fault != FAULT_NONE) return fault;
    if (conflict) return file_again(ledger, d, state);
    if (d->won.token_nonce != 0) fault = token_spend(ledger, d);
    if (fault != FAULT_NONE) return fault;

    struct tally *tally;
    fault = tally_find(ledger, d->sale_id, &tally);
    tally->available -= d->won.units;
    *(state == ORDER_HELD ? &tally->held : &tally->sold) += d->won.units;
    tally->orders_made++;
    return fault;
}

static enum fault order_update(struct ledger *ledger, enum statement id, uint64_t seq)
{
    enum fault fault = statement_close(ledger, id, sqlite3_step(ledger->statements[id]));
    if (fault == FAULT_NONE && sqlite3_changes(ledger->db) != 1)
        return damage(ledger, seq, "its order is not in the ledger, or in another state");
    return fault;
}

/* Cancelled or expired: what was held is available again. */
static enum fault file_returned(struct ledger *ledger, const struct decision *d)
{
    sqlite3_stmt *s;
    enum fault fault = statement_open(ledger, STATEMENT_ORDER_END, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, d->ended.order_no);
    bind_number(s, 2, d->sale_id);
    bind_number(s, 3, d->ended.units);
    bind_number(s, 4, d->kind == DECISION_CANCELLED ? ORDER_CANCELLED : ORDER_EXPIRED);
    bind_number(s, 5, (uint64_t)d->ended.by);
    bind_slice(s, 6, d->ended.reason);
    bind_number(s, 7, d->at_ms);
    bind_number(s, 8, ORDER_HELD);
    fault = order_update(ledger, STATEMENT_ORDER_END, d->seq);
    if (fault != FAULT_NONE) return fault;

    struct tally *tally;
    fault = tally_find(ledger, d->sale_id, &tally);
    tally->held -= d->ended.units;
    tally->available += d->ended.units;
    return fault;
}

/* The engine may tell a refund twice, of an order that its memory had let go of: the first stands. */
static enum fault refund_update(struct ledger *ledger, const struct decision *d)
{
    enum fault fault = statement_close(ledger, STATEMENT_ORDER_PAY, sqlite3_step(ledger->statements[STATEMENT_ORDER_PAY]));
    if (fault != FAULT_NONE || sqlite3_changes(ledger->db) == 1) return fault;
    struct ledger_order row;
    bool found;
    fault = ledger_order(ledger, d->ended.order_no, &row, &found);
    bool again = found && row.order.state == ORDER_REFUND_DUE && row.order.sale_id == d->sale_id;
    return fault != FAULT_NONE || again ? fault
                                        : damage(ledger, d->seq, "its order is not in the ledger, or in another state");
}

/* A payment was taken: in time, or late. Two states may lead to a refund, one to the others. */
static enum fault file_paid(struct ledger *ledger, const struct decision *d)
{
    bool refund = d->kind == DECISION_REFUND_DUE;
    sqlite3_stmt *s;
    enum fault fault = statement_open(ledger, STATEMENT_ORDER_PAY, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, d->ended.order_no);
    bind_number(s, 2, d->sale_id);
    bind_number(s, 3, d->ended.units);
    bind_number(s, 4, refund ? ORDER_REFUND_DUE : ORDER_PAID);
    bind_slice(s, 5, d->ended.ref);
    bind_number(s, 6, d->at_ms);
    bind_number(s, 7, d->kind == DECISION_PAID ? ORDER_HELD : ORDER_EXPIRED);
    bind_number(s, 8, d->kind == DECISION_PAID ? ORDER_HELD : refund ? ORDER_CANCELLED : ORDER_EXPIRED);
    if (refund) return refund_update(ledger, d);
    fault = order_update(ledger, STATEMENT_ORDER_PAY, d->seq);
    if (fault != FAULT_NONE) return fault;

    struct tally *tally;
    fault = tally_find(ledger, d->sale_id, &tally);
    *(d->kind == DECISION_PAID ? &tally->held : &tally->available) -= d->ended.units;
    tally->sold += d->ended.units;
    return fault;
}

enum fault ledger_file_begin(struct ledger *ledger, struct ledger_point *point)
{
    assert(!ledger->filing);
    ledger_queue_yield();

    sqlite3_stmt *s;
    enum fault fault = statement_open(ledger, STATEMENT_BEGIN, &s);
    if (fault == FAULT_NONE) fault = statement_close(ledger, STATEMENT_BEGIN, sqlite3_step(s));
    if (fault != FAULT_NONE) return fault;

    ledger->filing = true;
    fault = ledger_point(ledger, point);
    if (fault != FAULT_NONE) {
        ledger_file_rollback(ledger);
        return fault;
    }
    ledger->seq = point->seq;
    return FAULT_NONE;
}

enum fault ledger_file(struct ledger *ledger, const struct decision *decision)
{
    assert(ledger->filing);
    /* A gap would be an order that never reaches the ledger, and nobody would ever look for it. */
    if (decision->seq != ledger->seq + 1) return damage(ledger, decision->seq, "it does not follow the one filed before");
    ledger->seq = decision->seq;

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
    case DECISION_CANCELLED:
    case DECISION_EXPIRED:
        return file_returned(ledger, decision);
    case DECISION_PAID:
    case DECISION_RETAKEN:
    case DECISION_REFUND_DUE:
        return file_paid(ledger, decision);
    }
    return damage(ledger, decision->seq, "its kind is unknown");
}

static enum fault point_move(struct ledger *ledger, const struct ledger_point *from, const struct ledger_point *to)
{
    sqlite3_stmt *s;
    enum fault fault = statement_open(ledger, STATEMENT_POINT_MOVE, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, to->seq);
    bind_number(s, 2, to->digest);
    bind_number(s, 3, to->at_ms);
    bind_number(s, 4, to->sale_id_last);
    int rc = sqlite3_bind_blob(s, 5, to->uuid, (int)sizeof(to->uuid), SQLITE_STATIC);
    assert(rc == SQLITE_OK);
    bind_number(s, 6, from->seq);
    bind_number(s, 7, from->digest);
    fault = statement_close(ledger, STATEMENT_POINT_MOVE, sqlite3_step(s));
    if (fault == FAULT_NONE && sqlite3_changes(ledger->db) != 1) {
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
    sqlite3_stmt *s;
    if (fault == FAULT_NONE) fault = statement_open(ledger, STATEMENT_COMMIT, &s);
    if (fault == FAULT_NONE) fault = statement_close(ledger, STATEMENT_COMMIT, sqlite3_step(s));
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
