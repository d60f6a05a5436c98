#include "courier/message.h"

#include "base/text.h"
#include "wire/json_out.h"

#include <assert.h>
#include <inttypes.h>
#include <openssl/crypto.h>
#include <stdio.h>

_Static_assert(HOOK_SECRET_BYTES_MAX == SIGNATURE_SECRET_TEXT_BYTES, "a hook keeps any secret");

/* The state that the notice tells of. A win is paid at once where nothing is to be paid by a time. */
static enum order_state state_then(const struct notice *notice, const struct order *order)
{
    switch (notice->kind) {
    case NOTICE_ORDER_WON:
        return order->pay_by_ms == 0 ? ORDER_PAID : ORDER_HELD;
    case NOTICE_ORDER_CANCELLED:
        return ORDER_CANCELLED;
    case NOTICE_ORDER_EXPIRED:
        return ORDER_EXPIRED;
    case NOTICE_ORDER_REFUND_DUE:
        return ORDER_REFUND_DUE;
    default:
        return ORDER_PAID;
    }
}

/* What only some notices about orders have. */
static void order_more(struct json_out *out, const struct notice *notice, const struct ledger_order *order)
{
    if (notice->kind == NOTICE_ORDER_PAID || notice->kind == NOTICE_ORDER_PAID_LATE) {
        json_text_or_null(out, "payment_ref", order->payment_ref);
        json_key(out, "late");
        json_bool(out, notice->kind == NOTICE_ORDER_PAID_LATE);
    } else if (notice->kind == NOTICE_ORDER_REFUND_DUE) {
        json_text_or_null(out, "payment_ref", order->payment_ref);
    } else if (notice->kind == NOTICE_ORDER_CANCELLED) {
        json_text_or_null(out, "cancelled_by", canceller_word(order->canceller));
        json_text_or_null(out, "reason", order->reason);
    }
}

static void order_render(struct json_out *out, const struct notice *notice, const struct ledger_order *whole)
{
    const struct order *order = &whole->order;
    json_key(out, "order");
    json_id(out, order->no);
    json_key(out, "sale");
    json_id(out, order->sale_id);
    json_key(out, "buyer");
    json_text(out, order->buyer);
    json_key(out, "units");
    json_u64(out, order->units);
    json_key(out, "amount");
    if (order->amount >= 0) {
        json_i64(out, order->amount);
    } else {
        json_null(out);
    }
    json_key(out, "state");
    json_text(out, order_state_word(state_then(notice, order)));
    json_key(out, "won_at");
    json_time(out, order->won_ms);
    json_key(out, "pay_by");
    if (order->pay_by_ms != 0) {
        json_time(out, order->pay_by_ms);
    } else {
        json_null(out);
    }
    order_more(out, notice, whole);
}

void message_begin(struct json_out *out, const struct notice *notice)
{
    json_object(out);
    json_key(out, "type");
    json_text(out, notice_kind_word(notice->kind));
    json_key(out, "timestamp");
    json_time(out, notice->at_ms);
    json_key(out, "data");
    json_object(out);
}

void message_end(struct json_out *out)
{
    json_object_end(out);
    json_object_end(out);
    assert(!out->overflow);
}

size_t message_render(char bytes[MESSAGE_BYTES_MAX], const struct notice *notice, const struct ledger_order *order)
{
    struct json_out out;
    json_out_init(&out, bytes, MESSAGE_BYTES_MAX);
    message_begin(&out, notice);
    if (notice->order_no != 0) {
        order_render(&out, notice, order);
    } else if (notice->sale_id != 0) {
        json_key(&out, "sale");
        json_id(&out, notice->sale_id);
        if (notice->kind != NOTICE_SALE_SOLD_OUT) {
            json_key(&out, "closed_by");
            json_text(&out, notice->kind == NOTICE_SALE_CLOSED ? "seller" : "time");
        }
    }
    message_end(&out);
    return out.len;
}

void message_id(char out[MESSAGE_ID_BYTES_MAX], const uint8_t uuid[16], uint64_t notice_id)
{
    char half[17] = "";
    hex_encode(half, uuid, 8);
    int len = snprintf(out, MESSAGE_ID_BYTES_MAX, "msg_%s_%" PRIu64, half, notice_id);
    assert(len > 0 && len < MESSAGE_ID_BYTES_MAX);
}

bool message_sign(char out[MESSAGE_SIGNATURES_BYTES_MAX], const struct hook *hook, const struct signed_message *message,
                  uint64_t now_ms)
{
    struct signature_secret secret;
    bool good = signature_secret_parse(slice_of(hook->secret), &secret);
    if (good) signature_make(&secret, message, out);
    bool two = hook->secret_before[0] != '\0' && now_ms < hook->before_until_ms;
    if (good && two) {
        good = signature_secret_parse(slice_of(hook->secret_before), &secret);
        size_t len = strlen(out);
        out[len] = ' ';
        if (good) signature_make(&secret, message, out + len + 1);
    }
    OPENSSL_cleanse(&secret, sizeof secret);
    return good;
}
