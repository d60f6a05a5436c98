/* demo_crowd: thousands of simulated buyers, and bots, at one sale of a real server, over HTTP. One thread.
 *
 * A buyer comes once, most of them at the opening; who is told "sold out" comes again once or twice, who wins pays, gives it
 * back or forgets it, and some press the button once more. A bot asks a hundred times a second and never pays. Each has a
 * login signed with the server's own key: to hash thousands of passwords would take minutes. A request whose answer was lost
 * is sent again with its Idempotency-Key until it is answered. */
#ifndef STAMPEDE_COMMAND_DEMO_CROWD_H
#define STAMPEDE_COMMAND_DEMO_CROWD_H

#include "base/fault.h"
#include "command/demo_call.h"
#include "engine/sale.h"

enum crowd_refusal {
    REFUSED_NOT_OPEN,
    REFUSED_SOLD_OUT,
    REFUSED_ALREADY_WON,
    REFUSED_RATE_LIMITED,
    REFUSED_BUSY,
    REFUSED_OTHER,
};
#define CROWD_REFUSALS (REFUSED_OTHER + 1)

/* A win that was told, and what was last told of it: ORDER_HELD, or how the buyer ended it. */
struct crowd_win {
    uint64_t no;
    uint32_t shopper;
    enum order_state state;
};

struct crowd_numbers {
    uint64_t requests; /* that were answered */
    uint64_t lost;     /* that were not; each was sent again */
    uint64_t paid, cancelled;
    uint64_t refused[CROWD_REFUSALS];
};

struct crowd_options {
    const char *base, *sale;
    const char *key_path; /* of the server's signing keys */
    uint32_t buyers, bots;
    uint64_t opens_ms; /* monotonic */
    uint32_t seconds;  /* after the opening */
    uint32_t pay_within_s;
};

struct crowd;
/* A fault has been logged. The texts of the options outlive the crowd. */
enum fault crowd_open(struct crowd **out, const struct crowd_options *options) MUST_USE;
void crowd_close(struct crowd *crowd);

#define CROWD_LEAD_MS 2000 /* the first come so long before the opening */
/* From CROWD_LEAD_MS before the opening until the seconds are over and every answer is here. tick() is called a few times a
 * second; false ends the run. False: it was ended, or some requests were never answered. */
bool crowd_run(struct crowd *crowd, bool (*tick)(void *arg), void *arg);

/* What the crowd has been told, also while it runs. */
const struct crowd_numbers *crowd_numbers(const struct crowd *crowd);
uint32_t crowd_count(const struct crowd *crowd);                              /* shoppers are numbered below it */
const struct crowd_win *crowd_wins(const struct crowd *crowd, size_t *count); /* in the order they were told */
const struct call_sale *crowd_watched(const struct crowd *crowd);             /* the sale, as last seen */

#define CROWD_NAME_BYTES 16
void crowd_name(const struct crowd *crowd, uint32_t shopper, char out[CROWD_NAME_BYTES]);
bool crowd_has(const struct crowd *crowd, const char *name); /* whether it is one of theirs */

#endif
