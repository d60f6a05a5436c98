#include "guard/shed.h"

#include "base/log.h"

#include <assert.h>
#include <inttypes.h>
#include <stddef.h>

#define NEVER UINT32_MAX

/* on: the share in percent that raises to each level; low: by how much a share must be under it to sink again. */
static const struct {
    const char *name;
    size_t max_at, load_at; /* in struct shed_numbers, struct shed_load */
    uint32_t on[SHED_LEVELS];
    uint32_t low;
} rows[SHED_THINGS] = {
#define AT(max, load) offsetof(struct shed_numbers, max), offsetof(struct shed_load, load)
    { "decisions not yet durable", AT(commit_lag_max, commit_lag), { 0, 70, 85, 100 }, 15 },
    { "milliseconds a decision waits for the disk", AT(commit_age_ms_max, commit_age_ms), { 0, 70, 85, 100 }, 15 },
    { "decisions not yet filed", AT(clerk_lag_max, clerk_lag), { 0, 100, NEVER, NEVER }, 15 },
    { "bytes of memory", AT(memory_bytes_max, memory_bytes), { 0, 90, 95, 98 }, 3 },
    { "requests under way", AT(requests_max, requests), { 0, 70, 85, 100 }, 15 },
#undef AT
};

static const char *const level_words[SHED_LEVELS] = { "nobody is turned away", "queries are turned away",
                                                      "all but grabs are turned away", "everybody is turned away" };

/* The level from which a class is turned away. */
static const enum shed_level class_levels[] = {
    [SHED_GRAB] = SHED_GRABS,      [SHED_QUERY] = SHED_QUERIES, [SHED_LOGIN] = SHED_WRITES,
    [SHED_REGISTER] = SHED_WRITES, [SHED_WRITE] = SHED_WRITES,
};

void shed_init(struct shed *shed, const struct shed_numbers *numbers)
{
    shed->numbers = *numbers;
    atomic_init(&shed->memory_bytes_max, numbers->memory_bytes_max);
    atomic_init(&shed->memory_short, false);
    atomic_init(&shed->level, SHED_NOTHING);
    atomic_init(&shed->turn, 0);
    for (size_t i = 0; i < SHED_THINGS; i++) {
        shed->things[i].level = SHED_NOTHING;
        shed->things[i].calm_ms = UINT64_MAX;
    }
}

void shed_set_memory(struct shed *shed, uint64_t bytes_max)
{
    atomic_store_explicit(&shed->memory_bytes_max, bytes_max, memory_order_relaxed);
}

bool shed_turn(struct shed *shed, uint64_t now_ms)
{
    uint64_t turn = atomic_load_explicit(&shed->turn, memory_order_relaxed);
    if ((turn & 1) != 0 || turn >> 1 > now_ms) return false;
    return atomic_compare_exchange_strong_explicit(&shed->turn, &turn, turn | 1, memory_order_acquire, memory_order_relaxed);
}

static uint64_t number_at(const void *from, size_t offset)
{
    return *(const uint64_t *)(const void *)((const char *)from + offset);
}

/* In percent, rounded down. */
static uint32_t share_of(uint64_t value, uint64_t max)
{
    if (max == 0) return 0;
    if (value / 10 >= max) return 1000;
    uint64_t share = value > UINT64_MAX / 100 ? value / (max / 100) : value * 100 / max;
    return share < 1000 ? (uint32_t)share : 1000;
}

/* The level of one thing, after what it was. */
static enum shed_level thing_weigh(struct shed *shed, size_t row, uint32_t share, uint64_t now_ms)
{
    enum shed_level level = shed->things[row].level, raised = SHED_NOTHING;
    for (enum shed_level at = SHED_QUERIES; at < SHED_LEVELS; at++) {
        if (share >= rows[row].on[at]) raised = at;
    }
    uint64_t *calm_ms = &shed->things[row].calm_ms;
    if (raised >= level || share + rows[row].low >= rows[row].on[level]) {
        *calm_ms = UINT64_MAX;
        level = raised > level ? raised : level;
    } else if (*calm_ms == UINT64_MAX || *calm_ms > now_ms) {
        *calm_ms = now_ms;
    } else if (now_ms - *calm_ms >= SHED_CALM_MS) {
        level--;
        *calm_ms = now_ms;
    }
    shed->things[row].level = level;
    return level;
}

void shed_weigh(struct shed *shed, const struct shed_load *load, uint64_t now_ms)
{
    assert((atomic_load_explicit(&shed->turn, memory_order_relaxed) & 1) != 0);
    enum shed_level before = shed_level(shed), level = SHED_NOTHING;
    size_t cause = 0;
    shed->numbers.memory_bytes_max = atomic_load_explicit(&shed->memory_bytes_max, memory_order_relaxed);
    for (size_t i = 0; i < SHED_THINGS; i++) {
        uint32_t share = share_of(number_at(load, rows[i].load_at), number_at(&shed->numbers, rows[i].max_at));
        enum shed_level mine = thing_weigh(shed, i, share, now_ms);
        if (rows[i].load_at == offsetof(struct shed_load, memory_bytes))
            atomic_store_explicit(&shed->memory_short, mine > SHED_NOTHING, memory_order_relaxed);
        if (mine > level) cause = i;
        if (mine > level) level = mine;
    }
    if (level != before) {
        atomic_store_explicit(&shed->level, level, memory_order_relaxed);
        if (level == SHED_NOTHING) {
            log_info("guard", "%s any more", level_words[level]);
        } else {
            log_warn("guard", "%s: %" PRIu64 " %s, of %" PRIu64, level_words[level], number_at(load, rows[cause].load_at),
                     rows[cause].name, number_at(&shed->numbers, rows[cause].max_at));
        }
    }
    atomic_store_explicit(&shed->turn, (now_ms + SHED_PAUSE_MS) << 1, memory_order_release);
}

enum shed_level shed_level(const struct shed *shed)
{
    return (enum shed_level)atomic_load_explicit(&shed->level, memory_order_relaxed);
}

bool shed_memory_short(const struct shed *shed)
{
    return atomic_load_explicit(&shed->memory_short, memory_order_relaxed);
}

bool shed_refuses(const struct shed *shed, enum shed_class class)
{
    return shed_level(shed) >= class_levels[class];
}
