#include "engine/engine.h"

#include "base/log.h"
#include "engine/engine_state.h"

#include <assert.h>
#include <stdlib.h>

enum fault engine_open(struct engine **out, uint32_t orders_max, const uint8_t hash_key[16])
{
    assert(orders_max > 0 && orders_max <= ORDERS_OPEN_MAX);
    *out = NULL;
    struct engine *engine = calloc(1, sizeof *engine);
    if (engine == NULL) {
        log_error("engine", "no memory");
        return FAULT_MEMORY;
    }
    engine->digest_kind = DIGEST_FOLD;

    enum fault fault = region_open(&engine->slots, SALES_OPEN_MAX * sizeof(struct sale_slot));
    if (fault == FAULT_NONE) fault = region_open(&engine->boards, SALES_OPEN_MAX * sizeof(struct board));
    if (fault == FAULT_NONE) fault = holdings_open(&engine->holdings, orders_max, hash_key);
    if (fault == FAULT_NONE) fault = tokens_open(&engine->tokens, orders_max);
    if (fault == FAULT_NONE) fault = deadlines_open(&engine->deadlines, hints_max(orders_max));
    if (fault == FAULT_NONE) fault = refunds_open(&engine->refunds);
    if (fault == FAULT_NONE) fault = names_open(&engine->names, SALE_NAMES_MAX, hash_key);
    if (fault != FAULT_NONE) {
        engine_close(engine);
        return fault;
    }
    *out = engine;
    return FAULT_NONE;
}

void engine_close(struct engine *engine)
{
    if (engine == NULL) return;
    names_close(&engine->names);
    refunds_close(&engine->refunds);
    deadlines_close(&engine->deadlines);
    tokens_close(&engine->tokens);
    holdings_close(&engine->holdings);
    region_close(&engine->boards);
    region_close(&engine->slots);
    free(engine);
}

uint64_t engine_seq(const struct engine *engine)
{
    return engine->seq;
}

void engine_filed(struct engine *engine, uint64_t seq)
{
    refunds_filed(&engine->refunds, seq);
}

uint64_t engine_digest(const struct engine *engine)
{
    return engine->digest;
}

void engine_digest_by(struct engine *engine, enum digest_kind kind)
{
    engine->digest_kind = kind;
}

uint64_t engine_time(const struct engine *engine)
{
    return engine->at_ms;
}

bool engine_sale(const struct engine *engine, uint64_t sale_id, struct sale *out)
{
    const struct sale_slot *slot = slot_find(engine, sale_id);
    if (slot == NULL) return false;
    *out = slot->sale;
    return true;
}

bool engine_order(const struct engine *engine, uint64_t order_no, struct order *out)
{
    const struct sale *sale;
    uint32_t cell = order_find(engine, order_no, &sale);
    if (cell == 0) return false;
    holdings_order(&engine->holdings, cell, sale, out);
    return true;
}

uint64_t engine_sale_seq(const struct engine *engine, uint64_t sale_id)
{
    const struct sale_slot *slot = slot_find(engine, sale_id);
    return slot == NULL ? 0 : slot->seq;
}

uint64_t engine_token(const struct engine *engine, uint64_t sale_id, struct slice buyer)
{
    if (slot_find(engine, sale_id) == NULL || buyer.len > BUYER_BYTES_MAX) return 0;
    struct holder holder = holder_of(&engine->holdings, sale_id, buyer);
    uint32_t cell = tokens_find(&engine->tokens, &holder);
    return cell == 0 ? 0 : token_at(&engine->tokens, cell)->nonce;
}

uint64_t engine_sale_by_name(const struct engine *engine, struct slice seller, struct slice name)
{
    if (seller.len > USERNAME_BYTES_MAX || name.len > SALE_NAME_BYTES_MAX) return 0;
    return names_sale(&engine->names, names_hash(&engine->names, seller, name));
}

uint64_t engine_names_version(const struct engine *engine)
{
    return atomic_load_explicit(&engine->names_version, memory_order_acquire);
}

void engine_each_order(const struct engine *engine, bool (*visit)(void *arg, const struct order *order), void *arg)
{
    for (uint32_t cell = 1; cell <= engine->holdings.orders.fresh; cell++) {
        if (holding_at(&engine->holdings, cell)->units == 0) continue;
        const struct sale *sale = order_sale(engine, cell);
        if (sale == NULL) continue;
        struct order order;
        holdings_order(&engine->holdings, cell, sale, &order);
        if (!visit(arg, &order)) return;
    }
}

bool engine_make_ready(struct engine *engine, uint32_t part)
{
    return holdings_make_ready(&engine->holdings, part);
}

struct engine_reach engine_reach(const struct engine *engine, uint32_t orders)
{
    return holdings_reach(&engine->holdings, orders);
}

bool engine_make_orders_ready(struct engine *engine, const struct engine_reach *reach)
{
    return holdings_make_orders_ready(&engine->holdings, reach);
}

void engine_usage(const struct engine *engine, struct engine_usage *out)
{
    *out = (struct engine_usage){
        .sales = engine->sales,
        .orders = engine->holdings.orders.used,
        .orders_max = engine->holdings.orders.cells_max,
        .tokens = engine->tokens.cells.used,
        .hints = engine->deadlines.count,
        .bytes = sizeof *engine + holdings_bytes(&engine->holdings) + names_bytes(&engine->names) +
                 tokens_bytes(&engine->tokens) + deadlines_bytes(&engine->deadlines) +
                 engine->slots_touched * (uint64_t)(sizeof(struct sale_slot) + sizeof(struct board)),
    };
}
