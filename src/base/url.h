/* url: where a database is, as scheme://user@host:port/name?key=value. */
#ifndef STAMPEDE_BASE_URL_H
#define STAMPEDE_BASE_URL_H

#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

#define URL_MISTAKE_BYTES 256

/* The parts are pieces of the text that was read; what is not given is empty, and port 0. */
struct url {
    struct slice scheme, user, host, path, query;
    uint16_t port;
};

/* False: said why. A password in it is refused: whoever may list processes or read the log would know it. [::1] is a host.
 */
bool url_read(struct url *out, struct slice text, char mistake[URL_MISTAKE_BYTES]);
/* The value of a key of the query; empty if it is not there. */
struct slice url_query(const struct url *url, const char *key);

#endif
