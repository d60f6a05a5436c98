/* keys: what signs tokens, from the environment or from a file that only its owner may read. Inside this room,
 * and for the command that looks at options. */
#ifndef STAMPEDE_PEOPLE_KEYS_H
#define STAMPEDE_PEOPLE_KEYS_H

#include "base/fault.h"
#include "base/slice.h"
#include "wire/jwt.h"

/* env not empty: the keys are those, and no file is looked at. Else path; a missing file is made with one random key. A file
 * that others may read or write is FAULT_CONFIG, and so is one that cannot be understood. */
enum fault keys_open(struct jwt_ring **out, const char *path, struct slice env) MUST_USE;

#endif
