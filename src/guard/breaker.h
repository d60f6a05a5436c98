/* breaker: stops sending requests to what cannot serve them, for one class of routes.
 *
 *           share of bad answers in the window                  open_ms have passed
 *   CLOSED ------------------------------------> OPEN ------------------------------------> HALF OPEN
 *      ^                                          ^                                          |     |
 *      |                                          +---------- a probe was bad ---------------+     |
 *      +----------------------------- so many probes were good ------------------------------------+
 *
 * A bad answer is a failure of our own making or one that took longer than slow_ms. While it is open everybody is told BUSY
 * and when to come again. Half open lets a few probes through. A probe that is never heard of again does not hold the door:
 * after open_ms more the next ones are let through.
 *
 * Any thread; atomics only, no lock, no allocation. Closed, entering is one load; leaving is one add on a line of memory
 * that few threads share, and a sum over the window when the answer was bad. Time is a parameter, monotonic; threads need
 * not agree on it to the millisecond. */
#ifndef STAMPEDE_GUARD_BREAKER_H
#define STAMPEDE_GUARD_BREAKER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define BREAKER_BUCKETS 10
#define BREAKER_SHARDS 8
#define BREAKER_PROBES_MAX 1000

/* As options say them; the defaults are those of the options. */
struct breaker_numbers {
    uint32_t window_ms;     /* how far back answers count */
    uint32_t share_percent; /* bad answers of all that open it; 0: it never opens */
    uint32_t slow_ms;       /* an answer that took longer is bad; 0: slowness is not judged */
    uint32_t open_ms;
    uint32_t probes;      /* at most at once, and how many must be good in a row to close it */
    uint32_t answers_min; /* with fewer in the window it never opens: one failure at night is no outage */
};
#define BREAKER_NUMBERS_DEFAULT                                                                                             \
    ((struct breaker_numbers){                                                                                              \
        .window_ms = 10000, .share_percent = 50, .slow_ms = 1000, .open_ms = 5000, .probes = 5, .answers_min = 20 })

enum breaker_state { BREAKER_CLOSED, BREAKER_OPEN, BREAKER_HALF_OPEN };

struct breaker {
    const char *name; /* in the log */
    struct breaker_numbers numbers;
    uint32_t bucket_ms;
    _Atomic uint64_t word; /* state, probes let in, probes found good, when it came to this state */
    _Atomic uint64_t opened_total, refused_total;
    struct {
        _Atomic uint64_t buckets[BREAKER_BUCKETS]; /* when, answers, bad ones */
    } __attribute__((aligned(128))) shards[BREAKER_SHARDS];
};

/* Before any other thread knows of it. numbers within the bounds of the options. */
void breaker_init(struct breaker *breaker, const char *name, const struct breaker_numbers *numbers);

/* What a request keeps between entering and leaving. */
struct breaker_pass {
    uint64_t since_ms; /* names the period it entered in */
    bool probe;
};
/* True: go on, and call breaker_leave() once with the pass when the answer is known. False: BUSY; *retry_after_s is at
 * least 1. */
bool breaker_enter(struct breaker *breaker, uint64_t now_ms, struct breaker_pass *pass, uint32_t *retry_after_s);
/* The same for one who goes on in either case: false is no refusal and is not counted as one. */
bool breaker_try(struct breaker *breaker, uint64_t now_ms, struct breaker_pass *pass);

enum breaker_outcome {
    BREAKER_GOOD,   /* an answer, also a refusal that is true: SOLD_OUT, 4xx */
    BREAKER_FAILED, /* a 5xx of our own making */
    BREAKER_UNKNOWN /* says nothing of what is behind: shed, or the client went away */
};
/* took_ms: from entering to the answer, without what was waited on purpose (the line). */
void breaker_leave(struct breaker *breaker, const struct breaker_pass *pass, enum breaker_outcome outcome, uint32_t took_ms,
                   uint64_t now_ms);

enum breaker_state breaker_state(const struct breaker *breaker);

#endif
