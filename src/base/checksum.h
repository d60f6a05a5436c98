/* checksum: CRC32C (Castagnoli), by the processor's instruction where it has one. Any thread. */
#ifndef STAMPEDE_BASE_CHECKSUM_H
#define STAMPEDE_BASE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* Continues from seed (0 to begin): crc32c(crc32c(0, a), b) is that of a followed by b. "123456789" gives 0xE3069283. */
uint32_t crc32c(uint32_t seed, const void *data, size_t len);
/* The same without the instruction: what crc32c() is on other processors, and what the tests hold it against. */
uint32_t crc32c_by_table(uint32_t seed, const void *data, size_t len);

#endif
