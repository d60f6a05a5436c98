/* What a node knows of sales, and whom it turns away by it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "gate/remote/number.h"
#include "gate/remote/shelf.h"

#include <stdio.h>
#include <string.h>

#define NOW_MS 5000

static int setup(void **state)
{
    struct shelf *shelf;
    assert_int_equal(shelf_open(&shelf), FAULT_NONE);
    *state = shelf;
    return 0;
}

static int teardown(void **state)
{
    shelf_close(*state);
    return 0;
}

/* Open from 1000 on, of ten. */
static struct ledger_shelved shelved(uint64_t id, uint64_t version, uint64_t epoch)
{
    struct ledger_shelved out = { .version = version, .epoch = epoch };
    out.sale.id = id;
    snprintf(out.sale.seller, sizeof out.sale.seller, "ann");
    snprintf(out.sale.terms.name, sizeof out.sale.terms.name, "sale %u", (unsigned)id);
    out.sale.terms.opens_ms = 1000;
    out.sale.terms.price = -1;
    out.sale.terms.units_per_grab_max = 2;
    out.sale.terms.grabs_per_buyer_max = 1;
    out.sale.terms.admission = ADMISSION_LOGIN;
    out.sale.counts = (struct sale_counts){ .offered = 10, .available = 10 };
    return out;
}

static void put(struct shelf *shelf, uint64_t id, uint64_t version, uint64_t epoch)
{
    struct ledger_shelved sale = shelved(id, version, epoch);
    assert_true(shelf_put(shelf, &sale));
}

static struct shelf_counts counts(uint64_t epoch, uint64_t at_ms, uint32_t sold)
{
    return (struct shelf_counts){ .epoch = epoch,
                                  .at_ms = at_ms,
                                  .counts = { .offered = 10, .available = 10 - sold, .sold = sold },
                                  .orders_made = sold };
}

static void left(struct shelf *shelf, uint64_t epoch, uint64_t at_ms, uint32_t available, bool won)
{
    shelf_left(shelf, 1, &(struct shelf_left){ epoch, at_ms, available, won });
}

static uint32_t available(struct shelf *shelf, uint64_t id)
{
    struct sale sale;
    assert_true(shelf_sale(shelf, id, &sale));
    assert_true(sale_counts_add_up(&sale.counts));
    return sale.counts.available;
}

static void an_older_version_changes_nothing(void **state)
{
    struct shelf *shelf = *state;
    struct ledger_shelved newer = shelved(1, 5, 1);
    newer.sale.paused = true;
    assert_true(shelf_put(shelf, &newer));
    put(shelf, 1, 4, 1);
    struct sale sale;
    assert_true(shelf_sale(shelf, 1, &sale));
    assert_true(sale.paused);
    put(shelf, 1, 6, 1);
    assert_true(shelf_sale(shelf, 1, &sale));
    assert_false(sale.paused);
}

/* What the ledger has filed is behind what Redis has decided. */
static void counts_are_those_of_redis_until_the_gate_is_built_anew(void **state)
{
    struct shelf *shelf = *state;
    put(shelf, 1, 1, 1);
    struct shelf_counts told = counts(1, 3000, 4);
    shelf_count(shelf, 1, &told);
    put(shelf, 1, 2, 1);
    assert_int_equal(available(shelf, 1), 6);
    put(shelf, 1, 3, 2);
    assert_int_equal(available(shelf, 1), 10);
    told = counts(1, 9000, 5); /* of the gate that is gone */
    shelf_count(shelf, 1, &told);
    assert_int_equal(available(shelf, 1), 10);
}

static void an_older_answer_does_not_overwrite_a_newer_one(void **state)
{
    struct shelf *shelf = *state;
    put(shelf, 1, 1, 1);
    struct shelf_counts told = counts(1, 3000, 4);
    shelf_count(shelf, 1, &told);
    told = counts(1, 2999, 2);
    shelf_count(shelf, 1, &told);
    assert_int_equal(available(shelf, 1), 6);
    told = counts(1, 3000, 3);
    shelf_count(shelf, 1, &told);
    assert_int_equal(available(shelf, 1), 6);
    told = counts(1, 3000, 5);
    shelf_count(shelf, 1, &told);
    assert_int_equal(available(shelf, 1), 5);
}

static void a_decision_moves_the_notice_and_no_counts(void **state)
{
    struct shelf *shelf = *state;
    struct board_notice notice;
    put(shelf, 1, 1, 1);
    left(shelf, 1, 2000, 3, true);
    assert_true(shelf_notice(shelf, 1, &notice));
    assert_int_equal(notice.available, 3);
    assert_int_equal(available(shelf, 1), 10);
    left(shelf, 2, 2001, 9, true); /* of another epoch */
    assert_true(shelf_notice(shelf, 1, &notice));
    assert_int_equal(notice.available, 3);
}

/* Answers of several lanes, and of the keeper, come in any order: a unit that came back is not forgotten by an older one. */
static void what_came_back_is_not_hidden_by_an_older_answer(void **state)
{
    struct shelf *shelf = *state;
    struct board_notice notice;
    struct shelf_counts told = counts(1, 3000, 10);
    put(shelf, 1, 1, 1);
    left(shelf, 1, 3001, 1, false);
    shelf_count(shelf, 1, &told);
    left(shelf, 1, 2999, 0, true);
    left(shelf, 1, 3001, 0, false);
    assert_true(shelf_notice(shelf, 1, &notice));
    assert_int_equal(notice.available, 1);
    left(shelf, 1, 3002, 4, true);
    left(shelf, 1, 3002, 3, true); /* two wins of one millisecond */
    left(shelf, 1, 3002, 4, true);
    assert_true(shelf_notice(shelf, 1, &notice));
    assert_int_equal(notice.available, 3);
    left(shelf, 1, 3003, 0, false);
    assert_true(shelf_notice(shelf, 1, &notice));
    assert_int_equal(notice.available, 0);
}

static void names_are_found_and_move_with_their_sales(void **state)
{
    struct shelf *shelf = *state;
    put(shelf, 1, 1, 1);
    put(shelf, 2, 2, 1);
    assert_int_equal(shelf_by_name(shelf, SLICE("ann"), SLICE("sale 2")), 2);
    assert_int_equal(shelf_by_name(shelf, SLICE("eve"), SLICE("sale 2")), 0);
    uint64_t version = shelf_names_version(shelf);
    struct ledger_shelved renamed = shelved(2, 3, 1);
    snprintf(renamed.sale.terms.name, sizeof renamed.sale.terms.name, "other");
    assert_true(shelf_put(shelf, &renamed));
    assert_true(shelf_names_version(shelf) > version);
    assert_int_equal(shelf_by_name(shelf, SLICE("ann"), SLICE("sale 2")), 0);
    assert_int_equal(shelf_by_name(shelf, SLICE("ann"), SLICE("other")), 2);
    shelf_drop(shelf, 2);
    assert_int_equal(shelf_by_name(shelf, SLICE("ann"), SLICE("other")), 0);
    shelf_name_past(shelf, SLICE("ann"), SLICE("other"), 2);
    assert_int_equal(shelf_by_name(shelf, SLICE("ann"), SLICE("other")), 2);
}

static void what_is_dropped_makes_room_for_others(void **state)
{
    struct shelf *shelf = *state;
    for (uint64_t id = 1; id <= SALES_OPEN_MAX; id++) put(shelf, id, id, 1);
    struct ledger_shelved one_more = shelved(SALES_OPEN_MAX + 1, SALES_OPEN_MAX + 1, 1);
    assert_false(shelf_put(shelf, &one_more));
    uint64_t epoch;
    for (uint64_t id = 1; id <= SALES_OPEN_MAX; id += 2) shelf_drop(shelf, id);
    assert_int_equal(shelf_size(shelf), SALES_OPEN_MAX / 2);
    for (uint64_t id = 1; id <= SALES_OPEN_MAX; id++) assert_true(shelf_epoch(shelf, id, &epoch) == (id % 2 == 0));
    for (uint64_t id = SALES_OPEN_MAX + 1; id <= SALES_OPEN_MAX + SALES_OPEN_MAX / 2; id++) put(shelf, id, id, 1);
    assert_int_equal(shelf_size(shelf), SALES_OPEN_MAX);
    for (uint64_t id = 2; id <= SALES_OPEN_MAX; id += 2) assert_true(shelf_epoch(shelf, id, &epoch));
}

/* Sold out, as it was asked for at that time, and cat and dan have won all of it. */
static void sell_out_asked(struct shelf *shelf, uint64_t at_ms, uint64_t asked_mono_ms)
{
    const struct slice winners[] = { SLICE("cat"), SLICE("dan") };
    struct shelf_counts told = {
        .epoch = 1, .at_ms = at_ms, .asked_mono_ms = asked_mono_ms, .counts = { .offered = 10, .sold = 10 }, .orders_made = 2
    };
    shelf_count(shelf, 1, &told);
    assert_true(shelf_winners(shelf, 1, &told, winners, 2));
}

static void sell_out(struct shelf *shelf, uint64_t at_ms)
{
    sell_out_asked(shelf, at_ms, mono_ms() + 60000); /* however slow the test is */
}

static struct grab grab_of(struct slice buyer)
{
    return (struct grab){ .sale_id = 1, .buyer = buyer, .units = 1 };
}

static void who_certainly_holds_nothing_is_turned_away(void **state)
{
    struct shelf *shelf = *state;
    put(shelf, 1, 1, 1);
    struct grab bob = grab_of(SLICE("bob")), cat = grab_of(SLICE("cat"));
    assert_int_equal(shelf_refuse(shelf, &bob, NOW_MS, 0), VERDICT_DONE); /* there is something left */
    sell_out(shelf, 3000);
    assert_int_equal(shelf_refuse(shelf, &bob, NOW_MS, 0), VERDICT_SOLD_OUT);
    assert_int_equal(shelf_refuse(shelf, &cat, NOW_MS, 0), VERDICT_DONE); /* who has won hears what */
}

/* Whatever comes before SOLD_OUT in the order of verdicts is for the script to say. */
static void other_refusals_come_first(void **state)
{
    struct shelf *shelf = *state;
    put(shelf, 1, 1, 1);
    sell_out(shelf, 3000);
    struct grab bob = grab_of(SLICE("bob"));
    assert_int_equal(shelf_refuse(shelf, &bob, 999, 0), VERDICT_DONE); /* not open */
    bob.units = 3;
    assert_int_equal(shelf_refuse(shelf, &bob, NOW_MS, 0), VERDICT_DONE); /* over the limit */
    bob.units = 1;
    struct ledger_shelved paused = shelved(1, 2, 1);
    paused.sale.paused = true;
    assert_true(shelf_put(shelf, &paused));
    assert_int_equal(shelf_refuse(shelf, &bob, NOW_MS, 0), VERDICT_DONE);
}

static void nobody_is_turned_away_once_something_has_changed(void **state)
{
    struct shelf *shelf = *state;
    struct grab bob = grab_of(SLICE("bob"));
    put(shelf, 1, 1, 1);
    sell_out(shelf, 3000);
    left(shelf, 1, 3001, 1, false); /* something came back */
    assert_int_equal(shelf_refuse(shelf, &bob, NOW_MS, 0), VERDICT_DONE);
    sell_out(shelf, 3002);
    assert_int_equal(shelf_refuse(shelf, &bob, NOW_MS, 0), VERDICT_SOLD_OUT);
    left(shelf, 1, 3003, 0, true); /* somebody else has won it: who, is not counted yet */
    assert_int_equal(shelf_refuse(shelf, &bob, NOW_MS, 0), VERDICT_DONE);
    sell_out(shelf, 3004);
    put(shelf, 1, 2, 2); /* the gate is built anew */
    assert_int_equal(shelf_refuse(shelf, &bob, NOW_MS, 0), VERDICT_DONE);
}

/* They were read while the gate was built anew, and are maybe not all. */
static void winners_of_another_epoch_are_passed_over(void **state)
{
    struct shelf *shelf = *state;
    struct grab bob = grab_of(SLICE("bob"));
    put(shelf, 1, 1, 1);
    put(shelf, 1, 2, 2);
    const struct slice winners[] = { SLICE("cat") };
    struct shelf_counts told = { .epoch = 2,
                                 .at_ms = 3000,
                                 .asked_mono_ms = mono_ms() + 60000,
                                 .counts = { .offered = 10, .sold = 10 },
                                 .orders_made = 2 };
    struct shelf_counts before = { .epoch = 1, .orders_made = 2 };
    shelf_count(shelf, 1, &told);
    assert_true(shelf_winners(shelf, 1, &before, winners, 1));
    assert_int_equal(shelf_refuse(shelf, &bob, NOW_MS, 0), VERDICT_DONE);
    assert_true(shelf_winners(shelf, 1, &told, winners, 1));
    assert_int_equal(shelf_refuse(shelf, &bob, NOW_MS, 0), VERDICT_SOLD_OUT);
}

/* Another node may have given something back since, and nothing has come from Redis. */
static void nobody_is_turned_away_by_what_is_not_fresh(void **state)
{
    struct shelf *shelf = *state;
    struct grab bob = grab_of(SLICE("bob"));
    put(shelf, 1, 1, 1);
    sell_out_asked(shelf, 3000, mono_ms() - SHELF_FRESH_MS - 1);
    assert_int_equal(shelf_refuse(shelf, &bob, NOW_MS, 0), VERDICT_DONE);
    sell_out(shelf, 3000); /* nothing has changed, and that is known again */
    assert_int_equal(shelf_refuse(shelf, &bob, NOW_MS, 0), VERDICT_SOLD_OUT);
    shelf_drop(shelf, 1);
    put(shelf, 1, 1, 1);
    sell_out_asked(shelf, 3000, 0);
    assert_int_equal(shelf_refuse(shelf, &bob, NOW_MS, 0),
                     VERDICT_DONE); /* what was known of it before it went is forgotten */
}

/* Who brings a key may have won a moment ago at another node: what was asked for before they came does not turn them away.
 */
static void what_was_asked_for_before_somebody_came_does_not_turn_them_away(void **state)
{
    struct shelf *shelf = *state;
    struct grab bob = grab_of(SLICE("bob"));
    uint64_t came_ms = mono_ms() + 30000;
    put(shelf, 1, 1, 1);
    sell_out_asked(shelf, 3000, came_ms - 1);
    assert_int_equal(shelf_refuse(shelf, &bob, NOW_MS, 0), VERDICT_SOLD_OUT);
    assert_int_equal(shelf_refuse(shelf, &bob, NOW_MS, came_ms), VERDICT_DONE);
    sell_out_asked(shelf, 3000, came_ms);
    assert_int_equal(shelf_refuse(shelf, &bob, NOW_MS, came_ms), VERDICT_SOLD_OUT);
}

/* An order's number tells its sale's mark, and the sale was open by then. Each that fits comes once, however small the page.
 */
static void pages_have_the_sales_that_an_order_can_be_of(void **state)
{
    struct shelf *shelf = *state;
    enum { SALES = 5000 };
    static uint8_t seen[SALES + 1];
    uint32_t pages = 0, count = 0, from = SHELF_PAGE_FIRST;
    memset(seen, 0, sizeof seen);
    for (uint64_t id = 1; id <= SALES; id++) {
        struct ledger_shelved sale = shelved(id, id, 1);
        if (id % 3 == 0) sale.sale.terms.opens_ms = NOW_MS + 1;
        assert_true(shelf_put(shelf, &sale));
    }
    const struct shelf_sought sought = { .marks = 1U << sale_mark(7) | 1U << sale_mark(8), .open_by_ms = NOW_MS };
    for (; from != 0; pages++) {
        uint64_t ids[16];
        uint32_t got = shelf_page(shelf, &sought, &from, ids, 16);
        for (uint32_t i = 0; i < got; i++) assert_int_equal(seen[ids[i]]++, 0);
        count += got;
    }
    for (uint64_t id = 1; id <= SALES; id++) {
        bool fits = id % 3 != 0 && (sale_mark(id) == sale_mark(7) || sale_mark(id) == sale_mark(8));
        assert_int_equal(seen[id], fits);
    }
    assert_true(count > 0 && pages <= count / 16 + SALES / 1000);
}

/* How many of a node may ask at once, and leave again. */
static uint32_t entered(struct shelf *shelf, uint32_t nodes, uint32_t percent)
{
    const struct shelf_share share = { nodes, percent, false };
    uint32_t count = 0;
    while (shelf_enter(shelf, 1, NOW_MS, &share) == SHELF_TAKEN) count++;
    for (uint32_t i = 0; i < count; i++) shelf_leave(shelf, 1);
    return count;
}

static void a_share_is_part_of_what_is_left_and_never_nothing(void **state)
{
    struct shelf *shelf = *state;
    put(shelf, 1, 1, 1);
    static const struct {
        uint32_t left, nodes, percent, most;
    } rows[] = {
        { 10, 1, 100, 10 },
        { 100, 3, 100, 34 },
        { 99, 3, 100, 33 },
        { 100, 3, 150, 50 },
        { 10, 3, 1000, 34 },
        { 100, 2, 50, 25 },
        { 24, 3, 100, 8 },
        { 25, 3, 100, 9 },
        { 10, 4, 400, 10 },
        { 10, 1, 100000, 10000 },
        /* Never less. */
        { 10, 3, 100, 8 },
        { 1, 1, 1, 8 },
        { 1, 1023, 1, 8 },
        { 1000, 1023, 100, 8 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        left(shelf, 1, 2000 + i, rows[i].left, false);
        uint32_t most = entered(shelf, rows[i].nodes, rows[i].percent);
        if (most != rows[i].most) fail_msg("row %zu: %u", i, most);
    }
}

static void who_leaves_lets_another_in(void **state)
{
    struct shelf *shelf = *state;
    const struct shelf_share share = { 1, 90, false }; /* nine of ten */
    put(shelf, 1, 1, 1);
    for (int i = 0; i < 9; i++) assert_int_equal(shelf_enter(shelf, 1, NOW_MS, &share), SHELF_TAKEN);
    assert_int_equal(shelf_enter(shelf, 1, NOW_MS, &share), SHELF_WAIT);
    shelf_leave(shelf, 1);
    assert_int_equal(shelf_enter(shelf, 1, NOW_MS, &share), SHELF_TAKEN);
    /* Fewer are left: those who ask go on, and nobody comes before two of them have left. */
    left(shelf, 1, 2000, 5, true);
    assert_int_equal(shelf_enter(shelf, 1, NOW_MS, &share), SHELF_WAIT);
    shelf_leave(shelf, 1);
    assert_int_equal(shelf_enter(shelf, 1, NOW_MS, &share), SHELF_WAIT);
    shelf_leave(shelf, 1);
    assert_int_equal(shelf_enter(shelf, 1, NOW_MS, &share), SHELF_TAKEN);
    /* A sale that went and came back owes nobody anything, and is owed nothing. */
    shelf_drop(shelf, 1);
    shelf_leave(shelf, 1);
    put(shelf, 1, 2, 2);
    for (int i = 0; i < 3; i++) shelf_leave(shelf, 1);
    assert_int_equal(entered(shelf, 1, 90), 9);
}

static void when_all_is_sold_they_wait_for_the_pre_count_and_not_forever(void **state)
{
    struct shelf *shelf = *state;
    const struct shelf_share share = { 3, 100, false }, patient = { 3, 100, true };
    put(shelf, 1, 1, 1);
    left(shelf, 1, 2000, 0, true);
    assert_int_equal(shelf_enter(shelf, 1, NOW_MS, &share), SHELF_WAIT);
    assert_int_equal(shelf_enter(shelf, 1, NOW_MS, &patient), SHELF_FREE);
    sell_out(shelf, 3000);
    assert_int_equal(shelf_enter(shelf, 1, NOW_MS, &share), SHELF_FREE); /* one that the pre-count did not turn away */
    left(shelf, 1, 3001, 1, false);                                      /* something came back */
    assert_int_equal(entered(shelf, 3, 100), SHELF_SHARE_MIN);
}

static void sales_whose_crowd_stands_elsewhere_have_no_share(void **state)
{
    struct shelf *shelf = *state;
    const struct shelf_share share = { 10, 100, false };
    assert_int_equal(shelf_enter(shelf, 1, NOW_MS, &share), SHELF_FREE); /* not there */
    put(shelf, 1, 1, 1);
    assert_int_equal(shelf_enter(shelf, 1, 999, &share), SHELF_FREE); /* not open */
    assert_int_equal(entered(shelf, 10, 100), SHELF_SHARE_MIN);
    static const enum admission others[] = { ADMISSION_TOKEN, ADMISSION_LINE };
    for (uint64_t i = 0; i < 2; i++) {
        struct ledger_shelved sale = shelved(1, 2 + i, 1);
        sale.sale.terms.admission = others[i];
        assert_true(shelf_put(shelf, &sale));
        assert_int_equal(shelf_enter(shelf, 1, NOW_MS, &share), SHELF_FREE);
    }
}

static void asked_note(uint64_t sale_id, bool winners, void *arg)
{
    (void)winners;
    *(uint64_t *)arg += sale_id;
}

/* Not every way to a grab looks at the sale before. */
static void a_grab_keeps_its_sale_fresh(void **state)
{
    struct shelf *shelf = *state;
    uint64_t asked = 0;
    put(shelf, 1, 1, 1);
    put(shelf, 2, 2, 1);
    struct grab bob = grab_of(SLICE("bob"));
    shelf_each_asked(shelf, 1, asked_note, &asked);
    assert_int_equal(asked, 0);
    assert_int_equal(shelf_refuse(shelf, &bob, NOW_MS, 0), VERDICT_DONE);
    shelf_each_asked(shelf, 1, asked_note, &asked);
    assert_int_equal(asked, 1);
}

static void visit(const struct sale *sale, uint64_t epoch, void *arg)
{
    uint64_t *sum = arg;
    *sum += sale->id * epoch;
}

static void each_is_visited_once(void **state)
{
    struct shelf *shelf = *state;
    uint64_t sum = 0;
    for (uint64_t id = 1; id <= 10; id++) put(shelf, id, id, 2);
    shelf_drop(shelf, 10);
    shelf_each(shelf, visit, &sum);
    assert_int_equal(sum, 2 * 45);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_older_version_changes_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(counts_are_those_of_redis_until_the_gate_is_built_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(an_older_answer_does_not_overwrite_a_newer_one, setup, teardown),
        cmocka_unit_test_setup_teardown(a_decision_moves_the_notice_and_no_counts, setup, teardown),
        cmocka_unit_test_setup_teardown(what_came_back_is_not_hidden_by_an_older_answer, setup, teardown),
        cmocka_unit_test_setup_teardown(names_are_found_and_move_with_their_sales, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_dropped_makes_room_for_others, setup, teardown),
        cmocka_unit_test_setup_teardown(who_certainly_holds_nothing_is_turned_away, setup, teardown),
        cmocka_unit_test_setup_teardown(other_refusals_come_first, setup, teardown),
        cmocka_unit_test_setup_teardown(nobody_is_turned_away_once_something_has_changed, setup, teardown),
        cmocka_unit_test_setup_teardown(nobody_is_turned_away_by_what_is_not_fresh, setup, teardown),
        cmocka_unit_test_setup_teardown(what_was_asked_for_before_somebody_came_does_not_turn_them_away, setup, teardown),
        cmocka_unit_test_setup_teardown(pages_have_the_sales_that_an_order_can_be_of, setup, teardown),
        cmocka_unit_test_setup_teardown(winners_of_another_epoch_are_passed_over, setup, teardown),
        cmocka_unit_test_setup_teardown(a_share_is_part_of_what_is_left_and_never_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(who_leaves_lets_another_in, setup, teardown),
        cmocka_unit_test_setup_teardown(when_all_is_sold_they_wait_for_the_pre_count_and_not_forever, setup, teardown),
        cmocka_unit_test_setup_teardown(sales_whose_crowd_stands_elsewhere_have_no_share, setup, teardown),
        cmocka_unit_test_setup_teardown(a_grab_keeps_its_sale_fresh, setup, teardown),
        cmocka_unit_test_setup_teardown(each_is_visited_once, setup, teardown),
    };
    return cmocka_run_group_tests_name("shelf", tests, NULL, NULL);
}
