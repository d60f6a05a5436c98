/* wheel: many deadlines, put in and taken out in constant time. Not for several threads at once.
 *
 * A deadline stands in the bucket of its time; a turn looks into the buckets whose time has come since the last one. Those
 * farther away than a round stay in their bucket until their own round. */
#ifndef STAMPEDE_REDIS_WHEEL_H
#define STAMPEDE_REDIS_WHEEL_H

#include <stdbool.h>
#include <stdint.h>

#define WHEEL_BUCKETS 256
#define WHEEL_TICK_MS 8

struct wheel_timer {
    struct wheel_timer *next, *prev; /* NULL: in no wheel */
    uint64_t due_ms;
};

struct wheel {
    struct wheel_timer buckets[WHEEL_BUCKETS]; /* heads of rings */
    uint64_t tick;                             /* the next bucket to look into */
    uint32_t count;
};

void wheel_init(struct wheel *wheel, uint64_t now_ms);
/* The timer's memory is the caller's and stays where it is until it is out again. */
void wheel_add(struct wheel *wheel, struct wheel_timer *timer, uint64_t due_ms);
void wheel_remove(struct wheel *wheel, struct wheel_timer *timer); /* also of one that is in no wheel */
/* Takes out one that is due; NULL: there is none. Between two calls anything may be added and removed. Up to a tick late,
 * never early. */
struct wheel_timer *wheel_due(struct wheel *wheel, uint64_t now_ms);

#endif
