/* Start-up from a ledger: what was filed comes back as it was, and what could not have been is refused. */
#include "stage.h"

#include <stdio.h>
#include <string.h>

static struct sale filed_sale(void)
{
    struct sale sale = { .id = 7, .seller = "sam", .terms = stage_terms(), .counts = { 10, 5, 3, 2 }, .orders_made = 4 };
    sale.terms.price = 100;
    sale.terms.grabs_per_buyer_max = 2;
    sale.terms.units_per_grab_max = 3;
    return sale;
}

static struct order filed_order(uint64_t no, const char *buyer, const char *key)
{
    struct order order = { .no = no, .sale_id = 7, .units = 1, .amount = 100, .state = ORDER_PAID, .won_ms = 50 };
    snprintf(order.buyer, sizeof order.buyer, "%s", buyer);
    snprintf(order.key, sizeof order.key, "%s", key);
    return order;
}

static struct engine *loaded(void)
{
    struct engine *engine = stage_open(10);
    struct sale sale = filed_sale();
    assert_int_equal(engine_load_sale(engine, &sale), FAULT_NONE);
    assert_int_equal(engine_load_name(engine, SLICE("sam"), SLICE("shoes"), 7), FAULT_NONE);
    assert_int_equal(engine_load_name(engine, SLICE("sam"), SLICE("an old sale"), 3), FAULT_NONE);
    return engine;
}

static void what_was_filed_comes_back(void **state)
{
    (void)state;
    struct engine *engine = loaded();
    struct order paid = filed_order(20, "ann", "k"), held = filed_order(21, "ann", "");
    held.state = ORDER_HELD;
    held.units = 3;
    held.amount = 300;
    held.pay_by_ms = 60050;
    /* Newer before older: the newest is the one that already-won names. */
    assert_int_equal(engine_load_order(engine, &held, SLICE("")), FAULT_NONE);
    assert_int_equal(engine_load_order(engine, &paid, SLICE("")), FAULT_NONE);
    engine_load_point(engine, 30, 12345, 9, 500);

    assert_int_equal(engine_seq(engine), 30);
    assert_int_equal(engine_digest(engine), 12345);
    assert_int_equal(engine_time(engine), 500);
    struct sale want = filed_sale(), got = stage_look(engine, 7);
    assert_same_sale(&got, &want);
    struct order order;
    assert_true(engine_order(engine, 20, &order));
    assert_same_order(&order, &paid);
    assert_true(engine_order(engine, 21, &order));
    assert_same_order(&order, &held);

    struct grab grab = { .sale_id = 7, .buyer = SLICE("ann"), .key = SLICE("k"), .units = 1, .now_ms = 600 };
    struct grab_answer answer;
    assert_int_equal(stage_grab(engine, &grab, &answer), VERDICT_REPEATED);
    assert_same_order(&answer.order, &paid);
    grab.key = SLICE("");
    assert_int_equal(stage_grab(engine, &grab, &answer), VERDICT_ALREADY_WON);
    assert_same_order(&answer.order, &held);
    grab.buyer = SLICE("bob");
    assert_int_equal(stage_grab(engine, &grab, &answer), VERDICT_WON);
    assert_int_equal(answer.order.no, 31);
    assert_int_equal(stage_look(engine, 7).orders_made, 5);
    engine_close(engine);
}

static void names_and_ids_given_before_stay_taken(void **state)
{
    (void)state;
    struct engine *engine = loaded();
    engine_load_point(engine, 30, 1, 9, 500);
    struct sale_terms terms = stage_terms();
    assert_int_equal(stage_create(engine, "sam", &terms, 1, 600), VERDICT_NAME_TAKEN);
    stage_rename(&terms, "an old sale");
    assert_int_equal(stage_create(engine, "sam", &terms, 1, 600), VERDICT_NAME_TAKEN);
    assert_int_equal(engine_sale_by_name(engine, SLICE("sam"), SLICE("an old sale")), 3);
    assert_int_equal(stage_create(engine, "sue", &terms, 1, 600), VERDICT_DONE);
    assert_int_equal(engine_sale_by_name(engine, SLICE("sue"), SLICE("an old sale")), 10);
    engine_close(engine);
}

static void an_id_above_the_point_still_counts(void **state)
{
    (void)state;
    struct engine *engine = loaded();
    engine_load_point(engine, 30, 1, 2, 500); /* a point that knows less than the sales */
    struct sale_terms terms = stage_terms();
    stage_rename(&terms, "hats");
    assert_int_equal(stage_create(engine, "sam", &terms, 1, 600), VERDICT_DONE);
    assert_int_equal(engine_sale_by_name(engine, SLICE("sam"), SLICE("hats")), 8);
    engine_close(engine);
}

#define SALE_DAMAGED(change)                                                                                                \
    do {                                                                                                                    \
        struct sale s = filed_sale();                                                                                       \
        change;                                                                                                             \
        if (engine_load_sale(engine, &s) != FAULT_DAMAGE) fail_msg("loaded with %s", #change);                              \
    } while (0)

static void sales_that_cannot_be_are_damage(void **state)
{
    (void)state;
    struct engine *engine = stage_open(10);
    SALE_DAMAGED(s.id = 0);
    SALE_DAMAGED(s.seller[0] = '\0');
    SALE_DAMAGED(memset(s.seller, 's', sizeof s.seller));
    SALE_DAMAGED(s.counts.available++);
    SALE_DAMAGED(s.counts.held--);
    SALE_DAMAGED(s.counts = ((struct sale_counts){ 1, UINT32_MAX, 2, 0 }));
    SALE_DAMAGED(s.terms.units_per_grab_max = 0);
    SALE_DAMAGED(memset(s.terms.name, 'n', sizeof s.terms.name));
    struct sale sale = filed_sale();
    assert_int_equal(engine_load_sale(engine, &sale), FAULT_NONE);
    SALE_DAMAGED((void)0);
    SALE_DAMAGED(s.id += SALES_OPEN_MAX);
    engine_close(engine);
}

#define ORDER_DAMAGED(change)                                                                                               \
    do {                                                                                                                    \
        struct order o = filed_order(21, "bob", "l");                                                                       \
        change;                                                                                                             \
        if (engine_load_order(engine, &o, SLICE("")) != FAULT_DAMAGE) fail_msg("loaded with %s", #change);                  \
    } while (0)

static void orders_that_cannot_be_are_damage(void **state)
{
    (void)state;
    struct engine *engine = loaded();
    struct order order = filed_order(20, "ann", "k");
    assert_int_equal(engine_load_order(engine, &order, SLICE("")), FAULT_NONE);
    ORDER_DAMAGED(o.no = 0);
    ORDER_DAMAGED(o.no = 20);
    ORDER_DAMAGED(o.sale_id = 8);
    ORDER_DAMAGED(o.sale_id = 0);
    ORDER_DAMAGED(o.units = 0);
    ORDER_DAMAGED(o.units = UINT32_MAX);
    ORDER_DAMAGED(o.amount = 99);
    ORDER_DAMAGED(o.amount = -1);
    ORDER_DAMAGED(o.state = (enum order_state)(ORDER_STATE_LAST + 1));
    ORDER_DAMAGED(o.state = ORDER_CANCELLED); /* it was paid at once */
    ORDER_DAMAGED(o.state = ORDER_HELD);
    ORDER_DAMAGED(o.won_ms = UINT64_MAX);
    ORDER_DAMAGED(o.pay_by_ms = 50);
    ORDER_DAMAGED(o.pay_by_ms = 51);
    ORDER_DAMAGED(o.pay_by_ms = 1);
    ORDER_DAMAGED(o.pay_by_ms = UINT64_MAX);
    ORDER_DAMAGED(o.buyer[0] = '\0');
    ORDER_DAMAGED(memset(o.buyer, 'b', sizeof o.buyer));
    ORDER_DAMAGED(memset(o.key, 'k', sizeof o.key));
    ORDER_DAMAGED(o = filed_order(21, "ann", "k"));

    order = filed_order(22, "ann", "");
    assert_int_equal(engine_load_order(engine, &order, SLICE("")), FAULT_NONE);
    ORDER_DAMAGED(o = filed_order(23, "ann", "")); /* P2: two each */
    order = filed_order(24, "ann", "");
    order.state = ORDER_EXPIRED; /* which is not one of them */
    order.pay_by_ms = 1050;
    assert_int_equal(engine_load_order(engine, &order, SLICE("")), FAULT_NONE);
    engine_close(engine);
}

static void a_payment_is_there_where_the_state_says_so(void **state)
{
    (void)state;
    char text[65];
    memset(text, 'p', sizeof text);
    const struct slice refs[] = { SLICE(""), SLICE("p1"), { text, 64 }, { text, 65 }, { "a\0b", 3 } };
    static const struct {
        enum order_state state;
        bool held_once, good[5];
    } script[] = {
        { ORDER_HELD, true, { true, false, false, false, false } },
        { ORDER_PAID, true, { false, true, true, false, false } },
        { ORDER_PAID, false, { true, false, false, false, false } },
        { ORDER_CANCELLED, true, { true, false, false, false, false } },
        { ORDER_EXPIRED, true, { true, false, false, false, false } },
        { ORDER_REFUND_DUE, true, { false, true, true, false, false } },
        { ORDER_REFUND_DUE, false, { false, false, false, false, false } },
    };
    for (size_t i = 0; i < sizeof script / sizeof script[0]; i++) {
        for (size_t j = 0; j < 5; j++) {
            struct engine *engine = loaded();
            struct order order = filed_order(20, "ann", "");
            order.state = script[i].state;
            order.pay_by_ms = script[i].held_once ? 1050 : 0;
            enum fault want = script[i].good[j] ? FAULT_NONE : FAULT_DAMAGE;
            if (engine_load_order(engine, &order, refs[j]) != want) fail_msg("state %zu, ref %zu", i, j);
            engine_close(engine);
        }
    }
}

/* A payment told again after a restart is known by its ref; what is held expires at its time; who has ended may win. */
static void orders_of_every_state_go_on_after_a_load(void **state)
{
    (void)state;
    static const struct {
        enum order_state state;
        const char *ref;
        enum verdict same, other, grab;
    } script[] = {
        { ORDER_HELD, "", VERDICT_DONE, VERDICT_DONE, VERDICT_ALREADY_WON },
        { ORDER_PAID, "p1", VERDICT_REPEATED, VERDICT_ALREADY_PAID, VERDICT_ALREADY_WON },
        { ORDER_CANCELLED, "", VERDICT_DONE, VERDICT_DONE, VERDICT_WON },
        { ORDER_EXPIRED, "", VERDICT_DONE, VERDICT_DONE, VERDICT_WON },
        { ORDER_REFUND_DUE, "p1", VERDICT_REPEATED, VERDICT_ALREADY_PAID, VERDICT_WON },
    };
    for (size_t i = 0; i < sizeof script / sizeof script[0]; i++) {
        struct engine *engine = stage_open(10);
        struct sale sale = filed_sale();
        sale.terms.grabs_per_buyer_max = 1;
        assert_int_equal(engine_load_sale(engine, &sale), FAULT_NONE);
        struct order order = filed_order(20, "ann", "");
        order.state = script[i].state;
        order.pay_by_ms = 1050;
        assert_int_equal(engine_load_order(engine, &order, slice_of(script[i].ref)), FAULT_NONE);
        engine_load_point(engine, 30, 12345, 9, 500);

        struct decision decision;
        struct order left;
        struct payment payment = { .order_no = 20, .ref = SLICE("p1"), .amount = 100, .now_ms = 600 };
        assert_same_verdict(engine_decide_payment(engine, &payment, &decision, &left), script[i].same, "same", i);
        payment.ref = SLICE("p2");
        assert_same_verdict(engine_decide_payment(engine, &payment, &decision, &left), script[i].other, "other", i);
        assert_same_verdict(stage_buy(engine, 7, "ann", 600), script[i].grab, "grab", i);
        assert_int_equal(stage_expire(engine, 1049), 0);
        assert_int_equal(stage_expire(engine, 1050), script[i].state == ORDER_HELD ? 20 : 0);
        engine_close(engine);
    }
}

static void names_that_cannot_be_are_damage(void **state)
{
    (void)state;
    struct engine *engine = loaded();
    assert_int_equal(engine_load_name(engine, SLICE("sam"), SLICE("shoes"), 8), FAULT_DAMAGE);
    assert_int_equal(engine_load_name(engine, SLICE("sam"), SLICE("hats"), 0), FAULT_DAMAGE);
    assert_int_equal(engine_load_name(engine, SLICE(""), SLICE("hats"), 8), FAULT_DAMAGE);
    assert_int_equal(engine_load_name(engine, SLICE("sam"), SLICE(""), 8), FAULT_DAMAGE);
    assert_int_equal(engine_load_name(engine, SLICE("sam"), SLICE("h\0ts"), 8), FAULT_DAMAGE);
    assert_int_equal(engine_load_name(engine, SLICE("sam"), SLICE("hats"), 8), FAULT_NONE);
    engine_close(engine);
}

static void more_orders_than_fit_are_a_want_of_space(void **state)
{
    (void)state;
    struct engine *engine = loaded();
    for (uint64_t no = 20; no < 31; no++) {
        char buyer[16];
        snprintf(buyer, sizeof buyer, "b%u", (unsigned)no);
        struct order order = filed_order(no, buyer, "");
        assert_int_equal(engine_load_order(engine, &order, SLICE("")), no < 30 ? FAULT_NONE : FAULT_SPACE);
    }
    engine_close(engine);
}

/* { offered, available, held, sold } 10, 5, 3, 2: cancelled, expired and refunded orders are neither held nor sold. */
static void counts_are_those_of_the_orders(void **state)
{
    (void)state;
    static const struct {
        uint32_t held, paid; /* units */
        enum fault want;
    } script[] = { { 3, 2, FAULT_NONE }, { 2, 2, FAULT_DAMAGE }, { 3, 1, FAULT_DAMAGE }, { 3, 3, FAULT_DAMAGE } };
    for (size_t i = 0; i < sizeof script / sizeof *script; i++) {
        struct engine *engine = loaded();
        struct order orders[] = { filed_order(20, "ann", ""), filed_order(21, "bob", ""), filed_order(22, "cat", ""),
                                  filed_order(23, "dan", ""), filed_order(24, "eve", "") };
        static const enum order_state states[] = { ORDER_HELD, ORDER_PAID, ORDER_CANCELLED, ORDER_EXPIRED,
                                                   ORDER_REFUND_DUE };
        for (size_t j = 0; j < sizeof orders / sizeof *orders; j++) {
            orders[j].state = states[j];
            orders[j].units = j == 0 ? script[i].held : j == 1 ? script[i].paid : 1;
            orders[j].amount = 100 * (int64_t)orders[j].units;
            if (states[j] != ORDER_PAID) orders[j].pay_by_ms = 60050;
            struct slice ref = states[j] == ORDER_REFUND_DUE ? SLICE("p") : SLICE("");
            assert_int_equal(engine_load_order(engine, &orders[j], ref), FAULT_NONE);
        }
        assert_int_equal(engine_load_check(engine), script[i].want);
        assert_true((engine_load_objection(engine)[0] != '\0') == (script[i].want == FAULT_DAMAGE));
        engine_close(engine);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_filed_comes_back),
        cmocka_unit_test(names_and_ids_given_before_stay_taken),
        cmocka_unit_test(an_id_above_the_point_still_counts),
        cmocka_unit_test(sales_that_cannot_be_are_damage),
        cmocka_unit_test(orders_that_cannot_be_are_damage),
        cmocka_unit_test(a_payment_is_there_where_the_state_says_so),
        cmocka_unit_test(orders_of_every_state_go_on_after_a_load),
        cmocka_unit_test(names_that_cannot_be_are_damage),
        cmocka_unit_test(more_orders_than_fit_are_a_want_of_space),
        cmocka_unit_test(counts_are_those_of_the_orders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
