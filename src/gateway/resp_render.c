#include "base/text.h"
#include "gateway/resp_commands.h"

static void key(struct resp_out *out, const char *name)
{
    resp_bulk(out, slice_of(name));
}

static void text(struct resp_out *out, const char *name, const char *value)
{
    key(out, name);
    resp_bulk(out, slice_of(value));
}

static void text_or_nil(struct resp_out *out, const char *name, const char *value)
{
    key(out, name);
    if (value[0] != '\0') {
        resp_bulk(out, slice_of(value));
    } else {
        resp_nil(out);
    }
}

static void id_or_nil(struct resp_out *out, const char *name, uint64_t value)
{
    key(out, name);
    if (value != 0) {
        resp_number_text(out, value);
    } else {
        resp_nil(out);
    }
}

static void time_or_nil(struct resp_out *out, const char *name, uint64_t ms)
{
    char when[TIME_TEXT_BYTES + 1];
    if (ms != 0) time_to_text(when, ms);
    text_or_nil(out, name, ms != 0 ? when : "");
}

static void number(struct resp_out *out, const char *name, int64_t value)
{
    key(out, name);
    resp_integer(out, value);
}

/* none: the value that means none. */
static void number_or_nil(struct resp_out *out, const char *name, int64_t value, int64_t none)
{
    key(out, name);
    if (value != none) {
        resp_integer(out, value);
    } else {
        resp_nil(out);
    }
}

static void line(struct resp_out *out, const struct sale_terms *terms)
{
    if (terms->line_rate_per_s == 0) {
        text_or_nil(out, "line", terms->line_name);
        return;
    }
    key(out, "line");
    resp_map(out, 3);
    number(out, "rate_per_s", terms->line_rate_per_s);
    number(out, "size", terms->line_size);
    number(out, "timeout_ms", terms->line_timeout_ms);
}

void resp_render_sale(struct resp_out *out, const struct sale *sale, uint64_t now_ms)
{
    const struct sale_terms *terms = &sale->terms;
    resp_map(out, 23);
    id_or_nil(out, "id", sale->id);
    text(out, "seller", sale->seller);
    text(out, "name", terms->name);
    text(out, "description", terms->description);
    number_or_nil(out, "price", terms->price, -1);
    text_or_nil(out, "currency", terms->currency);
    text(out, "state", sale_state_word(sale_state_at(sale, now_ms)));
    number(out, "offered", sale->counts.offered);
    number(out, "available", sale->counts.available);
    number(out, "held", sale->counts.held);
    number(out, "sold", sale->counts.sold);
    number(out, "units_per_grab_max", terms->units_per_grab_max);
    number(out, "grabs_per_buyer_max", terms->grabs_per_buyer_max);
    time_or_nil(out, "opens_at", terms->opens_ms);
    time_or_nil(out, "closes_at", terms->closes_ms);
    number_or_nil(out, "pay_within_s", terms->pay_within_s, 0);
    text(out, "late_payment", late_payment_word(terms->late_payment));
    text(out, "admission", admission_word(terms->admission));
    number_or_nil(out, "tokens_max", terms->tokens_max, 0);
    number_or_nil(out, "admit_max", terms->admit_max, 0);
    line(out, terms);
    id_or_nil(out, "event", terms->event_id);
    time_or_nil(out, "now", now_ms);
}

void resp_render_order(struct resp_out *out, const struct order *order)
{
    resp_map(out, 8);
    id_or_nil(out, "no", order->no);
    id_or_nil(out, "sale", order->sale_id);
    text(out, "buyer", order->buyer);
    number(out, "units", order->units);
    number_or_nil(out, "amount", order->amount, -1);
    text(out, "state", order_state_word(order->state));
    time_or_nil(out, "won_at", order->won_ms);
    time_or_nil(out, "pay_by", order->pay_by_ms);
}
