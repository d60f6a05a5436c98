/* proxies: whose X-Forwarded-For is believed. Anyone can write that header, so it counts only as far as addresses the
 * operator has named vouch for it: from the right, each hop is what the one behind it saw.
 *
 * The networks are a plain value. Any thread. */
#ifndef STAMPEDE_GUARD_PROXIES_H
#define STAMPEDE_GUARD_PROXIES_H

#include "base/address.h"

/* More proxies than this in a row are a loop or a forgery. */
#define PROXY_HOPS_MAX 16

/* The address rates and blocks count a request by. Unless peer is a proxy, that is peer whatever the header says. Else it is
 * the first address from the right that is not a proxy; what stands left of it is the client's own writing and is not read.
 * All of them proxies: the leftmost. No header, or one that cannot be followed so far (no address, more than PROXY_HOPS_MAX
 * proxies): peer.
 *
 * A request may have the header several times: forwarded is all of them in their order, joined with commas. */
struct address proxies_client(const struct networks *proxies, const struct address *peer, struct slice forwarded);

#endif
