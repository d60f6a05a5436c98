/* roster: what the nodes of a shop tell of themselves, in a hash of Redis that each looks at when it adds to it. Inside this
 * room only.
 *
 * A text is its node's own: the gate passes it on and does not read it. One that has not spoken for ROSTER_ALIVE_MS is not
 * counted among those that share a sale or a limit: a count that is a moment behind sells nothing twice and leaves nothing
 * unsold. One that has not for ROSTER_FORGET_MS is forgotten. */
#ifndef STAMPEDE_GATE_KEEPER_ROSTER_H
#define STAMPEDE_GATE_KEEPER_ROSTER_H

#include "gate/gate.h"

#include <pthread.h>

struct keeper;

#define ROSTER_MS 1000
#define ROSTER_ALIVE_MS 5000
#define ROSTER_FORGET_MS 3600000

struct roster {
    pthread_mutex_t lock; /* of these */
    char report[GATE_REPORT_BYTES + 1];
    struct gate_node *nodes;
    uint32_t count, room;
    uint64_t seen_ms; /* monotonic: when they were read */

    uint64_t due_ms; /* the keeper's */
};

void roster_init(struct roster *roster);
void roster_deinit(struct roster *roster);
/* Any thread. */
void roster_say(struct roster *roster, struct slice report);
void roster_each(struct roster *roster, void (*look)(const struct gate_node *node, void *arg), void *arg);
/* The keeper's thread: speaks and listens, where it is time to. */
void roster_keep(struct keeper *keeper);
/* This node goes, and is missed by nobody. */
void roster_leave(struct keeper *keeper);

#endif
