/* party: parked requests that belong together, found by what they have in common: the buyer and his sale, or the grab.
 *
 * A party is there while it has members. They are kept in the order in which they joined, linked through themselves, and
 * each can be in one party of a kind. Fixed memory, taken at the start. Not for several threads at once: behind the lock of
 * the line. */
#ifndef STAMPEDE_GUARD_PARTY_H
#define STAMPEDE_GUARD_PARTY_H

#include "base/fault.h"
#include "base/index.h"

#include <stdbool.h>
#include <stdint.h>

#define TAG_WORDS 3

struct line_waiter;

/* What members have in common, as a hash that nobody outside can aim at. */
struct party_tag {
    uint32_t words[TAG_WORDS];
};

/* In the member. Zeroed: in no party. */
struct party_link {
    struct line_waiter *prev, *next;
    uint32_t cell;
};

struct parties {
    struct pool cells;
    struct index by_tag;
    uint32_t link_at; /* where in struct line_waiter the link of this kind is */
};

enum fault parties_open(struct parties *parties, uint32_t link_at, uint32_t members_max) MUST_USE;
void parties_close(struct parties *parties); /* also of one that was never opened, if zeroed */

struct line_waiter *party_first(const struct parties *parties,
                                const struct party_tag *tag); /* NULL: there is no such party */
uint32_t party_count(const struct parties *parties, const struct party_tag *tag);
/* At its end. False: there is no memory for another party, and it is in none. */
bool party_join(struct parties *parties, const struct party_tag *tag, struct line_waiter *waiter);
void party_leave(struct parties *parties, struct line_waiter *waiter); /* fine if it is in none */
/* The heir, who is in none of this kind, gets the place of one who is. */
void party_hand_over(struct parties *parties, struct line_waiter *waiter, struct line_waiter *heir);

/* Takes the same time wherever they differ. */
bool tag_equal(const struct party_tag *a, const struct party_tag *b);

#endif
