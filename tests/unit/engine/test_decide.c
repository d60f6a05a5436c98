#include "stage.h"

#include <string.h>

struct grab_row {
    uint64_t at_ms;
    const char *buyer; /* NULL: none */
    const char *key;   /* NULL: none */
    uint32_t units;
    enum verdict want;
};

#define ROWS(rows) (rows), sizeof(rows) / sizeof((rows)[0])

static void run_script(struct engine *engine, uint64_t sale_id, const char *what, const struct grab_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct grab grab = { .sale_id = sale_id, .units = rows[i].units, .now_ms = rows[i].at_ms };
        if (rows[i].buyer != NULL) grab.buyer = slice_of(rows[i].buyer);
        if (rows[i].key != NULL) grab.key = slice_of(rows[i].key);
        struct grab_answer answer;
        assert_same_verdict(stage_grab(engine, &grab, &answer), rows[i].want, what, i);
    }
}

/* Which verdict wins when several could. One sale of 3, at most 2 units a grab, one grab each, open on [1000, 2000). */
static void grab_verdicts_follow_precedence(void **state)
{
    (void)state;
    struct engine *engine = stage_open(100);
    struct sale_terms terms = stage_terms();
    terms.units_per_grab_max = 2;
    terms.opens_ms = 1000;
    terms.closes_ms = 2000;
    uint64_t id = stage_sale(engine, &terms, 3);

    static const struct grab_row before[] = {
        { 0, "ann", NULL, 1, VERDICT_NOT_OPEN },      { 999, "ann", NULL, 9, VERDICT_NOT_OPEN },
        { 1000, "ann", NULL, 3, VERDICT_OVER_LIMIT }, { 1000, "ann", "k", 2, VERDICT_WON },
        { 1001, "ann", NULL, 3, VERDICT_OVER_LIMIT }, { 1001, "ann", NULL, 1, VERDICT_ALREADY_WON },
        { 1002, "bob", NULL, 2, VERDICT_SOLD_OUT },   { 1003, "ann", NULL, 2, VERDICT_ALREADY_WON },
        { 1004, "ann", "k", 2, VERDICT_REPEATED },    { 1004, "ann", "k", 1, VERDICT_KEY_REUSED },
        { 1004, "ann", "k", 3, VERDICT_KEY_REUSED },  { 1004, "ann", "l", 2, VERDICT_ALREADY_WON },
    };
    run_script(engine, id, "open", ROWS(before));

    assert_int_equal(stage_switch(engine, id, DECISION_SALE_PAUSED, 1100), VERDICT_DONE);
    static const struct grab_row paused[] = {
        { 1100, "bob", NULL, 9, VERDICT_PAUSED },
        { 1100, "ann", NULL, 1, VERDICT_PAUSED },
        { 1100, "ann", "k", 2, VERDICT_REPEATED },
        { 1100, "ann", "k", 1, VERDICT_KEY_REUSED },
    };
    run_script(engine, id, "paused", ROWS(paused));

    assert_int_equal(stage_switch(engine, id, DECISION_SALE_RESUMED, 1200), VERDICT_DONE);
    static const struct grab_row resumed[] = {
        { 1999, "bob", NULL, 1, VERDICT_WON },         { 1999, "cat", NULL, 1, VERDICT_SOLD_OUT },
        { 1999, "bob", NULL, 1, VERDICT_ALREADY_WON }, { 2000, "cat", NULL, 9, VERDICT_CLOSED },
        { 2000, "ann", NULL, 1, VERDICT_CLOSED },      { 2000, "ann", "k", 2, VERDICT_REPEATED },
        { 2000, "ann", "k", 1, VERDICT_KEY_REUSED },
    };
    run_script(engine, id, "to the end", ROWS(resumed));
    engine_close(engine);
}

static void closed_by_its_seller_comes_before_not_open_and_paused(void **state)
{
    (void)state;
    struct engine *engine = stage_open(100);
    struct sale_terms terms = stage_terms();
    terms.opens_ms = 1000;
    uint64_t id = stage_sale(engine, &terms, 3);
    assert_int_equal(stage_switch(engine, id, DECISION_SALE_PAUSED, 10), VERDICT_DONE);
    assert_int_equal(stage_buy(engine, id, "ann", 10), VERDICT_NOT_OPEN);
    assert_int_equal(stage_switch(engine, id, DECISION_SALE_CLOSED, 11), VERDICT_DONE);
    assert_int_equal(stage_buy(engine, id, "ann", 11), VERDICT_CLOSED);
    engine_close(engine);
}

static void a_sale_nobody_made_does_not_exist(void **state)
{
    (void)state;
    struct engine *engine = stage_open(100);
    struct sale_terms terms = stage_terms();
    uint64_t id = stage_sale(engine, &terms, 3);
    uint64_t others[] = { 0, id + 1, id + SALES_OPEN_MAX, UINT64_MAX, UINT64_MAX - SALES_OPEN_MAX + 1 };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_int_equal(stage_buy(engine, others[i], "ann", 1), VERDICT_NO_SUCH_SALE);
    engine_close(engine);
}

static void malformed_grabs_are_refused_before_anything_else(void **state)
{
    (void)state;
    struct engine *engine = stage_open(100);
    struct sale_terms terms = stage_terms();
    uint64_t id = stage_sale(engine, &terms, 3);
    char text[65];
    memset(text, 'x', sizeof text);
    struct grab good = { .sale_id = id, .buyer = SLICE("ann"), .units = 1, .now_ms = 1 };
    struct grab bad[5] = { good, good, good, good, good };
    bad[0].units = 0;
    bad[1].buyer = (struct slice){ text, 65 };
    bad[2].key = (struct slice){ text, 65 };
    bad[3].buyer = SLICE("a\0b");
    bad[4].key = SLICE("a\0b");
    for (size_t i = 0; i < 5; i++) {
        struct grab_answer answer;
        assert_same_verdict(stage_grab(engine, &bad[i], &answer), VERDICT_BAD_INPUT, "malformed", i);
    }
    good.buyer = good.key = (struct slice){ text, 64 };
    struct grab_answer answer;
    assert_int_equal(stage_grab(engine, &good, &answer), VERDICT_WON);
    assert_int_equal(strlen(answer.order.buyer), 64);
    assert_int_equal(strlen(answer.order.key), 64);
    engine_close(engine);
}

/* Three grabs each, of up to 2 units, out of 100. */
static void a_buyer_wins_as_often_as_the_sale_allows(void **state)
{
    (void)state;
    struct engine *engine = stage_open(100);
    struct sale_terms terms = stage_terms();
    terms.units_per_grab_max = 2;
    terms.grabs_per_buyer_max = 3;
    uint64_t id = stage_sale(engine, &terms, 100);
    static const struct grab_row rows[] = {
        { 1, "ann", NULL, 2, VERDICT_WON },     { 1, "ann", "k", 1, VERDICT_WON },
        { 2, "ann", "k", 1, VERDICT_REPEATED }, { 2, "bob", "k", 1, VERDICT_WON },
        { 2, "ann", "l", 2, VERDICT_WON },      { 3, "ann", NULL, 1, VERDICT_ALREADY_WON },
        { 3, "Ann", NULL, 1, VERDICT_WON },     { 3, "ann", "m", 1, VERDICT_ALREADY_WON },
        { 3, "ann", "k", 1, VERDICT_REPEATED }, { 3, "bob", "k", 2, VERDICT_KEY_REUSED },
    };
    run_script(engine, id, "three each", ROWS(rows));
    engine_close(engine);
}

/* The order that already-won names is the newest; the one that a repeat names is the one of its key. */
static void answers_name_the_right_order(void **state)
{
    (void)state;
    struct engine *engine = stage_open(100);
    struct sale_terms terms = stage_terms();
    terms.grabs_per_buyer_max = 2;
    terms.price = 250;
    terms.pay_within_s = 60;
    uint64_t id = stage_sale(engine, &terms, 10);
    struct grab grab = { .sale_id = id, .buyer = SLICE("ann"), .key = SLICE("first"), .units = 1, .now_ms = 5 };
    struct grab_answer first, second, answer;
    assert_int_equal(stage_grab(engine, &grab, &first), VERDICT_WON);
    struct order want = { .no = 2,
                          .sale_id = id,
                          .buyer = "ann",
                          .key = "first",
                          .units = 1,
                          .amount = 250,
                          .state = ORDER_HELD,
                          .won_ms = 5,
                          .pay_by_ms = 60005 };
    assert_same_order(&first.order, &want);
    assert_int_equal(first.available, 9);

    grab.key = SLICE("");
    grab.now_ms = 6;
    assert_int_equal(stage_grab(engine, &grab, &second), VERDICT_WON);
    assert_int_equal(second.available, 8);
    grab.now_ms = 7;
    assert_int_equal(stage_grab(engine, &grab, &answer), VERDICT_ALREADY_WON);
    assert_same_order(&answer.order, &second.order);
    grab.key = SLICE("first");
    assert_int_equal(stage_grab(engine, &grab, &answer), VERDICT_REPEATED);
    assert_same_order(&answer.order, &first.order);
    assert_int_equal(answer.available, 8);
    engine_close(engine);
}

static void without_a_time_to_pay_a_win_is_paid_at_once(void **state)
{
    (void)state;
    struct engine *engine = stage_open(100);
    struct sale_terms terms = stage_terms();
    uint64_t id = stage_sale(engine, &terms, 2);
    struct grab grab = { .sale_id = id, .buyer = SLICE("ann"), .units = 1, .now_ms = 5 };
    struct grab_answer answer;
    assert_int_equal(stage_grab(engine, &grab, &answer), VERDICT_WON);
    assert_int_equal(answer.order.state, ORDER_PAID);
    assert_int_equal(answer.order.pay_by_ms, 0);
    assert_int_equal(answer.order.amount, -1);
    struct sale sale = stage_look(engine, id);
    assert_int_equal(sale.counts.sold, 1);
    assert_int_equal(sale.counts.held, 0);

    /* From now on a win is a hold; what was paid stays paid. */
    terms.pay_within_s = 1;
    assert_int_equal(stage_change(engine, id, &terms, 6), VERDICT_DONE);
    grab.buyer = SLICE("bob");
    assert_int_equal(stage_grab(engine, &grab, &answer), VERDICT_WON);
    assert_int_equal(answer.order.state, ORDER_HELD);
    assert_int_equal(answer.order.won_ms, 6);
    assert_int_equal(answer.order.pay_by_ms, 1006);
    sale = stage_look(engine, id);
    assert_int_equal(sale.counts.sold, 1);
    assert_int_equal(sale.counts.held, 1);
    engine_close(engine);
}

static void a_refusal_with_a_key_is_decided_anew(void **state)
{
    (void)state;
    struct engine *engine = stage_open(100);
    struct sale_terms terms = stage_terms();
    terms.units_per_grab_max = 2;
    uint64_t id = stage_sale(engine, &terms, 1);
    static const struct grab_row short_of_stock[] = { { 1, "ann", "k", 2, VERDICT_SOLD_OUT } };
    run_script(engine, id, "refused", ROWS(short_of_stock));
    assert_int_equal(stage_stock(engine, id, 1, 2), VERDICT_DONE);
    static const struct grab_row restocked[] = { { 3, "ann", "k", 2, VERDICT_WON }, { 3, "ann", "k", 2, VERDICT_REPEATED } };
    run_script(engine, id, "anew", ROWS(restocked));
    engine_close(engine);
}

static void keys_are_of_a_buyer_in_a_sale(void **state)
{
    (void)state;
    struct engine *engine = stage_open(100);
    struct sale_terms terms = stage_terms();
    uint64_t shoes = stage_sale(engine, &terms, 5);
    stage_rename(&terms, "hats");
    uint64_t hats = stage_sale(engine, &terms, 5);
    static const struct grab_row rows[] = { { 1, "ann", "k", 1, VERDICT_WON }, { 1, "bob", "k", 1, VERDICT_WON } };
    run_script(engine, shoes, "shoes", ROWS(rows));
    run_script(engine, hats, "hats", ROWS(rows));
    /* Where one text ends and the next begins matters. */
    static const struct grab_row joined[] = { { 1, "annk", NULL, 1, VERDICT_WON }, { 1, "an", "nk", 1, VERDICT_WON } };
    run_script(engine, shoes, "joined", ROWS(joined));
    engine_close(engine);
}

/* Sold out is never for good: what comes back or is added is sold again (P1, no undersell). */
static void restock_after_sold_out_sells_again(void **state)
{
    (void)state;
    struct engine *engine = stage_open(100);
    struct sale_terms terms = stage_terms();
    terms.units_per_grab_max = 3;
    uint64_t id = stage_sale(engine, &terms, 1);
    static const struct grab_row first[] = { { 1, "ann", NULL, 1, VERDICT_WON }, { 1, "bob", NULL, 1, VERDICT_SOLD_OUT } };
    run_script(engine, id, "first", ROWS(first));
    assert_int_equal(stage_stock(engine, id, 2, 2), VERDICT_DONE);
    static const struct grab_row second[] = {
        { 3, "bob", NULL, 3, VERDICT_SOLD_OUT }, { 3, "bob", NULL, 1, VERDICT_WON },
        { 3, "cat", NULL, 2, VERDICT_SOLD_OUT }, { 3, "cat", NULL, 1, VERDICT_WON },
        { 3, "dan", NULL, 1, VERDICT_SOLD_OUT }, { 3, "ann", NULL, 1, VERDICT_ALREADY_WON },
    };
    run_script(engine, id, "second", ROWS(second));
    struct sale sale = stage_look(engine, id);
    assert_int_equal(sale.counts.offered, 3);
    assert_int_equal(sale.counts.sold, 3);
    engine_close(engine);
}

static void open_admission_names_buyers_by_claim_number(void **state)
{
    (void)state;
    struct engine *engine = stage_open(100);
    struct sale_terms terms = stage_terms();
    terms.admission = ADMISSION_OPEN;
    uint64_t id = stage_sale(engine, &terms, 4);
    struct grab grab = { .sale_id = id, .units = 1, .now_ms = 1 };
    static const struct {
        const char *key, *buyer;
        enum verdict want;
    } rows[] = {
        { NULL, "claim:1", VERDICT_WON },       { NULL, "claim:2", VERDICT_WON },  { "abc", "key:abc", VERDICT_WON },
        { "abc", "key:abc", VERDICT_REPEATED }, { NULL, "claim:4", VERDICT_WON },  { NULL, NULL, VERDICT_SOLD_OUT },
        { "abc", "key:abc", VERDICT_REPEATED }, { "xyz", NULL, VERDICT_SOLD_OUT },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct grab_answer answer;
        grab.key = rows[i].key == NULL ? SLICE("") : slice_of(rows[i].key);
        assert_same_verdict(stage_grab(engine, &grab, &answer), rows[i].want, "open admission", i);
        if (rows[i].buyer != NULL) assert_string_equal(answer.order.buyer, rows[i].buyer);
    }
    engine_close(engine);
}

static void a_nameless_grab_of_a_login_sale_wins_nothing(void **state)
{
    (void)state;
    struct engine *engine = stage_open(100);
    struct sale_terms terms = stage_terms();
    uint64_t id = stage_sale(engine, &terms, 1);
    static const struct grab_row rows[] = {
        { 1, NULL, NULL, 1, VERDICT_BUSY }, { 1, NULL, "k", 1, VERDICT_BUSY }, { 1, "ann", NULL, 1, VERDICT_WON },
        { 1, NULL, NULL, 1, VERDICT_BUSY }, { 1, NULL, "k", 1, VERDICT_BUSY },
    };
    run_script(engine, id, "nameless", ROWS(rows));
    engine_close(engine);
}

static void full_memory_is_busy_and_not_sold_out(void **state)
{
    (void)state;
    struct engine *engine = stage_open(2);
    struct sale_terms terms = stage_terms();
    uint64_t id = stage_sale(engine, &terms, 3);
    static const struct grab_row rows[] = {
        { 1, "ann", NULL, 1, VERDICT_WON },     { 1, "bob", "k", 1, VERDICT_WON },
        { 1, "cat", NULL, 1, VERDICT_BUSY },    { 1, "ann", NULL, 1, VERDICT_ALREADY_WON },
        { 1, "bob", "k", 1, VERDICT_REPEATED },
    };
    run_script(engine, id, "full", ROWS(rows));
    assert_int_equal(stage_look(engine, id).counts.available, 1);
    engine_close(engine);
}

/* Threads read the clock before they queue for the lock. */
static void a_time_read_too_early_does_not_go_back(void **state)
{
    (void)state;
    struct engine *engine = stage_open(10);
    struct sale_terms terms = stage_terms();
    terms.opens_ms = 1000;
    terms.closes_ms = 2000;
    uint64_t id = stage_sale(engine, &terms, 5);
    assert_int_equal(stage_buy(engine, id, "ann", 1500), VERDICT_WON);
    struct grab grab = { .sale_id = id, .buyer = SLICE("bob"), .units = 1, .now_ms = 900 };
    struct grab_answer answer;
    assert_int_equal(stage_grab(engine, &grab, &answer), VERDICT_WON);
    assert_int_equal(answer.order.won_ms, 1500);
    assert_int_equal(engine_time(engine), 1500);
    engine_close(engine);
}

/* As the ticket door asks: whoever has won hears so before anything else is wrong. */
static void won_before_comes_first_where_it_is_asked_to(void **state)
{
    (void)state;
    struct engine *engine = stage_open(100);
    struct sale_terms terms = stage_terms();
    terms.units_per_grab_max = 2;
    terms.closes_ms = 2000;
    uint64_t id = stage_sale(engine, &terms, 3);
    static const struct grab_row rows[] = {
        { 10, "ann", NULL, 3, VERDICT_OVER_LIMIT },    { 10, "ann", NULL, 2, VERDICT_WON },
        { 10, "ann", NULL, 3, VERDICT_ALREADY_WON },   { 10, "bob", NULL, 3, VERDICT_OVER_LIMIT },
        { 10, "bob", NULL, 2, VERDICT_SOLD_OUT },      { 10, "bob", NULL, 1, VERDICT_WON },
        { 10, "cat", NULL, 1, VERDICT_SOLD_OUT },      { 10, "cat", NULL, 3, VERDICT_OVER_LIMIT },
        { 2000, "ann", NULL, 1, VERDICT_ALREADY_WON }, { 2000, "cat", NULL, 1, VERDICT_CLOSED },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct grab grab = { .sale_id = id,
                                   .buyer = slice_of(rows[i].buyer),
                                   .units = rows[i].units,
                                   .now_ms = rows[i].at_ms,
                                   .won_first = true };
        struct grab_answer answer;
        enum verdict early = engine_refuse_early(engine, &grab);
        if (early != VERDICT_DONE) assert_same_verdict(early, rows[i].want, "early", i);
        assert_same_verdict(stage_grab(engine, &grab, &answer), rows[i].want, "won first", i);
    }
    engine_close(engine);
}

/* A backend has admitted its buyers itself. */
static void a_trusted_grab_is_asked_for_no_token(void **state)
{
    (void)state;
    struct engine *engine = stage_open(100000);
    struct sale_terms terms = stage_terms();
    terms.admission = ADMISSION_TOKEN;
    uint64_t id = stage_sale(engine, &terms, 1);
    struct grab grab = { .sale_id = id, .buyer = SLICE("shop:ann"), .units = 1, .now_ms = 10 };
    struct grab_answer answer;
    assert_int_equal(engine_refuse_early(engine, &grab), VERDICT_TOKEN_REQUIRED);
    grab.trusted = true;
    assert_int_equal(engine_refuse_early(engine, &grab), VERDICT_DONE);
    assert_int_equal(stage_grab(engine, &grab, &answer), VERDICT_WON);
    assert_int_equal(answer.order.token_nonce, 0);
    grab.buyer = SLICE("shop:bob");
    assert_int_equal(engine_refuse_early(engine, &grab), VERDICT_SOLD_OUT);
    engine_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grab_verdicts_follow_precedence),
        cmocka_unit_test(closed_by_its_seller_comes_before_not_open_and_paused),
        cmocka_unit_test(a_sale_nobody_made_does_not_exist),
        cmocka_unit_test(malformed_grabs_are_refused_before_anything_else),
        cmocka_unit_test(a_buyer_wins_as_often_as_the_sale_allows),
        cmocka_unit_test(answers_name_the_right_order),
        cmocka_unit_test(without_a_time_to_pay_a_win_is_paid_at_once),
        cmocka_unit_test(a_refusal_with_a_key_is_decided_anew),
        cmocka_unit_test(keys_are_of_a_buyer_in_a_sale),
        cmocka_unit_test(restock_after_sold_out_sells_again),
        cmocka_unit_test(open_admission_names_buyers_by_claim_number),
        cmocka_unit_test(a_nameless_grab_of_a_login_sale_wins_nothing),
        cmocka_unit_test(full_memory_is_busy_and_not_sold_out),
        cmocka_unit_test(a_time_read_too_early_does_not_go_back),
        cmocka_unit_test(won_before_comes_first_where_it_is_asked_to),
        cmocka_unit_test(a_trusted_grab_is_asked_for_no_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
