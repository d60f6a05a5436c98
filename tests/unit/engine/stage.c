#include "stage.h"

#include "base/random.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct engine *stage_open(uint32_t orders_max)
{
    struct engine *engine;
    uint8_t hash_key[16];
    random_bytes(hash_key, sizeof hash_key);
    assert_int_equal(engine_open(&engine, orders_max, hash_key), FAULT_NONE);
    return engine;
}

struct sale_terms stage_terms(void)
{
    return (struct sale_terms){
        .name = "shoes",
        .price = -1,
        .units_per_grab_max = 1,
        .grabs_per_buyer_max = 1,
        .admission = ADMISSION_LOGIN,
    };
}

void stage_rename(struct sale_terms *terms, const char *name)
{
    assert_true(strlen(name) <= SALE_NAME_BYTES_MAX);
    memcpy(terms->name, name, strlen(name) + 1);
}

static enum verdict stage_apply(struct engine *engine, enum verdict verdict, const struct decision *decision)
{
    if (verdict != VERDICT_DONE && verdict != VERDICT_WON) return verdict;
    const char *objection = engine_objection(engine, decision);
    if (objection != NULL) fail_msg("the engine objects to its own decision: %s", objection);
    engine_apply(engine, decision);
    return verdict;
}

enum verdict stage_create(struct engine *engine, const char *seller, const struct sale_terms *terms, uint32_t stock,
                          uint64_t now_ms)
{
    struct decision decision;
    enum verdict verdict = engine_decide_create(engine, &(struct asker){ .name = slice_of(seller), .now_ms = now_ms }, terms,
                                                stock, &decision);
    return stage_apply(engine, verdict, &decision);
}

uint64_t stage_sale(struct engine *engine, const struct sale_terms *terms, uint32_t stock)
{
    assert_int_equal(stage_create(engine, "sam", terms, stock, 0), VERDICT_DONE);
    uint64_t id = engine_sale_by_name(engine, SLICE("sam"), slice_of(terms->name));
    assert_int_not_equal(id, 0);
    return id;
}

static const struct asker sam = { .name = { "sam", 3 } };

enum verdict stage_change(struct engine *engine, uint64_t sale_id, const struct sale_terms *terms, uint64_t now_ms)
{
    struct decision decision;
    enum verdict verdict = engine_decide_change(engine, ASKER_AT(&sam, now_ms), sale_id, terms, &decision);
    return stage_apply(engine, verdict, &decision);
}

enum verdict stage_stock(struct engine *engine, uint64_t sale_id, int64_t add, uint64_t now_ms)
{
    struct decision decision;
    enum verdict verdict = engine_decide_stock(engine, ASKER_AT(&sam, now_ms), sale_id, add, &decision);
    return stage_apply(engine, verdict, &decision);
}

enum verdict stage_switch(struct engine *engine, uint64_t sale_id, enum decision_kind kind, uint64_t now_ms)
{
    struct decision decision;
    enum verdict verdict = engine_decide_switch(engine, ASKER_AT(&sam, now_ms), sale_id, kind, &decision);
    return stage_apply(engine, verdict, &decision);
}

/* What is said without the lock must be what is said under it. */
enum verdict stage_grab(struct engine *engine, const struct grab *grab, struct grab_answer *answer)
{
    struct decision decision;
    enum verdict early = engine_refuse_early(engine, grab);
    enum verdict verdict = engine_decide_grab(engine, grab, &decision, answer);
    assert_int_equal(answer->verdict, verdict);
    if (early != VERDICT_DONE) assert_int_equal(early, verdict);
    if (early == VERDICT_SOLD_OUT && !grab->turned_away) assert_int_equal(answer->available, 0);
    return stage_apply(engine, verdict, &decision);
}

enum verdict stage_buy(struct engine *engine, uint64_t sale_id, const char *buyer, uint64_t now_ms)
{
    struct grab grab = { .sale_id = sale_id, .buyer = slice_of(buyer), .units = 1, .now_ms = now_ms };
    struct grab_answer answer;
    return stage_grab(engine, &grab, &answer);
}

enum verdict stage_token(struct engine *engine, const struct token_ask *ask, struct token_answer *answer)
{
    struct decision decision;
    enum verdict early = engine_refuse_token_early(engine, ask);
    enum verdict verdict = engine_decide_token(engine, ask, &decision, answer);
    assert_int_equal(answer->verdict, verdict);
    if (early != VERDICT_DONE) assert_int_equal(early, verdict);
    if (verdict == VERDICT_DONE) assert_int_equal(answer->nonce, decision.seq);
    return stage_apply(engine, verdict, &decision);
}

uint64_t stage_nonce(struct engine *engine, uint64_t sale_id, const char *buyer, uint64_t now_ms)
{
    const struct token_ask ask = {
        .sale_id = sale_id, .buyer = slice_of(buyer), .admission = ADMISSION_TOKEN, .now_ms = now_ms
    };
    struct token_answer answer;
    enum verdict verdict = stage_token(engine, &ask, &answer);
    assert_true(verdict == VERDICT_DONE || verdict == VERDICT_REPEATED);
    return answer.nonce;
}

enum verdict stage_pay(struct engine *engine, const struct payment *payment, struct order *order)
{
    struct decision decision;
    return stage_apply(engine, engine_decide_payment(engine, payment, &decision, order), &decision);
}

enum verdict stage_cancel(struct engine *engine, const struct cancel *cancel, struct order *order)
{
    struct decision decision;
    return stage_apply(engine, engine_decide_cancel(engine, cancel, &decision, order), &decision);
}

uint64_t stage_expire(struct engine *engine, uint64_t now_ms)
{
    struct decision decision;
    uint32_t hints_left = UINT32_MAX;
    if (!engine_decide_expiry(engine, now_ms, &hints_left, &decision)) return 0;
    stage_apply(engine, VERDICT_DONE, &decision);
    return decision.ended.order_no;
}

struct order stage_order(const struct engine *engine, uint64_t no)
{
    struct order order;
    assert_true(engine_order(engine, no, &order));
    return order;
}

struct sale stage_look(const struct engine *engine, uint64_t sale_id)
{
    struct sale sale;
    assert_true(engine_sale(engine, sale_id, &sale));
    return sale;
}

void assert_same_verdict(enum verdict got, enum verdict want, const char *what, size_t row)
{
    if (got != want) fail_msg("%s, row %zu: %s instead of %s", what, row, verdict_word(got), verdict_word(want));
}

void assert_same_terms(const struct sale_terms *got, const struct sale_terms *want)
{
    assert_string_equal(got->name, want->name);
    assert_string_equal(got->description, want->description);
    assert_string_equal(got->currency, want->currency);
    assert_int_equal(got->price, want->price);
    assert_int_equal(got->units_per_grab_max, want->units_per_grab_max);
    assert_int_equal(got->grabs_per_buyer_max, want->grabs_per_buyer_max);
    assert_int_equal(got->opens_ms, want->opens_ms);
    assert_int_equal(got->closes_ms, want->closes_ms);
    assert_int_equal(got->pay_within_s, want->pay_within_s);
    assert_int_equal(got->admission, want->admission);
    assert_int_equal(got->tokens_max, want->tokens_max);
    assert_int_equal(got->admit_max, want->admit_max);
    assert_int_equal(got->line_rate_per_s, want->line_rate_per_s);
    assert_int_equal(got->line_size, want->line_size);
    assert_int_equal(got->line_timeout_ms, want->line_timeout_ms);
    assert_string_equal(got->line_name, want->line_name);
    assert_int_equal(got->late_payment, want->late_payment);
    assert_int_equal(got->event_id, want->event_id);
}

void assert_same_sale(const struct sale *got, const struct sale *want)
{
    assert_int_equal(got->id, want->id);
    assert_string_equal(got->seller, want->seller);
    assert_same_terms(&got->terms, &want->terms);
    assert_int_equal(got->counts.offered, want->counts.offered);
    assert_int_equal(got->counts.available, want->counts.available);
    assert_int_equal(got->counts.held, want->counts.held);
    assert_int_equal(got->counts.sold, want->counts.sold);
    assert_int_equal(got->orders_made, want->orders_made);
    assert_int_equal(got->tokens_given, want->tokens_given);
    assert_int_equal(got->paused, want->paused);
    assert_int_equal(got->closed, want->closed);
}

void assert_same_order(const struct order *got, const struct order *want)
{
    assert_int_equal(got->no, want->no);
    assert_int_equal(got->sale_id, want->sale_id);
    assert_string_equal(got->buyer, want->buyer);
    assert_string_equal(got->key, want->key);
    assert_int_equal(got->units, want->units);
    assert_int_equal(got->amount, want->amount);
    assert_int_equal(got->state, want->state);
    assert_int_equal(got->won_ms, want->won_ms);
    assert_int_equal(got->pay_by_ms, want->pay_by_ms);
    assert_int_equal(got->token_nonce, want->token_nonce);
}

uint64_t stage_seed(const char *test)
{
    uint64_t seed;
    const char *given = getenv("STAMPEDE_SEED");
    random_bytes(&seed, sizeof seed);
    if (given != NULL) seed = strtoull(given, NULL, 0);
    fprintf(stderr, "%s: STAMPEDE_SEED=%" PRIu64 "\n", test, seed);
    return seed;
}
