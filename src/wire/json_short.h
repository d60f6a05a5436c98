/* json_short: the plain bodies that nearly every request sends, without a tree and without memory. Private to json_in.c. */
#ifndef STAMPEDE_WIRE_JSON_SHORT_H
#define STAMPEDE_WIRE_JSON_SHORT_H

#include "wire/json_in.h"

/* Takes an object without white space whose texts have no escapes and whose values are right in every way. False means only
 * that the long way has to be gone, which also finds the words for what is wrong; target may have been written to. */
bool json_short_read(struct slice body, const struct json_field *fields, size_t count, void *target,
                     struct json_found *found);

#endif
