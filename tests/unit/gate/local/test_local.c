/* The gate against its promises: nothing is said before it is durable (P3), what was said is there after a restart (P5, P7),
 * and a sale that is over leaves memory but not the ledger. */
#include "stand.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

static const struct sale_terms phone = {
    .name = "phone", .price = 100, .units_per_grab_max = 2, .grabs_per_buyer_max = 1, .admission = ADMISSION_LOGIN
};

static uint64_t create_by(struct stand *stand, const char *seller, uint32_t stock)
{
    struct told told = stand_told(stand);
    struct sale_terms terms = phone;
    terms.opens_ms = gate_now_ms(stand->gate);
    gate_create(stand->lane, &(struct asker){ .name = slice_of(seller) }, &terms, stock, &told.ticket);
    stand_await(stand, &told);
    assert_int_equal(told.ticket.verdict, VERDICT_DONE);
    return told.ticket.sale.id;
}

static uint64_t create(struct stand *stand, uint32_t stock)
{
    return create_by(stand, "sam", stock);
}

static void a_win_is_told_only_when_its_record_is_durable(void **state)
{
    struct stand *stand = *state;
    stand_open(stand, true);
    uint64_t sale = create(stand, 3);
    struct told won = stand_grab(stand, sale, "ann", "");
    assert_int_equal(won.ticket.verdict, VERDICT_WON);
    assert_true(won.durable_at >= won.ticket.grab.order.no);
    stand_close(stand);
}

/* No committer runs: nothing becomes durable, so a win and "already yours" stay unsaid, and a plain refusal is said at once.
 */
static void without_a_commit_only_refusals_are_told(void **state)
{
    struct stand *stand = *state;
    stand_open(stand, true);
    uint64_t sale = create(stand, 1);
    stand_close(stand);

    stand_open(stand, false);
    struct told won = stand_told(stand), again = stand_told(stand), order = stand_told(stand), late = stand_told(stand);
    struct grab ann = { .sale_id = sale, .buyer = SLICE("ann"), .units = 1 };
    gate_grab(stand->lane, &ann, &won.ticket);
    gate_grab(stand->lane, &ann, &again.ticket);
    gate_order(stand->lane, 2, &order.ticket);
    struct grab bob = { .sale_id = sale, .buyer = SLICE("bob"), .units = 1 };
    gate_grab(stand->lane, &bob, &late.ticket);
    gate_lane_rest(stand->lane);
    assert_int_equal(late.times, 1);
    assert_int_equal(late.ticket.verdict, VERDICT_SOLD_OUT);
    assert_int_equal(won.times + again.times + order.times, 0);

    assert_int_equal(gate_start(stand->gate), FAULT_NONE);
    stand_await(stand, &won);
    stand_await(stand, &again);
    stand_await(stand, &order);
    assert_int_equal(won.ticket.verdict, VERDICT_WON);
    assert_int_equal(again.ticket.verdict, VERDICT_ALREADY_WON);
    assert_int_equal(again.ticket.grab.order.no, won.ticket.grab.order.no);
    assert_int_equal(order.ticket.verdict, VERDICT_DONE);
    assert_true(stand->wakes > 0);
    stand_close(stand);
}

/* A pipeline: every answer is there at once with the record it rests on, and the last of them is waited for. */
static void answers_of_tickets_without_done_are_waited_for_together(void **state)
{
    struct stand *stand = *state;
    stand_open(stand, true);
    uint64_t sale = create(stand, 2);
    stand_close(stand);

    stand_open(stand, false);
    struct gate_ticket ticket = { .done = NULL };
    struct grab ann = { .sale_id = sale, .buyer = SLICE("ann"), .units = 1 };
    struct grab bob = { .sale_id = sale, .buyer = SLICE("bob"), .units = 1 };
    struct grab cat = { .sale_id = sale, .buyer = SLICE("cat"), .units = 1 };
    gate_grab(stand->lane, &ann, &ticket);
    assert_int_equal(ticket.verdict, VERDICT_WON);
    assert_int_equal(ticket.seq, ticket.grab.order.no);
    gate_grab(stand->lane, &bob, &ticket);
    uint64_t last = ticket.seq;
    gate_grab(stand->lane, &ann, &ticket);
    assert_int_equal(ticket.verdict, VERDICT_ALREADY_WON);
    assert_int_equal(ticket.seq, last - 1);
    gate_grab(stand->lane, &cat, &ticket);
    assert_int_equal(ticket.verdict, VERDICT_SOLD_OUT);
    assert_int_equal(ticket.seq, 0);
    assert_int_equal(ticket.grab.available, 0);

    struct told told = stand_told(stand);
    assert_true(gate_await(stand->lane, 0, &told.ticket));
    assert_false(gate_await(stand->lane, last, &told.ticket));
    gate_lane_rest(stand->lane);
    assert_int_equal(told.times, 0);
    assert_int_equal(gate_start(stand->gate), FAULT_NONE);
    stand_await(stand, &told);
    assert_int_equal(told.ticket.verdict, VERDICT_DONE);
    assert_true(told.durable_at >= last);
    assert_true(gate_await(stand->lane, last, &told.ticket));
    assert_int_equal(told.times, 1);
    stand_close(stand);
}

static void a_name_means_its_sale_until_it_is_changed(void **state)
{
    struct stand *stand = *state;
    stand_open(stand, true);
    uint64_t sale = create(stand, 2), version = gate_names_version(stand->gate);
    assert_int_equal(gate_sale_by_name(stand->gate, SLICE("sam"), SLICE("phone")), sale);
    assert_int_equal(gate_sale_by_name(stand->gate, SLICE("bob"), SLICE("phone")), 0);
    struct told told = stand_told(stand);
    struct sale_change change = { .mask = TERM_NAME, .terms.name = "camera" };
    gate_change(stand->lane, &(struct asker){ .name = SLICE("sam") }, sale, &change, &told.ticket);
    stand_await(stand, &told);
    assert_int_not_equal(gate_names_version(stand->gate), version);
    assert_int_equal(gate_sale_by_name(stand->gate, SLICE("sam"), SLICE("phone")), 0);
    assert_int_equal(gate_sale_by_name(stand->gate, SLICE("sam"), SLICE("camera")), sale);
    stand_close(stand);
}

static void a_restart_knows_what_was_said(void **state)
{
    struct stand *stand = *state;
    stand_open(stand, true);
    uint64_t sale = create(stand, 3);
    struct told first = stand_grab(stand, sale, "ann", "k1");
    stand_close(stand);

    stand_open(stand, true);
    struct told repeated = stand_grab(stand, sale, "ann", "k1");
    assert_int_equal(repeated.ticket.verdict, VERDICT_REPEATED);
    assert_int_equal(repeated.ticket.grab.order.no, first.ticket.grab.order.no);
    assert_int_equal(stand_grab(stand, sale, "ann", "k2").ticket.verdict, VERDICT_ALREADY_WON);
    struct sale now;
    assert_true(gate_sale(stand->gate, sale, &now));
    assert_int_equal(now.counts.available, 2);
    assert_int_equal(now.counts.sold, 1);
    stand_close(stand);
}

static struct told token(struct stand *stand, uint64_t sale, const char *buyer)
{
    struct told told = stand_told(stand);
    struct token_ask ask = { .sale_id = sale, .buyer = slice_of(buyer), .admission = ADMISSION_TOKEN };
    gate_token(stand->lane, &ask, &told.ticket);
    if (told.times == 0) stand_await(stand, &told);
    return told;
}

static struct told grab_with(struct stand *stand, uint64_t sale, const char *buyer, uint64_t nonce)
{
    struct told told = stand_told(stand);
    struct grab asked = { .sale_id = sale, .buyer = slice_of(buyer), .units = 1, .token_nonce = nonce };
    gate_grab(stand->lane, &asked, &told.ticket);
    if (told.times == 0) stand_await(stand, &told);
    return told;
}

static void a_token_is_told_when_durable_and_stays_spent_after_a_restart(void **state)
{
    struct stand *stand = *state;
    stand_open(stand, true);
    struct sale_terms terms = phone;
    terms.admission = ADMISSION_TOKEN;
    terms.tokens_max = 2;
    terms.grabs_per_buyer_max = 2;
    struct told made = stand_told(stand);
    gate_create(stand->lane, &(struct asker){ .name = SLICE("sam") }, &terms, 3, &made.ticket);
    stand_await(stand, &made);
    uint64_t sale = made.ticket.sale.id;
    struct board_notice notice;
    assert_true(gate_sale_notice(stand->gate, sale, &notice));
    assert_int_equal(notice.admission, ADMISSION_TOKEN);
    assert_false(gate_sale_notice(stand->gate, sale + 1, &notice));

    struct told ann = token(stand, sale, "ann"), bob = token(stand, sale, "bob");
    assert_int_equal(ann.ticket.verdict, VERDICT_DONE);
    assert_true(ann.durable_at >= ann.ticket.token.nonce && ann.ticket.token.nonce != 0);
    assert_int_equal(grab_with(stand, sale, "ann", 0).ticket.verdict, VERDICT_TOKEN_REQUIRED);
    assert_int_equal(grab_with(stand, sale, "ann", ann.ticket.token.nonce).ticket.verdict, VERDICT_WON);
    assert_int_equal(grab_with(stand, sale, "ann", ann.ticket.token.nonce).ticket.verdict, VERDICT_TOKEN_INVALID);
    stand_close(stand);

    stand_open(stand, true);
    assert_int_equal(grab_with(stand, sale, "ann", ann.ticket.token.nonce).ticket.verdict, VERDICT_TOKEN_INVALID);
    assert_int_equal(token(stand, sale, "ann").ticket.verdict, VERDICT_NO_TOKENS_LEFT);
    struct told again = token(stand, sale, "bob");
    assert_int_equal(again.ticket.verdict, VERDICT_REPEATED);
    assert_int_equal(again.ticket.token.nonce, bob.ticket.token.nonce);
    assert_int_equal(grab_with(stand, sale, "bob", bob.ticket.token.nonce).ticket.verdict, VERDICT_WON);
    stand_close(stand);
}

static void a_change_merges_only_what_was_given(void **state)
{
    struct stand *stand = *state;
    stand_open(stand, true);
    uint64_t sale = create(stand, 3);
    struct told told = stand_told(stand);
    struct sale_change change = { .mask = TERM_DESCRIPTION, .terms.description = "new" };
    struct asker sam = { .name = SLICE("sam") };
    gate_change(stand->lane, &sam, sale, &change, &told.ticket);
    stand_await(stand, &told);
    assert_int_equal(told.ticket.verdict, VERDICT_DONE);
    assert_string_equal(told.ticket.sale.terms.description, "new");
    assert_string_equal(told.ticket.sale.terms.name, "phone");

    struct told wrong = stand_told(stand);
    change = (struct sale_change){ .mask = TERM_CLOSES, .terms.closes_ms = 1 };
    gate_change(stand->lane, &sam, sale, &change, &wrong.ticket);
    assert_int_equal(wrong.ticket.verdict, VERDICT_BAD_INPUT);

    struct told stranger = stand_told(stand);
    struct asker bob = { .name = SLICE("bob") };
    gate_stock(stand->lane, &bob, sale, 1, &stranger.ticket);
    assert_int_equal(stranger.ticket.verdict, VERDICT_NO_SUCH_SALE);
    stand_close(stand);
}

static void a_sale_that_is_over_leaves_memory_only_when_filed(void **state)
{
    struct stand *stand = *state;
    stand_open(stand, true);
    uint64_t sale = create(stand, 300);
    for (int i = 0; i < 200; i++) {
        char buyer[16];
        snprintf(buyer, sizeof buyer, "b%d", i);
        assert_int_equal(stand_grab(stand, sale, buyer, "").ticket.verdict, VERDICT_WON);
    }
    struct told closed = stand_told(stand);
    struct asker sam = { .name = SLICE("sam") };
    gate_switch(stand->lane, &sam, sale, DECISION_SALE_CLOSED, &closed.ticket);
    stand_await(stand, &closed);

    struct sale seen;
    struct gate_status status;
    gate_status(stand->gate, &status);
    gate_housekeep(stand->gate, status.seq_decided - 1);
    assert_true(gate_sale(stand->gate, sale, &seen));
    assert_false(gate_sale_is_past(stand->gate, sale));

    gate_housekeep(stand->gate, status.seq_decided);
    assert_false(gate_sale(stand->gate, sale, &seen));
    assert_true(gate_sale_is_past(stand->gate, sale));
    assert_false(gate_sale_is_past(stand->gate, sale + 1));
    gate_status(stand->gate, &status);
    assert_int_equal(status.usage.orders, 0);

    struct told taken = stand_told(stand);
    struct sale_terms terms = phone;
    gate_create(stand->lane, &(struct asker){ .name = SLICE("sam") }, &terms, 1, &taken.ticket);
    assert_int_equal(taken.ticket.verdict, VERDICT_NAME_TAKEN);
    assert_int_equal(gate_sale_by_name(stand->gate, SLICE("sam"), SLICE("phone")), sale);
    stand_close(stand);
}

static struct told create_named(struct stand *stand, const char *seller, const char *name, uint64_t closes_in_ms)
{
    struct told told = stand_told(stand);
    struct sale_terms terms = phone;
    snprintf(terms.name, sizeof terms.name, "%s", name);
    terms.opens_ms = gate_now_ms(stand->gate);
    if (closes_in_ms > 0) terms.closes_ms = terms.opens_ms + closes_in_ms;
    gate_create(stand->lane, &(struct asker){ .name = slice_of(seller) }, &terms, 1, &told.ticket);
    if (told.times == 0) stand_await(stand, &told);
    return told;
}

static void a_name_means_a_sale_of_its_seller_only(void **state)
{
    struct stand *stand = *state;
    stand_open(stand, true);
    uint64_t sams = create_named(stand, "sam", "lamp", 0).ticket.sale.id;
    uint64_t toms = create_named(stand, "tom", "lamp", 0).ticket.sale.id;
    assert_int_not_equal(sams, toms);
    assert_int_equal(gate_sale_by_name(stand->gate, SLICE("sam"), SLICE("lamp")), sams);
    assert_int_equal(gate_sale_by_name(stand->gate, SLICE("tom"), SLICE("lamp")), toms);
    assert_int_equal(gate_sale_by_name(stand->gate, SLICE("tom"), SLICE("Lamp")), 0);
    assert_int_equal(gate_sale_by_name(stand->gate, SLICE("to"), SLICE("mlamp")), 0);
    assert_int_equal(gate_sale_by_name(stand->gate, SLICE(""), SLICE("")), 0);
    stand_close(stand);
}

static void a_seller_has_so_many_sales_at_once_and_no_more(void **state)
{
    enum { BRIEF_MS = 5000 }; /* longer than disk or core stand still in what follows */
    struct stand *stand = *state;
    stand->sales_per_seller_max = 3;
    stand_open(stand, true);
    struct told first = create_named(stand, "sam", "one", 0);
    assert_int_equal(create_named(stand, "sam", "two", 0).ticket.verdict, VERDICT_DONE);
    struct told brief = create_named(stand, "sam", "three", BRIEF_MS);
    assert_int_equal(brief.ticket.verdict, VERDICT_DONE);
    assert_int_equal(create_named(stand, "sam", "four", 0).ticket.verdict, VERDICT_TOO_MANY_SALES);
    assert_int_equal(create_named(stand, "sam", "one", 0).ticket.verdict, VERDICT_NAME_TAKEN);
    assert_int_equal(create_named(stand, "sue", "four", 0).ticket.verdict, VERDICT_DONE); /* others have their own */

    /* One that is over by its time, or closed, makes room at once, before housekeeping has seen it. */
    while (gate_now_ms(stand->gate) <= brief.ticket.sale.terms.closes_ms) usleep(1000);
    assert_int_equal(create_named(stand, "sam", "four", 0).ticket.verdict, VERDICT_DONE);
    assert_int_equal(create_named(stand, "sam", "five", 0).ticket.verdict, VERDICT_TOO_MANY_SALES);
    struct told closed = stand_told(stand);
    gate_switch(stand->lane, &(struct asker){ .name = SLICE("sam") }, first.ticket.sale.id, DECISION_SALE_CLOSED,
                &closed.ticket);
    stand_await(stand, &closed);
    assert_int_equal(create_named(stand, "sam", "five", 0).ticket.verdict, VERDICT_DONE);
    assert_int_equal(create_named(stand, "sam", "six", 0).ticket.verdict, VERDICT_TOO_MANY_SALES);
    stand_close(stand);

    /* A restart counts the same; a lower limit takes nothing away and a replay does not ask for it. */
    stand_open(stand, true);
    assert_int_equal(create_named(stand, "sam", "six", 0).ticket.verdict, VERDICT_TOO_MANY_SALES);
    stand_close(stand);
    stand->sales_per_seller_max = 1;
    stand_open(stand, true);
    struct sale sale;
    assert_true(gate_sale(stand->gate, first.ticket.sale.id + 1, &sale));
    assert_int_equal(create_named(stand, "sam", "six", 0).ticket.verdict, VERDICT_TOO_MANY_SALES);
    stand_close(stand);
    stand->sales_per_seller_max = 4;
    stand_open(stand, true);
    assert_int_equal(create_named(stand, "sam", "six", 0).ticket.verdict, VERDICT_DONE);
    stand_close(stand);
}

/* Two sales alike, one asked one by one and one with all at once: who wins, who has won, what is left, which order is named
 * and what each answer rests on are the same but for where the numbers begin. */
static void grabs_that_come_together_are_answered_as_one_after_the_other(void **state)
{
    static const struct {
        const char *buyer, *key;
        uint32_t units;
        bool elsewhere;
    } rows[] = {
        { "ann", "", 1, false },  { "ann", "", 1, false }, { "bob", "k", 2, false }, { "bob", "k", 2, false },
        { "bob", "k", 1, false }, { "cat", "", 3, false }, { "cat", "", 1, true },   { "dan", "", 2, false },
        { "dan", "", 1, false },  { "eve", "", 1, false }, { "ann", "", 1, false },  { "", "", 1, false },
    };
    enum { ROWS = sizeof rows / sizeof *rows };
    struct stand *stand = *state;
    stand_open(stand, true);
    uint64_t sales[2] = { create_by(stand, "sam", 4), create_by(stand, "sue", 4) };
    struct gate_grab together[ROWS];
    memset(together, 0xff, sizeof together); /* an answer owes nothing to what stood there */
    for (size_t i = 0; i < ROWS; i++)
        together[i].grab = (struct grab){ .sale_id = rows[i].elsewhere ? 999 : sales[1],
                                          .buyer = slice_of(rows[i].buyer),
                                          .key = slice_of(rows[i].key),
                                          .units = rows[i].units };
    struct gate_ticket alone[ROWS];
    uint64_t before = gate_seq_decided(stand->gate);
    for (size_t i = 0; i < ROWS; i++) {
        struct grab grab = together[i].grab;
        if (!rows[i].elsewhere) grab.sale_id = sales[0];
        alone[i] = (struct gate_ticket){ .done = NULL };
        gate_grab(stand->lane, &grab, &alone[i]);
    }
    uint64_t between = gate_seq_decided(stand->gate);
    gate_grabs(stand->lane, together, ROWS);
    assert_int_equal(gate_seq_decided(stand->gate) - between, between - before);
    assert_int_equal(between - before, 3);

    for (size_t i = 0; i < ROWS; i++) {
        assert_int_equal(together[i].verdict, alone[i].verdict);
        assert_int_equal(together[i].available, alone[i].grab.available);
        assert_int_equal(together[i].seq, alone[i].seq == 0 ? 0 : alone[i].seq + between - before);
        assert_int_equal(together[i].order_no, alone[i].seq == 0 ? 0 : alone[i].grab.order.no + between - before);
    }
    stand_close(stand);
}

/* More than there are cores, so that they are put to sleep between any two lines of theirs. */
enum { WATCHERS = 6 };

struct watch {
    struct gate *gate;
    _Atomic bool over;
    _Atomic uint64_t wrong;
};

static void *watch_run(void *arg)
{
    struct watch *watch = arg;
    while (!watch->over) {
        struct gate_status status;
        gate_status(watch->gate, &status);
        watch->wrong += status.seq_durable > status.seq_decided;
        sched_yield(); /* the lock is for others, too */
    }
    return NULL;
}

/* Whoever subtracts the two would find 2^64 decisions waiting for the disk, and turn everybody away. */
static void no_more_is_durable_than_was_decided(void **state)
{
    struct stand *stand = *state;
    stand_open(stand, true);
    uint64_t sale = create(stand, 1000);
    struct watch watch = { .gate = stand->gate };
    pthread_t threads[WATCHERS];
    for (int i = 0; i < WATCHERS; i++) assert_int_equal(pthread_create(&threads[i], NULL, watch_run, &watch), 0);
    for (int i = 0; i < 300; i++) {
        char buyer[16];
        snprintf(buyer, sizeof buyer, "b%d", i);
        assert_int_equal(stand_grab(stand, sale, buyer, "").ticket.verdict, VERDICT_WON);
    }
    watch.over = true;
    for (int i = 0; i < WATCHERS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(watch.wrong, 0);
    stand_close(stand);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_win_is_told_only_when_its_record_is_durable, stand_begin, stand_end),
        cmocka_unit_test_setup_teardown(without_a_commit_only_refusals_are_told, stand_begin, stand_end),
        cmocka_unit_test_setup_teardown(answers_of_tickets_without_done_are_waited_for_together, stand_begin, stand_end),
        cmocka_unit_test_setup_teardown(grabs_that_come_together_are_answered_as_one_after_the_other, stand_begin,
                                        stand_end),
        cmocka_unit_test_setup_teardown(a_name_means_its_sale_until_it_is_changed, stand_begin, stand_end),
        cmocka_unit_test_setup_teardown(a_restart_knows_what_was_said, stand_begin, stand_end),
        cmocka_unit_test_setup_teardown(a_token_is_told_when_durable_and_stays_spent_after_a_restart, stand_begin,
                                        stand_end),
        cmocka_unit_test_setup_teardown(a_change_merges_only_what_was_given, stand_begin, stand_end),
        cmocka_unit_test_setup_teardown(a_sale_that_is_over_leaves_memory_only_when_filed, stand_begin, stand_end),
        cmocka_unit_test_setup_teardown(no_more_is_durable_than_was_decided, stand_begin, stand_end),
        cmocka_unit_test_setup_teardown(a_name_means_a_sale_of_its_seller_only, stand_begin, stand_end),
        cmocka_unit_test_setup_teardown(a_seller_has_so_many_sales_at_once_and_no_more, stand_begin, stand_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
