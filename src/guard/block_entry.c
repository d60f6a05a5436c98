#include "guard/block_entry.h"

#include "base/address.h"
#include "base/text.h"

#include <assert.h>
#include <stdio.h>

_Static_assert(sizeof "ip " + NETWORK_TEXT_BYTES <= BLOCK_ENTRY_BYTES_MAX, "an address is shorter than a name may be");

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r';
}

bool address_is_ipv4(uint64_t high, uint64_t low)
{
    return high == 0 && low >> 32 == 0xffff;
}

void address_halves(const uint8_t address[16], uint64_t *high, uint64_t *low)
{
    memcpy(high, address, 8);
    memcpy(low, address + 8, 8);
    *high = __builtin_bswap64(*high);
    *low = __builtin_bswap64(*low);
}
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the halves of an address are swapped into host order");

struct slice block_line_text(struct slice line)
{
    const char *at = line.data, *end = line.data + line.len;
    while (at < end && is_blank(*at)) at++;
    if (at < end && *at == '#') end = at;
    /* The word and the blanks behind it belong to the entry, whatever the value begins with. */
    const char *value = at;
    while (value < end && !is_blank(*value)) value++;
    while (value < end && is_blank(*value)) value++;
    for (const char *p = value; p < end; p++) {
        if (*p == '#' && p > value && is_blank(p[-1])) end = p;
    }
    while (end > at && is_blank(end[-1])) end--;
    return (struct slice){ at, (size_t)(end - at) };
}

static const char *user_read(struct slice name, struct block_entry *out)
{
    if (name.len > BUYER_BYTES_MAX) return "a name has at most 64 bytes";
    if (!utf8_valid(name)) return "a name is UTF-8";
    if (text_has_control(name)) return "a name has no control characters";
    if (is_blank(name.data[name.len - 1])) return "a name does not end with a space";
    if (memmem(name.data, name.len, " #", 2) != NULL) return "a name has no # after a space: that begins a comment";
    out->is_user = true;
    out->user = name;
    return NULL;
}

static const char *address_read(struct slice text, struct block_entry *out)
{
    struct network network;
    const char *wrong = network_read(&network, text);
    if (wrong != NULL) return wrong;
    out->is_user = false;
    out->prefix = network.bits;
    address_halves(network.address.bytes, &out->high, &out->low);
    return NULL;
}

const char *block_entry_read(struct slice text, struct block_entry *out)
{
    *out = (struct block_entry){ .is_user = false };
    size_t word = 0;
    while (word < text.len && !is_blank(text.data[word])) word++;
    size_t value = word;
    while (value < text.len && is_blank(text.data[value])) value++;
    struct slice kind = { text.data, word }, rest = { text.data + value, text.len - value };
    bool user = slice_is(kind, "user");
    if (!user && !slice_is(kind, "ip")) return "an entry is user NAME or ip ADDRESS[/PREFIX]";
    if (rest.len == 0) return user ? "user needs a name" : "ip needs an address";
    return user ? user_read(rest, out) : address_read(rest, out);
}

size_t block_entry_write(char out[BLOCK_ENTRY_BYTES_MAX + 1], const struct block_entry *entry)
{
    int len;
    if (entry->is_user) {
        len = snprintf(out, BLOCK_ENTRY_BYTES_MAX + 1, "user %.*s", (int)entry->user.len, entry->user.data);
    } else {
        char text[NETWORK_TEXT_BYTES];
        uint64_t halves[2] = { __builtin_bswap64(entry->high), __builtin_bswap64(entry->low) };
        struct network network = { .bits = entry->prefix };
        memcpy(network.address.bytes, halves, sizeof halves);
        network_print(text, &network);
        len = snprintf(out, BLOCK_ENTRY_BYTES_MAX + 1, "ip %s", text);
    }
    assert(len > 0 && (size_t)len <= BLOCK_ENTRY_BYTES_MAX);
    return (size_t)len;
}

bool block_entry_equal(const struct block_entry *a, const struct block_entry *b)
{
    if (a->is_user != b->is_user) return false;
    if (a->is_user) return slice_equal(a->user, b->user);
    return a->high == b->high && a->low == b->low && a->prefix == b->prefix;
}
