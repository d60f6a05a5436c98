/* The queues of a crew beside each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/base/errands.h"

/* A flood in one queue, and three in the other: each of the three waits for one of the flood more than it did alone. */
static void queues_take_turns_and_are_full_each_for_itself(void **state)
{
    (void)state;
    enum { FLOOD = 50, OTHERS = 3 };
    struct desk desk;
    desk_open(&desk);
    struct crew *crew;
    const struct crew_options options = { .name = "test", .threads = 1, .queue_max = FLOOD, .wait_ms_max = 60000 };
    assert_int_equal(crew_open(&crew, &options), FAULT_NONE);
    sem_t begun, may_end;
    sem_init(&begun, 0, 0);
    sem_init(&may_end, 0, 0);
    struct errand first, one_more, flood[FLOOD], others[OTHERS];
    errand_init(&first, &desk, 1000);
    errand_init(&one_more, &desk, 1001);
    first.begun = &begun;
    first.may_end = &may_end;
    first.job.queue = one_more.job.queue = 1;
    done_count = 0;
    assert_true(crew_ask(crew, &first.job));
    sem_wait(&begun);

    for (uint32_t i = 0; i < FLOOD; i++) {
        errand_init(&flood[i], &desk, 100 + i);
        flood[i].job.queue = 1;
        assert_true(crew_ask(crew, &flood[i].job));
    }
    assert_false(crew_ask(crew, &one_more.job));
    for (uint32_t i = 0; i < OTHERS; i++) {
        errand_init(&others[i], &desk, i);
        assert_true(crew_ask(crew, &others[i].job));
    }
    sem_post(&may_end);
    desk_wait(&desk, 1 + FLOOD + OTHERS);
    static const uint32_t want[] = { 1000, 0, 100, 1, 101, 2, 102, 103 };
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) assert_int_equal(done_order[i], want[i]);
    assert_int_equal(one_more.worked, 0);

    crew_close(crew);
    desk_close(&desk);
    sem_destroy(&begun);
    sem_destroy(&may_end);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(queues_take_turns_and_are_full_each_for_itself) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
