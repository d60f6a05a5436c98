/* Pages by number: a seller's sales, and those a buyer has won in. */
#include "fixture.h"

#include <stdio.h>

struct seen {
    uint64_t ids[64];
    size_t count;
};

static void sale_seen(void *arg, const struct sale *sale)
{
    struct seen *seen = arg;
    assert_true(seen->count < sizeof(seen->ids) / sizeof(seen->ids[0]));
    seen->ids[seen->count++] = sale->id;
}

static void pages_by_number_come_oldest_first_and_without_a_gap(void **state)
{
    struct fixture *f = *state;
    enum { SALES = 45, PAGE = 20 };
    uint64_t ids[SALES];
    for (int i = 0; i < SALES; i++) {
        char name[16];
        snprintf(name, sizeof(name), "sale %d", i);
        struct sale_terms terms = terms_named(name);
        ids[i] = sale_file(f, "sam", &terms, 100);
        sale_file(f, i % 2 == 0 ? "tom" : "sa", &terms, 100);
        win_file(f, ids[i], "ann", "", 1);
        win_file(f, ids[i], "bob", "", 1);
    }
    /* An order that gave its units back is nobody's any more; one of another era, and one that a node has numbered, are. */
    uint64_t held = hold_file(f, ids[0], "ann", 1, 1000);
    struct decision end = end_of(f, DECISION_EXPIRED, ids[0], held, 1);
    decision_must(f, &end);
    outside(f, "INSERT INTO orders VALUES (700000, 1, 'ann', 1, 0, 1, 1, 0, '', 0, '', 0, 0, '', NULL)");
    outside(f, "INSERT INTO orders VALUES (380000000000000000, 1, 'ann', 1, 0, 1, 1, 0, '', 0, '', 0, 0, '', NULL)");
    for (uint64_t skip = 0; skip <= 80; skip += PAGE) {
        struct seen of = { .count = 0 }, won = { .count = 0 };
        const struct ledger_page sams = { .name = SLICE("sam"), .skip = skip, .limit = PAGE };
        const struct ledger_page anns = { .name = SLICE("ann"), .skip = skip, .limit = PAGE };
        assert_int_equal(ledger_sales_of(f->ledger, &sams, sale_seen, &of), FAULT_NONE);
        assert_int_equal(ledger_sales_won(f->ledger, &anns, sale_seen, &won), FAULT_NONE);
        size_t left = skip < SALES ? SALES - (size_t)skip : 0, left_won = skip < SALES + 2 ? SALES + 2 - (size_t)skip : 0;
        assert_int_equal(of.count, left < PAGE ? left : PAGE);
        assert_int_equal(won.count, left_won < PAGE ? left_won : PAGE);
        for (size_t i = 0; i < of.count; i++) assert_int_equal(of.ids[i], ids[skip + i]);
        for (size_t i = 0; i < won.count && skip + i < SALES; i++) assert_int_equal(won.ids[i], ids[skip + i]);
    }
    struct seen none = { .count = 0 };
    const struct ledger_page far = { .name = SLICE("sam"), .skip = UINT64_MAX, .limit = PAGE };
    const struct ledger_page odd = { .name = SLICE("x' OR 'a'='a"), .limit = PAGE };
    assert_int_equal(ledger_sales_of(f->ledger, &far, sale_seen, &none), FAULT_NONE);
    assert_int_equal(ledger_sales_of(f->ledger, &odd, sale_seen, &none), FAULT_NONE);
    assert_int_equal(ledger_sales_won(f->ledger, &odd, sale_seen, &none), FAULT_NONE);
    assert_int_equal(none.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(pages_by_number_come_oldest_first_and_without_a_gap, fixture_setup,
                                        fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
