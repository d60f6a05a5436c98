#include "gate/remote/telling.h"

#include "base/text.h"
#include "gate/remote/remote.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void telling_init(struct telling *telling, struct slice *argv, uint32_t argc_max, char *text, size_t size)
{
    *telling = (struct telling){ .argv = argv, .argc_max = argc_max, .text = text, .size = size };
}

void telling_text(struct telling *telling, struct slice text)
{
    assert(telling->argc < telling->argc_max && text.len <= telling->size - telling->used);
    char *place = telling->text + telling->used;
    if (text.len > 0) memcpy(place, text.data, text.len);
    telling->argv[telling->argc++] = (struct slice){ place, text.len };
    telling->used += text.len;
}

void telling_number(struct telling *telling, uint64_t number)
{
    char text[20];
    telling_text(telling, (struct slice){ text, text_from_u64(text, number) });
}

void telling_signed(struct telling *telling, int64_t number)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, number);
    telling_text(telling, slice_of(text));
}

/* The nine of GATE_SALE_NUMBERS that a seller sets. */
static void terms_tell(struct telling *telling, const struct sale_terms *terms)
{
    telling_signed(telling, terms->price);
    telling_number(telling, terms->units_per_grab_max);
    telling_number(telling, terms->grabs_per_buyer_max);
    telling_number(telling, terms->opens_ms);
    telling_number(telling, terms->closes_ms);
    telling_number(telling, terms->pay_within_s);
    telling_number(telling, (uint64_t)terms->admission);
    telling_number(telling, terms->tokens_max);
    telling_number(telling, (uint64_t)terms->late_payment);
}

void telling_load_begin(struct telling *telling, const struct telling_load *load)
{
    const struct sale *sale = &load->sale->sale;
    telling_text(telling, SLICE("begin"));
    telling_number(telling, load->t_ms);
    telling_number(telling, sale->counts.offered);
    telling_number(telling, sale->counts.available);
    telling_number(telling, sale->counts.held);
    telling_number(telling, sale->counts.sold);
    telling_number(telling, sale->orders_made);
    telling_number(telling, sale->tokens_given);
    terms_tell(telling, &sale->terms);
    telling_number(telling, sale->paused);
    telling_number(telling, sale->closed);
    telling_number(telling, load->log_max);
    telling_number(telling, load->sale->version);
}

void telling_order(struct telling *telling, const struct ledger_order *row)
{
    const struct order *order = &row->order;
    telling_text(telling, SLICE("order"));
    telling_number(telling, order->no);
    telling_number(telling, (uint64_t)order->state);
    telling_number(telling, order->units);
    telling_signed(telling, order->amount);
    telling_number(telling, order->won_ms);
    telling_number(telling, order->pay_by_ms);
    telling_number(telling, order->token_nonce);
    telling_text(telling, slice_of(order->buyer));
    telling_text(telling, slice_of(order->key));
    telling_text(telling, slice_of(row->payment_ref));
}

void telling_token(struct telling *telling, const struct ledger_token *token)
{
    telling_text(telling, SLICE("token"));
    telling_text(telling, slice_of(token->buyer));
    telling_number(telling, token->nonce);
}

enum fault errand_facts_read(struct ledger *ledger, const struct ledger_errand *errand, struct errand_facts *out)
{
    out->found = true;
    switch (errand->kind) {
    case ERRAND_PAID:
    case ERRAND_CANCELLED:
    case ERRAND_REFUND:
        return ledger_order(ledger, errand->order_no, &out->order, &out->found);
    case ERRAND_SALE:
        return ledger_shelved(ledger, errand->sale_id, &out->sale, &out->found);
    case ERRAND_STOCK:
    case ERRAND_EXPIRED:
        break;
    }
    return FAULT_NONE;
}

void telling_errand_name(struct telling *telling, uint64_t errand_id)
{
    char text[32];
    snprintf(text, sizeof text, "errand:%" PRIu64, errand_id);
    telling_text(telling, slice_of(text));
}

static void sale_tell(struct telling *telling, const struct ledger_shelved *sale)
{
    telling_number(telling, sale->version);
    terms_tell(telling, &sale->sale.terms);
    telling_number(telling, sale->sale.paused);
    telling_number(telling, sale->sale.closed);
}

enum gate_script_name errand_tell(const struct ledger_errand *errand, const struct errand_facts *facts,
                                  struct telling *telling)
{
    assert(facts->found);
    switch (errand->kind) {
    case ERRAND_PAID:
    case ERRAND_REFUND:
        telling_number(telling, errand->order_no);
        telling_text(telling, slice_of(facts->order.payment_ref));
        telling_signed(telling, facts->order.order.amount);
        telling_text(telling, errand->kind == ERRAND_PAID ? SLICE("paid") : SLICE("refund_due"));
        return GATE_SCRIPT_PAY;
    case ERRAND_CANCELLED:
        telling_number(telling, errand->order_no);
        telling_errand_name(telling, errand->id);
        return GATE_SCRIPT_CANCEL;
    case ERRAND_STOCK:
        telling_errand_name(telling, errand->id);
        telling_number(telling, errand->units);
        telling_text(telling, SLICE("1"));
        return GATE_SCRIPT_RESTOCK;
    case ERRAND_SALE:
        sale_tell(telling, &facts->sale);
        return GATE_SCRIPT_CHANGE;
    case ERRAND_EXPIRED:
        break;
    }
    assert(!"an errand that is not told by itself");
    return GATE_SCRIPT_COUNT;
}

/* The order has ended in the gate: as in the ledger, or otherwise. One that is held there and due a refund ended in the
 * ledger before, and the errand that says so has not come yet. */
static enum errand_end order_judge(const struct ledger_errand *errand, const struct errand_facts *facts,
                                   const struct redis_reply *reply)
{
    struct order order;
    struct slice ref;
    if (!script_order(reply_text(reply, 5), reply_text(reply, 6), errand->sale_id, &order, &ref)) return ERRAND_OPPOSED;
    if (errand->kind == ERRAND_REFUND && order.state == ORDER_HELD) return ERRAND_EARLY;
    return order.state == facts->order.order.state ? ERRAND_DONE : ERRAND_OPPOSED;
}

/* A gate of a later epoch was built from a ledger that had it: the row of the sale was locked for both. */
static enum errand_end stale_judge(const struct ledger_errand *errand, const struct redis_reply *reply)
{
    return reply_number(reply, 2) > errand->epoch ? ERRAND_DONE : ERRAND_LATER;
}

enum errand_end errand_judge(const struct ledger_errand *errand, const struct errand_facts *facts,
                             const struct redis_reply *reply)
{
    struct slice word = reply_text(reply, 0);
    if (slice_is(word, "STALE") || slice_is(word, "LOADING")) return stale_judge(errand, reply);
    if (slice_is(word, "NOT_LOADED")) return ERRAND_LATER;
    /* The same payment may have taken the units again in the gate before the ledger refused them. */
    bool refunded = slice_is(word, "REPEATED") && errand->kind == ERRAND_REFUND;
    if (slice_is(word, "NOT_HELD") || refunded) return order_judge(errand, facts, reply);
    if (slice_is(word, "REPEATED")) return ERRAND_DONE;
    return slice_is(word, "DONE") ? ERRAND_DONE : ERRAND_OPPOSED;
}
