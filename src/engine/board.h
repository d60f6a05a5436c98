/* board: the notice outside a sale, read by the crowd without a lock.
 *
 * What a refusal needs to know, in one cache line, written under the engine's lock after every decision. A reader
 * takes a snapshot: the version is odd while the board is written and has moved when it was, and then the reader asks
 * inside. All fields are atomics, for readers and writer do meet. */
#ifndef STAMPEDE_ENGINE_BOARD_H
#define STAMPEDE_ENGINE_BOARD_H

#include "engine/sale.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct board {
    _Atomic uint32_t version;
    _Atomic uint32_t available;
    _Atomic uint64_t sale_id; /* 0: no sale */
    _Atomic uint64_t opens_ms;
    _Atomic uint64_t closes_ms;
    _Atomic uint32_t units_per_grab_max;
    _Atomic uint32_t flags;
    _Atomic uint64_t orders_made;
    _Atomic uint32_t admit_max;
    _Atomic uint32_t line_rate_per_s, line_size, line_timeout_ms;
};

_Static_assert(sizeof(struct board) == 64, "a board is one cache line");

struct board_notice {
    uint64_t sale_id, opens_ms, closes_ms;
    uint32_t available, units_per_grab_max;
    bool paused, closed;
    enum admission admission;
    uint64_t orders_made;
    uint32_t admit_max;
    uint32_t line_rate_per_s, line_size, line_timeout_ms;
    bool line_named;  /* the sale's terms have the name: too long for a board */
    uint32_t version; /* of the board, as it was read */
};

void board_write(struct board *board, const struct sale *sale);
void board_clear(struct board *board);
/* False where it was being written meanwhile. */
bool board_read(const struct board *board, struct board_notice *out);
/* Whether what was read since then, elsewhere, was read while the notice stood there. */
bool board_is_still(const struct board *board, const struct board_notice *notice);

#endif
