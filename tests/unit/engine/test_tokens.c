/* Purchase tokens: who gets one, what it opens, and how often. */
#include "stage.h"

#include "engine/tokens.h"

#include <stdio.h>
#include <string.h>

static struct sale_terms token_terms(void)
{
    struct sale_terms terms = stage_terms();
    terms.admission = ADMISSION_TOKEN;
    return terms;
}

static enum verdict ask(struct engine *engine, uint64_t sale_id, const char *buyer, uint64_t now_ms)
{
    const struct token_ask asked = {
        .sale_id = sale_id, .buyer = slice_of(buyer), .admission = ADMISSION_TOKEN, .now_ms = now_ms
    };
    struct token_answer answer;
    return stage_token(engine, &asked, &answer);
}

static enum verdict buy(struct engine *engine, uint64_t sale_id, const char *buyer, uint64_t nonce)
{
    const struct grab grab = {
        .sale_id = sale_id, .buyer = slice_of(buyer), .units = 1, .now_ms = 10, .token_nonce = nonce
    };
    struct grab_answer answer;
    return stage_grab(engine, &grab, &answer);
}

static void a_token_opens_the_sale_once_and_to_its_buyer(void **state)
{
    (void)state;
    struct engine *engine = stage_open(100);
    struct sale_terms terms = token_terms(), other = token_terms();
    terms.grabs_per_buyer_max = 5;
    stage_rename(&other, "hats");
    uint64_t id = stage_sale(engine, &terms, 10), other_id = stage_sale(engine, &other, 10);
    uint64_t ann = stage_nonce(engine, id, "ann", 1), bob = stage_nonce(engine, id, "bob", 1);
    uint64_t elsewhere = stage_nonce(engine, other_id, "ann", 1);

    assert_int_equal(buy(engine, id, "ann", 0), VERDICT_TOKEN_REQUIRED);
    assert_int_equal(buy(engine, id, "ann", bob), VERDICT_TOKEN_INVALID);
    assert_int_equal(buy(engine, id, "ann", elsewhere), VERDICT_TOKEN_INVALID);
    assert_int_equal(buy(engine, id, "ann", 99), VERDICT_TOKEN_INVALID);
    assert_int_equal(buy(engine, id, "cat", ann), VERDICT_TOKEN_INVALID);
    assert_int_equal(buy(engine, id, "ann", ann), VERDICT_WON);
    assert_int_equal(buy(engine, id, "ann", ann), VERDICT_TOKEN_INVALID);
    uint64_t next = stage_nonce(engine, id, "ann", 1);
    assert_int_not_equal(next, ann);
    assert_int_equal(buy(engine, id, "ann", ann), VERDICT_TOKEN_INVALID);
    assert_int_equal(buy(engine, id, "ann", next), VERDICT_WON);

    struct order order;
    assert_true(engine_order(engine, engine_seq(engine), &order));
    assert_int_equal(order.token_nonce, next);
    assert_int_equal(stage_look(engine, id).tokens_given, 3);
    engine_close(engine);
}

static void tokens_are_given_in_the_order_of_problems(void **state)
{
    (void)state;
    struct engine *engine = stage_open(100);
    struct sale_terms terms = token_terms();
    terms.opens_ms = 1000;
    terms.closes_ms = 2000;
    terms.tokens_max = 3;
    uint64_t id = stage_sale(engine, &terms, 1);
    struct sale_terms login = stage_terms(), line = stage_terms();
    stage_rename(&login, "login");
    stage_rename(&line, "line");
    line.admission = ADMISSION_LINE;
    line.line_name[0] = 'a';
    uint64_t login_id = stage_sale(engine, &login, 1), line_id = stage_sale(engine, &line, 1);

    assert_int_equal(ask(engine, 99, "ann", 10), VERDICT_NO_SUCH_SALE);
    assert_int_equal(ask(engine, id, "", 10), VERDICT_BAD_INPUT);
    assert_int_equal(ask(engine, login_id, "ann", 10), VERDICT_NO_TOKENS_NEEDED);
    assert_int_equal(ask(engine, line_id, "ann", 10), VERDICT_NO_TOKENS_NEEDED); /* only the line gives those */
    assert_int_equal(ask(engine, id, "ann", 10), VERDICT_DONE);                  /* before it opens */
    assert_int_equal(ask(engine, id, "bob", 10), VERDICT_DONE);
    uint64_t ann = stage_nonce(engine, id, "ann", 10);
    assert_int_equal(stage_switch(engine, id, DECISION_SALE_PAUSED, 1000), VERDICT_DONE);
    assert_int_equal(ask(engine, id, "cat", 1000), VERDICT_DONE); /* also while it is paused */
    assert_int_equal(stage_switch(engine, id, DECISION_SALE_RESUMED, 1000), VERDICT_DONE);
    assert_int_equal(ask(engine, id, "dan", 1000), VERDICT_NO_TOKENS_LEFT);
    assert_int_equal(ask(engine, id, "bob", 1000), VERDICT_REPEATED);

    struct grab grab = { .sale_id = id, .buyer = SLICE("ann"), .units = 1, .now_ms = 1000, .token_nonce = ann };
    struct grab_answer answer;
    assert_int_equal(stage_grab(engine, &grab, &answer), VERDICT_WON);
    assert_int_equal(ask(engine, id, "bob", 1000), VERDICT_SOLD_OUT);
    assert_int_equal(ask(engine, id, "dan", 1000), VERDICT_SOLD_OUT);
    const struct token_ask again = { .sale_id = id, .buyer = SLICE("ann"), .admission = ADMISSION_TOKEN, .now_ms = 1000 };
    struct token_answer told;
    assert_int_equal(stage_token(engine, &again, &told), VERDICT_ALREADY_WON);
    assert_int_equal(told.order.no, answer.order.no);
    assert_int_equal(ask(engine, id, "bob", 2000), VERDICT_CLOSED);
    engine_close(engine);
}

/* Which verdict of a grab wins when several could. One sale of 1, at most 1 a grab, open on [1000, 2000). */
static void token_verdicts_follow_precedence(void **state)
{
    (void)state;
    struct engine *engine = stage_open(100);
    struct sale_terms terms = token_terms();
    terms.opens_ms = 1000;
    terms.closes_ms = 2000;
    uint64_t id = stage_sale(engine, &terms, 1);
    uint64_t ann = stage_nonce(engine, id, "ann", 0), bob = stage_nonce(engine, id, "bob", 0);
    const struct {
        uint64_t at_ms, nonce;
        const char *buyer, *key;
        uint32_t units;
        bool brought, turned_away;
        enum verdict want;
    } script[] = {
        { 999, 0, "ann", "", 1, false, false, VERDICT_NOT_OPEN },
        { 1000, 0, "ann", "", 9, false, false, VERDICT_TOKEN_REQUIRED },
        { 1000, 0, "ann", "", 9, true, false, VERDICT_TOKEN_INVALID },
        { 1000, 0, "ann", "", 1, false, true, VERDICT_TOKEN_REQUIRED },
        { 1000, ann, "ann", "", 9, true, false, VERDICT_OVER_LIMIT },
        { 1000, ann, "ann", "", 1, true, true, VERDICT_BUSY },
        { 1000, ann, "ann", "k", 1, true, false, VERDICT_WON }, /* a refusal has left it usable */
        { 1000, 0, "ann", "k", 1, false, false, VERDICT_REPEATED },
        { 1000, 0, "ann", "k", 2, true, false, VERDICT_KEY_REUSED },
        { 1000, ann, "ann", "k", 1, true, true, VERDICT_REPEATED },
        { 1000, ann, "ann", "", 1, true, false, VERDICT_TOKEN_INVALID },
        { 1000, 0, "ann", "", 1, false, false, VERDICT_TOKEN_REQUIRED },
        { 1000, 0, "bob", "", 1, false, false, VERDICT_TOKEN_REQUIRED },
        { 1000, bob, "bob", "", 1, true, false, VERDICT_SOLD_OUT },
        { 1000, bob, "bob", "", 1, true, true, VERDICT_SOLD_OUT },
        { 1000, 0, "cat", "", 1, true, false, VERDICT_TOKEN_INVALID },
        { 2000, 0, "cat", "", 1, true, false, VERDICT_CLOSED },
    };
    for (size_t i = 0; i < sizeof script / sizeof script[0]; i++) {
        const struct grab grab = { .sale_id = id,
                                   .buyer = slice_of(script[i].buyer),
                                   .key = slice_of(script[i].key),
                                   .units = script[i].units,
                                   .now_ms = script[i].at_ms,
                                   .token_nonce = script[i].nonce,
                                   .token_brought = script[i].brought,
                                   .turned_away = script[i].turned_away };
        struct grab_answer answer;
        assert_same_verdict(stage_grab(engine, &grab, &answer), script[i].want, "grab", i);
    }
    engine_close(engine);
}

static void one_buyer_cannot_use_up_the_tokens(void **state)
{
    (void)state;
    struct engine *engine = stage_open(100);
    struct sale_terms terms = token_terms();
    terms.tokens_max = 10;
    terms.grabs_per_buyer_max = 3;
    uint64_t id = stage_sale(engine, &terms, 50);
    for (int round = 0; round < 3; round++) {
        uint64_t nonce = stage_nonce(engine, id, "mallory", 1);
        for (int i = 0; i < 100; i++) assert_int_equal(stage_nonce(engine, id, "mallory", 1), nonce);
        assert_int_equal(buy(engine, id, "mallory", nonce), VERDICT_WON);
    }
    for (int i = 0; i < 100; i++) assert_int_equal(ask(engine, id, "mallory", 10), VERDICT_ALREADY_WON);
    assert_int_equal(stage_look(engine, id).tokens_given, 3);
    for (int i = 0; i < 7; i++) {
        char name[32];
        snprintf(name, sizeof name, "buyer %d", i);
        assert_int_equal(ask(engine, id, name, 10), VERDICT_DONE);
    }
    assert_int_equal(ask(engine, id, "late", 10), VERDICT_NO_TOKENS_LEFT);
    engine_close(engine);
}

static void a_line_sale_takes_tokens_of_its_line_and_asks_for_none(void **state)
{
    (void)state;
    struct engine *engine = stage_open(100);
    struct sale_terms terms = stage_terms();
    terms.admission = ADMISSION_LINE;
    terms.line_name[0] = 'a';
    uint64_t id = stage_sale(engine, &terms, 10);
    const struct token_ask asked = { .sale_id = id, .buyer = SLICE("ann"), .admission = ADMISSION_LINE, .now_ms = 10 };
    struct token_answer given;
    assert_int_equal(stage_token(engine, &asked, &given), VERDICT_DONE);
    assert_int_equal(buy(engine, id, "bob", 0), VERDICT_WON);
    struct grab grab = { .sale_id = id, .buyer = SLICE("ann"), .units = 1, .now_ms = 10, .token_brought = true };
    struct grab_answer answer;
    assert_int_equal(stage_grab(engine, &grab, &answer), VERDICT_TOKEN_INVALID);
    assert_int_equal(buy(engine, id, "ann", given.nonce), VERDICT_WON);
    assert_int_equal(buy(engine, id, "ann", given.nonce), VERDICT_TOKEN_INVALID);
    engine_close(engine);
}

/* The word of the line is good for one token: while it is not spent it is the same, and then there is none for it. */
static void a_token_given_before_is_not_given_anew_once_it_is_spent(void **state)
{
    (void)state;
    struct engine *engine = stage_open(100);
    struct sale_terms terms = stage_terms();
    terms.admission = ADMISSION_LINE;
    terms.line_name[0] = 'a';
    terms.grabs_per_buyer_max = 3;
    uint64_t id = stage_sale(engine, &terms, 10);
    struct token_ask asked = { .sale_id = id, .buyer = SLICE("ann"), .admission = ADMISSION_LINE, .now_ms = 10 };
    struct token_answer given, again;
    assert_int_equal(stage_token(engine, &asked, &given), VERDICT_DONE);
    asked.nonce = given.nonce;
    assert_int_equal(stage_token(engine, &asked, &again), VERDICT_REPEATED);
    assert_int_equal(again.nonce, given.nonce);
    assert_int_equal(buy(engine, id, "ann", given.nonce), VERDICT_WON);
    assert_int_equal(stage_token(engine, &asked, &again), VERDICT_TOKEN_INVALID);
    asked.nonce = 0; /* another place */
    assert_int_equal(stage_token(engine, &asked, &again), VERDICT_DONE);
    asked.nonce = given.nonce; /* and the one before is no good for its token */
    assert_int_equal(stage_token(engine, &asked, &again), VERDICT_TOKEN_INVALID);
    engine_close(engine);
}

static void sales_that_ask_for_no_token_look_at_none(void **state)
{
    (void)state;
    struct engine *engine = stage_open(100);
    struct sale_terms terms = stage_terms();
    uint64_t id = stage_sale(engine, &terms, 10);
    assert_int_equal(buy(engine, id, "ann", 77), VERDICT_WON);
    struct order order;
    assert_true(engine_order(engine, engine_seq(engine), &order));
    assert_int_equal(order.token_nonce, 0);
    engine_close(engine);
}

static void memory_for_tokens_runs_out_as_busy_and_comes_back(void **state)
{
    (void)state;
    struct engine *engine = stage_open(4);
    struct sale_terms terms = token_terms(), next = token_terms();
    terms.closes_ms = 1000;
    stage_rename(&next, "hats");
    uint64_t id = stage_sale(engine, &terms, 10), next_id = stage_sale(engine, &next, 10);
    static const char *const names[] = { "ann", "bob", "a buyer whose name has more than 32 bytes", "a buyer of 17 bts" };
    for (size_t i = 0; i < 4; i++) assert_int_equal(ask(engine, id, names[i], 10), VERDICT_DONE);
    assert_int_equal(ask(engine, next_id, "eve", 10), VERDICT_BUSY);
    uint64_t nonce = stage_nonce(engine, id, "bob", 10);
    assert_int_equal(buy(engine, id, "bob", nonce), VERDICT_WON); /* from the middle of the list */
    assert_int_equal(ask(engine, next_id, "eve", 10), VERDICT_DONE);
    assert_int_equal(ask(engine, next_id, "fay", 10), VERDICT_BUSY);

    assert_false(engine_forget(engine, id, 2, 1000));
    assert_int_equal(engine_token(engine, id, SLICE("ann")), 0); /* gone at once for whoever asks */
    while (!engine_forget(engine, id, 1, 1000)) continue;
    struct engine_usage usage;
    engine_usage(engine, &usage);
    assert_int_equal(usage.tokens, 1);
    assert_int_equal(usage.orders, 0);
    for (size_t i = 0; i < 3; i++) assert_int_equal(ask(engine, next_id, names[i], 1000), VERDICT_DONE);
    engine_close(engine);
}

static void a_ledger_that_contradicts_itself_is_damage(void **state)
{
    (void)state;
    struct engine *engine = stage_open(2);
    struct sale sale = { .id = 7, .seller = "sam", .terms = token_terms(), .tokens_given = 5 };
    sale.counts.offered = sale.counts.available = 5;
    assert_int_equal(engine_load_sale(engine, &sale), FAULT_NONE);
    assert_int_equal(engine_load_token(engine, 7, SLICE("ann"), 3), FAULT_NONE);
    assert_int_equal(engine_load_token(engine, 7, SLICE("ann"), 4), FAULT_DAMAGE);
    assert_int_equal(engine_load_token(engine, 8, SLICE("bob"), 4), FAULT_DAMAGE);
    assert_int_equal(engine_load_token(engine, 7, SLICE("bob"), 0), FAULT_DAMAGE);
    assert_int_equal(engine_load_token(engine, 7, SLICE(""), 4), FAULT_DAMAGE);
    assert_int_equal(engine_load_token(engine, 7, SLICE("b\0b"), 4), FAULT_DAMAGE);
    assert_int_equal(engine_load_token(engine, 7, SLICE("bob"), 4), FAULT_NONE);
    assert_int_equal(engine_load_token(engine, 7, SLICE("cat"), 5), FAULT_SPACE);

    struct order order = { .no = 9, .sale_id = 7, .buyer = "dan", .units = 1, .amount = -1, .state = ORDER_PAID };
    order.token_nonce = 9;
    assert_int_equal(engine_load_order(engine, &order, SLICE("")), FAULT_DAMAGE); /* given after it was won */
    order.token_nonce = 8;
    assert_int_equal(engine_load_order(engine, &order, SLICE("")), FAULT_NONE);
    struct order there;
    assert_true(engine_order(engine, 9, &there));
    assert_int_equal(there.token_nonce, 8);
    engine_close(engine);
}

/* Sales without tokens pay nothing for those that have them. */
static void orders_without_a_token_take_no_more_memory(void **state)
{
    (void)state;
    enum { BUYERS = 100000 };
    struct engine *engine = stage_open(BUYERS);
    struct sale_terms terms = stage_terms();
    uint64_t id = stage_sale(engine, &terms, BUYERS);
    struct engine_usage before, after;
    engine_usage(engine, &before);
    for (uint32_t i = 0; i < BUYERS; i++) {
        char name[24];
        snprintf(name, sizeof name, "buyer-of-16-%04x", i & 0xffff);
        if (i > 0xffff) name[0] = 'B';
        assert_int_equal(stage_buy(engine, id, name, 10), VERDICT_WON);
    }
    engine_usage(engine, &after);
    assert_true((after.bytes - before.bytes) / BUYERS <= 96);
    engine_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_opens_the_sale_once_and_to_its_buyer),
        cmocka_unit_test(tokens_are_given_in_the_order_of_problems),
        cmocka_unit_test(token_verdicts_follow_precedence),
        cmocka_unit_test(one_buyer_cannot_use_up_the_tokens),
        cmocka_unit_test(a_line_sale_takes_tokens_of_its_line_and_asks_for_none),
        cmocka_unit_test(a_token_given_before_is_not_given_anew_once_it_is_spent),
        cmocka_unit_test(sales_that_ask_for_no_token_look_at_none),
        cmocka_unit_test(memory_for_tokens_runs_out_as_busy_and_comes_back),
        cmocka_unit_test(a_ledger_that_contradicts_itself_is_damage),
        cmocka_unit_test(orders_without_a_token_take_no_more_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
