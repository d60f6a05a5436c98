/* claim_numbers: the numbers of those who came to a sale and got nothing, going on above the winners'.
 *
 * A count for each sale in memory, at its slot, without a lock: losing costs no disk and no memory. Any thread. Counted
 * since the server started: after a restart a sale's losers are numbered from above its winners again. */
#ifndef STAMPEDE_DOORS_CLAIM_NUMBERS_H
#define STAMPEDE_DOORS_CLAIM_NUMBERS_H

#include "bounds.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct claim_numbers {
    _Atomic uint64_t words[SALES_OPEN_MAX]; /* all zeros at first */
};

/* The next number, which nobody who lost had before and which is larger than winners_max, the largest number that a winner
 * can have as things are. winners_max 0: the sale is over and nobody knows it any more; then 0 where nobody has lost since
 * the start.
 */
uint64_t claim_numbers_next(struct claim_numbers *numbers, uint64_t sale_id, uint64_t winners_max);

#endif
