/* external: people whom the operator's own identity provider vouches for. Inside this room only.
 *
 * Their buyers are called issuer:subject. Nobody registered here can be called so, because a username has no colon; a name
 * longer than 64 bytes is refused rather than cut, because two people could then be one.
 *
 * The keys are read again when their file changes, which is looked for once a second, and when external_look() is called. A
 * file that cannot be used changes nothing: the keys before it count. */
#ifndef STAMPEDE_PEOPLE_EXTERNAL_H
#define STAMPEDE_PEOPLE_EXTERNAL_H

#include "base/fault.h"
#include "base/slice.h"
#include "people/people.h"

#include <stdbool.h>
#include <stdint.h>

struct external;

/* FAULT_CONFIG has been logged, with what to mend. */
enum fault external_open(struct external **out, const struct people_external *options) MUST_USE;
void external_close(struct external *external); /* after every desk; NULL is fine */

/* Looks at the file now, whatever it looked like before. True when other keys count from here on. Any thread. */
bool external_look(struct external *external);

/* What one thread checks with: contexts, and the tokens it has found good. */
struct external_desk;
enum fault external_desk_open(struct external_desk **out, struct external *external) MUST_USE;
void external_desk_close(struct external_desk *desk); /* NULL is fine */

/* A token whose signature this thread has checked, under the keys that count now, is not checked again. False: not
 * known. True has set *check. out is as for people_check(); whether it was logged out is not judged here. */
bool external_recall(struct external_desk *desk, struct slice token, uint64_t now_ms, enum token_check *check,
                     struct identity *out);
/* The whole check; what is good is remembered. */
enum token_check external_check(struct external_desk *desk, struct slice token, uint64_t now_ms, struct identity *out);

#endif
