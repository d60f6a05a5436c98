#include "clerk/clerk.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/thread.h"
#include "journal/journal.h"
#include "ledger/ledger.h"
#include "ledger/watch.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A transaction ends at the first batch that brings it here. One that drains a backlog is longer: more orders then share the
 * writing of each page of an index. */
#define DECISIONS_PER_TRANSACTION 20000
#define DECISIONS_PER_TRANSACTION_BEHIND 60000
#define LAG_BIG DECISIONS_PER_TRANSACTION
#define BACKOFF_MS_MIN 50
#define BACKOFF_MS_MAX 5000
#define IDLE_MS_MAX 20
#define AWAITED_MS 1
/* The clerk tries again by itself, so it need not wait long for a locked ledger before it says that it is failing. */
#define PATIENCE_MS 500
#define CLERK_NICE 10
/* A few decisions since the last look are enough to look for a rush. The clerk gives way to it for so long, and while no
 * more is unfiled than it takes two seconds to file, half of what turns queries away. */
#define RUSH_BEGINS 100
#define GIVE_WAY_MS_MAX 3000
#define GIVE_WAY_LAG_MAX 500000

struct clerk {
    struct gate *gate; /* that has no journal; else NULL */
    struct ledger_place place;
    char *journal_folder;
    uint32_t pause_ms;
    const struct journal *journal;
    pthread_t thread;

    pthread_mutex_t lock;
    pthread_cond_t work;  /* wakes the clerk */
    pthread_cond_t filed; /* wakes those who wait for it */
    uint32_t waiting;
    bool closing;
    uint64_t close_by_ms; /* monotonic */

    _Atomic uint64_t seq_filed;
    _Atomic bool failing, stopped;

    /* The thread's own. */
    struct ledger *ledger;
    struct journal_scan *scan;
    uint32_t backoff_ms;
    uint64_t seq_looked; /* the durable mark as of the last look for a rush */
    /* Of the transaction under way. */
    struct ledger_point reached;
    uint64_t decisions;
    enum fault fault; /* of ledger_file(), which the journal's reader can only report as a reason */
};

static struct timespec moment(uint64_t at_ms)
{
    return (struct timespec){ .tv_sec = (time_t)(at_ms / 1000), .tv_nsec = (long)(at_ms % 1000) * 1000000 };
}

/* What the journal tells while a batch is read. */

static const char *decision_file(void *arg, const struct decision *decision)
{
    struct clerk *clerk = arg;
    clerk->fault = ledger_file(clerk->ledger, decision);
    if (clerk->fault != FAULT_NONE) return "the ledger did not take it";
    clerk->decisions++;
    clerk->reached.seq = decision->seq;
    clerk->reached.at_ms = decision->at_ms;
    if (decision->kind == DECISION_SALE_CREATED) clerk->reached.sale_id_last = decision->sale_id;
    return NULL;
}

static const char *batch_file(void *arg, uint64_t seq, uint64_t digest)
{
    struct clerk *clerk = arg;
    if (seq != clerk->reached.seq) return "the batch does not end with its last decision";
    clerk->reached.digest = digest;
    return NULL;
}

static void disconnect(struct clerk *clerk)
{
    if (clerk->scan != NULL) journal_scan_close(clerk->scan);
    if (clerk->ledger != NULL) ledger_close(clerk->ledger);
    clerk->scan = NULL;
    clerk->ledger = NULL;
}

static void filed_publish(struct clerk *clerk, uint64_t seq)
{
    thread_must(pthread_mutex_lock(&clerk->lock));
    atomic_store(&clerk->seq_filed, seq);
    thread_must(pthread_cond_broadcast(&clerk->filed));
    thread_must(pthread_mutex_unlock(&clerk->lock));
}

/* A new connection, and the point it tells: whatever became of the last commit, the ledger knows. */
static enum fault connect(struct clerk *clerk)
{
    struct journal_damage damage;
    struct ledger_point point;
    enum fault fault = ledger_open(&clerk->ledger, &clerk->place, LEDGER_WRITER);
    if (fault != FAULT_NONE) return fault;
    ledger_set_patience(clerk->ledger, PATIENCE_MS);
    fault = ledger_point(clerk->ledger, &point);
    if (fault != FAULT_NONE) return fault;

    static const uint8_t none[sizeof(point.uuid)];
    if (memcmp(point.uuid, none, sizeof(none)) != 0 &&
        memcmp(point.uuid, journal_uuid(clerk->journal), sizeof(point.uuid)) != 0) {
        log_error("clerk", "the ledger was filed from another journal than this one");
        return FAULT_DAMAGE;
    }
    fault = journal_scan_open(&clerk->scan, clerk->journal_folder, clerk->journal, point.seq, &damage);
    if (fault == FAULT_DAMAGE) log_error("clerk", "%s at %" PRIu64 ": %s", damage.file, damage.offset, damage.reason);
    if (fault != FAULT_NONE) return fault;
    filed_publish(clerk, point.seq);
    return FAULT_NONE;
}

/* Reads whole batches into the open transaction. */
static enum fault batches_file(struct clerk *clerk, uint64_t decisions_max)
{
    struct journal_reader reader = { .decision = decision_file, .batch_end = batch_file, .arg = clerk };
    struct journal_damage damage;
    bool more = true;
    while (more && clerk->decisions < decisions_max) {
        clerk->fault = FAULT_NONE;
        enum fault fault = journal_scan_batch(clerk->scan, &reader, &more, &damage);
        if (clerk->fault != FAULT_NONE) return clerk->fault;
        if (fault == FAULT_DAMAGE) log_error("clerk", "%s at %" PRIu64 ": %s", damage.file, damage.offset, damage.reason);
        if (fault != FAULT_NONE) return fault;
    }
    return FAULT_NONE;
}

static uint64_t lag(const struct clerk *clerk)
{
    uint64_t durable = journal_seq_durable(clerk->journal), filed = atomic_load(&clerk->seq_filed);
    return durable > filed ? durable - filed : 0;
}

/* A backlog to which nothing is added is no crowd. */
static bool rush_look(struct clerk *clerk, uint64_t decisions)
{
    return journal_sees_rush(clerk->journal, &clerk->seq_looked, decisions);
}

/* While a crowd is at the gate the ledger can wait, for the journal has everything: filing takes as much of the processor as
 * deciding does. Whoever asks for what is not filed yet ends that. */
static void rush_let_by(struct clerk *clerk)
{
    uint64_t until_ms = mono_ms() + GIVE_WAY_MS_MAX;
    bool rush = rush_look(clerk, RUSH_BEGINS);
    thread_must(pthread_mutex_lock(&clerk->lock));
    while (rush && clerk->waiting == 0 && !clerk->closing && lag(clerk) < GIVE_WAY_LAG_MAX && mono_ms() < until_ms) {
        struct timespec look = moment(mono_ms() + RUSH_LOOK_MS);
        int rc = pthread_cond_timedwait(&clerk->work, &clerk->lock, &look);
        assert(rc == 0 || rc == ETIMEDOUT);
        rush = rush_look(clerk, RUSH_DECISIONS);
    }
    thread_must(pthread_mutex_unlock(&clerk->lock));
}

/* One transaction. */
static enum fault file_some(struct clerk *clerk)
{
    enum fault fault = clerk->ledger != NULL ? FAULT_NONE : connect(clerk);
    if (fault != FAULT_NONE) return fault;
    uint64_t behind = lag(clerk);
    if (behind == 0) return FAULT_NONE;

    struct ledger_point from;
    fault = ledger_file_begin(clerk->ledger, &from);
    if (fault != FAULT_NONE) return fault;
    clerk->reached = from;
    clerk->decisions = 0;
    fault = batches_file(clerk, behind > LAG_BIG ? DECISIONS_PER_TRANSACTION_BEHIND : DECISIONS_PER_TRANSACTION);
    if (fault != FAULT_NONE || clerk->decisions == 0) {
        ledger_file_rollback(clerk->ledger);
        return fault;
    }
    memcpy(clerk->reached.uuid, journal_uuid(clerk->journal), sizeof(clerk->reached.uuid));
    fault = ledger_file_commit(clerk->ledger, &from, &clerk->reached);
    if (fault != FAULT_NONE) return fault;

    metrics_add(METRIC_FILED, clerk->decisions);
    filed_publish(clerk, clerk->reached.seq);
    return FAULT_NONE;
}

/* What a fault means for the clerk: damage is for good, everything else passes (P13). */
static void fault_take(struct clerk *clerk, enum fault fault)
{
    disconnect(clerk);
    metrics_add(METRIC_LEDGER_FAILURES, 1);
    if (fault == FAULT_DAMAGE) {
        log_error("clerk",
                  "ALARM: filing stopped for good at %" PRIu64 ": the ledger or the journal is damaged; "
                  "selling goes on, the journal keeps everything; run stampede audit",
                  atomic_load(&clerk->seq_filed));
        thread_must(pthread_mutex_lock(&clerk->lock));
        atomic_store(&clerk->stopped, true);
        thread_must(pthread_cond_broadcast(&clerk->filed));
        thread_must(pthread_mutex_unlock(&clerk->lock));
        return;
    }
    if (!atomic_exchange(&clerk->failing, true))
        log_warn("clerk", "the ledger fails at %" PRIu64 ", will try again", atomic_load(&clerk->seq_filed));
    clerk->backoff_ms = clerk->backoff_ms == 0 ? BACKOFF_MS_MIN : clerk->backoff_ms * 2;
    if (clerk->backoff_ms > BACKOFF_MS_MAX) clerk->backoff_ms = BACKOFF_MS_MAX;
}

static void recovery_tell(struct clerk *clerk)
{
    clerk->backoff_ms = 0;
    if (atomic_exchange(&clerk->failing, false))
        log_info("clerk", "the ledger works again, filed up to %" PRIu64, atomic_load(&clerk->seq_filed));
}

/* Sleeps until there may be something to do. Someone who waits ends a pause, which is what lets many wins share one
 * transaction, but never a back-off. */
static void rest(struct clerk *clerk, bool filed)
{
    uint64_t now_ms = mono_ms();
    bool backing_off = clerk->backoff_ms > 0;
    bool behind = lag(clerk) > 0;
    uint64_t until_ms = now_ms + (backing_off ? clerk->backoff_ms : filed ? clerk->pause_ms : IDLE_MS_MAX);
    if (filed && lag(clerk) > LAG_BIG) return;

    thread_must(pthread_mutex_lock(&clerk->lock));
    for (;;) {
        /* A last try is made before the time to close is over, and none in between that would only heat the room. */
        if (clerk->closing && (!backing_off || clerk->close_by_ms < until_ms))
            until_ms = backing_off ? clerk->close_by_ms : 0;
        if (mono_ms() >= until_ms) break;
        if (!backing_off && clerk->waiting > 0) {
            /* What they wait for may not be durable yet. */
            if (behind || lag(clerk) > 0) break;
            uint64_t soon_ms = mono_ms() + AWAITED_MS;
            if (soon_ms < until_ms) until_ms = soon_ms;
        }
        struct timespec until = moment(until_ms);
        int rc = pthread_cond_timedwait(&clerk->work, &clerk->lock, &until);
        assert(rc == 0 || rc == ETIMEDOUT);
    }
    thread_must(pthread_mutex_unlock(&clerk->lock));
}

/* Told to close: goes on while there is something to file and time to do it. */
static bool may_stop(struct clerk *clerk)
{
    thread_must(pthread_mutex_lock(&clerk->lock));
    bool stop = clerk->closing && (lag(clerk) == 0 || mono_ms() >= clerk->close_by_ms);
    thread_must(pthread_mutex_unlock(&clerk->lock));
    return stop;
}

static void *clerk_run(void *arg)
{
    struct clerk *clerk = arg;
    thread_be_nice("clerk", CLERK_NICE);
    while (!may_stop(clerk)) {
        rush_let_by(clerk);
        uint64_t before = atomic_load(&clerk->seq_filed);
        enum fault fault = file_some(clerk);
        if (fault == FAULT_NONE) {
            recovery_tell(clerk);
        } else {
            fault_take(clerk, fault);
            if (atomic_load(&clerk->stopped)) break;
        }
        rest(clerk, atomic_load(&clerk->seq_filed) > before);
    }
    disconnect(clerk);
    return NULL;
}

static void clerk_free(struct clerk *clerk)
{
    thread_must(pthread_cond_destroy(&clerk->work));
    thread_must(pthread_cond_destroy(&clerk->filed));
    thread_must(pthread_mutex_destroy(&clerk->lock));
    free(clerk->journal_folder);
    free(clerk);
}

static void condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    thread_must(pthread_condattr_init(&attributes));
    thread_must(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC));
    thread_must(pthread_cond_init(condition, &attributes));
    thread_must(pthread_condattr_destroy(&attributes));
}

enum fault clerk_open(struct clerk **out, const struct clerk_options *options, struct gate *gate)
{
    *out = NULL;
    struct clerk *clerk = calloc(1, sizeof(*clerk));
    if (clerk == NULL) return FAULT_MEMORY;
    clerk->pause_ms = options->pause_ms;
    clerk->journal = gate_journal(gate);
    thread_must(pthread_mutex_init(&clerk->lock, NULL));
    condition_init(&clerk->work);
    condition_init(&clerk->filed);
    if (clerk->journal == NULL) {
        clerk->gate = gate;
        *out = clerk;
        return FAULT_NONE;
    }
    clerk->seq_looked = journal_seq_durable(clerk->journal);
    clerk->place = *options->ledger;
    clerk->journal_folder = strdup(options->journal_folder);
    enum fault fault = clerk->journal_folder == NULL ? FAULT_MEMORY : FAULT_NONE;
    /* Connected here, so that what is filed is known from the start. A ledger that fails now is the thread's to retry. */
    if (fault == FAULT_NONE) fault = connect(clerk);
    if (fault == FAULT_LEDGER || fault == FAULT_TIMEOUT || fault == FAULT_SPACE) {
        disconnect(clerk);
        fault = FAULT_NONE;
    }

    /* Signals belong to the main thread. */
    sigset_t all, before;
    sigfillset(&all);
    thread_must(pthread_sigmask(SIG_SETMASK, &all, &before));
    if (fault == FAULT_NONE && pthread_create(&clerk->thread, NULL, clerk_run, clerk) != 0) {
        log_error("clerk", "cannot start its thread");
        fault = FAULT_MEMORY;
    }
    thread_must(pthread_sigmask(SIG_SETMASK, &before, NULL));
    if (fault != FAULT_NONE) {
        disconnect(clerk);
        clerk_free(clerk);
        return fault;
    }
    (void)pthread_setname_np(clerk->thread, "clerk");
    *out = clerk;
    return FAULT_NONE;
}

void clerk_close(struct clerk *clerk, uint32_t wait_ms)
{
    if (clerk == NULL) return;
    if (clerk->gate != NULL) {
        clerk_free(clerk);
        return;
    }
    thread_must(pthread_mutex_lock(&clerk->lock));
    clerk->closing = true;
    clerk->close_by_ms = mono_ms() + wait_ms;
    thread_must(pthread_cond_signal(&clerk->work));
    thread_must(pthread_cond_broadcast(&clerk->filed));
    thread_must(pthread_mutex_unlock(&clerk->lock));
    thread_must(pthread_join(clerk->thread, NULL));
    clerk_free(clerk);
}

/* A gate without a journal files by itself; nothing tells when, and few wait. */
static enum fault gate_wait(struct gate *gate, uint64_t seq, uint32_t wait_ms)
{
    struct gate_status status;
    uint64_t until_ms = mono_ms() + wait_ms;
    for (gate_status(gate, &status); status.seq_filed < seq; gate_status(gate, &status)) {
        if (mono_ms() >= until_ms) return FAULT_TIMEOUT;
        nanosleep(&(struct timespec){ .tv_nsec = AWAITED_MS * 1000000L }, NULL);
    }
    return FAULT_NONE;
}

enum fault clerk_wait(struct clerk *clerk, uint64_t seq, uint32_t wait_ms)
{
    if (clerk->gate != NULL) return seq == 0 ? FAULT_NONE : gate_wait(clerk->gate, seq, wait_ms);
    if (atomic_load(&clerk->seq_filed) >= seq) return FAULT_NONE;
    struct timespec until = moment(mono_ms() + wait_ms);
    int rc = 0;
    thread_must(pthread_mutex_lock(&clerk->lock));
    clerk->waiting++;
    thread_must(pthread_cond_signal(&clerk->work));
    while (atomic_load(&clerk->seq_filed) < seq && !atomic_load(&clerk->stopped) && rc == 0)
        rc = pthread_cond_timedwait(&clerk->filed, &clerk->lock, &until);
    clerk->waiting--;
    thread_must(pthread_mutex_unlock(&clerk->lock));
    if (atomic_load(&clerk->seq_filed) >= seq) return FAULT_NONE;
    return atomic_load(&clerk->stopped) ? FAULT_DAMAGE : FAULT_TIMEOUT;
}

void clerk_status(struct clerk *clerk, struct clerk_status *out)
{
    if (clerk->gate != NULL) {
        struct gate_status gate;
        gate_status(clerk->gate, &gate);
        *out = (struct clerk_status){ .seq_filed = gate.seq_filed, .failing = !gate.ledger_up };
        return;
    }
    *out = (struct clerk_status){
        .seq_filed = atomic_load(&clerk->seq_filed),
        .failing = atomic_load(&clerk->failing) || ledger_watch_health(clerk->place.watch) != LEDGER_WELL,
        .stopped = atomic_load(&clerk->stopped),
    };
}
