#include "guard/proxies.h"

#include <stdio.h>
#include <string.h>

static struct slice trimmed(struct slice text)
{
    while (text.len > 0 && text.data[0] == ' ') text = (struct slice){ text.data + 1, text.len - 1 };
    while (text.len > 0 && text.data[text.len - 1] == ' ') text.len--;
    return text;
}

bool proxies_parse(struct proxies *out, struct slice text, char mistake[ADDRESS_MISTAKE_BYTES])
{
    struct proxies proxies = { .count = 0 };
    text = trimmed(text);
    bool more = text.len > 0;
    while (more) {
        const char *comma = memchr(text.data, ',', text.len);
        struct slice one = { text.data, comma != NULL ? (size_t)(comma - text.data) : text.len };
        if (proxies.count == PROXIES_MAX) {
            snprintf(mistake, ADDRESS_MISTAKE_BYTES, "At most %d proxies can be named; networks count as one.", PROXIES_MAX);
            return false;
        }
        if (!network_parse(&proxies.networks[proxies.count], trimmed(one), mistake)) return false;
        proxies.count++;
        more = comma != NULL;
        if (more) text = (struct slice){ comma + 1, text.len - one.len - 1 };
    }
    *out = proxies;
    return true;
}

bool proxies_trust(const struct proxies *proxies, const struct address *address)
{
    for (uint32_t i = 0; i < proxies->count; i++) {
        if (network_has(&proxies->networks[i], address)) return true;
    }
    return false;
}

struct address proxies_client(const struct proxies *proxies, const struct address *peer, struct slice forwarded)
{
    if (forwarded.len == 0 || !proxies_trust(proxies, peer)) return *peer;

    for (int hops = 0; hops < PROXY_HOPS_MAX; hops++) {
        const char *comma = memrchr(forwarded.data, ',', forwarded.len);
        size_t from = comma != NULL ? (size_t)(comma - forwarded.data) + 1 : 0;
        struct address hop;
        if (!address_parse_hop(&hop, (struct slice){ forwarded.data + from, forwarded.len - from })) return *peer;
        if (comma == NULL || !proxies_trust(proxies, &hop)) return hop;
        forwarded.len = from - 1;
    }
    return *peer;
}
