/* clerk: files the journal into the ledger, exactly once (P4), on a thread and a connection of its own.
 *
 * Reads behind the durable mark, one transaction for many batches, ends each at a batch's end so that the digest stored is
 * the batch's. Ledger failing: keeps the journal, retries with back-off, reports the lag (P13). A row that differs from what
 * would be filed is damage: stops for good and says so.
 *
 * While a crowd is being served it gives way, for seconds at most: see clerk.c. */
#ifndef STAMPEDE_CLERK_CLERK_H
#define STAMPEDE_CLERK_CLERK_H

#include "base/fault.h"
#include "gate/gate.h"

#include <stdbool.h>
#include <stdint.h>

struct clerk;

struct clerk_options {
    const struct ledger_place *ledger; /* its path outlives the clerk */
    const char *journal_folder;
    uint32_t pause_ms; /* between transactions while nobody waits: many wins share one */
};

/* Starts the thread. A gate without a journal files by itself: then there is no thread, and the clerk only tells how far
 * that has come. */
enum fault clerk_open(struct clerk **out, const struct clerk_options *options, struct gate *gate) MUST_USE;
/* Files what is durable, at most wait_ms long, then stops. */
void clerk_close(struct clerk *clerk, uint32_t wait_ms);
/* Any thread, blocks: until the ledger has filed seq. FAULT_TIMEOUT after wait_ms. */
enum fault clerk_wait(struct clerk *clerk, uint64_t seq, uint32_t wait_ms) MUST_USE;

struct clerk_status {
    uint64_t seq_filed;
    bool failing; /* the ledger refuses at present */
    bool stopped; /* for good */
};
void clerk_status(struct clerk *clerk, struct clerk_status *out);

#endif
