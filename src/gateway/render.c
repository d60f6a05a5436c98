#include "gateway/resources.h"

static void amount_or_null(struct json_out *out, const char *key, int64_t amount)
{
    json_key(out, key);
    if (amount >= 0) {
        json_i64(out, amount);
    } else {
        json_null(out);
    }
}

static void number_or_null(struct json_out *out, const char *key, uint32_t value)
{
    json_key(out, key);
    if (value != 0) {
        json_u64(out, value);
    } else {
        json_null(out);
    }
}

static void number(struct json_out *out, const char *key, uint64_t value)
{
    json_key(out, key);
    json_u64(out, value);
}

static void render_line(struct json_out *out, const struct sale_terms *terms)
{
    if (terms->line_rate_per_s == 0) {
        json_text_or_null(out, "line", terms->line_name);
        return;
    }
    json_key(out, "line");
    json_object(out);
    number(out, "rate_per_s", terms->line_rate_per_s);
    number(out, "size", terms->line_size);
    number(out, "timeout_ms", terms->line_timeout_ms);
    json_object_end(out);
}

/* now comes last, so that what stands before it is the sale and nothing else: its ETag is made of that. */
void render_sale(struct json_out *out, const struct sale *sale, uint64_t now_ms)
{
    const struct sale_terms *terms = &sale->terms;
    json_object(out);
    json_key(out, "id");
    json_id(out, sale->id);
    json_key(out, "seller");
    json_text(out, sale->seller);
    json_key(out, "name");
    json_text(out, terms->name);
    json_key(out, "description");
    json_text(out, terms->description);
    amount_or_null(out, "price", terms->price);
    json_text_or_null(out, "currency", terms->currency);
    json_key(out, "state");
    json_text(out, sale_state_word(sale_state_at(sale, now_ms)));
    number(out, "offered", sale->counts.offered);
    number(out, "available", sale->counts.available);
    number(out, "held", sale->counts.held);
    number(out, "sold", sale->counts.sold);
    number(out, "units_per_grab_max", terms->units_per_grab_max);
    number(out, "grabs_per_buyer_max", terms->grabs_per_buyer_max);
    json_key(out, "opens_at");
    json_time(out, terms->opens_ms);
    json_time_or_null(out, "closes_at", terms->closes_ms);
    number_or_null(out, "pay_within_s", terms->pay_within_s);
    json_key(out, "late_payment");
    json_text(out, late_payment_word(terms->late_payment));
    json_key(out, "admission");
    json_text(out, admission_word(terms->admission));
    number_or_null(out, "tokens_max", terms->tokens_max);
    number_or_null(out, "admit_max", terms->admit_max);
    render_line(out, terms);
    json_key(out, "event");
    if (terms->event_id != 0) {
        json_id(out, terms->event_id);
    } else {
        json_null(out);
    }
    json_key(out, "now");
    json_time(out, now_ms);
    json_object_end(out);
}

void render_order(struct json_out *out, const struct order *order)
{
    json_object(out);
    json_key(out, "no");
    json_id(out, order->no);
    json_key(out, "sale");
    json_id(out, order->sale_id);
    json_key(out, "buyer");
    json_text(out, order->buyer);
    number(out, "units", order->units);
    amount_or_null(out, "amount", order->amount);
    json_key(out, "state");
    json_text(out, order_state_word(order->state));
    json_key(out, "won_at");
    json_time(out, order->won_ms);
    json_time_or_null(out, "pay_by", order->pay_by_ms);
    json_object_end(out);
}
