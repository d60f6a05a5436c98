/* url: where Redis is, as an operator writes it. A plain value.
 *
 *   redis://[user@]host[:port][/db]
 *   redis+sentinel://[user@]host[:port],host[:port],…/master-name[/db]
 *   redis+cluster://[user@]host[:port],host[:port],…
 *
 * An IPv6 address stands in brackets. The user is that of Redis, never of the Sentinels. A password has no place in it: URLs
 * end up in process lists, logs and tickets. */
#ifndef STAMPEDE_REDIS_URL_H
#define STAMPEDE_REDIS_URL_H

#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

#define REDIS_HOST_BYTES_MAX 253
#define REDIS_USER_BYTES_MAX 64
#define REDIS_MASTER_NAME_BYTES_MAX 64
#define REDIS_SEEDS_MAX 16
#define REDIS_DB_MAX 65535
#define REDIS_SENTENCE_BYTES 1024
#define REDIS_ADDRESS_TEXT_BYTES (REDIS_HOST_BYTES_MAX + 10)

enum redis_kind { REDIS_SINGLE, REDIS_SENTINEL, REDIS_CLUSTER };

struct redis_address {
    char host[REDIS_HOST_BYTES_MAX + 1]; /* without brackets */
    uint16_t port;
};

struct redis_place {
    enum redis_kind kind;
    uint32_t seeds_count; /* at least 1; of REDIS_SINGLE just 1 */
    struct redis_address seeds[REDIS_SEEDS_MAX];
    char user[REDIS_USER_BYTES_MAX + 1];               /* empty: the default user */
    char master_name[REDIS_MASTER_NAME_BYTES_MAX + 1]; /* of REDIS_SENTINEL */
    uint32_t db;
};

/* False: out is of no use and mistake is a sentence that says what to do, and never shows a password. */
bool redis_url_parse(struct redis_place *out, struct slice url, char mistake[REDIS_SENTENCE_BYTES]);
/* HOST:PORT or [IPV6]:PORT. */
void redis_address_print(char out[REDIS_ADDRESS_TEXT_BYTES], const struct redis_address *address);
bool redis_address_equal(const struct redis_address *a, const struct redis_address *b);

#endif
