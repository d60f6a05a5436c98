#include "base/clock.h"

#include "base/log.h"

#include <assert.h>
#include <inttypes.h>
#include <stdbool.h>
#include <time.h>

#define NS_PER_MS UINT64_C(1000000)
#define SLEW_EVERY_NS (200 * NS_PER_MS)
#define FLOOR_AHEAD_MS_SAID 1000
#define READ_TRIES_MAX 100

static uint64_t clock_ns(clockid_t which)
{
    struct timespec t;
    int failed = clock_gettime(which, &t);
    assert(!failed);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

uint64_t mono_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

uint64_t mono_ms(void)
{
    return clock_ns(CLOCK_MONOTONIC) / NS_PER_MS;
}

uint64_t wall_ms(void)
{
    return clock_ns(CLOCK_REALTIME) / NS_PER_MS;
}

void clock_start(struct clock *clock, uint64_t floor_ms, uint64_t mono_ns, uint64_t wall_ms)
{
    clock->start_mono_ns = mono_ns;
    clock->start_wall_ms = wall_ms;
    atomic_init(&clock->slew_ms, 0);
    atomic_init(&clock->slewed_ns, mono_ns);
    atomic_init(&clock->last_ms, floor_ms);
}

/* The two clocks at one moment: where the core was lost between them they are read again, or we would be behind for good. */
static uint64_t clocks_read(uint64_t *wall)
{
    uint64_t mono = 0, gap = NS_PER_MS;
    for (int tries = 0; tries < READ_TRIES_MAX && gap >= NS_PER_MS; tries++) {
        mono = mono_ns();
        *wall = wall_ms();
        gap = mono_ns() - mono;
    }
    return mono;
}

void clock_init(struct clock *clock, uint64_t floor_ms)
{
    uint64_t wall, mono = clocks_read(&wall);
    if (floor_ms > wall + FLOOR_AHEAD_MS_SAID) {
        log_warn("clock", "the newest decision is %" PRIu64 " ms ahead of the system clock: decision time stands until then",
                 floor_ms - wall);
    }
    clock_start(clock, floor_ms, mono, wall);
}

static uint64_t clock_unclamped(struct clock *clock, uint64_t mono_ns)
{
    uint64_t elapsed_ms = mono_ns > clock->start_mono_ns ? (mono_ns - clock->start_mono_ns) / NS_PER_MS : 0;
    int64_t now = (int64_t)(clock->start_wall_ms + elapsed_ms) + atomic_load_explicit(&clock->slew_ms, memory_order_relaxed);
    return now > 0 ? (uint64_t)now : 0;
}

/* A thread may bring a reading older than another's last step: then nothing is due. */
static bool slew_due(uint64_t slewed_ns, uint64_t mono_ns)
{
    return mono_ns > slewed_ns && mono_ns - slewed_ns >= SLEW_EVERY_NS;
}

/* Whoever moves slewed_ns owns the span it moved over and may slew by what that span allows, so threads together never slew
 * faster than one alone. */
static void clock_slew(struct clock *clock, uint64_t mono_ns, uint64_t wall_ms)
{
    uint64_t slewed_ns = atomic_load_explicit(&clock->slewed_ns, memory_order_relaxed);
    if (!slew_due(slewed_ns, mono_ns)) return;
    if (!atomic_compare_exchange_strong(&clock->slewed_ns, &slewed_ns, mono_ns)) return;

    int64_t step_max = (int64_t)((mono_ns - slewed_ns) / SLEW_EVERY_NS);
    int64_t behind = (int64_t)(wall_ms - clock_unclamped(clock, mono_ns));
    if (behind > step_max) behind = step_max;
    if (behind < -step_max) behind = -step_max;
    atomic_fetch_add(&clock->slew_ms, behind);
}

static uint64_t clock_read(struct clock *clock, uint64_t mono_ns)
{
    uint64_t now = clock_unclamped(clock, mono_ns);
    uint64_t last = atomic_load_explicit(&clock->last_ms, memory_order_relaxed);
    while (last < now) {
        if (atomic_compare_exchange_weak(&clock->last_ms, &last, now)) return now;
    }
    return last;
}

uint64_t clock_advance(struct clock *clock, uint64_t mono_ns, uint64_t wall_ms)
{
    clock_slew(clock, mono_ns, wall_ms);
    return clock_read(clock, mono_ns);
}

/* Wall time is read only when a step is due: this runs for every grab. */
uint64_t clock_now_ms(struct clock *clock)
{
    uint64_t now_ns = mono_ns();
    uint64_t slewed_ns = atomic_load_explicit(&clock->slewed_ns, memory_order_relaxed);
    if (slew_due(slewed_ns, now_ns)) clock_slew(clock, now_ns, wall_ms());
    return clock_read(clock, now_ns);
}
