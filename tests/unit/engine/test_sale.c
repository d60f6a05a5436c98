#include "stage.h"

#include <string.h>

/* A sale of one, open on [1000, 2000). */
static void state_follows_time_switches_and_stock(void **state)
{
    (void)state;
    static const struct {
        uint64_t at_ms;
        bool paused, closed;
        uint32_t available;
        const char *want;
    } rows[] = {
        { 999, false, false, 1, "upcoming" }, { 1000, false, false, 1, "open" },     { 1999, false, false, 1, "open" },
        { 2000, false, false, 1, "closed" },  { 1000, false, false, 0, "sold_out" }, { 999, false, false, 0, "upcoming" },
        { 1000, true, false, 0, "paused" },   { 999, true, false, 1, "upcoming" },   { 1000, true, true, 1, "closed" },
        { 999, false, true, 1, "closed" },    { 2000, true, false, 0, "closed" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct sale sale = { .id = 1, .terms = stage_terms(), .paused = rows[i].paused, .closed = rows[i].closed };
        sale.terms.opens_ms = 1000;
        sale.terms.closes_ms = 2000;
        sale.counts = (struct sale_counts){ .offered = 1, .available = rows[i].available, .sold = 1 - rows[i].available };
        assert_string_equal(sale_state_word(sale_state_at(&sale, rows[i].at_ms)), rows[i].want);
    }
}

static void a_sale_without_an_end_never_closes_by_itself(void **state)
{
    (void)state;
    struct sale sale = { .id = 1, .terms = stage_terms() };
    assert_false(sale_is_closed(&sale, TIME_MS_MAX));
}

static void words_are_those_of_the_api(void **state)
{
    (void)state;
    assert_string_equal(admission_word(ADMISSION_OPEN), "open");
    assert_string_equal(admission_word(ADMISSION_LOGIN), "login");
    assert_string_equal(order_state_word(ORDER_HELD), "held");
    assert_string_equal(order_state_word(ORDER_PAID), "paid");
    assert_string_equal(order_state_word(ORDER_CANCELLED), "cancelled");
    assert_string_equal(order_state_word(ORDER_EXPIRED), "expired");
    assert_string_equal(order_state_word(ORDER_REFUND_DUE), "refund_due");
    assert_string_equal(late_payment_word(LATE_PAYMENT_RETAKE), "retake");
    assert_string_equal(late_payment_word(LATE_PAYMENT_REFUND), "refund");
}

static void amount_is_price_times_units_or_none(void **state)
{
    (void)state;
    struct sale_terms terms = stage_terms();
    assert_int_equal(sale_amount(&terms, 3), -1);
    terms.price = 0;
    assert_int_equal(sale_amount(&terms, 3), 0);
    terms.price = PRICE_MAX;
    assert_int_equal(sale_amount(&terms, 9007), INT64_C(9007000000000000));
}

static void counts_add_up_without_wrapping(void **state)
{
    (void)state;
    assert_true(sale_counts_add_up(&(struct sale_counts){ 6, 1, 2, 3 }));
    assert_false(sale_counts_add_up(&(struct sale_counts){ 7, 1, 2, 3 }));
    assert_false(sale_counts_add_up(&(struct sale_counts){ 1, UINT32_MAX, 2, 0 }));
    assert_false(sale_counts_add_up(&(struct sale_counts){ STOCK_MAX + 1, STOCK_MAX + 1, 0, 0 }));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(state_follows_time_switches_and_stock),
        cmocka_unit_test(a_sale_without_an_end_never_closes_by_itself),
        cmocka_unit_test(words_are_those_of_the_api),
        cmocka_unit_test(amount_is_price_times_units_or_none),
        cmocka_unit_test(counts_add_up_without_wrapping),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
