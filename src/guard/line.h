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
 *   L5  Of those who came, each is waiting or has got exactly one outcome.
 *
 * A waiter lies in its caller's memory from the line_enter() that said LINE_WAITING until its go() is called or line_leave()
 * has returned; nothing is allocated for it. go() is called on the thread that delivers its mailbox, line_leave() is called
 * on that thread too; all else from any thread. One short lock stands around it all; times are those of mono_ns(). */
#ifndef STAMPEDE_GUARD_LINE_H
#define STAMPEDE_GUARD_LINE_H

#include "base/fault.h"
#include "base/slice.h"
#include "bounds.h"
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
    LINE_FULL,   /* at once, from line_enter(): as many wait as may, in this line or in all */
    LINE_CLOSED, /* the sale is closed or paused, or the server is stopping */
    LINE_LEFT,   /* counted only: nobody is there to be told */
    LINE_OUTCOMES
};

/* The numbers of a line. Those of a sale may change while people wait; they count from the next line_enter() on. */
struct line_terms {
    uint32_t rate_per_s; /* 1 to LINE_RATE_MAX */
    uint32_t size;       /* 1 to LINE_SIZE_MAX: who may wait at once */
    uint32_t timeout_ms; /* 1 to LINE_TIMEOUT_MS_MAX */
};
bool line_terms_valid(const struct line_terms *terms);

/* What a parked request and a place have in common. The line's own. */
struct line_entry {
    struct queue_node node;
    uint64_t entered_ns; /* unlike that of any other in its line, and rising; of a place that is let in, when it was */
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
    uint64_t sale_id, deadline_ns;
    struct line_waiter *mail_prev, *mail_next;
};

struct lines_options {
    uint32_t waiters_max;  /* parked requests in all lines together */
    uint32_t places_max;   /* 0: LINE_PLACES_MAX */
    uint32_t heartbeat_ms; /* a place not looked at for so long is given up; 0: 15 s */
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
 * LINE_FULL and LINE_CLOSED: no. With these three go() is never called. waiter's go and mailbox are set, the rest need not
 * be. */
enum line_outcome line_enter(struct lines *lines, struct line_waiter *waiter, uint64_t sale_id,
                             const struct line_terms *terms, uint64_t now_ns);
/* Also fine when go() has been called already. */
void line_leave(struct lines *lines, struct line_waiter *waiter);
/* Everybody waiting at this moment is told; who comes after waits as ever, for stock may come back. */
void line_sold_out(struct lines *lines, uint64_t sale_id);
void line_closed(struct lines *lines, uint64_t sale_id);

/* The pacer's step, pure but for the mail: everybody whose moment has come by now_ns gets his outcome. When the next moment
 * comes, UINT64_MAX if nobody waits. One thread at a time: without lines_start() it is the caller's, as in tests. */
uint64_t line_turn(struct lines *lines, uint64_t now_ns);

/* Lines declared by name in the configuration. Declaring a name again changes its numbers; false if there are too many. */
bool lines_declare(struct lines *lines, struct slice name, const struct line_terms *terms);
bool lines_declared(struct lines *lines, struct slice name, struct line_terms *out);

struct line_status {
    uint64_t sale_id; /* 0: of all lines */
    struct line_terms terms;
    uint32_t waiting; /* now */
    uint32_t parked;  /* of these, requests; the others are places */
    uint64_t outcomes[LINE_OUTCOMES];
};
/* False if the sale has no line: nobody came yet, or not for long and its memory was needed. */
bool line_status(struct lines *lines, uint64_t sale_id, struct line_status *out);
void lines_status(struct lines *lines, struct line_status *out);
/* Up to max lines, in no order; how many. */
uint32_t lines_list(struct lines *lines, struct line_status *out, uint32_t max);

#endif
