/* random: bytes from the kernel. Aborts if it has none to give: nothing here works without them. */
#ifndef STAMPEDE_BASE_RANDOM_H
#define STAMPEDE_BASE_RANDOM_H

#include <stddef.h>

void random_bytes(void *out, size_t len);

#endif
