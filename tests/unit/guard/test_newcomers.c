/* Many guess at one account from everywhere; its owner comes from an address that was never used before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/guard/guesses.h"

/* A hundred guessers who never stop and are always faster: once each has had a try, an owner at a new address gets in when
 * she is told to, and the account has had no more tries than it may. */
static void guessers_who_had_their_try_stand_back_for_a_newcomer(void **state)
{
    (void)state;
    struct logins *logins = logins_made(65536);
    static uint64_t times[10000];
    int count = 0, entered = 0;
    uint64_t owner_ms = 20 * MINUTE, retry_ms;
    for (uint64_t now = 0; now < 60 * MINUTE; now += 100) {
        for (uint32_t i = 0; i < 100; i++) {
            struct address from = address_nth(i);
            if (guess(logins, "ann", &from, now)) times[count++] = now;
        }
        if (now < owner_ms) continue;
        /* Every ten minutes, from an address that is new each time. */
        struct address away = address_nth(1000 + (uint32_t)(now / (10 * MINUTE)));
        if (logins_may_try(logins, SLICE("ann"), &away, now, &retry_ms)) {
            logins_succeeded(logins, SLICE("ann"), &away, now);
            if (now % (10 * MINUTE) > MINUTE + 100) fail_msg("let in after %u ms", (unsigned)(now % (10 * MINUTE)));
            entered++;
            owner_ms = (now / (10 * MINUTE) + 1) * 10 * MINUTE;
        } else {
            owner_ms = now + retry_ms;
        }
    }
    assert_int_equal(entered, 4);
    assert_true(count > 200); /* the guessers were at it all the time */
    assert_true(busiest_minute(times, count) <= LOGIN_TRIES_MAX - LOGIN_TRIES_KEPT);
    logins_close(logins);
}

/* Standing back is for who has failed here: those who knew the password, and other accounts, do not notice. */
static void standing_back_is_for_guessers_of_this_account_only(void **state)
{
    (void)state;
    struct logins *logins = logins_made(65536);
    struct address home = address_of("192.0.2.7"), away = address_of("192.0.2.8"), guesser = address_nth(0);
    uint64_t retry_ms;
    assert_true(enter(logins, "ann", &home, 0));
    for (uint32_t i = 0; i < 8; i++) {
        struct address from = address_nth(i);
        assert_true(guess(logins, "ann", &from, 1000));
    }
    assert_false(logins_may_try(logins, SLICE("ann"), &away, 2000, &retry_ms));
    assert_int_equal(retry_ms, 1000 + MINUTE - 2000);
    uint64_t later = 2000 + retry_ms;
    assert_false(logins_may_try(logins, SLICE("ann"), &guesser, later, &retry_ms));
    assert_int_equal(retry_ms, 2000 + LOGIN_NEWCOMER_MS - later);
    assert_true(enter(logins, "ann", &home, later));
    assert_true(guess(logins, "bob", &guesser, later));
    assert_true(enter(logins, "ann", &away, later));
    assert_true(guess(logins, "ann", &guesser, 2000 + LOGIN_NEWCOMER_MS)); /* it ends */
    /* Who fails is no newcomer for the day, however quiet. */
    struct address another = address_nth(1);
    later = 20 * MINUTE;
    for (uint32_t i = 100; i < 108; i++) {
        struct address from = address_nth(i);
        assert_true(guess(logins, "ann", &from, later));
    }
    assert_false(guess(logins, "ann", &another, later)); /* it asks for nothing */
    assert_true(guess(logins, "ann", &another, later + MINUTE));
    logins_close(logins);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(guessers_who_had_their_try_stand_back_for_a_newcomer),
        cmocka_unit_test(standing_back_is_for_guessers_of_this_account_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
