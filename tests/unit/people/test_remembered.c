/* What a thread remembers of tokens: the right one, only while its keys count, in fixed memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "people/remembered.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t hash_keys[2][16] = { "first hash key ", "second hash key" };

static struct slice token_of(uint64_t number)
{
    static char text[64];
    int len = snprintf(text, sizeof(text), "header.payload-%llu.signature", (unsigned long long)number);
    return (struct slice){ text, (size_t)len };
}

static void put(struct remembered *remembered, uint64_t number, uint64_t version, uint64_t expires_ms)
{
    struct remembered_token fresh = { .version = version, .token_id = number + 1, .expires_ms = expires_ms };
    remembered_put(remembered, token_of(number), &fresh, 1000);
}

static bool knows(struct remembered *remembered, uint64_t number, uint64_t version)
{
    const struct remembered_token *known = remembered_find(remembered, token_of(number), version);
    if (known != NULL) assert_true(known->token_id == number + 1);
    return known != NULL;
}

static void a_token_is_known_under_its_keys_only(void **state)
{
    struct remembered *remembered = *state;
    assert_false(knows(remembered, 1, 0)); /* an empty place is no token */
    assert_false(knows(remembered, 1, 1));
    put(remembered, 1, 1, 5000);
    assert_true(knows(remembered, 1, 1));
    assert_false(knows(remembered, 1, 2));
    assert_false(knows(remembered, 2, 1));
    put(remembered, 1, 2, 5000);
    assert_true(knows(remembered, 1, 2));
    assert_false(knows(remembered, 1, 1));
}

static void a_crowd_of_tokens_stays_within_the_memory_and_none_is_taken_for_another(void **state)
{
    struct remembered *remembered = *state;
    size_t known = 0;
    for (uint64_t i = 0; i < 4 * REMEMBERED_MAX; i++) put(remembered, i, 1, 5000);
    for (uint64_t i = 0; i < 4 * REMEMBERED_MAX; i++) known += knows(remembered, i, 1);
    assert_true(known <= REMEMBERED_MAX && known > REMEMBERED_MAX * 3 / 4);
    assert_true(knows(remembered, 4 * REMEMBERED_MAX - 1, 1));
}

static void one_that_is_used_outlives_those_that_are_not(void **state)
{
    struct remembered *remembered = *state;
    put(remembered, 0, 1, 5000);
    for (uint64_t i = 1; i < 4 * REMEMBERED_MAX; i++) {
        put(remembered, i, 1, 5000);
        if (i % 64 == 0) assert_true(knows(remembered, 0, 1));
    }
}

static void what_no_longer_counts_gives_way_first(void **state)
{
    struct remembered *remembered = *state;
    /* Half as many good ones as there is room, and then as much as there is room of what has expired or is of older keys:
     * what is good pushes those out, and they push out nothing that is good but by the crowd in one set. */
    for (uint64_t i = 0; i < REMEMBERED_MAX; i++) put(remembered, i, 1, i % 2 == 0 ? 5000 : 900);
    for (uint64_t i = REMEMBERED_MAX; i < REMEMBERED_MAX * 5 / 4; i++) put(remembered, i, 2, 5000);
    size_t known = 0;
    for (uint64_t i = REMEMBERED_MAX; i < REMEMBERED_MAX * 5 / 4; i++) known += knows(remembered, i, 2);
    assert_true(known > REMEMBERED_MAX / 4 * 99 / 100);
}

static int setup(void **state)
{
    struct remembered *remembered;
    if (remembered_open(&remembered, hash_keys) != FAULT_NONE) return -1;
    *state = remembered;
    return 0;
}

static int teardown(void **state)
{
    remembered_close(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_token_is_known_under_its_keys_only, setup, teardown),
        cmocka_unit_test_setup_teardown(a_crowd_of_tokens_stays_within_the_memory_and_none_is_taken_for_another, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(one_that_is_used_outlives_those_that_are_not, setup, teardown),
        cmocka_unit_test_setup_teardown(what_no_longer_counts_gives_way_first, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
