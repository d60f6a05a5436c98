/* Memory for a crowd, before it comes.
 *
 * Where a buyer is looked for lies anywhere in the index by buyer. Untouched, each of its pages costs two faults: the look
 * finds the system's page of zeros, and the win has it replaced, for which every processor that runs a thread of ours is
 * interrupted. That is the first seconds of a sale, under the lock. In huge pages a win of a pipeline also takes a
 * reactor up to a tenth less. On a machine whose memory is in pieces it may take the system a second to find them. What the
 * orders themselves are written into is touched page by page; but a page that the system, or the host of a virtual machine,
 * has to find and clear first was seen to be a sixth of a reactor's time. So a thread does both that nobody waits for. A
 * shop that sells little is not made larger for it. */
#include "base/log.h"
#include "base/memory.h"
#include "base/thread.h"
#include "gate/local/local.h"

#define READY_NICE 10
/* Of a page of the index: as many units as it has pages are enough to touch most of them. */
#define BUCKETS_PER_PAGE 1024
#define READY_UNITS_MIN 1024
/* Some 60 MB; a crowd that takes more brings the rest itself. */
#define READY_ORDERS_MAX (1u << 19)
#define STEP_BYTES ((size_t)2 << 20)

/* Under half of what the server may have in all: what is made ready is never given back, and must not turn anybody away
 * (P9). */
static bool memory_is_plenty(const struct local *gate)
{
    const uint64_t max = gate->options.memory_bytes_max;
    return max == 0 || memory_resident() < max / 2;
}

static bool may_go_on(const struct local *gate)
{
    return !atomic_load(&gate->ready.stop) && memory_is_plenty(gate);
}

static void orders_make_ready(struct local *gate, uint32_t units)
{
    struct pool_ahead ahead[ENGINE_AHEAD];
    pthread_mutex_lock(&gate->lock);
    engine_expect_orders(gate->engine, units < READY_ORDERS_MAX ? units : READY_ORDERS_MAX, ahead);
    pthread_mutex_unlock(&gate->lock);
    for (struct pool_ahead *it = ahead; it < ahead + ENGINE_AHEAD; it++) {
        for (size_t at = it->begin; at < it->end && may_go_on(gate); at += STEP_BYTES) {
            if (!region_populate(it->region, at, at + STEP_BYTES < it->end ? at + STEP_BYTES : it->end)) return;
        }
    }
}

/* The units of a sale for which memory is wanted; 0: there will be none. */
static uint32_t work_await(struct local *gate)
{
    thread_must(pthread_mutex_lock(&gate->ready.lock));
    while (gate->ready.units == 0 && !atomic_load(&gate->ready.stop))
        thread_must(pthread_cond_wait(&gate->ready.work, &gate->ready.lock));
    uint32_t units = atomic_load(&gate->ready.stop) ? 0 : gate->ready.units;
    gate->ready.units = 0;
    thread_must(pthread_mutex_unlock(&gate->ready.lock));
    return units;
}

static void *ready_run(void *arg)
{
    struct local *gate = arg;
    thread_begin("ready");
    thread_be_nice("gate", READY_NICE);
    bool index_waits = true, told = false;
    uint32_t part = 0, units;
    while ((units = work_await(gate)) > 0) {
        while (index_waits && may_go_on(gate)) index_waits = engine_make_ready(gate->engine, part++);
        if (may_go_on(gate)) orders_make_ready(gate, units);
        if (told || memory_is_plenty(gate)) continue;
        log_info("gate", "memory is not made ready for a crowd: more than half of memory_mb_max is in use");
        told = true;
    }
    return NULL;
}

void ready_init(struct local *gate)
{
    thread_must(pthread_mutex_init(&gate->ready.lock, NULL));
    thread_must(pthread_cond_init(&gate->ready.work, NULL));
}

void ready_look(struct local *gate, uint32_t units)
{
    uint32_t pages = gate->options.orders_max / BUCKETS_PER_PAGE;
    if (units < READY_UNITS_MIN || units < pages) return;
    thread_must(pthread_mutex_lock(&gate->ready.lock));
    if (units > gate->ready.units) gate->ready.units = units;
    if (!gate->ready.begun) {
        gate->ready.begun = true;
        gate->ready.runs = pthread_create(&gate->ready.thread, NULL, ready_run, gate) == 0;
        if (!gate->ready.runs) log_warn("gate", "no thread to make memory ready: it comes as it is touched");
    }
    thread_must(pthread_cond_signal(&gate->ready.work));
    thread_must(pthread_mutex_unlock(&gate->ready.lock));
}

void ready_close(struct local *gate)
{
    thread_must(pthread_mutex_lock(&gate->ready.lock));
    atomic_store(&gate->ready.stop, true);
    thread_must(pthread_cond_signal(&gate->ready.work));
    thread_must(pthread_mutex_unlock(&gate->ready.lock));
    if (gate->ready.runs) thread_must(pthread_join(gate->ready.thread, NULL));
    thread_must(pthread_cond_destroy(&gate->ready.work));
    thread_must(pthread_mutex_destroy(&gate->ready.lock));
}
