/* sharing: who of all endpoints may send how many messages now.
 *
 * The places in all are few, and one that is taken cannot be taken back before its time-out: an endpoint that answers just
 * in time would keep what it has been given. So nobody gets a second place while another has none, a quarter of the places
 * is only for those who have none, and endpoints that are slow, or of which nothing is known yet, have part of them only.
 * The courier's thread only. */
#ifndef STAMPEDE_COURIER_SHARING_H
#define STAMPEDE_COURIER_SHARING_H

#include "courier/endpoint.h"

/* How the places are taken; turns in which they are given. */
struct sharing {
    uint32_t places;                     /* in all */
    uint32_t taken[ENDPOINT_PACE_COUNT]; /* by the endpoints of each pace */
    uint32_t busy;                       /* endpoints that have some */
};

/* Those without a place come first, the quick ones before the others; then those who have some. */
enum sharing_turn { SHARING_QUICK, SHARING_UNKNOWN, SHARING_SLOW, SHARING_MORE, SHARING_TURN_COUNT };

void sharing_count(struct sharing *sharing, const struct endpoint *endpoint); /* adds what it has */
/* How many more places an endpoint may take in a turn. */
uint32_t sharing_room(const struct sharing *sharing, enum sharing_turn turn, const struct endpoint *endpoint,
                      uint64_t now_ms);

#endif
