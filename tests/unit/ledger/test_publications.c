/* P4 for what is published: while publishing is on, there is a publication once for each thing that happened, in the
 * transaction that files it; off, there is none. */
#include "fixture.h"
#include "ledger/publications.h"

#include <stdio.h>
#include <string.h>

static void publishing_set(struct fixture *f, bool on, uint64_t waiting_max, uint64_t now_ms)
{
    const struct publishing publishing = { on, waiting_max };
    assert_int_equal(ledger_publishing_set(f->ledger, &publishing, now_ms), FAULT_NONE);
}

/* Kinds, sales and orders of rows as text, "won:1:2 sold_out:1:0 …". */
struct heard {
    char text[1024];
    uint64_t ids[64];
    size_t count;
};

static bool hear(void *arg, const struct notice *notice)
{
    struct heard *heard = arg;
    size_t len = strlen(heard->text);
    snprintf(heard->text + len, sizeof(heard->text) - len, "%s%s:%llu:%llu", len > 0 ? " " : "",
             strchr(notice_kind_word(notice->kind), '.') + 1, (unsigned long long)notice->sale_id,
             (unsigned long long)notice->order_no);
    heard->ids[heard->count++] = notice->id;
    return true;
}

static struct heard waiting(struct fixture *f, uint32_t limit)
{
    struct heard heard = { .count = 0 };
    assert_int_equal(ledger_publications(f->ledger, limit, hear, &heard), FAULT_NONE);
    return heard;
}

static uint64_t sale_make(struct fixture *f, const char *name, uint32_t stock, uint64_t closes_ms)
{
    struct sale_terms terms = terms_named(name);
    terms.closes_ms = closes_ms;
    return sale_file(f, "shop", &terms, stock);
}

static void end_file(struct fixture *f, enum decision_kind kind, uint64_t sale_id, uint64_t order_no)
{
    struct decision d = end_of(f, kind, sale_id, order_no, 1);
    decision_must(f, &d);
}

static void nothing_is_filed_while_it_is_off(void **state)
{
    struct fixture *f = *state;
    uint64_t sale = sale_make(f, "a", 1, 0);
    win_file(f, sale, "ann", "", 1);
    assert_string_equal(waiting(f, 10).text, "");
    publishing_set(f, true, 100, 5000);
    publishing_set(f, false, 100, 5000);
    fixture_reopen(f);
    win_file(f, sale_make(f, "b", 1, 0), "ann", "", 1);
    assert_string_equal(waiting(f, 10).text, "");
}

static void each_thing_is_filed_once_in_order_without_a_webhook(void **state)
{
    struct fixture *f = *state;
    publishing_set(f, true, 100, 0);
    uint64_t sale = sale_make(f, "a", 3, 0);
    uint64_t ann = hold_file(f, sale, "ann", 1, 9000), bob = hold_file(f, sale, "bob", 1, 9000);
    end_file(f, DECISION_PAID, sale, ann);
    end_file(f, DECISION_CANCELLED, sale, bob);
    uint64_t cat = win_file(f, sale, "cat", "", 2);
    char want[256];
    snprintf(want, sizeof(want),
             "won:%llu:%llu won:%llu:%llu paid:%llu:%llu cancelled:%llu:%llu won:%llu:%llu sold_out:%llu:0",
             (unsigned long long)sale, (unsigned long long)ann, (unsigned long long)sale, (unsigned long long)bob,
             (unsigned long long)sale, (unsigned long long)ann, (unsigned long long)sale, (unsigned long long)bob,
             (unsigned long long)sale, (unsigned long long)cat, (unsigned long long)sale);
    struct heard heard = waiting(f, 20);
    assert_string_equal(heard.text, want);
    fixture_reopen(f);
    assert_string_equal(waiting(f, 20).text, want);
    assert_int_equal(waiting(f, 2).count, 2);
}

static void a_transaction_that_is_rolled_back_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    publishing_set(f, true, 100, 0);
    uint64_t sale = sale_make(f, "a", 5, 0);
    struct ledger_point point;
    assert_int_equal(ledger_file_begin(f->ledger, &point), FAULT_NONE);
    struct decision d = win_of(f->seq + 1, sale, "ann", "", 1);
    assert_int_equal(ledger_file(f->ledger, &d), FAULT_NONE);
    ledger_file_rollback(f->ledger);
    assert_int_equal(waiting(f, 10).count, 0);
    win_file(f, sale, "ann", "", 1);
    assert_int_equal(waiting(f, 10).count, 1);
}

static void what_has_arrived_leaves_and_its_id_is_never_given_again(void **state)
{
    struct fixture *f = *state;
    publishing_set(f, true, 100, 0);
    uint64_t sale = sale_make(f, "a", 9, 0);
    for (int i = 0; i < 3; i++) win_file(f, sale, i == 0 ? "ann" : i == 1 ? "bob" : "cat", "", 1);
    struct heard heard = waiting(f, 10);
    const uint64_t arrived[] = { heard.ids[0], heard.ids[2] };
    assert_int_equal(ledger_publications_delete(f->ledger, arrived, 2), FAULT_NONE);
    assert_int_equal(ledger_publications_delete(f->ledger, arrived, 2), FAULT_NONE);
    struct heard left = waiting(f, 10);
    assert_int_equal(left.count, 1);
    assert_int_equal(left.ids[0], heard.ids[1]);
    assert_int_equal(ledger_publications_delete(f->ledger, left.ids, 1), FAULT_NONE);
    fixture_reopen(f);
    win_file(f, sale, "dan", "", 1);
    assert_true(waiting(f, 10).ids[0] > heard.ids[2]);
}

static void beyond_the_bound_they_are_counted_and_not_filed(void **state)
{
    struct fixture *f = *state;
    publishing_set(f, true, 3, 0);
    uint64_t sale = sale_make(f, "a", 50, 0);
    for (int i = 0; i < 10; i++) {
        char buyer[16];
        snprintf(buyer, sizeof(buyer), "buyer%d", i);
        win_file(f, sale, buyer, "", 1);
    }
    struct publications_count count;
    assert_int_equal(ledger_publications_count(f->ledger, &count), FAULT_NONE);
    assert_int_equal(count.waiting, 3);
    assert_int_equal(count.dropped, 7);
    assert_int_not_equal(count.oldest_ms, 0);
    struct heard heard = waiting(f, 10);
    assert_int_equal(heard.count, 3);
    assert_int_equal(ledger_publications_delete(f->ledger, heard.ids, 3), FAULT_NONE);
    win_file(f, sale, "last", "", 1);
    assert_int_equal(waiting(f, 10).count, 1);
    assert_int_equal(ledger_publications_count(f->ledger, &count), FAULT_NONE);
    assert_int_equal(count.dropped, 7);
}

static void a_ledger_has_a_name_of_its_own_that_stays(void **state)
{
    struct fixture *f = *state;
    struct publishing_mark first, second;
    assert_int_equal(ledger_publishing_mark(f->ledger, &first), FAULT_NONE);
    assert_string_equal(first.name, "");
    publishing_set(f, true, 10, 5000);
    assert_int_equal(ledger_publishing_mark(f->ledger, &first), FAULT_NONE);
    assert_int_equal(strspn(first.name, "0123456789abcdef"), PUBLISHING_NAME_BYTES);
    assert_int_equal(first.told_ms, 5000);
    publishing_set(f, true, 10, 6000);
    assert_int_equal(ledger_publishing_mark(f->ledger, &second), FAULT_NONE);
    assert_string_equal(first.name, second.name);
    assert_int_equal(second.told_ms, 5000); /* it was on all the time */
    publishing_set(f, false, 10, 7000);
    publishing_set(f, true, 10, 8000);
    assert_int_equal(ledger_publishing_mark(f->ledger, &second), FAULT_NONE);
    assert_string_equal(first.name, second.name);
    assert_int_equal(second.told_ms, 8000);
}

static void sales_closed_by_time_are_filed_once_for_a_span(void **state)
{
    struct fixture *f = *state;
    sale_make(f, "early", 5, 4000);
    uint64_t first = sale_make(f, "first", 5, 6000), second = sale_make(f, "second", 5, 5001);
    sale_make(f, "late", 5, 9000);
    publishing_set(f, true, 10, 5000);
    bool any;
    assert_int_equal(ledger_publications_moments(f->ledger, (struct outbox_span){ 5000, 5000 }, &any), FAULT_NONE);
    assert_false(any);
    const struct outbox_span span = { 5000, 6000 };
    assert_int_equal(ledger_publications_moments(f->ledger, span, &any), FAULT_NONE);
    assert_true(any);
    assert_int_equal(ledger_publications_file_moments(f->ledger, span), FAULT_NONE);
    assert_int_equal(ledger_publications_file_moments(f->ledger, span), FAULT_NONE);
    char want[64];
    snprintf(want, sizeof(want), "closed:%llu:0 closed:%llu:0", (unsigned long long)second, (unsigned long long)first);
    assert_string_equal(waiting(f, 10).text, want);
}

static void rows_that_cannot_be_are_damage(void **state)
{
    struct fixture *f = *state;
    static const char *const rows[] = { "(0, 1, 1, 5)", "(10, 1, 0, 5)", "(1, 1, 0, 5)", "(7, 1, 3, 5)", "(1, 1, -1, 5)" };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char sql[128];
        struct heard heard = { .count = 0 };
        outside(f, "DELETE FROM publications");
        snprintf(sql, sizeof(sql), "INSERT INTO publications (kind, sale, order_no, at_ms) VALUES %s", rows[i]);
        outside(f, sql);
        assert_int_equal(ledger_publications(f->ledger, 10, hear, &heard), FAULT_DAMAGE);
        assert_int_equal(heard.count, 0);
    }
}

/* Each row: what it is turned to, what it was, and whether what happens then is published. */
static void it_is_turned_off_only_when_nobody_objects(void **state)
{
    static const struct {
        enum publishing_state to, before;
        bool on;
    } script[] = {
        { PUBLISHING_ASKED, PUBLISHING_OFF, false }, { PUBLISHING_OFF, PUBLISHING_OFF, false },
        { PUBLISHING_ON, PUBLISHING_OFF, true },     { PUBLISHING_OFF, PUBLISHING_ON, true },
        { PUBLISHING_ASKED, PUBLISHING_ON, true },   { PUBLISHING_ASKED, PUBLISHING_ASKED, true },
        { PUBLISHING_ON, PUBLISHING_ASKED, true },   { PUBLISHING_OFF, PUBLISHING_ON, true },
        { PUBLISHING_ASKED, PUBLISHING_ON, true },   { PUBLISHING_OFF, PUBLISHING_ASKED, false },
    };
    struct fixture *f = *state;
    uint64_t sale = sale_make(f, "a", 50, 0), filed = 0;
    publishing_set(f, false, 100, 0);
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++) {
        enum publishing_state before;
        char buyer[2] = { (char)('a' + i), '\0' };
        assert_int_equal(ledger_publishing_turn(f->ledger, script[i].to, 5000, &before), FAULT_NONE);
        assert_int_equal(before, script[i].before);
        win_file(f, sale, buyer, "", 1);
        filed += script[i].on;
        assert_int_equal(waiting(f, 20).count, filed);
    }
}

static bool count_to_2000(void *arg, const struct notice *notice)
{
    uint64_t *count = arg;
    return notice->id > *count && ++*count < 2000;
}

static void all_are_read_until_somebody_has_enough(void **state)
{
    struct fixture *f = *state;
    uint64_t count = 0;
    outside(f, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1999)"
               " INSERT INTO publications (kind, sale, order_no, at_ms) SELECT 1, 1, i, 5 FROM n");
    assert_int_equal(ledger_publications_all(f->ledger, count_to_2000, &count), FAULT_NONE);
    assert_int_equal(count, 1999);
    outside(f, "INSERT INTO publications (kind, sale, order_no, at_ms) VALUES (1, 1, 2000, 5), (1, 1, 2001, 5)");
    count = 0;
    assert_int_equal(ledger_publications_all(f->ledger, count_to_2000, &count), FAULT_NONE);
    assert_int_equal(count, 2000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_is_filed_while_it_is_off, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(each_thing_is_filed_once_in_order_without_a_webhook, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(a_transaction_that_is_rolled_back_leaves_nothing, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(what_has_arrived_leaves_and_its_id_is_never_given_again, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(beyond_the_bound_they_are_counted_and_not_filed, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_ledger_has_a_name_of_its_own_that_stays, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(sales_closed_by_time_are_filed_once_for_a_span, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(rows_that_cannot_be_are_damage, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(it_is_turned_off_only_when_nobody_objects, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(all_are_read_until_somebody_has_enough, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
