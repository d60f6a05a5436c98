#include "engine/buyer.h"
#include "engine/engine_state.h"
#include "engine/rules.h"

#include <assert.h>
#include <string.h>

bool grab_is_well_formed(const struct grab *grab)
{
    return grab->units > 0 && (grab->buyer.len == 0 || text_may_be_kept(grab->buyer, BUYER_BYTES_MAX)) &&
           (grab->key.len == 0 || text_may_be_kept(grab->key, IDEMPOTENCY_KEY_BYTES_MAX));
}

/* A token is good while it is the one that its buyer was given and has not spent. */
static enum verdict token_judge(const struct engine *engine, const struct grab *grab, const struct sale *sale,
                                const struct holder *holder)
{
    if (grab->trusted || !admission_takes_tokens(sale->terms.admission)) return VERDICT_DONE;
    if (grab->token_nonce == 0) return token_lacking(grab, sale->terms.admission);
    uint32_t cell = tokens_find(&engine->tokens, holder);
    bool good = cell != 0 && token_at(&engine->tokens, cell)->nonce == grab->token_nonce;
    return good ? VERDICT_DONE : VERDICT_TOKEN_INVALID;
}

/* How often the buyer has won and still has it; *named is one of those orders. */
static uint32_t grabs_standing(const struct engine *engine, const struct holder *holder, uint32_t *named)
{
    *named = holdings_standing(&engine->holdings, holder);
    return *named == 0 ? 0 : holding_at(&engine->holdings, *named)->grabs;
}

/* The order is part of the API, because a buyer sees only the first that applies: first what the sale and the buyer allow,
 * here, then what is left, below. *named is the order that the answer names, for DONE the one that stands for the buyer's,
 * if any. The key comes before the window: a win asked for again is told the same after the sale has closed (P7). */
static enum verdict grab_judge(const struct engine *engine, const struct grab *grab, const struct sale *sale,
                               const struct holder *holder, uint32_t *named)
{
    uint64_t now_ms = decision_time(engine, grab->now_ms);

    *named = holdings_by_key(&engine->holdings, holder, grab->key);
    if (*named != 0 && holding_at(&engine->holdings, *named)->units == grab->units) return VERDICT_REPEATED;
    if (*named != 0) return VERDICT_KEY_REUSED;
    uint32_t grabs_max = sale->terms.grabs_per_buyer_max;
    if (grab->won_first && grabs_standing(engine, holder, named) >= grabs_max) return VERDICT_ALREADY_WON;
    if (sale_is_closed(sale, now_ms)) return VERDICT_CLOSED;
    if (now_ms < sale->terms.opens_ms) return VERDICT_NOT_OPEN;
    if (sale->paused) return VERDICT_PAUSED;
    enum verdict token = token_judge(engine, grab, sale, holder);
    if (token != VERDICT_DONE) return token;
    if (grab->units > sale->terms.units_per_grab_max) return VERDICT_OVER_LIMIT;

    return grabs_standing(engine, holder, named) >= grabs_max ? VERDICT_ALREADY_WON : VERDICT_DONE;
}

static enum verdict stock_judge(const struct engine *engine, const struct grab *grab, const struct sale *sale)
{
    if (grab->units > sale->counts.available) return VERDICT_SOLD_OUT;
    if (grab->turned_away || !holdings_have_room(&engine->holdings)) return VERDICT_BUSY;
    return VERDICT_WON;
}

void engine_hash_grab(const struct engine *engine, struct grab *grab)
{
    grab->hash = 0;
    if (grab->buyer.len == 0 || grab->buyer.len > BUYER_BYTES_MAX) return;
    struct holder holder = holder_of(&engine->holdings, grab->sale_id, grab->buyer);
    holdings_expect(&engine->holdings, holder.hash);
    grab->hash = holder.hash;
}

void engine_expect_order(const struct engine *engine, const struct grab *grab)
{
    if (grab->hash != 0) holdings_expect_order(&engine->holdings, grab->hash);
}

void engine_expect_name(const struct engine *engine, const struct grab *grab)
{
    if (grab->hash != 0) holdings_expect_name(&engine->holdings, grab->hash);
}

/* The order of a win, and the decision that makes it. The buyer's name stands in both already. They are filled where they
 * stand: what is copied in larger pieces than it was written in has to wait until it has been written. */
static void grab_win(const struct engine *engine, const struct grab *grab, const struct sale *sale, struct decision *out,
                     struct order *order)
{
    order->no = out->seq = engine->seq + 1;
    order->won_ms = out->at_ms = decision_time(engine, grab->now_ms);
    order->sale_id = out->sale_id = sale->id;
    out->kind = DECISION_WON;
    if (grab->key.len > 0) memcpy(order->key, grab->key.data, grab->key.len);
    order->key[grab->key.len] = '\0';
    order->units = grab->units;
    order->amount = sale_amount(&sale->terms, grab->units);
    order->pay_by_ms = sale_pay_by_ms(&sale->terms, order->won_ms);
    order->state = order->pay_by_ms == 0 ? ORDER_PAID : ORDER_HELD;
    order->token_nonce = admission_takes_tokens(sale->terms.admission) ? grab->token_nonce : 0;

    out->won.key = (struct slice){ order->key, grab->key.len };
    out->won.units = order->units;
    out->won.amount = order->amount;
    out->won.pay_by_ms = order->pay_by_ms;
    out->won.token_nonce = order->token_nonce;
}

static bool returns_are_too_many(const struct engine *engine, uint32_t standing)
{
    return standing != 0 && holding_at(&engine->holdings, standing)->returns >= RETURNS_PER_BUYER_MAX;
}

enum verdict grab_decide(const struct engine *engine, const struct grab *grab, bool in_replay, struct decision *out,
                         struct grab_answer *answer)
{
    answer->available = 0;
    if (!grab_is_well_formed(grab)) return answer->verdict = VERDICT_BAD_INPUT;
    const struct sale_slot *slot = slot_find(engine, grab->sale_id);
    if (slot == NULL) return answer->verdict = VERDICT_NO_SUCH_SALE;

    const struct sale *sale = &slot->sale;
    answer->available = sale->counts.available;
    struct slice buyer = buyer_of(grab, sale->terms.admission, sale->orders_made + 1, answer->order.buyer);
    /* The seller asked for logins after the gateway had looked: asked again, the gateway will know. */
    if (buyer.len == 0) return answer->verdict = VERDICT_BUSY;

    struct holder holder = holder_hashed(&engine->holdings, sale->id, buyer, grab->hash);
    uint32_t named;
    enum verdict verdict = grab_judge(engine, grab, sale, &holder, &named);
    if (verdict == VERDICT_DONE && !in_replay && returns_are_too_many(engine, named)) verdict = VERDICT_TOO_MANY_RETURNS;
    if (verdict == VERDICT_DONE) verdict = stock_judge(engine, grab, sale);
    answer->verdict = verdict;
    if (answer->verdict == VERDICT_REPEATED || answer->verdict == VERDICT_ALREADY_WON)
        holdings_order(&engine->holdings, named, sale, &answer->order);
    if (answer->verdict == VERDICT_WON) {
        out->won.buyer = (struct slice){ answer->order.buyer, buyer.len };
        grab_win(engine, grab, sale, out, &answer->order);
        answer->available -= grab->units;
        uint32_t grabs = named == 0 ? 0 : holding_at(&engine->holdings, named)->grabs;
        answer->grabs_left = sale->terms.grabs_per_buyer_max - grabs - 1;
    }
    return answer->verdict;
}

/* Nobody may call themselves what a nameless buyer could be called: they would see that buyer's order, or stand in the
 * way of the next claim for good. */
enum verdict engine_decide_grab(const struct engine *engine, const struct grab *grab, struct decision *out,
                                struct grab_answer *answer)
{
    const struct sale_slot *slot = slot_find(engine, grab->sale_id);
    bool nameless_come = slot != NULL && slot->sale.terms.admission == ADMISSION_OPEN;
    if (!nameless_come || !buyer_is_made_up(grab->buyer)) return grab_decide(engine, grab, false, out, answer);
    answer->available = 0;
    return answer->verdict = VERDICT_BAD_INPUT;
}

static bool name_is_taken(const struct engine *engine, struct slice seller, const char *name)
{
    return names_sale(&engine->names, names_hash(&engine->names, seller, slice_of(name))) != 0;
}

/* The first id above the last whose slot is free, or 0. */
static uint64_t sale_id_next(const struct engine *engine)
{
    if (engine->sales == SALES_OPEN_MAX || engine->sale_id_last > UINT64_MAX - SALES_OPEN_MAX) return 0;
    uint64_t id = engine->sale_id_last + 1;
    while (!slot_is_free(engine, id)) id++;
    return id;
}

enum verdict engine_decide_create(const struct engine *engine, const struct asker *seller, const struct sale_terms *terms,
                                  uint32_t stock, struct decision *out)
{
    if (sale_create_verdict(seller->name, terms, stock) != VERDICT_DONE) return VERDICT_BAD_INPUT;
    if (name_is_taken(engine, seller->name, terms->name)) return VERDICT_NAME_TAKEN;
    if (!names_have_room(&engine->names)) return VERDICT_BUSY;
    uint64_t id = sale_id_next(engine);
    if (id == 0) return VERDICT_BUSY;

    *out = decision_new(engine, DECISION_SALE_CREATED, id, seller->now_ms);
    out->created.seller = seller->name;
    out->created.terms = terms;
    out->created.stock = stock;
    return VERDICT_DONE;
}

/* The sale, if it is there and the asker may know of it (P8). */
static const struct sale *asker_sale(const struct engine *engine, const struct asker *asker, uint64_t sale_id)
{
    const struct sale_slot *slot = slot_find(engine, sale_id);
    if (slot == NULL) return NULL;
    return asker_may_know(asker, &slot->sale) ? &slot->sale : NULL;
}

static enum verdict token_decide(const struct engine *engine, const struct token_ask *ask, struct decision *out,
                                 struct token_answer *answer)
{
    if (!text_may_be_kept(ask->buyer, BUYER_BYTES_MAX)) return VERDICT_BAD_INPUT;
    const struct sale_slot *slot = slot_find(engine, ask->sale_id);
    if (slot == NULL) return VERDICT_NO_SUCH_SALE;
    const struct sale *sale = &slot->sale;
    *out = decision_new(engine, DECISION_TOKEN_GIVEN, sale->id, ask->now_ms);
    out->token_given.buyer = ask->buyer;
    answer->nonce = out->seq;

    if (sale_is_closed(sale, out->at_ms)) return VERDICT_CLOSED;
    if (sale->terms.admission != ask->admission) return VERDICT_NO_TOKENS_NEEDED;
    struct holder holder = holder_of(&engine->holdings, sale->id, ask->buyer);
    uint32_t standing = holdings_standing(&engine->holdings, &holder);
    uint32_t grabs = standing == 0 ? 0 : holding_at(&engine->holdings, standing)->grabs;
    if (grabs >= sale->terms.grabs_per_buyer_max) {
        holdings_order(&engine->holdings, standing, sale, &answer->order);
        return VERDICT_ALREADY_WON;
    }
    if (sale->counts.available == 0) return VERDICT_SOLD_OUT;
    uint32_t cell = tokens_find(&engine->tokens, &holder);
    uint64_t held = cell != 0 ? token_at(&engine->tokens, cell)->nonce : 0;
    if (ask->nonce != 0 && ask->nonce != held) return VERDICT_TOKEN_INVALID;
    if (held != 0) {
        answer->nonce = held;
        return VERDICT_REPEATED;
    }
    if (sale->terms.tokens_max != 0 && sale->tokens_given >= sale->terms.tokens_max) return VERDICT_NO_TOKENS_LEFT;
    return tokens_have_room(&engine->tokens) ? VERDICT_DONE : VERDICT_BUSY;
}

enum verdict engine_decide_token(const struct engine *engine, const struct token_ask *ask, struct decision *out,
                                 struct token_answer *answer)
{
    assert(admission_takes_tokens(ask->admission));
    return answer->verdict = token_decide(engine, ask, out, answer);
}

enum verdict engine_decide_change(const struct engine *engine, const struct asker *asker, uint64_t sale_id,
                                  const struct sale_terms *terms, struct decision *out)
{
    const struct sale *sale = asker_sale(engine, asker, sale_id);
    if (sale == NULL) return VERDICT_NO_SUCH_SALE;
    *out = decision_new(engine, DECISION_SALE_CHANGED, sale_id, asker->now_ms);
    out->changed = terms;

    enum verdict verdict = sale_change_verdict(sale, terms, out->at_ms);
    if (verdict != VERDICT_DONE) return verdict;
    if (strcmp(terms->name, sale->terms.name) == 0) return VERDICT_DONE;
    if (name_is_taken(engine, slice_of(sale->seller), terms->name)) return VERDICT_NAME_TAKEN;
    if (!names_have_room(&engine->names)) return VERDICT_BUSY;
    return VERDICT_DONE;
}

enum verdict engine_decide_stock(const struct engine *engine, const struct asker *asker, uint64_t sale_id, int64_t add,
                                 struct decision *out)
{
    const struct sale *sale = asker_sale(engine, asker, sale_id);
    if (sale == NULL) return VERDICT_NO_SUCH_SALE;
    *out = decision_new(engine, DECISION_STOCK_ADDED, sale_id, asker->now_ms);
    out->stock_added = add;
    return sale_stock_verdict(sale, add, out->at_ms);
}

enum verdict engine_decide_switch(const struct engine *engine, const struct asker *asker, uint64_t sale_id,
                                  enum decision_kind kind, struct decision *out)
{
    const struct sale *sale = asker_sale(engine, asker, sale_id);
    if (sale == NULL) return VERDICT_NO_SUCH_SALE;
    *out = decision_new(engine, kind, sale_id, asker->now_ms);
    return sale_switch_verdict(sale, kind, out->at_ms);
}
