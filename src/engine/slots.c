#include "engine/engine_state.h"

#include <assert.h>

/* Boards tell which slots have a sale to be found: walking them costs a cache line each, where a slot has forty. */
static uint64_t slot_sale_id(const struct engine *engine, uint64_t n)
{
    return atomic_load_explicit(&board_at(engine, n)->sale_id, memory_order_relaxed);
}

bool slot_is_free(const struct engine *engine, uint64_t sale_id)
{
    return slot_at(engine, sale_id)->sale.id == 0;
}

void slot_take(struct engine *engine, const struct sale *sale)
{
    struct sale_slot *slot = slot_at(engine, sale->id);
    assert(sale->id != 0 && slot->sale.id == 0 && slot->orders_first == 0 && slot->tokens_first == 0);
    if (slot->sale.terms.units_per_grab_max == 0) engine->slots_touched++; /* no sale has ever been here */
    slot->sale = *sale;
    slot->seq = 0;
    slot->loaded_held = slot->loaded_sold = 0;
    engine->sales++;
    if (sale->id > engine->sale_id_last) engine->sale_id_last = sale->id;
    board_write(board_at(engine, sale->id), sale);
}

bool slot_is_over(const struct sale_slot *slot, uint64_t now_ms)
{
    return sale_is_closed(&slot->sale, now_ms) && slot->sale.counts.held == 0;
}

static bool slots_over_any(const struct engine *engine, uint64_t now_ms, bool (*has)(const struct sale_slot *slot))
{
    for (uint64_t n = 0; n < SALES_OPEN_MAX; n++) {
        if (slot_sale_id(engine, n) == 0) continue;
        const struct sale_slot *slot = slot_at(engine, n);
        if (slot_is_over(slot, now_ms) && has(slot)) return true;
    }
    return false;
}

static bool slot_has_orders(const struct sale_slot *slot)
{
    return slot->orders_first != 0;
}

static bool slot_has_tokens(const struct sale_slot *slot)
{
    return slot->tokens_first != 0;
}

bool slots_over_have_orders(const struct engine *engine, uint64_t now_ms)
{
    return slots_over_any(engine, now_ms, slot_has_orders);
}

bool slots_over_have_tokens(const struct engine *engine, uint64_t now_ms)
{
    return slots_over_any(engine, now_ms, slot_has_tokens);
}

void slot_empty(struct engine *engine, struct sale_slot *slot)
{
    assert(slot->sale.id != 0);
    while (slot->orders_first != 0) holdings_drop(&engine->holdings, &slot->orders_first);
    while (slot->tokens_first != 0) tokens_drop(&engine->tokens, slot->tokens_first, &slot->tokens_first);
    board_clear(board_at(engine, slot->sale.id));
    slot->sale.id = 0;
    slot->leaving = false;
    engine->sales--;
}

void slots_empty_over(struct engine *engine, uint64_t now_ms)
{
    for (uint64_t n = 0; n < SALES_OPEN_MAX; n++) {
        if (slot_sale_id(engine, n) == 0) continue;
        struct sale_slot *slot = slot_at(engine, n);
        if (slot_is_over(slot, now_ms)) slot_empty(engine, slot);
    }
}

bool engine_forget(struct engine *engine, uint64_t sale_id, uint32_t orders_max, uint64_t now_ms)
{
    struct sale_slot *slot = slot_at(engine, sale_id);
    if (sale_id == 0 || slot->sale.id != sale_id) return true;
    if (!slot_is_over(slot, now_ms)) return false;

    /* Letting go is not a decision. Whoever replays the journal learns of it from a later decision that needs the room,
     * and may then conclude that this sale was over: so no later decision may carry an earlier time. */
    if (now_ms > engine->floor_ms) engine->floor_ms = now_ms;

    /* Gone at once for whoever asks, so that nobody is answered from the half of its orders that is left (P7). */
    slot->leaving = true;
    board_clear(board_at(engine, sale_id));
    for (; orders_max > 0 && slot->tokens_first != 0; orders_max--)
        tokens_drop(&engine->tokens, slot->tokens_first, &slot->tokens_first);
    for (; orders_max > 0 && slot->orders_first != 0; orders_max--) holdings_drop(&engine->holdings, &slot->orders_first);
    if (slot->orders_first != 0 || slot->tokens_first != 0) return false;
    slot_empty(engine, slot);
    return true;
}

void engine_each_sale(const struct engine *engine, bool (*visit)(void *arg, const struct sale *sale), void *arg)
{
    for (uint64_t n = 0; n < SALES_OPEN_MAX; n++) {
        if (slot_sale_id(engine, n) != 0 && !visit(arg, &slot_at(engine, n)->sale)) return;
    }
}
