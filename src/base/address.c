#include "base/address.h"

#include "base/text.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#define V4_BITS_BEFORE 96
#define ADDRESS_BITS 128

static const uint8_t v4_prefix[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

_Static_assert(ADDRESS_TEXT_BYTES >= INET6_ADDRSTRLEN, "every address can be printed");

static void address_set_v4(struct address *out, const void *four_bytes)
{
    memcpy(out->bytes, v4_prefix, sizeof(v4_prefix));
    memcpy(out->bytes + sizeof(v4_prefix), four_bytes, 4);
}

bool address_parse(struct address *out, struct slice text)
{
    char copy[ADDRESS_TEXT_BYTES];
    if (text.len == 0 || text.len >= sizeof(copy) || memchr(text.data, '\0', text.len) != NULL) return false;
    memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';

    struct in_addr v4;
    if (inet_pton(AF_INET, copy, &v4) == 1) {
        address_set_v4(out, &v4);
        return true;
    }
    struct in6_addr v6;
    if (inet_pton(AF_INET6, copy, &v6) != 1) return false;
    memcpy(out->bytes, &v6, sizeof(out->bytes));
    return true;
}

static struct slice trimmed(struct slice text)
{
    while (text.len > 0 && (text.data[0] == ' ' || text.data[0] == '\t'))
        text = (struct slice){ text.data + 1, text.len - 1 };
    while (text.len > 0 && (text.data[text.len - 1] == ' ' || text.data[text.len - 1] == '\t')) text.len--;
    return text;
}

static bool port_parse(uint16_t *out, struct slice text)
{
    uint64_t port;
    if (!text_to_u64(text, &port) || port > UINT16_MAX) return false;
    *out = (uint16_t)port;
    return true;
}

bool address_parse_port(struct address *out, uint16_t *port, struct slice text)
{
    const char *colon = text.len > 0 ? memrchr(text.data, ':', text.len) : NULL;
    if (colon == NULL) return false;
    struct slice host = { text.data, (size_t)(colon - text.data) };
    if (!port_parse(port, (struct slice){ colon + 1, text.len - host.len - 1 })) return false;
    bool brackets = host.len > 2 && host.data[0] == '[' && host.data[host.len - 1] == ']';
    if (brackets) host = (struct slice){ host.data + 1, host.len - 2 };
    return address_parse(out, host) && brackets == (memchr(host.data, ':', host.len) != NULL);
}

bool address_parse_hop(struct address *out, struct slice text)
{
    uint16_t port;
    text = trimmed(text);
    if (text.len == 0) return false;
    bool brackets = text.data[0] == '[';
    if (brackets && text.data[text.len - 1] == ']') {
        struct slice inside = { text.data + 1, text.len - 2 };
        return memchr(inside.data, ':', inside.len) != NULL && address_parse(out, inside);
    }
    /* One colon stands before a port; IPv6 has at least two. */
    const char *first = memchr(text.data, ':', text.len);
    bool bare = first == NULL || first != memrchr(text.data, ':', text.len);
    return !brackets && bare ? address_parse(out, text) : address_parse_port(out, &port, text);
}

bool address_from_sockaddr(struct address *out, const struct sockaddr *from)
{
    if (from->sa_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, from, sizeof(v4));
        address_set_v4(out, &v4.sin_addr);
        return true;
    }
    if (from->sa_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, from, sizeof(v6));
        memcpy(out->bytes, &v6.sin6_addr, sizeof(out->bytes));
        return true;
    }
    return false;
}

bool address_is_v4(const struct address *address)
{
    return memcmp(address->bytes, v4_prefix, sizeof(v4_prefix)) == 0;
}

bool address_equal(const struct address *a, const struct address *b)
{
    return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

void address_print(char out[ADDRESS_TEXT_BYTES], const struct address *address)
{
    const char *done = address_is_v4(address)
                           ? inet_ntop(AF_INET, address->bytes + sizeof(v4_prefix), out, ADDRESS_TEXT_BYTES)
                           : inet_ntop(AF_INET6, address->bytes, out, ADDRESS_TEXT_BYTES);
    assert(done != NULL);
}

/* With every bit beyond the first ones cleared. */
static struct address address_cut(const struct address *address, unsigned bits)
{
    struct address cut = { { 0 } };
    memcpy(cut.bytes, address->bytes, bits / 8);
    if (bits % 8 != 0) cut.bytes[bits / 8] = (uint8_t)(address->bytes[bits / 8] & (0xff00u >> bits % 8));
    return cut;
}

struct address address_rate_key(const struct address *address)
{
    return address_is_v4(address) ? *address : address_cut(address, 64);
}

static const char bits_beyond[] = "has bits beyond its prefix that are not zero";

const char *network_read(struct network *out, struct slice text)
{
    const char *slash = text.len > 0 ? memchr(text.data, '/', text.len) : NULL;
    struct slice host = { text.data, slash != NULL ? (size_t)(slash - text.data) : text.len };
    struct address address;
    if (!address_parse(&address, host))
        return "is not an address or a network: IPv4 (192.0.2.7, 10.0.0.0/8) or IPv6 (2001:db8::1, 2001:db8::/32)";

    uint64_t bits = ADDRESS_BITS;
    if (slash != NULL) {
        /* A mapped address may be written in either way; ::ffff:10.0.0.0/104 counts its bits as IPv6 does. */
        bool v4 = memchr(host.data, ':', host.len) == NULL;
        struct slice digits = { slash + 1, text.len - host.len - 1 };
        if (!text_to_u64(digits, &bits) || bits > (v4 ? 32 : ADDRESS_BITS))
            return v4 ? "needs a whole number from 0 to 32 after the /" : "needs a whole number from 0 to 128 after the /";
        if (v4) bits += V4_BITS_BEFORE;
    }

    *out = (struct network){ .address = address_cut(&address, (unsigned)bits), .bits = (uint8_t)bits };
    return address_equal(&out->address, &address) ? NULL : bits_beyond;
}

bool network_parse(struct network *out, struct slice text, char mistake[ADDRESS_MISTAKE_BYTES])
{
    struct network network;
    const char *wrong = network_read(&network, text);
    if (wrong == NULL) {
        *out = network;
        return true;
    }
    char meant[NETWORK_TEXT_BYTES] = "";
    if (wrong == bits_beyond) network_print(meant, &network);
    /* What is shown was given by an operator, but may be of any length and any bytes. */
    size_t len = text.len < 64 ? text.len : 64;
    if (!utf8_valid((struct slice){ text.data, len }) || text_has_control((struct slice){ text.data, len })) len = 0;
    snprintf(mistake, ADDRESS_MISTAKE_BYTES, "\"%.*s%s\" %s%s%s.", (int)len, len > 0 ? text.data : "",
             len < text.len ? "…" : "", wrong, meant[0] != '\0' ? "; the network is " : "", meant);
    return false;
}

void network_print(char out[NETWORK_TEXT_BYTES], const struct network *network)
{
    char text[ADDRESS_TEXT_BYTES];
    address_print(text, &network->address);
    unsigned before = address_is_v4(&network->address) && network->bits >= V4_BITS_BEFORE ? V4_BITS_BEFORE : 0;
    if (network->bits == ADDRESS_BITS) {
        snprintf(out, NETWORK_TEXT_BYTES, "%s", text);
    } else {
        snprintf(out, NETWORK_TEXT_BYTES, "%s/%u", text, network->bits - before);
    }
}

bool network_has(const struct network *network, const struct address *address)
{
    if (network->bits < V4_BITS_BEFORE && address_is_v4(address)) return false;
    struct address cut = address_cut(address, network->bits);
    return address_equal(&cut, &network->address);
}

bool networks_parse(struct networks *out, struct slice text, char mistake[ADDRESS_MISTAKE_BYTES])
{
    struct networks networks = { .count = 0 };
    text = trimmed(text);
    bool more = text.len > 0;
    while (more) {
        const char *comma = memchr(text.data, ',', text.len);
        struct slice one = { text.data, comma != NULL ? (size_t)(comma - text.data) : text.len };
        if (networks.count == NETWORKS_MAX) {
            snprintf(mistake, ADDRESS_MISTAKE_BYTES, "At most %d can be named; a network counts as one.", NETWORKS_MAX);
            return false;
        }
        if (!network_parse(&networks.each[networks.count], trimmed(one), mistake)) return false;
        networks.count++;
        more = comma != NULL;
        if (more) text = (struct slice){ comma + 1, text.len - one.len - 1 };
    }
    *out = networks;
    return true;
}

bool networks_have(const struct networks *networks, const struct address *address)
{
    for (uint32_t i = 0; i < networks->count; i++) {
        if (network_has(&networks->each[i], address)) return true;
    }
    return false;
}
