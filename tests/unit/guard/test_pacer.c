/* The pacer's own thread, with reactors of their own that enter, leave and deliver at the same time, on the real clock. */
#include "guard/line.h"

#include "base/clock.h"
#include "base/metrics.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MS UINT64_C(1000000)
#define SALE 7
#define REACTORS 4

struct person {
    struct line_waiter waiter;
    uint32_t reactor;
    enum line_outcome outcome; /* what line_enter() said */
    uint32_t told;             /* how often go() was called */
};

static struct lines *lines;
static bool buyers_meet;
static uint64_t counted_before[LINE_OUTCOMES];

static int room_open(void **state)
{
    (void)state;
    const struct lines_options options = { .waiters_max = 100000, .places_max = 1, .heartbeat_ms = 15000 };
    for (uint32_t o = 0; o < LINE_OUTCOMES; o++) counted_before[o] = metrics_total(METRIC_LINE_OUTCOMES, o);
    buyers_meet = false;
    return lines_open(&lines, &options) != FAULT_NONE || lines_start(lines) != FAULT_NONE;
}

static int room_close(void **state)
{
    (void)state;
    lines_close(lines);
    return 0;
}

/* A reactor of its own: enters, leaves some again at random moments, delivers when woken. */
struct reactor {
    pthread_t thread;
    struct line_mailbox *mailbox;
    _Atomic uint32_t woken;
    struct person *people;
    size_t count;
    unsigned seed;
    uint64_t outcomes[LINE_OUTCOMES], left, wakes;
    uint64_t entered_ns_last, early, out_of_order, late_ms_max;
    struct line_terms terms;
    bool buyers_meet;
};

static void reactor_wake(void *arg)
{
    struct reactor *reactor = arg;
    atomic_fetch_add(&reactor->woken, 1);
}

static struct reactor reactors[REACTORS];

static void reactor_go(struct line_waiter *waiter, enum line_outcome outcome)
{
    struct person *person = (struct person *)waiter;
    struct reactor *reactor = &reactors[person->reactor];
    person->told++;
    reactor->outcomes[outcome]++;
    if (outcome == LINE_ADMITTED) line_settle(lines, waiter);
    if (reactor->buyers_meet) return; /* who takes over comes with another's time */
    /* Mail of one reactor comes in the order of arrival. */
    if (waiter->entry.entered_ns < reactor->entered_ns_last) reactor->out_of_order++;
    reactor->entered_ns_last = waiter->entry.entered_ns;
    uint64_t waited_ns = mono_ns() - waiter->entry.entered_ns, timeout_ns = reactor->terms.timeout_ms * MS;
    if (outcome != LINE_TIMED_OUT) return;
    if (waited_ns < timeout_ns) reactor->early++;
    if (waited_ns > timeout_ns && (waited_ns - timeout_ns) / MS > reactor->late_ms_max)
        reactor->late_ms_max = (waited_ns - timeout_ns) / MS;
}

static void reactor_mail(struct reactor *reactor)
{
    if (atomic_exchange(&reactor->woken, 0) > 0) {
        reactor->wakes++;
        line_mailbox_deliver(reactor->mailbox, mono_ns());
    }
}

/* Of few buyers with few keys, so that many stand beside each other and take over from each other; or of none. */
static struct line_ask ask_of(struct reactor *reactor, char name[24], char key[8])
{
    struct line_ask ask = { .sale_id = SALE, .grabs_max = 4, .units = 1 };
    if (!reactor->buyers_meet) return ask;
    snprintf(name, 24, "buyer%d", rand_r(&reactor->seed) % 500);
    snprintf(key, 8, "k%d", rand_r(&reactor->seed) % 3);
    ask.buyer = slice_of(name);
    if (rand_r(&reactor->seed) % 4 != 0) ask.key = slice_of(key);
    return ask;
}

static void *reactor_run(void *arg)
{
    struct reactor *reactor = arg;
    size_t waiting = 0;
    for (size_t i = 0; i < reactor->count; i++) {
        struct person *person = &reactor->people[i];
        char name[24], key[8];
        const struct line_ask ask = ask_of(reactor, name, key);
        person->outcome = line_enter(lines, &person->waiter, &ask, &reactor->terms, mono_ns());
        if (person->outcome != LINE_WAITING) reactor->outcomes[person->outcome]++;
        if (person->outcome == LINE_ADMITTED) line_settle(lines, &person->waiter);
        if (i % 64 == 0) usleep(100);
        if (rand_r(&reactor->seed) % 256 == 0) reactor_mail(reactor); /* so that mail lies about when people leave */
        /* Anybody who came before may go again, whatever has become of him. */
        struct person *leaver = &reactor->people[(size_t)rand_r(&reactor->seed) % (i + 1)];
        if (leaver->outcome != LINE_WAITING || rand_r(&reactor->seed) % 2 == 0) continue;
        uint32_t told = leaver->told;
        line_leave(lines, &leaver->waiter);
        reactor->left += told == 0;
        leaver->outcome = LINE_LEFT;
        memset(&leaver->waiter.entry, 0xdd, sizeof leaver->waiter.entry); /* its memory is someone else's now */
    }
    do {
        waiting = 0;
        reactor_mail(reactor);
        for (size_t i = 0; i < reactor->count; i++)
            waiting += reactor->people[i].outcome == LINE_WAITING && reactor->people[i].told == 0;
        usleep(200);
    } while (waiting > 0);
    return NULL;
}

static void reactors_run(size_t people_each, const struct line_terms *terms)
{
    for (size_t r = 0; r < REACTORS; r++) {
        struct reactor *reactor = &reactors[r];
        memset(reactor, 0, sizeof *reactor);
        assert_int_equal(line_mailbox_open(&reactor->mailbox, lines, reactor_wake, reactor), FAULT_NONE);
        reactor->people = calloc(people_each, sizeof *reactor->people);
        assert_non_null(reactor->people);
        reactor->count = people_each;
        reactor->seed = (unsigned)r + 1;
        reactor->terms = *terms;
        reactor->buyers_meet = buyers_meet;
        for (size_t i = 0; i < people_each; i++) {
            reactor->people[i].reactor = (uint32_t)r;
            reactor->people[i].waiter.go = reactor_go;
            reactor->people[i].waiter.mailbox = reactor->mailbox;
        }
        assert_int_equal(pthread_create(&reactor->thread, NULL, reactor_run, reactor), 0);
    }
}

/* Each has one outcome, and the room has counted the same. */
static void reactors_add_up(void)
{
    uint64_t sum[LINE_OUTCOMES] = { 0 }, left = 0, total = 0, people = 0;
    struct lines_status status;
    for (size_t r = 0; r < REACTORS; r++) {
        struct reactor *reactor = &reactors[r];
        assert_int_equal(pthread_join(reactor->thread, NULL), 0);
        line_mailbox_close(reactor->mailbox);
        assert_int_equal(reactor->out_of_order, 0);
        assert_int_equal(reactor->early, 0);
        for (size_t o = 0; o < LINE_OUTCOMES; o++) sum[o] += reactor->outcomes[o];
        left += reactor->left;
        people += reactor->count;
        for (size_t i = 0; i < reactor->count; i++) assert_true(reactor->people[i].told <= 1);
        free(reactor->people);
    }
    lines_status(lines, &status);
    assert_int_equal(status.waiting, 0);
    assert_int_equal(status.parked, 0);
    for (uint32_t o = 0; o < LINE_OUTCOMES; o++) {
        uint64_t counted = metrics_total(METRIC_LINE_OUTCOMES, o) - counted_before[o];
        assert_int_equal(counted, o == LINE_LEFT ? left : sum[o]);
        total += counted;
    }
    assert_int_equal(total, people);
}

static void thousands_leave_while_they_are_being_admitted(void **state)
{
    (void)state;
    const struct line_terms terms = { .rate_per_s = 400000, .size = 100000, .timeout_ms = 5000 };
    reactors_run(4000, &terms);
    reactors_add_up();
}

/* The same grabs on several threads: whoever leaves hands over, whoever is let through tells the others, nobody is lost. */
static void the_same_grabs_meet_from_many_threads(void **state)
{
    (void)state;
    const struct line_terms terms = { .rate_per_s = 20000, .size = 100000, .timeout_ms = 100 };
    buyers_meet = true;
    reactors_run(4000, &terms);
    reactors_add_up();
    assert_true(metrics_total(METRIC_LINE_OUTCOMES, LINE_REPEATED) > counted_before[LINE_REPEATED]);
}

static void the_pacer_tells_time_outs_in_time(void **state)
{
    (void)state;
    const struct line_terms terms = { .rate_per_s = 20, .size = 100000, .timeout_ms = 120 };
    reactors_run(200, &terms);
    reactors_add_up();
    assert_true(reactors[0].outcomes[LINE_TIMED_OUT] > 0);
    for (size_t r = 0; r < REACTORS; r++)
        assert_true(reactors[r].late_ms_max < 20000); /* 50 on a machine that is not shared */
}

static void shutting_empties_the_line_at_once(void **state)
{
    (void)state;
    const struct line_terms terms = { .rate_per_s = 1, .size = 100000, .timeout_ms = 600000 };
    reactors_run(1000, &terms);
    usleep(2000);
    lines_shut(lines);
    reactors_add_up();
}

#define ROW(test) cmocka_unit_test_setup_teardown(test, room_open, room_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(thousands_leave_while_they_are_being_admitted),
        ROW(the_same_grabs_meet_from_many_threads),
        ROW(the_pacer_tells_time_outs_in_time),
        ROW(shutting_empties_the_line_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
