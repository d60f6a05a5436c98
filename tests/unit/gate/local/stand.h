/* stand: a gate with its journal and ledger in a folder of its own, asked from one lane. */
#ifndef TESTS_UNIT_GATE_LOCAL_STAND_H
#define TESTS_UNIT_GATE_LOCAL_STAND_H

#include "base/clock.h"
#include "gate/gate.h"
#include "journal/journal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

struct stand {
    char folder[64], ledger_path[96];
    struct ledger *ledger;
    struct gate *gate;
    struct gate_lane *lane;
    _Atomic int wakes;
    uint32_t orders_max;           /* 0: 10000 */
    uint64_t memory_bytes_max;     /* 0: no limit */
    uint32_t segment_bytes;        /* 0: a megabyte */
    uint32_t sales_per_seller_max; /* 0: as many as they like */
};

/* Setup and teardown of a test: a folder, nothing open. */
int stand_begin(void **state);
int stand_end(void **state);

/* committing: with the committer running; without, nothing becomes durable. */
void stand_open(struct stand *stand, bool committing);
void stand_close(struct stand *stand);

/* A ticket that remembers how often it was answered. */
struct told {
    struct gate_ticket ticket;
    int times;
    uint64_t durable_at; /* the mark when it was told */
    struct stand *stand;
};
struct told stand_told(struct stand *stand);
void stand_await(struct stand *stand, struct told *told); /* fails where nothing comes for seconds */

struct told stand_grab(struct stand *stand, uint64_t sale, const char *buyer, const char *key);

#endif
