/* Payments for orders that memory has let go of: the ledger speaks for them, and the money goes back, once. */
#include "stage.h"

#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define LATER_MS 100000
#define UNITS 2
#define STOCK 5

static struct sale_terms hold_terms(void)
{
    struct sale_terms terms = stage_terms();
    terms.price = 100;
    terms.units_per_grab_max = UNITS;
    terms.pay_within_s = 60;
    return terms;
}

static uint64_t win(struct engine *engine, uint64_t sale_id, const char *buyer, uint64_t now_ms)
{
    struct grab grab = { .sale_id = sale_id, .buyer = slice_of(buyer), .units = UNITS, .now_ms = now_ms };
    struct grab_answer answer;
    assert_int_equal(stage_grab(engine, &grab, &answer), VERDICT_WON);
    return answer.order.no;
}

/* An engine with a closed sale, and an order in it that has expired. */
static struct engine *start(uint64_t *sale_id, uint64_t *no)
{
    struct engine *engine = stage_open(10);
    struct sale_terms terms = hold_terms();
    *sale_id = stage_sale(engine, &terms, STOCK);
    *no = win(engine, *sale_id, "ann", 1000);
    assert_int_equal(stage_expire(engine, LATER_MS), *no);
    assert_int_equal(stage_switch(engine, *sale_id, DECISION_SALE_CLOSED, LATER_MS), VERDICT_DONE);
    return engine;
}

/* A refund of an order that memory has let go of: little is known, and that much is looked at. */
static void a_refund_of_the_past_must_be_possible(void **state)
{
    (void)state;
    uint64_t sale_id, no;
    struct engine *engine = start(&sale_id, &no);
    struct sale_terms terms = hold_terms();
    stage_rename(&terms, "hats");
    uint64_t other_no = win(engine, stage_sale(engine, &terms, STOCK), "bob", LATER_MS);
    while (!engine_forget(engine, sale_id, 1, LATER_MS)) continue;
    struct decision good = {
        .seq = engine_seq(engine) + 1, .at_ms = LATER_MS, .kind = DECISION_REFUND_DUE, .sale_id = sale_id
    };
    good.ended.order_no = no;
    good.ended.units = UNITS;
    good.ended.ref = SLICE("p1");
#define PAST_OBJECTED(change)                                                                                               \
    do {                                                                                                                    \
        struct decision d = good;                                                                                           \
        change;                                                                                                             \
        if (engine_objection(engine, &d) == NULL) fail_msg("believed with %s", #change);                                    \
    } while (0)
    PAST_OBJECTED(d.sale_id = 0);
    PAST_OBJECTED(d.sale_id += 2);
    PAST_OBJECTED(d.ended.order_no = 0);
    PAST_OBJECTED(d.ended.order_no = d.seq);
    PAST_OBJECTED(d.ended.order_no = other_no);
    PAST_OBJECTED(d.ended.units = 0);
    PAST_OBJECTED(d.ended.units = STOCK_MAX + 1);
    PAST_OBJECTED(d.ended.ref = SLICE(""));
    PAST_OBJECTED(d.kind = DECISION_PAID);
    PAST_OBJECTED(d.kind = DECISION_EXPIRED);
    assert_null(engine_objection(engine, &good));
    engine_apply(engine, &good);
    engine_close(engine);
}

/* The digest does not depend on whether memory has let go of the sale. */
static void a_payment_of_the_past_is_due_back_once(void **state)
{
    (void)state;
    uint64_t sale_id, no, kept_id, kept_no;
    struct engine *engine = start(&sale_id, &no), *keeps = start(&kept_id, &kept_no);
    struct order filed = stage_order(engine, no), order = filed;
    struct payment payment = { .order_no = no, .ref = SLICE("p1"), .amount = 200, .now_ms = LATER_MS };
    struct decision decision, same;
    assert_int_equal(engine_decide_past_payment(engine, &payment, SLICE(""), &decision, &order), VERDICT_NO_SUCH_ORDER);
    while (!engine_forget(engine, sale_id, 1, LATER_MS)) continue;
    assert_int_equal(engine_decide_payment(engine, &payment, &decision, &order), VERDICT_NO_SUCH_ORDER);

    order = filed;
    assert_int_equal(engine_decide_past_payment(engine, &payment, SLICE(""), &decision, &order), VERDICT_DONE);
    assert_int_equal(order.state, ORDER_REFUND_DUE);
    assert_int_equal(engine_decide_payment(keeps, &payment, &same, &order), VERDICT_DONE);
    assert_int_equal(same.kind, DECISION_REFUND_DUE);
    assert_null(engine_objection(engine, &decision));
    assert_null(engine_objection(keeps, &decision));
    engine_apply(engine, &decision);
    engine_apply(keeps, &decision);
    assert_int_equal(engine_digest(engine), engine_digest(keeps));
    assert_int_equal(stage_order(keeps, no).state, ORDER_REFUND_DUE);

    /* The ledger has not filed it yet, or has: no second refund, by whichever payment. */
    static const struct {
        const char *filed_ref, *ref;
        enum verdict want;
    } script[] = {
        { "", "p1", VERDICT_REPEATED },
        { "", "p2", VERDICT_ALREADY_PAID },
        { "p1", "p1", VERDICT_REPEATED },
        { "p1", "p2", VERDICT_ALREADY_PAID },
    };
    for (size_t i = 0; i < COUNT(script); i++) {
        order = filed;
        if (script[i].filed_ref[0] != '\0') order.state = ORDER_REFUND_DUE;
        payment.ref = slice_of(script[i].ref);
        assert_same_verdict(engine_decide_past_payment(engine, &payment, slice_of(script[i].filed_ref), &decision, &order),
                            script[i].want, "past", i);
        assert_int_equal(order.state, ORDER_REFUND_DUE);
    }
    /* In replay a sale may be there that the server had let go of, and had told a refund of twice. */
    decision = same;
    decision.seq = engine_seq(keeps) + 1;
    decision.ended.ref = SLICE("p2");
    assert_null(engine_objection(keeps, &decision));
    engine_apply(keeps, &decision);
    payment.ref = SLICE("p1");
    assert_int_equal(engine_decide_payment(keeps, &payment, &decision, &order), VERDICT_REPEATED);
    engine_close(engine);
    engine_close(keeps);
}

static void what_the_past_paid_is_paid(void **state)
{
    (void)state;
    struct engine *engine = stage_open(10);
    struct decision decision;
    static const struct {
        enum order_state state;
        const char *taken;
        int64_t amount;
        enum verdict want;
    } script[] = {
        { ORDER_PAID, "p1", 200, VERDICT_REPEATED },
        { ORDER_PAID, "p2", 200, VERDICT_ALREADY_PAID },
        { ORDER_PAID, "", 200, VERDICT_ALREADY_PAID },
        { ORDER_PAID, "p1", 1, VERDICT_AMOUNT_MISMATCH },
        { ORDER_CANCELLED, "", 200, VERDICT_DONE },
        { ORDER_EXPIRED, "", 200, VERDICT_DONE },
        { ORDER_HELD, "", 200, VERDICT_NO_SUCH_ORDER },
        { ORDER_REFUND_DUE, "p1", 200, VERDICT_REPEATED },
        { ORDER_REFUND_DUE, "p2", 200, VERDICT_ALREADY_PAID },
    };
    for (size_t i = 0; i < COUNT(script); i++) {
        struct order order = { .no = 7, .sale_id = 3, .units = 2, .amount = 200, .state = script[i].state };
        struct payment payment = { .order_no = 7, .ref = SLICE("p1"), .amount = script[i].amount };
        enum verdict got = engine_decide_past_payment(engine, &payment, slice_of(script[i].taken), &decision, &order);
        assert_same_verdict(got, script[i].want, "past", i);
    }
    engine_close(engine);
}

/* Numbers that fall into one place of whatever table there is. One that is not filed is never forgotten for another, nor one
 * that was filed a moment ago: somebody may still hold the row as it was before. */
static void no_refund_is_forgotten_before_everyone_can_know_it(void **state)
{
    (void)state;
    enum { MOST = 1000, PLACES_MIN = 4 };
    const uint64_t apart = UINT64_C(1) << 32;
    struct engine *engine = stage_open(10);
    struct payment payment = { .ref = SLICE("p1"), .amount = 200, .now_ms = LATER_MS };
    struct decision decision;
    uint64_t taken = 0, seq_first = engine_seq(engine) + 1;
    for (enum verdict verdict = VERDICT_DONE; verdict == VERDICT_DONE && taken < MOST;) {
        payment.order_no = 7 + taken * apart;
        struct order order = { .no = payment.order_no, .sale_id = 3, .units = 2, .amount = 200, .state = ORDER_EXPIRED };
        verdict = engine_decide_past_payment(engine, &payment, SLICE(""), &decision, &order);
        if (verdict == VERDICT_DONE) engine_apply(engine, &decision);
        if (verdict == VERDICT_DONE) taken++;
        if (verdict != VERDICT_DONE) assert_int_equal(verdict, VERDICT_BUSY);
        for (uint64_t i = 0; i < taken; i++) {
            struct payment other = { .order_no = 7 + i * apart, .ref = SLICE("p2"), .amount = 200, .now_ms = LATER_MS };
            order = (struct order){ .no = other.order_no, .sale_id = 3, .units = 2, .amount = 200, .state = ORDER_EXPIRED };
            assert_int_equal(engine_decide_past_payment(engine, &other, SLICE(""), &decision, &order), VERDICT_ALREADY_PAID);
        }
    }
    assert_true(taken >= PLACES_MIN && taken < MOST);

    static const struct {
        uint64_t filed, later_ms;
        enum verdict want;
    } script[] = {
        { 0, 60000, VERDICT_BUSY }, { 1, 0, VERDICT_BUSY },     { 1, 59999, VERDICT_BUSY },
        { 1, 60000, VERDICT_DONE }, { 1, 60000, VERDICT_BUSY }, { 2, 60000, VERDICT_DONE },
    };
    for (size_t i = 0; i < COUNT(script); i++) {
        engine_filed(engine, seq_first - 1 + script[i].filed);
        payment.order_no = 7 + taken * apart;
        payment.now_ms = LATER_MS + script[i].later_ms;
        struct order order = { .no = payment.order_no, .sale_id = 3, .units = 2, .amount = 200, .state = ORDER_EXPIRED };
        enum verdict got = engine_decide_past_payment(engine, &payment, SLICE(""), &decision, &order);
        assert_same_verdict(got, script[i].want, "filed", i);
        if (got != VERDICT_DONE) continue;
        engine_apply(engine, &decision);
        taken++;
    }
    engine_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_refund_of_the_past_must_be_possible),
        cmocka_unit_test(a_payment_of_the_past_is_due_back_once),
        cmocka_unit_test(what_the_past_paid_is_paid),
        cmocka_unit_test(no_refund_is_forgotten_before_everyone_can_know_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
