/* rates: how often something may happen, for any number of somethings, in memory that is fixed at start.
 *
 * Each key has a bucket after the generic cell rate algorithm (GCRA): one number, the time at which the bucket would be full
 * again. A take moves it by one interval, and is refused when it would go further than burst intervals ahead; a refused take
 * consumes nothing, so asking too often never makes the wait longer.
 *
 * The table has sets of eight. A key whose bucket is full again is the same as one never seen, so its place is free. When
 * all eight are in use, the one nearest to that is replaced. A flood of keys that each ask a little therefore replaces its
 * own before one that is at its limit; only a set full of keys that are all at their limits, which costs whoever makes them
 * as many whole bursts, forgets the one among them that is nearest to being free.
 *
 * Tables of several machines can make the same keys (rates_agree), and be told what was taken elsewhere (rates_raise). A
 * bucket may owe more than its burst then: nothing passes until that is paid off.
 *
 * Times are mono_ns(); a reading up to a second older than another thread's changes nothing. Any thread; a take holds one of
 * many locks for some tens of nanoseconds and takes no memory. */
#ifndef STAMPEDE_GUARD_RATES_H
#define STAMPEDE_GUARD_RATES_H

#include "base/fault.h"
#include "base/slice.h"
#include "base/address.h"

#include <stdbool.h>
#include <stdint.h>

struct rates;

struct rate_limit {
    uint64_t interval_ns; /* 0: no limit */
    uint32_t burst;       /* at least 1, unless there is no limit */
};

struct rate_answer {
    bool pass;
    uint32_t remaining; /* takes that would pass now; UINT32_MAX without a limit */
    uint64_t retry_ms;  /* when refused: a take after this long passes if nobody else takes */
    uint64_t reset_ms;  /* until the whole burst is there again */
};

/* So many takes in a span, evenly, and burst at once. The interval is cut to whole nanoseconds: never less passes than is
 * said here. takes of 0 is no limit; burst x interval must stay under RATE_AHEAD_NS_MAX. */
#define RATE_AHEAD_NS_MAX (UINT64_C(1) << 62)
struct rate_limit rate_limit_of(uint64_t takes, uint64_t span_ns, uint32_t burst);

/* keys_max is rounded up to a power of two, 16 bytes each. */
enum fault rates_open(struct rates **out, uint32_t keys_max) MUST_USE;
void rates_close(struct rates *rates);
uint32_t rates_size(const struct rates *rates); /* keys_max, as it was rounded */

/* A key for anything, by SipHash with a secret of this table: nobody can choose names that meet in one set. kind keeps
 * buckets of different meaning apart. */
uint64_t rates_key(const struct rates *rates, uint32_t kind, struct slice name);
uint64_t rates_key_address(const struct rates *rates, uint32_t kind, const struct address *address); /* its rate key */
/* The secret that others have, too; before the first key is made. From then on a bucket that is further ahead than its limit
 * allows has not been filled under another limit, but owes what was taken elsewhere. */
void rates_agree(struct rates *rates, const uint8_t secret[16]);
/* Until then it may be either after all, because limits have changed: a debt of more than a second is forgiven. */
void rates_relent(struct rates *rates, uint64_t until_ns);

/* A take of this key will follow: asks memory for its bucket, so that the wait for that passes meanwhile. */
void rates_expect(struct rates *rates, uint64_t key);
/* The answer is pass of *out. */
bool rates_take(struct rates *rates, uint64_t key, const struct rate_limit *limit, uint64_t now_ns, struct rate_answer *out);
/* Undoes one take that passed, for a request that another limit refused. */
void rates_give_back(struct rates *rates, uint64_t key, const struct rate_limit *limit);
/* The bucket is not full before this time, whoever has taken from it. */
void rates_raise(struct rates *rates, uint64_t key, uint64_t full_ns);

#endif
