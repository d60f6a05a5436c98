/* events: campaigns that group sales, and who wants to be told when one opens.
 *
 * Like users they are written straight away, and are durable when these return: on a connection that writes, never on a
 * reactor. An event is told once: from then on who has subscribed to it does not change, so that what its seller is told is
 * the same however often it is sent. */
#ifndef STAMPEDE_LEDGER_EVENTS_H
#define STAMPEDE_LEDGER_EVENTS_H

#include "ledger/ledger.h"

/* The largest part of its subscribers that a seller is told of at a time. */
#define EVENT_PART_MAX 500

struct event {
    uint64_t id;
    char seller[USERNAME_BYTES_MAX + 1];
    char name[EVENT_NAME_BYTES_MAX + 1];
    char description[EVENT_DESCRIPTION_BYTES_MAX + 1];
    uint64_t opens_ms, created_ms;
    uint64_t subscribers;
    bool told;
};

enum event_result { EVENT_DONE, EVENT_UNKNOWN, EVENT_OPENED };

/* id is given here. */
enum fault ledger_event_add(struct ledger *ledger, struct event *event) MUST_USE;
enum fault ledger_event(struct ledger *ledger, uint64_t id, struct event *out, bool *found) MUST_USE;

/* mask: which of the three are given. None of them changes once the event has opened. */
enum { EVENT_NAME = 1 << 0, EVENT_DESCRIPTION = 1 << 1, EVENT_OPENS = 1 << 2 };
struct event_change {
    uint64_t id;
    struct slice seller; /* whose it must be; empty: anyone's, for admins */
    uint32_t mask;
    const char *name, *description;
    uint64_t opens_ms, now_ms;
};
enum fault ledger_event_change(struct ledger *ledger, const struct event_change *change, struct event *out,
                               enum event_result *result) MUST_USE;

/* EVENT_OPENED: too late, nothing changed. Whoever has subscribed already is EVENT_DONE at any time. */
struct subscription {
    uint64_t event_id;
    struct slice buyer;
    uint64_t now_ms;
};
enum fault ledger_subscribe(struct ledger *ledger, const struct subscription *subscription,
                            enum event_result *result) MUST_USE;
/* EVENT_DONE also where there was none, and after the event has opened, when it changes nothing. */
enum fault ledger_unsubscribe(struct ledger *ledger, const struct subscription *subscription,
                              enum event_result *result) MUST_USE;

/* Newest first; after: id to go on below, 0 to begin. */
struct ledger_events_query {
    struct slice seller; /* empty: all */
    uint64_t after;
    uint32_t limit;
};
enum fault ledger_events(struct ledger *ledger, const struct ledger_events_query *query,
                         void (*visit)(void *arg, const struct event *event), void *arg) MUST_USE;
/* The sale that an event and a name within it mean. The event is given by its id, or with id 0 by its name: of several of
 * that name the oldest with such a sale, one that is not over before those that are. */
struct ledger_goods {
    uint64_t event_id;
    struct slice event, name;
    uint64_t now_ms;
};
enum fault ledger_goods(struct ledger *ledger, const struct ledger_goods *goods, uint64_t *sale_id, bool *found) MUST_USE;
/* Subscribers of one part, from 0: EVENT_PART_MAX of them in each but the last. Whoever leaves is replaced by the last to
 * come, so that the parts follow from the subscribers there are. */
enum fault ledger_event_part(struct ledger *ledger, uint64_t id, uint32_t part, void (*visit)(void *arg, struct slice buyer),
                             void *arg) MUST_USE;

#endif
