/* recall: logins whose user was refused for the rate a moment ago, so that one who asks on and on is refused again before
 * the login is verified.
 *
 * A refusal says until when every other one would be refused too (guard/rates.h), so what is told from here is what would be
 * told anyway. That is hardly more than a second, for the slowest rate is one a second, unless more was taken on other nodes
 * than all may give; and a change of the limits makes all of it forgotten. A login is known by a hash of its bytes with a
 * secret of this table. Fixed memory: a login that has the place of another takes it. While nobody is refused, nothing is
 * hashed. One thread. */
#ifndef STAMPEDE_GUARD_RECALL_H
#define STAMPEDE_GUARD_RECALL_H

#include "bounds.h"
#include "guard/allowance.h"

#define RECALL_PLACES 256 /* a power of two */

struct recall_refusal {
    uint64_t hash;
    uint64_t until_ns; /* refused as long as this is ahead */
    uint64_t full_ns;  /* when the whole burst is there again */
    uint64_t version;  /* of the limits */
    enum rate_class class;
    struct rate_limit limit;
    uint32_t user_len;
    char user[BUYER_BYTES_MAX];
};

struct recall {
    uint8_t secret[16];
    uint64_t until_ns; /* of all */
    struct recall_refusal places[RECALL_PLACES];
};

void recall_init(struct recall *recall);
/* What ask was answered, at ask->now_ns and with limits of this version. */
void recall_put(struct recall *recall, struct slice login, uint64_t version, const struct allowance_ask *ask,
                const struct allowance_answer *answer);
/* True: *out is what this login would be answered again now, and ask->user whose it is, until the next put. */
bool recall_find(const struct recall *recall, struct slice login, uint64_t version, struct allowance_ask *ask,
                 struct allowance_answer *out);

#endif
