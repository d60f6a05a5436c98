/* error: what an error answer of Redis says about the call. Inside this room only.
 *
 * The table is about certainty: what is repeated certainly did not run, or, as a script, changed nothing before it was
 * stopped. An error that is not in it is the caller's. */
#ifndef STAMPEDE_REDIS_ERROR_H
#define STAMPEDE_REDIS_ERROR_H

#include "base/slice.h"
#include "redis/url.h"

enum error_kind {
    ERROR_OTHER,    /* of the command or the script: may have run up to it */
    ERROR_REFUSED,  /* nothing was changed, and repeating would not help */
    ERROR_LATER,    /* nothing was changed; the server will be able to in a moment */
    ERROR_DEMOTED,  /* nothing was changed; the server is no master any more */
    ERROR_MOVED,    /* nothing was run; another serves the slot */
    ERROR_ASK,      /* nothing was run; another has the key, the slot is on its way */
    ERROR_NOSCRIPT, /* nothing was run; the script must be loaded */
};

enum error_kind error_kind(struct slice text);
/* Where a server takes no writes at all: why, and what an operator must do. NULL: it is something else. */
const char *error_advice(struct slice text);
/* What MOVED and ASK name. A host that is left out is the one that answered. False: not understood. */
bool error_target(struct slice text, const struct redis_address *answered, struct redis_address *out);

#endif
