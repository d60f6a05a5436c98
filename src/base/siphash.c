#include "base/siphash.h"

/* SipHash-c-d after Aumasson and Bernstein, "SipHash: a fast short-input PRF" (2012). */

struct sip {
    uint64_t v0, v1, v2, v3;
};

static inline uint64_t rotate_left(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

/* Little-endian by definition, whatever the machine; compilers make one load of it. */
static inline uint64_t load_le64(const uint8_t *p)
{
    return (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24 | (uint64_t)p[4] << 32 |
           (uint64_t)p[5] << 40 | (uint64_t)p[6] << 48 | (uint64_t)p[7] << 56;
}

static inline void sip_round(struct sip *s)
{
    s->v0 += s->v1;
    s->v2 += s->v3;
    s->v1 = rotate_left(s->v1, 13) ^ s->v0;
    s->v3 = rotate_left(s->v3, 16) ^ s->v2;
    s->v0 = rotate_left(s->v0, 32);

    s->v2 += s->v1;
    s->v0 += s->v3;
    s->v1 = rotate_left(s->v1, 17) ^ s->v2;
    s->v3 = rotate_left(s->v3, 21) ^ s->v0;
    s->v2 = rotate_left(s->v2, 32);
}

static inline void sip_word(struct sip *s, uint64_t word, int rounds)
{
    s->v3 ^= word;
    for (int i = 0; i < rounds; i++) sip_round(s);
    s->v0 ^= word;
}

/* Inlined into both, with the rounds known. */
static inline __attribute__((always_inline)) uint64_t sip_hash(const uint8_t key[16], const void *data, size_t len,
                                                               int word_rounds, int end_rounds)
{
    uint64_t k0 = load_le64(key), k1 = load_le64(key + 8);
    struct sip s = {
        .v0 = k0 ^ UINT64_C(0x736f6d6570736575),
        .v1 = k1 ^ UINT64_C(0x646f72616e646f6d),
        .v2 = k0 ^ UINT64_C(0x6c7967656e657261),
        .v3 = k1 ^ UINT64_C(0x7465646279746573),
    };

    const uint8_t *p = data;
    size_t tail = len % 8;
    for (size_t left = len / 8; left > 0; left--, p += 8) sip_word(&s, load_le64(p), word_rounds);

    /* The last word is what is left over, with the length in its top byte. */
    uint64_t last = (uint64_t)(len & 0xff) << 56;
    for (size_t i = 0; i < tail; i++) last |= (uint64_t)p[i] << (8 * i);
    sip_word(&s, last, word_rounds);

    s.v2 ^= 0xff;
    for (int i = 0; i < end_rounds; i++) sip_round(&s);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

uint64_t siphash(const uint8_t key[16], const void *data, size_t len)
{
    return sip_hash(key, data, len, 2, 4);
}

uint64_t siphash_of_table(const uint8_t key[16], const void *data, size_t len)
{
    return sip_hash(key, data, len, 1, 3);
}
