/* Memory for a crowd, before it comes.
 *
 * Where a buyer is looked for lies anywhere in the index by buyer. Untouched, each of its pages costs two faults: the look
 * finds the system's page of zeros, and the win has it replaced, for which every processor that runs a thread of ours is
 * interrupted. That is the first seconds of a sale, under the lock. In huge pages a win of a pipeline also takes a
 * reactor up to a tenth less. On a machine whose memory is in pieces it may take the system a second to find them: so a
 * thread does it that nobody waits for. A shop that sells little is not made larger for it. */
#include "base/log.h"
#include "base/memory.h"
#include "base/thread.h"
#include "gate/local/local.h"

#include <signal.h>

#define READY_NICE 10
/* Of a page of the index: as many units as it has pages are enough to touch most of them. */
#define BUCKETS_PER_PAGE 1024
#define READY_UNITS_MIN 1024

/* Under half of what the server may have in all: what is made ready is never given back, and must not turn anybody away
 * (P9). */
static bool memory_is_plenty(const struct local *gate)
{
    const uint64_t max = gate->options.memory_bytes_max;
    return max == 0 || memory_resident() < max / 2;
}

static void *ready_run(void *arg)
{
    struct local *gate = arg;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    pthread_setname_np(pthread_self(), "ready");
    thread_be_nice("gate", READY_NICE);
    for (uint32_t part = 0; !atomic_load(&gate->ready.stop); part++) {
        if (!memory_is_plenty(gate)) {
            log_info("gate", "memory is not made ready for a crowd: more than half of memory_mb_max is in use");
            break;
        }
        if (!engine_make_ready(gate->engine, part)) break;
    }
    return NULL;
}

void ready_look(struct local *gate, uint32_t units)
{
    uint32_t pages = gate->options.orders_max / BUCKETS_PER_PAGE;
    if (units < READY_UNITS_MIN || units < pages) return;
    if (atomic_load_explicit(&gate->ready.begun, memory_order_relaxed) || atomic_exchange(&gate->ready.begun, true)) return;
    gate->ready.runs = pthread_create(&gate->ready.thread, NULL, ready_run, gate) == 0;
    if (!gate->ready.runs) log_warn("gate", "no thread to make memory ready: it comes as it is touched");
}

void ready_close(struct local *gate)
{
    atomic_store(&gate->ready.stop, true);
    if (gate->ready.runs) thread_must(pthread_join(gate->ready.thread, NULL));
}
