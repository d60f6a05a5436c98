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

/* Under half of what the server may have in all: what is made ready is never given back, and must not turn anybody away
 * (P9). */
static bool memory_is_plenty(const struct local *gate)
{
    const uint64_t max = gate->options.memory_bytes_max;
    return max == 0 || memory_resident() < max / 2;
}

/* False: the server stops, or what there is of memory is for those who come. */
static bool may_go_on(struct local *gate)
{
    if (atomic_load(&gate->ready.stop)) return false;
    if (memory_is_plenty(gate)) return true;
    if (!gate->ready.told)
        log_info("gate", "no more memory is made ready for crowds: more than half of memory_mb_max is in use");
    gate->ready.told = true;
    return false;
}

/* How far memory is wanted. False: the server stops. */
static bool work_await(struct local *gate, struct engine_reach *reach)
{
    thread_must(pthread_mutex_lock(&gate->ready.lock));
    while (!gate->ready.wanted && !atomic_load(&gate->ready.stop))
        thread_must(pthread_cond_wait(&gate->ready.work, &gate->ready.lock));
    gate->ready.wanted = false;
    *reach = gate->ready.reach;
    thread_must(pthread_mutex_unlock(&gate->ready.lock));
    return !atomic_load(&gate->ready.stop);
}

static void *ready_run(void *arg)
{
    struct local *gate = arg;
    thread_begin("ready");
    thread_be_nice("gate", READY_NICE);
    bool more = true;
    uint32_t part = 0;
    for (struct engine_reach reach; work_await(gate, &reach);) {
        while (more && may_go_on(gate)) more = engine_make_ready(gate->engine, part++);
        while (may_go_on(gate) && engine_make_orders_ready(gate->engine, &reach)) {
        }
    }
    return NULL;
}

void ready_init(struct local *gate)
{
    thread_must(pthread_mutex_init(&gate->ready.lock, NULL));
    thread_must(pthread_cond_init(&gate->ready.work, NULL));
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static struct engine_reach reach_joined(struct engine_reach a, struct engine_reach b)
{
    return (struct engine_reach){ .orders = larger(a.orders, b.orders),
                                  .texts = { larger(a.texts[0], b.texts[0]), larger(a.texts[1], b.texts[1]) } };
}

/* By whoever makes a sale, for the thread is niced, and might be put to sleep with the decision lock in its hand. */
void ready_look(struct local *gate, uint32_t units)
{
    uint32_t pages = gate->options.orders_max / BUCKETS_PER_PAGE;
    if (units < READY_UNITS_MIN || units < pages) return;
    pthread_mutex_lock(&gate->lock);
    const struct engine_reach reach = engine_reach(gate->engine, units < READY_ORDERS_MAX ? units : READY_ORDERS_MAX);
    pthread_mutex_unlock(&gate->lock);
    thread_must(pthread_mutex_lock(&gate->ready.lock));
    gate->ready.reach = reach_joined(gate->ready.reach, reach);
    gate->ready.wanted = true;
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
