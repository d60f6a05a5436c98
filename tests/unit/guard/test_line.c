/* The line as those who stand in it meet it. Time is given by hand.
 *
 * tidy: long because every outcome is tried against every state, with one crowd to do it. */
#include "guard/line.h"

#include "base/metrics.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)
#define START (100 * SECOND)
#define SALE 7

struct person {
    struct line_waiter waiter;
    uint32_t number;
    enum line_outcome outcome;
    uint32_t told; /* how often go() was called */
    uint64_t told_ns;
    uint32_t told_as; /* the how-manieth of all */
};

static struct lines *lines;
static struct line_mailbox *mailbox;
static uint32_t wakes, told_count;
static uint64_t now_ns;
static uint64_t counted_before[LINE_OUTCOMES];

static void on_wake(void *arg)
{
    ++*(uint32_t *)arg;
}

static void on_go(struct line_waiter *waiter, enum line_outcome outcome)
{
    struct person *person = (struct person *)waiter;
    person->outcome = outcome;
    person->told++;
    person->told_ns = now_ns;
    person->told_as = told_count++;
}

static int room_open(void **state)
{
    (void)state;
    const struct lines_options options = { .waiters_max = 10000, .places_max = 1000, .heartbeat_ms = 15000 };
    now_ns = START;
    wakes = told_count = 0;
    for (uint32_t i = 0; i < LINE_OUTCOMES; i++) counted_before[i] = metrics_total(METRIC_LINE_OUTCOMES, i);
    return lines_open(&lines, &options) != FAULT_NONE || line_mailbox_open(&mailbox, lines, on_wake, &wakes) != FAULT_NONE;
}

/* Nothing may be left: lines_close() asserts it of waiters and mailboxes. */
static int room_close(void **state)
{
    (void)state;
    struct lines_status status;
    lines_status(lines, &status);
    if (status.waiting != 0 || status.parked != 0) return 1;
    line_mailbox_close(mailbox);
    lines_close(lines);
    return 0;
}

static struct person *crowd_make(size_t count)
{
    struct person *crowd = calloc(count, sizeof *crowd);
    assert_non_null(crowd);
    for (size_t i = 0; i < count; i++) {
        memset(&crowd[i].waiter, 0xa5, sizeof crowd[i].waiter); /* what memory of a request before looks like */
        crowd[i].waiter.go = on_go;
        crowd[i].waiter.mailbox = mailbox;
        crowd[i].number = (uint32_t)i;
    }
    return crowd;
}

static const struct line_terms plain = { .rate_per_s = 10, .size = 5000, .timeout_ms = 60000 };

static enum line_outcome enter_as(struct person *person, const struct line_terms *terms)
{
    return line_enter(lines, &person->waiter, &(struct line_ask){ .sale_id = SALE }, terms, now_ns);
}

static enum line_outcome enter(struct person *person)
{
    return enter_as(person, &plain);
}

static uint64_t turn(void)
{
    uint64_t due_ns = line_turn(lines, now_ns);
    line_mailbox_deliver(mailbox, now_ns);
    return due_ns;
}

/* Since the room was opened. */
static uint64_t counted(enum line_outcome outcome)
{
    return metrics_total(METRIC_LINE_OUTCOMES, outcome) - counted_before[outcome];
}

static void the_first_goes_at_once_and_the_next_in_its_slot(void **state)
{
    (void)state;
    struct person *crowd = crowd_make(3);
    assert_int_equal(enter(&crowd[0]), LINE_ADMITTED);
    assert_int_equal(enter(&crowd[1]), LINE_WAITING);
    assert_int_equal(enter(&crowd[2]), LINE_WAITING);
    assert_int_equal(turn(), START + 100 * MS);
    assert_int_equal(crowd[1].told, 0);

    now_ns = START + 100 * MS - 1;
    turn();
    assert_int_equal(crowd[1].told, 0);
    now_ns++;
    assert_int_equal(turn(), START + 200 * MS);
    assert_int_equal(crowd[1].told, 1);
    assert_int_equal(crowd[1].outcome, LINE_ADMITTED);
    assert_int_equal(crowd[2].told, 0);
    now_ns += 100 * MS;
    assert_true(turn() == UINT64_MAX);
    assert_int_equal(crowd[2].outcome, LINE_ADMITTED);
    assert_int_equal(crowd[0].told, 0); /* it heard from line_enter() */
    assert_int_equal(counted(LINE_ADMITTED), 3);
    free(crowd);
}

/* However long nobody came, two at once are one too many. */
static void idling_saves_up_nothing(void **state)
{
    (void)state;
    struct person *crowd = crowd_make(6);
    assert_int_equal(enter(&crowd[0]), LINE_ADMITTED);
    now_ns += 1000 * SECOND + 33 * MS;
    assert_int_equal(enter(&crowd[1]), LINE_ADMITTED);
    assert_int_equal(enter(&crowd[2]), LINE_WAITING);
    uint64_t began_ns = now_ns;
    turn();
    assert_int_equal(crowd[2].told, 0);
    now_ns = began_ns + 100 * MS;
    turn();
    assert_int_equal(crowd[2].outcome, LINE_ADMITTED);
    /* Between two slots a newcomer waits for the next one. */
    now_ns = began_ns + 150 * MS;
    assert_int_equal(enter(&crowd[3]), LINE_WAITING);
    turn();
    assert_int_equal(crowd[3].told, 0);
    now_ns = began_ns + 200 * MS;
    turn();
    assert_int_equal(crowd[3].outcome, LINE_ADMITTED);
    free(crowd);
}

/* A pacer that comes late makes up for 100 ms and no more. */
static void a_stalled_machine_does_not_let_a_crowd_through(void **state)
{
    (void)state;
    enum { MANY = 2000 };
    const struct line_terms terms = { .rate_per_s = 1000, .size = MANY, .timeout_ms = 600000 };
    struct person *crowd = crowd_make(MANY);
    for (size_t i = 0; i < MANY; i++) enter_as(&crowd[i], &terms);
    now_ns += 50 * MS;
    turn();
    assert_int_equal(told_count, 50);
    now_ns += 1000 * SECOND / 2;
    uint64_t told_before = told_count;
    turn();
    assert_int_equal(told_count, told_before + 1);
    now_ns += 1 * MS;
    turn();
    assert_int_equal(told_count, told_before + 2);
    line_closed(lines, SALE);
    turn();
    assert_int_equal(told_count, MANY - 1);
    free(crowd);
}

struct herd {
    pthread_t thread;
    struct person *people;
    size_t count, step;
    struct line_terms terms;
    _Atomic uint64_t *clock;
};

static void *herd_enter(void *arg)
{
    struct herd *herd = arg;
    for (size_t i = 0; i < herd->count; i++) {
        struct person *person = &herd->people[i * herd->step];
        person->outcome = line_enter(lines, &person->waiter, &(struct line_ask){ .sale_id = SALE }, &herd->terms,
                                     START + atomic_fetch_add(herd->clock, 1));
    }
    return NULL;
}

static int by_arrival(const void *a, const void *b)
{
    uint64_t left = (*(struct person *const *)a)->waiter.entry.entered_ns;
    uint64_t right = (*(struct person *const *)b)->waiter.entry.entered_ns;
    return (left > right) - (left < right);
}

/* 5,000 from four threads, at rates that divide a second evenly and at rates that do not. */
static void many_from_many_threads_keep_order_and_rate(void **state)
{
    (void)state;
    enum { MANY = 5000, THREADS = 4 };
    static const uint32_t rates[] = { 1000, 997, 1733 };
    for (size_t r = 0; r < sizeof rates / sizeof *rates; r++) {
        struct person *crowd = crowd_make(MANY), *order[MANY];
        struct herd herds[THREADS];
        _Atomic uint64_t ticks = 0;
        const struct line_terms terms = { .rate_per_s = rates[r], .size = MANY, .timeout_ms = 600000 };
        told_count = 0;
        now_ns = START + r * 1000 * SECOND;
        atomic_store(&ticks, now_ns - START);
        for (size_t t = 0; t < THREADS; t++) {
            herds[t] = (struct herd){
                .people = crowd + t, .count = MANY / THREADS, .step = THREADS, .terms = terms, .clock = &ticks
            };
            assert_int_equal(pthread_create(&herds[t].thread, NULL, herd_enter, &herds[t]), 0);
        }
        for (size_t t = 0; t < THREADS; t++) assert_int_equal(pthread_join(herds[t].thread, NULL), 0);

        size_t waiting = 0;
        for (size_t i = 0; i < MANY; i++) {
            if (crowd[i].outcome == LINE_WAITING) order[waiting++] = &crowd[i];
        }
        assert_int_equal(waiting, MANY - 1); /* one found the line empty */
        qsort(order, waiting, sizeof order[0], by_arrival);

        /* The pacer comes when it comes: at odd moments, never more than 3 ms apart. */
        uint64_t began_ns = now_ns, turns = 0;
        while (told_count < waiting) {
            now_ns += MS + (turns++ * 7919 % 2000) * 1000;
            turn();
            uint64_t fair = (now_ns - began_ns) * rates[r] / SECOND;
            assert_true(told_count <= fair);
        }
        for (size_t i = 0; i < waiting; i++) {
            assert_int_equal(order[i]->told, 1);
            assert_int_equal(order[i]->outcome, LINE_ADMITTED);
            assert_int_equal(order[i]->told_as, i);
            /* Slot i + 1 of the rate: never before it, at most a turn after. */
            uint64_t slot_ns = began_ns + ((i + 1) * SECOND + rates[r] - 1) / rates[r];
            assert_true(order[i]->told_ns >= slot_ns);
            assert_true(order[i]->told_ns < slot_ns + 4 * MS);
        }
        double seconds = (double)(now_ns - began_ns) / 1e9;
        double rate = (double)waiting / seconds;
        assert_true(rate > rates[r] * 0.98 && rate < rates[r] * 1.02);
        free(crowd);
    }
}

static void who_waited_too_long_is_told_so_even_in_his_slot(void **state)
{
    (void)state;
    /* The slots are at 100, 200 ms, …; the time-out is at 200 ms to the nanosecond. */
    const struct line_terms terms = { .rate_per_s = 10, .size = 10, .timeout_ms = 200 };
    struct person *crowd = crowd_make(5);
    assert_int_equal(enter_as(&crowd[0], &terms), LINE_ADMITTED);
    for (size_t i = 1; i < 4; i++) assert_int_equal(enter_as(&crowd[i], &terms), LINE_WAITING);
    now_ns = START + 50 * MS;
    assert_int_equal(enter_as(&crowd[4], &terms), LINE_WAITING);
    now_ns = START + 100 * MS;
    turn();
    assert_int_equal(crowd[1].outcome, LINE_ADMITTED);

    /* Arrivals of one nanosecond are one nanosecond apart; 2 and 3 came at START + 1 and START + 2. */
    now_ns = START + 200 * MS - 1;
    turn();
    assert_int_equal(told_count, 1);
    now_ns = START + 200 * MS + 3;
    turn();
    assert_int_equal(crowd[2].outcome, LINE_TIMED_OUT);
    assert_int_equal(crowd[3].outcome, LINE_TIMED_OUT);
    /* The slot at 200 ms was not theirs: it goes to the one whose time is not up. */
    assert_int_equal(crowd[4].outcome, LINE_ADMITTED);
    assert_int_equal(counted(LINE_TIMED_OUT), 2);
    free(crowd);
}

static void time_outs_fall_due_exactly_and_are_announced(void **state)
{
    (void)state;
    const struct line_terms terms = { .rate_per_s = 1, .size = 100, .timeout_ms = 500 };
    struct person *crowd = crowd_make(50);
    for (size_t i = 0; i < 50; i++) {
        now_ns = START + i * MS;
        assert_int_equal(enter_as(&crowd[i], &terms), i == 0 ? LINE_ADMITTED : LINE_WAITING);
    }
    for (size_t i = 1; i < 50; i++) {
        assert_int_equal(turn(), START + i * MS + 500 * MS);
        now_ns = START + i * MS + 500 * MS;
        turn();
        assert_int_equal(crowd[i].outcome, LINE_TIMED_OUT);
        assert_int_equal(told_count, i);
    }
    free(crowd);
}

/* Admitted in time, but the reactor was held up: it has been too long all the same. */
static void mail_that_lies_too_long_is_a_time_out(void **state)
{
    (void)state;
    const struct line_terms terms = { .rate_per_s = 10, .size = 10, .timeout_ms = 150 };
    struct person *crowd = crowd_make(2);
    enter_as(&crowd[0], &terms);
    enter_as(&crowd[1], &terms);
    line_turn(lines, START + 100 * MS);
    assert_int_equal(counted(LINE_ADMITTED), 1); /* a counter never goes back: who has not heard is not counted */
    line_mailbox_deliver(mailbox, START + 151 * MS);
    assert_int_equal(crowd[1].outcome, LINE_TIMED_OUT);
    assert_int_equal(counted(LINE_ADMITTED), 1);
    assert_int_equal(counted(LINE_TIMED_OUT), 1);
    free(crowd);
}

static void sold_out_tells_all_who_wait_and_nobody_after(void **state)
{
    (void)state;
    enum { MANY = 3000 };
    struct person *crowd = crowd_make(MANY + 1);
    for (size_t i = 0; i < MANY; i++) enter(&crowd[i]);
    line_sold_out(lines, SALE);
    line_sold_out(lines, SALE + 1); /* a sale without a line */
    assert_int_equal(enter(&crowd[MANY]), LINE_WAITING);
    turn();
    for (size_t i = 1; i < MANY; i++) assert_int_equal(crowd[i].outcome, LINE_SOLD_OUT);
    assert_int_equal(told_count, MANY - 1);
    assert_int_equal(wakes, 1);
    assert_int_equal(crowd[MANY].told, 0);
    /* Stock came back: it simply goes on. */
    now_ns += 100 * MS;
    turn();
    assert_int_equal(crowd[MANY].outcome, LINE_ADMITTED);
    free(crowd);
}

static void a_full_line_says_so_at_once(void **state)
{
    (void)state;
    const struct line_terms terms = { .rate_per_s = 1, .size = 3, .timeout_ms = 60000 };
    struct person *crowd = crowd_make(6);
    static const enum line_outcome want[] = {
        LINE_ADMITTED, LINE_WAITING, LINE_WAITING, LINE_WAITING, LINE_FULL, LINE_FULL
    };
    for (size_t i = 0; i < 6; i++) assert_int_equal(enter_as(&crowd[i], &terms), want[i]);
    line_leave(lines, &crowd[2].waiter);
    assert_int_equal(enter_as(&crowd[4], &terms), LINE_WAITING);
    line_closed(lines, SALE);
    turn();
    assert_int_equal(crowd[4].outcome, LINE_CLOSED);
    assert_int_equal(crowd[5].told, 0);
    assert_int_equal(crowd[2].told, 0);
    assert_int_equal(counted(LINE_FULL), 2);
    free(crowd);
}

static void all_lines_together_hold_only_so_many(void **state)
{
    (void)state;
    enum { MANY = 10000 };
    struct person *crowd = crowd_make(MANY + 30);
    for (size_t i = 0; i < MANY + 20; i++) {
        uint64_t sale = 1 + i % 20;
        enum line_outcome want = i < 20 ? LINE_ADMITTED : LINE_WAITING;
        assert_int_equal(line_enter(lines, &crowd[i].waiter, &(struct line_ask){ .sale_id = sale }, &plain, now_ns), want);
    }
    assert_int_equal(line_enter(lines, &crowd[MANY + 20].waiter, &(struct line_ask){ .sale_id = 3 }, &plain, now_ns),
                     LINE_FULL);
    assert_int_equal(line_enter(lines, &crowd[MANY + 21].waiter, &(struct line_ask){ .sale_id = 21 }, &plain, now_ns),
                     LINE_ADMITTED);
    assert_int_equal(line_enter(lines, &crowd[MANY + 22].waiter, &(struct line_ask){ .sale_id = 21 }, &plain, now_ns),
                     LINE_FULL);
    lines_shut(lines);
    assert_int_equal(line_enter(lines, &crowd[MANY + 23].waiter, &(struct line_ask){ .sale_id = 3 }, &plain, now_ns),
                     LINE_CLOSED);
    turn();
    assert_int_equal(told_count, MANY);
    for (size_t i = 20; i < MANY + 20; i++) assert_int_equal(crowd[i].outcome, LINE_CLOSED);
    free(crowd);
}

/* 1,024 lines at a time; one where nobody waits makes way for another. */
static void lines_are_bounded_and_idle_ones_make_way(void **state)
{
    (void)state;
    struct person *crowd = crowd_make(2 * LINES_MAX + 2);
    for (uint64_t i = 0; i < 2 * LINES_MAX; i++) {
        enum line_outcome want = i % 2 == 0 ? LINE_ADMITTED : LINE_WAITING;
        assert_int_equal(line_enter(lines, &crowd[i].waiter, &(struct line_ask){ .sale_id = 1 + i / 2 }, &plain, now_ns),
                         want);
    }
    struct person *late = &crowd[(size_t)2 * LINES_MAX];
    assert_int_equal(line_enter(lines, &late->waiter, &(struct line_ask){ .sale_id = 5000 }, &plain, now_ns), LINE_FULL);
    line_leave(lines, &crowd[3].waiter);
    assert_int_equal(line_enter(lines, &late->waiter, &(struct line_ask){ .sale_id = 5000 }, &plain, now_ns),
                     LINE_FULL); /* its slot is still to come */
    now_ns += 100 * MS;
    assert_int_equal(line_enter(lines, &late->waiter, &(struct line_ask){ .sale_id = 5000 }, &plain, now_ns), LINE_ADMITTED);
    uint64_t sale_ids[LINES_MAX];
    assert_int_equal(lines_busy(lines, sale_ids), LINES_MAX - 1); /* in all but the new one somebody waits */
    for (uint32_t i = 0; i < LINES_MAX - 1; i++)
        assert_true(sale_ids[i] >= 1 && sale_ids[i] <= LINES_MAX && sale_ids[i] != 2);
    lines_shut(lines);
    turn();
    free(crowd);
}

/* In every state one can be in: waiting first, in the middle, last; called; called with others; after it was told. */
static void whoever_leaves_is_gone_in_every_state(void **state)
{
    (void)state;
    struct person *crowd = crowd_make(10);
    for (size_t i = 0; i < 10; i++) enter(&crowd[i]);
    static const size_t leavers[] = { 1, 5, 9 };
    for (size_t i = 0; i < 3; i++) line_leave(lines, &crowd[leavers[i]].waiter);
    now_ns += 100 * MS;
    line_turn(lines, now_ns);
    line_leave(lines, &crowd[2].waiter); /* it lies in the mailbox */
    line_mailbox_deliver(mailbox, now_ns);
    assert_int_equal(told_count, 0);
    assert_int_equal(counted(LINE_ADMITTED), 1);
    assert_int_equal(counted(LINE_LEFT), 4);

    /* Nobody went in its stead: the next one goes in the next slot. */
    now_ns += 100 * MS - 1;
    turn();
    assert_int_equal(told_count, 0);
    now_ns += 1;
    turn();
    assert_int_equal(crowd[3].outcome, LINE_ADMITTED);
    line_leave(lines, &crowd[3].waiter); /* too late, and harmless */
    assert_int_equal(counted(LINE_LEFT), 4);

    line_closed(lines, SALE);
    line_turn(lines, now_ns);
    line_leave(lines, &crowd[6].waiter); /* in the middle of the mail */
    line_leave(lines, &crowd[8].waiter); /* at its end */
    line_leave(lines, &crowd[4].waiter); /* at its head */
    line_mailbox_deliver(mailbox, now_ns);
    assert_int_equal(crowd[7].outcome, LINE_CLOSED);
    assert_int_equal(told_count, 2);
    static const uint32_t told[] = { 0, 0, 0, 1, 0, 0, 0, 1, 0, 0 };
    for (size_t i = 0; i < 10; i++) assert_int_equal(crowd[i].told, told[i]);
    free(crowd);
}

static struct person *others;

/* One answer tears down the connections of others that lie in the same mail, and enters again. */
static void go_and_take_others_along(struct line_waiter *waiter, enum line_outcome outcome)
{
    on_go(waiter, outcome);
    line_leave(lines, &others[3].waiter);
    line_leave(lines, &others[4].waiter);
    waiter->go = on_go;
    assert_int_equal(line_enter(lines, waiter, &(struct line_ask){ .sale_id = SALE + 1 }, &plain, now_ns), LINE_ADMITTED);
    assert_int_equal(line_enter(lines, waiter, &(struct line_ask){ .sale_id = SALE + 1 }, &plain, now_ns), LINE_WAITING);
}

static void an_answer_may_let_others_leave_and_enter_again(void **state)
{
    (void)state;
    others = crowd_make(5);
    for (size_t i = 0; i < 5; i++) enter(&others[i]);
    others[1].waiter.go = go_and_take_others_along;
    line_sold_out(lines, SALE);
    turn();
    assert_int_equal(others[1].told, 1);
    assert_int_equal(others[2].told, 1);
    assert_int_equal(others[3].told, 0);
    assert_int_equal(others[4].told, 0);
    now_ns += 100 * MS;
    turn();
    assert_int_equal(others[1].told, 2);
    assert_int_equal(others[1].outcome, LINE_ADMITTED);
    free(others);
}

static void go_and_let_the_third_leave(struct line_waiter *waiter, enum line_outcome outcome)
{
    on_go(waiter, outcome);
    line_leave(lines, &others[3].waiter);
}

/* Whoever is let through and leaves, while the mail he lies in is delivered, has had his turn: his line knows of nobody on
 * the way, and lets the next one in at once. */
static void one_who_leaves_out_of_the_middle_of_the_mail_is_counted_once(void **state)
{
    (void)state;
    const struct line_terms fast = { .rate_per_s = 1000, .size = 5000, .timeout_ms = 60000 };
    others = crowd_make(6);
    for (size_t i = 0; i < 5; i++) assert_int_equal(enter_as(&others[i], &fast), i == 0 ? LINE_ADMITTED : LINE_WAITING);
    others[1].waiter.go = go_and_let_the_third_leave;
    now_ns += 5 * MS;
    turn();
    static const uint32_t told[] = { 0, 1, 1, 0, 1 };
    for (size_t i = 0; i < 5; i++) assert_int_equal(others[i].told, told[i]);
    now_ns += SECOND;
    assert_int_equal(enter_as(&others[5], &fast), LINE_ADMITTED);
    free(others);
}

static void a_new_rate_counts_from_the_next_slot(void **state)
{
    (void)state;
    const struct line_terms fast = { .rate_per_s = 1000, .size = 5000, .timeout_ms = 60000 };
    struct person *crowd = crowd_make(5);
    for (size_t i = 0; i < 4; i++) enter(&crowd[i]);
    assert_int_equal(enter_as(&crowd[4], &fast), LINE_WAITING);
    now_ns += 99 * MS;
    turn();
    assert_int_equal(told_count, 0);
    now_ns += 1 * MS;
    turn();
    assert_int_equal(told_count, 1);
    now_ns += 3 * MS;
    turn();
    assert_int_equal(told_count, 4);
    free(crowd);
}

static void every_extreme_of_the_terms_works(void **state)
{
    (void)state;
    static const struct {
        struct line_terms terms;
        bool valid;
    } script[] = {
        { { 1, 1, 1 }, true },
        { { LINE_RATE_MAX, LINE_SIZE_MAX, LINE_TIMEOUT_MS_MAX }, true },
        { { 0, 1, 1 }, false },
        { { 1, 0, 1 }, false },
        { { 1, 1, 0 }, false },
        { { LINE_RATE_MAX + 1, 1, 1 }, false },
        { { 1, LINE_SIZE_MAX + 1, 1 }, false },
        { { 1, 1, LINE_TIMEOUT_MS_MAX + 1 }, false },
        { { UINT32_MAX, UINT32_MAX, UINT32_MAX }, false },
    };
    for (size_t i = 0; i < sizeof script / sizeof *script; i++)
        assert_int_equal(line_terms_valid(&script[i].terms), script[i].valid);

    struct person *crowd = crowd_make(1001);
    for (size_t i = 0; i < 1001; i++) enter_as(&crowd[i], &script[1].terms);
    now_ns += MS;
    turn();
    assert_int_equal(told_count, 1000); /* a million a second is a thousand a millisecond */
    free(crowd);
}

static void declared_lines_are_found_by_name(void **state)
{
    (void)state;
    const struct line_terms slow = { .rate_per_s = 5, .size = 6, .timeout_ms = 7 };
    struct line_declared declared[LINES_DECLARED_MAX];
    struct line_terms terms;
    assert_false(lines_declared(lines, SLICE("line_a"), &terms));
    for (int i = 0; i < LINES_DECLARED_MAX; i++) {
        declared[i] = (struct line_declared){ .name = "line_a", .terms = i == 3 ? slow : plain };
        declared[i].name[5] = (char)('a' + i);
    }
    lines_declare(lines, declared, LINES_DECLARED_MAX);
    assert_true(lines_declared(lines, SLICE("line_d"), &terms));
    assert_memory_equal(&terms, &slow, sizeof terms);
    assert_true(lines_declared(lines, SLICE("line_p"), &terms));
    assert_memory_equal(&terms, &plain, sizeof terms);
    assert_false(lines_declared(lines, SLICE("line_"), &terms));
    assert_false(lines_declared(lines, SLICE("line_q"), &terms));
    assert_false(lines_declared(lines, SLICE(""), &terms));

    /* A configuration read again: what it leaves out is declared no more, and numbers are as it says. */
    declared[3].terms = plain;
    lines_declare(lines, declared + 3, 1);
    assert_true(lines_declared(lines, SLICE("line_d"), &terms));
    assert_memory_equal(&terms, &plain, sizeof terms);
    assert_false(lines_declared(lines, SLICE("line_a"), &terms));
    assert_false(lines_declared(lines, SLICE("line_p"), &terms));
    lines_declare(lines, declared, 0);
    assert_false(lines_declared(lines, SLICE("line_d"), &terms));
}

#define ROW(test) cmocka_unit_test_setup_teardown(test, room_open, room_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(the_first_goes_at_once_and_the_next_in_its_slot),
        ROW(idling_saves_up_nothing),
        ROW(a_stalled_machine_does_not_let_a_crowd_through),
        ROW(many_from_many_threads_keep_order_and_rate),
        ROW(who_waited_too_long_is_told_so_even_in_his_slot),
        ROW(time_outs_fall_due_exactly_and_are_announced),
        ROW(mail_that_lies_too_long_is_a_time_out),
        ROW(sold_out_tells_all_who_wait_and_nobody_after),
        ROW(a_full_line_says_so_at_once),
        ROW(all_lines_together_hold_only_so_many),
        ROW(lines_are_bounded_and_idle_ones_make_way),
        ROW(whoever_leaves_is_gone_in_every_state),
        ROW(an_answer_may_let_others_leave_and_enter_again),
        ROW(one_who_leaves_out_of_the_middle_of_the_mail_is_counted_once),
        ROW(a_new_rate_counts_from_the_next_slot),
        ROW(every_extreme_of_the_terms_works),
        ROW(declared_lines_are_found_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
