#include "base/crew.h"

#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/base/errands.h"

static void jobs_are_done_once_each_on_the_thread_of_the_mailbox(void **state)
{
    (void)state;
    enum { JOBS = 20000 };
    struct desk desk;
    desk_open(&desk);
    struct crew *crew;
    const struct crew_options options = { .name = "test", .threads = 3, .queue_max = 100, .wait_ms_max = 60000 };
    assert_int_equal(crew_open(&crew, &options), FAULT_NONE);

    struct errand *errands = calloc(JOBS, sizeof *errands);
    assert_non_null(errands);
    done_count = 0;
    for (uint32_t i = 0; i < JOBS; i++) {
        errand_init(&errands[i], &desk, i);
        while (!crew_ask(crew, &errands[i].job)) crew_mailbox_deliver(desk.mailbox);
    }
    desk_wait(&desk, JOBS);
    for (uint32_t i = 0; i < JOBS; i++) {
        assert_int_equal(errands[i].worked, 1);
        assert_true(errands[i].done);
        assert_false(errands[i].job.late);
        assert_true(pthread_equal(errands[i].done_on, pthread_self()));
    }
    crew_close(crew);
    desk_close(&desk);
    free(errands);
}

static void one_worker_works_in_the_order_of_asking(void **state)
{
    (void)state;
    enum { JOBS = 1000 };
    struct desk desk;
    desk_open(&desk);
    struct crew *crew;
    const struct crew_options options = { .name = "test", .threads = 1, .queue_max = JOBS, .wait_ms_max = 60000 };
    assert_int_equal(crew_open(&crew, &options), FAULT_NONE);
    static struct errand errands[JOBS];
    done_count = 0;
    for (uint32_t i = 0; i < JOBS; i++) {
        errand_init(&errands[i], &desk, i);
        assert_true(crew_ask(crew, &errands[i].job));
    }
    desk_wait(&desk, JOBS);
    for (uint32_t i = 0; i < JOBS; i++) assert_int_equal(done_order[i], i);
    crew_close(crew);
    desk_close(&desk);
}

static void a_full_queue_refuses_and_takes_again_when_it_drains(void **state)
{
    (void)state;
    struct desk desk;
    desk_open(&desk);
    struct crew *crew;
    const struct crew_options options = { .name = "test", .threads = 1, .queue_max = 3, .wait_ms_max = 60000 };
    assert_int_equal(crew_open(&crew, &options), FAULT_NONE);
    sem_t begun, may_end;
    sem_init(&begun, 0, 0);
    sem_init(&may_end, 0, 0);
    struct errand errands[6];
    for (uint32_t i = 0; i < 6; i++) errand_init(&errands[i], &desk, i);
    errands[0].begun = &begun;
    errands[0].may_end = &may_end;
    done_count = 0;

    assert_true(crew_ask(crew, &errands[0].job));
    sem_wait(&begun);
    for (uint32_t i = 1; i <= 3; i++) assert_true(crew_ask(crew, &errands[i].job));
    assert_false(crew_ask(crew, &errands[4].job));
    assert_false(crew_ask(crew, &errands[4].job));
    sem_post(&may_end);
    desk_wait(&desk, 4);
    assert_int_equal(errands[4].worked, 0);
    assert_false(errands[4].done);
    assert_true(crew_ask(crew, &errands[5].job));
    desk_wait(&desk, 5);
    assert_int_equal(done_order[4], 5);

    crew_close(crew);
    desk_close(&desk);
    sem_destroy(&begun);
    sem_destroy(&may_end);
}

/* Who must not come late does not on a machine that has other things to do, either. */
#define LATE_MS 2000

static void part_work(struct crew_job *job, void *tools)
{
    errand_work(job, tools);
    job->again = ((struct errand *)job)->worked < 3;
}

/* Its second part waits for longer than a job may, in a queue that is full, behind one that came after it. */
static void a_long_job_lets_others_pass_between_its_parts(void **state)
{
    (void)state;
    struct desk desk;
    desk_open(&desk);
    struct crew *crew;
    const struct crew_options options = { .name = "test", .threads = 1, .queue_max = 1, .wait_ms_max = LATE_MS };
    assert_int_equal(crew_open(&crew, &options), FAULT_NONE);
    sem_t begun, may_end;
    sem_init(&begun, 0, 0);
    sem_init(&may_end, 0, 0);
    struct errand errands[2];
    for (uint32_t i = 0; i < 2; i++) {
        errand_init(&errands[i], &desk, i);
        errands[i].begun = &begun;
        errands[i].may_end = &may_end;
    }
    errands[0].job.work = part_work;
    done_count = 0;

    assert_true(crew_ask(crew, &errands[0].job));
    sem_wait(&begun);
    assert_true(crew_ask(crew, &errands[1].job));
    sem_post(&may_end);
    sem_wait(&begun);
    assert_int_equal(errands[1].worked, 1);
    assert_int_equal(errands[0].worked, 1);
    pause_ms(LATE_MS + 100);
    for (int i = 0; i < 3; i++) sem_post(&may_end);
    desk_wait(&desk, 2);
    assert_int_equal(done_order[0], 1);
    assert_int_equal(errands[0].worked, 3);
    assert_false(errands[0].job.late);

    crew_close(crew);
    desk_close(&desk);
    sem_destroy(&begun);
    sem_destroy(&may_end);
}

static void a_long_job_is_delivered_late_when_the_crew_stops_between_its_parts(void **state)
{
    (void)state;
    struct desk desk;
    desk_open(&desk);
    struct crew *crew;
    const struct crew_options options = { .name = "test", .threads = 1, .queue_max = 1, .wait_ms_max = 60000 };
    assert_int_equal(crew_open(&crew, &options), FAULT_NONE);
    sem_t begun, may_end;
    sem_init(&begun, 0, 0);
    sem_init(&may_end, 0, 0);
    struct errand errand;
    errand_init(&errand, &desk, 0);
    errand.job.work = part_work;
    errand.begun = &begun;
    errand.may_end = &may_end;
    done_count = 0;

    assert_true(crew_ask(crew, &errand.job));
    sem_wait(&begun);
    crew_stop(crew);
    sem_post(&may_end);
    desk_wait(&desk, 1);
    assert_true(errand.job.late);
    assert_int_equal(errand.worked, 1);

    crew_close(crew);
    desk_close(&desk);
    sem_destroy(&begun);
    sem_destroy(&may_end);
}

static void a_job_that_waited_too_long_comes_back_without_work(void **state)
{
    (void)state;
    struct desk desk;
    desk_open(&desk);
    struct crew *crew;
    const struct crew_options options = { .name = "test", .threads = 1, .queue_max = 10, .wait_ms_max = LATE_MS };
    assert_int_equal(crew_open(&crew, &options), FAULT_NONE);
    sem_t begun, may_end;
    sem_init(&begun, 0, 0);
    sem_init(&may_end, 0, 0);
    struct errand errands[4];
    for (uint32_t i = 0; i < 4; i++) errand_init(&errands[i], &desk, i);
    errands[0].begun = &begun;
    errands[0].may_end = &may_end;
    done_count = 0;

    /* The first one works for long, which is no lateness; those behind it are late. */
    assert_true(crew_ask(crew, &errands[0].job));
    sem_wait(&begun);
    assert_true(crew_ask(crew, &errands[1].job));
    assert_true(crew_ask(crew, &errands[2].job));
    pause_ms(LATE_MS + 100);
    sem_post(&may_end);
    desk_wait(&desk, 3);
    assert_false(errands[0].job.late);
    for (uint32_t i = 1; i <= 2; i++) {
        assert_true(errands[i].job.late);
        assert_int_equal(errands[i].worked, 0);
        assert_true(errands[i].done);
    }

    /* A job that was late once can be asked again. */
    errands[1].done = false;
    assert_true(crew_ask(crew, &errands[1].job));
    desk_wait(&desk, 4);
    assert_int_equal(errands[1].worked, 1);
    assert_false(errands[1].job.late);

    crew_close(crew);
    desk_close(&desk);
    sem_destroy(&begun);
    sem_destroy(&may_end);
}

static void *closer_run(void *arg)
{
    crew_close(arg);
    return NULL;
}

static void closing_ends_the_running_job_and_gives_the_queued_back_late(void **state)
{
    (void)state;
    enum { JOBS = 2000 };
    struct desk desk;
    desk_open(&desk);
    struct crew *crew;
    const struct crew_options options = { .name = "test", .threads = 1, .queue_max = JOBS + 1, .wait_ms_max = 60000 };
    assert_int_equal(crew_open(&crew, &options), FAULT_NONE);
    sem_t begun, may_end;
    sem_init(&begun, 0, 0);
    sem_init(&may_end, 0, 0);
    static struct errand errands[JOBS];
    for (uint32_t i = 0; i < JOBS; i++) errand_init(&errands[i], &desk, i);
    errands[0].begun = &begun;
    errands[0].may_end = &may_end;
    done_count = 0;
    assert_true(crew_ask(crew, &errands[0].job));
    sem_wait(&begun);

    /* The queue cannot be full, so a refusal shows that closing has begun; the running job holds it up until then. */
    pthread_t closer;
    assert_true(crew_ask(crew, &errands[1].job));
    assert_int_equal(pthread_create(&closer, NULL, closer_run, crew), 0);
    uint32_t asked = 2;
    while (asked < JOBS && crew_ask(crew, &errands[asked].job)) {
        asked++;
        pause_ms(20);
    }
    assert_true(asked < JOBS);
    sem_post(&may_end);
    assert_int_equal(pthread_join(closer, NULL), 0);

    desk_wait(&desk, asked);
    assert_false(errands[0].job.late);
    assert_int_equal(errands[0].worked, 1);
    for (uint32_t i = 1; i < asked; i++) {
        assert_true(errands[i].done);
        assert_true(errands[i].job.late);
        assert_int_equal(errands[i].worked, 0);
    }
    desk_close(&desk);
    sem_destroy(&begun);
    sem_destroy(&may_end);
}

/* While the mailbox is not read, more mail does not ring again; once it was read, it does. */
static void wake_rings_once_until_the_mail_is_taken(void **state)
{
    (void)state;
    enum { JOBS = 50 };
    struct desk desk;
    desk_open(&desk);
    struct crew *crew;
    const struct crew_options options = { .name = "test", .threads = 2, .queue_max = JOBS, .wait_ms_max = 60000 };
    static struct errand errands[JOBS];
    done_count = 0;
    for (int round = 1; round <= 3; round++) {
        assert_int_equal(crew_open(&crew, &options), FAULT_NONE);
        for (uint32_t i = 0; i < JOBS; i++) {
            errand_init(&errands[i], &desk, i);
            assert_true(crew_ask(crew, &errands[i].job));
        }
        /* After this every job is in the mailbox. */
        crew_close(crew);
        assert_int_equal(atomic_load(&desk.wakes), round);
        crew_mailbox_deliver(desk.mailbox);
        assert_int_equal(done_count, round * JOBS);
        crew_mailbox_deliver(desk.mailbox);
        assert_int_equal(done_count, round * JOBS);
    }
    desk_close(&desk);
}

static void two_mailboxes_get_their_own_answers(void **state)
{
    (void)state;
    struct desk desks[2];
    struct errand errands[40];
    struct crew *crew;
    const struct crew_options options = { .name = "test", .threads = 2, .queue_max = 40, .wait_ms_max = 60000 };
    desk_open(&desks[0]);
    desk_open(&desks[1]);
    assert_int_equal(crew_open(&crew, &options), FAULT_NONE);
    for (uint32_t i = 0; i < 40; i++) {
        errand_init(&errands[i], &desks[i % 2], i);
        assert_true(crew_ask(crew, &errands[i].job));
    }
    for (uint32_t d = 0; d < 2; d++) {
        done_count = 0;
        desk_wait(&desks[d], 20);
        for (uint32_t i = 0; i < 20; i++) assert_int_equal(done_order[i] % 2, d);
    }
    crew_close(crew);
    desk_close(&desks[0]);
    desk_close(&desks[1]);
}

/* Tools: counted as they are opened and closed; the one with number fail_at cannot be had. */
struct shed {
    atomic_int opened, closed;
    int fail_at;
};

static struct shed shed;

static void *shed_open(void *arg)
{
    assert_ptr_equal(arg, &shed);
    int number = atomic_fetch_add(&shed.opened, 1) + 1;
    if (number == shed.fail_at) return NULL;
    int *tool = malloc(sizeof *tool);
    if (tool != NULL) *tool = number;
    return tool;
}

static void shed_close(void *tools)
{
    atomic_fetch_add(&shed.closed, 1);
    free(tools);
}

static void every_worker_has_tools_of_its_own(void **state)
{
    (void)state;
    struct desk desk;
    desk_open(&desk);
    shed = (struct shed){ 0 };
    struct crew *crew;
    const struct crew_options options = {
        .name = "a-name-that-is-too-long",
        .threads = 4,
        .queue_max = 10,
        .wait_ms_max = 60000,
        .tools_open = shed_open,
        .tools_close = shed_close,
        .arg = &shed,
    };
    assert_int_equal(crew_open(&crew, &options), FAULT_NONE);
    assert_int_equal(atomic_load(&shed.opened), 4);

    /* Four jobs that run at the same time are on four workers. */
    sem_t begun, may_end;
    sem_init(&begun, 0, 0);
    sem_init(&may_end, 0, 0);
    struct errand errands[4];
    done_count = 0;
    for (uint32_t i = 0; i < 4; i++) {
        errand_init(&errands[i], &desk, i);
        errands[i].begun = &begun;
        errands[i].may_end = &may_end;
        assert_true(crew_ask(crew, &errands[i].job));
    }
    for (int i = 0; i < 4; i++) sem_wait(&begun);
    for (int i = 0; i < 4; i++) sem_post(&may_end);
    desk_wait(&desk, 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_non_null(errands[i].tools);
        for (uint32_t j = 0; j < i; j++) assert_ptr_not_equal(errands[i].tools, errands[j].tools);
    }
    crew_close(crew);
    assert_int_equal(atomic_load(&shed.closed), 4);
    desk_close(&desk);
    sem_destroy(&begun);
    sem_destroy(&may_end);
}

static void a_crew_without_its_tools_does_not_open(void **state)
{
    (void)state;
    for (int fail_at = 1; fail_at <= 3; fail_at++) {
        shed = (struct shed){ .fail_at = fail_at };
        struct crew *crew = (struct crew *)1;
        const struct crew_options options = {
            .name = "test",
            .threads = 3,
            .queue_max = 1,
            .wait_ms_max = 1,
            .tools_open = shed_open,
            .tools_close = shed_close,
            .arg = &shed,
        };
        assert_int_equal(crew_open(&crew, &options), FAULT_MEMORY);
        assert_null(crew);
        assert_int_equal(atomic_load(&shed.closed), 2);
    }
}

static void workers_are_as_nice_as_told_and_the_asker_is_not(void **state)
{
    (void)state;
    int own = getpriority(PRIO_PROCESS, (id_t)gettid());
    struct desk desk;
    desk_open(&desk);
    struct crew *crew;
    const struct crew_options options = { .name = "test", .threads = 1, .queue_max = 1, .wait_ms_max = 60000, .nice = 15 };
    assert_int_equal(crew_open(&crew, &options), FAULT_NONE);
    struct errand errand;
    errand_init(&errand, &desk, 0);
    done_count = 0;
    assert_true(crew_ask(crew, &errand.job));
    desk_wait(&desk, 1);
    assert_int_equal(errand.nice, own > 15 ? own : 15);
    assert_int_equal(getpriority(PRIO_PROCESS, (id_t)gettid()), own);
    crew_close(crew);
    desk_close(&desk);
}

/* A signal sent to the process must find the main thread, never a worker in the middle of a query. */
static void mask_work(struct crew_job *job, void *tools)
{
    (void)tools;
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    ((struct errand *)job)->worked = (uint32_t)(sigismember(&mask, SIGTERM) && sigismember(&mask, SIGHUP));
}

static void workers_take_no_signals(void **state)
{
    (void)state;
    struct desk desk;
    desk_open(&desk);
    struct crew *crew;
    const struct crew_options options = { .name = "test", .threads = 1, .queue_max = 1, .wait_ms_max = 60000 };
    assert_int_equal(crew_open(&crew, &options), FAULT_NONE);
    struct errand errand;
    errand_init(&errand, &desk, 0);
    errand.job.work = mask_work;
    done_count = 0;
    assert_true(crew_ask(crew, &errand.job));
    desk_wait(&desk, 1);
    assert_int_equal(errand.worked, 1);
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    assert_false(sigismember(&mask, SIGTERM));
    crew_close(crew);
    desk_close(&desk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_are_done_once_each_on_the_thread_of_the_mailbox),
        cmocka_unit_test(one_worker_works_in_the_order_of_asking),
        cmocka_unit_test(a_full_queue_refuses_and_takes_again_when_it_drains),
        cmocka_unit_test(a_long_job_lets_others_pass_between_its_parts),
        cmocka_unit_test(a_long_job_is_delivered_late_when_the_crew_stops_between_its_parts),
        cmocka_unit_test(a_job_that_waited_too_long_comes_back_without_work),
        cmocka_unit_test(closing_ends_the_running_job_and_gives_the_queued_back_late),
        cmocka_unit_test(wake_rings_once_until_the_mail_is_taken),
        cmocka_unit_test(two_mailboxes_get_their_own_answers),
        cmocka_unit_test(every_worker_has_tools_of_its_own),
        cmocka_unit_test(a_crew_without_its_tools_does_not_open),
        cmocka_unit_test(workers_are_as_nice_as_told_and_the_asker_is_not),
        cmocka_unit_test(workers_take_no_signals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
