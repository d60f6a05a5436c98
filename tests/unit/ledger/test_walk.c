/* Start-up and audit: what a restart is given. */
#include "fixture.h"

#include <stdio.h>
#include <string.h>

struct walked {
    uint64_t ids[4096];
    size_t count, stop_at; /* stop_at 0: never */
};

static enum fault id_walked(struct walked *walked, uint64_t id)
{
    walked->ids[walked->count++] = id;
    return walked->count == walked->stop_at ? FAULT_SPACE : FAULT_NONE;
}

static enum fault sale_walked(void *arg, const struct sale *sale)
{
    return id_walked(arg, sale->id);
}

static enum fault order_walked(void *arg, const struct ledger_order *row)
{
    return id_walked(arg, row->order.no);
}

static enum fault token_walked(void *arg, const struct ledger_token *token)
{
    assert_int_equal(token->spent, 0);
    return id_walked(arg, token->nonce);
}

static enum fault any_token_walked(void *arg, const struct ledger_token *token)
{
    return id_walked(arg, token->nonce);
}

static enum fault name_walked(void *arg, struct slice seller, struct slice name, uint64_t sale_id)
{
    char want[32];
    snprintf(want, sizeof(want), "thing %d", (int)sale_id);
    assert_true(slice_is(name, want));
    assert_true(slice_is(seller, "sam"));
    return id_walked(arg, sale_id);
}

/* id, closes_ms, closed by flag, holds something: loaded at 5000? */
static const struct {
    uint64_t closes_ms;
    bool closed, held, want;
} script[] = {
    { 0, false, false, true },     { 5001, false, false, true }, { 5000, false, false, false },
    { 4000, false, false, false }, { 0, true, false, false },    { 9000, true, false, false },
    { 0, true, true, true },       { 4000, false, true, true },  { 9000, false, true, true },
};
#define SCRIPT (sizeof(script) / sizeof(script[0]))

static void script_file(struct fixture *f)
{
    for (size_t i = 0; i < SCRIPT; i++) {
        char name[32];
        snprintf(name, sizeof(name), "thing %d", (int)i + 1);
        struct sale_terms terms = terms_named(name);
        terms.closes_ms = script[i].closes_ms;
        sale_file(f, "sam", &terms, 1000);
    }
    for (int round = 0; round < 20; round++) {
        for (uint64_t id = 1; id <= SCRIPT; id++) {
            struct decision d = win_of(f->seq + 1, id, "ann", "", 1);
            d.won.pay_by_ms = script[id - 1].held ? 99999 : 0;
            decision_must(f, &d);
        }
    }
    for (uint64_t id = 1; id <= SCRIPT; id++) {
        if (script[id - 1].closed)
            decision_must(f, &(struct decision){ .seq = f->seq + 1, .kind = DECISION_SALE_CLOSED, .sale_id = id });
    }
}

static void open_check(struct fixture *f)
{
    struct walked sales = { 0 }, orders = { 0 };
    assert_int_equal(ledger_each_open_sale(f->ledger, 5000, sale_walked, &sales), FAULT_NONE);
    size_t at = 0;
    for (uint64_t id = 1; id <= SCRIPT; id++) {
        if (script[id - 1].want) assert_int_equal(sales.ids[at++], id);
    }
    assert_int_equal(sales.count, at);

    assert_int_equal(ledger_each_open_order(f->ledger, 5000, order_walked, &orders), FAULT_NONE);
    assert_int_equal(orders.count, at * 20);
    for (size_t i = 0; i < orders.count; i++) {
        struct ledger_order row;
        bool found;
        assert_int_equal(ledger_order(f->ledger, orders.ids[i], &row, &found), FAULT_NONE);
        assert_true(found && script[row.order.sale_id - 1].want);
        if (i > 0) assert_true(orders.ids[i] > orders.ids[i - 1]);
    }
}

static void a_restart_loads_what_is_not_over_or_holds_something(void **state)
{
    struct fixture *f = *state;
    script_file(f);
    open_check(f);
}

static void a_restart_loads_the_tokens_of_those_that_are_not_spent(void **state)
{
    struct fixture *f = *state;
    script_file(f);
    uint64_t nonces[SCRIPT][2];
    for (uint64_t id = 1; id <= SCRIPT; id++) {
        for (size_t i = 0; i < 2; i++) {
            struct decision d = { .seq = f->seq + 1, .at_ms = 1, .kind = DECISION_TOKEN_GIVEN, .sale_id = id };
            d.token_given.buyer = i == 0 ? SLICE("bob") : SLICE("cat");
            decision_must(f, &d);
            nonces[id - 1][i] = d.seq;
        }
        struct decision win = win_of(f->seq + 1, id, "cat", "", 1);
        win.won.token_nonce = nonces[id - 1][1];
        win.won.pay_by_ms = script[id - 1].held ? 99999 : 0;
        decision_must(f, &win);
    }
    struct walked tokens = { 0 }, all = { 0 };
    assert_int_equal(ledger_each_open_token(f->ledger, 5000, token_walked, &tokens), FAULT_NONE);
    size_t want = 0;
    for (uint64_t id = 1; id <= SCRIPT; id++) {
        bool found = false;
        for (size_t i = 0; i < tokens.count; i++) found |= tokens.ids[i] == nonces[id - 1][0];
        assert_int_equal(found, script[id - 1].want);
        want += script[id - 1].want;
    }
    assert_int_equal(tokens.count, want);
    assert_int_equal(ledger_each_token(f->ledger, any_token_walked, &all), FAULT_NONE);
    assert_int_equal(all.count, 2 * SCRIPT);
}

/* Among very many orders of old sales the few of open ones are found another way, with the same answer. */
static void the_few_among_the_many_are_the_same(void **state)
{
    struct fixture *f = *state;
    script_file(f);
    struct sale_terms terms = terms_named("thing 10");
    uint64_t old = sale_file(f, "sam", &terms, 100000);
    struct ledger_point from, to;
    assert_int_equal(ledger_file_begin(f->ledger, &from), FAULT_NONE);
    to = from;
    for (int i = 0; i < 5000; i++) {
        struct decision d = win_of(++to.seq, old, "bob", "", 1);
        assert_int_equal(ledger_file(f->ledger, &d), FAULT_NONE);
    }
    struct decision closed = { .seq = ++to.seq, .kind = DECISION_SALE_CLOSED, .sale_id = old };
    assert_int_equal(ledger_file(f->ledger, &closed), FAULT_NONE);
    assert_int_equal(ledger_file_commit(f->ledger, &from, &to), FAULT_NONE);
    open_check(f);
}

static void an_empty_ledger_gives_nothing(void **state)
{
    struct fixture *f = *state;
    struct walked walked = { 0 };
    assert_int_equal(ledger_each_open_sale(f->ledger, 0, sale_walked, &walked), FAULT_NONE);
    assert_int_equal(ledger_each_open_order(f->ledger, 0, order_walked, &walked), FAULT_NONE);
    assert_int_equal(ledger_each_name(f->ledger, name_walked, &walked), FAULT_NONE);
    assert_int_equal(ledger_each_sale(f->ledger, sale_walked, &walked), FAULT_NONE);
    assert_int_equal(ledger_each_order(f->ledger, order_walked, &walked), FAULT_NONE);
    assert_int_equal(walked.count, 0);
}

static void names_of_closed_sales_are_given_too(void **state)
{
    struct fixture *f = *state;
    script_file(f);
    struct walked walked = { 0 };
    assert_int_equal(ledger_each_name(f->ledger, name_walked, &walked), FAULT_NONE);
    assert_int_equal(walked.count, SCRIPT);
}

static void a_visitor_that_fails_ends_the_walk_with_its_fault(void **state)
{
    struct fixture *f = *state;
    script_file(f);
    for (size_t stop = 1; stop <= 3; stop++) {
        struct walked walked = { .stop_at = stop };
        assert_int_equal(ledger_each_sale(f->ledger, sale_walked, &walked), FAULT_SPACE);
        assert_int_equal(walked.count, stop);
        walked.count = 0;
        assert_int_equal(ledger_each_order(f->ledger, order_walked, &walked), FAULT_SPACE);
        assert_int_equal(walked.count, stop);
        walked.count = 0;
        assert_int_equal(ledger_each_name(f->ledger, name_walked, &walked), FAULT_SPACE);
        assert_int_equal(walked.count, stop);
    }
    /* Nothing of the broken walks is left open: everything is given again, and the ledger takes writes. */
    struct walked walked = { 0 };
    assert_int_equal(ledger_each_order(f->ledger, order_walked, &walked), FAULT_NONE);
    assert_int_equal(walked.count, 20 * SCRIPT);
    win_file(f, 1, "ann", "", 1);
}

/* An export reads while the clerk files: what it sees is of one moment, and its count is that of its rows. */
static void a_snapshot_shows_nothing_of_what_is_filed_meanwhile(void **state)
{
    struct fixture *f = *state;
    script_file(f);
    struct ledger *reader;
    struct ledger_size size;
    assert_int_equal(ledger_open(&reader, LEDGER_FILE(f->path), LEDGER_READER), FAULT_NONE);
    assert_int_equal(ledger_snapshot_begin(reader, &size), FAULT_NONE);
    assert_int_equal(size.sales, SCRIPT);
    assert_int_equal(size.orders, 20 * SCRIPT);

    win_file(f, 1, "bob", "", 1);
    struct decision end = end_of(f, DECISION_EXPIRED, 7, SCRIPT + 7, 1);
    decision_must(f, &end);
    struct walked all = { 0 }, one = { 0 };
    struct ledger_order row;
    bool found;
    assert_int_equal(ledger_each_order(reader, order_walked, &all), FAULT_NONE);
    assert_int_equal(all.count, 20 * SCRIPT);
    assert_int_equal(ledger_each_order_of(reader, 1, order_walked, &one), FAULT_NONE);
    assert_int_equal(one.count, 20);
    for (size_t i = 1; i < one.count; i++) assert_true(one.ids[i] > one.ids[i - 1]);
    assert_int_equal(ledger_order(reader, SCRIPT + 7, &row, &found), FAULT_NONE);
    assert_int_equal(row.order.state, ORDER_HELD);
    ledger_snapshot_end(reader);

    assert_int_equal(ledger_order(reader, SCRIPT + 7, &row, &found), FAULT_NONE);
    assert_int_equal(row.order.state, ORDER_EXPIRED);
    assert_int_equal(ledger_snapshot_begin(reader, &size), FAULT_NONE);
    assert_int_equal(size.orders, 20 * SCRIPT + 1);
    ledger_snapshot_end(reader);
    ledger_close(reader);
}

static enum fault uneven_walked(void *arg, uint64_t id, uint64_t held, uint64_t sold)
{
    assert_int_equal(held * 1000 + sold, id == 7 ? 19000 : 21);
    return id_walked(arg, id);
}

static void sales_whose_counts_are_not_those_of_their_orders_are_found(void **state)
{
    struct fixture *f = *state;
    script_file(f);
    struct walked walked = { 0 };
    assert_int_equal(ledger_each_uneven_sale(f->ledger, uneven_walked, &walked), FAULT_NONE);
    assert_int_equal(walked.count, 0);
    outside(f, "UPDATE orders SET state = 3 WHERE no = (SELECT max(no) FROM orders WHERE sale = 7)");
    outside(f, "UPDATE orders SET units = 2 WHERE no = (SELECT max(no) FROM orders WHERE sale = 2)");
    assert_int_equal(ledger_each_uneven_sale(f->ledger, uneven_walked, &walked), FAULT_NONE);
    assert_int_equal(walked.count, 2);
    assert_int_equal(walked.ids[0], 2);
    assert_int_equal(walked.ids[1], 7);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_restart_loads_what_is_not_over_or_holds_something),
        CASE(a_restart_loads_the_tokens_of_those_that_are_not_spent),
        CASE(the_few_among_the_many_are_the_same),
        CASE(an_empty_ledger_gives_nothing),
        CASE(names_of_closed_sales_are_given_too),
        CASE(a_visitor_that_fails_ends_the_walk_with_its_fault),
        CASE(a_snapshot_shows_nothing_of_what_is_filed_meanwhile),
        CASE(sales_whose_counts_are_not_those_of_their_orders_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
