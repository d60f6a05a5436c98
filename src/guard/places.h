/* places: standing in line without holding a connection, for pages and clients that ask again and again.
 *
 * A place stands in the same order and at the same rate as the parked requests of its sale (guard/line.h). It belongs to one
 * buyer: its id is 128 random bits, and another buyer, or the same one in another sale, does not find it. It is given up
 * when nobody has looked at it for the heartbeat of lines_options; a look is a heartbeat. Once it has its outcome (admitted,
 * timed out, sold out, closed) it stays to be read for one heartbeat more, however often it is looked at, and then is gone.
 *
 * A place that was let in is worth one purchase token. It is bound to the first that its buyer is given on its word, and
 * ends when that one is spent: whoever may win again stands in line again.
 *
 * Memory only: 104 bytes a place, none survives a restart. Any thread. */
#ifndef STAMPEDE_GUARD_PLACES_H
#define STAMPEDE_GUARD_PLACES_H

#include "guard/line.h"

#define PLACE_ID_BYTES 16
#define PLACE_TEXT_BYTES (2 * PLACE_ID_BYTES) /* hexadecimal digits */

enum place_state { PLACE_WAITING, PLACE_ADMITTED, PLACE_TIMED_OUT, PLACE_SOLD_OUT, PLACE_CLOSED };
const char *place_state_word(enum place_state state); /* "waiting", "admitted", "timed_out", "sold_out", "closed" */

/* Whose place in which line. */
struct place_ask {
    uint64_t sale_id;
    struct slice buyer;
    uint32_t grabs_max; /* how often one buyer may win in the sale; for place_take() */
    uint32_t available; /* stock of the sale, for telling who waits in vain */
};

struct place_view {
    char id[PLACE_TEXT_BYTES + 1];
    enum place_state state;
    uint64_t nonce; /* once admitted: of the purchase token it is bound to; 0: none yet */
    /* While waiting. */
    uint32_t position; /* from 1 */
    uint32_t ahead;
    uint64_t wait_ms; /* at the line's rate, if all ahead stay */
    bool hopeless;    /* more are ahead than units are available */
};

/* The buyer's place in the line of the sale: the one he has, or else a new one at its end. One with an outcome other than
 * admitted is replaced. LINE_WAITING and LINE_ADMITTED have filled *out; LINE_FULL (also when there is no room for another
 * place), LINE_TWICE (his parked requests wait for as many slots as he may win) and LINE_CLOSED have not. */
enum line_outcome place_take(struct lines *lines, const struct place_ask *ask, const struct line_terms *terms,
                             uint64_t now_ns, struct place_view *out);
/* False: there is no such place, any more or at all, or it is not this buyer's in this sale. */
bool place_look(struct lines *lines, struct slice id, const struct place_ask *ask, uint64_t now_ns, struct place_view *out);
/* The buyer goes away, or has got what he came for. False as above. */
bool place_leave(struct lines *lines, struct slice id, const struct place_ask *ask);

/* A purchase token was given on the word of the admitted place: binds it, where it is not bound yet. False as above, or
 * bound to another: what was given then is not for this place. */
bool place_bind(struct lines *lines, struct slice id, const struct place_ask *ask, uint64_t nonce);
/* The token is spent: a place that is bound to it ends. */
void place_spent(struct lines *lines, uint64_t sale_id, struct slice buyer, uint64_t nonce);

uint32_t places_heartbeat_ms(const struct lines *lines);

#endif
