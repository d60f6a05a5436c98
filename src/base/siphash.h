/* siphash: SipHash-2-4, keyed, for tables keyed by users' strings and for digests. */
#ifndef STAMPEDE_BASE_SIPHASH_H
#define STAMPEDE_BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t siphash(const uint8_t key[16], const void *data, size_t len);

#endif
