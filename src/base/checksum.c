#include "base/checksum.h"

#include <stdbool.h>
#include <string.h>

#define POLYNOMIAL_REFLECTED UINT32_C(0x82f63b78)

/* slices[k][b] is the checksum of byte b followed by k zero bytes: eight look-ups, none waiting for another, take eight
 * bytes at once. */
static uint32_t slices[8][256];
static bool has_instruction;

/* Before main(), so that no thread can see half a table and no call pays for asking. */
__attribute__((constructor)) static void checksum_prepare(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL_REFLECTED : 0);
        slices[0][byte] = crc;
    }
    for (uint32_t byte = 0; byte < 256; byte++) {
        for (int k = 1; k < 8; k++) slices[k][byte] = slices[k - 1][byte] >> 8 ^ slices[0][slices[k - 1][byte] & 0xff];
    }
#ifdef __x86_64__
    __builtin_cpu_init();
    has_instruction = __builtin_cpu_supports("sse4.2") != 0;
#endif
}

uint32_t crc32c_by_table(uint32_t seed, const void *data, size_t len)
{
    const uint8_t *p = data;
    uint32_t crc = ~seed;
    for (; len >= 8; len -= 8, p += 8) {
        uint32_t first = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
        crc = slices[7][first & 0xff] ^ slices[6][first >> 8 & 0xff] ^ slices[5][first >> 16 & 0xff] ^
              slices[4][first >> 24] ^ slices[3][p[4]] ^ slices[2][p[5]] ^ slices[1][p[6]] ^ slices[0][p[7]];
    }
    for (; len > 0; len--, p++) crc = crc >> 8 ^ slices[0][(crc ^ *p) & 0xff];
    return ~crc;
}

#ifdef __x86_64__
__attribute__((target("sse4.2"))) static uint32_t crc32c_by_instruction(uint32_t seed, const void *data, size_t len)
{
    const uint8_t *p = data;
    uint64_t crc = (uint32_t)~seed;
    for (; len >= 8; len -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, sizeof word);
        crc = __builtin_ia32_crc32di(crc, word);
    }
    uint32_t rest = (uint32_t)crc;
    for (; len > 0; len--, p++) rest = __builtin_ia32_crc32qi(rest, *p);
    return ~rest;
}
#endif

uint32_t crc32c(uint32_t seed, const void *data, size_t len)
{
#ifdef __x86_64__
    if (has_instruction) return crc32c_by_instruction(seed, data, len);
#endif
    return crc32c_by_table(seed, data, len);
}
