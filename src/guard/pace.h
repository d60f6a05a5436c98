/* pace: the moments at which a line lets one through, so many each second.
 *
 * Slot k of a second stands at its k-th part, rounded up: never early, and exact over any number of seconds, because each
 * second begins a whole second after the one before. A pure value; time is a parameter. */
#ifndef STAMPEDE_GUARD_PACE_H
#define STAMPEDE_GUARD_PACE_H

#include <stdint.h>

#define PACE_SECOND_NS UINT64_C(1000000000)

struct pace {
    uint64_t second_ns; /* when the present second began */
    uint32_t slot;      /* of it, the next to be used; less than rate */
    uint32_t rate;      /* slots a second, at least 1 */
};

/* When the next slot comes. */
static inline uint64_t pace_due_ns(const struct pace *pace)
{
    return pace->second_ns + (pace->slot * PACE_SECOND_NS + pace->rate - 1) / pace->rate;
}

static inline void pace_take(struct pace *pace)
{
    if (++pace->slot < pace->rate) return;
    pace->slot = 0;
    pace->second_ns += PACE_SECOND_NS;
}

/* Slots nobody used are lost, except those of the last behind_ns: a second begins now. */
static inline void pace_forgive(struct pace *pace, uint64_t now_ns, uint64_t behind_ns)
{
    if (now_ns < behind_ns || pace_due_ns(pace) >= now_ns - behind_ns) return;
    pace->second_ns = now_ns;
    pace->slot = 0;
}

/* From the next slot on, another rate. */
static inline void pace_change(struct pace *pace, uint32_t rate)
{
    *pace = (struct pace){ .second_ns = pace_due_ns(pace), .rate = rate };
}

/* How long until so many more have gone through, and then one: for telling people, so rounded up to milliseconds. */
static inline uint64_t pace_wait_ms(const struct pace *pace, uint32_t ahead, uint64_t now_ns)
{
    uint64_t due_ns = pace_due_ns(pace);
    uint64_t first_ns = due_ns > now_ns ? due_ns - now_ns : 0;
    uint64_t rest_ns = (uint64_t)ahead / pace->rate * PACE_SECOND_NS +
                       (uint64_t)ahead % pace->rate * PACE_SECOND_NS / pace->rate;
    return (first_ns + rest_ns + 999999) / 1000000;
}

#endif
