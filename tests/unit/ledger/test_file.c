/* P4: each decision reaches the ledger exactly once, in order, or the filing stops. */
#include "fixture.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void a_new_ledger_has_filed_nothing(void **state)
{
    struct fixture *f = *state;
    struct ledger_point point;
    memset(&point, 0xff, sizeof(point));
    assert_int_equal(ledger_point(f->ledger, &point), FAULT_NONE);
    struct ledger_point zero = { 0 };
    assert_memory_equal(&point, &zero, sizeof(point));
}

static void the_point_comes_back_as_it_was_committed(void **state)
{
    struct fixture *f = *state;
    struct sale_terms terms = terms_named("lamp");
    struct ledger_point from, to = { 1, UINT64_C(0xfedcba9876543210), 4321, 7, "0123456789abcde" }, back;
    struct decision d = { .seq = 1, .at_ms = 4321, .kind = DECISION_SALE_CREATED, .sale_id = 7 };
    d.created.seller = SLICE("sam");
    d.created.terms = &terms;
    d.created.stock = 3;
    assert_int_equal(ledger_file_begin(f->ledger, &from), FAULT_NONE);
    assert_int_equal(ledger_file(f->ledger, &d), FAULT_NONE);
    assert_int_equal(ledger_file_commit(f->ledger, &from, &to), FAULT_NONE);
    fixture_reopen(f);
    assert_int_equal(ledger_point(f->ledger, &back), FAULT_NONE);
    assert_memory_equal(&back, &to, sizeof(to));
}

static void a_sale_comes_back_as_it_was_filed(void **state)
{
    struct fixture *f = *state;
    struct sale_terms terms = terms_named("x' OR 'a'='a");
    memset(terms.description, 'd', SALE_DESCRIPTION_BYTES_MAX);
    terms.price = -1;
    terms.currency[0] = '\0';
    terms.closes_ms = TIME_MS_MAX;
    terms.pay_within_s = PAY_WITHIN_S_MAX;
    terms.admission = ADMISSION_LINE;
    terms.tokens_max = TOKENS_MAX;
    terms.admit_max = ADMIT_MAX - 1;
    terms.line_rate_per_s = LINE_RATE_MAX;
    terms.line_size = LINE_SIZE_MAX - 1;
    terms.line_timeout_ms = LINE_TIMEOUT_MS_MAX;
    memset(terms.line_name, 'l', LINE_NAME_BYTES_MAX);
    terms.late_payment = LATE_PAYMENT_REFUND;
    terms.event_id = INT64_MAX;
    uint64_t id = sale_file(f, "sam\"; DROP TABLE sales; --", &terms, STOCK_MAX);

    struct sale sale;
    bool found;
    assert_int_equal(ledger_sale(f->ledger, id, &sale, &found), FAULT_NONE);
    assert_true(found);
    assert_string_equal(sale.seller, "sam\"; DROP TABLE sales; --");
    assert_string_equal(sale.terms.name, "x' OR 'a'='a");
    assert_int_equal(strlen(sale.terms.description), SALE_DESCRIPTION_BYTES_MAX);
    assert_true(sale_terms_equal(&sale.terms, &terms));
    assert_int_equal(sale.tokens_given, 0);
    assert_int_equal(sale.terms.price, -1);
    assert_string_equal(sale.terms.currency, "");
    assert_int_equal(sale.terms.closes_ms, TIME_MS_MAX);
    assert_int_equal(sale.terms.pay_within_s, PAY_WITHIN_S_MAX);
    assert_int_equal(sale.terms.admission, ADMISSION_LINE);
    assert_int_equal(sale.terms.late_payment, LATE_PAYMENT_REFUND);
    assert_int_equal(sale.terms.event_id, INT64_MAX);
    assert_int_equal(sale.counts.offered, STOCK_MAX);
    assert_int_equal(sale.counts.available, STOCK_MAX);
    assert_int_equal(sale.orders_made, 0);
    assert_false(sale.paused || sale.closed);
}

static void wins_move_the_counts_of_their_sale(void **state)
{
    struct fixture *f = *state;
    struct sale_terms terms = terms_named("lamp");
    uint64_t a = sale_file(f, "sam", &terms, 10);
    terms = terms_named("desk");
    uint64_t b = sale_file(f, "sam", &terms, 10);

    struct decision d[5] = {
        win_of(f->seq + 1, a, "ann", "", 2),
        win_of(f->seq + 2, b, "ann", "", 1),
        { .seq = f->seq + 3, .at_ms = 9000, .kind = DECISION_STOCK_ADDED, .sale_id = a, .stock_added = -3 },
        win_of(f->seq + 4, a, "bob", "k", 1),
        { .seq = f->seq + 5, .at_ms = 9000, .kind = DECISION_STOCK_ADDED, .sale_id = b, .stock_added = 90 },
    };
    d[3].won.pay_by_ms = 99000;
    assert_int_equal(decisions_try(f, d, 5), FAULT_NONE);

    struct sale sale;
    bool found;
    assert_int_equal(ledger_sale(f->ledger, a, &sale, &found), FAULT_NONE);
    struct sale_counts want_a = { .offered = 7, .available = 4, .held = 1, .sold = 2 };
    assert_memory_equal(&sale.counts, &want_a, sizeof(want_a));
    assert_int_equal(sale.orders_made, 2);
    assert_int_equal(ledger_sale(f->ledger, b, &sale, &found), FAULT_NONE);
    struct sale_counts want_b = { .offered = 100, .available = 99, .held = 0, .sold = 1 };
    assert_memory_equal(&sale.counts, &want_b, sizeof(want_b));

    struct ledger_order row;
    assert_int_equal(ledger_order(f->ledger, d[3].seq, &row, &found), FAULT_NONE);
    assert_true(found);
    const struct order order = row.order;
    assert_string_equal(order.buyer, "bob");
    assert_string_equal(order.key, "k");
    assert_int_equal(order.state, ORDER_HELD);
    assert_int_equal(order.pay_by_ms, 99000);
    assert_int_equal(order.won_ms, d[3].at_ms);
    assert_int_equal(order.amount, 250);
}

/* More sales in one transaction than there are places for their sums: those that meet in a place must not mix. */
static void sales_that_share_a_place_keep_their_own_counts(void **state)
{
    struct fixture *f = *state;
    enum { SALES = 1024 + 3 };
    struct ledger_point from, to;
    assert_int_equal(ledger_file_begin(f->ledger, &from), FAULT_NONE);
    to = from;
    struct sale_terms terms = terms_named("");
    for (uint64_t id = 1; id <= SALES; id++) {
        snprintf(terms.name, sizeof(terms.name), "thing %d", (int)id);
        struct decision d = { .seq = ++to.seq, .at_ms = 1, .kind = DECISION_SALE_CREATED, .sale_id = id };
        d.created.seller = SLICE("sam");
        d.created.terms = &terms;
        d.created.stock = 100;
        assert_int_equal(ledger_file(f->ledger, &d), FAULT_NONE);
    }
    for (int round = 0; round < 3; round++) {
        for (uint64_t id = 1; id <= SALES; id++) {
            struct decision d = win_of(++to.seq, id, "ann", "", id == 2 ? 2 : 1);
            assert_int_equal(ledger_file(f->ledger, &d), FAULT_NONE);
        }
    }
    assert_int_equal(ledger_file_commit(f->ledger, &from, &to), FAULT_NONE);
    assert_int_equal(outside_number(f, "SELECT count(*) FROM sales WHERE sold = 3 AND available = 97"), SALES - 1);
    assert_int_equal(outside_number(f, "SELECT sold FROM sales WHERE id = 2"), 6);
    assert_int_equal(outside_number(f, "SELECT count(*) FROM orders"), 3 * SALES);
}

static void changes_reach_the_row(void **state)
{
    struct fixture *f = *state;
    struct sale_terms terms = terms_named("lamp");
    uint64_t id = sale_file(f, "sam", &terms, 10);
    static const struct {
        enum decision_kind kind;
        bool paused, closed;
    } script[] = {
        { DECISION_SALE_PAUSED, true, false },
        { DECISION_SALE_RESUMED, false, false },
        { DECISION_SALE_PAUSED, true, false },
        { DECISION_SALE_CLOSED, true, true },
    };
    struct sale sale;
    bool found;
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++) {
        decision_must(f, &(struct decision){ .seq = f->seq + 1, .at_ms = 1, .kind = script[i].kind, .sale_id = id });
        assert_int_equal(ledger_sale(f->ledger, id, &sale, &found), FAULT_NONE);
        assert_int_equal(sale.paused, script[i].paused);
        assert_int_equal(sale.closed, script[i].closed);
    }
    struct sale_terms changed = terms_named("Lamp");
    changed.price = 7;
    changed.closes_ms = 123456;
    changed.tokens_max = 8;
    changed.admit_max = 9;
    changed.line_rate_per_s = 10;
    changed.line_size = 11;
    changed.line_timeout_ms = 12;
    changed.late_payment = LATE_PAYMENT_REFUND;
    changed.event_id = 13;
    decision_must(f, &(struct decision){
                         .seq = f->seq + 1, .at_ms = 1, .kind = DECISION_SALE_CHANGED, .sale_id = id, .changed = &changed });
    assert_int_equal(ledger_sale(f->ledger, id, &sale, &found), FAULT_NONE);
    assert_true(sale_terms_equal(&sale.terms, &changed));
    assert_string_equal(sale.terms.name, "Lamp");
    assert_int_equal(sale.terms.price, 7);
    assert_int_equal(sale.terms.closes_ms, 123456);
    assert_int_equal(sale.terms.late_payment, LATE_PAYMENT_REFUND);
    assert_int_equal(sale.terms.event_id, 13);
    assert_int_equal(sale.counts.available, 10);
}

static void what_is_rolled_back_was_never_there(void **state)
{
    struct fixture *f = *state;
    struct sale_terms terms = terms_named("lamp");
    uint64_t id = sale_file(f, "sam", &terms, 10);
    struct ledger_point from;
    assert_int_equal(ledger_file_begin(f->ledger, &from), FAULT_NONE);
    struct decision d = win_of(f->seq + 1, id, "ann", "", 4);
    assert_int_equal(ledger_file(f->ledger, &d), FAULT_NONE);
    ledger_file_rollback(f->ledger);
    assert_int_equal(outside_number(f, "SELECT count(*) FROM orders"), 0);

    /* The sums of the first try must not be added to those of the second. */
    assert_int_equal(win_file(f, id, "ann", "", 4), 2);
    assert_int_equal(outside_number(f, "SELECT sold FROM sales"), 4);
    assert_int_equal(outside_number(f, "SELECT orders_made FROM sales"), 1);
}

/* A process dies with decisions filed and not committed; its successor files them, once. */
static void killed_between_file_and_commit_files_exactly_once(void **state)
{
    struct fixture *f = *state;
    struct sale_terms terms = terms_named("lamp");
    uint64_t id = sale_file(f, "sam", &terms, 1000);
    ledger_close(f->ledger);

    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct ledger *ledger;
        struct ledger_point from;
        if (ledger_open(&ledger, LEDGER_FILE(f->path), LEDGER_WRITER) != FAULT_NONE) _exit(1);
        if (ledger_file_begin(ledger, &from) != FAULT_NONE) _exit(1);
        for (uint64_t seq = from.seq + 1; seq <= from.seq + 500; seq++) {
            struct decision d = win_of(seq, id, "ann", "", 1);
            if (ledger_file(ledger, &d) != FAULT_NONE) _exit(1);
        }
        _exit(42);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 42);

    assert_int_equal(ledger_open(&f->ledger, LEDGER_FILE(f->path), LEDGER_OWNER), FAULT_NONE);
    struct ledger_point point;
    assert_int_equal(ledger_point(f->ledger, &point), FAULT_NONE);
    assert_int_equal(point.seq, 1);
    for (int i = 0; i < 500; i++) win_file(f, id, "ann", "", 1);
    assert_int_equal(outside_number(f, "SELECT count(*) FROM orders"), 500);
    assert_int_equal(outside_number(f, "SELECT sold FROM sales"), 500);
}

/* The point is put back by hand, as an old copy of that table would: the rows are there already. */
static void an_equal_row_is_passed_over_and_a_different_one_is_damage(void **state)
{
    struct fixture *f = *state;
    struct sale_terms terms = terms_named("lamp");
    uint64_t id = sale_file(f, "sam", &terms, 100);
    win_file(f, id, "ann", "key", 2);
    outside(f, "UPDATE point SET seq = 1, digest = 31");

    struct decision good = win_of(2, id, "ann", "key", 2);
    assert_int_equal(decisions_try(f, &good, 1), FAULT_NONE);
    assert_int_equal(outside_number(f, "SELECT count(*) FROM orders"), 1);
    assert_int_equal(outside_number(f, "SELECT sold FROM sales"), 2);

    struct decision bad[6];
    for (int i = 0; i < 6; i++) bad[i] = good;
    bad[0].won.buyer = SLICE("Ann");
    bad[1].won.key = SLICE("kez");
    bad[2].won.units = 1;
    bad[3].won.amount = 1;
    bad[4].at_ms++;
    bad[5].won.pay_by_ms = 1;
    for (int i = 0; i < 6; i++) {
        outside(f, "UPDATE point SET seq = 1, digest = 31");
        assert_int_equal(decisions_try(f, &bad[i], 1), FAULT_DAMAGE);
        assert_int_equal(outside_number(f, "SELECT seq FROM point"), 1);
        assert_int_equal(outside_number(f, "SELECT sold FROM sales"), 2);
    }
}

static void decisions_that_cannot_be_are_damage_and_change_nothing(void **state)
{
    struct fixture *f = *state;
    struct sale_terms terms = terms_named("lamp"), twin = terms_named("lamp"), other = terms_named("desk");
    uint64_t id = sale_file(f, "sam", &terms, 3);
    win_file(f, id, "ann", "key", 1);
    sale_file(f, "sam", &other, 3);
    uint64_t next = f->seq + 1;

    struct decision created = { .seq = next, .at_ms = 1, .kind = DECISION_SALE_CREATED, .sale_id = 9 };
    created.created.seller = SLICE("sam");
    created.created.terms = &twin;
    created.created.stock = 1;
    struct decision again = created;
    again.sale_id = id;
    const struct decision impossible[] = {
        win_of(next + 1, id, "bob", "", 1), /* a gap */
        win_of(next - 1, id, "bob", "", 1), /* behind the point */
        win_of(next, 77, "bob", "", 1),     /* no such sale */
        win_of(next, id, "bob", "", 3),     /* oversold: P1, by the database itself */
        win_of(next, id, "ann", "key", 1),  /* the same key wins twice */
        created,                            /* the seller's name is taken */
        again,                              /* the id is taken */
        { .seq = next, .kind = DECISION_SALE_PAUSED, .sale_id = 77 },
        { .seq = next, .kind = DECISION_SALE_CLOSED, .sale_id = 77 },
        { .seq = next, .kind = DECISION_STOCK_ADDED, .sale_id = 77, .stock_added = 1 },
        { .seq = next, .kind = DECISION_STOCK_ADDED, .sale_id = id, .stock_added = -3 },
        { .seq = next, .kind = DECISION_SALE_CHANGED, .sale_id = 77, .changed = &twin },
        { .seq = next, .kind = DECISION_SALE_CHANGED, .sale_id = id, .changed = &other }, /* takes the other's name */
        { .seq = next, .kind = (enum decision_kind)99, .sale_id = id },
        { .seq = next, .kind = DECISION_TOKEN_GIVEN, .sale_id = 77, .token_given = { SLICE("bob") } },
    };
    for (size_t i = 0; i < sizeof(impossible) / sizeof(impossible[0]); i++) {
        assert_int_equal(decisions_try(f, &impossible[i], 1), FAULT_DAMAGE);
        assert_int_equal(outside_number(f, "SELECT seq FROM point"), next - 1);
        assert_int_equal(outside_number(f, "SELECT sum(available * 1000 + sold) FROM sales"), 5001);
        assert_int_equal(outside_number(f, "SELECT count(*) FROM orders"), 1);
        assert_int_equal(outside_number(f, "SELECT count(*) FROM sales WHERE paused OR closed"), 0);
    }
}

static void names_that_differ_in_case_are_two_names(void **state)
{
    struct fixture *f = *state;
    struct sale_terms lower = terms_named("ann"), upper = terms_named("Ann");
    sale_file(f, "sam", &lower, 5);
    sale_file(f, "sam", &upper, 5);
    sale_file(f, "Sam", &upper, 5);
    win_file(f, 1, "ann", "key", 1);
    win_file(f, 1, "Ann", "key", 1);
    win_file(f, 1, "ann", "KEY", 1);
    assert_int_equal(outside_number(f, "SELECT count(*) FROM orders WHERE buyer = 'ann'"), 2);
}

static void a_point_that_moved_meanwhile_is_not_moved(void **state)
{
    struct fixture *f = *state;
    struct sale_terms terms = terms_named("lamp");
    uint64_t id = sale_file(f, "sam", &terms, 5);
    struct ledger_point from, to;
    assert_int_equal(ledger_file_begin(f->ledger, &from), FAULT_NONE);
    struct decision d = win_of(from.seq + 1, id, "ann", "", 1);
    assert_int_equal(ledger_file(f->ledger, &d), FAULT_NONE);
    to = from;
    to.seq = d.seq;
    from.seq = 0; /* what someone believes who has not read it at begin */
    assert_int_equal(ledger_file_commit(f->ledger, &from, &to), FAULT_LEDGER);
    assert_int_equal(outside_number(f, "SELECT count(*) FROM orders"), 0);
    assert_int_equal(outside_number(f, "SELECT seq FROM point"), 1);
    win_file(f, id, "ann", "", 1);
    assert_int_equal(outside_number(f, "SELECT sold FROM sales"), 1);
}

static void a_locked_ledger_is_waited_for_and_then_a_fault(void **state)
{
    struct fixture *f = *state;
    struct sale_terms terms = terms_named("lamp");
    uint64_t id = sale_file(f, "sam", &terms, 5);

    sqlite3 *other;
    assert_int_equal(sqlite3_open(f->path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN EXCLUSIVE; UPDATE sales SET paused = 1", NULL, NULL, NULL), SQLITE_OK);
    ledger_set_patience(f->ledger, 100);
    struct ledger_point from;
    struct timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    assert_int_equal(ledger_file_begin(f->ledger, &from), FAULT_TIMEOUT);
    clock_gettime(CLOCK_MONOTONIC, &after);
    int64_t waited_ms = (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000;
    assert_in_range(waited_ms, 90, 30000);
    /* Questions are still answered, as of before. */
    struct sale sale;
    bool found;
    assert_int_equal(ledger_sale(f->ledger, id, &sale, &found), FAULT_NONE);
    assert_true(found && !sale.paused);

    assert_int_equal(sqlite3_exec(other, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(other);
    win_file(f, id, "ann", "", 1);
    assert_int_equal(outside_number(f, "SELECT sold FROM sales"), 1);
}

/* A clerk that drains without a pause, and someone who logs out meanwhile. */
static _Atomic bool drained;
static void *drain(void *arg)
{
    struct fixture *f = arg;
    for (int round = 0; round < 40; round++) {
        struct ledger_point from, to;
        assert_int_equal(ledger_file_begin(f->ledger, &from), FAULT_NONE);
        to = from;
        for (int i = 0; i < 2000; i++) {
            struct decision d = win_of(++to.seq, 1, "ann", "", 1);
            assert_int_equal(ledger_file(f->ledger, &d), FAULT_NONE);
        }
        assert_int_equal(ledger_file_commit(f->ledger, &from, &to), FAULT_NONE);
    }
    drained = true;
    return NULL;
}

static void small_writes_are_not_starved_by_a_draining_clerk(void **state)
{
    struct fixture *f = *state;
    struct sale_terms terms = terms_named("lamp");
    sale_file(f, "sam", &terms, 1000000);
    struct ledger *people;
    assert_int_equal(ledger_open(&people, LEDGER_FILE(f->path), LEDGER_WRITER), FAULT_NONE);
    int writes = 0, drains = 0, most = 0;
    for (; drains < 5 && most < 20; drains++) { /* again, where this thread had to wait for a core */
        pthread_t thread;
        int before = writes;
        drained = false;
        assert_int_equal(pthread_create(&thread, NULL, drain, f), 0);
        for (; !drained; writes++) {
            assert_int_equal(ledger_revoke(people, (uint64_t)writes + 1, 99), FAULT_NONE);
            nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        }
        pthread_join(thread, NULL);
        if (writes - before > most) most = writes - before;
    }
    ledger_close(people);
    assert_true(most >= 20);
    assert_int_equal(outside_number(f, "SELECT count(*) FROM orders"), 80000 * drains);
    assert_int_equal(outside_number(f, "SELECT count(*) FROM revoked"), writes);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_new_ledger_has_filed_nothing),
        CASE(the_point_comes_back_as_it_was_committed),
        CASE(a_sale_comes_back_as_it_was_filed),
        CASE(wins_move_the_counts_of_their_sale),
        CASE(sales_that_share_a_place_keep_their_own_counts),
        CASE(changes_reach_the_row),
        CASE(what_is_rolled_back_was_never_there),
        CASE(killed_between_file_and_commit_files_exactly_once),
        CASE(an_equal_row_is_passed_over_and_a_different_one_is_damage),
        CASE(decisions_that_cannot_be_are_damage_and_change_nothing),
        CASE(names_that_differ_in_case_are_two_names),
        CASE(a_point_that_moved_meanwhile_is_not_moved),
        CASE(a_locked_ledger_is_waited_for_and_then_a_fault),
        CASE(small_writes_are_not_starved_by_a_draining_clerk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
