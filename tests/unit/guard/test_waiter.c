/* What belongs together in a line: the requests of one buyer, and those of one grab. Time is given by hand. */
#include "guard/line.h"

#include "base/metrics.h"
#include "guard/places.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)
#define START (100 * SECOND)
#define SALE 7
#define PEOPLE 64
#define BESIDE 16 /* how many may wait beside the first of one grab */

struct person {
    struct line_waiter waiter;
    enum line_outcome outcome;
    uint32_t told;
};

static struct lines *lines;
static struct line_mailbox *mailboxes[2];
static struct person people[PEOPLE];
static uint32_t wakes;
static uint64_t now_ns;
static uint64_t counted_before[LINE_OUTCOMES];
static const struct line_terms plain = { .rate_per_s = 10, .size = 1000, .timeout_ms = 60000 };

static void on_wake(void *arg)
{
    ++*(uint32_t *)arg;
}

static void on_go(struct line_waiter *waiter, enum line_outcome outcome)
{
    struct person *person = (struct person *)waiter;
    person->outcome = outcome;
    person->told++;
}

/* Neighbours have different mailboxes, as if other reactors held them. One stranger takes the slot that is free at once. */
static int room_open(void **state)
{
    (void)state;
    const struct lines_options options = { .waiters_max = 100, .places_max = 10, .heartbeat_ms = 15000 };
    now_ns = START;
    for (uint32_t o = 0; o < LINE_OUTCOMES; o++) counted_before[o] = metrics_total(METRIC_LINE_OUTCOMES, o);
    if (lines_open(&lines, &options) != FAULT_NONE) return 1;
    for (size_t i = 0; i < 2; i++) {
        if (line_mailbox_open(&mailboxes[i], lines, on_wake, &wakes) != FAULT_NONE) return 1;
    }
    memset(people, 0xa5, sizeof people);
    for (size_t i = 0; i < PEOPLE; i++) {
        people[i].waiter.go = on_go;
        people[i].waiter.mailbox = mailboxes[i % 2];
        people[i].told = 0;
        people[i].outcome = LINE_OUTCOMES;
    }
    struct person stranger = { .waiter = { .go = on_go, .mailbox = mailboxes[0] } };
    return line_enter(lines, &stranger.waiter, &(struct line_ask){ .sale_id = SALE }, &plain, now_ns) != LINE_ADMITTED;
}

/* Nothing is left: of waiters and mailboxes lines_close() asserts it. */
static int room_close(void **state)
{
    (void)state;
    line_turn(lines, now_ns + 15 * SECOND);
    struct lines_status status;
    lines_status(lines, &status);
    if (status.waiting != 0 || status.parked != 0) return 1;
    for (size_t i = 0; i < 2; i++) line_mailbox_close(mailboxes[i]);
    lines_close(lines);
    return 0;
}

static enum line_outcome enter_for(int i, const char *buyer, uint32_t grabs_max, const char *key)
{
    const struct line_ask ask = {
        .sale_id = SALE, .buyer = slice_of(buyer), .grabs_max = grabs_max, .key = slice_of(key), .units = 1
    };
    return line_enter(lines, &people[i].waiter, &ask, &plain, now_ns);
}

static void turn(void)
{
    line_turn(lines, now_ns);
    for (size_t i = 0; i < 2; i++) line_mailbox_deliver(mailboxes[i], now_ns);
}

static void slot(void)
{
    now_ns += 100 * MS;
    turn();
}

static void end_all(void)
{
    line_closed(lines, SALE);
    turn();
}

static uint64_t counted(enum line_outcome outcome)
{
    return metrics_total(METRIC_LINE_OUTCOMES, outcome) - counted_before[outcome];
}

static struct lines_status status_now(void)
{
    struct lines_status status;
    lines_status(lines, &status);
    return status;
}

static void one_buyer_waits_as_often_as_he_may_win(void **state)
{
    (void)state;
    assert_int_equal(enter_for(0, "ann", 2, ""), LINE_WAITING);
    assert_int_equal(enter_for(1, "ann", 2, "k"), LINE_WAITING);
    assert_int_equal(enter_for(2, "ann", 2, ""), LINE_TWICE);
    assert_int_equal(enter_for(3, "ann", 2, "other"), LINE_TWICE);
    assert_int_equal(enter_for(4, "bob", 1, ""), LINE_WAITING);
    assert_int_equal(enter_for(5, "bob", 1, ""), LINE_TWICE);
    assert_int_equal(counted(LINE_TWICE), 3);
    assert_int_equal(status_now().waiting, 3);

    /* In another sale he is somebody else; nobody's requests are nobody's. */
    const struct line_ask elsewhere = { .sale_id = SALE + 1, .buyer = SLICE("bob"), .grabs_max = 1 };
    assert_int_equal(line_enter(lines, &people[6].waiter, &elsewhere, &plain, now_ns), LINE_ADMITTED);
    assert_int_equal(enter_for(7, "", 1, ""), LINE_WAITING);
    assert_int_equal(enter_for(8, "", 1, ""), LINE_WAITING);

    /* Whoever leaves or is told makes room. */
    line_leave(lines, &people[0].waiter);
    assert_int_equal(enter_for(9, "ann", 2, ""), LINE_WAITING);
    assert_int_equal(enter_for(10, "ann", 2, ""), LINE_TWICE);
    slot();
    assert_int_equal(people[1].outcome, LINE_ADMITTED);
    assert_int_equal(enter_for(11, "ann", 2, ""), LINE_WAITING);
    end_all();
    assert_int_equal(people[2].told + people[3].told + people[5].told + people[10].told, 0);
}

static void a_place_and_requests_share_what_a_buyer_may(void **state)
{
    (void)state;
    struct place_ask ann = { .sale_id = SALE, .buyer = SLICE("ann"), .grabs_max = 1 };
    struct place_view view;
    assert_int_equal(enter_for(0, "ann", 1, ""), LINE_WAITING);
    assert_int_equal(place_take(lines, &ann, &plain, now_ns, &view), LINE_TWICE);
    line_leave(lines, &people[0].waiter);
    assert_int_equal(place_take(lines, &ann, &plain, now_ns, &view), LINE_WAITING);
    assert_int_equal(enter_for(1, "ann", 1, ""), LINE_TWICE);
    assert_int_equal(enter_for(2, "ann", 2, ""), LINE_WAITING);
    assert_int_equal(place_take(lines, &ann, &plain, now_ns, &view), LINE_WAITING); /* it is his already */
    slot();
    assert_true(place_look(lines, slice_of(view.id), &ann, now_ns, &view));
    assert_int_equal(view.state, PLACE_ADMITTED);
    end_all();
}

/* Whatever the first is told without being let through. */
static void the_same_grab_hears_the_same(void **state)
{
    (void)state;
    static const enum line_outcome script[] = { LINE_TIMED_OUT, LINE_SOLD_OUT, LINE_CLOSED, LINE_SERVED };
    for (int i = 0; i < 4; i++) {
        int first = 4 * i;
        assert_int_equal(enter_for(first, "ann", 1, "k"), LINE_WAITING);
        assert_int_equal(enter_for(first + 1, "ann", 1, "k"), LINE_WAITING);
        assert_int_equal(enter_for(first + 2, "ann", 1, "k"), LINE_WAITING);
        assert_int_equal(enter_for(first + 3, "ann", 1, "not k"), LINE_TWICE);
        assert_int_equal(status_now().waiting, 1); /* one slot for all of them */
        assert_int_equal(status_now().parked, 3);
        if (script[i] == LINE_TIMED_OUT) now_ns += 70 * SECOND;
        if (script[i] == LINE_SOLD_OUT) line_sold_out(lines, SALE);
        if (script[i] == LINE_CLOSED) line_closed(lines, SALE);
        if (script[i] == LINE_SERVED) line_served(lines, SALE, SLICE("ann"));
        turn();
        for (int k = first; k < first + 3; k++) {
            assert_int_equal(people[k].told, 1);
            assert_int_equal(people[k].outcome, script[i]);
        }
        assert_int_equal(counted(script[i]), 3);
        /* The slot that he did not use is still there: somebody without a name takes it, for the next round. */
        now_ns += SECOND;
        assert_int_equal(enter_for(PEOPLE - 1, "", 1, ""), LINE_ADMITTED);
    }
}

static void the_same_grab_waits_until_the_first_has_its_answer(void **state)
{
    (void)state;
    assert_int_equal(enter_for(0, "ann", 1, "k"), LINE_WAITING);
    assert_int_equal(enter_for(1, "ann", 1, "k"), LINE_WAITING);
    slot();
    assert_int_equal(people[0].outcome, LINE_ADMITTED);
    assert_int_equal(people[1].told, 0); /* the first is at the gate */
    assert_int_equal(enter_for(2, "ann", 1, "k"), LINE_WAITING);
    assert_int_equal(status_now().waiting, 0);
    now_ns += 3600 * SECOND;
    turn();
    assert_int_equal(people[1].told + people[2].told, 0);
    line_settle(lines, &people[0].waiter);
    turn();
    assert_int_equal(people[1].outcome, LINE_REPEATED);
    assert_int_equal(people[2].outcome, LINE_REPEATED);
    line_settle(lines, &people[0].waiter); /* once more is harmless */

    /* Also of one who was let through at once. What comes after the answer is decided anew. */
    now_ns += SECOND;
    assert_int_equal(enter_for(3, "ann", 1, "k"), LINE_ADMITTED);
    assert_int_equal(enter_for(4, "ann", 1, "k"), LINE_WAITING);
    line_leave(lines, &people[4].waiter);
    line_settle(lines, &people[3].waiter);
    turn();
    assert_int_equal(people[4].told, 0);
    assert_int_equal(enter_for(5, "ann", 1, "k"), LINE_WAITING);
    assert_int_equal(status_now().waiting, 1);
    end_all();
}

/* A client that lost its connection and asks again keeps its place, whether the loss is noticed before or after. */
static void who_comes_beside_takes_over_from_one_who_leaves(void **state)
{
    (void)state;
    assert_int_equal(enter_for(0, "ann", 1, "k"), LINE_WAITING);
    assert_int_equal(enter_for(1, "bob", 1, ""), LINE_WAITING);
    assert_int_equal(enter_for(2, "ann", 1, "k"), LINE_WAITING);
    assert_int_equal(enter_for(3, "ann", 1, "k"), LINE_WAITING);
    line_leave(lines, &people[0].waiter);
    memset(&people[0].waiter, 0xdd, sizeof people[0].waiter);
    assert_int_equal(enter_for(4, "ann", 1, ""), LINE_TWICE);
    assert_int_equal(status_now().waiting, 2);
    assert_int_equal(status_now().parked, 3);
    slot();
    assert_int_equal(people[2].outcome, LINE_ADMITTED);
    assert_int_equal(people[1].told, 0);
    line_settle(lines, &people[2].waiter);
    slot();
    assert_int_equal(people[3].outcome, LINE_REPEATED);
    assert_int_equal(people[1].outcome, LINE_ADMITTED);
    assert_int_equal(counted(LINE_LEFT), 1);
    assert_int_equal(counted(LINE_ADMITTED), 3); /* with the stranger */
}

static void who_comes_beside_is_let_through_for_one_who_leaves_with_the_mail(void **state)
{
    (void)state;
    assert_int_equal(enter_for(0, "ann", 1, "k"), LINE_WAITING);
    assert_int_equal(enter_for(1, "ann", 1, "k"), LINE_WAITING);
    assert_int_equal(enter_for(2, "bob", 1, ""), LINE_WAITING);
    now_ns += 100 * MS;
    line_turn(lines, now_ns);
    line_leave(lines, &people[0].waiter);
    turn();
    assert_int_equal(people[0].told, 0);
    assert_int_equal(people[1].outcome, LINE_ADMITTED);
    assert_int_equal(people[2].told, 0); /* it was one slot */
    line_settle(lines, &people[1].waiter);
    slot();
    assert_int_equal(people[2].outcome, LINE_ADMITTED);
}

static void mail_that_comes_too_late_is_too_late_for_all_of_the_grab(void **state)
{
    (void)state;
    assert_int_equal(enter_for(0, "ann", 1, "k"), LINE_WAITING);
    assert_int_equal(enter_for(1, "ann", 1, "k"), LINE_WAITING);
    line_turn(lines, now_ns + 100 * MS);
    now_ns += 61 * SECOND;
    turn();
    assert_int_equal(people[0].outcome, LINE_TIMED_OUT);
    assert_int_equal(people[1].outcome, LINE_TIMED_OUT);
    assert_int_equal(counted(LINE_TIMED_OUT), 2);
    assert_int_equal(counted(LINE_ADMITTED), 1);
}

static void another_buyer_or_other_units_are_another_grab(void **state)
{
    (void)state;
    assert_int_equal(enter_for(0, "ann", 2, "k"), LINE_WAITING);
    assert_int_equal(enter_for(1, "bob", 2, "k"), LINE_WAITING);
    const struct line_ask more = { .sale_id = SALE, .buyer = SLICE("ann"), .grabs_max = 2, .key = SLICE("k"), .units = 2 };
    assert_int_equal(line_enter(lines, &people[2].waiter, &more, &plain, now_ns), LINE_WAITING);
    assert_int_equal(status_now().waiting, 3);
    assert_int_equal(line_enter(lines, &people[3].waiter, &more, &plain, now_ns), LINE_WAITING);
    assert_int_equal(status_now().waiting, 3);
    end_all();
}

static void one_grab_does_not_hold_requests_without_end(void **state)
{
    (void)state;
    assert_int_equal(enter_for(0, "ann", 1, "k"), LINE_WAITING);
    for (int i = 1; i <= BESIDE; i++) assert_int_equal(enter_for(i, "ann", 1, "k"), LINE_WAITING);
    assert_int_equal(enter_for(BESIDE + 1, "ann", 1, "k"), LINE_TWICE);
    line_leave(lines, &people[5].waiter);
    line_leave(lines, &people[0].waiter);
    assert_int_equal(enter_for(BESIDE + 1, "ann", 1, "k"), LINE_WAITING);
    end_all();
    assert_int_equal(people[5].told + people[0].told, 0);
    for (int i = 1; i <= BESIDE + 1; i++) assert_int_equal(people[i].told, i == 5 ? 0 : 1);
}

/* A slot is worth something: whoever can win nothing any more does not wait for one. */
static void who_has_won_all_he_may_waits_no_more(void **state)
{
    (void)state;
    struct place_ask ann = { .sale_id = SALE, .buyer = SLICE("ann"), .grabs_max = 9 };
    struct place_view view;
    for (int i = 0; i < 4; i++) assert_int_equal(enter_for(i, i == 1 ? "bob" : "ann", 4, ""), LINE_WAITING);
    assert_int_equal(place_take(lines, &ann, &plain, now_ns, &view), LINE_WAITING);
    line_served(lines, SALE + 1, SLICE("ann"));
    line_served(lines, SALE, SLICE("cat"));
    assert_int_equal(status_now().waiting, 5);
    line_served(lines, SALE, SLICE("ann"));
    turn();
    for (int i = 0; i < 4; i++) assert_int_equal(people[i].outcome, i == 1 ? LINE_OUTCOMES : LINE_SERVED);
    assert_false(place_look(lines, slice_of(view.id), &ann, now_ns, &view));
    slot();
    assert_int_equal(people[1].outcome, LINE_ADMITTED); /* in the very next slot */
    assert_int_equal(counted(LINE_SERVED), 3);
}

static void every_outcome_has_a_word_of_its_own(void **state)
{
    (void)state;
    for (int a = 0; a < LINE_OUTCOMES; a++) {
        for (int b = 0; b < a; b++)
            assert_string_not_equal(line_outcome_word((enum line_outcome)a), line_outcome_word((enum line_outcome)b));
    }
    assert_string_equal(line_outcome_word(LINE_TIMED_OUT), "timed_out");
    assert_string_equal(line_outcome_word(LINE_LEFT), "left");
}

/* Somebody's mail lies about, and the next slot is free already: who comes now came later. */
static void nobody_overtakes_one_whose_mail_is_under_way(void **state)
{
    (void)state;
    for (int leaves = 0; leaves < 2; leaves++) {
        int at = 10 * leaves;
        assert_int_equal(enter_for(at, "ann", 1, "k"), LINE_WAITING);
        now_ns += 100 * MS;
        line_turn(lines, now_ns);
        assert_int_equal(status_now().waiting, 0);
        now_ns += 100 * MS;
        assert_int_equal(enter_for(at + 2, "ann", 1, "k"), LINE_WAITING); /* beside: he gets the mail if the first leaves */
        assert_int_equal(enter_for(at + 4, "bob", 1, ""), LINE_WAITING);
        if (leaves) line_leave(lines, &people[at].waiter);
        line_turn(lines, now_ns);
        assert_int_equal(people[at].told + people[at + 2].told + people[at + 4].told, 0);
        turn();
        assert_int_equal(people[leaves ? at + 2 : at].outcome, LINE_ADMITTED);
        assert_int_equal(people[at + 4].outcome, LINE_ADMITTED);
        line_settle(lines, &people[leaves ? at + 2 : at].waiter);
        turn();
        now_ns += 100 * MS;
        assert_int_equal(enter_for(at + 6, "cat", 1, ""), LINE_ADMITTED); /* nobody's is */
    }
}

#define ROW(test) cmocka_unit_test_setup_teardown(test, room_open, room_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(one_buyer_waits_as_often_as_he_may_win),
        ROW(a_place_and_requests_share_what_a_buyer_may),
        ROW(the_same_grab_hears_the_same),
        ROW(the_same_grab_waits_until_the_first_has_its_answer),
        ROW(who_comes_beside_takes_over_from_one_who_leaves),
        ROW(who_comes_beside_is_let_through_for_one_who_leaves_with_the_mail),
        ROW(mail_that_comes_too_late_is_too_late_for_all_of_the_grab),
        ROW(another_buyer_or_other_units_are_another_grab),
        ROW(one_grab_does_not_hold_requests_without_end),
        ROW(who_has_won_all_he_may_waits_no_more),
        ROW(nobody_overtakes_one_whose_mail_is_under_way),
        cmocka_unit_test(every_outcome_has_a_word_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
