/* publications: what is still to be published to the operator's queue, for consumers of their own.
 *
 * Like the outbox: filed in the transaction that files what they tell of, so that each is there exactly once (P4), while
 * publishing is on. That stands in the ledger itself, so that whoever files knows it, whenever the server was started. They
 * leave once the broker has confirmed them. Functions that write are small transactions of their own; none may be called
 * while decisions are filed on the same connection.
 *
 * A publication is a notice (see outbox.h) of which only id, kind, sale_id, order_no and at_ms count. */
#ifndef STAMPEDE_LEDGER_PUBLICATIONS_H
#define STAMPEDE_LEDGER_PUBLICATIONS_H

#include "ledger/outbox.h"

/* As the ledger has it: on is all but OFF. */
enum publishing_state {
    PUBLISHING_OFF = 0,
    PUBLISHING_ON = 1,
    PUBLISHING_ASKED = 2, /* a node that does not publish asks whether any other does */
};

struct publishing {
    bool on;
    uint64_t waiting_max; /* what is filed while so many wait is not published, but counted in dropped */
};
/* Turned on, it begins with what is filed next, and with sales that closes_at closes after now_ms. What waits while it is
 * off waits on. */
enum fault ledger_publishing_set(struct ledger *ledger, const struct publishing *publishing, uint64_t now_ms) MUST_USE;

/* Where several nodes share a ledger none turns it off for the others: it asks, and whoever publishes turns it on again. ON
 * is reached from everywhere, ASKED from ON, and OFF from ASKED; else nothing changes. *before: what it was. */
enum fault ledger_publishing_turn(struct ledger *ledger, enum publishing_state to, uint64_t now_ms,
                                  enum publishing_state *before) MUST_USE;

#define PUBLISHING_NAME_BYTES 16
struct publishing_mark {
    char name[PUBLISHING_NAME_BYTES + 1]; /* of this ledger, by chance: ids of two ledgers are never the same */
    uint64_t told_ms;                     /* sales that were closed by time are filed up to here */
    uint64_t dropped;                     /* ever */
};
enum fault ledger_publishing_mark(struct ledger *ledger, struct publishing_mark *out) MUST_USE;

/* The first ones, in the order of their ids, until visit() answers false. */
enum fault ledger_publications(struct ledger *ledger, uint32_t limit, bool (*visit)(void *arg, const struct notice *notice),
                               void *arg) MUST_USE;
/* The same of all of them, as they were at the beginning of the call, however many: visit() does not write. */
enum fault ledger_publications_all(struct ledger *ledger, bool (*visit)(void *arg, const struct notice *notice),
                                   void *arg) MUST_USE;
/* These have arrived. */
enum fault ledger_publications_delete(struct ledger *ledger, const uint64_t *ids, size_t count) MUST_USE;

/* Sales that closes_at has closed have no decision: see ledger_outbox_moments(). *any: whether there are some in the span.
 */
enum fault ledger_publications_moments(struct ledger *ledger, struct outbox_span span, bool *any) MUST_USE;
/* Files them and moves told_ms from from_ms to to_ms, in one transaction; nothing if it is not at from_ms. */
enum fault ledger_publications_file_moments(struct ledger *ledger, struct outbox_span span) MUST_USE;

struct publications_count {
    uint64_t waiting;   /* about, and never too few */
    uint64_t oldest_ms; /* of those; 0: there is none */
    uint64_t dropped;
    enum publishing_state state;
};
enum fault ledger_publications_count(struct ledger *ledger, struct publications_count *out) MUST_USE;

#endif
