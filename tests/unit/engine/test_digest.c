/* E4: the digest tells any two histories apart, and is the same wherever it is computed; both of its kinds. */
#include "stage.h"

#include <string.h>

/* A sale and one win, with something changed on the way. */
struct history {
    const char *seller, *buyer, *key;
    uint32_t stock, units;
    uint64_t created_ms, won_ms;
    uint32_t pay_within_s;
    int64_t price;
    const char *description;
    enum admission admission;
    uint32_t tokens_max, admit_max, line_rate_per_s, line_size, line_timeout_ms;
    const char *line_name;
    enum late_payment late_payment;
    uint64_t event_id;
};

static const struct history plain = { "sam", "ann", "k", 9, 1, 1, 2, 0, -1, "", ADMISSION_LOGIN, 0, 0, 1, 1, 1, "", 0, 0 };
static const struct history named = {
    "sam", "ann", "k", 9, 1, 1, 2, 0, -1, "", ADMISSION_LOGIN, 0, 0, 0, 0, 0, "hall", 0, 0
};

static enum digest_kind kind;

static struct engine *engine_begin(void)
{
    struct engine *engine = stage_open(10);
    engine_digest_by(engine, kind);
    return engine;
}

static uint64_t digest_of(const struct history *history)
{
    struct engine *engine = engine_begin();
    struct sale_terms terms = stage_terms();
    terms.units_per_grab_max = 3;
    terms.pay_within_s = history->pay_within_s;
    terms.price = history->price;
    terms.admission = history->admission;
    terms.tokens_max = history->tokens_max;
    terms.admit_max = history->admit_max;
    terms.line_rate_per_s = history->line_rate_per_s;
    terms.line_size = history->line_size;
    terms.line_timeout_ms = history->line_timeout_ms;
    terms.late_payment = history->late_payment;
    terms.event_id = history->event_id;
    memcpy(terms.line_name, history->line_name, strlen(history->line_name));
    memcpy(terms.description, history->description, strlen(history->description));
    assert_int_equal(stage_create(engine, history->seller, &terms, history->stock, history->created_ms), VERDICT_DONE);
    struct grab grab = { .sale_id = 1,
                         .buyer = slice_of(history->buyer),
                         .key = slice_of(history->key),
                         .units = history->units,
                         .now_ms = history->won_ms };
    struct grab_answer answer;
    assert_int_equal(stage_grab(engine, &grab, &answer), VERDICT_WON);
    uint64_t digest = engine_digest(engine);
    engine_close(engine);
    return digest;
}

static void the_same_history_has_the_same_digest_under_any_hash_key(void **state)
{
    (void)state;
    assert_int_equal(digest_of(&plain), digest_of(&plain));
}

static void every_part_of_a_history_is_in_the_digest(void **state)
{
    (void)state;
    struct history other[19];
    for (size_t i = 0; i < 19; i++) other[i] = plain;
    other[0].seller = "sue";
    other[1].buyer = "ana";
    other[2].key = "l";
    other[3].key = "";
    other[4].stock = 10;
    other[5].units = 2;
    other[6].created_ms = 0;
    other[7].won_ms = 3;
    other[8].pay_within_s = 1;
    other[9].price = 0;
    other[10].description = "d";
    other[11].admission = ADMISSION_OPEN;
    other[12].tokens_max = 1;
    other[13].admit_max = 1;
    other[14].line_rate_per_s = 2;
    other[15].line_size = 2;
    other[16].line_timeout_ms = 2;
    other[17].late_payment = LATE_PAYMENT_REFUND;
    other[18].event_id = 1;
    for (size_t i = 0; i < 19; i++)
        if (digest_of(&other[i]) == digest_of(&plain)) fail_msg("change %zu makes no difference", i);

    struct history ab_c = plain, a_bc = plain;
    ab_c.buyer = "ab", ab_c.key = "c";
    a_bc.buyer = "a", a_bc.key = "bc";
    assert_int_not_equal(digest_of(&ab_c), digest_of(&a_bc));
    struct history renamed = named;
    renamed.line_name = "halt";
    assert_int_not_equal(digest_of(&named), digest_of(&renamed));
}

/* Written down: a digest in a journal must be found again by every later build. */
static void the_digest_never_changes(void **state)
{
    (void)state;
    struct history whole = plain; /* texts of eight bytes and of more */
    whole.buyer = "annabell", whole.key = "a key of more than sixteen";
    static const struct {
        uint64_t plain, whole;
    } due[] = {
        [DIGEST_SIPHASH] = { UINT64_C(0x0b8baa4a17916c77), UINT64_C(0x7d6e00324b346ef9) },
        [DIGEST_FOLD] = { UINT64_C(0x4e0409b039333414), UINT64_C(0xa23583733a0f4473) },
    };
    assert_int_equal(digest_of(&plain), due[kind].plain);
    assert_int_equal(digest_of(&whole), due[kind].whole);
}

/* Each byte, wherever the eights begin, and the length. */
static void every_byte_of_a_name_is_in_the_digest(void **state)
{
    (void)state;
    for (size_t len = 1; len <= BUYER_BYTES_MAX; len++) {
        char name[BUYER_BYTES_MAX + 1] = "";
        struct history other = plain;
        other.buyer = name;
        memset(name, 'a', len);
        const uint64_t as = digest_of(&other);
        for (size_t at = 0; at < len; at++) {
            name[at] = 'b';
            if (digest_of(&other) == as) fail_msg("byte %zu of %zu makes no difference", at, len);
            name[at] = 'a';
        }
        name[len - 1] = '\0';
        if (len > 1 && digest_of(&other) == as) fail_msg("a name of %zu is one of %zu", len - 1, len);
    }
}

/* Ann and bob, each with a token; who of them asked first, and whose was spent, are histories of their own. */
static uint64_t digest_of_tokens(const char *first, const char *second, const char *winner)
{
    struct engine *engine = engine_begin();
    struct sale_terms terms = stage_terms();
    terms.admission = winner == NULL ? ADMISSION_TOKEN : ADMISSION_LINE;
    terms.line_name[0] = 'l';
    uint64_t id = stage_sale(engine, &terms, 9);
    struct token_answer answers[2];
    const char *const names[] = { first, second };
    for (size_t i = 0; i < 2; i++) {
        struct token_ask ask = { .sale_id = id, .buyer = slice_of(names[i]), .admission = terms.admission };
        assert_int_equal(stage_token(engine, &ask, &answers[i]), VERDICT_DONE);
    }
    struct grab grab = { .sale_id = id, .buyer = slice_of(first), .units = 1 };
    if (winner != NULL && strcmp(winner, first) == 0) grab.token_nonce = answers[0].nonce;
    struct grab_answer answer;
    if (winner != NULL) assert_int_equal(stage_grab(engine, &grab, &answer), VERDICT_WON);
    uint64_t digest = engine_digest(engine);
    engine_close(engine);
    return digest;
}

static void who_has_a_token_and_whose_is_spent_is_in_the_digest(void **state)
{
    (void)state;
    assert_int_equal(digest_of_tokens("ann", "bob", NULL), digest_of_tokens("ann", "bob", NULL));
    assert_int_not_equal(digest_of_tokens("ann", "bob", NULL), digest_of_tokens("bob", "ann", NULL));
    assert_int_not_equal(digest_of_tokens("ann", "bob", "ann"), digest_of_tokens("ann", "bob", "nobody"));
}

/* Bob's end, by what is in it. */
static uint64_t digest_of_end(const struct decision *end, const char *buyer)
{
    struct engine *engine = engine_begin();
    struct sale_terms terms = stage_terms();
    terms.pay_within_s = 1;
    uint64_t id = stage_sale(engine, &terms, 9);
    assert_int_equal(stage_buy(engine, id, buyer, 1000), VERDICT_WON);
    assert_int_equal(stage_buy(engine, id, "cat", 1000), VERDICT_WON);
    struct decision decision = *end;
    decision.seq = engine_seq(engine) + 1;
    decision.sale_id = id;
    decision.ended.order_no += decision.seq - 2;
    decision.ended.units = 1;
    const char *objection = engine_objection(engine, &decision);
    if (objection != NULL) fail_msg("%s", objection);
    engine_apply(engine, &decision);
    uint64_t digest = engine_digest(engine);
    engine_close(engine);
    return digest;
}

static void every_part_of_an_end_is_in_the_digest(void **state)
{
    (void)state;
    const struct decision ends[] = {
        { .kind = DECISION_PAID, .at_ms = 2000, .ended = { .ref = SLICE("p1") } },
        { .kind = DECISION_PAID, .at_ms = 2000, .ended = { .ref = SLICE("p2") } },
        { .kind = DECISION_PAID, .at_ms = 2001, .ended = { .ref = SLICE("p1") } },
        { .kind = DECISION_PAID, .at_ms = 2000, .ended = { .ref = SLICE("p1"), .order_no = 1 } },
        { .kind = DECISION_EXPIRED, .at_ms = 2000 },
        { .kind = DECISION_EXPIRED, .at_ms = 2000, .ended = { .order_no = 1 } },
        { .kind = DECISION_CANCELLED, .at_ms = 2000, .ended = { .by = CANCELLER_BUYER } },
        { .kind = DECISION_CANCELLED, .at_ms = 2000, .ended = { .by = CANCELLER_BUYER, .reason = SLICE("p1") } },
        { .kind = DECISION_CANCELLED, .at_ms = 2000, .ended = { .by = CANCELLER_SELLER, .reason = SLICE("p1") } },
        { .kind = DECISION_CANCELLED, .at_ms = 2000, .ended = { .by = CANCELLER_ADMIN, .reason = SLICE("p1") } },
        { .kind = DECISION_CANCELLED, .at_ms = 2000, .ended = { .by = CANCELLER_BUYER, .order_no = 1 } },
    };
    enum { ENDS = sizeof ends / sizeof ends[0] };
    for (size_t a = 0; a < ENDS; a++) {
        assert_int_equal(digest_of_end(&ends[a], "bob"), digest_of_end(&ends[a], "bob"));
        for (size_t b = 0; b < a; b++)
            if (digest_of_end(&ends[a], "bob") == digest_of_end(&ends[b], "bob")) fail_msg("%zu and %zu are the same", a, b);
    }
}

static void every_decision_moves_the_digest(void **state)
{
    (void)state;
    struct engine *engine = engine_begin();
    struct sale_terms terms = stage_terms();
    uint64_t seen[7] = { engine_digest(engine) };
    uint64_t id = stage_sale(engine, &terms, 5);
    seen[1] = engine_digest(engine);
    stage_switch(engine, id, DECISION_SALE_PAUSED, 0);
    seen[2] = engine_digest(engine);
    stage_switch(engine, id, DECISION_SALE_RESUMED, 0);
    seen[3] = engine_digest(engine);
    stage_change(engine, id, &terms, 0);
    seen[4] = engine_digest(engine);
    stage_stock(engine, id, 0, 0);
    seen[5] = engine_digest(engine);
    stage_switch(engine, id, DECISION_SALE_CLOSED, 0);
    seen[6] = engine_digest(engine);
    assert_int_equal(engine_seq(engine), 6);
    for (size_t a = 0; a < 7; a++)
        for (size_t b = 0; b < a; b++) assert_int_not_equal(seen[a], seen[b]);
    engine_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_history_has_the_same_digest_under_any_hash_key),
        cmocka_unit_test(every_part_of_a_history_is_in_the_digest),
        cmocka_unit_test(who_has_a_token_and_whose_is_spent_is_in_the_digest),
        cmocka_unit_test(the_digest_never_changes),
        cmocka_unit_test(every_byte_of_a_name_is_in_the_digest),
        cmocka_unit_test(every_part_of_an_end_is_in_the_digest),
        cmocka_unit_test(every_decision_moves_the_digest),
    };
    kind = DIGEST_SIPHASH;
    int failed = cmocka_run_group_tests_name("SipHash", tests, NULL, NULL);
    kind = DIGEST_FOLD;
    return failed + cmocka_run_group_tests_name("folded", tests, NULL, NULL);
}
