/* jws: tokens that somebody else signed: RS256, ES256 or EdDSA. No sockets, no users.
 *
 * The algorithm comes from the configuration. A token that names another one is refused before any key is looked at, so a
 * public key can never be taken for a secret, and `none` is just another wrong word. */
#ifndef STAMPEDE_WIRE_JWS_H
#define STAMPEDE_WIRE_JWS_H

#include "base/fault.h"
#include "base/slice.h"
#include "bounds.h"
#include "wire/jwks.h"

#include <stdbool.h>
#include <stdint.h>

#define JWS_ROLES_MAX 8

/* What the operator expects of a token. Texts live as long as the rules. A claim is found by its name, or, if there is no
 * claim of that name, by its way through objects with dots between: realm_access.roles. */
struct jws_rules {
    const char *issuer, *audience;
    const char *subject_claim;
    const char *role_claim; /* empty: none is looked at */
    size_t roles_count;
    struct slice roles[JWS_ROLES_MAX]; /* values of the role claim, the one that counts most first */
    uint32_t leeway_s;                 /* what clocks may differ, for nbf, iat and exp */
};

struct jws_claims {
    char subject[BUYER_BYTES_MAX + 1];
    int role; /* index of the first of rules.roles that the token has, or -1 */
    uint64_t issued_s, not_before_s, expires_s;
    /* Of header and claims. Not of the signature: an ES256 signature can be turned into another good one by anybody, and a
     * logout must hold for that too. Never 0. */
    uint64_t token_id;
};

/* Contexts of one thread for one set of keys, which it holds. */
struct jws_verifier;
enum fault jws_verifier_open(struct jws_verifier **out, struct jwks *keys) MUST_USE;
void jws_verifier_close(struct jws_verifier *verifier); /* NULL is fine */

enum jws_check { JWS_GOOD, JWS_BAD, JWS_EXPIRED };
/* Header first (alg, kid, nothing critical), the signature then, claims last; at most EXTERNAL_TOKEN_BYTES_MAX. A token with
 * a kid is checked with the key of that kid, or else with the keys that have none; a token without one, when there is one
 * key only or by the keys that have none. 30 to 100 microseconds, and it allocates. */
enum jws_check jws_check(struct jws_verifier *verifier, struct slice token, const struct jws_rules *rules, uint64_t now_s,
                         struct jws_claims *out);

#endif
