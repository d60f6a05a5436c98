#include "engine/buyer.h"
#include "engine/engine_state.h"

#include <assert.h>
#include <string.h>

/* Callers read the clock before they have the lock, so the times they bring may be a little out of order. Decisions are
 * not. */
static uint64_t decision_time(const struct engine *engine, uint64_t now_ms)
{
    return now_ms > engine->floor_ms ? now_ms : engine->floor_ms;
}

static struct decision decision_new(const struct engine *engine, enum decision_kind kind, uint64_t sale_id, uint64_t now_ms)
{
    return (struct decision){
        .seq = engine->seq + 1,
        .at_ms = decision_time(engine, now_ms),
        .kind = kind,
        .sale_id = sale_id,
    };
}

static bool grab_is_well_formed(const struct grab *grab)
{
    return grab->units > 0 && (grab->buyer.len == 0 || text_may_be_kept(grab->buyer, BUYER_BYTES_MAX)) &&
           (grab->key.len == 0 || text_may_be_kept(grab->key, IDEMPOTENCY_KEY_BYTES_MAX));
}

/* The order is part of the API, because a buyer sees only the first that applies. *named is the order that the answer
 * names. The key comes before the window: a win asked for again is told the same after the sale has closed (P7). */
static enum verdict grab_judge(const struct engine *engine, const struct grab *grab, const struct sale *sale,
                               const struct holder *holder, uint32_t *named)
{
    uint64_t now_ms = decision_time(engine, grab->now_ms);

    *named = holdings_by_key(&engine->holdings, holder, grab->key);
    if (*named != 0 && holding_at(&engine->holdings, *named)->units == grab->units) return VERDICT_REPEATED;
    if (*named != 0) return VERDICT_KEY_REUSED;
    if (sale_is_closed(sale, now_ms)) return VERDICT_CLOSED;
    if (now_ms < sale->terms.opens_ms) return VERDICT_NOT_OPEN;
    if (sale->paused) return VERDICT_PAUSED;
    if (grab->units > sale->terms.units_per_grab_max) return VERDICT_OVER_LIMIT;

    *named = holdings_newest(&engine->holdings, holder);
    uint32_t grabs = *named == 0 ? 0 : holding_at(&engine->holdings, *named)->grabs;
    if (grabs >= sale->terms.grabs_per_buyer_max) return VERDICT_ALREADY_WON;
    if (grab->units > sale->counts.available) return VERDICT_SOLD_OUT;
    if (!holdings_have_room(&engine->holdings)) return VERDICT_BUSY;
    return VERDICT_WON;
}

/* The order of a win, and the decision that makes it. The buyer's name stands in the order already. */
static void grab_win(const struct engine *engine, const struct grab *grab, const struct sale *sale, struct decision *out,
                     struct order *order)
{
    *out = decision_new(engine, DECISION_WON, sale->id, grab->now_ms);
    order->no = out->seq;
    order->sale_id = sale->id;
    if (grab->key.len > 0) memcpy(order->key, grab->key.data, grab->key.len);
    order->key[grab->key.len] = '\0';
    order->units = grab->units;
    order->amount = sale_amount(&sale->terms, grab->units);
    order->won_ms = out->at_ms;
    order->pay_by_ms = sale_pay_by_ms(&sale->terms, out->at_ms);
    order->state = order->pay_by_ms == 0 ? ORDER_PAID : ORDER_HELD;

    out->won.buyer = slice_of(order->buyer);
    out->won.key = (struct slice){ order->key, grab->key.len };
    out->won.units = order->units;
    out->won.amount = order->amount;
    out->won.pay_by_ms = order->pay_by_ms;
}

enum verdict grab_decide(const struct engine *engine, const struct grab *grab, struct decision *out,
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

    struct holder holder = holder_of(&engine->holdings, sale->id, buyer);
    holdings_expect(&engine->holdings, &holder);
    uint32_t named;
    answer->verdict = grab_judge(engine, grab, sale, &holder, &named);
    if (answer->verdict == VERDICT_REPEATED || answer->verdict == VERDICT_ALREADY_WON)
        holdings_order(&engine->holdings, named, sale, &answer->order);
    if (answer->verdict == VERDICT_WON) {
        grab_win(engine, grab, sale, out, &answer->order);
        answer->available -= grab->units;
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
    if (!nameless_come || !buyer_is_made_up(grab->buyer)) return grab_decide(engine, grab, out, answer);
    answer->available = 0;
    return answer->verdict = VERDICT_BAD_INPUT;
}

/* Every check of the full decision that comes before SOLD_OUT must come here too; where one fails, the full decision
 * says so. Fewer left than asked is not enough: what is left may be enough for the next one, and only the lock can tell
 * who that is. */
enum verdict engine_refuse_early(const struct engine *engine, const struct grab *grab)
{
    struct board_notice notice;
    if (!board_read(board_at(engine, grab->sale_id), &notice)) return VERDICT_DONE;
    if (notice.available != 0) return VERDICT_DONE;
    if (grab->sale_id == 0 || notice.sale_id != grab->sale_id) return VERDICT_DONE;
    if (!grab_is_well_formed(grab) || buyer_is_made_up(grab->buyer)) return VERDICT_DONE;
    if (notice.closed || (notice.closes_ms != 0 && grab->now_ms >= notice.closes_ms)) return VERDICT_DONE;
    if (grab->now_ms < notice.opens_ms) return VERDICT_DONE;
    if (notice.paused) return VERDICT_DONE;
    if (grab->units > notice.units_per_grab_max) return VERDICT_DONE;

    bool nameless = grab->buyer.len == 0 && grab->key.len == 0;
    if (nameless) return notice.admission == ADMISSION_OPEN ? VERDICT_SOLD_OUT : VERDICT_DONE;

    char name[BUYER_BYTES_MAX + 1];
    struct slice buyer = buyer_of(grab, notice.admission, 0, name);
    if (buyer.len == 0) return VERDICT_DONE;
    struct holder holder = holder_of(&engine->holdings, grab->sale_id, buyer);
    return holdings_may_hold(&engine->holdings, &holder) ? VERDICT_DONE : VERDICT_SOLD_OUT;
}

bool engine_admits_anyone(const struct engine *engine, uint64_t sale_id)
{
    struct board_notice notice;
    while (!board_read(board_at(engine, sale_id), &notice)) continue; /* a writer is between two stores */
    return sale_id != 0 && notice.sale_id == sale_id && notice.admission == ADMISSION_OPEN;
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
    if (!text_may_be_kept(seller->name, USERNAME_BYTES_MAX)) return VERDICT_BAD_INPUT;
    if (sale_terms_objection(terms) != NULL || stock > STOCK_MAX) return VERDICT_BAD_INPUT;
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
    return asker->admin || slice_is(asker->name, slot->sale.seller) ? &slot->sale : NULL;
}

/* Terms that buyers have relied on since the sale opened. Among them is all that an order in memory leaves to its sale. */
static bool terms_keep_word(const struct sale_terms *was, const struct sale_terms *is)
{
    bool closes_no_earlier = is->closes_ms == 0 || (was->closes_ms != 0 && is->closes_ms >= was->closes_ms);
    return closes_no_earlier && was->price == is->price && strcmp(was->currency, is->currency) == 0 &&
           was->units_per_grab_max == is->units_per_grab_max && was->grabs_per_buyer_max == is->grabs_per_buyer_max &&
           was->opens_ms == is->opens_ms && was->admission == is->admission;
}

enum verdict engine_decide_change(const struct engine *engine, const struct asker *asker, uint64_t sale_id,
                                  const struct sale_terms *terms, struct decision *out)
{
    const struct sale *sale = asker_sale(engine, asker, sale_id);
    if (sale == NULL) return VERDICT_NO_SUCH_SALE;
    *out = decision_new(engine, DECISION_SALE_CHANGED, sale_id, asker->now_ms);
    out->changed = terms;

    if (sale_terms_objection(terms) != NULL) return VERDICT_BAD_INPUT;
    if (sale_is_closed(sale, out->at_ms)) return VERDICT_CLOSED;
    if (out->at_ms >= sale->terms.opens_ms && !terms_keep_word(&sale->terms, terms)) return VERDICT_SALE_OPEN;
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

    if (sale_is_closed(sale, out->at_ms)) return VERDICT_CLOSED;
    if (add < -(int64_t)sale->counts.available) return VERDICT_NOT_AVAILABLE;
    if (add > (int64_t)STOCK_MAX - (int64_t)sale->counts.offered) return VERDICT_NOT_AVAILABLE;
    return VERDICT_DONE;
}

enum verdict engine_decide_switch(const struct engine *engine, const struct asker *asker, uint64_t sale_id,
                                  enum decision_kind kind, struct decision *out)
{
    assert(kind == DECISION_SALE_PAUSED || kind == DECISION_SALE_RESUMED || kind == DECISION_SALE_CLOSED);
    const struct sale *sale = asker_sale(engine, asker, sale_id);
    if (sale == NULL) return VERDICT_NO_SUCH_SALE;
    *out = decision_new(engine, kind, sale_id, asker->now_ms);

    if (sale_is_closed(sale, out->at_ms)) return VERDICT_CLOSED;
    if (kind == DECISION_SALE_PAUSED && sale->paused) return VERDICT_PAUSED;
    if (kind == DECISION_SALE_RESUMED && !sale->paused) return VERDICT_NOT_PAUSED;
    return VERDICT_DONE;
}
