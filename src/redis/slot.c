#include "redis/slot.h"

/* Of each half byte: a key's tag is a few bytes long, a table of 256 would cost more in cache than it saves. */
static const uint16_t crc16_nibbles[16] = { 0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5, 0x60c6, 0x70e7,
                                            0x8108, 0x9129, 0xa14a, 0xb16b, 0xc18c, 0xd1ad, 0xe1ce, 0xf1ef };

uint16_t redis_crc16(struct slice bytes)
{
    uint16_t crc = 0;
    for (size_t i = 0; i < bytes.len; i++) {
        uint8_t byte = (uint8_t)bytes.data[i];
        crc = (uint16_t)((crc << 4) ^ crc16_nibbles[(crc >> 12) ^ (byte >> 4)]);
        crc = (uint16_t)((crc << 4) ^ crc16_nibbles[(crc >> 12) ^ (byte & 15)]);
    }
    return crc;
}

uint16_t redis_slot(struct slice key)
{
    const char *open = key.len > 0 ? memchr(key.data, '{', key.len) : NULL;
    if (open != NULL) {
        const char *tag = open + 1;
        const char *close = memchr(tag, '}', key.len - (size_t)(tag - key.data));
        if (close != NULL && close > tag) key = (struct slice){ tag, (size_t)(close - tag) };
    }
    return redis_crc16(key) & (REDIS_SLOTS - 1);
}
