/* What people ask: single look-ups, lists with filters and cursors. */
#include "fixture.h"
#include "ledger/schema.h"
#include "ledger/sqlite.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEEN_MAX 2048
struct seen {
    uint64_t ids[SEEN_MAX];
    size_t count;
    uint64_t now_ms;
    int state; /* every sale seen must have it, by the engine's own reckoning; -1: any */
};

static void sale_seen(void *arg, const struct sale *sale)
{
    struct seen *seen = arg;
    assert_true(seen->count < SEEN_MAX);
    if (seen->state >= 0) assert_int_equal(sale_state_at(sale, seen->now_ms), seen->state);
    seen->ids[seen->count++] = sale->id;
}

static void order_seen(void *arg, const struct order *order)
{
    struct seen *seen = arg;
    assert_true(seen->count < SEEN_MAX);
    seen->ids[seen->count++] = order->no;
}

static void what_is_not_there_is_not_found(void **state)
{
    struct fixture *f = *state;
    static const uint64_t ids[] = { 0, 1, INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX };
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        struct sale sale;
        struct ledger_order order;
        bool found = true;
        assert_int_equal(ledger_sale(f->ledger, ids[i], &sale, &found), FAULT_NONE);
        assert_false(found);
        found = true;
        assert_int_equal(ledger_order(f->ledger, ids[i], &order, &found), FAULT_NONE);
        assert_false(found);
    }
}

static void an_order_is_found_by_its_key_only_with_sale_and_buyer(void **state)
{
    struct fixture *f = *state;
    struct sale_terms terms = terms_named("lamp");
    uint64_t id = sale_file(f, "sam", &terms, 100);
    uint64_t no = win_file(f, id, "ann", "k1", 1);
    win_file(f, id, "bob", "k1", 1);
    win_file(f, id, "cat", "", 1);
    win_file(f, id, "x' OR 'a'='a", "' OR 1=1 --", 1);

    const struct {
        uint64_t sale_id;
        const char *buyer, *key;
        uint64_t want;
    } script[] = {
        { id, "ann", "k1", no },         { id, "bob", "k1", no + 1 },
        { id, "Ann", "k1", 0 },          { id, "ann", "K1", 0 },
        { id + 1, "ann", "k1", 0 },      { id, "cat", "", 0 }, /* no key is no key */
        { id, "cat", "' OR 1=1 --", 0 }, { id, "x' OR 'a'='a", "' OR 1=1 --", no + 3 },
    };
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++) {
        struct order order = { 0 };
        bool found;
        assert_int_equal(ledger_order_by_key(f->ledger,
                                             &(struct ledger_key){ .sale_id = script[i].sale_id,
                                                                   .buyer = slice_of(script[i].buyer),
                                                                   .key = slice_of(script[i].key) },
                                             &order, &found),
                         FAULT_NONE);
        assert_int_equal(found ? order.no : 0, script[i].want);
    }
}

/* Sales of every kind of state, asked for at several moments: the ledger's answer must be the engine's, each sale in
 * exactly one state. */
static void states_in_lists_are_those_of_the_engine(void **state)
{
    struct fixture *f = *state;
    for (int bits = 0; bits < 32; bits++) {
        char name[32];
        snprintf(name, sizeof(name), "sale %d", bits);
        struct sale_terms terms = terms_named(name);
        terms.opens_ms = 1000;
        terms.closes_ms = bits & 1 ? 2000 : bits & 2 ? TIME_MS_MAX : 0;
        uint64_t id = sale_file(f, bits % 3 == 0 ? "sam" : "sue", &terms, 1);
        if (bits & 4) win_file(f, id, "ann", "", 1);
        enum decision_kind kinds[] = { DECISION_SALE_PAUSED, DECISION_SALE_CLOSED };
        for (int i = 0; i < 2; i++) {
            if (bits & (8 << i)) decision_must(f, &(struct decision){ .seq = f->seq + 1, .kind = kinds[i], .sale_id = id });
        }
    }
    static const uint64_t moments[] = { 0, 999, 1000, 1001, 1999, 2000, 2001, TIME_MS_MAX - 1, TIME_MS_MAX };
    static const char *const sellers[] = { "", "sam", "sue" };
    static const size_t of_seller[] = { 32, 11, 21 };
    for (size_t m = 0; m < sizeof(moments) / sizeof(moments[0]); m++) {
        for (int s = 0; s < 3; s++) {
            size_t all = 0;
            for (int want = SALE_UPCOMING; want <= SALE_CLOSED; want++) {
                struct seen seen = { .now_ms = moments[m], .state = want };
                struct ledger_sales_query query = {
                    .seller = slice_of(sellers[s]), .state = want, .now_ms = moments[m], .limit = 200
                };
                assert_int_equal(ledger_sales(f->ledger, &query, sale_seen, &seen), FAULT_NONE);
                for (size_t i = 1; i < seen.count; i++) assert_true(seen.ids[i] < seen.ids[i - 1]);
                all += seen.count;
            }
            assert_int_equal(all, of_seller[s]);
        }
    }
}

static void a_cursor_walks_500_sales_each_once_newest_first(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 500; i++) {
        char name[32];
        snprintf(name, sizeof(name), "thing %d", i);
        struct sale_terms terms = terms_named(name);
        sale_file(f, i % 2 == 0 ? "sam" : "Sam", &terms, 1);
    }
    static const struct {
        const char *seller;
        int state;
        size_t want;
    } script[] = {
        { "", -1, 500 },
        { "", SALE_RUNNING, 500 },
        { "", SALE_CLOSED, 0 },
        { "sam", -1, 250 },
        { "Sam", SALE_RUNNING, 250 },
        { "SAM", -1, 0 },
        { "sam' OR '1'='1", -1, 0 },
    };
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++) {
        struct seen seen = { .state = -1 };
        struct ledger_sales_query query = {
            .seller = slice_of(script[i].seller), .state = script[i].state, .now_ms = 2000, .limit = 37
        };
        size_t before;
        do {
            before = seen.count;
            assert_int_equal(ledger_sales(f->ledger, &query, sale_seen, &seen), FAULT_NONE);
            assert_true(seen.count - before <= 37);
            if (seen.count > 0) query.after = seen.ids[seen.count - 1];
        } while (seen.count > before);
        assert_int_equal(seen.count, script[i].want);
        for (size_t k = 1; k < seen.count; k++) assert_true(seen.ids[k] < seen.ids[k - 1]);
    }
}

/* Every combination of filters against a plain loop over what was filed. */
static struct {
    uint64_t no, sale_id;
    const char *buyer, *seller;
    int state;
    uint64_t won_ms;
} book[700];

static void list_check(struct fixture *f, struct ledger_orders_query query)
{
    struct seen seen = { 0 };
    size_t before;
    do {
        before = seen.count;
        assert_int_equal(ledger_orders(f->ledger, &query, order_seen, &seen), FAULT_NONE);
        assert_true(seen.count - before <= query.limit);
        if (seen.count > 0) query.after = seen.ids[seen.count - 1];
    } while (seen.count > before);

    size_t at = 0;
    for (int i = 699; i >= 0; i--) {
        if (query.buyer.len > 0 && !slice_is(query.buyer, book[i].buyer)) continue;
        if (query.seller.len > 0 && !slice_is(query.seller, book[i].seller)) continue;
        if (query.sale_id != 0 && book[i].sale_id != query.sale_id) continue;
        if (query.state >= 0 && book[i].state != query.state) continue;
        if (book[i].won_ms < query.from_ms || (query.to_ms != 0 && book[i].won_ms >= query.to_ms)) continue;
        assert_true(at < seen.count);
        assert_int_equal(seen.ids[at++], book[i].no);
    }
    assert_int_equal(at, seen.count);
}

/* What became of a hold: the state it is in. */
static int order_end(struct fixture *f, const struct decision *win, int end)
{
    static const enum decision_kind kinds[] = { DECISION_PAID, DECISION_CANCELLED, DECISION_EXPIRED, DECISION_EXPIRED };
    static const enum order_state states[] = { ORDER_PAID, ORDER_CANCELLED, ORDER_EXPIRED, ORDER_REFUND_DUE };
    if (end == 4) return ORDER_HELD;
    struct decision d = end_of(f, kinds[end], win->sale_id, win->seq, 1);
    decision_must(f, &d);
    d = end_of(f, DECISION_REFUND_DUE, win->sale_id, win->seq, 1);
    if (states[end] == ORDER_REFUND_DUE) decision_must(f, &d);
    return (int)states[end];
}

static void order_lists_give_what_a_plain_loop_gives(void **state)
{
    struct fixture *f = *state;
    static const char *const sellers[] = { "sam", "sue", "Sam" }, *const buyers[] = { "ann", "Ann", "bob", "b' OR ''='" };
    uint64_t sales[6];
    for (int i = 0; i < 6; i++) {
        char name[32];
        snprintf(name, sizeof(name), "thing %d", i);
        struct sale_terms terms = terms_named(name);
        sales[i] = sale_file(f, sellers[i % 3], &terms, 1000);
    }
    srand(7);
    for (int i = 0; i < 700; i++) {
        int sale = rand() % 6;
        struct decision d = win_of(f->seq + 1, sales[sale], buyers[rand() % 4], "", 1);
        d.won.pay_by_ms = rand() % 3 != 0 ? 77 : 0;
        d.at_ms = 100000 + (uint64_t)i / 7 * 10; /* several at once, then none for a while */
        decision_must(f, &d);
        book[i].won_ms = d.at_ms;
        book[i].no = d.seq;
        book[i].sale_id = d.sale_id;
        book[i].buyer = d.won.buyer.data;
        book[i].seller = sellers[sale % 3];
        book[i].state = d.won.pay_by_ms != 0 ? ORDER_HELD : ORDER_PAID;
        if (book[i].state == ORDER_HELD) book[i].state = order_end(f, &d, rand() % 5);
    }
    /* Below 0: any; the last sale does not exist. */
    for (int b = -1; b < 4; b++) {
        for (int s = -1; s < 3; s++) {
            for (int sale = -1; sale <= 6; sale++) {
                struct ledger_orders_query query = { .limit = 53 };
                if (b >= 0) query.buyer = slice_of(buyers[b]);
                if (s >= 0) query.seller = slice_of(sellers[s]);
                if (sale >= 0) query.sale_id = sale < 6 ? sales[sale] : 999;
                for (query.state = -1; query.state <= ORDER_STATE_LAST; query.state++) list_check(f, query);
                query.state = -1;
                query.from_ms = 100300;
                query.to_ms = 100700;
                list_check(f, query);
            }
        }
    }
}

/* Spans of time that begin and end before, at, between and after the wins. */
static void a_span_of_time_gives_the_orders_won_in_it(void **state)
{
    struct fixture *f = *state;
    struct sale_terms terms = terms_named("lamp");
    struct ledger_orders_query query = { .state = -1, .limit = 53, .from_ms = 1, .to_ms = 2 };
    struct seen seen = { 0 };
    assert_int_equal(ledger_orders(f->ledger, &query, order_seen, &seen), FAULT_NONE);
    assert_int_equal(seen.count, 0); /* there is none at all */
    uint64_t id = sale_file(f, "sam", &terms, 1000);
    for (int i = 0; i < 700; i++) {
        struct decision d = win_of(f->seq + 1, id, i % 2 == 0 ? "ann" : "bob", "", 1);
        d.at_ms = 100000 + (uint64_t)i / 7 * 10;
        decision_must(f, &d);
        book[i].no = d.seq;
        book[i].won_ms = d.at_ms;
        book[i].sale_id = id;
        book[i].buyer = d.won.buyer.data;
        book[i].seller = "sam";
        book[i].state = ORDER_PAID;
        if (i % 3 == 0) /* numbers have gaps: not every decision is a win */
            decision_must(
                f, &(struct decision){ .seq = f->seq + 1, .kind = DECISION_STOCK_ADDED, .sale_id = id, .stock_added = 1 });
    }
    static const uint64_t moments[] = { 0,      1,      99999,  100000, 100001, 100490,    100500,
                                        100501, 100989, 100990, 100991, 200000, INT64_MAX, UINT64_MAX };
    enum { MOMENTS = sizeof(moments) / sizeof(moments[0]) };
    for (int from = 0; from < MOMENTS; from++) {
        for (int to = 0; to < MOMENTS; to++) {
            struct ledger_orders_query in = { .state = -1, .limit = 53, .from_ms = moments[from], .to_ms = moments[to] };
            list_check(f, in);
            in.buyer = SLICE("ann");
            list_check(f, in);
            in.buyer = SLICE("");
            in.seller = SLICE("sam");
            list_check(f, in);
            in.sale_id = id;
            list_check(f, in);
        }
    }
}

static void sales_of_an_event_are_listed_alone(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 60; i++) {
        char name[32];
        snprintf(name, sizeof(name), "thing %d", i);
        struct sale_terms terms = terms_named(name);
        terms.event_id = (uint64_t)i % 4; /* 0: of none */
        terms.opens_ms = i < 30 ? 1000 : 9000;
        sale_file(f, i % 2 == 0 ? "sam" : "sue", &terms, 1);
    }
    static const struct {
        uint64_t event_id;
        const char *seller;
        int state;
        size_t want;
    } script[] = {
        { 0, "", -1, 60 },           { 1, "", -1, 15 },         { 2, "", -1, 15 },   { 4, "", -1, 0 },
        { UINT64_MAX, "", -1, 0 },   { 2, "sam", -1, 15 },      { 2, "sue", -1, 0 }, { 1, "", SALE_RUNNING, 8 },
        { 1, "", SALE_UPCOMING, 7 }, { 1, "", SALE_CLOSED, 0 },
    };
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++) {
        struct seen seen = { .now_ms = 2000, .state = script[i].state };
        struct ledger_sales_query query = { .seller = slice_of(script[i].seller),
                                            .event_id = script[i].event_id,
                                            .state = script[i].state,
                                            .now_ms = 2000,
                                            .limit = 4 };
        size_t before;
        do {
            before = seen.count;
            assert_int_equal(ledger_sales(f->ledger, &query, sale_seen, &seen), FAULT_NONE);
            if (seen.count > 0) query.after = seen.ids[seen.count - 1];
        } while (seen.count > before);
        assert_int_equal(seen.count, script[i].want);
        for (size_t k = 0; k < seen.count; k++) {
            assert_true(k == 0 || seen.ids[k] < seen.ids[k - 1]);
            if (script[i].event_id != 0) assert_int_equal((seen.ids[k] - 1) % 4, script[i].event_id);
        }
    }
}

/* Lists are asked for with ten million orders in the tables: none may read a table from end to end, or sort more than the
 * newest orders of a seller's sales, or the numbers of all that ended in one way. */
static void no_list_scans_a_table(void **state)
{
    struct fixture *f = *state;
    static const struct {
        enum statement id;
        bool sorts;
    } script[] = {
        { STATEMENT_ORDERS_LIST_ENDED, true },
        { STATEMENT_ORDERS_LIST_SALE_ENDED, false },
        { STATEMENT_ORDERS_LIST_SELLER_ENDED, true },
        { STATEMENT_ORDERS_LIST, false },
        { STATEMENT_ORDERS_LIST_BUYER, false },
        { STATEMENT_ORDERS_LIST_BUYER_ERA, false },
        { STATEMENT_ORDERS_LIST_SALE, false },
        { STATEMENT_ORDERS_LIST_SELLER, true },
        { STATEMENT_ORDERS_FROM, false },
        { STATEMENT_ORDERS_LAST, false },
        { STATEMENT_ORDERS_EACH_OF, false },
        { STATEMENT_SALES_LIST, false },
        { STATEMENT_SALES_LIST_SELLER, false },
        { STATEMENT_SALES_LIST_EVENT, false },
        { STATEMENT_SALES_PAGE, false },
        { STATEMENT_SALES_WON, false },
        { STATEMENT_SALES_WON_ERA, false },
        { STATEMENT_ORDER_EXPIRE, false },
        { STATEMENT_ORDER_PAY, false },
        { STATEMENT_ORDER_CANCEL, false },
    };
    sqlite3 *db;
    assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++) {
        char sql[2048];
        sqlite3_stmt *s;
        snprintf(sql, sizeof(sql), "EXPLAIN QUERY PLAN %s", statement_sql[script[i].id]);
        assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
        int steps = 0;
        for (; sqlite3_step(s) == SQLITE_ROW; steps++) {
            const char *plan = (const char *)sqlite3_column_text(s, 3);
            if (strstr(plan, "SCAN") != NULL || (strstr(plan, "B-TREE") != NULL && !script[i].sorts))
                fail_msg("statement %d: %s", (int)script[i].id, plan);
        }
        assert_true(steps > 0);
        sqlite3_finalize(s);
    }
    sqlite3_close(db);
}

/* The index of buyers is cut into eras of 65,536 numbers, and has none of those that nodes make: a list must pass the
 * borders as if they were not there. */
static void a_buyers_list_passes_the_borders_of_eras(void **state)
{
    struct fixture *f = *state;
    static const uint64_t numbers[] = { 1,
                                        2,
                                        65535,
                                        65536,
                                        65537,
                                        131071,
                                        131072,
                                        500000,
                                        700000,
                                        ORDERS_OF_NODES,
                                        UINT64_C(380000000000000000),
                                        UINT64_C(390000000000000000),
                                        UINT64_C(390000000000000001) };
    enum { NUMBERS = sizeof(numbers) / sizeof(numbers[0]) };
    for (int i = 0; i < NUMBERS; i++) {
        char sql[128];
        snprintf(sql, sizeof(sql),
                 "INSERT INTO orders VALUES (%" PRIu64 ", 1, '%s', 1, 0, 1, 1, 0, '', 0, '', 0, 0, '', NULL)", numbers[i],
                 i == NUMBERS - 1 ? "bob" : "ann");
        outside(f, sql);
    }
    for (uint32_t limit = 1; limit <= 20; limit++) {
        for (int from = NUMBERS; from >= 0; from--) {
            struct seen seen = { 0 };
            struct ledger_orders_query query = {
                .buyer = SLICE("ann"), .state = -1, .limit = limit, .after = from == NUMBERS ? 0 : numbers[from]
            };
            assert_int_equal(ledger_orders(f->ledger, &query, order_seen, &seen), FAULT_NONE);
            int expect = from >= NUMBERS - 1 ? NUMBERS - 1 : from;
            size_t want = (size_t)expect < limit ? (size_t)expect : limit;
            assert_int_equal(seen.count, want);
            for (size_t i = 0; i < seen.count; i++) assert_int_equal(seen.ids[i], numbers[(size_t)expect - 1 - i]);
        }
    }
}

static void an_after_beyond_all_numbers_starts_at_the_newest(void **state)
{
    struct fixture *f = *state;
    struct sale_terms terms = terms_named("lamp");
    uint64_t id = sale_file(f, "sam", &terms, 5);
    uint64_t no = win_file(f, id, "ann", "", 1);
    static const uint64_t afters[] = { 0, INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX };
    for (size_t i = 0; i < sizeof(afters) / sizeof(afters[0]); i++) {
        struct seen seen = { .state = -1 };
        struct ledger_orders_query query = { .state = -1, .after = afters[i], .limit = 5 };
        assert_int_equal(ledger_orders(f->ledger, &query, order_seen, &seen), FAULT_NONE);
        assert_int_equal(seen.count, 1);
        assert_int_equal(seen.ids[0], no);
    }
    struct seen seen = { .state = -1 };
    struct ledger_orders_query query = { .state = -1, .after = no, .limit = 5 };
    assert_int_equal(ledger_orders(f->ledger, &query, order_seen, &seen), FAULT_NONE);
    assert_int_equal(seen.count, 0);
}

static void a_row_that_cannot_be_is_damage(void **state)
{
    struct fixture *f = *state;
    struct sale_terms terms = terms_named("lamp");
    uint64_t id = sale_file(f, "sam", &terms, 5);
    uint64_t no = win_file(f, id, "ann", "", 1);
    static const struct {
        const char *harm;
        bool order;
    } script[] = {
        { "UPDATE orders SET units = -1", true },
        { "UPDATE orders SET units = 5000000000", true },
        { "UPDATE orders SET units = 1, state = 17", true },
        { "UPDATE orders SET state = 0, buyer = printf('%.*c', 65, 'x')", true },
        { "UPDATE orders SET buyer = 'a' || char(0) || 'b'", true },
        { "UPDATE orders SET buyer = 'ann', canceller = 4", true },
        { "UPDATE orders SET canceller = 0, ended_ms = -1", true },
        { "UPDATE orders SET ended_ms = 0, payment_ref = printf('%.*c', 65, 'x')", true },
        { "UPDATE orders SET payment_ref = '', reason = printf('%.*c', 201, 'x')", true },
        { "UPDATE sales SET admission = 9", false },
        { "UPDATE sales SET admission = 1, name = printf('%.*c', 129, 'x')", false },
        { "UPDATE sales SET name = 'y', currency = 'EURO'", false },
        { "UPDATE sales SET currency = 'EUR', paused = 2", false },
        { "UPDATE sales SET paused = 0, late_payment = 2", false },
        { "UPDATE sales SET late_payment = 0, event_id = -1", false },
    };
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++) {
        outside(f, script[i].harm);
        struct sale sale;
        struct ledger_order order;
        bool found;
        enum fault fault = script[i].order ? ledger_order(f->ledger, no, &order, &found)
                                           : ledger_sale(f->ledger, id, &sale, &found);
        assert_int_equal(fault, FAULT_DAMAGE);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(what_is_not_there_is_not_found),           CASE(an_order_is_found_by_its_key_only_with_sale_and_buyer),
        CASE(states_in_lists_are_those_of_the_engine),  CASE(a_cursor_walks_500_sales_each_once_newest_first),
        CASE(order_lists_give_what_a_plain_loop_gives), CASE(a_span_of_time_gives_the_orders_won_in_it),
        CASE(sales_of_an_event_are_listed_alone),       CASE(no_list_scans_a_table),
        CASE(a_buyers_list_passes_the_borders_of_eras), CASE(an_after_beyond_all_numbers_starts_at_the_newest),
        CASE(a_row_that_cannot_be_is_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
