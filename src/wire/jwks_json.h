/* jwks_json: the JSON form of public keys (RFC 7517, 7518, 8037). Private to jwks.c, and a file of its own because it is the
 * part that knows jansson. */
#ifndef STAMPEDE_WIRE_JWKS_JSON_H
#define STAMPEDE_WIRE_JWKS_JSON_H

#include "wire/jwks.h"

/* Adds every key of text that fits. False has filled objection. */
bool jwks_json_read(struct jwks *keys, struct slice text, char objection[256]);

#endif
