/* Who was refused is refused again for as long as it is true, and not a moment longer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "guard/recall.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)

static struct recall recall;

static struct allowance_ask ask_at(uint64_t now_ns, enum rate_class class, const char *user)
{
    return (struct allowance_ask){ .class = class, .user = slice_of(user), .now_ns = now_ns };
}

/* ann, refused for another 500 ms at second 10, under limits of version 3. */
static void refuse_ann(void)
{
    const struct allowance_answer answer = { .limited = true,
                                             .limit = { .interval_ns = SECOND, .burst = 4 },
                                             .rate = { .retry_ms = 500, .reset_ms = 3500 } };
    struct allowance_ask ask = ask_at(10 * SECOND, RATE_GRAB, "ann");
    recall_init(&recall);
    recall_put(&recall, SLICE("Bearer of-ann"), 3, &ask, &answer);
}

static void the_same_login_is_refused_until_the_wait_is_over(void **state)
{
    (void)state;
    static const struct {
        const char *login;
        uint64_t version, at_ns;
        enum rate_class class;
        uint64_t retry_ms; /* 0: not known */
    } script[] = {
        { "Bearer of-ann", 3, 10 * SECOND, RATE_GRAB, 500 },
        { "Bearer of-ann", 3, 10 * SECOND + 100 * MS, RATE_GRAB, 400 },
        { "Bearer of-ann", 3, 10 * SECOND + 498 * MS, RATE_GRAB, 2 },
        { "Bearer of-ann", 3, 10 * SECOND + 499 * MS, RATE_GRAB, 0 },
        { "Bearer of-ann", 3, 20 * SECOND, RATE_GRAB, 0 },
        { "Bearer of-ann", 4, 10 * SECOND, RATE_GRAB, 0 },
        { "Bearer of-ann", 3, 10 * SECOND, RATE_QUERY, 0 },
        { "Bearer of-bob", 3, 10 * SECOND, RATE_GRAB, 0 },
        { "Bearer of-an", 3, 10 * SECOND, RATE_GRAB, 0 },
        { "", 3, 10 * SECOND, RATE_GRAB, 0 },
    };
    refuse_ann();
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++) {
        struct allowance_ask ask = ask_at(script[i].at_ns, script[i].class, "");
        struct allowance_answer answer = { .limited = false };
        bool found = recall_find(&recall, slice_of(script[i].login), script[i].version, &ask, &answer);
        if (found != (script[i].retry_ms > 0)) fail_msg("row %zu", i);
        if (!found) continue;
        assert_true(slice_is(ask.user, "ann"));
        assert_true(answer.limited && !answer.rate.pass);
        assert_int_equal(answer.rate.retry_ms, script[i].retry_ms);
        assert_int_equal(answer.rate.remaining, 0);
        assert_int_equal(answer.rate.reset_ms, script[i].retry_ms + 3000);
        assert_int_equal(answer.limit.burst, 4);
    }
}

/* Against the buckets themselves: whatever is recalled, they would refuse too. */
static void nobody_is_refused_who_would_pass(void **state)
{
    (void)state;
    struct limit_terms terms;
    struct allowance *allowance;
    limit_terms_default(&terms);
    terms.rates[RATE_USER][RATE_GRAB] = (struct rate_terms){ 7, 3 };
    assert_int_equal(allowance_open(&allowance, 64, &terms), FAULT_NONE);
    recall_init(&recall);
    int recalled = 0, passed = 0;
    for (uint64_t at_ns = 10 * SECOND; at_ns < 20 * SECOND; at_ns += 333333) {
        struct allowance_answer answer, again;
        struct allowance_ask ask = ask_at(at_ns, RATE_GRAB, "ann");
        uint64_t version = allowance_version(allowance);
        struct allowance_ask known = ask_at(at_ns, RATE_GRAB, "");
        bool refused = recall_find(&recall, SLICE("login"), version, &known, &again);
        bool passes = allowance_take(allowance, RATE_USER, &ask, &answer);
        recalled += refused;
        passed += passes;
        if (refused) assert_false(passes);
        if (refused) assert_in_range(again.rate.retry_ms, answer.rate.retry_ms, answer.rate.retry_ms + 1);
        if (!refused && !passes) recall_put(&recall, SLICE("login"), version, &ask, &answer);
    }
    assert_in_range(passed, 72, 74); /* a burst of 3 and then 7 a second */
    assert_true(recalled > 25000);
    uint64_t version = allowance_version(allowance);
    allowance_change(allowance, &terms);
    assert_int_not_equal(allowance_version(allowance), version);
    allowance_close(allowance);
}

static void a_crowd_of_the_refused_is_told_apart(void **state)
{
    (void)state;
    refuse_ann();
    for (int i = 0; i < 10000; i++) {
        char login[32];
        snprintf(login, sizeof(login), "Bearer %d", i);
        struct allowance_ask ask = ask_at(10 * SECOND, RATE_GRAB, "crowd");
        struct allowance_answer answer;
        assert_false(recall_find(&recall, slice_of(login), 3, &ask, &answer));
        answer = (struct allowance_answer){ .limited = true, .rate = { .retry_ms = 900, .reset_ms = 900 } };
        recall_put(&recall, slice_of(login), 3, &ask, &answer);
        assert_true(recall_find(&recall, slice_of(login), 3, &ask, &answer));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_login_is_refused_until_the_wait_is_over),
        cmocka_unit_test(nobody_is_refused_who_would_pass),
        cmocka_unit_test(a_crowd_of_the_refused_is_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
