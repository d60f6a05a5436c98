/* Sellers' changes, decided on the row of their sale while it is locked. Who changes a sale, or makes one, also holds the
 * counter of versions to the end: so versions are seen in their order, names are given to one sale only, and so are ids. */
#include "ledger/shared_file.h"

#include "base/clock.h"
#include "engine/rules.h"
#include "ledger/agreed.h"

#include <assert.h>
#include <string.h>

struct changing {
    const struct ledger_change *change;
    enum verdict verdict;
    struct sale *sale;
    struct ledger_errand *errand;
};

/* One number of one row. */
static enum fault number_read(struct ledger *ledger, enum statement id, uint64_t *out)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, id, &s);
    if (fault != FAULT_NONE) return fault;
    enum step step = cursor_step(s);
    *out = step == STEP_ROW ? (uint64_t)column_number(s, 0) : 0;
    return statement_close(ledger, id, step);
}

/* The next version. The counter is ours from here to the end of the transaction; it comes after the row of the sale. */
static enum fault version_next(struct ledger *ledger, uint64_t *version)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_SHELF_MOVE, &s);
    if (fault == FAULT_NONE) fault = statement_close(ledger, STATEMENT_SHELF_MOVE, cursor_step(s));
    return fault != FAULT_NONE ? fault : number_read(ledger, STATEMENT_SHELF_VERSION, version);
}

static enum fault version_write(struct ledger *ledger, enum statement id, uint64_t sale_id, uint64_t version)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, id, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, sale_id);
    bind_number(s, 2, version);
    return filing_update(ledger, id, 0);
}

/* Whether there is room for one more sale that is not over. */
static enum fault room_judge(struct ledger *ledger, const struct ledger_change *change, enum verdict *verdict)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_SALES_LIVE_COUNT, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, change->asker.now_ms);
    bind_slice(s, 2, change->asker.name);
    enum step step = cursor_step(s);
    int64_t all = step == STEP_ROW ? column_number(s, 0) : 0, own = step == STEP_ROW ? column_number(s, 1) : 0;
    uint32_t max = change->sales_per_seller_max;
    *verdict = all >= (int64_t)SALES_OPEN_MAX ? VERDICT_BUSY
               : max != 0 && own >= max       ? VERDICT_TOO_MANY_SALES
                                              : VERDICT_DONE;
    return statement_close(ledger, STATEMENT_SALES_LIVE_COUNT, step);
}

static enum fault create_write(struct ledger *ledger, struct changing *changing, uint64_t version)
{
    const struct ledger_change *change = changing->change;
    struct decision d = { .kind = DECISION_SALE_CREATED, .at_ms = change->asker.now_ms };
    d.created.seller = change->asker.name;
    d.created.terms = change->terms;
    d.created.stock = (uint32_t)change->add;
    enum fault fault = number_read(ledger, STATEMENT_SALE_ID_LAST, &d.sale_id);
    d.sale_id++;
    if (fault == FAULT_NONE) fault = shared_tell(ledger, &d, file_created(ledger, &d));
    if (fault == FAULT_NONE) fault = version_write(ledger, STATEMENT_SALE_VERSION, d.sale_id, version);
    bool found;
    return fault != FAULT_NONE ? fault : ledger_sale(ledger, d.sale_id, changing->sale, &found);
}

static enum fault create_work(struct ledger *ledger, void *arg, bool *wrote)
{
    struct changing *changing = arg;
    const struct ledger_change *change = changing->change;
    uint64_t version, namesake = 0;
    enum fault fault = version_next(ledger, &version);
    if (fault == FAULT_NONE) fault = ledger_sale_named(ledger, change->asker.name, slice_of(change->terms->name), &namesake);
    changing->verdict = VERDICT_NAME_TAKEN;
    if (fault == FAULT_NONE && namesake == 0) fault = room_judge(ledger, change, &changing->verdict);
    *wrote = fault == FAULT_NONE && changing->verdict == VERDICT_DONE;
    return *wrote ? create_write(ledger, changing, version) : fault;
}

/* The verdict on a sale that the asker may know, and its decision, at the time when its row is ours: before that it may
 * have opened. Terms of a change stand in *sale, whatever it is. */
static enum verdict change_judge(const struct ledger_change *change, struct sale *sale, struct decision *d)
{
    uint64_t waited_ms = change->asked_mono_ms == 0 ? 0 : mono_ms() - change->asked_mono_ms;
    uint64_t now_ms = change->asker.now_ms + waited_ms;
    struct sale was = *sale;
    *d = (struct decision){ .kind = change->kind, .sale_id = sale->id, .at_ms = now_ms };
    switch (change->kind) {
    case DECISION_SALE_CHANGED:
        sale_terms_merge(&sale->terms, change->terms, change->mask);
        d->changed = &sale->terms;
        return sale_change_verdict(&was, &sale->terms, now_ms);
    case DECISION_STOCK_ADDED:
        assert(change->add >= 0);
        d->stock_added = change->add;
        return sale_stock_verdict(sale, change->add, now_ms);
    default:
        return sale_switch_verdict(sale, change->kind, now_ms);
    }
}

static void sale_apply(struct sale *sale, const struct decision *d)
{
    if (d->kind == DECISION_STOCK_ADDED) {
        sale->counts.offered += (uint32_t)d->stock_added;
        sale->counts.available += (uint32_t)d->stock_added;
    }
    if (d->kind == DECISION_SALE_PAUSED || d->kind == DECISION_SALE_RESUMED) sale->paused = d->kind == DECISION_SALE_PAUSED;
    if (d->kind == DECISION_SALE_CLOSED) sale->closed = true;
}

static enum fault change_write(struct ledger *ledger, struct changing *changing, const struct decision *d, uint64_t epoch)
{
    enum fault fault = d->kind == DECISION_SALE_CHANGED  ? file_changed(ledger, d)
                       : d->kind == DECISION_STOCK_ADDED ? file_stock(ledger, d)
                                                         : file_switched(ledger, d);
    fault = shared_tell(ledger, d, fault);
    if (fault != FAULT_NONE) return fault;
    sale_apply(changing->sale, d);
    bool stock = d->kind == DECISION_STOCK_ADDED;
    *changing->errand = (struct ledger_errand){ .kind = stock ? ERRAND_STOCK : ERRAND_SALE,
                                                .sale_id = d->sale_id,
                                                .epoch = epoch,
                                                .units = stock ? (uint32_t)d->stock_added : 0,
                                                .made_ms = d->at_ms };
    return errand_leave(ledger, changing->errand);
}

static enum fault change_work(struct ledger *ledger, void *arg, bool *wrote)
{
    struct changing *changing = arg;
    const struct ledger_change *change = changing->change;
    struct tally *tally;
    uint64_t namesake = 0;
    bool found = false;
    *changing->errand = (struct ledger_errand){ .id = 0 };
    changing->verdict = VERDICT_NO_SUCH_SALE;
    enum fault fault = tally_find(ledger, change->sale_id, &tally);
    uint64_t epoch = tally->epoch, version;
    if (fault == FAULT_NONE) fault = ledger_sale(ledger, change->sale_id, changing->sale, &found);
    if (fault != FAULT_NONE || !found || !asker_may_know(&change->asker, changing->sale)) return fault;

    char name[SALE_NAME_BYTES_MAX + 1];
    memcpy(name, changing->sale->terms.name, sizeof(name));
    struct decision d;
    changing->verdict = change_judge(change, changing->sale, &d);
    if (changing->verdict != VERDICT_DONE) return FAULT_NONE;
    fault = version_next(ledger, &version);
    if (fault == FAULT_NONE && strcmp(name, changing->sale->terms.name) != 0)
        fault = ledger_sale_named(ledger, slice_of(changing->sale->seller), slice_of(changing->sale->terms.name), &namesake);
    if (fault != FAULT_NONE) return fault;
    if (namesake != 0) {
        changing->verdict = VERDICT_NAME_TAKEN;
        return FAULT_NONE;
    }
    *wrote = true;
    fault = change_write(ledger, changing, &d, epoch);
    return fault != FAULT_NONE ? fault : version_write(ledger, STATEMENT_SALE_VERSION, d.sale_id, version);
}

enum fault ledger_change(struct ledger *ledger, const struct ledger_change *change, enum verdict *verdict, struct sale *sale,
                         struct ledger_errand *errand)
{
    *errand = (struct ledger_errand){ .id = 0 };
    struct changing changing = { change, VERDICT_BAD_INPUT, sale, errand };
    bool create = change->kind == DECISION_SALE_CREATED;
    enum fault fault = FAULT_NONE;
    if (create && sale_create_verdict(change->asker.name, change->terms, change->add) != VERDICT_DONE) {
        sale->terms = *change->terms;
    } else {
        fault = shared_run(ledger, create ? create_work : change_work, &changing);
    }
    *verdict = changing.verdict;
    return fault;
}

struct raising {
    const struct ledger_fence *fence;
    uint64_t sale_id, epoch;
};

static enum fault sale_run(struct ledger *ledger, enum statement id, uint64_t sale_id)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, id, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, sale_id);
    return statement_close(ledger, id, cursor_step(s));
}

/* Where one engine has decided until now, its orders have no nth yet. */
static enum fault raise_work(struct ledger *ledger, void *arg, bool *wrote)
{
    struct raising *raising = arg;
    struct tally *tally;
    uint64_t version;
    raising->epoch = 0;
    enum fault fault = fence_check(ledger, raising->fence);
    if (fault == FAULT_NONE) fault = tally_find(ledger, raising->sale_id, &tally);
    if (fault != FAULT_NONE || !tally->there) return fault;
    *wrote = true;
    raising->epoch = tally->epoch + 1;
    if (tally->epoch == 0) fault = sale_run(ledger, STATEMENT_ORDERS_NUMBER, raising->sale_id);
    if (fault == FAULT_NONE && tally->refused) fault = sale_run(ledger, STATEMENT_REFUSALS_DELETE, raising->sale_id);
    if (fault == FAULT_NONE) fault = version_next(ledger, &version);
    return fault != FAULT_NONE ? fault : version_write(ledger, STATEMENT_SALE_EPOCH, raising->sale_id, version);
}

enum fault ledger_epoch_raise(struct ledger *ledger, const struct ledger_fence *fence, uint64_t sale_id, uint64_t *epoch)
{
    struct raising raising = { fence, sale_id, 0 };
    enum fault fault = shared_run(ledger, raise_work, &raising);
    *epoch = fault == FAULT_NONE ? raising.epoch : 0;
    return fault;
}

enum fault ledger_sale_id_last(struct ledger *ledger, uint64_t *id)
{
    return number_read(ledger, STATEMENT_SALE_ID_LAST, id);
}
