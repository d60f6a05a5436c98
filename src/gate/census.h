/* census: how many nodes there are. Inside this room only; the keeper's thread.
 *
 * Each says every second that it lives; one that has not for CENSUS_MS is gone. Only shares are reckoned by it: a number
 * that is a moment behind sells nothing twice and leaves nothing unsold. */
#ifndef STAMPEDE_GATE_CENSUS_H
#define STAMPEDE_GATE_CENSUS_H

#include <stdint.h>

struct keeper;

#define CENSUS_PAUSE_MS 1000
#define CENSUS_MS 5000

/* Says that this node lives, and counts; where it is time to. What was counted last stands while Redis does not answer. */
void census_keep(struct keeper *keeper);
void census_leave(struct keeper *keeper);

#endif
