#include "journal/record.h"

#include "journal/format.h"

#include <assert.h>
#include <string.h>

static uint8_t *put8(uint8_t *at, uint8_t value)
{
    *at = value;
    return at + 1;
}

static uint8_t *put16(uint8_t *at, uint16_t value)
{
    le16_put(at, value);
    return at + 2;
}

static uint8_t *put32(uint8_t *at, uint32_t value)
{
    le32_put(at, value);
    return at + 4;
}

static uint8_t *put64(uint8_t *at, uint64_t value)
{
    le64_put(at, value);
    return at + 8;
}

static uint8_t *put_bytes(uint8_t *at, const char *data, size_t len)
{
    if (len > 0) memcpy(at, data, len);
    return at + len;
}

static uint8_t *terms_put(uint8_t *at, const struct sale_terms *terms)
{
    const size_t currency_len = strnlen(terms->currency, sizeof terms->currency);
    const size_t name_len = strnlen(terms->name, sizeof terms->name);
    const size_t description_len = strnlen(terms->description, sizeof terms->description);
    const size_t line_name_len = strnlen(terms->line_name, sizeof terms->line_name);
    assert(currency_len <= CURRENCY_BYTES && name_len <= SALE_NAME_BYTES_MAX &&
           description_len <= SALE_DESCRIPTION_BYTES_MAX && line_name_len <= LINE_NAME_BYTES_MAX);
    assert(terms->admission <= ADMISSION_LAST && terms->late_payment <= LATE_PAYMENT_LAST);

    at = put64(at, (uint64_t)terms->price);
    at = put32(at, terms->units_per_grab_max);
    at = put32(at, terms->grabs_per_buyer_max);
    at = put64(at, terms->opens_ms);
    at = put64(at, terms->closes_ms);
    at = put32(at, terms->pay_within_s);
    at = put8(at, (uint8_t)terms->admission);
    at = put32(at, terms->tokens_max);
    at = put32(at, terms->admit_max);
    at = put32(at, terms->line_rate_per_s);
    at = put32(at, terms->line_size);
    at = put32(at, terms->line_timeout_ms);
    at = put8(at, (uint8_t)terms->late_payment);
    at = put64(at, terms->event_id);
    at = put8(at, (uint8_t)currency_len);
    at = put8(at, (uint8_t)name_len);
    at = put16(at, (uint16_t)description_len);
    at = put8(at, (uint8_t)line_name_len);
    at = put_bytes(at, terms->currency, currency_len);
    at = put_bytes(at, terms->name, name_len);
    at = put_bytes(at, terms->description, description_len);
    return put_bytes(at, terms->line_name, line_name_len);
}

static uint8_t *won_put(uint8_t *at, const struct decision *decision)
{
    assert(decision->won.buyer.len <= BUYER_BYTES_MAX && decision->won.key.len <= IDEMPOTENCY_KEY_BYTES_MAX);
    at = put32(at, decision->won.units);
    at = put64(at, (uint64_t)decision->won.amount);
    at = put64(at, decision->won.pay_by_ms);
    at = put64(at, decision->won.token_nonce);
    at = put8(at, (uint8_t)decision->won.buyer.len);
    at = put8(at, (uint8_t)decision->won.key.len);
    at = put_bytes(at, decision->won.buyer.data, decision->won.buyer.len);
    return put_bytes(at, decision->won.key.data, decision->won.key.len);
}

static uint8_t *ended_put(uint8_t *at, const struct decision *decision)
{
    at = put64(at, decision->ended.order_no);
    at = put32(at, decision->ended.units);
    if (decision->kind == DECISION_EXPIRED) return at;
    bool cancelled = decision->kind == DECISION_CANCELLED;
    const struct slice text = cancelled ? decision->ended.reason : decision->ended.ref;
    assert(text.len <= (cancelled ? CANCEL_REASON_BYTES_MAX : PAYMENT_REF_BYTES_MAX));
    if (cancelled) at = put8(at, (uint8_t)decision->ended.by);
    at = put8(at, (uint8_t)text.len);
    return put_bytes(at, text.data, text.len);
}

size_t record_encode(const struct decision *decision, uint8_t *out)
{
    uint8_t *at = out + RECORD_HEADER_BYTES;
    switch (decision->kind) {
    case DECISION_SALE_CREATED:
        assert(decision->created.seller.len <= USERNAME_BYTES_MAX);
        at = put32(at, decision->created.stock);
        at = put8(at, (uint8_t)decision->created.seller.len);
        at = put_bytes(at, decision->created.seller.data, decision->created.seller.len);
        at = terms_put(at, decision->created.terms);
        break;
    case DECISION_SALE_CHANGED:
        at = terms_put(at, decision->changed);
        break;
    case DECISION_STOCK_ADDED:
        at = put64(at, (uint64_t)decision->stock_added);
        break;
    case DECISION_SALE_PAUSED:
    case DECISION_SALE_RESUMED:
    case DECISION_SALE_CLOSED:
        break;
    case DECISION_WON:
        at = won_put(at, decision);
        break;
    case DECISION_TOKEN_GIVEN:
        assert(decision->token_given.buyer.len <= BUYER_BYTES_MAX);
        at = put8(at, (uint8_t)decision->token_given.buyer.len);
        at = put_bytes(at, decision->token_given.buyer.data, decision->token_given.buyer.len);
        break;
    case DECISION_PAID:
    case DECISION_CANCELLED:
    case DECISION_EXPIRED:
    case DECISION_RETAKEN:
    case DECISION_REFUND_DUE:
        at = ended_put(at, decision);
        break;
    default:
        assert(!"a decision of a known kind");
    }

    const size_t len = (size_t)(at - out);
    assert(len <= RECORD_BYTES_MAX);
    le16_put(out + RECORD_AT_LENGTH, (uint16_t)len);
    out[RECORD_AT_KIND] = (uint8_t)decision->kind;
    out[RECORD_AT_VERSION] = RECORD_VERSION;
    le64_put(out + RECORD_AT_TIME, decision->at_ms);
    le64_put(out + RECORD_AT_SALE, decision->sale_id);
    return len;
}

/* The unread rest of a record. A read beyond it sets short_of and gives zeros, so that a decoder checks once, at its end. */
struct rest {
    const uint8_t *at;
    size_t len;
    bool short_of;
};

static const uint8_t *rest_take(struct rest *rest, size_t len)
{
    static const uint8_t zeros[8];
    if (len > rest->len || rest->short_of) {
        rest->short_of = true;
        return len <= sizeof zeros ? zeros : NULL;
    }
    const uint8_t *at = rest->at;
    rest->at += len;
    rest->len -= len;
    return at;
}

static uint8_t get8(struct rest *rest)
{
    return *rest_take(rest, 1);
}

static uint16_t get16(struct rest *rest)
{
    return le16_get(rest_take(rest, 2));
}

static uint32_t get32(struct rest *rest)
{
    return le32_get(rest_take(rest, 4));
}

static uint64_t get64(struct rest *rest)
{
    return le64_get(rest_take(rest, 8));
}

static struct slice get_slice(struct rest *rest, size_t len)
{
    const uint8_t *at = rest_take(rest, len);
    return rest->short_of ? (struct slice){ NULL, 0 } : (struct slice){ (const char *)at, len };
}

/* A text with a NUL would come back shorter than it was stored. */
static bool text_get(struct rest *rest, size_t len, char *out)
{
    const struct slice text = get_slice(rest, len);
    if (text.len > 0 && memchr(text.data, 0, text.len) != NULL) return false;
    if (text.len > 0) memcpy(out, text.data, text.len);
    out[text.len] = 0;
    return true;
}

static const char *terms_get(struct rest *rest, struct sale_terms *out)
{
    memset(out, 0, sizeof *out);
    out->price = (int64_t)get64(rest);
    out->units_per_grab_max = get32(rest);
    out->grabs_per_buyer_max = get32(rest);
    out->opens_ms = get64(rest);
    out->closes_ms = get64(rest);
    out->pay_within_s = get32(rest);
    const uint8_t admission = get8(rest);
    out->tokens_max = get32(rest);
    out->admit_max = get32(rest);
    out->line_rate_per_s = get32(rest);
    out->line_size = get32(rest);
    out->line_timeout_ms = get32(rest);
    const uint8_t late_payment = get8(rest);
    out->event_id = get64(rest);
    const size_t currency_len = get8(rest), name_len = get8(rest), description_len = get16(rest), line_name_len = get8(rest);

    if (admission > ADMISSION_LAST) return "record with an unknown admission";
    if (late_payment > LATE_PAYMENT_LAST) return "record with an unknown late_payment";
    if (currency_len > CURRENCY_BYTES) return "record with a currency that is too long";
    if (name_len > SALE_NAME_BYTES_MAX) return "record with a sale name that is too long";
    if (description_len > SALE_DESCRIPTION_BYTES_MAX) return "record with a description that is too long";
    if (line_name_len > LINE_NAME_BYTES_MAX) return "record with a name of a line that is too long";
    out->admission = (enum admission)admission;
    out->late_payment = (enum late_payment)late_payment;
    if (!text_get(rest, currency_len, out->currency) || !text_get(rest, name_len, out->name) ||
        !text_get(rest, description_len, out->description) || !text_get(rest, line_name_len, out->line_name)) {
        return "record with a NUL in a text";
    }
    return NULL;
}

static const char *won_get(struct rest *rest, struct decision *decision)
{
    decision->won.units = get32(rest);
    decision->won.amount = (int64_t)get64(rest);
    decision->won.pay_by_ms = get64(rest);
    decision->won.token_nonce = get64(rest);
    const size_t buyer_len = get8(rest), key_len = get8(rest);
    if (buyer_len > BUYER_BYTES_MAX) return "record with a buyer that is too long";
    if (key_len > IDEMPOTENCY_KEY_BYTES_MAX) return "record with a key that is too long";
    decision->won.buyer = get_slice(rest, buyer_len);
    decision->won.key = get_slice(rest, key_len);
    return NULL;
}

static const char *token_given_get(struct rest *rest, struct decision *decision)
{
    const size_t buyer_len = get8(rest);
    if (buyer_len > BUYER_BYTES_MAX) return "record with a buyer that is too long";
    decision->token_given.buyer = get_slice(rest, buyer_len);
    return NULL;
}

static const char *ended_get(struct rest *rest, struct decision *decision)
{
    decision->ended.order_no = get64(rest);
    decision->ended.units = get32(rest);
    decision->ended.ref = decision->ended.reason = (struct slice){ NULL, 0 };
    decision->ended.by = CANCELLER_NONE;
    if (decision->kind == DECISION_EXPIRED) return NULL;
    if (decision->kind != DECISION_CANCELLED) {
        const size_t ref_len = get8(rest);
        if (ref_len > PAYMENT_REF_BYTES_MAX) return "record with a payment's ref that is too long";
        decision->ended.ref = get_slice(rest, ref_len);
        return NULL;
    }
    const uint8_t by = get8(rest);
    const size_t reason_len = get8(rest);
    if (by > CANCELLER_ADMIN) return "record of an unknown canceller";
    if (reason_len > CANCEL_REASON_BYTES_MAX) return "record with a reason that is too long";
    decision->ended.by = (enum canceller)by;
    decision->ended.reason = get_slice(rest, reason_len);
    return NULL;
}

static const char *body_get(struct rest *rest, struct record *out)
{
    struct decision *decision = &out->decision;
    switch (decision->kind) {
    case DECISION_SALE_CREATED: {
        decision->created.stock = get32(rest);
        const size_t seller_len = get8(rest);
        if (seller_len > USERNAME_BYTES_MAX) return "record with a seller that is too long";
        decision->created.seller = get_slice(rest, seller_len);
        decision->created.terms = &out->terms;
        return terms_get(rest, &out->terms);
    }
    case DECISION_SALE_CHANGED:
        decision->changed = &out->terms;
        return terms_get(rest, &out->terms);
    case DECISION_STOCK_ADDED:
        decision->stock_added = (int64_t)get64(rest);
        return NULL;
    case DECISION_SALE_PAUSED:
    case DECISION_SALE_RESUMED:
    case DECISION_SALE_CLOSED:
        return NULL;
    case DECISION_WON:
        return won_get(rest, decision);
    case DECISION_TOKEN_GIVEN:
        return token_given_get(rest, decision);
    case DECISION_PAID:
    case DECISION_CANCELLED:
    case DECISION_EXPIRED:
    case DECISION_RETAKEN:
    case DECISION_REFUND_DUE:
        return ended_get(rest, decision);
    default:
        return "record of an unknown kind";
    }
}

const char *record_decode(const uint8_t *bytes, size_t len, uint64_t seq, struct record *out)
{
    if (len < RECORD_HEADER_BYTES) return "record cut off in its header";
    const size_t bytes_stored = le16_get(bytes + RECORD_AT_LENGTH);
    if (bytes_stored < RECORD_HEADER_BYTES || bytes_stored > RECORD_BYTES_MAX) return "record of an impossible length";
    if (bytes_stored > len) return "record cut off";
    if (bytes[RECORD_AT_VERSION] != RECORD_VERSION) return "record of an unknown version";

    out->bytes = bytes_stored;
    out->decision.seq = seq;
    out->decision.kind = (enum decision_kind)bytes[RECORD_AT_KIND];
    out->decision.at_ms = le64_get(bytes + RECORD_AT_TIME);
    out->decision.sale_id = le64_get(bytes + RECORD_AT_SALE);

    struct rest rest = { .at = bytes + RECORD_HEADER_BYTES, .len = bytes_stored - RECORD_HEADER_BYTES };
    const char *reason = body_get(&rest, out);
    if (reason != NULL) return reason;
    if (rest.short_of) return "record shorter than its contents";
    if (rest.len > 0) return "record longer than its contents";
    return NULL;
}
