/* outcomes: what became of each sale's orders, counted from the journal as the ledger should have counted it.
 *
 * Sales are numbered from 1 without a gap. 112 bytes a sale, also of those that are long over, because a refund may come at
 * any time. */
#ifndef STAMPEDE_COMMAND_OUTCOMES_H
#define STAMPEDE_COMMAND_OUTCOMES_H

#include "base/fault.h"
#include "engine/decision.h"
#include "ledger/ledger.h"

#include <stdbool.h>
#include <stdint.h>

struct outcomes {
    struct ledger_numbers *sales; /* by id - 1 */
    uint64_t count, room;
};

void outcomes_close(struct outcomes *outcomes);
/* A sale that was created; the next in order. */
enum fault outcomes_sale(struct outcomes *outcomes) MUST_USE;
/* available: what the sale has left after it. */
void outcomes_won(struct outcomes *outcomes, const struct decision *decision, uint32_t available);
/* before: the state that the order was in. */
void outcomes_ended(struct outcomes *outcomes, const struct decision *decision, enum order_state before, uint32_t available);

/* The name of a number that is not the journal's in the ledger, with both; NULL: all are. */
struct outcome_difference {
    const char *name;
    uint64_t journal, ledger;
};
bool outcomes_differ(const struct outcomes *outcomes, uint64_t sale_id, const struct ledger_numbers *ledger,
                     struct outcome_difference *out);

#endif
