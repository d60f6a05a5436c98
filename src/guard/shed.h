/* shed: whom to turn away when the machine cannot keep up: queries first, then writes, logins and registrations, grabs last.
 *
 * Each thing that can fall behind is a share of its maximum. A share over a mark raises the level of that thing at once; it
 * sinks by one level at a time, after the share has stayed well under the mark for a while, so that the door does not flap.
 * The level that counts is the highest.
 *
 *   level   turned away               commit, requests    clerk    memory
 *   1       queries                         70 %           100 %     90 %
 *   2       all but grabs                   85 %             -       95 %
 *   3       grabs too                      100 %             -       98 %
 *
 * The clerk turns away queries only: a sale goes on while the ledger is down, and its seller can still pause it.
 *
 * shed_refuses() is one load, any thread. The weighing is done by whoever has the turn, about every 50 ms. Time is a
 * parameter, monotonic. */
#ifndef STAMPEDE_GUARD_SHED_H
#define STAMPEDE_GUARD_SHED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SHED_PAUSE_MS 50
#define SHED_CALM_MS 500 /* how long a share must have stayed low before its level sinks by one */
#define SHED_RETRY_AFTER_S 1

enum shed_class { SHED_GRAB, SHED_QUERY, SHED_LOGIN, SHED_REGISTER, SHED_WRITE };
enum shed_level { SHED_NOTHING, SHED_QUERIES, SHED_WRITES, SHED_GRABS, SHED_LEVELS };

/* What each thing may come to; 0: it is not judged. */
struct shed_numbers {
    uint64_t commit_lag_max;    /* decisions made and not yet durable */
    uint64_t commit_age_ms_max; /* of the oldest of them */
    uint64_t clerk_lag_max;     /* decisions durable and not yet filed */
    uint64_t memory_bytes_max;
    uint64_t requests_max; /* under way; those parked on purpose are not */
};
#define SHED_NUMBERS_DEFAULT                                                                                                \
    ((struct shed_numbers){                                                                                                 \
        .commit_lag_max = 50000, .commit_age_ms_max = 1000, .clerk_lag_max = 1000000, .requests_max = 20000 })

/* The same things, as they are now. */
struct shed_load {
    uint64_t commit_lag, commit_age_ms, clerk_lag, memory_bytes, requests;
};

#define SHED_THINGS 5
struct shed {
    struct shed_numbers numbers;
    _Atomic uint64_t memory_bytes_max; /* of numbers, which may change */
    _Atomic uint32_t level;            /* what shed_refuses() reads; alone on its line, because every request does */
    char apart[124];
    _Atomic bool memory_short; /* memory alone would turn somebody away */
    _Atomic uint64_t turn;     /* bit 0: somebody is weighing; the rest: when the next turn is, in ms */
    struct {
        enum shed_level level;
        uint64_t calm_ms;  /* since when the share has been low enough for the level below; UINT64_MAX: it is not */
    } things[SHED_THINGS]; /* of whoever has the turn */
};

/* Before any other thread knows of it. */
void shed_init(struct shed *shed, const struct shed_numbers *numbers);

/* A new cap for memory, 0 for none; any thread, at any time. */
void shed_set_memory(struct shed *shed, uint64_t bytes_max);

/* True for one caller in SHED_PAUSE_MS, who then gathers the load and calls shed_weigh(). */
bool shed_turn(struct shed *shed, uint64_t now_ms);
/* Only after shed_turn() said true; gives the turn back. */
void shed_weigh(struct shed *shed, const struct shed_load *load, uint64_t now_ms);

enum shed_level shed_level(const struct shed *shed);
/* Memory is near its cap, by the last weighing. */
bool shed_memory_short(const struct shed *shed);
/* True: answer BUSY with Retry-After SHED_RETRY_AFTER_S. */
bool shed_refuses(const struct shed *shed, enum shed_class class);

#endif
