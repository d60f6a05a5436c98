/* errands: jobs for a crew that tests can watch. cmocka.h comes before it. */
#ifndef STAMPEDE_TESTS_UNIT_BASE_ERRANDS_H
#define STAMPEDE_TESTS_UNIT_BASE_ERRANDS_H

#include "base/crew.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* The thread of the mailbox is the test's own; wake lets it through once per call. */
struct desk {
    struct crew_mailbox *mailbox;
    sem_t mail;
    atomic_int wakes;
};

static inline void desk_wake(void *arg)
{
    struct desk *desk = arg;
    atomic_fetch_add(&desk->wakes, 1);
    sem_post(&desk->mail);
}

static inline void desk_open(struct desk *desk)
{
    assert_int_equal(sem_init(&desk->mail, 0, 0), 0);
    atomic_init(&desk->wakes, 0);
    assert_int_equal(crew_mailbox_open(&desk->mailbox, desk_wake, desk), FAULT_NONE);
}

static inline void desk_close(struct desk *desk)
{
    crew_mailbox_close(desk->mailbox);
    sem_destroy(&desk->mail);
}

static inline void pause_ms(long ms)
{
    nanosleep(&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 }, NULL);
}

struct errand {
    struct crew_job job; /* first */
    sem_t *begun, *may_end;
    void *tools;
    uint32_t number, worked;
    int nice;
    pthread_t done_on;
    bool done;
};

static uint32_t done_count;
static uint32_t done_order[100000];

static inline void errand_work(struct crew_job *job, void *tools)
{
    struct errand *errand = (struct errand *)job;
    errand->worked++;
    errand->tools = tools;
    errand->nice = getpriority(PRIO_PROCESS, (id_t)gettid());
    if (errand->begun != NULL) sem_post(errand->begun);
    if (errand->may_end != NULL) sem_wait(errand->may_end);
}

static inline void errand_done(struct crew_job *job)
{
    struct errand *errand = (struct errand *)job;
    assert_false(errand->done);
    errand->done = true;
    errand->done_on = pthread_self();
    done_order[done_count++] = errand->number;
}

static inline void errand_init(struct errand *errand, struct desk *desk, uint32_t number)
{
    *errand = (struct errand){ .job = { .work = errand_work, .done = errand_done, .mailbox = desk->mailbox },
                               .number = number };
}

/* Delivers until this many jobs are done. */
static inline void desk_wait(struct desk *desk, uint32_t count)
{
    while (done_count < count) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 20;
        if (sem_timedwait(&desk->mail, &until) != 0) fail_msg("only %u of %u came", done_count, count);
        crew_mailbox_deliver(desk->mailbox);
    }
    assert_int_equal(done_count, count);
}

#endif
