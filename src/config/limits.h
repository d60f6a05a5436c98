/* limits: the numbers of the guard's rates as an operator sets them, in the option limits and through /v1/limits.
 *
 * Their table is the one place that has names, bounds and defaults. The defaults are for one office behind one address that
 * wants to buy: an address may do what many users may, and only a user who is a program notices a limit. Nobody is logged in
 * who logs in or registers, so a user has no limit of these. Plain values, any thread. */
#ifndef STAMPEDE_CONFIG_LIMITS_H
#define STAMPEDE_CONFIG_LIMITS_H

#include "base/slice.h"

#include <stdint.h>

/* What a route is counted as. */
enum rate_class { RATE_GRAB, RATE_QUERY, RATE_LOGIN, RATE_REGISTER, RATE_WRITE, RATE_CLASSES };
/* Who is counted together. */
enum rate_scope { RATE_GLOBAL, RATE_USER, RATE_IP, RATE_SCOPES };

#define RATE_PER_S_MAX 10000000
#define RATE_BURST_MAX 10000000
#define CONNECTIONS_PER_IP_MAX 1000000
#define LIMIT_MISTAKE_BYTES 256

struct rate_terms {
    int64_t per_s; /* 0: no limit */
    int64_t burst;
};

struct limit_terms {
    struct rate_terms rates[RATE_SCOPES][RATE_CLASSES];
    int64_t connections_per_ip; /* 0: no limit */
};

/* One row a number of the terms. name is that in the option and of the JSON member. */
struct limit_row {
    const char *name;
    size_t offset; /* of an int64_t in struct limit_terms */
    int64_t min, max, fallback;
    const char *help; /* one sentence */
};

#define LIMIT_ROWS (2 * (RATE_SCOPES * RATE_CLASSES - 2) + 1)
extern const struct limit_row limit_rows[LIMIT_ROWS];

void limit_terms_default(struct limit_terms *terms);
/* Whether every number is within its bounds; else mistake is a sentence that names the first one that is not. */
bool limit_terms_valid(const struct limit_terms *terms, char mistake[LIMIT_MISTAKE_BYTES]);
int64_t limit_terms_get(const struct limit_terms *terms, const struct limit_row *row);
void limit_terms_set(struct limit_terms *terms, const struct limit_row *row, int64_t value);
/* "name=value,name=value" upon the defaults. False: nothing was changed and mistake is a sentence. */
bool limit_terms_read(struct limit_terms *terms, struct slice text, char mistake[LIMIT_MISTAKE_BYTES]);

const char *rate_class_name(enum rate_class class);

#endif
