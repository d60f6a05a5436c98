/* buyer: the name a grab's order will carry. One place, because the decision, the early refusal and a repeat after a
 * restart must all come to the same name. */
#ifndef STAMPEDE_ENGINE_BUYER_H
#define STAMPEDE_ENGINE_BUYER_H

#include "base/slice.h"
#include "engine/engine.h"

/* Writes it to out, with a NUL. Empty where the sale wants a login and the grab brought none. claim_no: of the order that a
 * win would make. */
struct slice buyer_of(const struct grab *grab, enum admission admission, uint64_t claim_no, char out[BUYER_BYTES_MAX + 1]);

/* Whether a name looks like one that buyer_of() makes for the nameless. */
bool buyer_is_made_up(struct slice buyer);

#endif
