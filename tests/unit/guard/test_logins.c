/* Guessing is slow; whoever knows the password gets in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/base/dice.h"
#include "tests/unit/guard/guesses.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* The thread sanitizer sees nothing in one thread and makes it thirty times slower. */
#ifdef __SANITIZE_THREAD__
#define OTHERS 20000
#else
#define OTHERS 1000000
#endif

static void one_guesser_waits_longer_and_longer(void **state)
{
    (void)state;
    struct logins *logins = logins_made(1024);
    struct address here = address_of("192.0.2.7");
    /* Guessing at every tenth of a second: when each try gets through. */
    static const uint64_t want[] = { 0, 100, 200, 2200, 6200, 14200, 30200, 62200, 126200, 254200, 510200, 810200, 1110200 };
    uint64_t now = 5000;
    size_t tries = 0;
    for (; now < 5000 + 1200000; now += 100) {
        if (!guess(logins, "ann", &here, now)) continue;
        assert_true(tries < sizeof(want) / sizeof(want[0]));
        assert_int_equal(now - 5000, want[tries]);
        tries++;
    }
    assert_int_equal(tries, sizeof(want) / sizeof(want[0]));
    logins_close(logins);
}

static void retry_ms_is_true(void **state)
{
    (void)state;
    struct logins *logins = logins_made(1024);
    struct address here = address_of("192.0.2.7");
    uint64_t now = 1, retry_ms;
    for (int i = 0; i < 12; i++) {
        while (!logins_may_try(logins, SLICE("ann"), &here, now, &retry_ms)) {
            uint64_t then = now + retry_ms, ignored;
            assert_false(logins_may_try(logins, SLICE("ann"), &here, then - 1, &ignored));
            assert_int_equal(ignored, 1);
            now = then;
        }
        logins_failed(logins, SLICE("ann"), &here, now);
    }
    logins_close(logins);
}

/* Many at once before the first has failed: no more than one after the other. */
static void tries_sent_at_once_count_before_they_fail(void **state)
{
    (void)state;
    struct logins *logins = logins_made(1024);
    struct address here = address_of("192.0.2.7");
    uint64_t retry_ms;
    int passed = 0;
    for (int i = 0; i < 1000; i++) passed += logins_may_try(logins, SLICE("ann"), &here, 1000, &retry_ms);
    assert_int_equal(passed, LOGIN_PAIR_TRIES);
    passed = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        struct address from = address_nth(i);
        passed += logins_may_try(logins, SLICE("bob"), &from, 1000, &retry_ms);
    }
    assert_int_equal(passed, LOGIN_TRIES_MAX - LOGIN_TRIES_KEPT);
    logins_close(logins);
}

/* A thousand guessers, each from an address of its own, for half an hour. */
static void an_account_never_sees_more_than_ten_tries_a_minute(void **state)
{
    (void)state;
    struct logins *logins = logins_made(65536);
    uint64_t dice = dice_seed();
    static uint64_t times[10000];
    int count = 0;
    struct address home = address_nth(1);
    assert_true(enter(logins, "ann", &home, 1000));
    for (uint64_t now = 2000; now < 30 * MINUTE; now += 1 + dice_below(&dice, 200)) {
        struct address from = address_nth(dice_below(&dice, 1000)); /* home is among them */
        if (guess(logins, "ann", &from, now)) times[count++] = now;
    }
    int most = busiest_minute(times, count);
    if (most > LOGIN_TRIES_MAX) fail_msg("%d tries in a minute", most);
    assert_true(count > 100); /* the test did guess */
    logins_close(logins);
}

static void one_guesser_does_not_lock_the_owner_out_elsewhere(void **state)
{
    (void)state;
    struct logins *logins = logins_made(1024);
    struct address guesser = address_of("203.0.113.5"), owner = address_of("192.0.2.7");
    for (uint64_t now = 0; now < 30 * MINUTE; now += 50) {
        guess(logins, "ann", &guesser, now);
        if (now % 10000 == 0) assert_true(enter(logins, "ann", &owner, now));
    }
    logins_close(logins);
}

/* Many guessers use up the account's tries; the owner gets in from where she was before, and from elsewhere once they stop.
 */
static void many_guessers_do_not_lock_the_owner_out_for_long(void **state)
{
    (void)state;
    struct logins *logins = logins_made(65536);
    struct address home = address_of("192.0.2.7"), away = address_of("192.0.2.8");
    assert_true(enter(logins, "ann", &home, 0));
    uint64_t now = 1000;
    for (uint32_t i = 0; now < 5 * MINUTE; now += 20, i++) {
        struct address from = address_nth(i);
        guess(logins, "ann", &from, now);
        if (now == 50000) assert_false(enter(logins, "ann", &away, now)); /* the guessers do use up all others may have */
        if (now % 10000 == 0) assert_true(enter(logins, "ann", &home, now));
    }
    /* Two slips at home are also still allowed. */
    assert_true(guess(logins, "ann", &home, now));
    assert_true(enter(logins, "ann", &home, now));
    assert_true(enter(logins, "ann", &away, now + MINUTE));
    logins_close(logins);
}

static void success_ends_the_wait_of_this_pair_only(void **state)
{
    (void)state;
    struct logins *logins = logins_made(1024);
    struct address here = address_of("192.0.2.7"), there = address_of("192.0.2.8");
    for (int i = 0; i < 3; i++) {
        assert_true(guess(logins, "ann", &here, 0));
        assert_true(guess(logins, "ann", &there, 0));
        assert_true(guess(logins, "bob", &here, 0));
    }
    assert_true(enter(logins, "ann", &here, 2000));
    assert_true(guess(logins, "ann", &here, 2000));
    assert_true(guess(logins, "ann", &here, 2000));
    assert_true(guess(logins, "bob", &here, 2000)); /* the fourth, after 2 s */
    assert_false(guess(logins, "bob", &here, 5999));
    logins_close(logins);
}

static void logging_in_often_is_not_guessing(void **state)
{
    (void)state;
    struct logins *logins = logins_made(1024);
    struct address here = address_of("192.0.2.7");
    for (uint64_t now = 0; now < 2000; now++) assert_true(enter(logins, "robot", &here, now));
    logins_close(logins);
}

static void quiet_is_forgiven(void **state)
{
    (void)state;
    struct logins *logins = logins_made(1024);
    struct address here = address_of("192.0.2.7");
    uint64_t now = 0;
    for (int i = 0; i < 9; i++) {
        while (!guess(logins, "ann", &here, now)) now += 1000;
    }
    assert_false(guess(logins, "ann", &here, now + 100000));
    uint64_t later = now + LOGIN_PAIR_QUIET_MS;
    for (int i = 0; i < LOGIN_PAIR_TRIES; i++) assert_true(guess(logins, "ann", &here, later));
    assert_false(guess(logins, "ann", &here, later));
    logins_close(logins);
}

static void a_try_we_were_too_busy_for_never_was(void **state)
{
    (void)state;
    struct logins *logins = logins_made(1024);
    struct address here = address_of("192.0.2.7");
    uint64_t retry_ms;
    for (uint64_t now = 0; now < 1000; now++) {
        assert_true(logins_may_try(logins, SLICE("ann"), &here, now, &retry_ms));
        logins_untried(logins, SLICE("ann"), &here, now);
    }
    for (int i = 0; i < LOGIN_PAIR_TRIES; i++) assert_true(guess(logins, "ann", &here, 1000));
    assert_false(guess(logins, "ann", &here, 1000));
    logins_close(logins);
}

/* One address that guesses at ever new accounts. */
static void spraying_from_one_address_is_slowed_down(void **state)
{
    (void)state;
    struct logins *logins = logins_made(4096);
    struct address sprayer = address_of("203.0.113.5"), office = address_of("192.0.2.7");
    assert_true(enter(logins, "insider", &sprayer, 0));
    int tries = 0;
    uint32_t n = 0;
    for (uint64_t now = 0; now < 10 * MINUTE; now += 20) {
        char name[32];
        snprintf(name, sizeof(name), "victim%u", n);
        if (guess(logins, name, &sprayer, now)) {
            tries++;
            n++;
        }
        /* Others are not slowed down, and neither is who has logged in from there before. */
        if (now % 10000 == 0) {
            assert_true(enter(logins, "clerk", &office, now));
            assert_true(enter(logins, "insider", &sprayer, now));
        }
    }
    /* One is forgiven every two seconds: 300 in ten minutes, and those it began with. */
    assert_true(tries > LOGIN_ADDRESS_FAILURES);
    if (tries > 300 + LOGIN_ADDRESS_FAILURES + 8 * LOGIN_ADDRESS_DOUBLES) fail_msg("%d tries", tries);
    /* Quiet is forgiven within minutes, however long it went on. */
    assert_true(guess(logins, "somebody", &sprayer, 13 * MINUTE));
    assert_true(guess(logins, "somebody", &sprayer, 13 * MINUTE));
    logins_close(logins);
}

static void an_office_of_slips_is_not_slowed_down(void **state)
{
    (void)state;
    struct logins *logins = logins_made(4096);
    struct address office = address_of("192.0.2.7");
    for (uint32_t i = 0; i < 1000; i++) { /* a thousand people in 100 s, one in twenty slips once */
        char name[32];
        snprintf(name, sizeof(name), "person%u", i);
        if (i % 20 == 0) assert_true(guess(logins, name, &office, i * 100));
        assert_true(enter(logins, name, &office, i * 100));
    }
    logins_close(logins);
}

/* Whether an account exists is never asked, so nothing of it can show: two names with the same history get the same answers.
 */
static void any_two_names_behave_alike(void **state)
{
    (void)state;
    struct logins *logins = logins_made(65536);
    uint64_t dice = dice_seed();
    for (uint64_t now = 0; now < 10 * MINUTE; now += 1 + dice_below(&dice, 3000)) {
        uint32_t n = dice_below(&dice, 3);
        struct address a = address_nth(n), b = address_nth(1000 + n);
        uint64_t retry_a, retry_b;
        bool pass_a = logins_may_try(logins, SLICE("ann"), &a, now, &retry_a);
        bool pass_b = logins_may_try(logins, SLICE("nobody has this name"), &b, now, &retry_b);
        assert_int_equal(pass_a, pass_b);
        assert_int_equal(retry_a, retry_b);
        if (pass_a) logins_failed(logins, SLICE("ann"), &a, now);
        if (pass_b) logins_failed(logins, SLICE("nobody has this name"), &b, now);
    }
    logins_close(logins);
}

/* A million other names, each tried once from an address of its own, in tables of 4,096. */
static void a_flood_of_names_does_not_make_us_forget_a_guesser(void **state)
{
    (void)state;
    struct logins *logins = logins_made(4096);
    struct address guesser = address_of("203.0.113.5");
    uint64_t now = 0;
    int tries = 0;
    for (uint32_t i = 0; i < OTHERS; i++) {
        struct address from = address_nth(i);
        uint64_t retry_ms;
        assert_true(logins_may_try(logins, (struct slice){ (const char *)&i, sizeof(i) }, &from, now, &retry_ms));
        logins_failed(logins, (struct slice){ (const char *)&i, sizeof(i) }, &from, now);
        if (i % (OTHERS / 10000) == 0) tries += guess(logins, "ann", &guesser, now += 5); /* 50 s in all */
    }
    assert_int_equal(tries, 7); /* at 0, 0, 0, 2, 6, 14, 30 s, as without the flood */
    logins_close(logins);
}

/* The same for the tries of an account from everywhere. */
static void a_flood_of_names_does_not_free_the_tries_of_an_account(void **state)
{
    (void)state;
    struct logins *logins = logins_made(4096);
    for (uint32_t i = 0; i < LOGIN_TRIES_MAX - LOGIN_TRIES_KEPT; i++) {
        struct address from = address_nth(i);
        assert_true(guess(logins, "ann", &from, 0));
    }
    for (uint32_t i = 0; i < OTHERS; i++) {
        struct address from = address_nth(1000 + i);
        uint64_t retry_ms;
        assert_true(logins_may_try(logins, (struct slice){ (const char *)&i, sizeof(i) }, &from, 1000, &retry_ms));
    }
    struct address another = address_of("192.0.2.7");
    assert_false(guess(logins, "ann", &another, 1000));
    assert_true(guess(logins, "ann", &another, MINUTE));
    logins_close(logins);
}

static void a_new_address_is_told_when_the_account_has_a_try_for_it(void **state)
{
    (void)state;
    struct logins *logins = logins_made(1024);
    struct address home = address_of("192.0.2.7"), away = address_of("192.0.2.8");
    assert_true(enter(logins, "ann", &home, 0));
    for (uint32_t i = 0; i < 8; i++) {
        struct address from = address_nth(i);
        assert_true(guess(logins, "ann", &from, 1000 * (i + 1)));
    }
    assert_true(guess(logins, "ann", &home, 9000));
    assert_true(guess(logins, "ann", &home, 10000));
    uint64_t retry_ms;
    assert_false(logins_may_try(logins, SLICE("ann"), &home, 11000, &retry_ms));
    assert_int_equal(retry_ms, 1000 + MINUTE - 11000);
    assert_false(logins_may_try(logins, SLICE("ann"), &away, 11000, &retry_ms)); /* three of the ten must be over */
    assert_int_equal(retry_ms, 3000 + MINUTE - 11000);
    logins_close(logins);
}

/* The success that ends gives back its own try, not one that failed after it began. */
static void a_slow_success_does_not_make_room_for_guesses(void **state)
{
    (void)state;
    struct logins *logins = logins_made(1024);
    struct address home = address_of("192.0.2.7");
    uint64_t retry_ms;
    assert_true(logins_may_try(logins, SLICE("ann"), &home, 0, &retry_ms));
    int tries = 0;
    for (uint32_t i = 0; i < 20; i++) {
        struct address from = address_nth(i);
        tries += guess(logins, "ann", &from, 50000);
    }
    assert_int_equal(tries, 7);
    logins_succeeded(logins, SLICE("ann"), &home, 55000);
    for (uint32_t i = 20; i < 40; i++) {
        struct address from = address_nth(i);
        tries += guess(logins, "ann", &from, 61000);
    }
    assert_int_equal(tries, 8);
    logins_close(logins);
}

/* A thousand wrong ones sent before the first was answered: a wait of 30 s, and minutes later it is as if they never were.
 */
static void a_burst_of_failures_is_forgiven_within_minutes(void **state)
{
    (void)state;
    struct logins *logins = logins_made(4096);
    struct address here = address_of("192.0.2.7");
    uint64_t retry_ms;
    for (uint32_t i = 0; i < 1000; i++)
        assert_true(logins_may_try(logins, (struct slice){ (const char *)&i, sizeof(i) }, &here, 0, &retry_ms));
    for (uint32_t i = 0; i < 1000; i++) logins_failed(logins, (struct slice){ (const char *)&i, sizeof(i) }, &here, 1000);
    assert_false(logins_may_try(logins, SLICE("ann"), &here, 1000, &retry_ms));
    assert_int_equal(retry_ms, LOGIN_ADDRESS_WAIT_MS_MAX);
    assert_true(guess(logins, "ann", &here, 1000 + LOGIN_ADDRESS_WAIT_MS_MAX));
    for (int i = 0; i < 10; i++) {
        char name[16];
        snprintf(name, sizeof(name), "person%d", i);
        assert_true(guess(logins, name, &here, 5 * MINUTE));
    }
    logins_close(logins);
}

struct crowd {
    struct logins *logins;
    _Atomic uint32_t turn;
    _Atomic int looked_at;
};

static void *crowd_guess(void *arg)
{
    struct crowd *crowd = arg;
    for (int i = 0; i < 1500; i++) {
        uint32_t turn = atomic_fetch_add(&crowd->turn, 1);
        struct address from = address_nth(turn % 3000);
        if (guess(crowd->logins, "ann", &from, 1000)) atomic_fetch_add(&crowd->looked_at, 1);
        enter(crowd->logins, "bob", &from, 1000);
    }
    return NULL;
}

static void threads_together_have_the_tries_once(void **state)
{
    (void)state;
    struct crowd crowd = { .logins = logins_made(4096) };
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, crowd_guess, &crowd), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&crowd.looked_at), LOGIN_TRIES_MAX - LOGIN_TRIES_KEPT);
    logins_close(crowd.logins);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_guesser_waits_longer_and_longer),
        cmocka_unit_test(retry_ms_is_true),
        cmocka_unit_test(tries_sent_at_once_count_before_they_fail),
        cmocka_unit_test(an_account_never_sees_more_than_ten_tries_a_minute),
        cmocka_unit_test(one_guesser_does_not_lock_the_owner_out_elsewhere),
        cmocka_unit_test(many_guessers_do_not_lock_the_owner_out_for_long),
        cmocka_unit_test(success_ends_the_wait_of_this_pair_only),
        cmocka_unit_test(logging_in_often_is_not_guessing),
        cmocka_unit_test(quiet_is_forgiven),
        cmocka_unit_test(a_try_we_were_too_busy_for_never_was),
        cmocka_unit_test(spraying_from_one_address_is_slowed_down),
        cmocka_unit_test(an_office_of_slips_is_not_slowed_down),
        cmocka_unit_test(any_two_names_behave_alike),
        cmocka_unit_test(a_flood_of_names_does_not_make_us_forget_a_guesser),
        cmocka_unit_test(a_flood_of_names_does_not_free_the_tries_of_an_account),
        cmocka_unit_test(a_new_address_is_told_when_the_account_has_a_try_for_it),
        cmocka_unit_test(a_slow_success_does_not_make_room_for_guesses),
        cmocka_unit_test(a_burst_of_failures_is_forgiven_within_minutes),
        cmocka_unit_test(threads_together_have_the_tries_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
