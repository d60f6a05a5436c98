#include "engine/engine_state.h"

#include <assert.h>
#include <string.h>

static void apply_created(struct engine *engine, const struct decision *decision)
{
    struct sale_slot *slot = slot_at(engine, decision->sale_id);
    if (slot->sale.id != 0) {
        /* In replay only: the server had let go of this one. */
        assert(slot_is_over(slot, decision->at_ms));
        slot_empty(engine, slot);
    }

    struct slice seller = decision->created.seller;
    struct sale sale = {
        .id = decision->sale_id,
        .terms = *decision->created.terms,
        .counts = { .offered = decision->created.stock, .available = decision->created.stock },
    };
    assert(seller.len <= USERNAME_BYTES_MAX);
    memcpy(sale.seller, seller.data, seller.len);
    slot_take(engine, &sale);
    names_put(&engine->names, names_hash(&engine->names, seller, slice_of(sale.terms.name)), sale.id);
}

static void apply_changed(struct engine *engine, struct sale *sale, const struct sale_terms *terms)
{
    if (strcmp(terms->name, sale->terms.name) != 0) {
        struct slice seller = slice_of(sale->seller);
        names_drop(&engine->names, names_hash(&engine->names, seller, slice_of(sale->terms.name)));
        names_put(&engine->names, names_hash(&engine->names, seller, slice_of(terms->name)), sale->id);
    }
    sale->terms = *terms;
}

static void apply_stock_added(struct sale_counts *counts, int64_t add)
{
    assert((int64_t)counts->available + add >= 0 && (int64_t)counts->offered + add <= (int64_t)STOCK_MAX);
    counts->offered = (uint32_t)(counts->offered + add);
    counts->available = (uint32_t)(counts->available + add);
}

static void apply_won(struct engine *engine, struct sale_slot *slot, const struct decision *decision)
{
    /* In replay only: the server had let go of sales that were over, or it would have said BUSY. */
    if (!holdings_have_room(&engine->holdings)) slots_empty_over(engine, decision->at_ms);

    struct sale *sale = &slot->sale;
    bool held = decision->won.pay_by_ms != 0;
    assert(decision->won.units <= sale->counts.available);
    sale->counts.available -= decision->won.units;
    *(held ? &sale->counts.held : &sale->counts.sold) += decision->won.units;
    sale->orders_made++;

    struct holder holder = holder_of(&engine->holdings, sale->id, decision->won.buyer);
    if (decision->won.token_nonce != 0) {
        uint32_t token = tokens_find(&engine->tokens, &holder);
        assert(token != 0 && token_at(&engine->tokens, token)->nonce == decision->won.token_nonce); /* E5 */
        tokens_drop(&engine->tokens, token, &slot->tokens_first);
    }
    struct holding_new order = {
        .no = decision->seq,
        .won_ms = decision->at_ms,
        .key = decision->won.key,
        .units = decision->won.units,
        .pay_within_s = held ? (uint32_t)((decision->won.pay_by_ms - decision->at_ms) / 1000) : 0,
        .state = held ? ORDER_HELD : ORDER_PAID,
        .token_nonce = decision->won.token_nonce,
    };
    holdings_add(&engine->holdings, &holder, &order, &slot->orders_first);
}

static void apply_token_given(struct engine *engine, struct sale_slot *slot, const struct decision *decision)
{
    /* In replay only, as above. */
    if (!tokens_have_room(&engine->tokens)) slots_empty_over(engine, decision->at_ms);
    struct holder holder = holder_of(&engine->holdings, slot->sale.id, decision->token_given.buyer);
    tokens_add(&engine->tokens, &holder, decision->seq, &slot->tokens_first);
    slot->sale.tokens_given++;
}

void engine_apply(struct engine *engine, const struct decision *decision)
{
    assert(decision->seq == engine->seq + 1);
    assert(decision->at_ms >= engine->at_ms);

    if (decision->kind == DECISION_SALE_CREATED) apply_created(engine, decision);
    struct sale_slot *slot = slot_find(engine, decision->sale_id);
    assert(slot != NULL);
    struct sale *sale = &slot->sale;

    switch (decision->kind) {
    case DECISION_SALE_CREATED:
        break;
    case DECISION_SALE_CHANGED:
        apply_changed(engine, sale, decision->changed);
        break;
    case DECISION_STOCK_ADDED:
        apply_stock_added(&sale->counts, decision->stock_added);
        break;
    case DECISION_SALE_PAUSED:
        sale->paused = true;
        break;
    case DECISION_SALE_RESUMED:
        sale->paused = false;
        break;
    case DECISION_SALE_CLOSED:
        sale->closed = true;
        break;
    case DECISION_WON:
        apply_won(engine, slot, decision);
        break;
    case DECISION_TOKEN_GIVEN:
        apply_token_given(engine, slot, decision);
        break;
    }
    assert(sale_counts_add_up(&sale->counts)); /* E1 */

    /* Last, so that whoever reads "nothing left" outside also sees who took it. */
    board_write(board_at(engine, sale->id), sale);

    engine->seq = decision->seq;
    engine->at_ms = decision->at_ms;
    if (engine->floor_ms < decision->at_ms) engine->floor_ms = decision->at_ms;
    engine->digest = digest_next(engine->digest, decision, sale);
}
