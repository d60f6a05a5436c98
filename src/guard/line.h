/* line: the waiting room. Decides who goes next and when; holds no sockets and no stock.
 *
 * A sale that wants one has a line: an order of arrival over all reactors, let through at a fixed number each second.
 * Parked requests (struct line_waiter) and places (guard/places.h) of one sale stand in the same order and share its rate.
 *
 *   L1  Nobody goes before somebody who came earlier and still waits.
 *   L2  Nobody goes before his slot: never more than one at once after idling, and rate_per_s each second over time. Slots
 *       that a stalled machine missed are made up for if they are of the last 100 ms, and lost otherwise.
 *   L3  Whoever has waited timeout_ms is timed out, also if his slot comes at the same moment.
 *   L4  Whoever leaves is gone when line_leave() returns: go() is not called any more, and nobody goes in his stead.
 *   L5  Of those who came, each is waiting, or his one outcome is on its way to him, or he has heard it.
 *   L6  One buyer never waits for more slots at once than he may win in the sale, parked requests and place together. A
 *       request with the Idempotency-Key of one that waits is the same grab: it stands beside that one, takes no slot,
 *       hears the same, and takes over if that one leaves.
 *
 * A waiter lies in its caller's memory from the line_enter() that said LINE_WAITING until its go() is called or line_leave()
 * has returned; nothing is allocated for it. go() is called on the thread that delivers its mailbox, line_leave() is called
 * on that thread too; all else from any thread. One short lock stands around it all; times are those of mono_ns(). */
#ifndef STAMPEDE_GUARD_LINE_H
#define STAMPEDE_GUARD_LINE_H

#include "base/fault.h"
#include "base/slice.h"
#include "bounds.h"
#include "guard/party.h"
#include "guard/queue.h"

#include <stdbool.h>
#include <stdint.h>

struct lines;
struct line_mailbox;

enum line_outcome {
    LINE_WAITING, /* no outcome yet: go() will tell */
    LINE_ADMITTED,
    LINE_TIMED_OUT,
    LINE_SOLD_OUT,
    LINE_FULL,     /* at once, from line_enter(): as many wait as may, in this line or in all */
    LINE_TWICE,    /* at once, from line_enter(): this buyer waits as often as he may win */
    LINE_CLOSED,   /* the sale is closed or paused, or the server is stopping */
    LINE_SERVED,   /* meanwhile the buyer has won as often as he may */
    LINE_REPEATED, /* the same grab was let through before and has its answer: it is to be asked for */
    LINE_LEFT,     /* counted only: nobody is there to be told */
    LINE_OUTCOMES
};
const char *line_outcome_word(enum line_outcome outcome); /* of the metric stampede_line_outcomes_total */

/* The numbers of a line. Those of a sale may change while people wait; they count from the next line_enter() on. */
struct line_terms {
    uint32_t rate_per_s; /* 1 to LINE_RATE_MAX */
    uint32_t size;       /* 1 to LINE_SIZE_MAX: who may wait at once */
    uint32_t timeout_ms; /* 1 to LINE_TIMEOUT_MS_MAX */
};
bool line_terms_valid(const struct line_terms *terms);

/* Who comes, and for what. Read during the call only. */
struct line_ask {
    uint64_t sale_id;
    struct slice buyer; /* empty: he is like nobody else */
    uint32_t grabs_max; /* how often one buyer may win in the sale; at least 1 where there is a buyer */
    struct slice key;   /* Idempotency-Key; empty: this grab is like no other */
    uint32_t units;     /* the same key with other units is another grab */
};

/* What a parked request and a place have in common. The line's own. */
struct line_entry {
    struct queue_node node;
    uint64_t entered_ns; /* unlike that of any other in its line, and rising */
    uint16_t line;       /* its cell */
    uint8_t is_place;
    uint8_t state;
    uint8_t outcome;
};

struct line_waiter {
    void (*go)(struct line_waiter *waiter, enum line_outcome outcome);
    struct line_mailbox *mailbox;
    /* The line's own. */
    struct line_entry entry;
    uint64_t deadline_ns;
    bool counted; /* among those that its line has called */
    struct line_waiter *mail_prev, *mail_next;
    struct party_link of_buyer, of_grab;
};

struct lines_options {
    uint32_t waiters_max;  /* parked requests in all lines together */
    uint32_t places_max;   /* 0: LINE_PLACES_MAX */
    uint32_t heartbeat_ms; /* a place not looked at for so long is given up */
};

enum fault lines_open(struct lines **out, const struct lines_options *options) MUST_USE;
/* Starts the pacer, a thread that calls line_turn() when somebody's moment has come and sleeps while nobody waits. */
enum fault lines_start(struct lines *lines) MUST_USE;
/* The server is stopping: everybody waiting gets LINE_CLOSED, and so does everybody who comes after. The pacer goes on. */
void lines_shut(struct lines *lines);
/* When every mailbox is closed. Ends the pacer. NULL is fine. */
void lines_close(struct lines *lines);

/* wake is called, with the lock held, when the first mail reaches an empty mailbox; it must cause line_mailbox_deliver() on
 * the mailbox's thread, and must call nothing of this header itself. */
enum fault line_mailbox_open(struct line_mailbox **out, struct lines *lines, void (*wake)(void *arg), void *arg) MUST_USE;
void line_mailbox_close(struct line_mailbox *mailbox); /* when nobody waits through it; NULL is fine */
/* Calls go() of all that has arrived. One who was admitted but has waited too long by now is told LINE_TIMED_OUT. A go() may
 * enter again, or leave for others of this mailbox. */
void line_mailbox_deliver(struct line_mailbox *mailbox, uint64_t now_ns);

/* LINE_WAITING: go() will be called, or line_leave() must be. LINE_ADMITTED: nobody was waiting and a slot is free;
 * LINE_FULL, LINE_TWICE and LINE_CLOSED: no. With these four go() is never called. waiter's go and mailbox are set, the rest
 * need not be. */
enum line_outcome line_enter(struct lines *lines, struct line_waiter *waiter, const struct line_ask *ask,
                             const struct line_terms *terms, uint64_t now_ns);
/* Whether the same grab, by its key, waits or was let through and has no answer yet: line_enter() then takes no slot. */
bool line_knows(struct lines *lines, const struct line_ask *ask);
/* Also fine when go() has been called already. */
void line_leave(struct lines *lines, struct line_waiter *waiter);
/* Whoever was told LINE_ADMITTED says so when the grab has its answer, on the thread of his mailbox: those who wait with the
 * same grab are told LINE_REPEATED. His memory is the line's until then. */
void line_settle(struct lines *lines, struct line_waiter *waiter);
/* The buyer has won as often as he may: all of his that still waits is told LINE_SERVED, and a place that waits is given up.
 */
void line_served(struct lines *lines, uint64_t sale_id, struct slice buyer);
/* Everybody waiting at this moment is told; who comes after waits as ever, for stock may come back. */
void line_sold_out(struct lines *lines, uint64_t sale_id);
void line_closed(struct lines *lines, uint64_t sale_id);

/* The pacer's step, pure but for the mail: everybody whose moment has come by now_ns gets his outcome. When the next moment
 * comes, UINT64_MAX if nobody waits. One thread at a time: without lines_start() it is the caller's, as in tests. */
uint64_t line_turn(struct lines *lines, uint64_t now_ns);

/* Lines declared by name in the configuration, at most LINES_DECLARED_MAX: these and no others from now on. Whoever waits in
 * the line of a name that is gone waits on. */
struct line_declared {
    char name[LINE_NAME_BYTES_MAX + 1];
    struct line_terms terms;
};
void lines_declare(struct lines *lines, const struct line_declared *declared, uint32_t count);
bool lines_declared(struct lines *lines, struct slice name, struct line_terms *out);

/* What is there now, in all lines together. */
struct lines_status {
    uint32_t waiting; /* for a slot, parked or by a place */
    uint32_t parked;  /* requests held, also those that wait beside another with the same key */
    uint32_t places;  /* also those that have their outcome and can still be read */
};
void lines_status(struct lines *lines, struct lines_status *out);
/* The sales in whose line somebody waits, in no order; how many. */
uint32_t lines_busy(struct lines *lines, uint64_t sale_ids[LINES_MAX]);

#endif
