#include "base/siphash.h"
#include "engine/engine_state.h"

#include <assert.h>
#include <string.h>

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

/* All that a decision says and has led to. */
struct outcome {
    uint64_t digest; /* before it */
    uint64_t content;
    uint64_t orders_made, tokens_given, token_nonce;
    const struct sale_counts *counts;
    uint32_t units;
    struct slice buyer, key;
};

/* Numbers, then buyer and key, in one pass of SipHash: as batches of version 1 have it. */
static uint64_t outcome_siphash(const struct outcome *a, const struct decision *decision)
{
    struct {
        uint64_t digest, seq, at_ms, sale_id, content, orders_made, tokens_given, token_nonce;
        struct sale_counts counts;
        uint32_t kind, units;
        uint32_t buyer_len, key_len;
        char texts[BUYER_BYTES_MAX + IDEMPOTENCY_KEY_BYTES_MAX];
    } record = {
        .digest = a->digest,
        .seq = decision->seq,
        .at_ms = decision->at_ms,
        .sale_id = decision->sale_id,
        .content = a->content,
        .orders_made = a->orders_made,
        .tokens_given = a->tokens_given,
        .token_nonce = a->token_nonce,
        .counts = *a->counts,
        .kind = (uint32_t)decision->kind,
        .units = a->units,
        .buyer_len = (uint32_t)a->buyer.len,
        .key_len = (uint32_t)a->key.len,
    };
    size_t len = (size_t)(record.texts - (char *)&record);
    assert(len == 96); /* no padding, whose bytes would be anyone's guess */
    if (a->buyer.len > 0) memcpy(record.texts, a->buyer.data, a->buyer.len);
    if (a->key.len > 0) memcpy(record.texts + a->buyer.len, a->key.data, a->key.len);
    return siphash(digest_key, &record, len + a->buyer.len + a->key.len);
}

/* Both halves of a product: every bit of either factor has a say in about half of those of the result. Nobody has to be kept
 * from finding two histories of one digest, which checksums and the chain of the journal are for; a replay that went another
 * way has to be told, and that is as good as certain. */
static uint64_t fold(uint64_t a, uint64_t b)
{
    __extension__ typedef unsigned __int128 product;
    product both = (product)a * b;
    return (uint64_t)both ^ (uint64_t)(both >> 64);
}

/* Any two odd numbers without a pattern; fixed like the key. */
#define FOLD_A UINT64_C(0x9e3779b97f4a7c15)
#define FOLD_B UINT64_C(0xd1b54a32d192ed03)

static uint64_t pair(uint32_t high, uint32_t low)
{
    return (uint64_t)high << 32 | low;
}

static uint64_t word_at(const char *data)
{
    uint64_t word;
    memcpy(&word, data, sizeof word);
    return word;
}

/* By eights; the last eight bytes may have been seen in part, which makes no two texts of one length alike. */
static uint64_t fold_text(uint64_t digest, struct slice text)
{
    uint64_t last = 0;
    for (size_t at = 0; text.len > at + sizeof last; at += sizeof last)
        digest = fold(digest ^ word_at(text.data + at), FOLD_A);
    if (text.len >= sizeof last) {
        last = word_at(text.data + text.len - sizeof last);
    } else {
        for (size_t i = 0; i < text.len; i++) last = last << 8 | (uint8_t)text.data[i];
    }
    return fold(digest ^ last, FOLD_B);
}

/* Wins are many, and the lock is held: two sums that need not wait for each other, then the texts. Number by number, because
 * what is read in larger pieces than it was written in has to wait until it has been written. */
static uint64_t outcome_fold(const struct outcome *a, const struct decision *decision)
{
    const struct sale_counts *counts = a->counts;
    uint64_t x = fold(FOLD_A ^ a->digest, FOLD_B ^ decision->seq),
             y = fold(FOLD_B ^ decision->at_ms, FOLD_A ^ decision->sale_id);
    x = fold(x ^ a->content, FOLD_B ^ a->orders_made);
    y = fold(y ^ a->tokens_given, FOLD_A ^ a->token_nonce);
    x = fold(x ^ pair(counts->offered, counts->available), FOLD_B ^ pair(counts->held, counts->sold));
    y = fold(y ^ pair((uint32_t)decision->kind, a->units), FOLD_A ^ pair((uint32_t)a->buyer.len, (uint32_t)a->key.len));
    uint64_t digest = fold(x ^ FOLD_A, y ^ FOLD_B);
    if (a->buyer.len > 0) digest = fold_text(digest, a->buyer);
    return a->key.len > 0 ? fold_text(digest, a->key) : digest;
}

uint64_t digest_next(enum digest_kind kind, uint64_t digest, const struct decision *decision, const struct sale *sale)
{
    static const struct sale_counts nothing;
    struct outcome outcome = { .digest = digest, .content = content_digest(decision), .counts = &nothing };
    if (sale != NULL) {
        outcome.orders_made = sale->orders_made;
        outcome.tokens_given = sale->tokens_given;
        outcome.counts = &sale->counts;
    }
    if (decision->kind == DECISION_WON) {
        outcome.units = decision->won.units;
        outcome.token_nonce = decision->won.token_nonce;
        outcome.buyer = decision->won.buyer;
        outcome.key = decision->won.key;
    } else if (decision->kind == DECISION_TOKEN_GIVEN) {
        outcome.buyer = decision->token_given.buyer;
    } else if (decision->kind >= DECISION_PAID) {
        outcome.units = decision->ended.units;
    }
    return kind == DIGEST_SIPHASH ? outcome_siphash(&outcome, decision) : outcome_fold(&outcome, decision);
}
