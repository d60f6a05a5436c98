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
        atomic_fetch_add_explicit(&engine->names_version, 1, memory_order_release);
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

static void apply_won(struct engine *engine, struct sale_slot *slot, const struct decision *decision, uint64_t hash)
{
    /* In replay only: the server had let go of sales that were over, or it would have said BUSY. */
    if (!holdings_have_room(&engine->holdings)) slots_empty_over(engine, decision->at_ms);

    struct sale *sale = &slot->sale;
    bool held = decision->won.pay_by_ms != 0;
    assert(decision->won.units <= sale->counts.available);
    sale->counts.available -= decision->won.units;
    *(held ? &sale->counts.held : &sale->counts.sold) += decision->won.units;
    sale->orders_made++;

    struct holder holder = holder_hashed(&engine->holdings, sale->id, decision->won.buyer, hash);
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
    uint32_t cell = holdings_add(&engine->holdings, &holder, &order, &slot->orders_first);
    if (held) hold_begin(engine, cell);
}

static void apply_ended(struct engine *engine, struct sale *sale, const struct decision *decision)
{
    static const struct {
        uint32_t from, to; /* of the counts */
        enum order_state was, is;
    } moves[] = {
#define COUNT(name) offsetof(struct sale_counts, name)
        [DECISION_PAID] = { COUNT(held), COUNT(sold), ORDER_HELD, ORDER_PAID },
        [DECISION_CANCELLED] = { COUNT(held), COUNT(available), ORDER_HELD, ORDER_CANCELLED },
        [DECISION_EXPIRED] = { COUNT(held), COUNT(available), ORDER_HELD, ORDER_EXPIRED },
        [DECISION_RETAKEN] = { COUNT(available), COUNT(sold), ORDER_EXPIRED, ORDER_PAID },
#undef COUNT
    };
    uint32_t cell = holdings_by_no(&engine->holdings, decision->ended.order_no);
    assert(cell != 0 && holding_at(&engine->holdings, cell)->units == decision->ended.units);
    assert(holding_at(&engine->holdings, cell)->state == moves[decision->kind].was); /* E6 */

    uint32_t *from = (uint32_t *)(void *)((char *)&sale->counts + moves[decision->kind].from);
    uint32_t *to = (uint32_t *)(void *)((char *)&sale->counts + moves[decision->kind].to);
    assert(*from >= decision->ended.units);
    *from -= decision->ended.units;
    *to += decision->ended.units;
    bool paid = moves[decision->kind].is == ORDER_PAID;
    uint64_t ref = paid ? holdings_ref_hash(&engine->holdings, decision->ended.order_no, decision->ended.ref) : 0;
    holdings_turn(&engine->holdings, cell, moves[decision->kind].is, ref);
}

/* The order may be one that memory has let go of, or, in replay, one that the server had let go of: what it says is the same
 * either way. Only of those may a second refund be told, and the first stands. */
static void apply_refund_due(struct engine *engine, const struct decision *decision)
{
    uint64_t ref = holdings_ref_hash(&engine->holdings, decision->ended.order_no, decision->ended.ref);
    const struct sale *sale;
    uint32_t cell = order_find(engine, decision->ended.order_no, &sale);
    bool first = cell != 0 && holding_at(&engine->holdings, cell)->state != ORDER_REFUND_DUE;
    if (cell != 0) slot_at(engine, sale->id)->seq = decision->seq;
    if (first) holdings_turn(&engine->holdings, cell, ORDER_REFUND_DUE, ref);
    /* The sale of an order in memory stays until this is filed: it need not be remembered, and displaces none that must. */
    if (cell != 0 && !refunds_have_room(&engine->refunds, decision->ended.order_no, decision->at_ms)) return;
    refunds_put(&engine->refunds, &(struct refund){ decision->ended.order_no, ref, decision->seq, decision->at_ms });
}

static void apply_end(struct engine *engine, const struct decision *decision, const struct sale *sale)
{
    engine->seq = decision->seq;
    engine->at_ms = decision->at_ms;
    if (engine->floor_ms < decision->at_ms) engine->floor_ms = decision->at_ms;
    engine->digest = digest_next(engine->digest_kind, engine->digest, decision, sale);
}

static void apply_token_given(struct engine *engine, struct sale_slot *slot, const struct decision *decision)
{
    /* In replay only, as above. */
    if (!tokens_have_room(&engine->tokens)) slots_empty_over(engine, decision->at_ms);
    struct holder holder = holder_of(&engine->holdings, slot->sale.id, decision->token_given.buyer);
    tokens_add(&engine->tokens, &holder, decision->seq, &slot->tokens_first);
    slot->sale.tokens_given++;
}

/* hash: of a win's grab; 0: not known. */
static void decision_apply(struct engine *engine, const struct decision *decision, uint64_t hash)
{
    assert(decision->seq == engine->seq + 1);
    assert(decision->at_ms >= engine->at_ms);

    if (decision->kind == DECISION_REFUND_DUE) {
        apply_refund_due(engine, decision);
        apply_end(engine, decision, NULL);
        return;
    }
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
        apply_won(engine, slot, decision, hash);
        break;
    case DECISION_TOKEN_GIVEN:
        apply_token_given(engine, slot, decision);
        break;
    case DECISION_PAID:
    case DECISION_CANCELLED:
    case DECISION_EXPIRED:
    case DECISION_RETAKEN:
        apply_ended(engine, sale, decision);
        break;
    case DECISION_REFUND_DUE:
        break;
    }
    assert(sale_counts_add_up(&sale->counts)); /* E1 */
    slot->seq = decision->seq;

    /* Last, so that whoever reads "nothing left" outside also sees who took it. */
    board_write(board_at(engine, sale->id), sale);

    apply_end(engine, decision, sale);
}

void engine_apply(struct engine *engine, const struct decision *decision)
{
    decision_apply(engine, decision, 0);
}

void engine_apply_grab(struct engine *engine, const struct decision *decision, const struct grab *grab)
{
    decision_apply(engine, decision, grab->hash);
}
