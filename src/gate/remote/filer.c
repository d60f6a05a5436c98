#include "gate/remote/filer.h"

#include "base/clock.h"
#include "ledger/watch.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BATCH_MAX 512
#define WAITING_MAX 100000
#define THREADS 8
#define PAUSE_MS_MIN 10
#define PAUSE_MS_MAX 100
/* Somebody waits for the answer: a ledger that does not give one is asked again on another connection. */
#define PATIENCE_MS 1000
#define ANSWER_S_MAX 3
struct filer_mailbox {
    pthread_mutex_t lock;
    struct filer_job *first, *last;
    void (*wake)(void *arg);
    void *arg;
};

struct filer_thread {
    struct filer *filer;
    pthread_t thread;
    struct ledger *ledger; /* NULL: lost, to be opened again */
    struct filer_job *jobs[BATCH_MAX], *others[BATCH_MAX];
    struct ledger_take takes[BATCH_MAX];
};

struct filer {
    struct filer_options options;
    struct ledger_place place;
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct filer_job *first, *last;
    uint64_t waiting;
    uint64_t first_ms; /* since when somebody has waited, monotonic */
    _Atomic bool stopping;
    struct filer_thread *threads[THREADS];
    _Atomic uint32_t failing; /* threads whose last try failed */
};

enum fault filer_mailbox_open(struct filer_mailbox **out, void (*wake)(void *arg), void *arg)
{
    struct filer_mailbox *box = calloc(1, sizeof *box);
    if (box == NULL) return FAULT_MEMORY;
    pthread_mutex_init(&box->lock, NULL);
    box->wake = wake;
    box->arg = arg;
    *out = box;
    return FAULT_NONE;
}

void filer_mailbox_close(struct filer_mailbox *box)
{
    if (box == NULL) return;
    pthread_mutex_destroy(&box->lock);
    free(box);
}

struct filer_job *filer_collect(struct filer_mailbox *box)
{
    pthread_mutex_lock(&box->lock);
    struct filer_job *first = box->first;
    box->first = box->last = NULL;
    pthread_mutex_unlock(&box->lock);
    return first;
}

/* So many jobs, in their order. Neighbours are of one lane more often than not, and go into its box together. */
static void mailbox_put(struct filer_job **jobs, size_t count)
{
    for (size_t i = 0; i < count;) {
        struct filer_mailbox *box = jobs[i]->mailbox;
        struct filer_job *first = jobs[i], *last = first;
        while (++i < count && jobs[i]->mailbox == box) last = last->next = jobs[i];
        last->next = NULL;
        pthread_mutex_lock(&box->lock);
        bool empty = box->first == NULL;
        *(empty ? &box->first : &box->last->next) = first;
        box->last = last;
        if (empty) box->wake(box->arg);
        pthread_mutex_unlock(&box->lock);
    }
}

bool filer_give(struct filer *filer, struct filer_job *jobs)
{
    struct filer_job *last = jobs;
    uint64_t count = 1;
    for (; last->next != NULL; last = last->next) count++;
    pthread_mutex_lock(&filer->lock);
    bool taken = !filer->stopping && filer->waiting + count <= WAITING_MAX;
    if (taken) {
        bool first = filer->first == NULL, enough = filer->waiting < BATCH_MAX && filer->waiting + count >= BATCH_MAX;
        if (first) filer->first_ms = mono_ms();
        *(first ? &filer->first : &filer->last->next) = jobs;
        filer->last = last;
        filer->waiting += count;
        /* Else a thread knows already; who takes a batch and leaves others behind tells the next. */
        if (first || enough) pthread_cond_signal(&filer->work);
    }
    pthread_mutex_unlock(&filer->lock);
    return taken;
}

/* Under the lock: waits for work, and for enough of it. */
static void work_await(struct filer *filer)
{
    while (!filer->stopping && filer->waiting < BATCH_MAX) {
        uint64_t until_ms = filer->first_ms + filer->options.gather_ms;
        if (filer->first != NULL && mono_ms() >= until_ms) return;
        struct timespec until = { .tv_sec = (time_t)(until_ms / 1000), .tv_nsec = (long)(until_ms % 1000) * 1000000 };
        if (filer->first == NULL)
            pthread_cond_wait(&filer->work, &filer->lock);
        else
            pthread_cond_timedwait(&filer->work, &filer->lock, &until);
    }
}

/* Waits for work; how many jobs were taken, 0 at the end. */
static size_t batch_take(struct filer_thread *self)
{
    struct filer *filer = self->filer;
    size_t count = 0;
    pthread_mutex_lock(&filer->lock);
    work_await(filer);
    while (filer->first != NULL && count < BATCH_MAX) {
        self->jobs[count++] = filer->first;
        filer->first = filer->first->next;
    }
    filer->waiting -= count;
    if (filer->first != NULL) pthread_cond_signal(&filer->work);
    pthread_mutex_unlock(&filer->lock);
    return count;
}

/* now: no row of a sale is waited for. */
static enum fault batch_try(struct filer_thread *self, size_t count, bool now)
{
    enum fault fault = FAULT_NONE;
    if (self->ledger == NULL) {
        fault = ledger_open(&self->ledger, &self->filer->place, LEDGER_WRITER);
        if (fault == FAULT_NONE) ledger_set_patience(self->ledger, PATIENCE_MS);
    }
    if (fault != FAULT_NONE) return fault;
    for (size_t i = 0; i < count; i++) self->takes[i] = self->jobs[i]->take;
    fault = (now ? ledger_takes_now : ledger_takes)(self->ledger, self->takes, count);
    if (fault == FAULT_NONE || (fault == FAULT_TIMEOUT && now)) return fault; /* nothing has gone wrong with it */
    ledger_close(self->ledger); /* whatever state it is in, a new one is in none */
    self->ledger = NULL;
    if (fault != FAULT_TIMEOUT)
        ledger_watch_doubt(self->filer->place.watch); /* else others hold its locks, and it is there */
    return fault;
}

/* Sends back what has no time left; how many stay. */
static size_t batch_thin(struct filer_thread *self, size_t count, enum fault fault)
{
    size_t kept = 0;
    uint64_t now_ms = mono_ms();
    for (size_t i = 0; i < count; i++) {
        struct filer_job *job = self->jobs[i];
        if (now_ms < job->until_mono_ms && !self->filer->stopping) {
            self->jobs[kept++] = job;
        } else {
            job->fault = fault;
            mailbox_put(&job, 1);
        }
    }
    return kept;
}

static uint64_t sale_of(const struct filer_job *job)
{
    return job->take.decision.sale_id;
}

/* Sends back the first, as they are; how many stay. */
static size_t batch_send(struct filer_thread *self, size_t count, size_t first)
{
    mailbox_put(self->jobs, first);
    memmove(self->jobs, self->jobs + first, (count - first) * sizeof(self->jobs[0]));
    return count - first;
}

/* The same of those that are filed. */
static size_t batch_filed(struct filer_thread *self, size_t count, size_t filed)
{
    struct kept *kept = self->filer->options.kept;
    for (size_t i = 0; i < filed; i++) {
        struct filer_job *job = self->jobs[i];
        job->take.result = self->takes[i].result;
        job->take.there = self->takes[i].there;
        job->fault = FAULT_NONE;
        if (kept_any(kept)) kept_remove(kept, sale_of(job));
    }
    return batch_send(self, count, filed);
}

/* Brings the jobs of one sale to the front, in their order; how many they are. One whose row nobody kept, if there is any.
 */
static size_t batch_gather(struct filer_thread *self, size_t count)
{
    size_t first = 0, gathered = 0, others = 0;
    while (first < count && kept_has(self->filer->options.kept, sale_of(self->jobs[first]))) first++;
    uint64_t sale_id = sale_of(self->jobs[first < count ? first : 0]);
    for (size_t i = 0; i < count; i++) {
        struct filer_job *job = self->jobs[i];
        *(sale_of(job) == sale_id ? &self->jobs[gathered++] : &self->others[others++]) = job;
    }
    memcpy(self->jobs + gathered, self->others, others * sizeof(self->jobs[0]));
    return gathered;
}

static bool batch_has_kept(const struct filer_thread *self, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (kept_has(self->filer->options.kept, sale_of(self->jobs[i]))) return true;
    }
    return false;
}

/* What differs once anybody has filed of a sale, or has changed it. */
static uint64_t standing_of(const struct sale *sale)
{
    uint64_t units = sale->counts.available + ((uint64_t)sale->counts.held << 32);
    return units ^ (sale->orders_made << 16) ^ (sale->tokens_given << 48) ^ ((uint64_t)sale->counts.sold << 8);
}

/* The row of the first was not to be had. */
static enum kept_state sale_missed(struct filer_thread *self)
{
    struct sale sale;
    bool found;
    uint64_t sale_id = sale_of(self->jobs[0]);
    if (ledger_sale(self->ledger, sale_id, &sale, &found) != FAULT_NONE || !found) return KEPT_UNSURE;
    return kept_miss(self->filer->options.kept, sale_id, standing_of(&sale), mono_ms());
}

/* Sends back the first, whose row somebody keeps: they stand in the log, and are filed from there. How many stay. */
static size_t batch_refuse(struct filer_thread *self, size_t count, size_t first)
{
    for (size_t i = 0; i < first; i++) self->jobs[i]->fault = FAULT_TIMEOUT;
    return batch_send(self, count, first);
}

/* The first are tried again once all others were. */
static void batch_turn(struct filer_thread *self, size_t count, size_t first)
{
    memcpy(self->others, self->jobs, first * sizeof(self->jobs[0]));
    memmove(self->jobs, self->jobs + first, (count - first) * sizeof(self->jobs[0]));
    memcpy(self->jobs + count - first, self->others, first * sizeof(self->jobs[0]));
}

/* Those of sales that are left alone at present go back untried; how many stay. */
static size_t batch_spare(struct filer_thread *self, size_t count)
{
    size_t stay = 0;
    for (size_t i = 0; i < count; i++) {
        struct filer_job *job = self->jobs[i];
        if (kept_now(self->filer->options.kept, sale_of(job))) {
            job->fault = FAULT_TIMEOUT;
            mailbox_put(&job, 1);
        } else {
            self->jobs[stay++] = job;
        }
    }
    return stay;
}

/* How a batch is filed: all together, until somebody keeps a row from it. Then each sale by itself, so that only the buyers
 * of that one hear of it; and where nobody knows which it is, or it is known, no row is waited for. */
struct way {
    bool apart, searching;
    enum kept_state state; /* of the row that was not waited for */
};

/* Others keep its locks, and it is there. */
static bool is_locked(const struct filer_thread *self, enum fault fault)
{
    return fault == FAULT_TIMEOUT && ledger_watch_health(self->filer->place.watch) == LEDGER_WELL;
}

/* Files the first. */
static enum fault batch_part(struct filer_thread *self, size_t part, struct way *way)
{
    struct kept *kept = self->filer->options.kept;
    bool now = way->apart && (way->searching || kept_has(kept, sale_of(self->jobs[0])));
    enum fault fault = batch_try(self, part, now);
    way->state = now && is_locked(self, fault) && self->ledger != NULL ? sale_missed(self) : KEPT_UNSURE;
    if (way->state == KEPT_MOVES) fault = batch_try(self, part, false); /* in turn with those who file into it */
    if (!is_locked(self, fault)) return fault;
    if (!now || way->state == KEPT_SURE) kept_wait(kept);
    way->apart = way->searching = true;
    return fault;
}

static void batch_file(struct filer_thread *self, size_t count)
{
    struct filer *filer = self->filer;
    bool failed = false;
    struct way way = { .apart = false };
    if (kept_any(filer->options.kept)) {
        count = batch_spare(self, count);
        way.apart = batch_has_kept(self, count);
    }
    for (uint32_t pause_ms = PAUSE_MS_MIN; count > 0;) {
        size_t part = way.apart ? batch_gather(self, count) : count;
        enum fault fault = batch_part(self, part, &way);
        if (fault == FAULT_NONE) {
            count = batch_filed(self, count, part);
            continue;
        }
        bool locked = is_locked(self, fault);
        if (!locked && !failed) atomic_fetch_add(&filer->failing, 1);
        failed = failed || !locked;
        if (way.state == KEPT_SURE) {
            count = batch_refuse(self, count, part);
        } else if (way.apart) {
            batch_turn(self, count, part);
        }
        count = batch_thin(self, count, fault);
        nanosleep(&(struct timespec){ .tv_nsec = (locked ? PAUSE_MS_MIN : pause_ms) * 1000000L }, NULL);
        if (pause_ms < PAUSE_MS_MAX) pause_ms *= 2;
    }
    if (failed) atomic_fetch_sub(&filer->failing, 1);
}

static void *filer_run(void *arg)
{
    struct filer_thread *self = arg;
    size_t count;
    while ((count = batch_take(self)) > 0) batch_file(self, count);
    if (self->ledger != NULL) ledger_close(self->ledger);
    return NULL;
}

enum fault filer_open(struct filer **out, const struct filer_options *options)
{
    struct filer *filer = calloc(1, sizeof *filer);
    if (filer == NULL) return FAULT_MEMORY;
    filer->options = *options;
    filer->place = *options->place;
    filer->place.answer_s_max = ANSWER_S_MAX;
    pthread_mutex_init(&filer->lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&filer->work, &monotonic);
    pthread_condattr_destroy(&monotonic);
    *out = filer;
    for (uint32_t i = 0; i < options->threads && i < THREADS; i++) {
        struct filer_thread *thread = calloc(1, sizeof *thread);
        if (thread == NULL) return FAULT_MEMORY;
        thread->filer = filer;
        if (pthread_create(&thread->thread, NULL, filer_run, thread) != 0) {
            free(thread);
            return FAULT_MEMORY;
        }
        filer->threads[i] = thread;
    }
    return FAULT_NONE;
}

void filer_close(struct filer *filer)
{
    if (filer == NULL) return;
    pthread_mutex_lock(&filer->lock);
    filer->stopping = true;
    pthread_cond_broadcast(&filer->work);
    pthread_mutex_unlock(&filer->lock);
    for (uint32_t i = 0; i < THREADS; i++) {
        if (filer->threads[i] == NULL) continue;
        pthread_join(filer->threads[i]->thread, NULL);
        free(filer->threads[i]);
    }
    pthread_cond_destroy(&filer->work);
    pthread_mutex_destroy(&filer->lock);
    free(filer);
}

bool filer_failing(const struct filer *filer)
{
    return atomic_load_explicit(&filer->failing, memory_order_relaxed) > 0 ||
           ledger_watch_health(filer->place.watch) != LEDGER_WELL;
}
