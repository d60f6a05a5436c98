/* loose: bodies of clients that were written for other servers, as JSON or as a form.
 *
 * The same tables as json_in.h, read with other manners, because such a client cannot be told what to change: unknown fields
 * are passed over, null is as good as absent, nothing is required. Only texts, lines and integers are read. False where the
 * body does not parse or a value is of another kind; a value of the right kind that is too long, too short, out of range or
 * has control characters is told by its bit, and its target is left alone. */
#ifndef STAMPEDE_WIRE_LOOSE_H
#define STAMPEDE_WIRE_LOOSE_H

#include "wire/json_in.h"

/* Bits follow the row numbers of the table. */
struct loose_found {
    uint32_t given;  /* with a value that is fine */
    uint32_t beyond; /* with one that is not */
};

/* An object; a name twice is refused. */
bool loose_json_read(struct slice body, const struct json_field *fields, size_t count, void *target,
                     struct loose_found *found);
/* application/x-www-form-urlencoded; a field of the table twice is refused. */
bool loose_form_read(struct slice body, const struct json_field *fields, size_t count, void *target,
                     struct loose_found *found);

#endif
