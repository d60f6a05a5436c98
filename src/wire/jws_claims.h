/* jws_claims: the two JSON texts inside a token of somebody else. Private to jws.c, and a file of its own because it is the
 * part that knows jansson. */
#ifndef STAMPEDE_WIRE_JWS_CLAIMS_H
#define STAMPEDE_WIRE_JWS_CLAIMS_H

#include "wire/jws.h"

/* True if alg is the word expected and nothing must be understood that we do not. kid is empty if there is none. */
bool jws_header_read(struct slice text, enum jws_alg alg, char kid[JWKS_KID_BYTES_MAX + 1]);

/* True if text has every claim we need in its right type, is from the issuer and for the audience. Times are not judged, and
 * out->token_id is not touched. */
bool jws_claims_read(struct slice text, const struct jws_rules *rules, struct jws_claims *out);

#endif
