#include "engine/engine_state.h"

/* What the engine would have said instead, as a reason for whoever reads it in a log. */
static const char *const reasons[VERDICT_COUNT] = {
    [VERDICT_REPEATED] = "its Idempotency-Key has won before",
    [VERDICT_KEY_REUSED] = "its Idempotency-Key has won before with other units",
    [VERDICT_NO_SUCH_SALE] = "its sale is not known",
    [VERDICT_CLOSED] = "its sale was closed by then",
    [VERDICT_NOT_OPEN] = "its sale was not open yet",
    [VERDICT_PAUSED] = "its sale was paused",
    [VERDICT_NOT_PAUSED] = "its sale was not paused",
    [VERDICT_TOKEN_REQUIRED] = "its sale takes none without a token",
    [VERDICT_TOKEN_INVALID] = "its token was not its buyer's, or was spent before",
    [VERDICT_NO_TOKENS_LEFT] = "its sale had handed out all its tokens",
    [VERDICT_NO_TOKENS_NEEDED] = "its sale hands out no tokens",
    [VERDICT_OVER_LIMIT] = "it has more units than a grab may have",
    [VERDICT_ALREADY_WON] = "its buyer had won as often as the sale allows",
    [VERDICT_SOLD_OUT] = "it has more units than were available",
    [VERDICT_NO_SUCH_ORDER] = "its order is not known, or is of another sale",
    [VERDICT_NOT_HELD] = "its order was not held",
    [VERDICT_AMOUNT_MISMATCH] = "its payment is not of the order's amount",
    [VERDICT_ALREADY_PAID] = "its order had been paid",
    [VERDICT_NAME_TAKEN] = "its seller has another sale of that name",
    [VERDICT_SALE_OPEN] = "it changes what may not change in an open sale",
    [VERDICT_NOT_AVAILABLE] = "it adds or withdraws more stock than it could",
    [VERDICT_BAD_INPUT] = "its fields are out of bounds",
    [VERDICT_BUSY] = "there is no memory for it: raise the limits the server was started with",
};

/* A start finds sales in memory that the server had let go of before it stopped; their places count as free. */
static const char *created_objection(const struct engine *engine, const struct decision *decision)
{
    struct slice seller = decision->created.seller;
    const struct sale_terms *terms = decision->created.terms;
    if (!text_may_be_kept(seller, USERNAME_BYTES_MAX)) return "its seller has no possible name";
    if (sale_terms_objection(terms) != NULL) return reasons[VERDICT_BAD_INPUT];
    if (decision->created.stock > STOCK_MAX) return reasons[VERDICT_BAD_INPUT];
    if (decision->sale_id <= engine->sale_id_last) return "its sale's id was given before";
    if (decision->sale_id - engine->sale_id_last > SALES_OPEN_MAX) return "its sale's id leaps too far";
    if (names_sale(&engine->names, names_hash(&engine->names, seller, slice_of(terms->name))) != 0)
        return reasons[VERDICT_NAME_TAKEN];
    if (!names_have_room(&engine->names)) return reasons[VERDICT_BUSY];
    if (slot_is_free(engine, decision->sale_id)) return NULL;
    return slot_is_over(slot_at(engine, decision->sale_id), decision->at_ms) ? NULL : "its place is taken by an open sale";
}

static const char *won_objection(const struct engine *engine, const struct decision *decision)
{
    struct grab grab = {
        .sale_id = decision->sale_id,
        .buyer = decision->won.buyer,
        .key = decision->won.key,
        .units = decision->won.units,
        .now_ms = decision->at_ms,
        .token_nonce = decision->won.token_nonce,
        .trusted = decision->won.token_nonce == 0, /* of a backend, whose word no record tells again */
    };
    struct decision ours;
    struct grab_answer answer;
    if (grab.buyer.len == 0) return "it has no buyer";
    enum verdict verdict = grab_decide(engine, &grab, true, &ours, &answer);
    bool busy_for_us = verdict == VERDICT_BUSY && slots_over_have_orders(engine, decision->at_ms);
    if (verdict != VERDICT_WON && !busy_for_us) return reasons[verdict];

    const struct sale_terms *terms = &slot_at(engine, decision->sale_id)->sale.terms;
    if (decision->won.amount != sale_amount(terms, grab.units)) return "its amount is not the price of its units";
    if (decision->won.pay_by_ms != sale_pay_by_ms(terms, decision->at_ms))
        return "its time to pay by is not what its sale says";
    if (decision->won.token_nonce != 0 && !admission_takes_tokens(terms->admission))
        return "it has spent a token that its sale takes no notice of";
    return NULL;
}

static const char *token_objection(const struct engine *engine, const struct decision *decision)
{
    const struct sale_slot *slot = slot_find(engine, decision->sale_id);
    if (slot == NULL) return reasons[VERDICT_NO_SUCH_SALE];
    struct token_ask ask = {
        .sale_id = decision->sale_id,
        .buyer = decision->token_given.buyer,
        .admission = slot->sale.terms.admission,
        .now_ms = decision->at_ms,
    };
    struct decision ours;
    struct token_answer answer;
    if (!admission_takes_tokens(ask.admission)) return reasons[VERDICT_NO_TOKENS_NEEDED];
    enum verdict verdict = engine_decide_token(engine, &ask, &ours, &answer);
    if (verdict == VERDICT_REPEATED) return "its buyer had one that was not spent";
    bool busy_for_us = verdict == VERDICT_BUSY && slots_over_have_tokens(engine, decision->at_ms);
    return verdict == VERDICT_DONE || busy_for_us ? NULL : reasons[verdict];
}

/* Memory has let go of the order's sale, so that the ledger alone could tell more. */
static const char *past_refund_objection(const struct engine *engine, const struct decision *decision)
{
    if (decision->sale_id == 0 || decision->sale_id > engine->sale_id_last) return reasons[VERDICT_NO_SUCH_SALE];
    if (decision->ended.order_no == 0 || decision->ended.order_no >= decision->seq) return reasons[VERDICT_NO_SUCH_ORDER];
    if (holdings_by_no(&engine->holdings, decision->ended.order_no) != 0) return reasons[VERDICT_NO_SUCH_ORDER];
    bool possible = decision->ended.units > 0 && decision->ended.units <= STOCK_MAX &&
                    text_may_be_kept(decision->ended.ref, PAYMENT_REF_BYTES_MAX);
    return possible ? NULL : reasons[VERDICT_BAD_INPUT];
}

static const char *payment_objection(const struct engine *engine, const struct decision *decision, const struct order *order)
{
    struct payment payment = {
        .order_no = order->no,
        .ref = decision->ended.ref,
        .amount = order->amount, /* the record does not tell it again */
        .now_ms = decision->at_ms,
    };
    struct decision ours;
    struct order left;
    enum verdict verdict = engine_decide_payment(engine, &payment, &ours, &left);
    if (verdict == VERDICT_REPEATED) return reasons[VERDICT_ALREADY_PAID];
    if (verdict != VERDICT_DONE) return reasons[verdict];
    return ours.kind == decision->kind ? NULL : "its payment leads elsewhere";
}

static const char *cancel_objection(const struct engine *engine, const struct decision *decision, const struct order *order)
{
    const struct sale *sale = &slot_at(engine, decision->sale_id)->sale;
    struct cancel cancel = {
        .order_no = order->no,
        .by = decision->ended.by,
        .name = slice_of(decision->ended.by == CANCELLER_BUYER ? order->buyer : sale->seller),
        .reason = decision->ended.reason,
        .now_ms = decision->at_ms,
    };
    struct decision ours;
    struct order left;
    enum verdict verdict = engine_decide_cancel(engine, &cancel, &ours, &left);
    return verdict == VERDICT_DONE ? NULL : reasons[verdict];
}

/* A ledger that contradicts itself may have loaded a sale that holds less than its orders do. */
static const char *ended_objection(const struct engine *engine, const struct decision *decision)
{
    const struct sale_slot *slot = slot_find(engine, decision->sale_id);
    if (slot == NULL && decision->kind == DECISION_REFUND_DUE) return past_refund_objection(engine, decision);
    if (slot == NULL) return reasons[VERDICT_NO_SUCH_SALE];
    struct order order;
    if (!engine_order(engine, decision->ended.order_no, &order) || order.sale_id != decision->sale_id)
        return reasons[VERDICT_NO_SUCH_ORDER];
    if (decision->ended.units != order.units) return "its units are not those of its order";
    if (order.state == ORDER_HELD && order.units > slot->sale.counts.held) return "its sale held less than that";

    /* The server had let go of the sale, and did not remember the refund for as long as it took to file it. */
    bool again = decision->kind == DECISION_REFUND_DUE && order.state == ORDER_REFUND_DUE &&
                 slot_is_over(slot, decision->at_ms) && text_may_be_kept(decision->ended.ref, PAYMENT_REF_BYTES_MAX);
    if (again) return NULL;
    if (decision->kind == DECISION_CANCELLED) return cancel_objection(engine, decision, &order);
    if (decision->kind != DECISION_EXPIRED) return payment_objection(engine, decision, &order);
    if (order.state != ORDER_HELD) return reasons[VERDICT_NOT_HELD];
    return decision->at_ms >= order.pay_by_ms ? NULL : "its order could be paid longer than that";
}

/* A decision is believed when the engine, asked the same at that time, would have decided the same. */
const char *engine_objection(const struct engine *engine, const struct decision *decision)
{
    const struct asker anyone = { .admin = true, .now_ms = decision->at_ms };
    struct decision ours;
    enum verdict verdict = VERDICT_DONE;

    if (decision->seq != engine->seq + 1) return "its sequence number does not follow";
    if (decision->at_ms < engine->floor_ms) return "its time is before that of the decision ahead of it";
    if (decision->at_ms > TIME_MS_MAX) return "its time is beyond the year 9999";

    switch (decision->kind) {
    case DECISION_SALE_CREATED:
        return created_objection(engine, decision);
    case DECISION_WON:
        return won_objection(engine, decision);
    case DECISION_TOKEN_GIVEN:
        return token_objection(engine, decision);
    case DECISION_PAID:
    case DECISION_CANCELLED:
    case DECISION_EXPIRED:
    case DECISION_RETAKEN:
    case DECISION_REFUND_DUE:
        return ended_objection(engine, decision);
    case DECISION_SALE_CHANGED:
        verdict = engine_decide_change(engine, &anyone, decision->sale_id, decision->changed, &ours);
        break;
    case DECISION_STOCK_ADDED:
        verdict = engine_decide_stock(engine, &anyone, decision->sale_id, decision->stock_added, &ours);
        break;
    case DECISION_SALE_PAUSED:
    case DECISION_SALE_RESUMED:
    case DECISION_SALE_CLOSED:
        verdict = engine_decide_switch(engine, &anyone, decision->sale_id, decision->kind, &ours);
        break;
    default:
        return "it is of no known kind";
    }
    return verdict == VERDICT_DONE ? NULL : reasons[verdict];
}
