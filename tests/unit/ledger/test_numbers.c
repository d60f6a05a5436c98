/* What becomes of orders is counted as it is filed, and always adds up to what stands in the orders themselves. */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>

/* Each number against a count of the rows. */
static void numbers_are_those_of_the_rows(const struct fixture *f, uint64_t sale_id)
{
    struct ledger_numbers numbers;
    bool found;
    char sql[256];
    assert_int_equal(ledger_numbers(f->ledger, sale_id, &numbers, &found), FAULT_NONE);
    assert_true(found);
    for (enum order_state state = 0; state <= ORDER_STATE_LAST; state++) {
        snprintf(sql, sizeof sql, "SELECT count(*) FROM orders WHERE sale = %d AND state = %d", (int)sale_id, (int)state);
        assert_int_equal(numbers.orders[state], outside_number(f, sql));
        snprintf(sql, sizeof sql, "SELECT coalesce(sum(units), 0) FROM orders WHERE sale = %d AND state = %d", (int)sale_id,
                 (int)state);
        assert_int_equal(numbers.units[state], outside_number(f, sql));
    }
    snprintf(sql, sizeof sql, "SELECT count(*) FROM orders WHERE sale = %d AND pay_by_ms > 0", (int)sale_id);
    assert_int_equal(numbers.holds_made, outside_number(f, sql));
    snprintf(sql, sizeof sql, "SELECT count(*) FROM orders WHERE sale = %d AND pay_by_ms > 0 AND state = 1", (int)sale_id);
    assert_int_equal(numbers.holds_paid, outside_number(f, sql));
}

static void end_file(struct fixture *f, enum decision_kind kind, uint64_t sale_id, uint64_t no)
{
    struct decision end = end_of(f, kind, sale_id, no, 2);
    if (kind == DECISION_CANCELLED) end.ended.by = CANCELLER_BUYER;
    if (kind == DECISION_PAID || kind == DECISION_RETAKEN || kind == DECISION_REFUND_DUE) end.ended.ref = SLICE("ref");
    decision_must(f, &end);
}

static void every_end_of_an_order_is_counted(void **state)
{
    struct fixture *f = *state;
    static const enum decision_kind ways[][2] = {
        { DECISION_PAID, 0 },
        { DECISION_CANCELLED, 0 },
        { DECISION_CANCELLED, DECISION_REFUND_DUE },
        { DECISION_EXPIRED, 0 },
        { DECISION_EXPIRED, DECISION_RETAKEN },
        { DECISION_EXPIRED, DECISION_REFUND_DUE },
    };
    struct sale_terms terms = terms_named("lamp");
    uint64_t id = sale_file(f, "sam", &terms, 100);
    uint64_t other = sale_file(f, "sam", &(struct sale_terms){ .name = "other", .price = -1, .units_per_grab_max = 1 }, 100);
    win_file(f, id, "paid at once", "", 2);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        uint64_t no = hold_file(f, id, "ann", 2, 5000);
        numbers_are_those_of_the_rows(f, id);
        for (int step = 0; step < 2 && ways[i][step] != 0; step++) {
            end_file(f, ways[i][step], id, no);
            numbers_are_those_of_the_rows(f, id);
        }
    }
    hold_file(f, id, "still held", 2, 5000);
    numbers_are_those_of_the_rows(f, id);
    numbers_are_those_of_the_rows(f, other);
    struct ledger_numbers numbers;
    bool found;
    assert_int_equal(ledger_numbers(f->ledger, id, &numbers, &found), FAULT_NONE);
    assert_int_equal(numbers.units_returned, 10); /* what came back stays counted, whatever becomes of the order */
    assert_int_equal(numbers.sold_out_ms, 0);
}

static uint64_t sold_out_ms(const struct fixture *f, uint64_t sale_id)
{
    struct ledger_numbers numbers;
    bool found;
    assert_int_equal(ledger_numbers(f->ledger, sale_id, &numbers, &found), FAULT_NONE);
    assert_true(found);
    return numbers.sold_out_ms;
}

/* Also where all of it is one transaction, and the row never shows that nothing was left. */
static void the_first_time_of_selling_out_is_kept(void **state)
{
    struct fixture *f = *state;
    struct sale_terms terms = terms_named("lamp");
    uint64_t id = sale_file(f, "sam", &terms, 3);
    win_file(f, id, "ann", "", 2);
    assert_int_equal(sold_out_ms(f, id), 0);

    struct decision batch[4];
    batch[0] = win_of(f->seq + 1, id, "bob", "", 1);
    batch[0].at_ms = 7000;
    batch[1] = (struct decision){
        .seq = f->seq + 2, .at_ms = 7001, .kind = DECISION_STOCK_ADDED, .sale_id = id, .stock_added = 2
    };
    batch[2] = win_of(f->seq + 3, id, "cat", "", 2);
    batch[2].at_ms = 7002;
    batch[3] = (struct decision){
        .seq = f->seq + 4, .at_ms = 7003, .kind = DECISION_STOCK_ADDED, .sale_id = id, .stock_added = 5
    };
    assert_int_equal(decisions_try(f, batch, 4), FAULT_NONE);
    assert_int_equal(sold_out_ms(f, id), 7000);
    fixture_reopen(f);
    assert_int_equal(sold_out_ms(f, id), 7000);
}

static void withdrawing_the_rest_is_not_selling_out(void **state)
{
    struct fixture *f = *state;
    struct sale_terms terms = terms_named("lamp");
    uint64_t id = sale_file(f, "sam", &terms, 3);
    win_file(f, id, "ann", "", 1);
    decision_must(f, &(struct decision){
                         .seq = f->seq + 1, .at_ms = 7001, .kind = DECISION_STOCK_ADDED, .sale_id = id, .stock_added = -2 });
    assert_int_equal(sold_out_ms(f, id), 0);
}

static void a_sale_that_is_not_there_has_no_numbers(void **state)
{
    struct fixture *f = *state;
    struct ledger_numbers numbers;
    bool found = true;
    assert_int_equal(ledger_numbers(f->ledger, 1, &numbers, &found), FAULT_NONE);
    assert_false(found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_end_of_an_order_is_counted, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(the_first_time_of_selling_out_is_kept, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(withdrawing_the_rest_is_not_selling_out, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_sale_that_is_not_there_has_no_numbers, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
