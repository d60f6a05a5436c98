/* Orders that were given back stay in memory while their sale is open: one buyer has no more of them than others can bear.
 */
#include "stage.h"

#define WON_MS 1000
#define PAY_BY_MS 61000
#define RETURNS 16

static struct sale_terms hold_terms(uint32_t grabs_per_buyer_max)
{
    struct sale_terms terms = stage_terms();
    terms.pay_within_s = 60;
    terms.grabs_per_buyer_max = grabs_per_buyer_max;
    return terms;
}

static uint64_t win(struct engine *engine, uint64_t sale_id, const char *buyer, uint64_t now_ms)
{
    assert_same_verdict(stage_buy(engine, sale_id, buyer, now_ms), VERDICT_WON, buyer, (size_t)now_ms);
    return engine_seq(engine);
}

static void give_back(struct engine *engine, uint64_t no, enum canceller by, const char *name)
{
    struct cancel cancel = {
        .order_no = no, .by = by, .name = slice_of(name), .reason = SLICE("why not"), .now_ms = WON_MS
    };
    struct order order;
    assert_int_equal(stage_cancel(engine, &cancel, &order), VERDICT_DONE);
}

static enum order_state pay(struct engine *engine, uint64_t no, uint64_t now_ms)
{
    struct payment payment = { .order_no = no, .ref = SLICE("p"), .amount = -1, .now_ms = now_ms };
    struct order order;
    assert_int_equal(stage_pay(engine, &payment, &order), VERDICT_DONE);
    return order.state;
}

/* One unit and one buyer do not fill the memory for all. */
static void who_gives_back_without_end_wins_no_more(void **state)
{
    (void)state;
    struct engine *engine = stage_open(RETURNS + 2);
    struct sale_terms terms = hold_terms(1);
    uint64_t id = stage_sale(engine, &terms, 1);
    stage_rename(&terms, "hats");
    uint64_t other_id = stage_sale(engine, &terms, 10);
    for (int i = 0; i < RETURNS; i++) give_back(engine, win(engine, id, "eve", WON_MS), CANCELLER_BUYER, "eve");
    for (int i = 0; i < 100; i++) assert_int_equal(stage_buy(engine, id, "eve", WON_MS), VERDICT_TOO_MANY_RETURNS);
    win(engine, other_id, "eve", WON_MS);
    win(engine, id, "ann", WON_MS);
    engine_close(engine);
}

/* However it came back: the memory it takes is the same. */
static void every_way_of_coming_back_counts(void **state)
{
    (void)state;
    struct engine *engine = stage_open(100);
    struct sale_terms terms = hold_terms(RETURNS);
    uint64_t id = stage_sale(engine, &terms, 100), first = win(engine, id, "eve", WON_MS);
    for (int i = 1; i < RETURNS; i++) win(engine, id, "eve", WON_MS);
    assert_int_equal(stage_buy(engine, id, "eve", WON_MS), VERDICT_ALREADY_WON);
    give_back(engine, first, CANCELLER_BUYER, "eve");
    give_back(engine, first + 1, CANCELLER_SELLER, "sam");
    give_back(engine, first + 2, CANCELLER_ADMIN, "root");
    assert_int_equal(pay(engine, first, WON_MS), ORDER_REFUND_DUE);
    for (int i = 3; i < RETURNS - 1; i++) assert_int_not_equal(stage_expire(engine, PAY_BY_MS), 0);
    uint64_t again = win(engine, id, "eve", PAY_BY_MS);
    assert_int_not_equal(stage_expire(engine, PAY_BY_MS), 0);
    assert_int_equal(stage_buy(engine, id, "eve", PAY_BY_MS), VERDICT_TOO_MANY_RETURNS);
    assert_int_equal(stage_order(engine, again).state, ORDER_HELD); /* what they have is theirs */
    assert_int_equal(pay(engine, again, PAY_BY_MS), ORDER_PAID);
    engine_close(engine);
}

/* After "already won", before "sold out"; a key that has won is answered as ever. */
static void too_many_returns_have_their_place_among_the_verdicts(void **state)
{
    (void)state;
    struct engine *engine = stage_open(100);
    struct sale_terms terms = hold_terms(1);
    uint64_t id = stage_sale(engine, &terms, 1);
    struct grab keyed = { .sale_id = id, .buyer = SLICE("eve"), .key = SLICE("k"), .units = 1, .now_ms = WON_MS };
    struct grab_answer answer;
    assert_int_equal(stage_grab(engine, &keyed, &answer), VERDICT_WON);
    give_back(engine, answer.order.no, CANCELLER_BUYER, "eve");
    for (int i = 1; i < RETURNS - 1; i++) give_back(engine, win(engine, id, "eve", WON_MS), CANCELLER_BUYER, "eve");
    uint64_t last = win(engine, id, "eve", WON_MS);
    assert_int_equal(stage_buy(engine, id, "eve", WON_MS), VERDICT_ALREADY_WON);
    give_back(engine, last, CANCELLER_BUYER, "eve");
    assert_int_equal(stage_grab(engine, &keyed, &answer), VERDICT_REPEATED);
    keyed.units = 2;
    assert_int_equal(stage_grab(engine, &keyed, &answer), VERDICT_KEY_REUSED);

    struct grab grab = { .sale_id = id, .buyer = SLICE("eve"), .units = 1, .now_ms = WON_MS, .turned_away = true };
    assert_int_equal(engine_refuse_early(engine, &grab), VERDICT_DONE);
    assert_int_equal(stage_grab(engine, &grab, &answer), VERDICT_TOO_MANY_RETURNS);
    win(engine, id, "ann", WON_MS);
    assert_int_equal(engine_refuse_early(engine, &grab), VERDICT_DONE);
    assert_int_equal(stage_grab(engine, &grab, &answer), VERDICT_TOO_MANY_RETURNS);
    assert_int_equal(stage_buy(engine, id, "bob", WON_MS), VERDICT_SOLD_OUT);
    assert_int_equal(stage_switch(engine, id, DECISION_SALE_PAUSED, WON_MS), VERDICT_DONE);
    assert_int_equal(stage_buy(engine, id, "eve", WON_MS), VERDICT_PAUSED);
    engine_close(engine);
}

static void what_a_late_payment_takes_again_counts_no_more(void **state)
{
    (void)state;
    struct engine *engine = stage_open(100);
    struct sale_terms terms = hold_terms(RETURNS);
    uint64_t id = stage_sale(engine, &terms, 100), first = win(engine, id, "eve", WON_MS);
    for (int i = 1; i < RETURNS; i++) win(engine, id, "eve", WON_MS);
    while (stage_expire(engine, PAY_BY_MS) != 0) continue;
    assert_int_equal(stage_buy(engine, id, "eve", PAY_BY_MS), VERDICT_TOO_MANY_RETURNS);
    assert_int_equal(pay(engine, first, PAY_BY_MS), ORDER_PAID);
    uint64_t again = win(engine, id, "eve", PAY_BY_MS);
    give_back(engine, again, CANCELLER_BUYER, "eve");
    assert_int_equal(stage_buy(engine, id, "eve", PAY_BY_MS), VERDICT_TOO_MANY_RETURNS);
    engine_close(engine);
}

/* A sale may let one buyer hold any number at once. More than are counted stay too many. */
static void more_returns_than_are_counted_stay_too_many(void **state)
{
    (void)state;
    enum { HELD = 200 };
    struct engine *engine = stage_open(HELD + 10);
    struct sale_terms terms = hold_terms(HELD);
    uint64_t id = stage_sale(engine, &terms, HELD), first = win(engine, id, "eve", WON_MS);
    for (int i = 1; i < HELD; i++) win(engine, id, "eve", WON_MS);
    while (stage_expire(engine, PAY_BY_MS) != 0) continue;
    assert_int_equal(stage_buy(engine, id, "eve", PAY_BY_MS), VERDICT_TOO_MANY_RETURNS);
    for (uint64_t i = 0; i < HELD - 10; i++) assert_int_equal(pay(engine, first + i, PAY_BY_MS), ORDER_PAID);
    assert_int_equal(stage_buy(engine, id, "eve", PAY_BY_MS), VERDICT_TOO_MANY_RETURNS);
    engine_close(engine);
}

/* From the ledger, in whichever order it gives them. */
static void a_load_knows_what_was_given_back(void **state)
{
    (void)state;
    static const enum order_state states[] = { ORDER_CANCELLED, ORDER_EXPIRED, ORDER_REFUND_DUE };
    for (int returns = RETURNS - 1; returns <= RETURNS; returns++) {
        struct engine *engine = stage_open(100);
        struct sale sale = {
            .id = 7, .seller = "sam", .terms = hold_terms(2), .counts = { 10, 9, 0, 1 }, .orders_made = 20
        };
        assert_int_equal(engine_load_sale(engine, &sale), FAULT_NONE);
        for (int i = 0; i <= returns; i++) {
            uint64_t no = 20 + (uint64_t)(i * 7 % 17);
            enum order_state is = i == 5 ? ORDER_PAID : states[i % 3];
            struct order order = { .no = no, .sale_id = 7, .buyer = "eve", .units = 1, .amount = -1, .state = is };
            order.won_ms = 50;
            order.pay_by_ms = 60050;
            struct slice ref = is == ORDER_PAID || is == ORDER_REFUND_DUE ? SLICE("p") : SLICE("");
            assert_int_equal(engine_load_order(engine, &order, ref), FAULT_NONE);
        }
        engine_load_point(engine, 50, 12345, 9, 500);
        assert_int_equal(stage_buy(engine, 7, "eve", WON_MS), returns < RETURNS ? VERDICT_WON : VERDICT_TOO_MANY_RETURNS);
        engine_close(engine);
    }
}

/* The bound is of the door: what stands in the journal was decided, and only what cannot be is objected to. */
static void replay_believes_a_win_whatever_was_given_back(void **state)
{
    (void)state;
    struct engine *engine = stage_open(100);
    struct sale_terms terms = hold_terms(1);
    uint64_t id = stage_sale(engine, &terms, 3);
    struct grab grab = { .sale_id = id, .buyer = SLICE("eve"), .units = 1, .now_ms = WON_MS };
    struct grab_answer answer;
    struct decision won;
    for (int i = 0; i < RETURNS; i++) {
        assert_int_equal(engine_decide_grab(engine, &grab, &won, &answer), VERDICT_WON);
        engine_apply(engine, &won);
        give_back(engine, won.seq, CANCELLER_BUYER, "eve");
    }
    won.seq = engine_seq(engine) + 1;
    assert_null(engine_objection(engine, &won));
    const struct asker sam = { .name = SLICE("sam"), .now_ms = WON_MS };
    struct decision withdrawn;
    assert_int_equal(engine_decide_stock(engine, &sam, id, -3, &withdrawn), VERDICT_DONE);
    engine_apply(engine, &withdrawn);
    won.seq++;
    assert_non_null(engine_objection(engine, &won)); /* nothing is left for it */
    engine_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_gives_back_without_end_wins_no_more),
        cmocka_unit_test(every_way_of_coming_back_counts),
        cmocka_unit_test(too_many_returns_have_their_place_among_the_verdicts),
        cmocka_unit_test(what_a_late_payment_takes_again_counts_no_more),
        cmocka_unit_test(more_returns_than_are_counted_stay_too_many),
        cmocka_unit_test(a_load_knows_what_was_given_back),
        cmocka_unit_test(replay_believes_a_win_whatever_was_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
