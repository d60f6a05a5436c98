/* What becomes of an order after its win: paid, cancelled or expired, and what a late payment leads to (P6). */
#include "engine/engine_state.h"
#include "engine/rules.h"

#include <assert.h>

const struct sale *order_sale(const struct engine *engine, uint32_t cell)
{
    const struct sale_slot *slot = slot_at(engine, holding_at(&engine->holdings, cell)->slot);
    assert(slot->sale.id != 0);
    return slot->leaving ? NULL : &slot->sale;
}

uint32_t order_find(const struct engine *engine, uint64_t order_no, const struct sale **sale)
{
    uint32_t cell = holdings_by_no(&engine->holdings, order_no);
    *sale = cell == 0 ? NULL : order_sale(engine, cell);
    return *sale == NULL ? 0 : cell;
}

static bool order_is_held(const struct engine *engine, uint32_t cell)
{
    const struct holding *holding = holding_at(&engine->holdings, cell);
    return holding->units != 0 && holding->state == ORDER_HELD;
}

/* taken: hash of the ref that was, 0 where none was. */
static enum payment_before payment_before(const struct engine *engine, const struct payment *payment, uint64_t taken)
{
    if (taken == 0) return PAYMENT_NONE_BEFORE;
    bool same = taken == holdings_ref_hash(&engine->holdings, payment->order_no, payment->ref);
    return same ? PAYMENT_SAME_BEFORE : PAYMENT_OTHER_BEFORE;
}

static void payment_take(const struct payment *payment, struct decision *out, struct order *order)
{
    out->ended.order_no = order->no;
    out->ended.units = order->units;
    out->ended.ref = payment->ref;
    order->state = out->kind == DECISION_REFUND_DUE ? ORDER_REFUND_DUE : ORDER_PAID;
}

enum verdict engine_decide_payment(const struct engine *engine, const struct payment *payment, struct decision *out,
                                   struct order *order)
{
    if (!payment_is_well_formed(payment)) return VERDICT_BAD_INPUT;
    const struct sale *sale;
    uint32_t cell = order_find(engine, payment->order_no, &sale);
    if (cell == 0) return VERDICT_NO_SUCH_ORDER;

    holdings_order(&engine->holdings, cell, sale, order);
    enum payment_before before = payment_before(engine, payment, holdings_ref(&engine->holdings, cell));
    enum verdict verdict = payment_verdict(payment, order, before);
    if (verdict != VERDICT_DONE) return verdict;

    uint64_t at_ms = decision_time(engine, payment->now_ms);
    uint32_t grabs = holdings_grabs(&engine->holdings, cell);
    *out = decision_new(engine, payment_kind(order, sale, grabs, at_ms), sale->id, at_ms);
    payment_take(payment, out, order);
    return VERDICT_DONE;
}

/* An order that is held keeps its sale in memory: a row that says so was read before its sale was let go of. */
enum verdict engine_decide_past_payment(const struct engine *engine, const struct payment *payment, struct slice ref_taken,
                                        struct decision *out, struct order *order)
{
    assert(payment->order_no == order->no);
    if (!payment_is_well_formed(payment)) return VERDICT_BAD_INPUT;
    if (slot_find(engine, order->sale_id) != NULL || order->state == ORDER_HELD) return VERDICT_NO_SUCH_ORDER;

    uint64_t taken = refunds_find(&engine->refunds, order->no);
    if (taken != 0) order->state = ORDER_REFUND_DUE;
    if (taken == 0 && ref_taken.len > 0) taken = holdings_ref_hash(&engine->holdings, order->no, ref_taken);
    enum verdict verdict = payment_verdict(payment, order, payment_before(engine, payment, taken));
    if (verdict != VERDICT_DONE) return verdict;

    *out = decision_new(engine, DECISION_REFUND_DUE, order->sale_id, payment->now_ms);
    if (!refunds_have_room(&engine->refunds, order->no, out->at_ms)) return VERDICT_BUSY;
    payment_take(payment, out, order);
    return VERDICT_DONE;
}

enum verdict engine_decide_cancel(const struct engine *engine, const struct cancel *cancel, struct decision *out,
                                  struct order *order)
{
    if (!cancel_is_well_formed(cancel)) return VERDICT_BAD_INPUT;
    const struct sale *sale;
    uint32_t cell = order_find(engine, cancel->order_no, &sale);
    if (cell == 0) return VERDICT_NO_SUCH_ORDER;
    holdings_order(&engine->holdings, cell, sale, order);
    enum verdict verdict = cancel_verdict(cancel, order, sale->seller);
    if (verdict != VERDICT_DONE) return verdict;

    *out = decision_new(engine, DECISION_CANCELLED, sale->id, cancel->now_ms);
    out->ended.order_no = order->no;
    out->ended.units = order->units;
    out->ended.reason = cancel->reason;
    out->ended.by = cancel->by;
    order->state = ORDER_CANCELLED;
    return VERDICT_DONE;
}

/* The order is asked, not the hint: nothing expires before its time, and nothing that is not held. */
static bool hint_is_stale(const struct engine *engine, const struct deadline *hint)
{
    return !order_is_held(engine, hint->cell) ||
           !deadline_is_of(&engine->deadlines, hint, holdings_pay_by_ms(&engine->holdings, hint->cell));
}

/* Hints for twice as many orders as there can be, and once there are more than orders each win looks at so many in turn. A
 * round through c hints costs 2c looks at most, those in places of dropped ones included, so c / 8 wins; it leaves the hints
 * of holds, at most one for each of n orders, those of the wins meanwhile, and one for each of these that they moved past
 * the turn: n + c / 4. So rounds come to no more than 4/3 n, and a half n above orders is never passed: they do not fill. */
enum { HINTS_A_WIN = 16, HINTS_SPARE = 64 };

uint32_t hints_max(uint32_t orders_max)
{
    return orders_max * 2 + HINTS_SPARE;
}

static void hints_sweep(struct engine *engine)
{
    if (engine->deadlines.count <= engine->holdings.orders.cells_max) return;
    for (int i = 0; i < HINTS_A_WIN; i++) {
        const struct deadline *hint = deadlines_next(&engine->deadlines);
        if (hint != NULL && hint_is_stale(engine, hint)) deadlines_drop_next(&engine->deadlines);
    }
}

/* A hint of a hold that has ended passes for one of another that got its cell and is due in the same tick. Only where almost
 * all hints were such would they fill: then they are made anew from the orders, cell by cell, under one lock, 18 ms for four
 * million. */
static void deadlines_renew(struct engine *engine)
{
    deadlines_clear(&engine->deadlines);
    for (uint32_t cell = 1; cell <= engine->holdings.orders.fresh; cell++) {
        if (order_is_held(engine, cell))
            deadlines_put(&engine->deadlines, holdings_pay_by_ms(&engine->holdings, cell), cell);
    }
}

void hold_begin(struct engine *engine, uint32_t cell)
{
    hints_sweep(engine);
    if (deadlines_are_full(&engine->deadlines)) {
        deadlines_renew(engine); /* with this one */
    } else {
        deadlines_put(&engine->deadlines, holdings_pay_by_ms(&engine->holdings, cell), cell);
    }
}

bool engine_decide_expiry(struct engine *engine, uint64_t now_ms, uint32_t *hints_left, struct decision *out)
{
    uint64_t at_ms = decision_time(engine, now_ms);
    const struct deadline *first;
    while (*hints_left > 0 && (first = deadlines_first(&engine->deadlines)) != NULL) {
        if (hint_is_stale(engine, first)) {
            --*hints_left;
            deadlines_drop_first(&engine->deadlines);
            continue;
        }
        uint32_t cell = first->cell;
        if (holdings_pay_by_ms(&engine->holdings, cell) > at_ms) return false;
        --*hints_left;

        const struct holding *holding = holding_at(&engine->holdings, cell);
        const struct sale *sale = order_sale(engine, cell);
        assert(sale != NULL); /* one that holds something is not let go of */
        *out = decision_new(engine, DECISION_EXPIRED, sale->id, at_ms);
        out->ended.order_no = holding_no(holding);
        out->ended.units = holding->units;
        return true;
    }
    return false;
}
