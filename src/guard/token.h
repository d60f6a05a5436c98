/* token: purchase tokens as text, signed and checked.
 *
 * A token says its nonce and its expiry; its signature also covers the sale and the buyer, who are known from the request:
 * a token of someone else, or of another sale, has a wrong signature and nothing about it can be told. Whether it was spent
 * is the engine's to know. The key is derived from the keys that sign logins, and rotates with them.
 *
 * Text: base64url of version 1, tag of the key 4, expiry in ms 8, nonce 8, HMAC-SHA256 32; numbers little endian. The
 * signature goes over the bytes before it, the sale 8, and the buyer. */
#ifndef STAMPEDE_GUARD_TOKEN_H
#define STAMPEDE_GUARD_TOKEN_H

#include "base/fault.h"
#include "base/slice.h"
#include "bounds.h"
#include "wire/jwt.h"

#include <stdbool.h>
#include <stdint.h>

/* What a token is bound to. */
struct token_claim {
    uint64_t sale_id;
    struct slice buyer; /* 1 to BUYER_BYTES_MAX bytes */
    uint64_t nonce;
    uint64_t expires_ms;
};

/* Contexts of one thread. */
struct token_mac;
enum fault token_mac_open(struct token_mac **out, const struct jwt_ring *ring) MUST_USE;
void token_mac_close(struct token_mac *mac);

/* Signs with the newest key. Returns the length, which is at most PURCHASE_TOKEN_BYTES_MAX; no NUL. */
size_t token_make(struct token_mac *mac, const struct token_claim *claim, char out[PURCHASE_TOKEN_BYTES_MAX]);
/* Whether text is a token for claim's sale and buyer that has not expired at now_ms; then claim gets its nonce, which is
 * never 0, and its expiry. The signature is compared in constant time. */
bool token_verify(struct token_mac *mac, struct slice text, uint64_t now_ms, struct token_claim *claim);

#endif
