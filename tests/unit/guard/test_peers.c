/* Connections of an address, counted exactly, whatever comes and goes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "guard/peers.h"

#include "tests/unit/base/dice.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

static struct address address_of(const char *text)
{
    struct address address;
    assert_true(address_parse(&address, slice_of(text)));
    return address;
}

static struct address address_nth(uint32_t n)
{
    struct address address = address_of("10.0.0.0");
    for (int i = 0; i < 3; i++) address.bytes[15 - i] = (uint8_t)(n >> 8 * i);
    return address;
}

static struct peers *peers_made(uint32_t connections_max, uint32_t per_peer_max)
{
    struct peers *peers;
    assert_int_equal(peers_open(&peers, connections_max, per_peer_max), FAULT_NONE);
    return peers;
}

/* How many more may come from there. */
static uint32_t room_for(struct peers *peers, const struct address *address)
{
    uint32_t room = 0;
    while (peers_enter(peers, address)) room++;
    for (uint32_t i = 0; i < room; i++) peers_leave(peers, address);
    return room;
}

/* Nobody is there: every place can be taken, each by another address, and then no more. */
static void assert_empty(struct peers *peers, uint32_t connections_max)
{
    for (uint32_t i = 0; i < connections_max; i++) {
        struct address one = address_nth(5000 + i);
        assert_true(peers_enter(peers, &one));
    }
    struct address more = address_nth(5000 + connections_max);
    assert_false(peers_enter(peers, &more));
    for (uint32_t i = 0; i < connections_max; i++) {
        struct address one = address_nth(5000 + i);
        peers_leave(peers, &one);
    }
}

static void an_address_has_as_many_as_it_may(void **state)
{
    (void)state;
    struct peers *peers = peers_made(100, 3);
    struct address here = address_of("192.0.2.7"), there = address_of("192.0.2.8");
    for (int i = 0; i < 3; i++) assert_true(peers_enter(peers, &here));
    assert_false(peers_enter(peers, &here));
    assert_true(peers_enter(peers, &there));
    peers_leave(peers, &here);
    assert_true(peers_enter(peers, &here));
    assert_false(peers_enter(peers, &here));
    assert_int_equal(room_for(peers, &there), 2);
    for (int i = 0; i < 3; i++) peers_leave(peers, &here);
    peers_leave(peers, &there);
    assert_int_equal(room_for(peers, &here), 3);
    assert_empty(peers, 100);
    peers_close(peers);
}

static void an_ipv6_64_is_one_peer(void **state)
{
    (void)state;
    struct peers *peers = peers_made(100, 2);
    struct address a = address_of("2001:db8::1"), b = address_of("2001:db8::ffff:1"), c = address_of("2001:db8:0:1::1");
    assert_true(peers_enter(peers, &a));
    assert_true(peers_enter(peers, &b));
    assert_false(peers_enter(peers, &a));
    assert_true(peers_enter(peers, &c));
    peers_leave(peers, &a);
    peers_leave(peers, &a); /* either of the two */
    assert_int_equal(room_for(peers, &b), 2);
    peers_close(peers);
}

static void the_limit_changes_while_running(void **state)
{
    (void)state;
    struct peers *peers = peers_made(100, 0);
    struct address here = address_of("192.0.2.7");
    for (int i = 0; i < 50; i++) assert_true(peers_enter(peers, &here));
    peers_set_max(peers, 10); /* what was counted without a limit is counted */
    assert_false(peers_enter(peers, &here));
    for (int i = 0; i < 40; i++) peers_leave(peers, &here);
    assert_false(peers_enter(peers, &here));
    peers_leave(peers, &here);
    assert_true(peers_enter(peers, &here));
    peers_set_max(peers, 11);
    assert_true(peers_enter(peers, &here));
    assert_false(peers_enter(peers, &here));
    peers_set_max(peers, 0);
    for (int i = 11; i < 100; i++) assert_true(peers_enter(peers, &here));
    assert_false(peers_enter(peers, &here)); /* all places of the server */
    peers_close(peers);
}

static void every_place_can_be_of_another_address(void **state)
{
    (void)state;
    struct peers *peers = peers_made(1000, 1);
    for (uint32_t i = 0; i < 1000; i++) {
        struct address one = address_nth(i);
        assert_true(peers_enter(peers, &one));
        assert_false(peers_enter(peers, &one));
    }
    struct address more = address_nth(1000);
    assert_false(peers_enter(peers, &more));
    for (uint32_t i = 0; i < 1000; i++) {
        struct address one = address_nth(i);
        peers_leave(peers, &one);
        assert_true(peers_enter(peers, &more));
        peers_leave(peers, &more);
    }
    assert_empty(peers, 1000);
    peers_close(peers);
}

/* Against an array of counts, in tables so full that addresses stand in each other's places and wrap around the end. */
static void counts_are_exact_through_any_coming_and_going(void **state)
{
    (void)state;
    enum { ADDRESSES = 60, STEPS = 20000 };
    uint64_t dice = dice_seed();
    for (int run = 0; run < 20; run++) {
        struct peers *peers = peers_made(32, 4);
        uint32_t counts[ADDRESSES] = { 0 }, all = 0;
        for (int step = 0; step < STEPS; step++) {
            uint32_t n = dice_below(&dice, ADDRESSES);
            struct address one = address_nth(n);
            if (dice_below(&dice, 2) == 0) {
                bool want = counts[n] < 4 && all < 32;
                assert_int_equal(peers_enter(peers, &one), want);
                counts[n] += want;
                all += want;
            } else if (counts[n] > 0) {
                peers_leave(peers, &one);
                counts[n]--;
                all--;
            }
            uint32_t other = dice_below(&dice, ADDRESSES);
            struct address looked = address_nth(other);
            uint32_t left = 32 - all < 4 - counts[other] ? 32 - all : 4 - counts[other];
            assert_int_equal(room_for(peers, &looked), left);
        }
        for (uint32_t i = 0; i < ADDRESSES; i++) {
            struct address one = address_nth(i);
            for (; counts[i] > 0; counts[i]--) peers_leave(peers, &one);
        }
        assert_empty(peers, 32);
        peers_close(peers);
    }
}

struct crowd {
    struct peers *peers;
    _Atomic int inside[8];
    _Atomic int over;
};

static void *crowd_come_and_go(void *arg)
{
    struct crowd *crowd = arg;
    uint64_t dice = (uint64_t)(uintptr_t)&dice;
    for (int i = 0; i < 5000; i++) {
        uint32_t n = dice_below(&dice, 8);
        struct address one = address_nth(n);
        if (!peers_enter(crowd->peers, &one)) continue;
        if (atomic_fetch_add(&crowd->inside[n], 1) >= 2) atomic_fetch_add(&crowd->over, 1);
        atomic_fetch_sub(&crowd->inside[n], 1);
        peers_leave(crowd->peers, &one);
    }
    return NULL;
}

static void threads_never_enter_beyond_the_limit(void **state)
{
    (void)state;
    struct crowd crowd = { .peers = peers_made(1000, 2) };
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, crowd_come_and_go, &crowd), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&crowd.over), 0);
    assert_empty(crowd.peers, 1000);
    peers_close(crowd.peers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_has_as_many_as_it_may),
        cmocka_unit_test(an_ipv6_64_is_one_peer),
        cmocka_unit_test(the_limit_changes_while_running),
        cmocka_unit_test(every_place_can_be_of_another_address),
        cmocka_unit_test(counts_are_exact_through_any_coming_and_going),
        cmocka_unit_test(threads_never_enter_beyond_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
