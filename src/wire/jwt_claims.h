/* jwt_claims: the two JSON texts inside a token, read the long way. Private to jwt.c, and a file of its own because
 * jansson.h and json_out.h cannot meet. */
#ifndef STAMPEDE_WIRE_JWT_CLAIMS_H
#define STAMPEDE_WIRE_JWT_CLAIMS_H

#include "wire/jwt.h"

#define JWT_KID_BYTES_MAX 32

/* True if text is a header of our kind: alg is HS256 and nothing must be understood that we do not. kid is filled. */
bool jwt_header_read(struct slice text, char kid[JWT_KID_BYTES_MAX + 1]);

/* True if text has every claim we need in its right type, is from our issuer and for our audience. Times are not judged. */
bool jwt_claims_read(struct slice text, struct jwt_claims *out);

#endif
