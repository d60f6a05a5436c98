#include "publisher/publisher.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/random.h"
#include "base/secret_file.h"
#include "base/thread.h"
#include "courier/endpoint.h"
#include "courier/message.h"
#include "ledger/publications.h"
#include "publisher/sink.h"

#include <assert.h>
#include <inttypes.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define PUBLISHER_NICE 5
#define BATCH_MAX 500
#define LOOK_MS 100
#define COUNT_MS 2000
#define MOMENTS_MS 250
/* A decision reads the clock before it waits for its turn: what is told to have happened by time lies this far back. */
#define MOMENTS_MARGIN_MS 1000
#define MOMENTS_WAIT_MS 200
#define ADVANCE_MS 60000
#define LEDGER_WAIT_MS_MAX 1000
#define RETRY_MS_MIN 250
#define RETRY_MS_MAX 15000

_Static_assert(PUBLISHER_ERROR_BYTES == SINK_ERROR_BYTES && PUBLISHER_ERROR_BYTES == PUBLISH_MISTAKE_BYTES,
               "a failure of the sink fits, and a mistake in the URL");

/* What is under way. A batch has one event of an order at most: if only a part of it arrives, and the rest is sent again,
 * no event has overtaken another of its order. */
struct batch {
    struct notice notices[BATCH_MAX];
    struct sink_message messages[BATCH_MAX];
    char bodies[BATCH_MAX][MESSAGE_BYTES_MAX];
    uint64_t arrived[BATCH_MAX];
    size_t count;
};

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
    uint32_t failures;           /* in a row, of the ledger or of the broker */
    bool ledger_told;            /* that the ledger fails */
    char told[SINK_ERROR_BYTES]; /* what was last said of the broker; empty: it works */
    uint64_t moments_ms, advance_ms, count_ms;

    _Atomic uint64_t waiting, oldest_ms, dropped;
    _Atomic bool failing;
};

/* One event as it goes out. */

static void message_key(char out[SINK_KEY_BYTES], const struct notice *notice)
{
    if (notice->order_no != 0) {
        snprintf(out, SINK_KEY_BYTES, "%" PRIu64, notice->order_no);
    } else {
        snprintf(out, SINK_KEY_BYTES, "sale:%" PRIu64, notice->sale_id);
    }
}

/* *there is false for an event whose order is gone, of which nothing can be told. */
static enum fault message_make(struct publisher *publisher, size_t at, bool *there)
{
    const struct notice *notice = &publisher->batch->notices[at];
    struct sink_message *message = &publisher->batch->messages[at];
    struct ledger_order order;
    *there = true;
    enum fault fault = notice->order_no != 0 ? ledger_order(publisher->ledger, notice->order_no, &order, there) : FAULT_NONE;
    if (fault != FAULT_NONE || !*there) return fault;
    *message = (struct sink_message){ .type = notice_kind_word(notice->kind), .at_ms = notice->at_ms };
    message_key(message->key, notice);
    snprintf(message->id, sizeof message->id, "evt_%s_%" PRIu64, publisher->mark.name, notice->id);
    char *body = publisher->batch->bodies[at];
    message->body = (struct slice){ body, message_render(body, notice, &order) };
    return FAULT_NONE;
}

static bool same_stream(const struct notice *a, const struct notice *b)
{
    return a->order_no == b->order_no && (a->order_no != 0 || a->sale_id == b->sale_id);
}

struct look {
    struct batch *batch;
    bool full;
};

static void batch_take(void *arg, const struct notice *notice)
{
    struct look *look = arg;
    struct batch *batch = look->batch;
    for (size_t i = 0; i < batch->count && !look->full; i++) look->full = same_stream(&batch->notices[i], notice);
    if (look->full || batch->count == BATCH_MAX) return;
    batch->notices[batch->count++] = *notice;
}

static enum fault batch_read(struct publisher *publisher)
{
    struct batch *batch = publisher->batch;
    struct look look = { .batch = batch };
    batch->count = 0;
    enum fault fault = ledger_publications(publisher->ledger, BATCH_MAX, batch_take, &look);
    if (fault != FAULT_NONE) return fault;
    size_t kept = 0;
    for (size_t i = 0; i < batch->count; i++) {
        bool there;
        batch->notices[kept] = batch->notices[i];
        fault = message_make(publisher, kept, &there);
        if (fault != FAULT_NONE) return fault;
        if (there) {
            kept++;
            continue;
        }
        uint64_t id = batch->notices[kept].id;
        log_error("publisher", "event %" PRIu64 " tells of order %" PRIu64 ", which is not in the ledger: it is left out",
                  id, batch->notices[kept].order_no);
        fault = ledger_publications_delete(publisher->ledger, &id, 1);
        if (fault != FAULT_NONE) return fault;
    }
    batch->count = kept;
    return FAULT_NONE;
}

/* The broker. */

static void broker_failed(struct publisher *publisher, const char *error)
{
    if (strcmp(publisher->told, error) != 0) {
        log_error("publisher", "nothing is published for now: %s; will try again", error);
        snprintf(publisher->told, sizeof publisher->told, "%s", error);
    }
    sink_close(publisher->sink);
    publisher->sink = NULL;
    publisher->failures++;
    metrics_add(METRIC_PUBLISH_FAILED, 1);
    atomic_store(&publisher->failing, true);
}

static void broker_works(struct publisher *publisher)
{
    if (publisher->told[0] != '\0')
        log_info("publisher", "publishing to %s again", publish_kind_word(publisher->place.kind));
    publisher->told[0] = '\0';
    publisher->failures = 0;
    atomic_store(&publisher->failing, false);
}

static bool broker_connect(struct publisher *publisher)
{
    if (publisher->sink != NULL) return true;
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
    for (size_t i = 0; i < batch->count; i++) batch->messages[i].fate = SINK_SENT;
    bool good = batch_hand_over(publisher);
    char error[SINK_ERROR_BYTES];
    if (!good) {
        snprintf(error, sizeof error, "%s", publisher->sink->error);
        broker_failed(publisher, error);
    }
    size_t arrived = 0;
    for (size_t i = 0; i < batch->count; i++) {
        if (batch->messages[i].fate == SINK_CONFIRMED) batch->arrived[arrived++] = batch->notices[i].id;
    }
    if (good) broker_works(publisher);
    if (arrived == 0) return FAULT_NONE;
    metrics_add(METRIC_PUBLISHED, arrived);
    return ledger_publications_delete(publisher->ledger, batch->arrived, arrived);
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
    return FAULT_NONE;
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

/* Where another machine may have published meanwhile, it begins as after a start. */
static enum fault publisher_owns(struct publisher *publisher, bool *owner)
{
    struct ledger_fence fence;
    *owner = gate_owns(publisher->gate, GATE_JOB_PUBLISHER, &fence);
    bool anew = *owner && fence.number != publisher->fence.number;
    if (*owner) publisher->fence = fence;
    ledger_set_fence(publisher->ledger, &fence);
    return anew ? ledger_publishing_mark(publisher->ledger, &publisher->mark) : FAULT_NONE;
}

static void ledger_failed(struct publisher *publisher)
{
    if (publisher->ledger != NULL) ledger_close(publisher->ledger);
    publisher->ledger = NULL;
    publisher->failures++;
    if (!publisher->ledger_told) log_warn("publisher", "the ledger fails, will try again");
    publisher->ledger_told = true;
}

/* *more: whether there may be something to send at once. */
static enum fault publisher_turn(struct publisher *publisher, bool *more)
{
    *more = false;
    bool owner = false;
    uint64_t now_ms = gate_now_ms(publisher->gate);
    enum fault fault = ledger_connect(publisher);
    if (fault == FAULT_NONE) fault = publisher_owns(publisher, &owner);
    if (fault == FAULT_NONE && owner && now_ms >= publisher->moments_ms) {
        publisher->moments_ms = now_ms + MOMENTS_MS;
        fault = moments_file(publisher, now_ms);
    }
    if (fault == FAULT_NONE && now_ms >= publisher->count_ms) {
        publisher->count_ms = now_ms + COUNT_MS;
        fault = count_take(publisher);
    }
    if (fault != FAULT_NONE) return fault;
    publisher->ledger_told = false;
    /* Also with nothing to send: a mistake in the URL is to be told at the start, not in the middle of a sale. */
    if (!broker_connect(publisher)) return FAULT_NONE;
    publisher->batch->count = 0;
    if (owner) fault = batch_read(publisher);
    if (fault != FAULT_NONE) return fault;
    if (publisher->batch->count == 0) {
        broker_works(publisher);
        return FAULT_NONE;
    }
    fault = batch_publish(publisher);
    *more = fault == FAULT_NONE && publisher->failures == 0;
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

static void *publisher_run(void *arg)
{
    struct publisher *publisher = arg;
    static const struct backoff backoff = { RETRY_MS_MIN, RETRY_MS_MAX };
    thread_be_nice("publisher", PUBLISHER_NICE);
    while (!atomic_load(&publisher->closing)) {
        bool more;
        uint32_t dice;
        enum fault fault = publisher_turn(publisher, &more);
        if (fault == FAULT_FENCED) gate_disown(publisher->gate, GATE_JOB_PUBLISHER, &publisher->fence);
        if (fault != FAULT_NONE && fault != FAULT_FENCED) ledger_failed(publisher);
        random_bytes(&dice, sizeof dice);
        if (!more)
            publisher_rest(publisher, publisher->failures > 0 ? backoff_ms(&backoff, publisher->failures, dice) : LOOK_MS);
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
