/* allowance: how much of each kind of request everyone, one user and one address may send. The terms are what an operator
 * sets (config/limits.h): in the configuration, and while running through GET|PUT /v1/limits.
 *
 * Nodes of several machines share what one user and one address may send. Each decides by its own buckets, at once. What it
 * has given away it tells the others through a place in between (guard/exchange.h), and from there it hears what all have
 * given away together, which makes its own bucket emptier. A small part of each limit a node keeps to itself and tells
 * nobody about, so that whoever asks now and then costs the others nothing:
 *
 *   all nodes together give     limit                     what was told
 *                             + limit / ALLOWANCE_PARTS   what nodes keep to themselves, at least 1 at once each
 *                             + what is on its way, which is paid off afterwards
 *
 * What everyone together may send counts on each node alone: it is for what one machine can bear. */
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

/* Begins to share, before the first request: the secret is that of all nodes. FAULT_MEMORY. */
#define ALLOWANCE_PARTS 8
enum fault allowance_share(struct allowance *allowance, const uint8_t secret[16]) MUST_USE;
/* How many nodes there are, as far as is known; 1 as at the beginning: there is nobody to tell. Any thread. */
void allowance_set_nodes(struct allowance *allowance, uint32_t nodes);

/* Calls wake, on the thread of a request, when there is something to tell; then no more until allowance_rest(). Before the
 * first request. */
void allowance_on_spent(struct allowance *allowance, void (*wake)(void *arg), void *arg);
void allowance_rest(struct allowance *allowance);

/* What a bucket has given away and nobody was told; for one thread, as is what follows. */
struct allowance_spent {
    uint64_t key;      /* the same on every node */
    uint32_t kind;     /* of the bucket, for allowance_hear() */
    int64_t spent_ns;  /* in time, which is what a bucket counts; below 0 for what was given back after it was told */
    uint64_t since_ns; /* all of it was given after this */
    uint64_t owed_max; /* no bucket can owe more */
};
/* Buckets of one group (guard/tally.h), at most max and ALLOWANCE_SPENT_MAX, that are told from here on. */
#define ALLOWANCE_SPENT_MAX 16
uint32_t allowance_spent(struct allowance *allowance, uint32_t group, uint64_t now_ns, struct allowance_spent *out,
                         uint32_t max);
/* What all nodes have given away, as far as was told, is paid off at this time. */
void allowance_hear(struct allowance *allowance, const struct allowance_spent *spent, uint64_t full_ns);
uint64_t allowance_untold(const struct allowance *allowance); /* requests that there was no place for, since the start */

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
        uint8_t kind; /* of a shared bucket; 0: it is not */
        bool kept;    /* by this node, and to be told to nobody */
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
