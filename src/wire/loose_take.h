/* loose_take: one value of a loose body, judged and kept. Private to loose.c and loose_json.c, which are two files because
 * jansson.h and the headers of our own JSON cannot meet. */
#ifndef STAMPEDE_WIRE_LOOSE_TAKE_H
#define STAMPEDE_WIRE_LOOSE_TAKE_H

#include "wire/loose.h"

/* bit: of the field. target: where its value goes if it is fine. */
void loose_take_text(const struct json_field *field, struct slice text, uint32_t bit, char *target,
                     struct loose_found *found);
void loose_take_integer(const struct json_field *field, int64_t number, uint32_t bit, char *target,
                        struct loose_found *found);

#endif
