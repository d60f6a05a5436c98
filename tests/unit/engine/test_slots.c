/* Places of sales in memory: taken, given back piece by piece, taken again. */
#include "stage.h"

#include <stdio.h>
#include <string.h>

static uint64_t numbered_sale(struct engine *engine, uint32_t n, uint64_t closes_ms, uint64_t now_ms)
{
    struct sale_terms terms = stage_terms();
    snprintf(terms.name, sizeof terms.name, "sale %u", n);
    terms.closes_ms = closes_ms;
    assert_int_equal(stage_create(engine, "sam", &terms, 100, now_ms), VERDICT_DONE);
    return engine_sale_by_name(engine, SLICE("sam"), slice_of(terms.name));
}

static void only_a_sale_that_is_over_is_let_go(void **state)
{
    (void)state;
    struct engine *engine = stage_open(100);
    uint64_t open = numbered_sale(engine, 1, 0, 0), timed = numbered_sale(engine, 2, 1000, 0);
    assert_false(engine_forget(engine, open, 100, 5000));
    assert_false(engine_forget(engine, timed, 100, 999));
    assert_true(engine_forget(engine, timed, 100, 1000));
    assert_true(engine_forget(engine, timed, 100, 1000)); /* gone is gone */
    assert_true(engine_forget(engine, 77, 100, 1000));
    assert_true(engine_forget(engine, 0, 100, 1000));
    assert_int_equal(stage_switch(engine, open, DECISION_SALE_CLOSED, 1001), VERDICT_DONE);
    assert_true(engine_forget(engine, open, 100, 1001));
    struct engine_usage usage;
    engine_usage(engine, &usage);
    assert_int_equal(usage.sales, 0);
    engine_close(engine);
}

static void a_sale_with_something_held_stays(void **state)
{
    (void)state;
    struct engine *engine = stage_open(100);
    struct sale_terms terms = stage_terms();
    terms.pay_within_s = 60;
    uint64_t id = stage_sale(engine, &terms, 5);
    assert_int_equal(stage_buy(engine, id, "ann", 1), VERDICT_WON);
    assert_int_equal(stage_switch(engine, id, DECISION_SALE_CLOSED, 2), VERDICT_DONE);
    assert_false(engine_forget(engine, id, 100, 3));
    assert_int_equal(stage_buy(engine, id, "bob", 3), VERDICT_CLOSED);
    struct order order;
    assert_true(engine_order(engine, 2, &order));
    engine_close(engine);
}

/* Ten orders of ann and ten others, let go three at a time. Nobody is answered from what is left. */
static void memory_comes_back_in_pieces_and_the_sale_is_gone_at_once(void **state)
{
    (void)state;
    struct engine *engine = stage_open(20);
    struct sale_terms terms = stage_terms();
    terms.grabs_per_buyer_max = 10;
    uint64_t id = stage_sale(engine, &terms, 20);
    for (int i = 0; i < 20; i++) {
        char buyer[16], key[16];
        snprintf(buyer, sizeof buyer, "b%d", i);
        snprintf(key, sizeof key, "k%d", i);
        struct grab grab = {
            .sale_id = id, .buyer = slice_of(i % 2 == 0 ? "ann" : buyer), .key = slice_of(key), .units = 1
        };
        struct grab_answer answer;
        assert_int_equal(stage_grab(engine, &grab, &answer), VERDICT_WON);
    }
    assert_int_equal(stage_switch(engine, id, DECISION_SALE_CLOSED, 1), VERDICT_DONE);

    struct engine_usage usage;
    for (uint32_t left = 20; left > 3; left -= 3) {
        assert_false(engine_forget(engine, id, 3, 1));
        engine_usage(engine, &usage);
        assert_int_equal(usage.orders, left - 3);
        struct grab grab = { .sale_id = id, .buyer = SLICE("ann"), .key = SLICE("k0"), .units = 1, .now_ms = 1 };
        struct grab_answer answer;
        assert_int_equal(stage_grab(engine, &grab, &answer), VERDICT_NO_SUCH_SALE);
        struct sale sale;
        struct order order;
        assert_false(engine_sale(engine, id, &sale));
        assert_false(engine_order(engine, 2, &order));
    }
    assert_true(engine_forget(engine, id, 3, 1));
    engine_usage(engine, &usage);
    assert_int_equal(usage.orders, 0);
    assert_int_equal(usage.sales, 0);
    assert_int_equal(stage_create(engine, "sam", &terms, 1, 1), VERDICT_NAME_TAKEN);

    /* All cells are to be had again. */
    stage_rename(&terms, "again");
    id = stage_sale(engine, &terms, 20);
    for (int i = 0; i < 20; i++) {
        char buyer[16];
        snprintf(buyer, sizeof buyer, "b%d", i);
        assert_int_equal(stage_buy(engine, id, buyer, 1), VERDICT_WON);
    }
    engine_close(engine);
}

/* All places taken: BUSY. One given back: the next sale gets an id that falls there, though others are in between. */
static void ids_skip_places_that_are_taken(void **state)
{
    (void)state;
    struct engine *engine = stage_open(100), *replayed = stage_open(100);
    struct sale_terms terms = stage_terms();
    for (uint32_t i = 1; i <= SALES_OPEN_MAX; i++) {
        snprintf(terms.name, sizeof terms.name, "sale %u", i);
        terms.closes_ms = i == 5000 ? 1000 : 0;
        struct decision decision;
        assert_int_equal(
            engine_decide_create(engine, &(struct asker){ .name = SLICE("sam"), .now_ms = 0 }, &terms, 1, &decision),
            VERDICT_DONE);
        assert_int_equal(decision.sale_id, i);
        engine_apply(engine, &decision);
        engine_apply(replayed, &decision);
    }
    stage_rename(&terms, "one more");
    struct decision decision;
    assert_int_equal(
        engine_decide_create(engine, &(struct asker){ .name = SLICE("sam"), .now_ms = 999 }, &terms, 1, &decision),
        VERDICT_BUSY);

    assert_true(engine_forget(engine, 5000, 10, 1000));
    /* Asked by a thread that had read the clock before: the decision still comes after the place was given back. */
    assert_int_equal(
        engine_decide_create(engine, &(struct asker){ .name = SLICE("sam"), .now_ms = 999 }, &terms, 1, &decision),
        VERDICT_DONE);
    assert_int_equal(decision.sale_id, SALES_OPEN_MAX + 5000);
    assert_int_equal(decision.at_ms, 1000);
    engine_apply(engine, &decision);

    /* Replay never saw the sale go, and finds from the decision that it must have. */
    assert_null(engine_objection(replayed, &decision));
    engine_apply(replayed, &decision);
    assert_int_equal(engine_digest(replayed), engine_digest(engine));
    struct sale sale;
    assert_false(engine_sale(replayed, 5000, &sale));
    assert_true(engine_sale(replayed, SALES_OPEN_MAX + 5000, &sale));
    assert_int_equal(engine_sale_by_name(replayed, SLICE("sam"), SLICE("sale 5000")), 5000);

    stage_rename(&terms, "and one more");
    assert_int_equal(
        engine_decide_create(engine, &(struct asker){ .name = SLICE("sam"), .now_ms = 2000 }, &terms, 1, &decision),
        VERDICT_BUSY);
    engine_close(replayed);
    engine_close(engine);
}

/* Two sales of three, one after the other, in memory for three orders. */
static void replay_lets_go_of_orders_where_the_server_had(void **state)
{
    (void)state;
    struct engine *engine = stage_open(3), *replayed = stage_open(3);
    struct sale_terms terms = stage_terms();
    struct decision decision;
    for (int round = 0; round < 4; round++) {
        snprintf(terms.name, sizeof terms.name, "round %d", round);
        assert_int_equal(
            engine_decide_create(engine, &(struct asker){ .name = SLICE("sam"), .now_ms = 1 }, &terms, 4, &decision),
            VERDICT_DONE);
        uint64_t id = decision.sale_id;
        engine_apply(engine, &decision);
        assert_null(engine_objection(replayed, &decision));
        engine_apply(replayed, &decision);
        for (int i = 0; i < 4; i++) {
            char buyer[16];
            snprintf(buyer, sizeof buyer, "b%d", i);
            struct grab grab = { .sale_id = id, .buyer = slice_of(buyer), .units = 1, .now_ms = 1 };
            struct grab_answer answer;
            enum verdict verdict = engine_decide_grab(engine, &grab, &decision, &answer);
            assert_int_equal(verdict, i < 3 ? VERDICT_WON : VERDICT_BUSY);
            if (verdict != VERDICT_WON) continue;
            engine_apply(engine, &decision);
            assert_null(engine_objection(replayed, &decision));
            engine_apply(replayed, &decision);
        }
        const struct asker admin = { .admin = true };
        assert_int_equal(engine_decide_switch(engine, ASKER_AT(&admin, 1), id, DECISION_SALE_CLOSED, &decision),
                         VERDICT_DONE);
        engine_apply(engine, &decision);
        assert_null(engine_objection(replayed, &decision));
        engine_apply(replayed, &decision);
        assert_true(engine_forget(engine, id, 10, 1));
    }
    assert_int_equal(engine_digest(replayed), engine_digest(engine));
    engine_close(replayed);
    engine_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_a_sale_that_is_over_is_let_go),
        cmocka_unit_test(a_sale_with_something_held_stays),
        cmocka_unit_test(memory_comes_back_in_pieces_and_the_sale_is_gone_at_once),
        cmocka_unit_test(ids_skip_places_that_are_taken),
        cmocka_unit_test(replay_lets_go_of_orders_where_the_server_had),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
