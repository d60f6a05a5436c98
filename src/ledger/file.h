/* file: what the files of filing share. Inside this room only. */
#ifndef STAMPEDE_LEDGER_FILE_H
#define STAMPEDE_LEDGER_FILE_H

#include "engine/decision.h"
#include "ledger/database.h"

/* A transaction that files, without a word about the point; commit writes the sums. After a fault, also of commit, roll back
 * with ledger_file_rollback(). */
enum fault filing_begin(struct ledger *ledger) MUST_USE;
enum fault filing_commit(struct ledger *ledger) MUST_USE;
/* Says why a decision cannot be filed: FAULT_DAMAGE. */
enum fault filing_damage(const struct ledger *ledger, uint64_t seq, const char *what) MUST_USE;
/* Runs a statement whose parameters are bound. *conflict tells a violated constraint, which is not logged here: it may be a
 * row that is there already. */
enum fault filing_write(struct ledger *ledger, enum statement id, bool *conflict) MUST_USE;
/* The same for one that is to change the row of a sale: a constraint, or no such row, is damage. */
enum fault filing_update(struct ledger *ledger, enum statement id, uint64_t seq) MUST_USE;
/* Whether rows are queued, and a row that must be as the decision found it: else the transaction fails, later. */
bool filing_queues(const struct ledger *ledger);
enum fault filing_queue(struct ledger *ledger, enum statement id) MUST_USE;
/* The sums of one sale; another sale's in the same place is written first. *out is good also with a fault. */
enum fault tally_find(struct ledger *ledger, uint64_t sale_id, struct tally **out) MUST_USE;

/* numbers.c: what becomes of orders, in a sale's sums. begin: for sums that are new; the others after the sums have changed.
 */
enum fault numbers_begin(struct ledger *ledger, struct tally *tally) MUST_USE;
void numbers_won(struct tally *tally, const struct decision *d);
enum fault numbers_ended(struct ledger *ledger, struct tally *tally, const struct decision *d) MUST_USE;
void numbers_bind(struct cursor *s, const struct tally *tally);

/* file_sales.c */
enum fault file_created(struct ledger *ledger, const struct decision *d) MUST_USE;
enum fault file_changed(struct ledger *ledger, const struct decision *d) MUST_USE;
enum fault file_switched(struct ledger *ledger, const struct decision *d) MUST_USE;
enum fault file_stock(struct ledger *ledger, const struct decision *d) MUST_USE;
/* file_orders.c */
enum fault file_won(struct ledger *ledger, const struct decision *d) MUST_USE;
/* Its parts, for those who look first: the row of a win, bound to STATEMENT_ORDER_INSERT or _INSERT_NTH, then the token it
 * spends and its sale's sums. */
enum fault won_bind(struct ledger *ledger, enum statement id, const struct decision *d) MUST_USE;
enum fault won_count(struct ledger *ledger, const struct decision *d) MUST_USE;
enum fault file_token(struct ledger *ledger, const struct decision *d) MUST_USE;
enum fault file_ended(struct ledger *ledger, const struct decision *d) MUST_USE;

#endif
