/* Rows read back as values. A value that cannot be was not written by us: the row is damaged, and nobody sells by it. */
#include "base/log.h"
#include "ledger/database.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void row_object(struct cursor *cursor, const char *what, int64_t number)
{
    struct ledger *ledger = cursor->ledger;
    snprintf(ledger->objection, sizeof(ledger->objection), "%s %" PRId64 " has a value that cannot be", what, number);
    log_error("ledger", "%s: %s", ledger->path, ledger->objection);
}

const char *ledger_objection(const struct ledger *ledger)
{
    return ledger->objection;
}

bool row_string(struct cursor *cursor, int column, char *out, size_t size)
{
    struct slice text = column_text(cursor, column);
    if (text.data == NULL || text.len >= size || memchr(text.data, 0, text.len) != NULL) return false;
    memcpy(out, text.data, text.len);
    out[text.len] = '\0';
    return true;
}

bool row_u64(struct cursor *cursor, int column, uint64_t max, uint64_t *out)
{
    int64_t value = column_number(cursor, column);
    if (value < 0 || (uint64_t)value > max) return false;
    *out = (uint64_t)value;
    return true;
}

bool row_u32(struct cursor *cursor, int column, uint32_t max, uint32_t *out)
{
    uint64_t value;
    if (!row_u64(cursor, column, max, &value)) return false;
    *out = (uint32_t)value;
    return true;
}

static bool row_amount(struct cursor *cursor, int column, int64_t max, int64_t *out)
{
    *out = column_number(cursor, column);
    return *out >= -1 && *out <= max;
}

static bool row_terms(struct cursor *s, struct sale_terms *terms)
{
    uint32_t admission, late_payment;
    if (!row_u32(s, 11, ADMISSION_LAST, &admission) || !row_u32(s, 18, LATE_PAYMENT_LAST, &late_payment) ||
        !row_u64(s, 19, INT64_MAX, &terms->event_id))
        return false;
    terms->admission = (enum admission)admission;
    terms->late_payment = (enum late_payment)late_payment;
    bool guard_good = row_u32(s, 12, TOKENS_MAX, &terms->tokens_max) && row_u32(s, 13, ADMIT_MAX, &terms->admit_max) &&
                      row_u32(s, 14, LINE_RATE_MAX, &terms->line_rate_per_s) &&
                      row_u32(s, 15, LINE_SIZE_MAX, &terms->line_size) &&
                      row_u32(s, 16, LINE_TIMEOUT_MS_MAX, &terms->line_timeout_ms) &&
                      row_string(s, 17, terms->line_name, sizeof(terms->line_name));
    return guard_good && row_string(s, 2, terms->name, sizeof(terms->name)) &&
           row_string(s, 3, terms->description, sizeof(terms->description)) &&
           row_string(s, 4, terms->currency, sizeof(terms->currency)) && row_amount(s, 5, PRICE_MAX, &terms->price) &&
           row_u32(s, 6, UNITS_PER_GRAB_MAX, &terms->units_per_grab_max) &&
           row_u32(s, 7, GRABS_PER_BUYER_MAX, &terms->grabs_per_buyer_max) && row_u64(s, 8, TIME_MS_MAX, &terms->opens_ms) &&
           row_u64(s, 9, TIME_MS_MAX, &terms->closes_ms) && row_u32(s, 10, PAY_WITHIN_S_MAX, &terms->pay_within_s);
}

static bool row_counts(struct cursor *s, struct sale_counts *counts)
{
    return row_u32(s, 20, STOCK_MAX, &counts->offered) && row_u32(s, 21, STOCK_MAX, &counts->available) &&
           row_u32(s, 22, STOCK_MAX, &counts->held) && row_u32(s, 23, STOCK_MAX, &counts->sold) &&
           (uint64_t)counts->available + counts->held + counts->sold == counts->offered;
}

bool row_sale(struct cursor *s, struct sale *out)
{
    uint32_t paused, closed;
    bool good = row_u64(s, 0, INT64_MAX, &out->id) && row_string(s, 1, out->seller, sizeof(out->seller)) &&
                row_terms(s, &out->terms) && row_counts(s, &out->counts) && row_u64(s, 24, INT64_MAX, &out->orders_made) &&
                row_u64(s, 25, INT64_MAX, &out->tokens_given) && row_u32(s, 26, 1, &paused) && row_u32(s, 27, 1, &closed);
    if (!good) {
        row_object(s, "sale", column_number(s, 0));
        return false;
    }
    out->paused = paused != 0;
    out->closed = closed != 0;
    return true;
}

static bool row_end(struct cursor *s, struct ledger_order *out)
{
    uint32_t canceller;
    if (!row_string(s, 10, out->payment_ref, sizeof(out->payment_ref)) || !row_u64(s, 11, TIME_MS_MAX, &out->ended_ms) ||
        !row_u32(s, 12, CANCELLER_ADMIN, &canceller) || !row_string(s, 13, out->reason, sizeof(out->reason)))
        return false;
    out->canceller = (enum canceller)canceller;
    return true;
}

bool row_order(struct cursor *s, struct ledger_order *row)
{
    struct order *out = &row->order;
    uint32_t state;
    bool good = row_u64(s, 0, INT64_MAX, &out->no) && row_u64(s, 1, INT64_MAX, &out->sale_id) &&
                row_string(s, 2, out->buyer, sizeof(out->buyer)) && row_u32(s, 3, UNITS_PER_GRAB_MAX, &out->units) &&
                row_amount(s, 4, AMOUNT_MAX, &out->amount) && row_u32(s, 5, ORDER_STATE_LAST, &state) &&
                row_u64(s, 6, TIME_MS_MAX, &out->won_ms) && row_u64(s, 7, INT64_MAX, &out->pay_by_ms) &&
                row_string(s, 8, out->key, sizeof(out->key)) && row_u64(s, 9, INT64_MAX, &out->token_nonce) &&
                row_end(s, row);
    if (!good) {
        row_object(s, "order", column_number(s, 0));
        return false;
    }
    out->state = (enum order_state)state;
    return true;
}

bool row_token(struct cursor *s, struct ledger_token *out)
{
    bool good = row_u64(s, 0, INT64_MAX, &out->nonce) && row_u64(s, 1, INT64_MAX, &out->sale_id) &&
                row_string(s, 2, out->buyer, sizeof(out->buyer)) && row_u64(s, 3, TIME_MS_MAX, &out->given_ms) &&
                row_u64(s, 4, INT64_MAX, &out->spent);
    if (!good) row_object(s, "token", column_number(s, 0));
    return good;
}
