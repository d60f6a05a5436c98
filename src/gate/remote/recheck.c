/* Who brings a key may have won a moment ago at another node, and is not to hear that all is sold because this one has not
 * heard of it (P7). So the pre-count turns them away only by what Redis has said after they came: one look for all who ask
 * meanwhile, a few in a hundredth of a second, however many they are. */
#include "gate/remote/remote.h"

#include <assert.h>
#include <stdlib.h>

/* Sales of a lane that are looked at so, each at its id modulo this; those without a place ask Redis. */
#define RECHECKS 16

struct recheck {
    struct gate_ticket ticket; /* first */
    struct remote_lane *lane;
    uint64_t sale_id;
    bool under_way;
    struct flight *asked, *waiting; /* by next: for the look under way, and for the one after it */
};

enum fault rechecks_open(struct remote_lane *lane)
{
    lane->rechecks = calloc(RECHECKS, sizeof *lane->rechecks);
    if (lane->rechecks == NULL) return FAULT_MEMORY;
    for (int i = 0; i < RECHECKS; i++) lane->rechecks[i].lane = lane;
    return FAULT_NONE;
}

void rechecks_close(struct remote_lane *lane)
{
    for (int i = 0; lane->rechecks != NULL && i < RECHECKS; i++) assert(!lane->rechecks[i].under_way);
    free(lane->rechecks);
}

static void recheck_begin(struct recheck *recheck);

static void recheck_done(struct gate_ticket *ticket)
{
    struct recheck *recheck = (struct recheck *)ticket;
    struct flight *flight = recheck->asked;
    recheck->asked = NULL;
    while (flight != NULL) {
        struct flight *next = flight->next;
        flight->next = NULL;
        flight->ask(flight);
        flight = next;
    }
    recheck->under_way = false;
    if (recheck->waiting != NULL) recheck_begin(recheck);
}

static void recheck_begin(struct recheck *recheck)
{
    recheck->asked = recheck->waiting;
    recheck->waiting = NULL;
    recheck->under_way = true;
    recheck->ticket.done = recheck_done;
    remote_look(&recheck->lane->lane, recheck->sale_id, &recheck->ticket);
}

bool recheck_wait(struct flight *flight)
{
    struct recheck *recheck = &flight->lane->rechecks[flight->sale_id % RECHECKS];
    if (recheck->under_way && recheck->sale_id != flight->sale_id) return false;
    flight->next = recheck->waiting;
    recheck->waiting = flight;
    recheck->sale_id = flight->sale_id;
    if (!recheck->under_way) recheck_begin(recheck);
    return true;
}
