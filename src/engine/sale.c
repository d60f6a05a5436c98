#include "engine/sale.h"

#include <assert.h>

bool sale_is_closed(const struct sale *sale, uint64_t now_ms)
{
    return sale->closed || (sale->terms.closes_ms != 0 && now_ms >= sale->terms.closes_ms);
}

/* In the order in which a grab would be refused, so that a page and an answer never disagree. */
enum sale_state sale_state_at(const struct sale *sale, uint64_t now_ms)
{
    if (sale_is_closed(sale, now_ms)) return SALE_CLOSED;
    if (now_ms < sale->terms.opens_ms) return SALE_UPCOMING;
    if (sale->paused) return SALE_PAUSED;
    if (sale->counts.available == 0) return SALE_SOLD_OUT;
    return SALE_RUNNING;
}

const char *sale_state_word(enum sale_state state)
{
    static const char *const words[] = {
        [SALE_UPCOMING] = "upcoming", [SALE_RUNNING] = "open",  [SALE_PAUSED] = "paused",
        [SALE_SOLD_OUT] = "sold_out", [SALE_CLOSED] = "closed",
    };
    assert(state <= SALE_CLOSED);
    return words[state];
}

const char *admission_word(enum admission admission)
{
    static const char *const words[] = {
        [ADMISSION_OPEN] = "open",
        [ADMISSION_LOGIN] = "login",
        [ADMISSION_TOKEN] = "token",
        [ADMISSION_LINE] = "line",
    };
    assert(admission <= ADMISSION_LAST);
    return words[admission];
}

const char *late_payment_word(enum late_payment late_payment)
{
    static const char *const words[] = { [LATE_PAYMENT_RETAKE] = "retake", [LATE_PAYMENT_REFUND] = "refund" };
    assert(late_payment <= LATE_PAYMENT_LAST);
    return words[late_payment];
}

const char *order_state_word(enum order_state state)
{
    static const char *const words[] = {
        [ORDER_HELD] = "held",
        [ORDER_PAID] = "paid",
        [ORDER_CANCELLED] = "cancelled",
        [ORDER_EXPIRED] = "expired",
        [ORDER_REFUND_DUE] = "refund_due",
    };
    assert(state <= ORDER_STATE_LAST);
    return words[state];
}

bool order_state_counts(enum order_state state)
{
    return state == ORDER_HELD || state == ORDER_PAID;
}

int64_t sale_amount(const struct sale_terms *terms, uint32_t units)
{
    return terms->price < 0 ? -1 : terms->price * (int64_t)units;
}

uint64_t sale_pay_by_ms(const struct sale_terms *terms, uint64_t won_ms)
{
    return terms->pay_within_s == 0 ? 0 : won_ms + terms->pay_within_s * UINT64_C(1000);
}

bool sale_counts_add_up(const struct sale_counts *counts)
{
    return counts->offered <= STOCK_MAX && (uint64_t)counts->available + counts->held + counts->sold == counts->offered;
}
