/* shared_file: what the files of shared.h share. Inside this room only. */
#ifndef STAMPEDE_LEDGER_SHARED_FILE_H
#define STAMPEDE_LEDGER_SHARED_FILE_H

#include "ledger/file.h"
#include "ledger/shared.h"

/* One transaction that files. Where others' locks stood in the way work is called again, on a new one, while patience lasts:
 * it begins from the beginning each time. Where it has not set *wrote, nothing is committed. */
enum fault shared_run(struct ledger *ledger, enum fault (*work)(struct ledger *ledger, void *arg, bool *wrote),
                      void *arg) MUST_USE;
/* What others have committed is seen before it is durable, and whoever tells of it vouches for it. A commit that writes
 * makes durable what was committed before it, so something is written: a refusal of number, an order or token that is
 * there, made and taken away. */
enum fault shared_vouch(struct ledger *ledger, uint64_t number, uint64_t sale_id) MUST_USE;
/* A decision and what its seller is told of it. */
enum fault shared_tell(struct ledger *ledger, const struct decision *d, enum fault filed) MUST_USE;

/* What was refused once, until the epoch of its sale ends. */
enum fault refusal_insert(struct ledger *ledger, uint64_t number, uint64_t sale_id) MUST_USE;

/* Which of the buyer's orders in the sale the next one is: one that is free, from 1 to max, or 0 and which order stands for
 * them. */
struct buyer_place {
    uint32_t nth;
    uint64_t order_no;
};
enum fault buyer_place(struct ledger *ledger, const struct ledger_key *buyer, uint32_t max,
                       struct buyer_place *out) MUST_USE;
/* The order counts as its buyer's nth, or no more: 0. */
enum fault order_nth(struct ledger *ledger, uint64_t order_no, uint32_t nth) MUST_USE;
/* How many orders of the buyer's count. */
enum fault buyer_grabs(struct ledger *ledger, const struct ledger_key *buyer, uint32_t *grabs) MUST_USE;

/* Fills id. */
enum fault errand_leave(struct ledger *ledger, struct ledger_errand *errand) MUST_USE;
struct cursor;
bool row_errand(struct cursor *s, struct ledger_errand *out);
/* Held until the end of the transaction. */
enum fault fence_check(struct ledger *ledger, const struct ledger_fence *fence) MUST_USE;

#endif
