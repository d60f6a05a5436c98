#include "engine/board.h"

enum { BOARD_PAUSED = 1, BOARD_CLOSED = 2, BOARD_OPEN_TO_ALL = 4 };

/* Each field is released and acquired, rather than fenced as a whole: whoever sees a new field sees the odd version
 * before it, and on common machines that costs nothing. */
#define PUT(field, value) atomic_store_explicit(&board->field, (value), memory_order_release)
#define GET(field) atomic_load_explicit(&board->field, memory_order_acquire)

static void board_put(struct board *board, const struct board_notice *notice)
{
    uint32_t version = atomic_load_explicit(&board->version, memory_order_relaxed);
    uint32_t flags = 0;
    if (notice->paused) flags |= BOARD_PAUSED;
    if (notice->closed) flags |= BOARD_CLOSED;
    if (notice->admission == ADMISSION_OPEN) flags |= BOARD_OPEN_TO_ALL;

    PUT(version, version + 1);
    PUT(sale_id, notice->sale_id);
    PUT(opens_ms, notice->opens_ms);
    PUT(closes_ms, notice->closes_ms);
    PUT(units_per_grab_max, notice->units_per_grab_max);
    PUT(flags, flags);
    PUT(available, notice->available);
    PUT(version, version + 2);
}

void board_write(struct board *board, const struct sale *sale)
{
    struct board_notice notice = {
        .sale_id = sale->id,
        .opens_ms = sale->terms.opens_ms,
        .closes_ms = sale->terms.closes_ms,
        .available = sale->counts.available,
        .units_per_grab_max = sale->terms.units_per_grab_max,
        .paused = sale->paused,
        .closed = sale->closed,
        .admission = sale->terms.admission,
    };
    board_put(board, &notice);
}

void board_clear(struct board *board)
{
    board_put(board, &(struct board_notice){ 0 });
}

bool board_read(const struct board *board, struct board_notice *out)
{
    uint32_t version = GET(version);
    uint32_t flags = GET(flags);
    *out = (struct board_notice){
        .sale_id = GET(sale_id),
        .opens_ms = GET(opens_ms),
        .closes_ms = GET(closes_ms),
        .available = GET(available),
        .units_per_grab_max = GET(units_per_grab_max),
        .paused = (flags & BOARD_PAUSED) != 0,
        .closed = (flags & BOARD_CLOSED) != 0,
        .admission = (flags & BOARD_OPEN_TO_ALL) != 0 ? ADMISSION_OPEN : ADMISSION_LOGIN,
    };
    return version % 2 == 0 && GET(version) == version;
}
