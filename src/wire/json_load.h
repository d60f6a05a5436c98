/* json_load: a whole text as one JSON object, for readers that walk it themselves. Not together with json_out.h: jansson has
 * the same names. */
#ifndef STAMPEDE_WIRE_JSON_LOAD_H
#define STAMPEDE_WIRE_JSON_LOAD_H

#include "base/slice.h"

#include <jansson.h>

/* An object without a name twice, or NULL; flags are more of jansson's for decoding. The caller lets go of it. The depth of
 * what it holds is bounded by jansson. */
json_t *json_object_load(struct slice text, size_t flags);

#endif
