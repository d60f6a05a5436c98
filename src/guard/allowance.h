/* allowance: how much of each kind of request everyone, one user and one address may send.
 *
 * The terms are what an operator sets: in the configuration, and while running through GET|PUT /v1/limits. Their table is
 * the one place that has names, bounds and defaults. The defaults are for one office behind one address that wants to buy:
 * an address may do what many users may, and only a user who is a program notices a limit. */
#ifndef STAMPEDE_GUARD_ALLOWANCE_H
#define STAMPEDE_GUARD_ALLOWANCE_H

#include "base/fault.h"
#include "base/slice.h"
#include "base/address.h"
#include "guard/rates.h"
#include "wire/json_in.h"
#include "wire/json_out.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a route is counted as. */
enum rate_class { RATE_GRAB, RATE_QUERY, RATE_LOGIN, RATE_REGISTER, RATE_WRITE, RATE_CLASSES };
/* Who is counted together. */
enum rate_scope { RATE_GLOBAL, RATE_USER, RATE_IP, RATE_SCOPES };

#define RATE_PER_S_MAX 10000000
#define RATE_BURST_MAX 10000000
#define CONNECTIONS_PER_IP_MAX 1000000
#define ALLOWANCE_MISTAKE_BYTES 256

struct rate_terms {
    int64_t per_s; /* 0: no limit */
    int64_t burst;
};

struct allowance_terms {
    struct rate_terms rates[RATE_SCOPES][RATE_CLASSES];
    int64_t connections_per_ip; /* 0: no limit; for peers_set_max() */
};

/* One row a number of the terms. name is that of the option and of the JSON member. */
struct allowance_row {
    const char *name;
    size_t offset; /* of an int64_t in struct allowance_terms */
    int64_t min, max, fallback;
    const char *help; /* one sentence */
};

#define ALLOWANCE_ROWS (2 * RATE_SCOPES * RATE_CLASSES + 1)
extern const struct allowance_row allowance_rows[ALLOWANCE_ROWS];

void allowance_terms_default(struct allowance_terms *terms);
/* Whether every number is within its bounds; else mistake is a sentence that names the first one that is not. */
bool allowance_terms_valid(const struct allowance_terms *terms, char mistake[ALLOWANCE_MISTAKE_BYTES]);
int64_t allowance_terms_get(const struct allowance_terms *terms, const struct allowance_row *row);
void allowance_terms_set(struct allowance_terms *terms, const struct allowance_row *row, int64_t value);
/* For json_read() into a copy of the present terms: what is not given stays as it is. */
void allowance_fields(struct json_field out[ALLOWANCE_ROWS]);
void allowance_render(struct json_out *out, const struct allowance_terms *terms); /* an object */

const char *rate_class_name(enum rate_class class);
const char *rate_scope_name(enum rate_scope scope);

/* The terms in force, and the buckets counted by them. Any thread; counting never waits for a change of the terms. */
struct allowance;

/* keys_max: users and addresses that can be at their limit at once, 16 bytes each. The terms are valid. */
enum fault allowance_open(struct allowance **out, uint32_t keys_max, const struct allowance_terms *terms) MUST_USE;
void allowance_close(struct allowance *allowance);
/* Each rate changes as a whole, the next request is counted by it, and what was consumed stays consumed. The terms are
 * valid. */
void allowance_change(struct allowance *allowance, const struct allowance_terms *terms);
void allowance_read(struct allowance *allowance, struct allowance_terms *out);

struct allowance_ask {
    enum rate_class class;
    struct slice user;             /* empty: nobody is logged in */
    const struct address *address; /* NULL: not counted by address */
    uint64_t now_ns;               /* mono_ns() */
};

struct allowance_answer {
    bool limited;            /* whether any limit applied; the rest means nothing if not */
    enum rate_scope scope;   /* the one that refused, or that has the least left */
    struct rate_limit limit; /* of that scope */
    struct rate_answer rate;
};

/* Takes one from the user, the address and everyone, or from none of them: a program that is refused as a user does not use
 * up what its office has. */
bool allowance_take(struct allowance *allowance, const struct allowance_ask *ask, struct allowance_answer *out);

#endif
