/* allowance: how much of each kind of request everyone, one user and one address may send. The terms are what an operator
 * sets (config/limits.h): in the configuration, and while running through GET|PUT /v1/limits. */
#ifndef STAMPEDE_GUARD_ALLOWANCE_H
#define STAMPEDE_GUARD_ALLOWANCE_H

#include "base/fault.h"
#include "base/slice.h"
#include "config/limits.h"
#include "guard/rates.h"
#include "wire/json_in.h"
#include "wire/json_out.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* For json_read() into terms; bit i of what it found given is row i. */
void allowance_fields(struct json_field out[LIMIT_ROWS]);
void allowance_render(struct json_out *out, const struct limit_terms *terms); /* an object */

/* The terms in force, and the buckets counted by them. Any thread; counting never waits for a change of the terms. */
struct allowance;

/* keys_max: users and addresses that can be at their limit at once, 16 bytes each. The terms are valid. */
enum fault allowance_open(struct allowance **out, uint32_t keys_max, const struct limit_terms *terms) MUST_USE;
void allowance_close(struct allowance *allowance);
/* Each rate changes as a whole, the next request is counted by it, and what was consumed stays consumed. The terms are
 * valid. */
void allowance_change(struct allowance *allowance, const struct limit_terms *terms);
void allowance_read(struct allowance *allowance, struct limit_terms *out);
uint64_t allowance_version(const struct allowance *allowance); /* another one after each change */

/* One request, from the first scope it asks to the last. */
struct allowance_ask {
    enum rate_class class;
    struct slice user;             /* empty: nobody is logged in */
    const struct address *address; /* NULL: not counted by address */
    uint64_t now_ns;               /* mono_ns() */
    uint64_t keys[RATE_SCOPES];    /* of its buckets; 0: not asked for yet, as at the beginning */
    /* What it has taken, to be given back should a later scope refuse. taken_count is 0 at the beginning. */
    uint32_t taken_count;
    struct {
        uint64_t key;
        struct rate_limit limit;
    } taken[RATE_SCOPES];
};

struct allowance_answer {
    bool limited;            /* whether any limit applied; the rest means nothing if not */
    struct rate_limit limit; /* of the scope that refused, or that has the least left */
    struct rate_answer rate;
};

/* A take from the scope will follow, of which everything is known by now: asks memory for the bucket meanwhile. */
void allowance_expect(struct allowance *allowance, enum rate_scope scope, struct allowance_ask *ask);

/* Takes one from a scope. False: it has none left, and what the ask took from other scopes has been given back: a program
 * that is refused as a user does not use up what its office has. out is begun by an ask without takes and then kept for the
 * scopes that follow. */
bool allowance_take(struct allowance *allowance, enum rate_scope scope, struct allowance_ask *ask,
                    struct allowance_answer *out);

/* What the ask has taken, as if a scope had refused. */
void allowance_give_back(struct allowance *allowance, struct allowance_ask *ask);

#endif
