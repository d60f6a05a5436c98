/* The set may hold too much, never too little: what is in it waits, and must not be overtaken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "publisher/streams.h"

#include <stdlib.h>

#define ORDERS 1000000

static struct notice notice_of(uint64_t order_no, uint64_t sale_id)
{
    return (struct notice){ .order_no = order_no, .sale_id = sale_id };
}

static void what_was_added_is_there_and_most_else_is_not(void **state)
{
    (void)state;
    struct streams *streams = calloc(1, sizeof *streams);
    assert_non_null(streams);
    streams_clear(streams);
    for (uint64_t i = 1; i <= ORDERS; i++) {
        struct notice added = notice_of(i, 7);
        (void)streams_add(streams, &added);
        assert_false(streams_add(streams, &added));
    }
    uint64_t wrong = 0;
    for (uint64_t i = 1; i <= ORDERS; i++) {
        struct notice added = notice_of(i, 8), other = notice_of(0, i);
        assert_true(streams_has(streams, &added)); /* an order is the same whatever its sale */
        wrong += streams_has(streams, &other);
    }
    assert_in_range(wrong, 0, ORDERS / 5);
    streams_clear(streams);
    struct notice added = notice_of(1, 7);
    assert_false(streams_has(streams, &added));
    free(streams);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(what_was_added_is_there_and_most_else_is_not) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
