/* admission: how many grabs of a sale have got past the guard, and whether one more may (admit_max).
 *
 * A count for each sale in memory, at its slot, without a lock. It begins at the number of orders the sale has made, so that
 * after a restart those refused before do not count, and those who won do: never more than admit_max can win. Any thread. */
#ifndef STAMPEDE_GUARD_ADMISSION_H
#define STAMPEDE_GUARD_ADMISSION_H

#include "base/fault.h"
#include "engine/board.h"
#include "engine/engine.h"

#include <stdbool.h>
#include <stdint.h>

struct admission_counts;

enum fault admission_open(struct admission_counts **out) MUST_USE;
void admission_close(struct admission_counts *counts);

/* Whether this grab may take something. It counts from then on. Where the sale is not running, or has nothing left, or the
 * grab brings a purchase token that is no good, nothing is counted: the gate will only refuse it. notice is the sale's, read
 * for this grab. False: the grab is to be turned away (struct grab), so that the gate tells it what is true and gives it
 * nothing. */
bool admission_enter(struct admission_counts *counts, const struct board_notice *notice, const struct grab *grab);
/* The gate's answer to one that has entered. A repeat of a win, and a refusal that comes before the guard's in the order of
 * problems, do not count after all. */
void admission_settle(struct admission_counts *counts, uint64_t sale_id, enum verdict verdict);

#endif
