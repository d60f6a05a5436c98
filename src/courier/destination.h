/* destination: where a message may go. A seller chooses the URL, and the server stands in a network that sellers must not
 * reach through it: only addresses of the public Internet are called, unless the operator says otherwise. Any thread. */
#ifndef STAMPEDE_COURIER_DESTINATION_H
#define STAMPEDE_COURIER_DESTINATION_H

#include "base/slice.h"

#include <stdbool.h>

struct sockaddr;

/* Why a text cannot be the URL of a webhook, as a sentence; NULL when it can. Read by the code that will call it. */
const char *destination_objection(struct slice url);

/* Whether an address is one of the public Internet: not private, loopback, link-local (where clouds keep their secrets),
 * shared, multicast, reserved, nor an IPv6 address that carries such an IPv4 one. */
bool destination_is_public(const struct sockaddr *address);

#endif
