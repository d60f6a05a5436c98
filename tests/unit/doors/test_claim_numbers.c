/* Numbers of those who lost: above all winners, never twice, each sale its own, also when many ask at once. */
#include "doors/claim_numbers.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void numbers_go_on_above_the_winners(void **state)
{
    (void)state;
    static struct claim_numbers numbers;
    static const struct {
        uint64_t sale_id, winners_max, want;
    } script[] = {
        { 7, 10, 11 },
        { 7, 10, 12 },
        { 8, 3, 4 },                                  /* another sale */
        { 7, 20, 21 },                                /* stock was added */
        { 7, 10, 22 },                                /* and withdrawn: none is given twice */
        { 7, 0, 23 },                                 /* it is over and forgotten, but not its number */
        { 9, 0, 0 },                                  /* it is over, and nobody had lost */
        { 7 + SALES_OPEN_MAX, 1, 2 },                 /* the slot changes hands */
        { 7, 0, 0 },                                  /* and the one before has no number any more */
        { UINT64_C(1000000) * SALES_OPEN_MAX, 5, 6 }, /* a large id */
        { UINT64_C(1000000) * SALES_OPEN_MAX, 5, 7 },
    };
    for (size_t i = 0; i < sizeof script / sizeof *script; i++)
        assert_int_equal(claim_numbers_next(&numbers, script[i].sale_id, script[i].winners_max), script[i].want);
}

#define EACH 100000
#define THREADS 4
static struct claim_numbers shared;
static _Atomic unsigned char given[THREADS * EACH + 1];

static void *asker(void *arg)
{
    (void)arg;
    for (int i = 0; i < EACH; i++) atomic_fetch_add(&given[claim_numbers_next(&shared, 5, 1) - 1], 1);
    return NULL;
}

static void a_crowd_gets_every_number_once(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, asker, NULL), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 1; i <= THREADS * EACH; i++) assert_int_equal(given[i], 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_go_on_above_the_winners),
        cmocka_unit_test(a_crowd_gets_every_number_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
