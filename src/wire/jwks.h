/* jwks: the public keys of an identity provider, from a PEM file or a JWKS file. No private key is needed or kept.
 *
 * One algorithm is configured for all of them, so a key that does not fit it is not in the set: nothing a token says can
 * lead to a key of another kind. A set is immutable, shared between threads and ends with its last holder. */
#ifndef STAMPEDE_WIRE_JWKS_H
#define STAMPEDE_WIRE_JWKS_H

#include "base/fault.h"
#include "base/slice.h"

#include <openssl/types.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define JWKS_KEYS_MAX 16
/* Keys without a name are tried one after the other, so there are few. */
#define JWKS_NAMELESS_MAX 4
#define JWKS_KID_BYTES_MAX 128
#define JWKS_RSA_BITS_MIN 2048
#define JWKS_RSA_BITS_MAX 8192 /* what a forged token may cost */

enum jws_alg { JWS_RS256, JWS_ES256, JWS_EDDSA };
/* RS256, ES256, EdDSA: as options and headers spell them. */
const char *jws_alg_word(enum jws_alg alg);
bool jws_alg_of(struct slice word, enum jws_alg *out);

struct jwks_key {
    char kid[JWKS_KID_BYTES_MAX + 1]; /* empty: it has none */
    EVP_PKEY *public;
};

struct jwks {
    enum jws_alg alg;
    _Atomic uint32_t holders;
    size_t count;
    struct jwks_key keys[JWKS_KEYS_MAX];
};

/* text is PEM (public keys; or a certificate, of which only the key counts, and what follows it is its chain) or JSON (a
 * JWKS, or one JWK). A key of another kind, a weak or a broken one is skipped with a line in the log. FAULT_CONFIG: the text
 * is neither, or no key is left, or there are too many; objection says which. The caller holds what it gets. */
enum fault jwks_open(struct jwks **out, struct slice text, enum jws_alg alg, char objection[256]) MUST_USE;
void jwks_hold(struct jwks *keys);
void jwks_release(struct jwks *keys); /* NULL is fine */

/* For jwks_json.c. Takes over the key, also when it is skipped; NULL is a key that could not be made. where: as the log
 * shall call it. False when the set is full or has this kid already: the text cannot be trusted to mean what it says. */
bool jwks_add(struct jwks *keys, EVP_PKEY *key, struct slice kid, const char *where, char objection[256]);

#endif
