#include "stage.h"

#include <stdio.h>
#include <string.h>

/* Design: at most 96 bytes a buyer all told, with 16-byte names. The price of being there at all, a few sales' worth, aside.
 */
static void buyers_cost_at_most_96_bytes(uint32_t buyers)
{
    struct engine *engine = stage_open(buyers);
    struct sale_terms terms = stage_terms();
    uint64_t id = stage_sale(engine, &terms, buyers);
    for (uint32_t i = 0; i < buyers; i++) {
        char buyer[17];
        snprintf(buyer, sizeof buyer, "buyer-%010u", i);
        struct grab grab = { .sale_id = id, .buyer = slice_of(buyer), .units = 1, .now_ms = 1 };
        struct decision decision;
        struct grab_answer answer;
        assert_int_equal(engine_decide_grab(engine, &grab, &decision, &answer), VERDICT_WON);
        engine_apply(engine, &decision);
    }
    struct engine_usage usage;
    engine_usage(engine, &usage);
    assert_int_equal(usage.sales, 1);
    assert_int_equal(usage.orders, buyers);
    assert_int_equal(usage.orders_max, buyers);
    assert_true(usage.bytes >= 80ull * buyers); /* an order and its buyer's name take that much by themselves */
    assert_true(usage.bytes <= 96ull * buyers);
    engine_close(engine);
}

/* Tables have a power of two of buckets: one more than that many orders is the most expensive number of them. */
static void a_buyer_costs_at_most_96_bytes(void **state)
{
    (void)state;
    buyers_cost_at_most_96_bytes(100000);
    buyers_cost_at_most_96_bytes((1u << 17) + 1);
}

/* Whoever keeps a line must know when a buyer need not wait any more. */
static void a_win_says_how_often_its_buyer_may_win_again(void **state)
{
    (void)state;
    struct engine *engine = stage_open(10);
    struct sale_terms terms = stage_terms();
    terms.grabs_per_buyer_max = 3;
    uint64_t id = stage_sale(engine, &terms, 9);
    static const struct {
        const char *buyer;
        uint32_t left;
    } script[] = { { "ann", 2 }, { "bob", 2 }, { "ann", 1 }, { "ann", 0 }, { "bob", 1 } };
    for (size_t i = 0; i < sizeof script / sizeof *script; i++) {
        struct grab grab = { .sale_id = id, .buyer = slice_of(script[i].buyer), .units = 1, .now_ms = 1 };
        struct grab_answer answer;
        assert_int_equal(stage_grab(engine, &grab, &answer), VERDICT_WON);
        assert_int_equal(answer.grabs_left, script[i].left);
    }
    engine_close(engine);
}

struct count {
    uint32_t seen, stop_at;
};

static bool count_order(void *arg, const struct order *order)
{
    struct count *count = arg;
    assert_true(order->no > 0);
    return ++count->seen != count->stop_at;
}

static bool count_sale(void *arg, const struct sale *sale)
{
    struct count *count = arg;
    assert_true(sale->id > 0);
    return ++count->seen != count->stop_at;
}

static void walks_stop_when_told(void **state)
{
    (void)state;
    struct engine *engine = stage_open(10);
    struct sale_terms terms = stage_terms();
    stage_sale(engine, &terms, 5);
    stage_rename(&terms, "hats");
    uint64_t id = stage_sale(engine, &terms, 5);
    assert_int_equal(stage_buy(engine, id, "ann", 1), VERDICT_WON);
    assert_int_equal(stage_buy(engine, id, "bob", 1), VERDICT_WON);

    struct count all = { 0 }, one = { .stop_at = 1 };
    engine_each_order(engine, count_order, &all);
    engine_each_order(engine, count_order, &one);
    assert_int_equal(all.seen, 2);
    assert_int_equal(one.seen, 1);
    all.seen = one.seen = 0;
    engine_each_sale(engine, count_sale, &all);
    engine_each_sale(engine, count_sale, &one);
    assert_int_equal(all.seen, 2);
    assert_int_equal(one.seen, 1);
    engine_close(engine);
}

static void what_is_not_there_is_not_found(void **state)
{
    (void)state;
    struct engine *engine = stage_open(10);
    struct sale sale;
    struct order order;
    char text[300];
    memset(text, 'x', sizeof text);
    assert_false(engine_sale(engine, 0, &sale));
    assert_false(engine_sale(engine, SALES_OPEN_MAX, &sale));
    assert_false(engine_order(engine, 0, &order));
    assert_false(engine_order(engine, UINT64_MAX, &order));
    assert_int_equal(engine_sale_by_name(engine, SLICE("sam"), SLICE("")), 0);
    assert_int_equal(engine_sale_by_name(engine, (struct slice){ text, 300 }, SLICE("x")), 0);
    assert_int_equal(engine_sale_by_name(engine, SLICE("x"), (struct slice){ text, 300 }), 0);
    engine_close(engine);
}

/* The largest engine an operator may ask for reserves its memory and uses none of it. */
static void the_largest_engine_opens(void **state)
{
    (void)state;
    struct engine *engine = stage_open(ORDERS_OPEN_MAX);
    struct engine_usage usage;
    engine_usage(engine, &usage);
    assert_int_equal(usage.orders_max, ORDERS_OPEN_MAX);
    assert_true(usage.bytes < 65536);
    engine_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_buyer_costs_at_most_96_bytes), cmocka_unit_test(a_win_says_how_often_its_buyer_may_win_again),
        cmocka_unit_test(walks_stop_when_told),           cmocka_unit_test(what_is_not_there_is_not_found),
        cmocka_unit_test(the_largest_engine_opens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
