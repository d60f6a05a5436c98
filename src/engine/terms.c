#include "engine/sale.h"

#include <stddef.h>
#include <string.h>

/* Terms also come from a disk: no byte of them is believed before it was looked at, not even the NUL at the end. */
static bool text_fits(const char *text, size_t bytes_max)
{
    return strnlen(text, bytes_max + 1) <= bytes_max;
}

/* A name of a line is part of the names of its options, so it has their letters. */
static bool line_name_is_good(const char *name)
{
    if (!text_fits(name, LINE_NAME_BYTES_MAX)) return false;
    return name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")] == '\0';
}

static const char *line_objection(const struct sale_terms *terms)
{
    bool named = terms->line_name[0] != '\0';
    bool some = terms->line_rate_per_s != 0 || terms->line_size != 0 || terms->line_timeout_ms != 0;
    bool all = terms->line_rate_per_s != 0 && terms->line_size != 0 && terms->line_timeout_ms != 0;
    if (!line_name_is_good(terms->line_name)) return "line must be a name of 1 to 32 letters, digits, dashes or underscores";
    if (named && some) return "line must be a name or numbers, not both";
    if (some && !all) return "line must have rate_per_s, size and timeout_ms";
    if (terms->line_rate_per_s > LINE_RATE_MAX) return "line.rate_per_s must be 1 to 1000000";
    if (terms->line_size > LINE_SIZE_MAX) return "line.size must be 1 to 1000000";
    if (terms->line_timeout_ms > LINE_TIMEOUT_MS_MAX) return "line.timeout_ms must be 1 to 3600000";
    if (terms->admission == ADMISSION_LINE && !named && !some) return "admission line needs a line";
    return NULL;
}

const char *sale_terms_objection(const struct sale_terms *terms)
{
    if (terms->name[0] == '\0' || !text_fits(terms->name, SALE_NAME_BYTES_MAX)) return "name must have 1 to 128 bytes";
    if (!text_fits(terms->description, SALE_DESCRIPTION_BYTES_MAX)) return "description must have at most 2000 bytes";
    if (!text_fits(terms->currency, CURRENCY_BYTES)) return "currency must have three letters";
    if (terms->price < -1 || terms->price > PRICE_MAX) return "price must be 0 to 1000000000000";
    if (terms->units_per_grab_max == 0 || terms->units_per_grab_max > UNITS_PER_GRAB_MAX)
        return "units_per_grab_max must be 1 to 1000000000";
    if (terms->grabs_per_buyer_max == 0 || terms->grabs_per_buyer_max > GRABS_PER_BUYER_MAX)
        return "grabs_per_buyer_max must be 1 to 1000000";
    if (terms->opens_ms > TIME_MS_MAX) return "opens_at must be before the year 10000";
    if (terms->closes_ms > TIME_MS_MAX) return "closes_at must be before the year 10000";
    if (terms->pay_within_s > PAY_WITHIN_S_MAX) return "pay_within_s must be at most 31536000";
    if (terms->admission > ADMISSION_LAST) return "admission must be open, login, token or line";
    if (terms->late_payment > LATE_PAYMENT_LAST) return "late_payment must be retake or refund";
    if (terms->tokens_max > TOKENS_MAX) return "tokens_max must be 1 to 1000000000";
    if (terms->admit_max > ADMIT_MAX) return "admit_max must be 1 to 1000000000";
    if (terms->closes_ms != 0 && terms->closes_ms <= terms->opens_ms) return "closes_at must be later than opens_at";
    if (terms->price > 0 && terms->price > AMOUNT_MAX / (int64_t)terms->units_per_grab_max)
        return "price times units_per_grab_max must be at most 9007199254740991";
    return line_objection(terms);
}

bool sale_terms_equal(const struct sale_terms *a, const struct sale_terms *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->description, b->description) == 0 &&
           strcmp(a->currency, b->currency) == 0 && a->price == b->price && a->units_per_grab_max == b->units_per_grab_max &&
           a->grabs_per_buyer_max == b->grabs_per_buyer_max && a->opens_ms == b->opens_ms && a->closes_ms == b->closes_ms &&
           a->pay_within_s == b->pay_within_s && a->admission == b->admission && a->tokens_max == b->tokens_max &&
           a->admit_max == b->admit_max && a->line_rate_per_s == b->line_rate_per_s && a->line_size == b->line_size &&
           a->line_timeout_ms == b->line_timeout_ms && strcmp(a->line_name, b->line_name) == 0 &&
           a->late_payment == b->late_payment && a->event_id == b->event_id;
}

void sale_terms_merge(struct sale_terms *into, const struct sale_terms *from, uint32_t mask)
{
    if (mask & TERM_NAME) memcpy(into->name, from->name, sizeof into->name);
    if (mask & TERM_DESCRIPTION) memcpy(into->description, from->description, sizeof into->description);
    if (mask & TERM_PRICE) into->price = from->price;
    if (mask & TERM_CURRENCY) memcpy(into->currency, from->currency, sizeof into->currency);
    if (mask & TERM_UNITS) into->units_per_grab_max = from->units_per_grab_max;
    if (mask & TERM_GRABS) into->grabs_per_buyer_max = from->grabs_per_buyer_max;
    if (mask & TERM_OPENS) into->opens_ms = from->opens_ms;
    if (mask & TERM_CLOSES) into->closes_ms = from->closes_ms;
    if (mask & TERM_PAY_WITHIN) into->pay_within_s = from->pay_within_s;
    if (mask & TERM_ADMISSION) into->admission = from->admission;
    if (mask & TERM_TOKENS) into->tokens_max = from->tokens_max;
    if (mask & TERM_ADMIT) into->admit_max = from->admit_max;
    if (mask & TERM_LATE_PAYMENT) into->late_payment = from->late_payment;
    if (mask & TERM_EVENT) into->event_id = from->event_id;
    if (!(mask & TERM_LINE)) return;
    into->line_rate_per_s = from->line_rate_per_s;
    into->line_size = from->line_size;
    into->line_timeout_ms = from->line_timeout_ms;
    memcpy(into->line_name, from->line_name, sizeof into->line_name);
}
