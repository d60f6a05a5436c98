/* Places as a page that polls meets them. Time is given by hand. */
#include "guard/places.h"

#include "base/metrics.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)
#define START (100 * SECOND)
#define SALE 7
#define PLACES 300

static struct lines *lines;
static uint64_t now_ns;
static const struct line_terms plain = { .rate_per_s = 10, .size = 1000, .timeout_ms = 600000 };

static int room_open(void **state)
{
    (void)state;
    const struct lines_options options = { .waiters_max = 100, .places_max = PLACES, .heartbeat_ms = 15000 };
    now_ns = START;
    return lines_open(&lines, &options) != FAULT_NONE;
}

/* After a heartbeat without anybody, nothing may be left. */
static int room_close(void **state)
{
    (void)state;
    now_ns += 15 * SECOND;
    uint64_t due_ns = line_turn(lines, now_ns);
    struct lines_status status;
    lines_status(lines, &status);
    if (due_ns != UINT64_MAX || status.waiting != 0 || status.places != 0) return 1;
    lines_close(lines);
    return 0;
}

static uint32_t places_held(void)
{
    struct lines_status status;
    lines_status(lines, &status);
    return status.places;
}

static struct place_ask ask_of(const char *buyer)
{
    return (struct place_ask){ .sale_id = SALE, .buyer = slice_of(buyer), .grabs_max = 1, .available = 1000 };
}

static enum line_outcome take(const char *buyer, struct place_view *view)
{
    struct place_ask ask = ask_of(buyer);
    return place_take(lines, &ask, &plain, now_ns, view);
}

static bool look(const char *buyer, const char *id, struct place_view *view)
{
    struct place_ask ask = ask_of(buyer);
    return place_look(lines, slice_of(id), &ask, now_ns, view);
}

static void numbered(char name[16], int number)
{
    snprintf(name, 16, "buyer%d", number);
}

/* Fills the line: the first is let in at once, the others wait. */
static void crowd_take(int count, struct place_view *views)
{
    char name[16];
    for (int i = 0; i < count; i++) {
        numbered(name, i);
        assert_int_equal(take(name, &views[i]), i == 0 ? LINE_ADMITTED : LINE_WAITING);
    }
}

static void positions_and_waits_are_those_of_the_order(void **state)
{
    (void)state;
    struct place_view views[50], view;
    char name[16];
    crowd_take(50, views);
    for (int i = 1; i < 50; i++) {
        assert_int_equal(views[i].state, PLACE_WAITING);
        assert_int_equal(views[i].ahead, i - 1);
        assert_int_equal(views[i].position, i);
        assert_int_equal(views[i].wait_ms, i * 100);
    }
    /* Three go through, one who stood before goes away, one who stood behind does: 5 less for the last but one. */
    for (int i = 0; i < 3; i++) {
        now_ns += 100 * MS;
        line_turn(lines, now_ns);
    }
    struct place_ask ask = ask_of("buyer20");
    assert_true(place_leave(lines, slice_of(views[20].id), &ask));
    assert_false(place_leave(lines, slice_of(views[20].id), &ask));
    ask = ask_of("buyer49");
    assert_true(place_leave(lines, slice_of(views[49].id), &ask));
    assert_true(look("buyer48", views[48].id, &view));
    assert_int_equal(view.ahead, 47 - 4);
    assert_int_equal(view.wait_ms, 4400);
    for (int i = 1; i < 4; i++) {
        numbered(name, i);
        assert_true(look(name, views[i].id, &view));
        assert_int_equal(view.state, PLACE_ADMITTED);
    }
    now_ns += 30 * MS;
    assert_true(look("buyer4", views[4].id, &view));
    assert_int_equal(view.ahead, 0);
    assert_int_equal(view.wait_ms, 70);
}

static void more_ahead_than_there_is_stock_is_hopeless(void **state)
{
    (void)state;
    struct place_view views[6], view;
    crowd_take(6, views);
    static const struct {
        uint32_t available;
        bool want;
    } script[] = { { 0, true }, { 3, true }, { 4, false }, { 5, false } };
    struct place_ask ask = ask_of("buyer5"); /* four are ahead */
    for (size_t i = 0; i < sizeof script / sizeof *script; i++) {
        ask.available = script[i].available;
        assert_true(place_look(lines, slice_of(views[5].id), &ask, now_ns, &view));
        assert_int_equal(view.hopeless, script[i].want);
    }
    assert_int_equal(view.ahead, 4);
}

static void the_same_buyer_has_the_same_place(void **state)
{
    (void)state;
    struct place_view views[4], again, other;
    crowd_take(4, views);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(take("buyer2", &again), LINE_WAITING);
        assert_string_equal(again.id, views[2].id);
        assert_int_equal(again.ahead, 1);
    }
    assert_int_equal(take("buyer0", &again), LINE_ADMITTED);
    assert_string_equal(again.id, views[0].id);
    assert_int_equal(places_held(), 4);

    /* In another sale he is someone else; a longer name is, too. */
    struct place_ask ask = { .sale_id = SALE + 1, .buyer = SLICE("buyer2"), .grabs_max = 1 };
    assert_int_equal(place_take(lines, &ask, &plain, now_ns, &other), LINE_ADMITTED);
    assert_string_not_equal(other.id, views[2].id);
    assert_int_equal(take("buyer22", &other), LINE_WAITING);
    assert_int_equal(other.ahead, 3);
}

static void another_buyers_place_is_unknown(void **state)
{
    (void)state;
    struct place_view views[3], view;
    crowd_take(3, views);
    assert_true(look("buyer1", views[1].id, &view));
    assert_false(look("buyer2", views[1].id, &view));
    assert_false(look("buyer", views[1].id, &view));
    struct place_ask elsewhere = { .sale_id = SALE + 1, .buyer = SLICE("buyer1"), .grabs_max = 1 };
    assert_false(place_look(lines, slice_of(views[1].id), &elsewhere, now_ns, &view));
    assert_false(place_leave(lines, slice_of(views[1].id), &elsewhere));
    struct place_ask other = ask_of("buyer2");
    assert_false(place_leave(lines, slice_of(views[1].id), &other));
    assert_true(look("buyer1", views[1].id, &view));
}

static void an_id_that_is_not_one_is_unknown(void **state)
{
    (void)state;
    struct place_view views[2], view;
    char id[PLACE_TEXT_BYTES + 8];
    crowd_take(2, views);
    assert_false(look("buyer1", "", &view));
    for (size_t len = 1; len < PLACE_TEXT_BYTES; len++) {
        snprintf(id, sizeof id, "%.*s", (int)len, views[1].id);
        assert_false(look("buyer1", id, &view));
    }
    snprintf(id, sizeof id, "%s0", views[1].id);
    assert_false(look("buyer1", id, &view));
    /* Every digit counts. */
    for (size_t at = 0; at < PLACE_TEXT_BYTES; at++) {
        snprintf(id, sizeof id, "%s", views[1].id);
        id[at] = id[at] == 'a' ? 'b' : 'a';
        assert_false(look("buyer1", id, &view));
        id[at] = 'g';
        assert_false(look("buyer1", id, &view));
    }
}

/* No bit of an id is fixed, and none follows from another's. */
static void ids_are_not_guessable(void **state)
{
    (void)state;
    struct place_view views[200];
    crowd_take(200, views);
    for (size_t at = 0; at < PLACE_TEXT_BYTES; at++) {
        unsigned ones = 0, zeros = 0, same = 0;
        for (size_t i = 0; i < 200; i++) {
            const char *digits = "0123456789abcdef";
            const char *digit = strchr(digits, views[i].id[at]);
            assert_non_null(digit);
            ones |= (unsigned)(digit - digits);
            zeros |= ~(unsigned)(digit - digits) & 15;
            if (i > 0) same += views[i].id[at] == views[i - 1].id[at];
        }
        assert_int_equal(ones & zeros, 15);
        assert_true(same < 50);
    }
    for (size_t i = 0; i < 200; i++) {
        for (size_t k = 0; k < i; k++) assert_string_not_equal(views[i].id, views[k].id);
    }
}

static void a_place_nobody_looks_at_dies(void **state)
{
    (void)state;
    const struct line_terms slow = { .rate_per_s = 1, .size = 100, .timeout_ms = 3600000 };
    struct place_view first, dying, living, view;
    uint64_t left = metrics_total(METRIC_LINE_OUTCOMES, LINE_LEFT);
    uint64_t admitted = metrics_total(METRIC_LINE_OUTCOMES, LINE_ADMITTED);
    struct place_ask ask = ask_of("first"), ask_dying = ask_of("dying"), ask_living = ask_of("living");
    assert_int_equal(place_take(lines, &ask, &slow, now_ns, &first), LINE_ADMITTED);
    for (int i = 0; i < 40; i++) {
        char name[16];
        numbered(name, i);
        ask = ask_of(name);
        assert_int_equal(place_take(lines, &ask, &slow, now_ns, &view), LINE_WAITING);
    }
    assert_int_equal(place_take(lines, &ask_dying, &slow, now_ns, &dying), LINE_WAITING);
    assert_int_equal(place_take(lines, &ask_living, &slow, now_ns, &living), LINE_WAITING);
    assert_int_equal(living.ahead, 41);

    /* At 14.999 s a look saves it; both "taken again" and "looked at" count. */
    now_ns = START + 15 * SECOND - MS;
    assert_true(place_look(lines, slice_of(living.id), &ask_living, now_ns, &view));
    assert_int_equal(view.state, PLACE_WAITING);
    now_ns = START + 15 * SECOND;
    assert_false(place_look(lines, slice_of(dying.id), &ask_dying, now_ns, &view)); /* before any turn */
    line_turn(lines, now_ns);
    assert_int_equal(places_held(), 1);
    assert_true(place_look(lines, slice_of(living.id), &ask_living, now_ns, &view));
    assert_int_equal(view.state, PLACE_ADMITTED); /* and none of the dead ones before it */
    assert_int_equal(metrics_total(METRIC_LINE_OUTCOMES, LINE_LEFT) - left, 41);
    assert_int_equal(metrics_total(METRIC_LINE_OUTCOMES, LINE_ADMITTED) - admitted, 2);

    /* Who comes back after that stands at the end, in another place. */
    assert_int_equal(place_take(lines, &ask_dying, &slow, now_ns, &view), LINE_WAITING);
    assert_string_not_equal(view.id, dying.id);
    assert_int_equal(view.wait_ms, 1000);
}

static void a_turn_asks_to_come_back_when_a_place_may_die(void **state)
{
    (void)state;
    struct place_view view;
    assert_int_equal(take("ann", &view), LINE_ADMITTED);
    assert_int_equal(line_turn(lines, now_ns), START + 15 * SECOND);
    line_turn(lines, START + 15 * SECOND - 1);
    assert_int_equal(places_held(), 1);
    assert_true(line_turn(lines, START + 15 * SECOND) == UINT64_MAX);
    assert_int_equal(places_held(), 0);
}

/* An outcome can be read for one heartbeat, by a client that asked just before it came, and always as the same. */
static void an_admitted_place_stays_for_one_heartbeat(void **state)
{
    (void)state;
    struct place_view views[3], view;
    crowd_take(3, views);
    now_ns = START + 100 * MS;
    line_turn(lines, now_ns);
    now_ns += 14 * SECOND;
    assert_true(look("buyer1", views[1].id, &view));
    assert_int_equal(view.state, PLACE_ADMITTED);
    assert_int_equal(take("buyer1", &view), LINE_ADMITTED);
    assert_string_equal(view.id, views[1].id);
    now_ns = START + 100 * MS + 15 * SECOND;
    assert_false(look("buyer1", views[1].id, &view)); /* looking at it did not keep it */
}

static void a_place_times_out_and_can_be_taken_anew(void **state)
{
    (void)state;
    const struct line_terms terms = { .rate_per_s = 1, .size = 10, .timeout_ms = 900 };
    struct place_ask ann = ask_of("ann"), bob = ask_of("bob"), cat = ask_of("cat");
    struct place_view view, bobs, cats;
    assert_int_equal(place_take(lines, &ann, &terms, now_ns, &view), LINE_ADMITTED);
    assert_int_equal(place_take(lines, &bob, &terms, now_ns, &bobs), LINE_WAITING);
    now_ns += 300 * MS;
    assert_int_equal(place_take(lines, &cat, &terms, now_ns, &cats), LINE_WAITING);
    now_ns = START + 901 * MS;
    assert_true(place_look(lines, slice_of(bobs.id), &bob, now_ns, &view)); /* no turn has been */
    assert_int_equal(view.state, PLACE_TIMED_OUT);
    now_ns = START + 1000 * MS;
    line_turn(lines, now_ns);
    assert_true(place_look(lines, slice_of(cats.id), &cat, now_ns, &view));
    assert_int_equal(view.state, PLACE_ADMITTED);
    assert_true(place_look(lines, slice_of(bobs.id), &bob, now_ns, &view));
    assert_int_equal(view.state, PLACE_TIMED_OUT);
    assert_int_equal(place_take(lines, &bob, &terms, now_ns, &view), LINE_WAITING);
    assert_string_not_equal(view.id, bobs.id);
    assert_false(place_look(lines, slice_of(bobs.id), &bob, now_ns, &view));
}

static void sold_out_and_closed_are_told(void **state)
{
    (void)state;
    struct place_view views[100], view;
    crowd_take(100, views);
    line_sold_out(lines, SALE);
    line_turn(lines, now_ns);
    for (int i = 1; i < 100; i++) {
        char name[16];
        numbered(name, i);
        assert_true(look(name, views[i].id, &view));
        assert_int_equal(view.state, PLACE_SOLD_OUT);
    }
    assert_int_equal(take("buyer5", &view), LINE_WAITING);
    lines_shut(lines);
    line_turn(lines, now_ns);
    assert_true(look("buyer5", view.id, &view));
    assert_int_equal(view.state, PLACE_CLOSED);
    assert_int_equal(take("buyer5", &view), LINE_CLOSED);
}

static void places_are_bounded(void **state)
{
    (void)state;
    struct place_view views[PLACES], view;
    crowd_take(PLACES, views);
    assert_int_equal(take("one too many", &view), LINE_FULL);
    assert_int_equal(take("buyer9", &view), LINE_WAITING);
    struct place_ask ask = ask_of("buyer9");
    assert_true(place_leave(lines, slice_of(view.id), &ask));
    assert_int_equal(take("one too many", &view), LINE_WAITING);

    const struct line_terms small = { .rate_per_s = 1, .size = 1, .timeout_ms = 1000 };
    ask = ask_of("buyer10");
    assert_true(place_leave(lines, slice_of(views[10].id), &ask));
    assert_int_equal(place_take(lines, &ask, &small, now_ns, &view), LINE_FULL);
    assert_int_equal(places_held(), PLACES - 1);
}

static uint32_t gone;

static void on_go(struct line_waiter *waiter, enum line_outcome outcome)
{
    (void)waiter;
    gone += outcome == LINE_ADMITTED;
}

static void on_wake(void *arg)
{
    (void)arg;
}

/* Requests and places in turn: one order, one rate. */
static void parked_requests_and_places_share_order_and_rate(void **state)
{
    (void)state;
    struct line_mailbox *mailbox;
    struct line_waiter waiters[3];
    struct place_view views[3], view;
    char name[16];
    gone = 0;
    assert_int_equal(line_mailbox_open(&mailbox, lines, on_wake, NULL), FAULT_NONE);
    assert_int_equal(take("opener", &view), LINE_ADMITTED);
    for (int i = 0; i < 3; i++) {
        waiters[i] = (struct line_waiter){ .go = on_go, .mailbox = mailbox };
        assert_int_equal(line_enter(lines, &waiters[i], &(struct line_ask){ .sale_id = SALE }, &plain, now_ns),
                         LINE_WAITING);
        numbered(name, i);
        assert_int_equal(take(name, &views[i]), LINE_WAITING);
        assert_int_equal(views[i].ahead, 2 * i + 1);
    }
    struct lines_status status;
    lines_status(lines, &status);
    assert_int_equal(status.waiting, 6);
    assert_int_equal(status.parked, 3);
    for (int slot = 0; slot < 6; slot++) {
        now_ns += 100 * MS;
        line_turn(lines, now_ns);
        line_mailbox_deliver(mailbox, now_ns);
        assert_int_equal(gone, slot / 2 + 1);
        for (int i = 0; i < 3; i++) {
            numbered(name, i);
            assert_true(look(name, views[i].id, &view));
            assert_int_equal(view.state, slot >= 2 * i + 1 ? PLACE_ADMITTED : PLACE_WAITING);
        }
    }
    line_mailbox_close(mailbox);
}

static void *poller_run(void *arg)
{
    unsigned seed = *(unsigned *)arg;
    struct place_view view;
    for (int i = 0; i < 20000; i++) {
        char name[16];
        numbered(name, rand_r(&seed) % 200);
        struct place_ask ask = ask_of(name);
        uint64_t now = START + (uint64_t)i * MS;
        if (place_take(lines, &ask, &plain, now, &view) > LINE_ADMITTED) continue;
        if (!place_look(lines, slice_of(view.id), &ask, now, &view)) continue;
        if (view.state == PLACE_WAITING) assert_true(view.ahead < 200);
        if (rand_r(&seed) % 8 == 0) place_leave(lines, slice_of(view.id), &ask);
    }
    return NULL;
}

static void many_threads_may_poll_while_the_pacer_turns(void **state)
{
    (void)state;
    pthread_t threads[3];
    unsigned seeds[3] = { 1, 2, 3 };
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&threads[i], NULL, poller_run, &seeds[i]), 0);
    for (int i = 0; i < 200; i++) {
        now_ns = START + (uint64_t)i * 100 * MS;
        line_turn(lines, now_ns);
    }
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    now_ns += 20 * SECOND;
    line_turn(lines, now_ns);
    struct lines_status status;
    lines_status(lines, &status);
    assert_int_equal(status.waiting, 0);
}

#define ROW(test) cmocka_unit_test_setup_teardown(test, room_open, room_close)

static void an_admitted_place_is_bound_to_one_token_and_ends_with_it(void **state)
{
    (void)state;
    struct place_view first, second, seen;
    assert_int_equal(take("ann", &first), LINE_ADMITTED);
    assert_int_equal(take("bob", &second), LINE_WAITING);
    assert_int_equal(first.nonce, 0);
    const struct place_ask ann = ask_of("ann"), bob = ask_of("bob");
    assert_false(place_bind(lines, slice_of(second.id), &bob, 5)); /* it waits */
    assert_false(place_bind(lines, slice_of(first.id), &bob, 5));  /* it is not bob's */
    assert_true(place_bind(lines, slice_of(first.id), &ann, 5));
    assert_true(place_bind(lines, slice_of(first.id), &ann, 5));
    assert_false(place_bind(lines, slice_of(first.id), &ann, 6));
    assert_true(look("ann", first.id, &seen));
    assert_int_equal(seen.nonce, 5);

    place_spent(lines, SALE, slice_of("ann"), 6);
    place_spent(lines, SALE, slice_of("bob"), 5);
    place_spent(lines, SALE + 1, slice_of("ann"), 5);
    assert_true(look("ann", first.id, &seen));
    place_spent(lines, SALE, slice_of("ann"), 5);
    assert_false(look("ann", first.id, &seen));
    assert_false(place_bind(lines, slice_of(first.id), &ann, 5));
    assert_int_equal(take("ann", &seen), LINE_WAITING);
    assert_int_equal(seen.ahead, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(positions_and_waits_are_those_of_the_order),
        ROW(more_ahead_than_there_is_stock_is_hopeless),
        ROW(the_same_buyer_has_the_same_place),
        ROW(another_buyers_place_is_unknown),
        ROW(an_id_that_is_not_one_is_unknown),
        ROW(ids_are_not_guessable),
        ROW(a_place_nobody_looks_at_dies),
        ROW(a_turn_asks_to_come_back_when_a_place_may_die),
        ROW(an_admitted_place_stays_for_one_heartbeat),
        ROW(a_place_times_out_and_can_be_taken_anew),
        ROW(sold_out_and_closed_are_told),
        ROW(places_are_bounded),
        ROW(parked_requests_and_places_share_order_and_rate),
        ROW(an_admitted_place_is_bound_to_one_token_and_ends_with_it),
        ROW(many_threads_may_poll_while_the_pacer_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
