#include "guard/proxies.h"

#include <string.h>

struct address proxies_client(const struct networks *proxies, const struct address *peer, struct slice forwarded)
{
    if (forwarded.len == 0 || !networks_have(proxies, peer)) return *peer;

    for (int hops = 0; hops < PROXY_HOPS_MAX; hops++) {
        const char *comma = memrchr(forwarded.data, ',', forwarded.len);
        size_t from = comma != NULL ? (size_t)(comma - forwarded.data) + 1 : 0;
        struct address hop;
        if (!address_parse_hop(&hop, (struct slice){ forwarded.data + from, forwarded.len - from })) return *peer;
        if (comma == NULL || !networks_have(proxies, &hop)) return hop;
        forwarded.len = from - 1;
    }
    return *peer;
}
