/* siphash: SipHash, keyed. 2-4, as it was published, for digests and whatever is not asked for by every request. */
#ifndef STAMPEDE_BASE_SIPHASH_H
#define STAMPEDE_BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t siphash(const uint8_t key[16], const void *data, size_t len);
/* 1-3: for tables in memory alone, keyed by users' strings, that a crowd asks: nobody sees a hash, and to flood a table one
 * would have to guess the key. Half of the rounds. */
uint64_t siphash_of_table(const uint8_t key[16], const void *data, size_t len);

#endif
