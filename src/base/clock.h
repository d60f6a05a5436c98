/* clock: time for decisions (P12) and for measuring.
 *
 * Decision time is wall time at start, advanced by the monotonic clock, slewed towards wall time by at most 1 ms in 200 ms,
 * and never goes back, also not behind the floor given at start (the newest time in the journal). If wall time at start is
 * behind the floor, decision time stands at the floor until it is reached: nothing opens early, nothing goes back. */
#ifndef STAMPEDE_BASE_CLOCK_H
#define STAMPEDE_BASE_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>

struct clock {
    uint64_t start_mono_ns;
    uint64_t start_wall_ms;
    _Atomic int64_t slew_ms;    /* what has been added so far */
    _Atomic uint64_t slewed_ns; /* monotonic time of the last step */
    _Atomic uint64_t last_ms;   /* never goes back */
};

void clock_init(struct clock *clock, uint64_t floor_ms);
uint64_t clock_now_ms(struct clock *clock); /* any thread */
/* For the simulation: the same arithmetic on given readings. */
void clock_start(struct clock *clock, uint64_t floor_ms, uint64_t mono_ns, uint64_t wall_ms);
uint64_t clock_advance(struct clock *clock, uint64_t mono_ns, uint64_t wall_ms);

uint64_t mono_ns(void);
uint64_t mono_ms(void);
uint64_t wall_ms(void);

#endif
