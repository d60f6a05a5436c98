/* doors: the interfaces of systems that people run today, so that their clients work here unchanged.
 *
 * A door reads what its clients send, calls the handlers of the gateway and answers through its face (gateway/face.h). It
 * holds no rule about stock, limits or money. Each is a table of routes; those that are open are handed to the server. */
#ifndef STAMPEDE_DOORS_DOORS_H
#define STAMPEDE_DOORS_DOORS_H

#include "gateway/routes.h"

#include <stdbool.h>

struct doors {
    bool coupon, claim, cart;
};

extern const struct doors doors_all;
extern const struct route_table coupon_door, claim_door, cart_door;

void doors_collect(const struct doors *open, struct route_tables *out);

#endif
