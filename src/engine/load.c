#include "engine/engine_state.h"

#include "base/log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The ledger is a file like any other: what it says is checked as the journal's decisions are, so that no later decision
 * can meet a state that none could have led to. */

static enum fault objected(struct engine *engine, const char *format, ...) __attribute__((format(printf, 2, 3)));

static enum fault objected(struct engine *engine, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(engine->load_objection, sizeof engine->load_objection, format, args);
    va_end(args);
    return FAULT_DAMAGE;
}

const char *engine_load_objection(const struct engine *engine)
{
    return engine->load_objection;
}

static bool text_is_ended(const char *text, size_t bytes_max)
{
    return strnlen(text, bytes_max + 1) <= bytes_max;
}

static bool text_is_a_name(const char *text, size_t bytes_max)
{
    return text[0] != '\0' && text_is_ended(text, bytes_max);
}

static const char *sale_objection(const struct engine *engine, const struct sale *sale)
{
    if (sale->id == 0) return "it has no id";
    if (!slot_is_free(engine, sale->id)) return "its place is taken by another open sale";
    if (!text_is_a_name(sale->seller, USERNAME_BYTES_MAX)) return "its seller has no possible name";
    if (!sale_counts_add_up(&sale->counts)) return "available + held + sold is not offered";
    return sale_terms_objection(&sale->terms);
}

enum fault engine_load_sale(struct engine *engine, const struct sale *sale)
{
    const char *objection = sale_objection(engine, sale);
    if (objection != NULL) return objected(engine, "sale %" PRIu64 " cannot be: %s", sale->id, objection);
    slot_take(engine, sale);
    return FAULT_NONE;
}

enum fault engine_load_name(struct engine *engine, struct slice seller, struct slice name, uint64_t sale_id)
{
    bool possible = sale_id != 0 && text_may_be_kept(seller, USERNAME_BYTES_MAX) &&
                    text_may_be_kept(name, SALE_NAME_BYTES_MAX);
    uint64_t hash = possible ? names_hash(&engine->names, seller, name) : 0;
    if (!possible || names_sale(&engine->names, hash) != 0) {
        return objected(engine, "the name of sale %" PRIu64 " cannot be: %s", sale_id,
                        possible ? "another sale has it" : "it is not a name");
    }
    if (!names_have_room(&engine->names)) {
        log_error("engine", "the ledger has more names of sales than %u", SALE_NAMES_MAX);
        return FAULT_SPACE;
    }
    names_put(&engine->names, hash, sale_id);
    return FAULT_NONE;
}

static const char *order_objection(const struct engine *engine, const struct order *order, const struct sale_slot *slot)
{
    if (order->no == 0) return "it has no number";
    if (order->units == 0 || order->units > STOCK_MAX) return "its units are out of bounds";
    if (order->won_ms > TIME_MS_MAX) return "its time is beyond the year 9999";
    if (order->state > ORDER_STATE_LAST) return "its state is of no known kind";
    if (order->amount != sale_amount(&slot->sale.terms, order->units)) return "its amount is not the price of its units";
    if (!text_is_a_name(order->buyer, BUYER_BYTES_MAX)) return "its buyer has no possible name";
    if (!text_is_ended(order->key, IDEMPOTENCY_KEY_BYTES_MAX)) return "its key is too long";
    if (holdings_by_no(&engine->holdings, order->no) != 0) return "there is another of its number";

    uint64_t pay_within_ms = order->pay_by_ms - order->won_ms;
    bool possible = pay_within_ms % 1000 == 0 && pay_within_ms > 0 && pay_within_ms / 1000 <= PAY_WITHIN_S_MAX;
    if (order->pay_by_ms != 0 && !possible) return "its time to pay by does not follow from its sale";
    if (order->pay_by_ms == 0 && order->state == ORDER_HELD) return "it is held for ever";
    if (order->pay_by_ms == 0 && order->state != ORDER_PAID) return "it has ended and was paid at once";
    if (order->token_nonce >= order->no) return "it has spent a token that was given after it was won";
    return NULL;
}

/* Who was held and is paid, or is due a refund, has a payment; the others have none. */
static const char *ref_objection(const struct order *order, struct slice payment_ref)
{
    bool due = order->state == ORDER_REFUND_DUE || (order->state == ORDER_PAID && order->pay_by_ms != 0);
    if (due && !text_may_be_kept(payment_ref, PAYMENT_REF_BYTES_MAX)) return "its payment has no possible name";
    return !due && payment_ref.len > 0 ? "it has a payment that its state has not" : NULL;
}

/* What only the buyer's other orders can tell. */
static const char *holder_objection(const struct engine *engine, const struct order *order, const struct holder *holder)
{
    const struct sale *sale = &slot_at(engine, order->sale_id)->sale;
    if (holdings_by_key(&engine->holdings, holder, slice_of(order->key)) != 0) return "its key has won before";
    uint32_t standing = holdings_standing(&engine->holdings, holder);
    uint32_t grabs = standing == 0 ? 0 : holding_at(&engine->holdings, standing)->grabs;
    bool fits = !order_state_counts(order->state) || grabs < sale->terms.grabs_per_buyer_max;
    return fits ? NULL : "its buyer has more orders than the sale allows";
}

enum fault engine_load_order(struct engine *engine, const struct order *order, struct slice payment_ref)
{
    struct sale_slot *slot = slot_find(engine, order->sale_id);
    const char *objection = slot == NULL ? "its sale is not among the open ones" : order_objection(engine, order, slot);
    struct holder holder = { 0 };
    if (objection == NULL) objection = ref_objection(order, payment_ref);
    if (objection == NULL) {
        holder = holder_of(&engine->holdings, order->sale_id, slice_of(order->buyer));
        objection = holder_objection(engine, order, &holder);
    }
    if (objection != NULL) return objected(engine, "order %" PRIu64 " cannot be: %s", order->no, objection);
    if (!holdings_have_room(&engine->holdings)) {
        log_error("engine", "the ledger has more orders of open sales than memory was reserved for");
        return FAULT_SPACE;
    }

    struct holding_new loaded = {
        .no = order->no,
        .won_ms = order->won_ms,
        .key = slice_of(order->key),
        .units = order->units,
        .pay_within_s = order->pay_by_ms == 0 ? 0 : (uint32_t)((order->pay_by_ms - order->won_ms) / 1000),
        .state = order->state,
        .token_nonce = order->token_nonce,
        .ref_hash = payment_ref.len == 0 ? 0 : holdings_ref_hash(&engine->holdings, order->no, payment_ref),
    };
    uint32_t cell = holdings_add(&engine->holdings, &holder, &loaded, &slot->orders_first);
    if (order->state == ORDER_HELD) hold_begin(engine, cell);
    if (order->state == ORDER_HELD) slot->loaded_held += order->units;
    if (order->state == ORDER_PAID) slot->loaded_sold += order->units;
    return FAULT_NONE;
}

/* Counts that are not those of the orders would sell too much, or fail when an order ends. */
static bool counts_check(void *arg, const struct sale *sale)
{
    struct engine *engine = arg;
    const struct sale_slot *slot = slot_at(engine, sale->id);
    const struct sale_counts *c = &sale->counts;
    if (c->held == slot->loaded_held && c->sold == slot->loaded_sold) return true;
    objected(engine,
             "sale %" PRIu64 " has held %" PRIu32 " and sold %" PRIu32 ", but its orders add up to held %" PRIu64
             " and sold %" PRIu64 " (P1)",
             sale->id, c->held, c->sold, slot->loaded_held, slot->loaded_sold);
    return false;
}

enum fault engine_load_check(struct engine *engine)
{
    engine_each_sale(engine, counts_check, engine);
    return engine->load_objection[0] == '\0' ? FAULT_NONE : FAULT_DAMAGE;
}

enum fault engine_load_token(struct engine *engine, uint64_t sale_id, struct slice buyer, uint64_t nonce)
{
    struct sale_slot *slot = slot_find(engine, sale_id);
    const char *objection = NULL;
    struct holder holder = { 0 };
    if (slot == NULL) {
        objection = "its sale is not among the open ones";
    } else if (nonce == 0 || !text_may_be_kept(buyer, BUYER_BYTES_MAX)) {
        objection = "it has no number, or its buyer no possible name";
    } else {
        holder = holder_of(&engine->holdings, sale_id, buyer);
        if (tokens_find(&engine->tokens, &holder) != 0) objection = "its buyer has another that is not spent";
    }
    if (objection != NULL) return objected(engine, "token %" PRIu64 " cannot be: %s", nonce, objection);
    if (!tokens_have_room(&engine->tokens)) {
        log_error("engine", "the ledger has more tokens of open sales than memory was reserved for");
        return FAULT_SPACE;
    }
    tokens_add(&engine->tokens, &holder, nonce, &slot->tokens_first);
    return FAULT_NONE;
}

void engine_load_point(struct engine *engine, uint64_t seq, uint64_t digest, uint64_t sale_id_last, uint64_t at_ms)
{
    engine->seq = seq;
    engine_filed(engine, seq);
    engine->digest = digest;
    engine->at_ms = at_ms;
    engine->floor_ms = at_ms;
    if (sale_id_last > engine->sale_id_last) engine->sale_id_last = sale_id_last;
}
