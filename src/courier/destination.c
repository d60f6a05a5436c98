#include "courier/destination.h"

#include "bounds.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <netinet/in.h>
#include <stdint.h>
#include <strings.h>
#include <sys/socket.h>

static bool part_is_there(CURLU *parts, CURLUPart part)
{
    char *text = NULL;
    bool there = curl_url_get(parts, part, &text, 0) == CURLUE_OK && text != NULL;
    curl_free(text);
    return there;
}

static const char *parts_objection(CURLU *parts)
{
    if (!part_is_there(parts, CURLUPART_HOST)) return "url must name a host";
    if (part_is_there(parts, CURLUPART_USER) || part_is_there(parts, CURLUPART_PASSWORD))
        return "url must not hold a name or a password";
    if (part_is_there(parts, CURLUPART_FRAGMENT)) return "url must not have a fragment";
    if (part_is_there(parts, CURLUPART_ZONEID)) return "url must not name an interface";
    return NULL;
}

const char *destination_objection(struct slice url)
{
    char text[HOOK_URL_BYTES_MAX + 1];
    if (url.len == 0 || url.len > HOOK_URL_BYTES_MAX) return "url must have 1 to 500 bytes";
    for (size_t i = 0; i < url.len; i++) {
        if (url.data[i] <= 0x20 || url.data[i] >= 0x7f) return "url must be ASCII without spaces; encode the rest";
    }
    memcpy(text, url.data, url.len);
    text[url.len] = '\0';
    /* The parser would take one slash for two, and of three find a host further on. */
    size_t scheme_len = strncasecmp(text, "http://", 7) == 0 ? 7 : strncasecmp(text, "https://", 8) == 0 ? 8 : 0;
    if (scheme_len == 0) return "url must begin with https:// or http://";
    if (text[scheme_len] == '/') return "url must name a host";

    CURLU *parts = curl_url();
    if (parts == NULL) return "url cannot be read now";
    const char *objection = "url is not a URL";
    if (curl_url_set(parts, CURLUPART_URL, text, 0) == CURLUE_OK) objection = parts_objection(parts);
    curl_url_cleanup(parts);
    return objection;
}

/* Those of the IANA registries that are not globally reachable, and multicast. */
static const struct {
    uint32_t address;
    uint8_t bits;
} closed_v4[] = {
    { 0x00000000, 8 },  /* 0.0.0.0/8 this network */
    { 0x0a000000, 8 },  /* 10.0.0.0/8 private */
    { 0x64400000, 10 }, /* 100.64.0.0/10 shared by carriers */
    { 0x7f000000, 8 },  /* 127.0.0.0/8 loopback */
    { 0xa9fe0000, 16 }, /* 169.254.0.0/16 link-local, metadata */
    { 0xac100000, 12 }, /* 172.16.0.0/12 private */
    { 0xc0000000, 24 }, /* 192.0.0.0/24 protocol assignments */
    { 0xc0000200, 24 }, /* 192.0.2.0/24 documentation */
    { 0xc0586300, 24 }, /* 192.88.99.0/24 relays of 6to4 */
    { 0xc0a80000, 16 }, /* 192.168.0.0/16 private */
    { 0xc6120000, 15 }, /* 198.18.0.0/15 benchmarks */
    { 0xc6336400, 24 }, /* 198.51.100.0/24 documentation */
    { 0xcb007100, 24 }, /* 203.0.113.0/24 documentation */
    { 0xe0000000, 3 },  /* 224.0.0.0/4 multicast, 240.0.0.0/4 reserved, broadcast */
};

static bool v4_is_public(uint32_t address)
{
    for (size_t i = 0; i < sizeof closed_v4 / sizeof *closed_v4; i++) {
        if ((address ^ closed_v4[i].address) >> (32 - closed_v4[i].bits) == 0) return false;
    }
    return true;
}

static bool begins_with(const uint8_t *address, const uint8_t *prefix, unsigned bits)
{
    unsigned whole = bits / 8, rest = bits % 8;
    if (memcmp(address, prefix, whole) != 0) return false;
    return rest == 0 || (address[whole] ^ prefix[whole]) >> (8 - rest) == 0;
}

static uint32_t v4_at(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* Only 2000::/3 is given out; of that, what is not reachable or leads to IPv4 by another way is closed. */
static bool v6_is_public(const uint8_t address[16])
{
    static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
    static const uint8_t translated[12] = { 0x00, 0x64, 0xff, 0x9b };
    static const uint8_t global[] = { 0x20 }, by_6to4[] = { 0x20, 0x02 };
    static const struct {
        uint8_t bytes[4];
        uint8_t bits;
    } closed[] = {
        { { 0x20, 0x01, 0x00, 0x00 }, 23 }, /* 2001::/23 protocol assignments, Teredo among them */
        { { 0x20, 0x01, 0x0d, 0xb8 }, 32 }, /* 2001:db8::/32 documentation */
        { { 0x3f, 0xff, 0x00, 0x00 }, 20 }, /* 3fff::/20 documentation */
    };
    if (begins_with(address, mapped, 96)) return v4_is_public(v4_at(address + 12));
    if (begins_with(address, translated, 96)) return v4_is_public(v4_at(address + 12));
    if (!begins_with(address, global, 3)) return false;
    if (begins_with(address, by_6to4, 16)) return v4_is_public(v4_at(address + 2));
    for (size_t i = 0; i < sizeof closed / sizeof *closed; i++) {
        if (begins_with(address, closed[i].bytes, closed[i].bits)) return false;
    }
    return true;
}

bool destination_is_public(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, address, sizeof v4);
        return v4_is_public(ntohl(v4.sin_addr.s_addr));
    }
    if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, address, sizeof v6);
        return v6_is_public(v6.sin6_addr.s6_addr);
    }
    return false;
}
