/* courier: tells sellers by webhook what has happened to their sales and orders.
 *
 * One thread with a connection to the ledger and a libcurl multi of its own takes notices out of the outbox, sends them, and
 * records what became of them: at least once, signed, in order for each order, sale and event, retried with back-off. It
 * begins where it was stopped, however that was. Nothing that sells waits for it: the clerk fills the outbox, and an
 * endpoint that is slow or dead keeps only its own seller's notices waiting. */
#ifndef STAMPEDE_COURIER_COURIER_H
#define STAMPEDE_COURIER_COURIER_H

#include "base/fault.h"
#include "clerk/clerk.h"
#include "gate/gate.h"

#include <stdbool.h>
#include <stdint.h>

struct courier;

/* Messages on their way at the same time: fewer where the system allows few descriptors. */
#define COURIER_IN_FLIGHT_MAX 64

/* What may change while it runs. */
struct courier_pace {
    uint64_t timeout_ms;                 /* of one try */
    uint64_t retry_ms_min, retry_ms_max; /* the first wait after a failed try, and the longest */
    uint64_t give_up_ms;                 /* how long a notice is tried */
};

struct courier_options {
    const struct ledger_place *ledger; /* its path outlives the courier */
    const char *ca_path;               /* PEM file of authorities that may vouch for endpoints; empty: the system's */
    bool private_allowed;
    struct courier_pace pace;
};

/* Whether ca_path can be used, as courier_open() asks: FAULT_CONFIG, which has been logged. */
enum fault courier_ca_check(const char *ca_path) MUST_USE;

/* Starts the thread. Texts are copied. */
enum fault courier_open(struct courier **out, const struct courier_options *options, struct gate *gate,
                        struct clerk *clerk) MUST_USE;
/* Within a moment: what is under way is dropped and tried again after the next start. */
void courier_close(struct courier *courier);
void courier_set_pace(struct courier *courier, const struct courier_pace *pace); /* any thread */
void courier_wake(struct courier *courier);                                      /* any thread: a hook has changed */

struct courier_status {
    uint64_t pending, failed; /* notices, as of the last count, a few seconds ago */
    uint64_t oldest_ms;       /* age of the oldest pending one */
};
void courier_status(struct courier *courier, struct courier_status *out); /* any thread */

#endif
