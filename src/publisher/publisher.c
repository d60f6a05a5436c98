#include "publisher/publisher.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/random.h"
#include "base/secret_file.h"
#include "base/thread.h"
#include "courier/endpoint.h"
#include "publisher/batch.h"

#include <assert.h>
#include <inttypes.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define PUBLISHER_NICE 5
#define LOOK_MS 100
#define LOOK_RESTS 4 /* a look at very many that are held leaves the ledger to others for so many times as long */
#define COUNT_MS 2000
#define MOMENTS_MS 250
/* A decision reads the clock before it waits for its turn: what is told to have happened by time lies this far back. */
#define MOMENTS_MARGIN_MS 1000
#define MOMENTS_WAIT_MS 200
#define ADVANCE_MS 60000
#define LEDGER_WAIT_MS_MAX 1000
#define RETRY_MS_MIN 250
#define RETRY_MS_MAX 15000
/* After so many failures in a row, 2 s or 20 s by their kind, another node may have better luck; and so long it has to take
 * the job. */
#define GIVE_AWAY_FAILURES 4
#define GIVE_AWAY_MS 5000

_Static_assert(PUBLISHER_ERROR_BYTES == SINK_ERROR_BYTES && PUBLISHER_ERROR_BYTES == PUBLISH_MISTAKE_BYTES,
               "a failure of the sink fits, and a mistake in the URL");

struct publisher {
    struct gate *gate;
    struct clerk *clerk;
    struct publish_place place;
    struct ledger_place ledger_place;
    char password[PASSWORD_TEXT_BYTES];
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t stop;
    _Atomic bool closing;

    /* The thread's own. */
    struct ledger *ledger; /* NULL: not connected */
    struct sink *sink;     /* NULL: not connected */
    struct batch *batch;
    struct publishing_mark mark;
    struct ledger_fence fence;   /* by which it is ours to publish, where there are several machines */
    uint32_t failures;           /* in a row, of the broker */
    uint32_t ledger_failures;    /* in a row */
    uint64_t broker_ms;          /* monotonic: when it is tried again */
    uint64_t away_until_ms;      /* monotonic: the job is not asked for, for it was given away; 0: it was not */
    bool refused;                /* the broker could be reached when it last failed */
    bool ledger_told;            /* that the ledger fails */
    char told[SINK_ERROR_BYTES]; /* what was last said of the broker; empty: it works */
    uint32_t unwanted_told;      /* that events of these kinds are given back: a bit for each */
    uint64_t moments_ms, advance_ms, count_ms;

    _Atomic uint64_t waiting, oldest_ms, dropped;
    _Atomic bool failing;
};

/* The broker. */

static const struct backoff retries = { RETRY_MS_MIN, RETRY_MS_MAX };

static void broker_failed(struct publisher *publisher, const char *error)
{
    if (strcmp(publisher->told, error) != 0) {
        log_error("publisher", "nothing is published for now: %s; will try again", error);
        snprintf(publisher->told, sizeof publisher->told, "%s", error);
    }
    publisher->refused = publisher->sink != NULL;
    sink_close(publisher->sink);
    publisher->sink = NULL;
    uint32_t dice;
    random_bytes(&dice, sizeof dice);
    publisher->broker_ms = mono_ms() + backoff_ms(&retries, ++publisher->failures, dice);
    metrics_add(METRIC_PUBLISH_FAILED, 1);
    atomic_store(&publisher->failing, true);
    if (publisher->failures < GIVE_AWAY_FAILURES || !gate_give_away(publisher->gate, GATE_JOB_PUBLISHER)) return;
    if (publisher->failures == GIVE_AWAY_FAILURES)
        log_warn("publisher", "another node may publish, if it reaches the broker");
    publisher->away_until_ms = mono_ms() + GIVE_AWAY_MS;
}

static void broker_works(struct publisher *publisher)
{
    bool unwanted = publisher->batch->held.count > 0;
    if (publisher->told[0] != '\0')
        log_info("publisher", "publishing to %s again", publish_kind_word(publisher->place.kind));
    if (publisher->unwanted_told != 0 && !unwanted) {
        log_info("publisher", "what no queue wanted is taken now");
        publisher->unwanted_told = 0;
    }
    publisher->told[0] = '\0';
    publisher->failures = 0;
    publisher->away_until_ms = 0;
    atomic_store(&publisher->failing, unwanted);
}

static void unwanted_tell(struct publisher *publisher, const char *error)
{
    uint32_t kinds = publisher->batch->unwanted_kinds;
    if (kinds == 0) return;
    if ((kinds & ~publisher->unwanted_told) != 0)
        log_error("publisher", "%s; such events wait, with all that come after them for the same order; will try again",
                  error);
    publisher->unwanted_told |= kinds;
    metrics_add(METRIC_PUBLISH_FAILED, 1);
}

static bool broker_connect(struct publisher *publisher)
{
    if (publisher->sink != NULL) return true;
    if (mono_ms() < publisher->broker_ms) return false;
    char error[SINK_ERROR_BYTES] = "";
    const struct sink_options options = { &publisher->place, publisher->password, &publisher->closing };
    publisher->sink = sink_open(&options, error);
    if (publisher->sink == NULL) broker_failed(publisher, error);
    return publisher->sink != NULL;
}

static bool batch_hand_over(struct publisher *publisher)
{
    struct batch *batch = publisher->batch;
    for (size_t i = 0; i < batch->count; i++) {
        if (!sink_send(publisher->sink, &batch->messages[i])) return false;
    }
    return sink_confirm(publisher->sink, batch->messages, batch->count);
}

/* Deletes what has arrived, of a batch that has failed in part as well. */
static enum fault batch_publish(struct publisher *publisher)
{
    struct batch *batch = publisher->batch;
    bool good = batch_hand_over(publisher);
    char error[SINK_ERROR_BYTES];
    snprintf(error, sizeof error, "%s", publisher->sink->error);
    batch_settle(batch);
    if (good) {
        unwanted_tell(publisher, error);
        broker_works(publisher);
    } else {
        broker_failed(publisher, error);
    }
    if (batch->arrived_count == 0) return FAULT_NONE;
    metrics_add(METRIC_PUBLISHED, batch->arrived_count);
    return ledger_publications_delete(publisher->ledger, batch->arrived, batch->arrived_count);
}

/* The ledger. */

/* As the courier does for webhooks: asked of what is filed, and filed only when all that was decided by then is. */
static enum fault moments_file(struct publisher *publisher, uint64_t now_ms)
{
    struct publishing_mark *mark = &publisher->mark;
    struct outbox_span span = { mark->told_ms, now_ms > MOMENTS_MARGIN_MS ? now_ms - MOMENTS_MARGIN_MS : 0 };
    if (span.to_ms <= span.from_ms) return FAULT_NONE;
    bool any, advance = now_ms >= publisher->advance_ms;
    uint64_t seq = gate_seq_decided(publisher->gate);
    struct clerk_status clerk;
    clerk_status(publisher->clerk, &clerk);
    enum fault fault = ledger_publications_moments(publisher->ledger, span, &any);
    if (fault != FAULT_NONE) return fault;
    if (any) {
        if (clerk_wait(publisher->clerk, gate_seq_decided(publisher->gate), MOMENTS_WAIT_MS) != FAULT_NONE)
            return FAULT_NONE;
        fault = ledger_publications_file_moments(publisher->ledger, span);
        if (fault == FAULT_NONE) mark->told_ms = span.to_ms;
    } else if (advance && clerk.seq_filed >= seq) {
        /* Kept in mind only, so that an idle server writes nothing. */
        mark->told_ms = span.to_ms;
        publisher->advance_ms = now_ms + ADVANCE_MS;
    }
    return fault;
}

/* A node without publish has been started. That this one runs counts more: else a file that was forgotten on one machine
 * would end publishing on all. */
static enum fault publishing_keep(struct publisher *publisher)
{
    enum publishing_state before;
    const struct ledger_fence none = { .job = NULL }; /* whoever publishes, or would, may say so */
    ledger_set_fence(publisher->ledger, &none);
    enum fault fault = ledger_publishing_turn(publisher->ledger, PUBLISHING_ON, gate_now_ms(publisher->gate), &before);
    if (fault != FAULT_NONE || before == PUBLISHING_ON) return fault;
    log_error("publisher", "a node was started without publish; this one publishes on%s: give all nodes the same publish",
              before == PUBLISHING_OFF ? ", but what happened in between is not published" : "");
    return FAULT_NONE;
}

static enum fault count_take(struct publisher *publisher)
{
    struct publications_count count;
    enum fault fault = ledger_publications_count(publisher->ledger, &count);
    if (fault != FAULT_NONE) return fault;
    atomic_store(&publisher->waiting, count.waiting);
    atomic_store(&publisher->oldest_ms, count.oldest_ms);
    uint64_t before = atomic_exchange(&publisher->dropped, count.dropped);
    if (count.dropped > before)
        log_error("publisher", "%" PRIu64 " events are not published, for publish_waiting_max of them were waiting",
                  count.dropped - before);
    return count.state != PUBLISHING_ON ? publishing_keep(publisher) : FAULT_NONE;
}

static enum fault ledger_connect(struct publisher *publisher)
{
    if (publisher->ledger != NULL) return FAULT_NONE;
    enum fault fault = ledger_open(&publisher->ledger, &publisher->ledger_place, LEDGER_WRITER);
    if (fault != FAULT_NONE) return fault;
    ledger_set_patience(publisher->ledger, LEDGER_WAIT_MS_MAX);
    fault = ledger_publishing_mark(publisher->ledger, &publisher->mark);
    return fault;
}

/* The job that was given away is asked for again by who has reached the broker, after a while in which others could take it.
 * Where nobody reaches it nobody has the job, and nothing is lost: what is to be published waits in the ledger. */
static bool publisher_asks(const struct publisher *publisher)
{
    return publisher->away_until_ms == 0 || (publisher->sink != NULL && mono_ms() >= publisher->away_until_ms);
}

/* Where another machine may have published meanwhile, it begins as after a start. */
static enum fault publisher_owns(struct publisher *publisher, bool *owner)
{
    struct ledger_fence fence = publisher->fence;
    *owner = publisher_asks(publisher) && gate_owns(publisher->gate, GATE_JOB_PUBLISHER, &fence);
    bool anew = *owner && fence.number != publisher->fence.number;
    if (*owner) publisher->fence = fence;
    ledger_set_fence(publisher->ledger, &fence);
    if (anew || (!*owner && publisher->batch->held.count > 0)) batch_init(publisher->batch);
    return anew ? ledger_publishing_mark(publisher->ledger, &publisher->mark) : FAULT_NONE;
}

static void ledger_failed(struct publisher *publisher)
{
    if (publisher->ledger != NULL) ledger_close(publisher->ledger);
    publisher->ledger = NULL;
    publisher->ledger_failures++;
    if (!publisher->ledger_told) log_warn("publisher", "the ledger fails, will try again");
    publisher->ledger_told = true;
}

/* One that refused what it was sent has to take something before it is good again, unless another node has got the job. */
static bool broker_satisfies(const struct publisher *publisher)
{
    return !publisher->refused || mono_ms() >= publisher->away_until_ms + GIVE_AWAY_MS;
}

/* *more: whether there may be something to send at once. */
static enum fault publisher_turn(struct publisher *publisher, bool *more)
{
    *more = false;
    bool owner = false;
    uint64_t now_ms = gate_now_ms(publisher->gate);
    enum fault fault = ledger_connect(publisher);
    if (fault == FAULT_NONE && now_ms >= publisher->count_ms) {
        publisher->count_ms = now_ms + COUNT_MS;
        fault = count_take(publisher);
    }
    if (fault == FAULT_NONE) fault = publisher_owns(publisher, &owner);
    if (fault == FAULT_NONE && owner && now_ms >= publisher->moments_ms) {
        publisher->moments_ms = now_ms + MOMENTS_MS;
        fault = moments_file(publisher, now_ms);
    }
    if (fault != FAULT_NONE) return fault;
    publisher->ledger_told = false;
    publisher->ledger_failures = 0;
    /* Also with nothing to send: a mistake in the URL is to be told at the start, not in the middle of a sale. */
    if (!broker_connect(publisher)) return FAULT_NONE;
    struct batch *batch = publisher->batch;
    const struct batch_source source = { publisher->ledger, publisher->mark.name, &publisher->closing };
    batch->count = batch->look_ms = 0;
    if (owner) fault = batch_read(batch, &source);
    if (fault != FAULT_NONE) return fault;
    if (batch->count == 0) {
        if (owner) batch_settle(batch);
        if (owner || broker_satisfies(publisher)) broker_works(publisher);
        return FAULT_NONE;
    }
    fault = batch_publish(publisher);
    *more = fault == FAULT_NONE && publisher->failures == 0 && batch->look_ms < LOOK_MS;
    return fault;
}

/* For so long, or until it is to stop. */
static void publisher_rest(struct publisher *publisher, uint64_t ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    uint64_t ns = (uint64_t)until.tv_nsec + ms % 1000 * 1000000;
    until.tv_sec += (time_t)(ms / 1000 + ns / 1000000000);
    until.tv_nsec = (long)(ns % 1000000000);
    thread_must(pthread_mutex_lock(&publisher->lock));
    while (!atomic_load(&publisher->closing) && pthread_cond_timedwait(&publisher->stop, &publisher->lock, &until) == 0) {
    }
    thread_must(pthread_mutex_unlock(&publisher->lock));
}

/* How long it may rest, if there is nothing to send. While the broker fails the ledger is looked at all the same. */
static uint64_t rest_of(const struct publisher *publisher)
{
    uint32_t dice;
    random_bytes(&dice, sizeof dice);
    if (publisher->ledger_failures > 0) return backoff_ms(&retries, publisher->ledger_failures, dice);
    uint64_t now_ms = mono_ms(), rest_ms = LOOK_MS + publisher->batch->look_ms * LOOK_RESTS;
    if (publisher->sink != NULL || publisher->broker_ms <= now_ms) return rest_ms;
    uint64_t left_ms = publisher->broker_ms - now_ms;
    return left_ms < COUNT_MS ? left_ms : COUNT_MS;
}

static void *publisher_run(void *arg)
{
    struct publisher *publisher = arg;
    thread_be_nice("publisher", PUBLISHER_NICE);
    while (!atomic_load(&publisher->closing)) {
        bool more;
        enum fault fault = publisher_turn(publisher, &more);
        if (fault == FAULT_FENCED) gate_disown(publisher->gate, GATE_JOB_PUBLISHER, &publisher->fence);
        if (fault != FAULT_NONE && fault != FAULT_FENCED) ledger_failed(publisher);
        if (!more) publisher_rest(publisher, rest_of(publisher));
    }
    sink_close(publisher->sink);
    if (publisher->ledger != NULL) ledger_close(publisher->ledger);
    return NULL;
}

static void publisher_free(struct publisher *publisher)
{
    thread_must(pthread_cond_destroy(&publisher->stop));
    thread_must(pthread_mutex_destroy(&publisher->lock));
    OPENSSL_cleanse(publisher->password, sizeof publisher->password);
    OPENSSL_cleanse(&publisher->ledger_place, sizeof publisher->ledger_place);
    free(publisher->batch);
    free(publisher);
}

static enum fault password_take(char out[PASSWORD_TEXT_BYTES], const char *path)
{
    const struct password_source source = { "publisher", "password of the queue", path, "STAMPEDE_PUBLISH_PASSWORD" };
    return password_find(out, &source);
}

/* Signals belong to the main thread. */
static bool thread_start(struct publisher *publisher)
{
    sigset_t all, before;
    sigfillset(&all);
    thread_must(pthread_sigmask(SIG_SETMASK, &all, &before));
    bool good = pthread_create(&publisher->thread, NULL, publisher_run, publisher) == 0;
    thread_must(pthread_sigmask(SIG_SETMASK, &before, NULL));
    if (good) (void)pthread_setname_np(publisher->thread, "publisher");
    if (!good) log_error("publisher", "cannot start its thread");
    return good;
}

enum fault publisher_open(struct publisher **out, const struct publisher_options *options, struct gate *gate,
                          struct clerk *clerk)
{
    *out = NULL;
    char mistake[PUBLISH_MISTAKE_BYTES];
    struct publish_place place;
    bool reads = publish_place_parse(&place, slice_of(options->url), mistake);
    assert(reads); /* the table of options has looked */
    if (place.kind == PUBLISH_OFF) return FAULT_NONE;
    struct publisher *publisher = calloc(1, sizeof *publisher);
    if (publisher == NULL) return FAULT_MEMORY;
    publisher->gate = gate;
    publisher->clerk = clerk;
    publisher->place = place;
    pthread_condattr_t monotonic;
    thread_must(pthread_condattr_init(&monotonic));
    thread_must(pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC));
    thread_must(pthread_cond_init(&publisher->stop, &monotonic));
    thread_must(pthread_condattr_destroy(&monotonic));
    thread_must(pthread_mutex_init(&publisher->lock, NULL));
    publisher->ledger_place = *options->ledger;
    publisher->batch = calloc(1, sizeof *publisher->batch);
    enum fault fault = publisher->batch != NULL ? FAULT_NONE : FAULT_MEMORY;
    if (fault == FAULT_NONE) batch_init(publisher->batch);
    if (fault == FAULT_NONE) fault = password_take(publisher->password, options->password_file);
    if (fault == FAULT_NONE && !thread_start(publisher)) fault = FAULT_MEMORY;
    if (fault != FAULT_NONE) {
        publisher_free(publisher);
        return fault;
    }
    *out = publisher;
    return FAULT_NONE;
}

void publisher_close(struct publisher *publisher)
{
    if (publisher == NULL) return;
    thread_must(pthread_mutex_lock(&publisher->lock));
    atomic_store(&publisher->closing, true);
    thread_must(pthread_cond_signal(&publisher->stop));
    thread_must(pthread_mutex_unlock(&publisher->lock));
    thread_must(pthread_join(publisher->thread, NULL));
    publisher_free(publisher);
}

void publisher_status(struct publisher *publisher, struct publisher_status *out)
{
    *out = (struct publisher_status){ .waiting = 0 };
    if (publisher == NULL) return;
    uint64_t oldest_ms = atomic_load(&publisher->oldest_ms), now_ms = gate_now_ms(publisher->gate);
    *out = (struct publisher_status){
        .waiting = atomic_load(&publisher->waiting),
        .dropped = atomic_load(&publisher->dropped),
        .oldest_ms = oldest_ms != 0 && oldest_ms < now_ms ? now_ms - oldest_ms : 0,
        .failing = atomic_load(&publisher->failing),
    };
}

bool publisher_try(const char *url, const char *password_file, char error[PUBLISHER_ERROR_BYTES])
{
    static const _Atomic bool closing = false;
    struct publish_place place;
    char password[PASSWORD_TEXT_BYTES];
    if (!publish_place_parse(&place, slice_of(url), error)) return false;
    if (place.kind == PUBLISH_OFF) return true;
    if (password_take(password, password_file) != FAULT_NONE) {
        snprintf(error, PUBLISHER_ERROR_BYTES, "its password cannot be read");
        return false;
    }
    const struct sink_options options = { &place, password, &closing };
    struct sink *sink = sink_open(&options, error);
    sink_close(sink);
    OPENSSL_cleanse(password, sizeof password);
    return sink != NULL;
}
