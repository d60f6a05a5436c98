/* The pacer: the step that lets people through, the thread that takes it in time, and how the room begins and ends. */
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "base/thread.h"
#include "guard/line_state.h"

#include <assert.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* A machine that stalls for longer than this does not let a crowd through afterwards. */
#define BEHIND_NS_MAX UINT64_C(100000000)
/* Who may be told with the lock held once. */
#define BUDGET 256
/* However high the rate, the thread wakes a thousand times a second at most, and then lets several through. */
#define STEP_NS UINT64_C(1000000)

/* What the first in line is to hear now; LINE_WAITING if nothing. Who has waited too long is never let through. */
static enum line_outcome head_outcome(const struct line *line, const struct line_entry *entry, uint64_t now_ns)
{
    if (entry->entered_ns <= line->told_until_ns) return line->told;
    if (now_ns >= entry_deadline_ns(line, entry)) return LINE_TIMED_OUT;
    return pace_due_ns(&line->pace) <= now_ns ? LINE_ADMITTED : LINE_WAITING;
}

static struct line_entry *line_head(const struct line *line)
{
    struct queue_node *first = line->queue.first;
    return first != NULL ? (struct line_entry *)(void *)((char *)first - offsetof(struct line_entry, node)) : NULL;
}

/* False: the budget is used up and there may be more. */
static bool line_serve(struct lines *lines, struct line *line, uint64_t now_ns, uint32_t *budget)
{
    pace_forgive(&line->pace, now_ns, BEHIND_NS_MAX);
    for (struct line_entry *entry = line_head(line); entry != NULL; entry = line_head(line)) {
        enum line_outcome outcome = head_outcome(line, entry, now_ns);
        if (outcome == LINE_WAITING) return true;
        if (*budget == 0) return false;
        --*budget;
        if (outcome == LINE_ADMITTED) pace_take(&line->pace);
        entry_tell(lines, entry, outcome, now_ns);
    }
    return true;
}

static uint64_t line_due_ns(const struct line *line)
{
    const struct line_entry *entry = line_head(line);
    if (entry == NULL) return NEVER;
    uint64_t slot_ns = pace_due_ns(&line->pace), deadline_ns = entry_deadline_ns(line, entry);
    return slot_ns < deadline_ns ? slot_ns : deadline_ns;
}

/* With the lock held, once over everything; places that nobody looks at go first, so that none is let through. False: there
 * was too much to do at a time; lines may have changed since. */
static bool turn_pass(struct lines *lines, uint64_t now_ns)
{
    uint32_t budget = BUDGET;
    uint64_t due_ns;
    if (!places_sweep(lines->places, now_ns, &budget, &due_ns)) return false;
    for (uint32_t cell = lines->busy; cell != 0;) {
        struct line *line = line_at(lines, cell);
        cell = line->busy_next;
        if (!line_serve(lines, line, now_ns, &budget)) return false;
        if (line_due_ns(line) < due_ns) due_ns = line_due_ns(line);
    }
    lines->due_ns = due_ns;
    return true;
}

uint64_t line_turn(struct lines *lines, uint64_t now_ns)
{
    lines_lock(lines);
    while (!turn_pass(lines, now_ns)) {
        lines_unlock(lines); /* let the reactors in between */
        lines_lock(lines);
    }
    uint64_t due_ns = lines->due_ns;
    lines_unlock(lines);
    return due_ns;
}

static void pacer_sleep(struct lines *lines, uint64_t until_ns)
{
    const struct timespec until = { .tv_sec = (time_t)(until_ns / PACE_SECOND_NS),
                                    .tv_nsec = (long)(until_ns % PACE_SECOND_NS) };
    (void)pthread_cond_timedwait(&lines->sooner, &lines->lock, &until); /* why it returns is seen from the state */
}

static void *pacer_run(void *arg)
{
    struct lines *lines = arg;
    uint64_t turned_ns = 0;
    lines_lock(lines);
    while (!lines->stopping) {
        uint64_t now_ns = mono_ns();
        if (lines->due_ns == NEVER) {
            thread_must(pthread_cond_wait(&lines->sooner, &lines->lock));
        } else if (now_ns < lines->due_ns) {
            pacer_sleep(lines, lines->due_ns);
        } else if (now_ns < turned_ns + STEP_NS) {
            pacer_sleep(lines, turned_ns + STEP_NS);
        } else {
            lines_unlock(lines);
            (void)line_turn(lines, now_ns);
            turned_ns = now_ns;
            lines_lock(lines);
        }
    }
    lines_unlock(lines);
    return NULL;
}

static void sync_init(struct lines *lines)
{
    pthread_condattr_t monotonic;
    thread_must(pthread_condattr_init(&monotonic));
    thread_must(pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC));
    thread_must(pthread_mutex_init(&lines->lock, NULL));
    thread_must(pthread_cond_init(&lines->sooner, &monotonic));
    thread_must(pthread_condattr_destroy(&monotonic));
}

enum fault lines_open(struct lines **out, const struct lines_options *options)
{
    assert(options->waiters_max > 0 && options->places_max <= LINE_PLACES_MAX);
    assert(options->heartbeat_ms > 0 && options->heartbeat_ms < INT32_MAX);
    *out = NULL;
    struct lines *lines = calloc(1, sizeof *lines);
    if (lines == NULL) {
        log_error("line", "no memory for the lines");
        return FAULT_MEMORY;
    }
    lines->options = *options;
    if (options->places_max == 0) lines->options.places_max = LINE_PLACES_MAX;
    lines->due_ns = NEVER;
    random_bytes(&lines->lot, sizeof lines->lot);
    random_bytes(lines->keys, sizeof lines->keys);
    lines->lot |= 1; /* and odd it stays: never 0 */
    sync_init(lines);
    enum fault fault = pool_open(&lines->cells, sizeof(struct line), LINES_MAX);
    if (fault == FAULT_NONE)
        fault = index_open(&lines->by_sale, &lines->cells, offsetof(struct line, hash), offsetof(struct line, link));
    const uint32_t buyer_at = offsetof(struct line_waiter, of_buyer), grab_at = offsetof(struct line_waiter, of_grab);
    if (fault == FAULT_NONE) fault = parties_open(&lines->buyers, buyer_at, options->waiters_max);
    if (fault == FAULT_NONE) fault = parties_open(&lines->grabs, grab_at, options->waiters_max);
    if (fault == FAULT_NONE) fault = places_open(&lines->places, lines);
    if (fault != FAULT_NONE) {
        lines_close(lines);
        return fault;
    }
    *out = lines;
    return FAULT_NONE;
}

/* Signals belong to the main loop: the thread is born with all of them blocked. */
enum fault lines_start(struct lines *lines)
{
    sigset_t all, before;
    sigfillset(&all);
    thread_must(pthread_sigmask(SIG_SETMASK, &all, &before));
    int error = pthread_create(&lines->pacer, NULL, pacer_run, lines);
    thread_must(pthread_sigmask(SIG_SETMASK, &before, NULL));
    if (error != 0) {
        log_error("line", "cannot start the pacer: %s", strerror(error));
        return FAULT_MEMORY;
    }
    lines->pacer_runs = true;
    (void)pthread_setname_np(lines->pacer, "pacer");
    return FAULT_NONE;
}

void lines_close(struct lines *lines)
{
    if (lines == NULL) return;
    lines_lock(lines);
    assert(lines->parked == 0 && lines->mailboxes == 0);
    lines->stopping = true;
    thread_must(pthread_cond_signal(&lines->sooner));
    lines_unlock(lines);
    if (lines->pacer_runs) thread_must(pthread_join(lines->pacer, NULL));
    places_close(lines->places);
    parties_close(&lines->grabs);
    parties_close(&lines->buyers);
    if (lines->by_sale.cells != NULL) index_close(&lines->by_sale);
    pool_close(&lines->cells);
    thread_must(pthread_cond_destroy(&lines->sooner));
    thread_must(pthread_mutex_destroy(&lines->lock));
    free(lines);
}
