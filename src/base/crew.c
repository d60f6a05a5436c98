#include "base/crew.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define THREAD_NAME_BYTES 16

/* First in, first out, chained through the jobs: a job is in one list at a time. */
struct job_list {
    struct crew_job *first, *last;
};

struct crew_mailbox {
    pthread_mutex_t lock;
    struct job_list mail;
    void (*wake)(void *arg);
    void *arg;
};

struct crew {
    pthread_mutex_t lock;
    pthread_cond_t work;  /* a job was queued, or the crew is closing */
    pthread_cond_t ready; /* a worker has its tools, or could not get them */
    struct {
        struct job_list jobs;
        uint32_t count;
    } queues[CREW_QUEUES];
    uint32_t queued; /* in all of them */
    uint32_t turn;   /* the queue that is asked first for the next job */
    uint32_t ready_count, failed_count;
    bool closing;
    struct crew_options options;
    uint32_t started;
    pthread_t threads[];
};

static void list_push(struct job_list *list, struct crew_job *job)
{
    job->next = NULL;
    if (list->last != NULL) {
        list->last->next = job;
    } else {
        list->first = job;
    }
    list->last = job;
}

static struct crew_job *list_pop(struct job_list *list)
{
    struct crew_job *job = list->first;
    if (job == NULL) return NULL;
    list->first = job->next;
    if (list->first == NULL) list->last = NULL;
    job->next = NULL;
    return job;
}

enum fault crew_mailbox_open(struct crew_mailbox **out, void (*wake)(void *arg), void *arg)
{
    struct crew_mailbox *mailbox = calloc(1, sizeof *mailbox);
    *out = mailbox;
    if (mailbox == NULL) {
        log_error("crew", "no memory for a mailbox");
        return FAULT_MEMORY;
    }
    thread_must(pthread_mutex_init(&mailbox->lock, NULL));
    mailbox->wake = wake;
    mailbox->arg = arg;
    return FAULT_NONE;
}

void crew_mailbox_close(struct crew_mailbox *mailbox)
{
    if (mailbox == NULL) return;
    thread_must(pthread_mutex_lock(&mailbox->lock));
    assert(mailbox->mail.first == NULL);
    thread_must(pthread_mutex_unlock(&mailbox->lock));
    thread_must(pthread_mutex_destroy(&mailbox->lock));
    free(mailbox);
}

/* wake is called with the lock held: whoever delivers this mail can then be sure that the waker is out, and may close the
 * mailbox and what wake uses. */
static void mailbox_put(struct crew_mailbox *mailbox, struct crew_job *job)
{
    thread_must(pthread_mutex_lock(&mailbox->lock));
    bool was_empty = mailbox->mail.first == NULL;
    list_push(&mailbox->mail, job);
    if (was_empty) mailbox->wake(mailbox->arg);
    thread_must(pthread_mutex_unlock(&mailbox->lock));
}

/* done() may free its job, ask anew or close the mailbox after the last one, so the mail is taken out first. */
void crew_mailbox_deliver(struct crew_mailbox *mailbox)
{
    thread_must(pthread_mutex_lock(&mailbox->lock));
    struct job_list mail = mailbox->mail;
    mailbox->mail = (struct job_list){ 0 };
    thread_must(pthread_mutex_unlock(&mailbox->lock));

    for (struct crew_job *job = list_pop(&mail); job != NULL; job = list_pop(&mail)) job->done(job);
}

static void worker_be_nice(const struct crew_options *options)
{
    id_t self = (id_t)gettid();
    errno = 0;
    int nice_now = getpriority(PRIO_PROCESS, self);
    if (errno == 0 && nice_now >= options->nice) return;
    if (setpriority(PRIO_PROCESS, self, options->nice) != 0) {
        log_warn("crew", "%s threads cannot be nice %d: %s", options->name, options->nice, strerror(errno));
    }
}

static bool worker_report(struct crew *crew, bool has_tools)
{
    thread_must(pthread_mutex_lock(&crew->lock));
    if (has_tools) {
        crew->ready_count++;
    } else {
        crew->failed_count++;
    }
    thread_must(pthread_cond_signal(&crew->ready));
    thread_must(pthread_mutex_unlock(&crew->lock));
    return has_tools;
}

/* Of the queue whose turn it is, or of the next one that has any. The lock is held, and there is a job. */
static struct crew_job *queues_pop(struct crew *crew)
{
    while (crew->queues[crew->turn].count == 0) crew->turn = (crew->turn + 1) % CREW_QUEUES;
    struct crew_job *job = list_pop(&crew->queues[crew->turn].jobs);
    crew->queues[crew->turn].count--;
    crew->queued--;
    crew->turn = (crew->turn + 1) % CREW_QUEUES;
    return job;
}

/* The lock is held. */
static void queues_push(struct crew *crew, struct crew_job *job)
{
    job->asked_ms = mono_ms();
    list_push(&crew->queues[job->queue].jobs, job);
    crew->queues[job->queue].count++;
    crew->queued++;
    thread_must(pthread_cond_signal(&crew->work));
}

/* The next job, or NULL when the crew stops. */
static struct crew_job *worker_next(struct crew *crew)
{
    thread_must(pthread_mutex_lock(&crew->lock));
    while (!crew->closing && crew->queued == 0) thread_must(pthread_cond_wait(&crew->work, &crew->lock));
    struct crew_job *job = crew->closing ? NULL : queues_pop(crew);
    thread_must(pthread_mutex_unlock(&crew->lock));
    return job;
}

/* A part of it is done. Late when there will be no other. */
static void job_put_back(struct crew *crew, struct crew_job *job)
{
    thread_must(pthread_mutex_lock(&crew->lock));
    bool last = crew->closing;
    job->late = last;
    if (!last) queues_push(crew, job); /* another worker may have it from now on */
    thread_must(pthread_mutex_unlock(&crew->lock));
    if (last) mailbox_put(job->mailbox, job);
}

static void job_work(struct crew *crew, struct crew_job *job, void *tools)
{
    job->waited_ms = mono_ms() - job->asked_ms;
    job->late = !job->again && job->waited_ms > crew->options.wait_ms_max;
    if (!job->late) job->work(job, tools);
    if (job->again) {
        job_put_back(crew, job);
    } else {
        mailbox_put(job->mailbox, job);
    }
}

static void *worker_run(void *arg)
{
    struct crew *crew = arg;
    const struct crew_options *options = &crew->options;
    worker_be_nice(options);

    void *tools = options->tools_open != NULL ? options->tools_open(options->arg) : NULL;
    if (!worker_report(crew, options->tools_open == NULL || tools != NULL)) return NULL;

    for (struct crew_job *job = worker_next(crew); job != NULL; job = worker_next(crew)) job_work(crew, job, tools);
    if (options->tools_close != NULL) options->tools_close(tools);
    return NULL;
}

/* Signals belong to the main loop: the thread is born with all of them blocked. */
static bool worker_start(struct crew *crew, uint32_t number)
{
    sigset_t all, before;
    sigfillset(&all);
    thread_must(pthread_sigmask(SIG_SETMASK, &all, &before));
    int error = pthread_create(&crew->threads[number], NULL, worker_run, crew);
    thread_must(pthread_sigmask(SIG_SETMASK, &before, NULL));
    if (error != 0) {
        log_error("crew", "cannot start a thread of %s: %s", crew->options.name, strerror(error));
        return false;
    }
    char name[THREAD_NAME_BYTES];
    int len = snprintf(name, sizeof name, "%.11s-%u", crew->options.name, (unsigned)number % 1000);
    assert(len > 0 && (size_t)len < sizeof name);
    (void)pthread_setname_np(crew->threads[number], name);
    return true;
}

enum fault crew_open(struct crew **out, const struct crew_options *options)
{
    assert(options->threads > 0 && options->queue_max > 0 && options->nice >= 0);
    *out = NULL;
    struct crew *crew = calloc(1, sizeof *crew + options->threads * sizeof crew->threads[0]);
    if (crew == NULL) {
        log_error("crew", "no memory for the threads of %s", options->name);
        return FAULT_MEMORY;
    }
    crew->options = *options;
    thread_must(pthread_mutex_init(&crew->lock, NULL));
    thread_must(pthread_cond_init(&crew->work, NULL));
    thread_must(pthread_cond_init(&crew->ready, NULL));
    while (crew->started < options->threads && worker_start(crew, crew->started)) crew->started++;

    thread_must(pthread_mutex_lock(&crew->lock));
    while (crew->ready_count + crew->failed_count < crew->started) thread_must(pthread_cond_wait(&crew->ready, &crew->lock));
    bool complete = crew->ready_count == options->threads;
    thread_must(pthread_mutex_unlock(&crew->lock));

    if (!complete) {
        crew_close(crew);
        return FAULT_MEMORY;
    }
    *out = crew;
    return FAULT_NONE;
}

void crew_stop(struct crew *crew)
{
    thread_must(pthread_mutex_lock(&crew->lock));
    crew->closing = true;
    struct job_list left = { 0 };
    while (crew->queued > 0) list_push(&left, queues_pop(crew));
    thread_must(pthread_cond_broadcast(&crew->work));
    thread_must(pthread_mutex_unlock(&crew->lock));

    for (struct crew_job *job = list_pop(&left); job != NULL; job = list_pop(&left)) {
        job->late = true;
        mailbox_put(job->mailbox, job);
    }
}

void crew_close(struct crew *crew)
{
    if (crew == NULL) return;
    crew_stop(crew);
    for (uint32_t i = 0; i < crew->started; i++) thread_must(pthread_join(crew->threads[i], NULL));
    thread_must(pthread_cond_destroy(&crew->ready));
    thread_must(pthread_cond_destroy(&crew->work));
    thread_must(pthread_mutex_destroy(&crew->lock));
    free(crew);
}

bool crew_ask(struct crew *crew, struct crew_job *job)
{
    assert(job->work != NULL && job->done != NULL && job->mailbox != NULL && job->queue < CREW_QUEUES);
    thread_must(pthread_mutex_lock(&crew->lock));
    bool taken = !crew->closing && crew->queues[job->queue].count < crew->options.queue_max;
    if (taken) {
        job->again = false;
        queues_push(crew, job);
    }
    thread_must(pthread_mutex_unlock(&crew->lock));
    return taken;
}
