/* desk: what the courier works with, turn by turn: the hooks, the notices under way, and what is to be recorded of them.
 *
 * All of it belongs to the courier's thread, but for the counts at the end. */
#ifndef STAMPEDE_COURIER_DESK_H
#define STAMPEDE_COURIER_DESK_H

#include "courier/courier.h"
#include "courier/delivery.h"
#include "courier/sharing.h"

#include <stdatomic.h>

#define DELIVERIES_MAX 512 /* with those that are done and not recorded yet */

struct desk {
    struct gate *gate;
    struct clerk *clerk;
    struct ledger_place place;
    char *ca_path;
    bool private_allowed;
    struct courier_pace pace;
    CURLM *multi;
    bool owner;                /* of the job, of which several machines have one */
    struct ledger_fence fence; /* by which it is */

    struct ledger *ledger;       /* NULL: not connected */
    uint64_t reconnect_ms;       /* monotonic: not before this */
    uint32_t reconnect_wait_ms;  /* after the next failure */
    uint64_t hooks_version;      /* that the endpoints are of */
    bool hooks_read;             /* since the ledger was connected */
    struct endpoint **endpoints; /* by seller; one that is gone stays until its deliveries are recorded */
    size_t endpoint_count, endpoint_capacity;

    struct delivery *deliveries;
    uint32_t in_flight, in_flight_max, done;
    char seller_last[SHARING_TURN_COUNT][USERNAME_BYTES_MAX + 1];  /* who had the last place of each turn */
    uint64_t told_ms;                                              /* what happened by time alone is filed up to here */
    uint64_t look_ms, record_ms, moments_ms, advance_ms, count_ms; /* when each is to be done next */

    _Atomic uint64_t pending, failed, oldest_ms;
};

enum fault desk_init(struct desk *desk, const struct courier_options *options, struct gate *gate,
                     struct clerk *clerk) MUST_USE;
void desk_deinit(struct desk *desk); /* also one whose init failed */
/* Does what is to be done now; answers how long nothing will be, unless a transfer moves. */
uint32_t desk_turn(struct desk *desk);

/* endpoints.c */
/* Reads the hooks again if they changed. */
enum fault endpoints_refresh(struct desk *desk) MUST_USE;
struct endpoint *endpoint_find(const struct desk *desk, const char *seller); /* NULL: there is no hook */
void endpoints_clear(struct desk *desk);

#endif
