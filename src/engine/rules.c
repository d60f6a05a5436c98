#include "engine/rules.h"

#include "engine/engine_state.h"

#include <assert.h>
#include <string.h>

bool asker_may_know(const struct asker *asker, const struct sale *sale)
{
    return asker->admin || slice_is(asker->name, sale->seller);
}

/* Terms that buyers have relied on since the sale opened. Among them is all that an order in memory leaves to its sale. */
static bool terms_keep_word(const struct sale_terms *was, const struct sale_terms *is)
{
    bool closes_no_earlier = is->closes_ms == 0 || (was->closes_ms != 0 && is->closes_ms >= was->closes_ms);
    bool gives_no_fewer = is->tokens_max == 0 || (was->tokens_max != 0 && is->tokens_max >= was->tokens_max);
    return closes_no_earlier && gives_no_fewer && was->price == is->price && strcmp(was->currency, is->currency) == 0 &&
           was->units_per_grab_max == is->units_per_grab_max && was->grabs_per_buyer_max == is->grabs_per_buyer_max &&
           was->opens_ms == is->opens_ms && was->admission == is->admission && was->admit_max == is->admit_max &&
           was->late_payment == is->late_payment && was->event_id == is->event_id;
}

enum verdict sale_create_verdict(struct slice seller, const struct sale_terms *terms, int64_t stock)
{
    if (!text_may_be_kept(seller, USERNAME_BYTES_MAX)) return VERDICT_BAD_INPUT;
    bool good = sale_terms_objection(terms) == NULL && stock >= 0 && stock <= (int64_t)STOCK_MAX;
    return good ? VERDICT_DONE : VERDICT_BAD_INPUT;
}

enum verdict sale_change_verdict(const struct sale *sale, const struct sale_terms *terms, uint64_t now_ms)
{
    if (sale_terms_objection(terms) != NULL) return VERDICT_BAD_INPUT;
    if (sale_is_closed(sale, now_ms)) return VERDICT_CLOSED;
    /* An order is proof that it has opened, whatever time it is here. */
    bool upcoming = now_ms < sale->terms.opens_ms && sale->orders_made == 0;
    return upcoming || terms_keep_word(&sale->terms, terms) ? VERDICT_DONE : VERDICT_SALE_OPEN;
}

enum verdict sale_stock_verdict(const struct sale *sale, int64_t add, uint64_t now_ms)
{
    if (sale_is_closed(sale, now_ms)) return VERDICT_CLOSED;
    if (add < -(int64_t)sale->counts.available) return VERDICT_NOT_AVAILABLE;
    if (add > (int64_t)STOCK_MAX - (int64_t)sale->counts.offered) return VERDICT_NOT_AVAILABLE;
    return VERDICT_DONE;
}

enum verdict sale_switch_verdict(const struct sale *sale, enum decision_kind kind, uint64_t now_ms)
{
    assert(kind == DECISION_SALE_PAUSED || kind == DECISION_SALE_RESUMED || kind == DECISION_SALE_CLOSED);
    if (sale_is_closed(sale, now_ms)) return VERDICT_CLOSED;
    if (kind == DECISION_SALE_PAUSED && sale->paused) return VERDICT_PAUSED;
    if (kind == DECISION_SALE_RESUMED && !sale->paused) return VERDICT_NOT_PAUSED;
    return VERDICT_DONE;
}

bool payment_is_well_formed(const struct payment *payment)
{
    return text_may_be_kept(payment->ref, PAYMENT_REF_BYTES_MAX);
}

enum verdict payment_verdict(const struct payment *payment, const struct order *order, enum payment_before before)
{
    bool fits = payment->amount == order->amount || (order->amount == -1 && payment->amount == 0);
    if (!fits) return VERDICT_AMOUNT_MISMATCH;
    if (before == PAYMENT_SAME_BEFORE) return VERDICT_REPEATED;
    return before == PAYMENT_OTHER_BEFORE || order->state == ORDER_PAID ? VERDICT_ALREADY_PAID : VERDICT_DONE;
}

enum decision_kind payment_kind(const struct order *order, const struct sale *sale, uint32_t grabs, uint64_t now_ms)
{
    if (order->state == ORDER_HELD) return DECISION_PAID;
    bool retake = order->state == ORDER_EXPIRED && sale->terms.late_payment == LATE_PAYMENT_RETAKE &&
                  !sale_is_closed(sale, now_ms) && order->units <= sale->counts.available &&
                  grabs < sale->terms.grabs_per_buyer_max;
    return retake ? DECISION_RETAKEN : DECISION_REFUND_DUE;
}

bool cancel_is_well_formed(const struct cancel *cancel)
{
    if (cancel->by == CANCELLER_BUYER && cancel->reason.len == 0) return true;
    bool known = cancel->by == CANCELLER_BUYER || cancel->by == CANCELLER_SELLER || cancel->by == CANCELLER_ADMIN;
    return known && text_may_be_kept(cancel->reason, CANCEL_REASON_BYTES_MAX);
}

enum verdict cancel_verdict(const struct cancel *cancel, const struct order *order, const char *seller)
{
    bool theirs = cancel->by == CANCELLER_ADMIN ||
                  slice_is(cancel->name, cancel->by == CANCELLER_BUYER ? order->buyer : seller);
    if (!theirs) return VERDICT_NO_SUCH_ORDER;
    return order->state == ORDER_HELD ? VERDICT_DONE : VERDICT_NOT_HELD;
}
