/* jwt: HS256 tokens, made and checked. No sockets, no users. One struct jwt_key per key; a struct jwt_mac per thread and
 * key. */
#ifndef STAMPEDE_WIRE_JWT_H
#define STAMPEDE_WIRE_JWT_H

#include "base/fault.h"
#include "base/slice.h"
#include "bounds.h"

#include <stdbool.h>
#include <stdint.h>

#define JWT_KEYS_MAX 8
#define JWT_KEY_BYTES_MIN 32
#define JWT_ISSUER "stampede"
#define JWT_AUDIENCE "stampede"

struct jwt_claims {
    char subject[BUYER_BYTES_MAX + 1];
    char role[16];
    char kind[16]; /* not empty: the role in the words of a door; the token then has username, too, which is the subject */
    uint64_t token_id; /* jti, 16 hex digits */
    uint64_t issued_s, not_before_s, expires_s;
};

struct jwt_ring; /* keys, newest first; immutable once open */
/* text: one "kid hexbytes" a line, # comments. Says what is wrong with the line's number in objection. */
enum fault jwt_ring_open(struct jwt_ring **out, struct slice text, char objection[256]) MUST_USE;
void jwt_ring_close(struct jwt_ring *ring);

/* For other signatures that rotate with these keys: how many there are, and a key of their own that the nth and a label
 * lead to. Neither key tells the other, so what is signed for one purpose is never taken for another. */
size_t jwt_ring_count(const struct jwt_ring *ring);
#define JWT_DERIVED_BYTES 32
enum fault jwt_ring_derive(const struct jwt_ring *ring, size_t n, struct slice label,
                           uint8_t out[JWT_DERIVED_BYTES]) MUST_USE;

/* Contexts of one thread. */
struct jwt_mac;
enum fault jwt_mac_open(struct jwt_mac **out, const struct jwt_ring *ring) MUST_USE;
void jwt_mac_close(struct jwt_mac *mac);

/* Signs with the newest key. Length, or 0 if it does not fit. */
size_t jwt_make(struct jwt_mac *mac, const struct jwt_claims *claims, char *out, size_t size);

enum jwt_check { JWT_GOOD, JWT_BAD, JWT_EXPIRED };
/* The header's alg must be HS256 and its kid in the ring before any key is touched; signature in constant time; iss, aud,
 * nbf, exp; at most TOKEN_BYTES_MAX. Tokens in the very form jwt_make() writes take a short way without a JSON parser. */
enum jwt_check jwt_check(struct jwt_mac *mac, struct slice token, uint64_t now_s, struct jwt_claims *out);
/* Whether the header is one that jwt_make() writes: such a token is nobody else's. A glance; says nothing of the rest. */
bool jwt_begins_like_ours(const struct jwt_mac *mac, struct slice token);

#endif
