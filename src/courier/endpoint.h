/* endpoint: a seller's hook as the courier sees it: how many messages are on their way to it, and whether it answers.
 *
 * A notice that failed is tried again after 1 s, 2 s, 4 s … up to an hour. An endpoint that has failed several tries in a
 * row, one after the other, is left alone as a whole for such a time; then it gets one message at a time until one arrives:
 * a dead endpoint costs a try now and then, however much it has to hear.
 *
 * The slower an endpoint answers, the fewer messages are on their way to it at the same time; one that is slow, or has not
 * answered yet, gets one at a time. The courier's thread only. */
#ifndef STAMPEDE_COURIER_ENDPOINT_H
#define STAMPEDE_COURIER_ENDPOINT_H

#include "ledger/outbox.h"

#define ENDPOINT_PARALLEL_MAX 16
#define ENDPOINT_FAILURES_MAX 3
/* Answers that take no longer on average do not count against an endpoint; beyond the second time it is slow. */
#define ENDPOINT_QUICK_MS 250
#define ENDPOINT_SLOW_MS 1000

/* How long to wait before the next try. */
struct backoff {
    uint64_t ms_min, ms_max;
};
/* After this many failed tries, at least 1: doubled each time, up to ms_max, and then between 80 and 120 percent of it by
 * dice, so that what failed together does not come back together. */
uint64_t backoff_ms(const struct backoff *backoff, uint32_t failures, uint32_t dice);

struct endpoint {
    struct hook hook;
    uint32_t in_flight;
    uint32_t known;     /* deliveries in memory: in flight, or done and not recorded yet */
    uint32_t failures;  /* in a row */
    uint64_t failed_ms; /* when the last one was counted */
    uint64_t paused_until_ms;
    uint64_t mean_ms; /* of its answers, the last ones most */
    bool known_pace;  /* it has answered, or is overdue */
    bool overdue;     /* a try is under way for so long that it is slow, whatever will become of it */
    bool waiting;     /* while places are given: something may be due */
    bool gone;        /* the hook is no more */
    bool stale;       /* looked after: notices of it that are too old are to be given up */
};

enum endpoint_pace { ENDPOINT_UNKNOWN, ENDPOINT_QUICK, ENDPOINT_SLOW, ENDPOINT_PACE_COUNT };
enum endpoint_pace endpoint_pace(const struct endpoint *endpoint);
/* A try has taken so long: one that was answered, or one that was in vain and slow. */
void endpoint_timed(struct endpoint *endpoint, uint64_t took_ms);

/* How many more messages may set out now, as far as the endpoint goes. */
uint32_t endpoint_room(const struct endpoint *endpoint, uint64_t now_ms);

struct endpoint_failure {
    uint64_t started_ms, now_ms;
    uint64_t wait_ms_min; /* that the endpoint asked for; 0: nothing */
    uint32_t dice;
};
/* Tries that were under way when another failed say nothing new. */
void endpoint_failed(struct endpoint *endpoint, const struct backoff *backoff, const struct endpoint_failure *failure);
void endpoint_answered(struct endpoint *endpoint);
/* The hook as it is now: another URL deserves another chance. */
void endpoint_change(struct endpoint *endpoint, const struct hook *hook);

#endif
