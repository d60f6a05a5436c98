/* body: what a door's client has sent, whatever it calls it. */
#ifndef STAMPEDE_DOORS_BODY_H
#define STAMPEDE_DOORS_BODY_H

#include "wire/loose.h"

struct request;

/* What begins like an object is read as JSON, for clients forget to say so; else what calls itself a form as one. False: it
 * is neither, or a value is of another kind. */
bool door_body_read(const struct request *request, const struct json_field *fields, size_t count, void *target,
                    struct loose_found *found);

#endif
