/* filer: files what the gate of several machines has taken, many in one transaction, before it is told (ack = ledger) or
 * soon after.
 *
 * A few threads, each with a connection to the ledger. A job belongs to its caller until it is done; it comes back through
 * the mailbox of its lane. While the ledger refuses, jobs are filed again until their time is over; one that a ledger does
 * not answer may come back a little later than that. Those of a sale whose row somebody keeps come back before it. */
#ifndef STAMPEDE_GATE_REMOTE_FILER_H
#define STAMPEDE_GATE_REMOTE_FILER_H

#include "gate/remote/kept.h"
#include "ledger/ledger.h"
#include "ledger/shared.h"

#include <stdatomic.h>

struct filer;
struct filer_mailbox; /* where done jobs come back: one for each loop */

struct filer_job {
    struct ledger_take take; /* its slices live until the job is back */
    uint64_t until_mono_ms;
    struct filer_mailbox *mailbox;
    enum fault fault; /* FAULT_NONE: take.result says it all; else nothing is known */
    struct filer_job *next;
};

struct filer_options {
    const struct ledger_place *place;
    struct kept *kept;
    uint32_t threads;
    uint32_t gather_ms; /* how long the first waits for enough others to make a batch: where nobody waits for it */
};
enum fault filer_open(struct filer **out, const struct filer_options *options) MUST_USE;
void filer_close(struct filer *filer); /* every mailbox is empty by then */

/* wake: on a filer's thread, when the box was empty and is not any more. */
enum fault filer_mailbox_open(struct filer_mailbox **out, void (*wake)(void *arg), void *arg) MUST_USE;
void filer_mailbox_close(struct filer_mailbox *box);
struct filer_job *filer_collect(struct filer_mailbox *box); /* those that are done, oldest first; NULL: none */

/* All that next leads to. False: too many are waiting, and none was taken. */
bool filer_give(struct filer *filer, struct filer_job *jobs);

/* Any thread, no lock. Nothing can be filed at present: the ledger is known to be away, or what was tried last failed. */
bool filer_failing(const struct filer *filer);

#endif
