/* memory: what the process takes. */
#ifndef STAMPEDE_BASE_MEMORY_H
#define STAMPEDE_BASE_MEMORY_H

#include <stdint.h>

uint64_t memory_resident(void); /* bytes, as the system counts them; 0 if it does not say */

#endif
