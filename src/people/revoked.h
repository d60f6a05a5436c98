/* revoked: the tokens that were logged out and have not expired. Inside this room only.
 *
 * Look-ups take no lock and never answer wrongly that a token is not revoked. Two tables of token ids take turns: a purge
 * copies what still counts into the idle one, publishes it by raising the version, and touches the old one only at the next
 * purge. A reader that found nothing looks at the version again: had its table been given up meanwhile, it asks anew. */
#ifndef STAMPEDE_PEOPLE_REVOKED_H
#define STAMPEDE_PEOPLE_REVOKED_H

#include "base/fault.h"
#include "base/region.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define REVOKED_SLOTS (UINT32_C(1) << 20)
#define REVOKED_PURGE_PAUSE_MS 60000
/* A revocation outlives its token by this much, because not everyone reads the clock at the same moment. */
#define REVOKED_MARGIN_MS UINT64_C(600000)

struct revoked_table {
    struct region ids;     /* _Atomic uint64_t, 0: empty; linear probing */
    struct region expires; /* uint64_t, under the lock */
};

struct revoked {
    struct revoked_table tables[2]; /* the one of version % 2 is in use */
    _Atomic uint64_t version;
    _Atomic uint32_t count; /* of the table in use */
    uint32_t slots;         /* a power of two */
    pthread_mutex_t lock;   /* of the writers */
    uint32_t reserved;
    uint64_t expires_first_ms;
    uint64_t purged_ms; /* monotonic */
};

enum fault revoked_open(struct revoked *revoked, uint32_t slots) MUST_USE;
void revoked_close(struct revoked *revoked);

bool revoked_has(const struct revoked *revoked, uint64_t token_id); /* any thread */

/* Room first, the ledger then, the table last: what is in the ledger always fits. False: full. */
bool revoked_reserve(struct revoked *revoked, uint64_t now_ms, uint64_t mono_now_ms);
void revoked_put(struct revoked *revoked, uint64_t token_id, uint64_t expires_ms); /* uses up a reservation */
void revoked_unreserve(struct revoked *revoked);

/* Lets go of what has expired, at most once in REVOKED_PURGE_PAUSE_MS. True when it did. */
bool revoked_purge(struct revoked *revoked, uint64_t now_ms, uint64_t mono_now_ms);

#endif
