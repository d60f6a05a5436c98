/* Takes: what gates have decided that takes from a sale, filed in batches. Most of them are wins that nothing stands
 * against: their rows are written together, and only where a unique key objects are they looked at one by one.
 *
 * What was refused once stays refused until its epoch ends, and with it all that was not filed: whoever asked for it has
 * been told so, while another node may have read it in the sale's log before it was taken back there, and come with it when
 * something is available again. Refusals are rare, so the row of the sale says whether there were any to be looked for. */
#include "base/log.h"
#include "ledger/shared_file.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

const char *take_result_text(enum take_result result)
{
    static const char *const texts[] = {
        [TAKE_FILED] = "it is filed",
        [TAKE_FILED_BEFORE] = "it was filed before",
        [TAKE_STALE] = "its epoch is over",
        [TAKE_REPEATED] = "its key has won before",
        [TAKE_ALREADY_WON] = "its buyer has as many orders as the sale allows",
        [TAKE_SOLD_OUT] = "fewer units are left than it takes",
        [TAKE_REFUSED] = "its token, its order, its number or its sale is not what it should be, or it was refused before",
    };
    return texts[result];
}

/* In the order of their sales, and of their coming within a sale: nodes that lock several sales lock them in one order.
 * Those that come again are last, for each would part those that are written together. */
struct turn {
    uint64_t sale_id;
    struct ledger_take *take;
};
struct batch {
    struct turn turns[LEDGER_TAKES_MAX];
    size_t count;
};

static int turn_compare(const void *a, const void *b)
{
    const struct turn *one = a, *two = b;
    if (one->sale_id != two->sale_id) return one->sale_id < two->sale_id ? -1 : 1;
    if (one->take->again != two->take->again) return one->take->again ? 1 : -1;
    return one->take < two->take ? -1 : one->take > two->take;
}

/* The sums of a take's sale, whose row is locked with it. Those of a sale that is not there must not be written. */
static enum fault sale_find(struct ledger *ledger, uint64_t sale_id, struct tally **out)
{
    enum fault fault = tally_find(ledger, sale_id, out);
    if (!(*out)->there) (*out)->sale_id = 0;
    return fault;
}

static int64_t units_left(const struct tally *tally)
{
    return tally->available_before + tally->available;
}

static struct ledger_key win_key(const struct decision *d)
{
    return (struct ledger_key){ .sale_id = d->sale_id, .buyer = d->won.buyer, .key = d->won.key };
}

static enum fault refusal_find(struct ledger *ledger, const struct ledger_take *take, const struct tally *tally, bool *found)
{
    *found = false;
    struct cursor *s;
    enum fault fault = tally->refused ? statement_open(ledger, STATEMENT_REFUSAL, &s) : FAULT_NONE;
    if (fault != FAULT_NONE || !tally->refused) return fault;
    bind_number(s, 1, take->decision.seq);
    enum step step = cursor_step(s);
    *found = step == STEP_ROW;
    return statement_close(ledger, STATEMENT_REFUSAL, step);
}

static bool take_is_refused(const struct ledger_take *take)
{
    return take->result != TAKE_FILED && take->result != TAKE_FILED_BEFORE && take->result != TAKE_STALE;
}

/* An order that is taken again keeps its number, and what became of it stands in its row. */
static enum fault refusal_keep(struct ledger *ledger, const struct ledger_take *take, struct tally *tally)
{
    struct cursor *s;
    if (!take_is_refused(take) || take->epoch != tally->epoch || take->decision.kind == DECISION_RETAKEN) return FAULT_NONE;
    enum fault fault = refusal_insert(ledger, take->decision.seq, take->decision.sale_id);
    if (fault != FAULT_NONE || tally->refused) return fault;
    tally->refused = true;
    fault = statement_open(ledger, STATEMENT_SALE_REFUSED, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, take->decision.sale_id);
    return statement_close(ledger, STATEMENT_SALE_REFUSED, cursor_step(s));
}

/* *there: whether the ledger has heard of the token at all. */
static enum fault token_is_good(struct ledger *ledger, const struct decision *d, bool *good, bool *there)
{
    *good = *there = true;
    if (d->won.token_nonce == 0) return FAULT_NONE;
    struct ledger_token token;
    enum fault fault = filing_flush_one(ledger, STATEMENT_TOKEN_INSERT);
    if (fault == FAULT_NONE) fault = ledger_token(ledger, d->won.token_nonce, &token, there);
    *good = *there && token.sale_id == d->sale_id && slice_is(d->won.buyer, token.buyer) && token.spent == 0;
    return fault;
}

static bool tokens_are_left(const struct tally *tally)
{
    return tally->tokens_left - tally->tokens_given > 0;
}

/* The gate gives a token before it takes it for a win, but where buyers are told before the ledger is, the two may be filed
 * the other way round, by two threads. A gate of this epoch takes none that it has not given: the token is filed here. */
static enum fault token_bring(struct ledger *ledger, struct ledger_take *take, const struct tally *tally)
{
    const struct decision *d = &take->decision;
    bool good, there;
    enum fault fault = token_is_good(ledger, d, &good, &there);
    if (fault != FAULT_NONE || good) return fault;
    if (there || !tokens_are_left(tally)) {
        take->result = TAKE_REFUSED;
        return FAULT_NONE;
    }
    const struct decision given = { .kind = DECISION_TOKEN_GIVEN,
                                    .seq = d->won.token_nonce,
                                    .sale_id = d->sale_id,
                                    .at_ms = d->at_ms,
                                    .token_given = { .buyer = d->won.buyer } };
    return shared_tell(ledger, &given, file_token(ledger, &given));
}

/* A number made by a node names one order only: what may differ in its row is what became of it. */
static bool order_is_of(const struct order *order, const struct decision *d)
{
    return order->sale_id == d->sale_id && slice_is(d->won.buyer, order->buyer) && slice_is(d->won.key, order->key) &&
           order->units == d->won.units;
}

static enum fault there_read(struct ledger *ledger, uint64_t order_no, struct order *out)
{
    struct ledger_order row;
    bool found;
    enum fault fault = ledger_order(ledger, order_no, &row, &found);
    if (fault == FAULT_NONE && found) *out = row.order;
    return fault;
}

/* Whether another order stands against a win, and which; FILED: none does, and place is for it. */
static enum fault win_judge(struct ledger *ledger, struct ledger_take *take, const struct tally *tally,
                            struct buyer_place *place)
{
    const struct decision *d = &take->decision;
    struct ledger_key key = win_key(d);
    bool found = false;
    enum fault fault = d->won.key.len > 0 ? ledger_order_by_key(ledger, &key, &take->there, &found) : FAULT_NONE;
    take->result = found ? TAKE_REPEATED : TAKE_FILED;
    if (fault != FAULT_NONE || found) return fault;

    fault = buyer_place(ledger, &key, tally->grabs_per_buyer_max, place);
    if (fault != FAULT_NONE) return fault;
    if (place->nth == 0) {
        take->result = TAKE_ALREADY_WON;
        return there_read(ledger, place->order_no, &take->there);
    }
    if (d->won.units > units_left(tally)) take->result = TAKE_SOLD_OUT;
    return FAULT_NONE;
}

static enum fault win_write(struct ledger *ledger, const struct decision *d, uint32_t nth, bool *conflict)
{
    enum fault fault = won_bind(ledger, STATEMENT_ORDER_INSERT_NTH, d);
    if (fault != FAULT_NONE) return fault;
    bind_number(ledger->statements[STATEMENT_ORDER_INSERT_NTH], 11, nth);
    return filing_write(ledger, STATEMENT_ORDER_INSERT_NTH, conflict);
}

static enum fault win_finish(struct ledger *ledger, struct ledger_take *take)
{
    take->result = TAKE_FILED;
    return shared_tell(ledger, &take->decision, won_count(ledger, &take->decision));
}

static enum fault win_take(struct ledger *ledger, struct ledger_take *take, const struct tally *tally)
{
    const struct decision *d = &take->decision;
    struct ledger_order row;
    bool found, refused, conflict;
    enum fault fault = ledger_order(ledger, d->seq, &row, &found);
    if (fault != FAULT_NONE) return fault;
    if (found) {
        take->there = row.order;
        take->result = order_is_of(&row.order, d) ? TAKE_FILED_BEFORE : TAKE_REFUSED;
        return FAULT_NONE;
    }
    take->result = TAKE_STALE;
    if (take->epoch != tally->epoch) return FAULT_NONE;

    struct buyer_place place;
    fault = refusal_find(ledger, take, tally, &refused);
    if (fault == FAULT_NONE) fault = win_judge(ledger, take, tally, &place);
    if (refused && take->result == TAKE_FILED) take->result = TAKE_REFUSED;
    if (fault == FAULT_NONE && take->result == TAKE_FILED) fault = token_bring(ledger, take, tally);
    if (fault != FAULT_NONE || take->result != TAKE_FILED) return fault;
    fault = win_write(ledger, d, place.nth, &conflict);
    if (fault == FAULT_NONE && conflict) {
        /* An order of another sale with its number, which this transaction does not see yet. */
        log_error("ledger", "order %" PRIu64 " is refused: %s", d->seq, ledger_error(ledger));
        take->result = TAKE_REFUSED;
        return FAULT_NONE;
    }
    return fault != FAULT_NONE ? fault : win_finish(ledger, take);
}

static enum fault token_take(struct ledger *ledger, struct ledger_take *take, const struct tally *tally)
{
    const struct decision *d = &take->decision;
    struct ledger_token row;
    bool found;
    enum fault fault = filing_flush_one(ledger, STATEMENT_TOKEN_INSERT);
    if (fault == FAULT_NONE) fault = ledger_token(ledger, d->seq, &row, &found);
    if (fault != FAULT_NONE) return fault;
    if (found) {
        bool same = row.sale_id == d->sale_id && slice_is(d->token_given.buyer, row.buyer);
        take->result = same ? TAKE_FILED_BEFORE : TAKE_REFUSED;
        return FAULT_NONE;
    }
    bool refused;
    fault = refusal_find(ledger, take, tally, &refused);
    if (fault != FAULT_NONE) return fault;
    bool left = tokens_are_left(tally) && !refused;
    take->result = take->epoch != tally->epoch ? TAKE_STALE : left ? TAKE_FILED : TAKE_REFUSED;
    return take->result != TAKE_FILED ? FAULT_NONE : shared_tell(ledger, d, file_token(ledger, d));
}

static enum fault withdrawal_find(struct ledger *ledger, const struct decision *d, bool *found, bool *same)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_WITHDRAWAL, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, d->seq);
    enum step step = cursor_step(s);
    *found = step == STEP_ROW;
    *same = *found && column_number(s, 0) == (int64_t)d->sale_id && column_number(s, 1) == -d->stock_added;
    return statement_close(ledger, STATEMENT_WITHDRAWAL, step);
}

static enum fault withdrawal_file(struct ledger *ledger, const struct decision *d)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_WITHDRAWAL_INSERT, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, d->seq);
    bind_number(s, 2, d->sale_id);
    bind_signed(s, 3, -d->stock_added);
    bind_number(s, 4, d->at_ms);
    fault = statement_close(ledger, STATEMENT_WITHDRAWAL_INSERT, cursor_step(s));
    return fault != FAULT_NONE ? fault : file_stock(ledger, d);
}

static enum fault withdrawal_take(struct ledger *ledger, struct ledger_take *take, const struct tally *tally)
{
    const struct decision *d = &take->decision;
    assert(d->stock_added < 0);
    bool found, same;
    enum fault fault = withdrawal_find(ledger, d, &found, &same);
    if (fault != FAULT_NONE) return fault;
    if (found) {
        take->result = same ? TAKE_FILED_BEFORE : TAKE_REFUSED;
        return FAULT_NONE;
    }
    bool refused;
    fault = refusal_find(ledger, take, tally, &refused);
    if (fault != FAULT_NONE) return fault;
    bool left = -d->stock_added <= units_left(tally) && !refused;
    take->result = take->epoch != tally->epoch ? TAKE_STALE : left ? TAKE_FILED : TAKE_SOLD_OUT;
    return take->result != TAKE_FILED ? FAULT_NONE : shared_tell(ledger, d, withdrawal_file(ledger, d));
}

static enum take_result retaken_before(const struct ledger_order *row, const struct decision *d)
{
    if (row->order.sale_id != d->sale_id || row->order.units != d->ended.units) return TAKE_REFUSED;
    if (row->order.state == ORDER_PAID && slice_is(d->ended.ref, row->payment_ref)) return TAKE_FILED_BEFORE;
    return row->order.state == ORDER_EXPIRED ? TAKE_FILED : TAKE_REFUSED;
}

static enum fault retaken_take(struct ledger *ledger, struct ledger_take *take, const struct tally *tally)
{
    const struct decision *d = &take->decision;
    struct ledger_order row;
    bool found;
    enum fault fault = ledger_order(ledger, d->ended.order_no, &row, &found);
    if (fault != FAULT_NONE) return fault;
    if (found) take->there = row.order;
    take->result = found ? retaken_before(&row, d) : TAKE_REFUSED;
    if (take->result == TAKE_FILED && take->epoch != tally->epoch) take->result = TAKE_STALE;
    if (take->result != TAKE_FILED) return FAULT_NONE;

    struct ledger_key key = { .sale_id = d->sale_id, .buyer = slice_of(row.order.buyer) };
    struct buyer_place place;
    fault = buyer_place(ledger, &key, tally->grabs_per_buyer_max, &place);
    if (fault != FAULT_NONE) return fault;
    if (place.nth == 0) {
        take->result = TAKE_ALREADY_WON;
        return there_read(ledger, place.order_no, &take->there);
    }
    if (d->ended.units > units_left(tally)) {
        take->result = TAKE_SOLD_OUT;
        return FAULT_NONE;
    }
    fault = shared_tell(ledger, d, file_ended(ledger, d));
    return fault != FAULT_NONE ? fault : order_nth(ledger, row.order.no, place.nth);
}

static enum fault take_judge(struct ledger *ledger, struct ledger_take *take, const struct tally *tally)
{
    switch (take->decision.kind) {
    case DECISION_WON:
        return win_take(ledger, take, tally);
    case DECISION_TOKEN_GIVEN:
        return token_take(ledger, take, tally);
    case DECISION_STOCK_ADDED:
        return withdrawal_take(ledger, take, tally);
    case DECISION_RETAKEN:
        return retaken_take(ledger, take, tally);
    default:
        assert(!"a decision that takes nothing");
        return FAULT_DAMAGE;
    }
}

/* One by itself, whatever stands against it. */
static enum fault take_file(struct ledger *ledger, struct ledger_take *take)
{
    struct tally *tally;
    enum fault fault = sale_find(ledger, take->decision.sale_id, &tally);
    take->result = TAKE_REFUSED;
    if (fault != FAULT_NONE || !tally->there) return fault;
    fault = take_judge(ledger, take, tally);
    return fault != FAULT_NONE ? fault : refusal_keep(ledger, take, tally);
}

/* How many turns from this one on are wins of one sale that only a unique key could stand against. */
static enum fault plain_count(struct ledger *ledger, const struct turn *turns, size_t count, size_t *plain)
{
    *plain = 0;
    struct tally *tally;
    enum fault fault = sale_find(ledger, turns[0].sale_id, &tally);
    int64_t units = 0;
    for (; fault == FAULT_NONE && tally->there && !tally->refused && *plain < count; ++*plain) {
        const struct ledger_take *take = turns[*plain].take;
        const struct decision *d = &take->decision;
        bool plain_win = d->kind == DECISION_WON && !take->again;
        if (d->sale_id != turns[0].sale_id || !plain_win || take->epoch != tally->epoch) break;
        units += d->won.units;
        if (units > units_left(tally)) break;
    }
    return fault;
}

/* Every buyer's first: most are. */
static enum fault plain_write(struct ledger *ledger, const struct turn *turns, size_t count, bool *conflict)
{
    if (count == 1) return win_write(ledger, &turns[0].take->decision, 1, conflict);
    enum step step = STEP_DONE;
    for (size_t i = 0; i < count && step == STEP_DONE; i++) {
        enum fault fault = won_bind(ledger, STATEMENT_ORDER_INSERT_NTH, &turns[i].take->decision);
        if (fault != FAULT_NONE) return fault;
        bind_number(ledger->statements[STATEMENT_ORDER_INSERT_NTH], 11, 1);
        step = ledger->driver->queue(ledger->statements[STATEMENT_ORDER_INSERT_NTH]);
    }
    if (step == STEP_DONE) step = ledger->driver->flush(ledger->statements[STATEMENT_ORDER_INSERT_NTH]);
    *conflict = step == STEP_CONFLICT;
    return step == STEP_FAILED ? ledger->driver->fault(ledger, "filing wins") : FAULT_NONE;
}

/* Two wins may bring one token: only the first may spend it. */
static enum fault tokens_are_good(struct ledger *ledger, const struct turn *turns, size_t count, bool *good)
{
    enum fault fault = FAULT_NONE;
    *good = true;
    for (size_t i = 0; i < count && *good && fault == FAULT_NONE; i++) {
        const struct decision *d = &turns[i].take->decision;
        bool there;
        fault = token_is_good(ledger, d, good, &there);
        for (size_t j = 0; d->won.token_nonce != 0 && j < i; j++)
            *good = *good && turns[j].take->decision.won.token_nonce != d->won.token_nonce;
    }
    return fault;
}

/* Those that a unique key stands against are found by writing fewer and fewer together. */
static enum fault part_file(struct ledger *ledger, const struct turn *turns, size_t count)
{
    bool conflict;
    enum fault fault = plain_write(ledger, turns, count, &conflict);
    if (fault != FAULT_NONE) return fault;
    if (conflict && count == 1) return take_file(ledger, turns[0].take);
    size_t part = conflict ? ledger->driver->fit(count - 1) : 0;
    for (size_t i = 0; conflict && i < count && fault == FAULT_NONE; i += part)
        fault = part_file(ledger, &turns[i], part); /* each size is a multiple of the next */
    for (size_t i = 0; !conflict && i < count && fault == FAULT_NONE; i++) fault = win_finish(ledger, turns[i].take);
    return fault;
}

/* The next turns, at least one; *done is how many. */
static enum fault turns_file(struct ledger *ledger, const struct turn *turns, size_t count, size_t *done)
{
    size_t plain, look = ledger->driver->fit == NULL ? 1 : ledger->driver->fit(count);
    enum fault fault = plain_count(ledger, turns, look, &plain);
    if (fault != FAULT_NONE) return fault;
    *done = plain < 2 || ledger->driver->fit == NULL ? 1 : ledger->driver->fit(plain);
    bool good = plain > 0;
    if (good) fault = tokens_are_good(ledger, turns, *done, &good);
    if (fault == FAULT_NONE && good) return part_file(ledger, turns, *done);
    for (size_t i = 0; i < *done && fault == FAULT_NONE; i++) fault = take_file(ledger, turns[i].take);
    return fault;
}

static enum fault takes_work(struct ledger *ledger, void *arg, bool *wrote)
{
    const struct batch *batch = arg;
    enum fault fault = FAULT_NONE;
    for (size_t i = 0; i < batch->count && fault == FAULT_NONE; i++) {
        struct tally *tally;
        fault = sale_find(ledger, batch->turns[i].sale_id, &tally);
    }
    for (size_t i = 0, done; i < batch->count && fault == FAULT_NONE; i += done)
        fault = turns_file(ledger, &batch->turns[i], batch->count - i, &done);
    const struct ledger_take *before = NULL; /* what is found there is told of as if it were filed now */
    bool filed = false;
    for (size_t i = 0; i < batch->count; i++) {
        const struct ledger_take *take = batch->turns[i].take;
        filed = filed || take->result == TAKE_FILED;
        if (take->result == TAKE_FILED_BEFORE) before = take;
        *wrote = *wrote || take->result != TAKE_STALE;
    }
    if (fault != FAULT_NONE || filed || before == NULL) return fault;
    return shared_vouch(ledger, before->decision.seq, before->decision.sale_id);
}

enum fault ledger_takes(struct ledger *ledger, struct ledger_take *takes, size_t count)
{
    assert(count > 0 && count <= LEDGER_TAKES_MAX);
    struct batch batch = { .count = count };
    for (size_t i = 0; i < count; i++) batch.turns[i] = (struct turn){ takes[i].decision.sale_id, &takes[i] };
    qsort(batch.turns, count, sizeof(batch.turns[0]), turn_compare);
    return shared_run(ledger, takes_work, &batch);
}

enum fault ledger_takes_now(struct ledger *ledger, struct ledger_take *takes, size_t count)
{
    ledger->hurried = true;
    enum fault fault = ledger_takes(ledger, takes, count);
    ledger->hurried = false;
    return fault;
}
