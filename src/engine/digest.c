#include "base/siphash.h"
#include "engine/engine_state.h"

/* Public and fixed: a digest written by one start of the server is checked by the next. */
static const uint8_t digest_key[16] = "stampede.digest.";

static uint64_t chain(uint64_t digest, uint64_t value)
{
    uint64_t words[2] = { digest, value };
    return siphash(digest_key, words, sizeof words);
}

static uint64_t chain_text(uint64_t digest, struct slice text)
{
    return chain(digest, siphash(digest_key, text.data, text.len));
}

static uint64_t terms_digest(const struct sale_terms *terms)
{
    uint64_t digest = chain_text(0, slice_of(terms->name));
    digest = chain_text(digest, slice_of(terms->description));
    digest = chain_text(digest, slice_of(terms->currency));
    digest = chain(digest, (uint64_t)terms->price);
    digest = chain(digest, terms->units_per_grab_max);
    digest = chain(digest, terms->grabs_per_buyer_max);
    digest = chain(digest, terms->opens_ms);
    digest = chain(digest, terms->closes_ms);
    digest = chain(digest, terms->pay_within_s);
    digest = chain(digest, (uint64_t)terms->admission);
    digest = chain(digest, terms->tokens_max);
    digest = chain(digest, terms->admit_max);
    digest = chain(digest, terms->line_rate_per_s);
    digest = chain(digest, terms->line_size);
    digest = chain(digest, terms->line_timeout_ms);
    digest = chain_text(digest, slice_of(terms->line_name));
    digest = chain(digest, (uint64_t)terms->late_payment);
    return chain(digest, terms->event_id);
}

/* What a decision says beyond its kind, in one word. */
static uint64_t content_digest(const struct decision *decision)
{
    switch (decision->kind) {
    case DECISION_SALE_CREATED:
        return chain_text(terms_digest(decision->created.terms), decision->created.seller);
    case DECISION_SALE_CHANGED:
        return terms_digest(decision->changed);
    case DECISION_STOCK_ADDED:
        return (uint64_t)decision->stock_added;
    case DECISION_WON:
        return decision->won.pay_by_ms;
    case DECISION_EXPIRED:
        return decision->ended.order_no;
    case DECISION_PAID:
    case DECISION_RETAKEN:
    case DECISION_REFUND_DUE:
        return chain_text(decision->ended.order_no, decision->ended.ref);
    case DECISION_CANCELLED:
        return chain_text(chain(decision->ended.order_no, (uint64_t)decision->ended.by), decision->ended.reason);
    case DECISION_SALE_PAUSED:
    case DECISION_SALE_RESUMED:
    case DECISION_SALE_CLOSED:
    case DECISION_TOKEN_GIVEN:
        break;
    }
    return 0;
}

struct digest_record {
    uint64_t digest, seq, at_ms, sale_id, content, orders_made, tokens_given, token_nonce;
    struct sale_counts counts;
    uint32_t kind, units;
    uint32_t buyer_len, key_len;
    char texts[BUYER_BYTES_MAX + IDEMPOTENCY_KEY_BYTES_MAX];
};

_Static_assert(offsetof(struct digest_record, texts) == 96, "no padding, whose bytes would be anyone's guess");

/* A win is digested in one pass, buyer and key after the numbers, for there are many of them and the lock is held. */
uint64_t digest_next(uint64_t digest, const struct decision *decision, const struct sale *sale)
{
    struct digest_record record;
    record.digest = digest;
    record.seq = decision->seq;
    record.at_ms = decision->at_ms;
    record.sale_id = decision->sale_id;
    record.content = content_digest(decision);
    record.orders_made = sale == NULL ? 0 : sale->orders_made;
    record.tokens_given = sale == NULL ? 0 : sale->tokens_given;
    record.token_nonce = 0;
    record.counts = sale == NULL ? (struct sale_counts){ 0 } : sale->counts;
    record.kind = (uint32_t)decision->kind;
    record.units = record.buyer_len = record.key_len = 0;

    char *end = record.texts;
    if (decision->kind == DECISION_WON) {
        struct slice buyer = decision->won.buyer, key = decision->won.key;
        record.units = decision->won.units;
        record.token_nonce = decision->won.token_nonce;
        record.buyer_len = (uint32_t)buyer.len;
        record.key_len = (uint32_t)key.len;
        memcpy(end, buyer.data, buyer.len);
        end += buyer.len;
        if (key.len > 0) memcpy(end, key.data, key.len);
        end += key.len;
    } else if (decision->kind == DECISION_TOKEN_GIVEN) {
        struct slice buyer = decision->token_given.buyer;
        record.buyer_len = (uint32_t)buyer.len;
        memcpy(end, buyer.data, buyer.len);
        end += buyer.len;
    } else if (decision->kind >= DECISION_PAID) {
        record.units = decision->ended.units;
    }
    return siphash(digest_key, &record, (size_t)(end - (char *)&record));
}
