/* Orders after their win, at the gate: no state is told before it is durable (P3), a restart knows holds and payments (P5),
 * and holds end in their order without standing in the way of grabs (P6).
 *
 * tidy: long because each of these promises is tried from several sides. */
#include "stand.h"

#include "engine/deadlines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t create(struct stand *stand, const char *name, uint32_t stock, uint32_t pay_within_s)
{
    struct sale_terms terms = {
        .price = 100, .units_per_grab_max = 1, .grabs_per_buyer_max = 1, .admission = ADMISSION_LOGIN
    };
    snprintf(terms.name, sizeof terms.name, "%s", name);
    terms.pay_within_s = pay_within_s;
    struct told told = stand_told(stand);
    gate_create(stand->lane, &(struct asker){ .name = SLICE("sam") }, &terms, stock, &told.ticket);
    stand_await(stand, &told);
    assert_int_equal(told.ticket.verdict, VERDICT_DONE);
    return told.ticket.sale.id;
}

static uint64_t win(struct stand *stand, uint64_t sale, const char *buyer)
{
    struct told won = stand_grab(stand, sale, buyer, buyer);
    assert_int_equal(won.ticket.verdict, VERDICT_WON);
    return won.ticket.grab.order.no;
}

static void pay(struct stand *stand, uint64_t no, const char *ref, int64_t amount, struct told *told)
{
    *told = stand_told(stand);
    struct payment payment = { .order_no = no, .ref = slice_of(ref), .amount = amount };
    gate_pay(stand->lane, &payment, &told->ticket);
}

static void cancel(struct stand *stand, uint64_t no, const char *buyer, struct told *told)
{
    *told = stand_told(stand);
    struct cancel asked = { .order_no = no, .by = CANCELLER_BUYER, .name = slice_of(buyer) };
    gate_cancel(stand->lane, &asked, &told->ticket);
}

/* Some holds that are due end, and that is on the disk. False: none were due. */
static bool expire(struct stand *stand)
{
    struct told told = stand_told(stand);
    bool some = gate_expire(stand->lane, &told.ticket);
    if (some && told.times == 0) stand_await(stand, &told);
    assert_int_equal(told.times, some);
    return some;
}

static enum order_state state_of(struct stand *stand, uint64_t no)
{
    struct told told = stand_told(stand);
    gate_order(stand->lane, no, &told.ticket);
    if (told.times == 0) stand_await(stand, &told);
    assert_int_equal(told.ticket.verdict, VERDICT_DONE);
    return told.ticket.order.state;
}

/* No committer runs. Whatever names a state that was decided since stays unsaid; an order as it was won is told at once. */
static void no_state_is_told_before_it_is_durable(void **state)
{
    struct stand *stand = *state;
    stand_open(stand, true);
    uint64_t sale = create(stand, "phone", 10, 3600);
    uint64_t ann = win(stand, sale, "ann"), bob = win(stand, sale, "bob"), cat = win(stand, sale, "cat");
    stand_close(stand);

    stand_open(stand, false);
    enum { WAITING = 8 };
    static const enum verdict want[WAITING] = {
        VERDICT_DONE,     VERDICT_REPEATED, VERDICT_ALREADY_PAID, VERDICT_DONE,
        VERDICT_REPEATED, VERDICT_DONE,     VERDICT_NOT_HELD,     VERDICT_ALREADY_WON
    };
    struct told told[WAITING];
    pay(stand, ann, "p1", 100, &told[0]);
    pay(stand, ann, "p1", 100, &told[1]);
    pay(stand, ann, "p2", 100, &told[2]);
    told[3] = told[4] = told[7] = stand_told(stand);
    gate_order(stand->lane, ann, &told[3].ticket);
    struct grab again = { .sale_id = sale, .buyer = SLICE("ann"), .key = SLICE("ann"), .units = 1 };
    gate_grab(stand->lane, &again, &told[4].ticket);
    cancel(stand, bob, "bob", &told[5]);
    cancel(stand, bob, "bob", &told[6]);
    again.key = SLICE("another");
    gate_grab(stand->lane, &again, &told[7].ticket);

    struct told plain[4];
    pay(stand, cat, "p3", 99, &plain[0]);
    pay(stand, 9999, "p3", 100, &plain[1]);
    cancel(stand, cat, "ann", &plain[2]);
    plain[3] = stand_told(stand);
    gate_order(stand->lane, cat, &plain[3].ticket);
    static const enum verdict want_plain[] = { VERDICT_AMOUNT_MISMATCH, VERDICT_NO_SUCH_ORDER, VERDICT_NO_SUCH_ORDER,
                                               VERDICT_DONE };
    for (int i = 0; i < 4; i++) {
        assert_int_equal(plain[i].times, 1);
        assert_int_equal(plain[i].ticket.verdict, want_plain[i]);
    }
    gate_lane_rest(stand->lane);
    for (int i = 0; i < WAITING; i++) assert_int_equal(told[i].times, 0);

    assert_int_equal(gate_start(stand->gate), FAULT_NONE);
    for (int i = 0; i < WAITING; i++) {
        stand_await(stand, &told[i]);
        assert_int_equal(told[i].ticket.verdict, want[i]);
    }
    assert_int_equal(told[1].ticket.order.state, ORDER_PAID);
    assert_int_equal(told[3].ticket.order.state, ORDER_PAID);
    assert_int_equal(told[4].ticket.grab.order.state, ORDER_PAID);
    assert_int_equal(told[6].ticket.order.state, ORDER_CANCELLED);
    stand_close(stand);
}

static void a_restart_knows_holds_and_payments(void **state)
{
    struct stand *stand = *state;
    stand_open(stand, true);
    uint64_t sale = create(stand, "phone", 3, 1);
    uint64_t ann = win(stand, sale, "ann"), bob = win(stand, sale, "bob"), cat = win(stand, sale, "cat");
    struct told told;
    pay(stand, ann, "p1", 100, &told);
    stand_await(stand, &told);
    cancel(stand, bob, "bob", &told);
    stand_await(stand, &told);
    uint64_t pay_by_ms = 0;
    told = stand_told(stand);
    gate_order(stand->lane, cat, &told.ticket);
    pay_by_ms = told.ticket.order.pay_by_ms;
    stand_close(stand);

    /* The hold is a second long, and ends after it, whoever has looked before. */
    stand_open(stand, true);
    assert_int_equal(state_of(stand, ann), ORDER_PAID);
    assert_int_equal(state_of(stand, bob), ORDER_CANCELLED);
    for (bool early = true; early; usleep(1000)) {
        early = gate_now_ms(stand->gate) < pay_by_ms;
        expire(stand);
        enum order_state seen = state_of(stand, cat);
        if (gate_now_ms(stand->gate) < pay_by_ms) assert_int_equal(seen, ORDER_HELD);
    }
    usleep(2 * DEADLINE_TICK_MS * 1000);
    assert_false(expire(stand));
    assert_int_equal(state_of(stand, cat), ORDER_EXPIRED);
    struct sale now;
    assert_true(gate_sale(stand->gate, sale, &now));
    assert_int_equal(now.counts.available, 2);
    assert_int_equal(now.counts.sold, 1);
    stand_close(stand);

    stand_open(stand, true);
    assert_int_equal(state_of(stand, cat), ORDER_EXPIRED);
    pay(stand, cat, "p3", 100, &told);
    stand_await(stand, &told);
    assert_int_equal(told.ticket.order.state, ORDER_PAID);
    pay(stand, bob, "p2", 100, &told);
    stand_await(stand, &told);
    assert_int_equal(told.ticket.order.state, ORDER_REFUND_DUE);
    pay(stand, ann, "p1", 100, &told);
    if (told.times == 0) stand_await(stand, &told);
    assert_int_equal(told.ticket.verdict, VERDICT_REPEATED);
    stand_close(stand);
}

struct filing {
    struct ledger *ledger;
    struct ledger_point point;
};

static const char *file_decision(void *arg, const struct decision *decision)
{
    struct filing *filing = arg;
    assert_int_equal(ledger_file(filing->ledger, decision), FAULT_NONE);
    filing->point.at_ms = decision->at_ms;
    if (decision->kind == DECISION_SALE_CREATED) filing->point.sale_id_last = decision->sale_id;
    return NULL;
}

static const char *file_batch(void *arg, uint64_t seq, uint64_t digest)
{
    struct filing *filing = arg;
    filing->point.seq = seq;
    filing->point.digest = digest;
    return NULL;
}

/* What the clerk does: all that is durable, in one transaction. */
static void file_all(struct stand *stand)
{
    struct filing filing = { .ledger = stand->ledger };
    struct ledger_point from;
    struct journal_damage damage;
    struct journal_scan *scan;
    char folder[96];
    snprintf(folder, sizeof folder, "%s/journal", stand->folder);
    assert_int_equal(ledger_file_begin(stand->ledger, &from), FAULT_NONE);
    filing.point = from;
    memcpy(filing.point.uuid, journal_uuid(gate_journal(stand->gate)), sizeof filing.point.uuid);
    assert_int_equal(journal_scan_open(&scan, folder, gate_journal(stand->gate), from.seq, &damage), FAULT_NONE);
    const struct journal_reader reader = { .decision = file_decision, .batch_end = file_batch, .arg = &filing };
    for (bool more = true; more;) assert_int_equal(journal_scan_batch(scan, &reader, &more, &damage), FAULT_NONE);
    journal_scan_close(scan);
    assert_int_equal(ledger_file_commit(stand->ledger, &from, &filing.point), FAULT_NONE);
}

/* One order in every state, filed after every step or all at once; then the ledger alone has to know them. */
static void a_restart_from_the_ledger_knows_every_state(void **state)
{
    struct stand *stand = *state;
    for (int each = 0; each < 2; each++) {
        stand_open(stand, true);
        uint64_t sale = create(stand, each ? "each" : "all", 10, 1);
        static const char *const buyers[] = { "held", "paid", "cancelled", "expired", "refund", "retaken" };
        static const enum order_state want[] = { ORDER_HELD,    ORDER_PAID,       ORDER_CANCELLED,
                                                 ORDER_EXPIRED, ORDER_REFUND_DUE, ORDER_PAID };
        uint64_t nos[6];
        for (int i = 1; i < 6; i++) nos[i] = win(stand, sale, buyers[i]);
        if (each) file_all(stand);
        struct told told;
        pay(stand, nos[1], "p1", 100, &told);
        stand_await(stand, &told);
        for (int i = 2; i < 5; i += 2) {
            cancel(stand, nos[i], buyers[i], &told);
            stand_await(stand, &told);
        }
        if (each) file_all(stand);
        for (struct sale seen = { .counts.held = 2 }; seen.counts.held > 0; usleep(1000)) {
            expire(stand);
            assert_true(gate_sale(stand->gate, sale, &seen));
        }
        for (int i = 4; i < 6; i++) {
            pay(stand, nos[i], "p1", 100, &told);
            stand_await(stand, &told);
            assert_int_equal(told.ticket.verdict, VERDICT_DONE);
        }
        nos[0] = win(stand, sale, buyers[0]);
        struct sale before, after;
        assert_true(gate_sale(stand->gate, sale, &before));
        file_all(stand);
        stand_close(stand);

        stand_open(stand, true);
        assert_true(gate_sale(stand->gate, sale, &after));
        assert_memory_equal(&before.counts, &after.counts, sizeof before.counts);
        for (int i = 0; i < 6; i++) assert_int_equal(state_of(stand, nos[i]), want[i]);
        for (int i = 1; i < 6; i++) {
            struct ledger_order row;
            bool found;
            assert_int_equal(ledger_order(stand->ledger, nos[i], &row, &found), FAULT_NONE);
            assert_true(found && row.ended_ms >= row.order.won_ms);
            assert_int_equal(row.canceller, i == 2 || i == 4 ? CANCELLER_BUYER : CANCELLER_NONE);
            assert_string_equal(row.payment_ref, i == 2 || i == 3 ? "" : "p1");
            if (i == 2 || i == 3) continue;
            pay(stand, nos[i], "p1", 100, &told);
            assert_int_equal(told.ticket.verdict, VERDICT_REPEATED);
            pay(stand, nos[i], "p2", 100, &told);
            assert_int_equal(told.ticket.verdict, VERDICT_ALREADY_PAID);
        }
        for (enum order_state seen = ORDER_HELD; seen == ORDER_HELD; seen = state_of(stand, nos[0])) {
            usleep(1000);
            expire(stand);
        }
        stand_close(stand);
    }
}

/* A late payment changes an order of a sale that is over: the sale stays until the ledger knows of that too, and what is
 * asked after it is gone is judged by the ledger's row, old or new. */
static void a_refund_keeps_its_sale_until_it_is_filed(void **state)
{
    struct stand *stand = *state;
    stand_open(stand, true);
    uint64_t sale = create(stand, "phone", 3, 3600);
    uint64_t no = win(stand, sale, "ann");
    struct told told;
    cancel(stand, no, "ann", &told);
    stand_await(stand, &told);
    struct order filed = told.ticket.order;
    told = stand_told(stand);
    gate_switch(stand->lane, &(struct asker){ .name = SLICE("sam") }, sale, DECISION_SALE_CLOSED, &told.ticket);
    stand_await(stand, &told);

    uint64_t over_seq = gate_seq_decided(stand->gate);
    gate_housekeep(stand->gate, over_seq - 1);
    pay(stand, no, "p1", 100, &told);
    stand_await(stand, &told);
    assert_int_equal(told.ticket.order.state, ORDER_REFUND_DUE);
    struct sale seen;
    gate_housekeep(stand->gate, over_seq);
    assert_true(gate_sale(stand->gate, sale, &seen));
    gate_housekeep(stand->gate, over_seq + 1);
    assert_false(gate_sale(stand->gate, sale, &seen));

    pay(stand, no, "p1", 100, &told);
    assert_int_equal(told.ticket.verdict, VERDICT_NO_SUCH_ORDER);
    static const struct {
        const char *ref;
        enum verdict want;
    } script[] = { { "p1", VERDICT_REPEATED }, { "p2", VERDICT_ALREADY_PAID } };
    for (int i = 0; i < 2; i++) {
        told = stand_told(stand);
        told.ticket.order = filed;
        struct payment payment = { .order_no = no, .ref = slice_of(script[i].ref), .amount = 100 };
        gate_pay_past(stand->lane, &payment, SLICE(""), &told.ticket);
        if (told.times == 0) stand_await(stand, &told);
        assert_int_equal(told.ticket.verdict, script[i].want);
        assert_int_equal(told.ticket.order.state, ORDER_REFUND_DUE);
    }
    stand_close(stand);
}

/* Who asks for such an order waits for the ledger until it has the newest refund, also over a restart, and not after. */
static void what_memory_does_not_have_is_read_when_its_refund_is_filed(void **state)
{
    struct stand *stand = *state;
    stand_open(stand, true);
    uint64_t sale = create(stand, "phone", 3, 3600);
    uint64_t no = win(stand, sale, "ann");
    struct told told;
    cancel(stand, no, "ann", &told);
    stand_await(stand, &told);
    struct order filed = told.ticket.order;
    told = stand_told(stand);
    gate_switch(stand->lane, &(struct asker){ .name = SLICE("sam") }, sale, DECISION_SALE_CLOSED, &told.ticket);
    stand_await(stand, &told);
    uint64_t over_seq = gate_seq_decided(stand->gate);
    gate_housekeep(stand->gate, over_seq);
    assert_int_equal(gate_seq_past(stand->gate), 0);

    for (int i = 0; i < 2; i++) { /* the second time it is a repetition, and changes nothing */
        told = stand_told(stand);
        told.ticket.order = filed;
        struct payment payment = { .order_no = no, .ref = SLICE("p1"), .amount = 100 };
        gate_pay_past(stand->lane, &payment, SLICE(""), &told.ticket);
        if (told.times == 0) stand_await(stand, &told);
        assert_int_equal(told.ticket.verdict, i == 0 ? VERDICT_DONE : VERDICT_REPEATED);
        assert_int_equal(gate_seq_past(stand->gate), over_seq + 1);
    }
    gate_housekeep(stand->gate, over_seq);
    assert_int_equal(gate_seq_past(stand->gate), over_seq + 1);
    gate_housekeep(stand->gate, over_seq + 1);
    assert_int_equal(gate_seq_past(stand->gate), 0);
    win(stand, create(stand, "other", 3, 3600), "ann"); /* nothing that has to do with it */
    assert_int_equal(gate_seq_past(stand->gate), 0);
    stand_close(stand);

    stand_open(stand, true); /* this ledger has filed nothing */
    assert_int_equal(gate_seq_past(stand->gate), gate_seq_decided(stand->gate));
    stand_close(stand);
}

static void a_change_merges_late_payment_and_event(void **state)
{
    struct stand *stand = *state;
    stand_open(stand, true);
    struct sale_terms terms = { .name = "soon", .price = -1, .units_per_grab_max = 1, .grabs_per_buyer_max = 1 };
    terms.opens_ms = gate_now_ms(stand->gate) + 1000000;
    struct told told = stand_told(stand);
    struct asker sam = { .name = SLICE("sam") };
    gate_create(stand->lane, &sam, &terms, 1, &told.ticket);
    stand_await(stand, &told);
    uint64_t sale = told.ticket.sale.id;
    struct sale_change change = { .mask = TERM_LATE_PAYMENT,
                                  .terms = { .late_payment = LATE_PAYMENT_REFUND, .event_id = 9 } };
    told = stand_told(stand);
    gate_change(stand->lane, &sam, sale, &change, &told.ticket);
    stand_await(stand, &told);
    assert_int_equal(told.ticket.sale.terms.late_payment, LATE_PAYMENT_REFUND);
    assert_int_equal(told.ticket.sale.terms.event_id, 0);
    change = (struct sale_change){ .mask = TERM_EVENT, .terms.event_id = 9 };
    told = stand_told(stand);
    gate_change(stand->lane, &sam, sale, &change, &told.ticket);
    stand_await(stand, &told);
    assert_int_equal(told.ticket.sale.terms.late_payment, LATE_PAYMENT_REFUND);
    assert_int_equal(told.ticket.sale.terms.event_id, 9);
    stand_close(stand);
}

#define HOLDS 1000000

/* Tickets in flight are as many as fit; each is answered before it is used again. */
static void holds_fill(struct stand *stand, uint64_t sale)
{
    enum { WINDOW = 10000 };
    struct told *told = calloc(WINDOW, sizeof *told);
    assert_non_null(told);
    for (uint32_t i = 0; i < HOLDS; i += WINDOW) {
        for (uint32_t j = 0; j < WINDOW; j++) {
            char buyer[17];
            snprintf(buyer, sizeof buyer, "buyer-%010u", i + j);
            told[j] = stand_told(stand);
            struct grab grab = { .sale_id = sale, .buyer = slice_of(buyer), .units = 1 };
            gate_grab(stand->lane, &grab, &told[j].ticket);
        }
        for (uint32_t j = 0; j < WINDOW; j++) {
            stand_await(stand, &told[j]);
            while (told[j].ticket.verdict == VERDICT_BUSY) { /* the next segment may not be ready yet */
                char buyer[17];
                usleep(1000);
                snprintf(buyer, sizeof buyer, "buyer-%010u", i + j);
                told[j] = stand_told(stand);
                struct grab grab = { .sale_id = sale, .buyer = slice_of(buyer), .units = 1 };
                gate_grab(stand->lane, &grab, &told[j].ticket);
                stand_await(stand, &told[j]);
            }
            assert_int_equal(told[j].ticket.verdict, VERDICT_WON);
        }
    }
    free(told);
}

struct ends {
    uint64_t *pay_by_ms; /* by order; 0: not won, or ended */
    uint64_t last_ms;
    uint32_t expired;
};

static const char *end_seen(void *arg, const struct decision *decision)
{
    struct ends *ends = arg;
    if (decision->kind == DECISION_WON && decision->seq < HOLDS + 100)
        ends->pay_by_ms[decision->seq] = decision->won.pay_by_ms;
    if (decision->kind != DECISION_EXPIRED) return NULL;
    uint64_t pay_by_ms = ends->pay_by_ms[decision->ended.order_no];
    assert_true(pay_by_ms != 0 && decision->at_ms >= pay_by_ms);
    assert_true(pay_by_ms + DEADLINE_TICK_MS > ends->last_ms);
    if (pay_by_ms > ends->last_ms) ends->last_ms = pay_by_ms;
    ends->pay_by_ms[decision->ended.order_no] = 0;
    ends->expired++;
    return NULL;
}

static const char *batch_seen(void *arg, uint64_t seq, uint64_t digest)
{
    (void)arg;
    (void)seq;
    (void)digest;
    return NULL;
}

/* By the journal: each hold has ended once, not before its time, and in the order of their times but for a tick. */
static void ends_check(struct stand *stand)
{
    struct ends ends = { .pay_by_ms = calloc(HOLDS + 100, sizeof(uint64_t)) };
    assert_non_null(ends.pay_by_ms);
    char folder[96];
    snprintf(folder, sizeof folder, "%s/journal", stand->folder);
    struct journal_scan *scan;
    struct journal_damage damage;
    const struct journal_reader reader = { .decision = end_seen, .batch_end = batch_seen, .arg = &ends };
    assert_int_equal(journal_scan_open(&scan, folder, NULL, 0, &damage), FAULT_NONE);
    for (bool more = true; more;) assert_int_equal(journal_scan_batch(scan, &reader, &more, &damage), FAULT_NONE);
    journal_scan_close(scan);
    assert_int_equal(ends.expired, HOLDS);
    free(ends.pay_by_ms);
}

/* While nothing is written expiries fill half a batch, and leave the rest to those who cannot wait. */
static void a_million_holds_expire_in_order_and_leave_room_for_grabs(void **state)
{
    enum { A_COMMIT_MAX = 16384 };
    struct stand *stand = *state;
    stand->orders_max = HOLDS + 100;
    stand->segment_bytes = 8u << 20;
    stand_open(stand, true);
    uint64_t sale = create(stand, "phone", HOLDS, 1), other = create(stand, "lamp", 10, 0);
    holds_fill(stand, sale);
    stand_close(stand);
    sleep(1);

    stand_open(stand, false);
    struct sale seen;
    struct told ended = stand_told(stand);
    assert_true(gate_expire(stand->lane, &ended.ticket));
    assert_true(gate_sale(stand->gate, sale, &seen));
    assert_true(seen.counts.held < HOLDS && seen.counts.held >= HOLDS - A_COMMIT_MAX);
    while (gate_expire(stand->lane, &(struct gate_ticket){ .done = NULL })) continue;
    assert_true(gate_sale(stand->gate, sale, &seen));
    assert_true(seen.counts.held > 0 && seen.counts.held < HOLDS);
    struct told won = stand_told(stand);
    struct grab grab = { .sale_id = other, .buyer = SLICE("ann"), .units = 1 };
    gate_grab(stand->lane, &grab, &won.ticket);
    gate_lane_rest(stand->lane);
    assert_int_equal(won.times, 0); /* it waits for the disk, and is not turned away */
    assert_int_equal(ended.times, 0);

    assert_int_equal(gate_start(stand->gate), FAULT_NONE);
    stand_await(stand, &won);
    assert_int_equal(won.ticket.verdict, VERDICT_WON);
    assert_int_equal(ended.times, 1);
    for (seen.counts.held = 1; seen.counts.held > 0;) {
        expire(stand);
        assert_true(gate_sale(stand->gate, sale, &seen));
    }
    assert_int_equal(seen.counts.available, HOLDS);
    assert_false(expire(stand));
    stand_close(stand);
    ends_check(stand);
    stand->orders_max = stand->segment_bytes = 0;
}

/* The hints of those who have paid are counted as well, and there is nothing to write of them: done() is called at once. */
static void hints_of_those_who_paid_are_dropped_over_many_turns(void **state)
{
    enum { PAID = 1200 };
    struct stand *stand = *state;
    stand_open(stand, true);
    uint64_t sale = create(stand, "phone", PAID + 1, 1), first = win(stand, sale, "first");
    for (int i = 0; i < PAID; i++) {
        char buyer[16];
        snprintf(buyer, sizeof buyer, "buyer-%d", i);
        struct told told;
        pay(stand, win(stand, sale, buyer), "p", 100, &told);
        stand_await(stand, &told);
        assert_int_equal(told.ticket.verdict, VERDICT_DONE);
    }
    sleep(2);

    /* A turn looks at as many as a commit takes microseconds: on a slow disk that is all of them. */
    uint64_t commit_us = journal_commit_us(gate_journal(stand->gate));
    assert_true(expire(stand));
    struct gate_status status;
    gate_status(stand->gate, &status);
    assert_true(status.usage.hints > 0 || commit_us >= PAID);
    while (expire(stand)) continue;
    assert_int_equal(state_of(stand, first), ORDER_EXPIRED);
    gate_status(stand->gate, &status);
    assert_int_equal(status.usage.hints, 0);
    stand_close(stand);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_state_is_told_before_it_is_durable, stand_begin, stand_end),
        cmocka_unit_test_setup_teardown(a_restart_knows_holds_and_payments, stand_begin, stand_end),
        cmocka_unit_test_setup_teardown(a_restart_from_the_ledger_knows_every_state, stand_begin, stand_end),
        cmocka_unit_test_setup_teardown(a_refund_keeps_its_sale_until_it_is_filed, stand_begin, stand_end),
        cmocka_unit_test_setup_teardown(what_memory_does_not_have_is_read_when_its_refund_is_filed, stand_begin, stand_end),
        cmocka_unit_test_setup_teardown(a_change_merges_late_payment_and_event, stand_begin, stand_end),
        cmocka_unit_test_setup_teardown(hints_of_those_who_paid_are_dropped_over_many_turns, stand_begin, stand_end),
        cmocka_unit_test_setup_teardown(a_million_holds_expire_in_order_and_leave_room_for_grabs, stand_begin, stand_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
