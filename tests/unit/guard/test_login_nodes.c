/* Nodes that tell each other of tries count them together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/guard/guesses.h"

#define NODES 3

static uint32_t woken;

static void wake(void *arg)
{
    (void)arg;
    woken++;
}

static void nodes_open(struct logins *nodes[NODES])
{
    static const uint8_t secret[16] = { 1, 2, 3 };
    for (int i = 0; i < NODES; i++) {
        nodes[i] = logins_made(1024);
        logins_agree(nodes[i], secret);
        logins_on_noted(nodes[i], wake, NULL);
    }
}

static void nodes_close(struct logins *nodes[NODES])
{
    for (int i = 0; i < NODES; i++) logins_close(nodes[i]);
}

/* Everybody hears what happened at the others since the last time. */
static void talk(struct logins *nodes[NODES], uint64_t now_ms)
{
    struct login_event events[64];
    for (int i = 0; i < NODES; i++) {
        uint32_t count = logins_noted(nodes[i], events, 64);
        for (uint32_t n = 0; n < count * NODES; n++) {
            if (n % NODES != (uint32_t)i) logins_hear(nodes[n % NODES], &events[n / NODES], now_ms);
        }
    }
}

static void an_account_has_its_tries_at_all_nodes_together(void **state)
{
    (void)state;
    struct logins *nodes[NODES];
    uint64_t times[1000];
    int count = 0;
    nodes_open(nodes);
    for (uint32_t i = 0; i < 3000; i++) {
        struct address from = address_nth(i);
        uint64_t now = i * 100;
        if (guess(nodes[i % NODES], "ann", &from, now)) times[count++] = now;
        talk(nodes, now);
    }
    assert_int_equal(busiest_minute(times, count), LOGIN_TRIES_MAX - LOGIN_TRIES_KEPT);
    assert_int_equal(woken, 2 * count); /* tried, and failed */
    nodes_close(nodes);
}

/* All nodes are asked at once, whenever one would let anybody through, and hear of each other only afterwards. */
static void what_was_let_through_at_once_is_paid_off(void **state)
{
    (void)state;
    struct logins *nodes[NODES];
    uint32_t passed = 0, asked = 0;
    enum { MINUTES = 60 };
    nodes_open(nodes);
    for (uint64_t now = 0; now < MINUTES * MINUTE; now += 1000) {
        for (int n = 0; n < 10 * NODES; n++) {
            struct address from = address_nth(asked++);
            passed += guess(nodes[n % NODES], "ann", &from, now);
        }
        talk(nodes, now);
    }
    uint32_t each = LOGIN_TRIES_MAX - LOGIN_TRIES_KEPT;
    assert_in_range(passed, MINUTES * each / 2, (MINUTES + NODES) * each);
    nodes_close(nodes);
}

static void an_owner_who_is_known_gets_in_at_all_nodes_meanwhile(void **state)
{
    (void)state;
    struct logins *nodes[NODES];
    struct address home = address_of("192.0.2.7");
    nodes_open(nodes);
    assert_true(enter(nodes[0], "ann", &home, 0));
    talk(nodes, 0);
    for (uint32_t i = 0; i < 100; i++) {
        struct address from = address_nth(i);
        (void)guess(nodes[i % NODES], "ann", &from, 1000);
    }
    talk(nodes, 1000);
    for (int i = 0; i < NODES; i++) {
        struct address stranger = address_nth(1000);
        assert_false(guess(nodes[i], "ann", &stranger, 2000));
        assert_true(enter(nodes[i], "ann", &home, 2000));
    }
    nodes_close(nodes);
}

static void a_guesser_waits_at_all_nodes_until_a_success(void **state)
{
    (void)state;
    struct logins *nodes[NODES];
    struct address here = address_of("192.0.2.7");
    nodes_open(nodes);
    for (int i = 0; i < LOGIN_PAIR_TRIES; i++) {
        assert_true(guess(nodes[i % NODES], "ann", &here, 1000));
        talk(nodes, 1000);
    }
    for (int i = 0; i < NODES; i++) assert_false(guess(nodes[i], "ann", &here, 1000));
    assert_true(enter(nodes[1], "ann", &here, 1000 + LOGIN_PAIR_WAIT_MS));
    talk(nodes, 1000 + LOGIN_PAIR_WAIT_MS);
    assert_true(guess(nodes[2], "ann", &here, 1000 + LOGIN_PAIR_WAIT_MS));
    nodes_close(nodes);
}

static void what_nobody_asks_for_is_dropped_and_counted(void **state)
{
    (void)state;
    struct logins *nodes[NODES];
    struct login_event event;
    nodes_open(nodes);
    for (uint32_t i = 0; i < 2000; i++) {
        struct address from = address_nth(i);
        assert_true(enter(nodes[0], "ann", &from, 1000));
    }
    uint64_t noted = 0;
    while (logins_noted(nodes[0], &event, 1) == 1) noted++;
    assert_true(noted > 0);
    assert_int_equal(noted + logins_untold(nodes[0]), 4000);
    nodes_close(nodes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_account_has_its_tries_at_all_nodes_together),
        cmocka_unit_test(what_was_let_through_at_once_is_paid_off),
        cmocka_unit_test(an_owner_who_is_known_gets_in_at_all_nodes_meanwhile),
        cmocka_unit_test(a_guesser_waits_at_all_nodes_until_a_success),
        cmocka_unit_test(what_nobody_asks_for_is_dropped_and_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
