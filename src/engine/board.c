#include "engine/board.h"

enum { BOARD_PAUSED = 1, BOARD_CLOSED = 2, BOARD_LINE_NAMED = 4, BOARD_ADMISSION_SHIFT = 8, BOARD_ADMISSION_MASK = 0xff };

/* Each field is released and acquired, rather than fenced as a whole: whoever sees a new field sees the odd version
 * before it, and on common machines that costs nothing. */
#define PUT(field, value) atomic_store_explicit(&board->field, (value), memory_order_release)
#define GET(field) atomic_load_explicit(&board->field, memory_order_acquire)

static void board_put(struct board *board, const struct board_notice *notice)
{
    uint32_t version = atomic_load_explicit(&board->version, memory_order_relaxed);
    uint32_t flags = (uint32_t)notice->admission << BOARD_ADMISSION_SHIFT;
    if (notice->paused) flags |= BOARD_PAUSED;
    if (notice->closed) flags |= BOARD_CLOSED;
    if (notice->line_named) flags |= BOARD_LINE_NAMED;

    PUT(version, version + 1);
    PUT(sale_id, notice->sale_id);
    PUT(opens_ms, notice->opens_ms);
    PUT(closes_ms, notice->closes_ms);
    PUT(units_per_grab_max, notice->units_per_grab_max);
    PUT(flags, flags);
    PUT(orders_made, notice->orders_made);
    PUT(admit_max, notice->admit_max);
    PUT(line_rate_per_s, notice->line_rate_per_s);
    PUT(line_size, notice->line_size);
    PUT(line_timeout_ms, notice->line_timeout_ms);
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
        .orders_made = sale->orders_made,
        .admit_max = sale->terms.admit_max,
        .line_rate_per_s = sale->terms.line_rate_per_s,
        .line_size = sale->terms.line_size,
        .line_timeout_ms = sale->terms.line_timeout_ms,
        .line_named = sale->terms.line_name[0] != '\0',
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
        .admission = (enum admission)(flags >> BOARD_ADMISSION_SHIFT & BOARD_ADMISSION_MASK),
        .orders_made = GET(orders_made),
        .admit_max = GET(admit_max),
        .line_rate_per_s = GET(line_rate_per_s),
        .line_size = GET(line_size),
        .line_timeout_ms = GET(line_timeout_ms),
        .line_named = (flags & BOARD_LINE_NAMED) != 0,
        .version = version,
    };
    return version % 2 == 0 && GET(version) == version;
}

bool board_is_still(const struct board *board, const struct board_notice *notice)
{
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&board->version, memory_order_relaxed) == notice->version;
}
