/* remembered: tokens one thread has found good, so that the next request with the same one costs two hashes and no
 * signature. Inside this room only; one thread.
 *
 * A token is known by 128 bits of keyed hash. The keys are random and never leave the process, so nobody can look for a
 * token that is taken for another. Only good tokens come in: a flood of forged ones pushes nothing out. Fixed memory. */
#ifndef STAMPEDE_PEOPLE_REMEMBERED_H
#define STAMPEDE_PEOPLE_REMEMBERED_H

#include "base/fault.h"
#include "base/slice.h"
#include "bounds.h"

#include <stdint.h>

#define REMEMBERED_MAX 8192 /* about 1 MB a thread, once it is used */

struct remembered_token {
    uint64_t hash[2]; /* set by remembered_put() */
    uint64_t used;    /* the same */
    uint64_t version; /* of the keys it was checked with; 0: the place is free */
    uint64_t token_id, expires_ms;
    uint8_t role, name_len;
    char name[BUYER_BYTES_MAX];
};

struct remembered;
enum fault remembered_open(struct remembered **out, const uint8_t hash_keys[2][16]) MUST_USE;
void remembered_close(struct remembered *remembered); /* NULL is fine */

/* One that was checked with keys of this version, or NULL. Its time is not judged. Valid until the next call. */
const struct remembered_token *remembered_find(struct remembered *remembered, struct slice token, uint64_t version);
void remembered_put(struct remembered *remembered, struct slice token, const struct remembered_token *fresh,
                    uint64_t now_ms);

#endif
