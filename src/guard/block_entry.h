/* block_entry: one entry of the block list, as text and as a value.
 *
 * The text is "user NAME" or "ip ADDRESS" or "ip ADDRESS/PREFIX". The normal form of an entry, which is what lists show, has
 * one space, the address as RFC 5952 writes it, and no prefix where it is the whole address. IPv6 written IPv4-mapped is
 * IPv4. Reading is strict: an address with bits behind its prefix is refused, because nobody can tell what was meant. */
#ifndef STAMPEDE_GUARD_BLOCK_ENTRY_H
#define STAMPEDE_GUARD_BLOCK_ENTRY_H

#include "base/slice.h"
#include "bounds.h"

#include <stdint.h>

#define BLOCK_ENTRY_BYTES_MAX (sizeof "user " - 1 + BUYER_BYTES_MAX)

struct block_entry {
    bool is_user;
    struct slice user; /* of a user: bytes of the text it was read from */
    /* Of an address: 128 bits, the high and the low half; IPv4 as ::ffff:a.b.c.d. Bits behind the prefix are zero. */
    uint64_t high, low;
    uint8_t prefix; /* of the 128 bits */
};

/* NULL when text is an entry, with nothing before or after it; else a sentence that says what is wrong. */
const char *block_entry_read(struct slice text, struct block_entry *out);
/* The normal form, with a NUL; its length. */
size_t block_entry_write(char out[BLOCK_ENTRY_BYTES_MAX + 1], const struct block_entry *entry);
bool block_entry_equal(const struct block_entry *a, const struct block_entry *b);
/* What a line of the file says without its comment and the blanks around it; empty where it says nothing. A comment begins
 * with # at the beginning of a line, or after a blank once an entry stands before it: a user may be called #ann. */
struct slice block_line_text(struct slice line);

/* IPv4 has its own lists of prefixes: ::/0 is everyone who comes by IPv6, and nobody else. */
bool address_is_ipv4(uint64_t high, uint64_t low);
void address_halves(const uint8_t address[16], uint64_t *high, uint64_t *low);
/* The bits of one half that belong to the first prefix bits: half 0 is the high one. */
static inline uint64_t prefix_mask(unsigned prefix, unsigned half)
{
    unsigned begin = half * 64;
    if (prefix <= begin) return 0;
    return prefix >= begin + 64 ? UINT64_MAX : ~(UINT64_MAX >> (prefix - begin));
}

#endif
