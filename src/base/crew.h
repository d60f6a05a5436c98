/* crew: a few threads that work through bounded queues, and mailboxes through which they answer.
 *
 * Queues that have jobs take turns, so a job waits for no more jobs of another queue than stand before it in its own, and
 * one: a flood in one queue makes the others slower by a share, and never fills them.
 *
 * A long job is done in parts: each part goes to the end of its queue, which is never too full for it, and is never late,
 * for what is begun is to be ended. Only crew_stop() ends it early, and delivers it late.
 *
 * A job lives in the asker's memory from crew_ask() until its done() has been called on the thread of its mailbox. */
#ifndef STAMPEDE_BASE_CREW_H
#define STAMPEDE_BASE_CREW_H

#include "base/fault.h"

#include <stdbool.h>
#include <stdint.h>

struct crew;
struct crew_mailbox;

#define CREW_QUEUES 2

struct crew_job {
    void (*work)(struct crew_job *job, void *tools); /* on a worker; tools is what tools_open gave this thread */
    void (*done)(struct crew_job *job);              /* on the mailbox's thread */
    struct crew_mailbox *mailbox;
    struct crew_job *next;
    uint32_t queue;     /* under CREW_QUEUES; most crews use the first only */
    uint64_t asked_ms;  /* monotonic; set by crew_ask() */
    uint64_t waited_ms; /* until a worker took it */
    bool late;          /* set when it waited longer than wait_ms_max: work was not called */
    bool again;         /* set by work: there is more to do, after the jobs that wait. Called again with it still set */
};

struct crew_options {
    const char *name;                         /* of the threads */
    uint32_t threads, queue_max, wait_ms_max; /* queue_max: of each queue */
    int nice;                                 /* of the threads: 0 or more */
    void *(*tools_open)(void *arg);           /* on each worker at start; NULL answer fails crew_open */
    void (*tools_close)(void *tools);
    void *arg;
};

/* FAULT_MEMORY when a thread or its tools cannot be had. Options are copied; name must outlive the crew. */
enum fault crew_open(struct crew **out, const struct crew_options *options) MUST_USE;
/* Takes no more jobs; those queued are delivered late, at once. Any thread, any number of times. */
void crew_stop(struct crew *crew);
void crew_close(struct crew *crew); /* stops, and lets running jobs end */
/* False when its queue is full or the crew closes: nothing was taken. Any thread. */
bool crew_ask(struct crew *crew, struct crew_job *job);

/* wake is called on a worker (or in crew_close()) when the first mail reaches an empty mailbox; it must cause
 * crew_mailbox_deliver() on the mailbox's thread, and must not deliver itself: the mailbox is locked while it runs. */
enum fault crew_mailbox_open(struct crew_mailbox **out, void (*wake)(void *arg), void *arg) MUST_USE;
void crew_mailbox_close(struct crew_mailbox *mailbox);   /* when every job asked through it is done */
void crew_mailbox_deliver(struct crew_mailbox *mailbox); /* calls done() of what has arrived */

#endif
