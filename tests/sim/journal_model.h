/* journal_model: what was appended and what was acknowledged, kept beside a journal on the simulated disk, and compared with
 * it after every recovery.
 *
 * A decision is made from its sequence number and a salt, so the model stores only salts. What was appended but not
 * acknowledged may be lost; its numbers are then given out again, with other salts. */
#ifndef STAMPEDE_TESTS_SIM_JOURNAL_MODEL_H
#define STAMPEDE_TESTS_SIM_JOURNAL_MODEL_H

#include "journal/journal.h"

#include <stdbool.h>
#include <stdint.h>

#define MODEL_DECISIONS_MAX 20000
#define MODEL_FOLDER "/data/journal"
/* Far below what an operator may set, so that a run changes segments often. */
#define MODEL_SEGMENT_BYTES (64u << 10)

struct model {
    uint64_t salts[MODEL_DECISIONS_MAX + 1];
    uint64_t appended, acked;
    struct journal_point point; /* of a ledger that files now and then */
    uint32_t segment_bytes;

    struct journal *journal; /* NULL: not open */
    uint64_t seen;           /* by the reader of the last recovery */
    const char *lie;         /* what a recovery gave that never was appended; NULL: nothing */
    uint32_t poison_calls;
    struct journal_damage damage;
};

/* The seed of this run: STAMPEDE_SEED, or a new one. Printed, so that it can be given again. */
uint64_t model_seed(void);

void model_init(struct model *model);
/* Makes the decision that a sequence number and a salt stand for; scratch owns its texts. */
struct model_scratch {
    struct sale_terms terms;
    char seller[USERNAME_BYTES_MAX], buyer[BUYER_BYTES_MAX], key[IDEMPOTENCY_KEY_BYTES_MAX];
};
void model_decision(uint64_t seq, uint64_t salt, struct model_scratch *scratch, struct decision *out);
uint64_t model_digest(uint64_t seq, uint64_t salt);

/* Opens the journal and compares. After FAULT_NONE everything recovered counts as acknowledged, for it may be told now. What
 * is wrong by the promises is found in model_wrong(). */
enum fault model_open(struct model *model) MUST_USE;
/* NULL: nothing acknowledged is missing, nothing was made up. Meaningful after FAULT_NONE. */
const char *model_wrong(const struct model *model);
void model_close(struct model *model);

/* Appends up to count decisions while there is room; how many. */
uint32_t model_append(struct model *model, uint32_t count);
/* Commits what is open, prepares a spare. */
enum fault model_commit(struct model *model) MUST_USE;
/* The ledger files all that was acknowledged. */
void model_file(struct model *model);
/* turns of: append a few, commit, now and then file. Stops when poisoned. */
void model_work(struct model *model, uint32_t turns);

/* Compares what it is given, from model->seen on. */
struct journal_reader model_reader(struct model *model);
/* Reads the journal to its end, or behind the durable mark of live, and compares: FAULT_NONE means whole batches, each as
 * appended. */
enum fault model_scan(struct model *model, const struct journal *live, uint64_t seq_after, uint64_t *seq_last) MUST_USE;

#endif
