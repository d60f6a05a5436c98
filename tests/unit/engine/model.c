#include "model.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

struct sale *model_sale(struct model *model, uint64_t id)
{
    for (uint32_t i = 0; i < model->sales_count; i++)
        if (model->sales[i].id == id) return &model->sales[i];
    return NULL;
}

const struct order *model_order(const struct model *model, uint64_t no)
{
    for (uint32_t i = 0; i < model->orders_count; i++)
        if (model->orders[i].no == no) return &model->orders[i];
    return NULL;
}

uint32_t model_grabs(const struct model *model, uint64_t sale_id, const char *buyer)
{
    uint32_t grabs = 0;
    for (uint32_t i = 0; i < model->orders_count; i++)
        grabs += model->orders[i].sale_id == sale_id && strcmp(model->orders[i].buyer, buyer) == 0 &&
                 (model->orders[i].state == ORDER_HELD || model->orders[i].state == ORDER_PAID);
    return grabs;
}

static uint32_t model_returns(const struct model *model, uint64_t sale_id, const char *buyer)
{
    uint32_t orders = 0;
    for (uint32_t i = 0; i < model->orders_count; i++)
        orders += model->orders[i].sale_id == sale_id && strcmp(model->orders[i].buyer, buyer) == 0;
    return orders - model_grabs(model, sale_id, buyer);
}

const char *model_ref(const struct model *model, uint64_t no)
{
    return model->refs[model_order(model, no) - model->orders];
}

uint32_t model_held(const struct model *model)
{
    uint32_t held = 0;
    for (uint32_t i = 0; i < model->orders_count; i++) held += model->orders[i].state == ORDER_HELD;
    return held;
}

static uint64_t model_time(const struct model *model, uint64_t now_ms)
{
    return now_ms < model->floor_ms ? model->floor_ms : now_ms;
}

static void model_step(struct model *model, uint64_t now_ms)
{
    model->floor_ms = model_time(model, now_ms);
    model->seq++;
}

static bool is_over(const struct sale *sale, uint64_t now_ms)
{
    if (sale->closed) return true;
    return sale->terms.closes_ms != 0 && sale->terms.closes_ms <= now_ms;
}

/* Keys of this model are short: "key:" and the key always fits. */
static void model_buyer(const struct grab *grab, const struct sale *sale, char out[BUYER_BYTES_MAX + 1])
{
    out[0] = '\0';
    if (grab->buyer.len > 0)
        snprintf(out, BUYER_BYTES_MAX + 1, "%.*s", (int)grab->buyer.len, grab->buyer.data);
    else if (sale->terms.admission == ADMISSION_OPEN && grab->key.len > 0)
        snprintf(out, BUYER_BYTES_MAX + 1, "key:%.*s", (int)grab->key.len, grab->key.data);
    else if (sale->terms.admission == ADMISSION_OPEN)
        snprintf(out, BUYER_BYTES_MAX + 1, "claim:%llu", (unsigned long long)sale->orders_made + 1);
}

static const struct order *order_of_key(const struct model *model, uint64_t sale_id, const char *buyer, struct slice key)
{
    for (uint32_t i = 0; i < model->orders_count; i++) {
        const struct order *order = &model->orders[i];
        if (order->sale_id == sale_id && strcmp(order->buyer, buyer) == 0 && key.len > 0 && slice_is(key, order->key))
            return order;
    }
    return NULL;
}

static const struct order *newest_counting(const struct model *model, uint64_t sale_id, const char *buyer)
{
    const struct order *newest = NULL;
    for (uint32_t i = 0; i < model->orders_count; i++) {
        const struct order *order = &model->orders[i];
        if (order->sale_id != sale_id || strcmp(order->buyer, buyer) != 0) continue;
        if (order->state != ORDER_HELD && order->state != ORDER_PAID) continue;
        if (newest == NULL || order->no > newest->no) newest = order;
    }
    return newest;
}

static bool takes_tokens(const struct sale *sale)
{
    return sale->terms.admission == ADMISSION_TOKEN || sale->terms.admission == ADMISSION_LINE;
}

static const struct model_token *token_unspent(const struct model *model, uint64_t sale_id, const char *buyer)
{
    for (uint32_t i = 0; i < model->tokens_count; i++) {
        const struct model_token *token = &model->tokens[i];
        if (token->sale_id == sale_id && strcmp(token->buyer, buyer) == 0 && !token->spent) return token;
    }
    return NULL;
}

uint32_t model_tokens_unspent(const struct model *model)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < model->tokens_count; i++) count += !model->tokens[i].spent;
    return count;
}

static enum verdict token_verdict(const struct model *model, const struct grab *grab, const struct sale *sale,
                                  const char *buyer)
{
    if (!takes_tokens(sale)) return VERDICT_WON;
    if (!grab->token_brought && grab->token_nonce == 0)
        return sale->terms.admission == ADMISSION_TOKEN ? VERDICT_TOKEN_REQUIRED : VERDICT_WON;
    const struct model_token *token = token_unspent(model, sale->id, buyer);
    return token != NULL && token->nonce == grab->token_nonce ? VERDICT_WON : VERDICT_TOKEN_INVALID;
}

static const struct order *model_win(struct model *model, const struct grab *grab, struct sale *sale, const char *buyer)
{
    model_step(model, grab->now_ms);
    assert(model->orders_count < MODEL_ORDERS_MAX);
    model->refs[model->orders_count][0] = '\0';
    struct order *order = &model->orders[model->orders_count++];
    *order = (struct order){
        .no = model->seq,
        .sale_id = sale->id,
        .units = grab->units,
        .amount = sale->terms.price == -1 ? -1 : sale->terms.price * grab->units,
        .state = ORDER_PAID,
        .won_ms = model->floor_ms,
        .token_nonce = takes_tokens(sale) ? grab->token_nonce : 0,
    };
    for (uint32_t i = 0; i < model->tokens_count; i++)
        if (model->tokens[i].nonce == order->token_nonce) model->tokens[i].spent = true;
    snprintf(order->buyer, sizeof order->buyer, "%s", buyer);
    snprintf(order->key, sizeof order->key, "%.*s", (int)grab->key.len, grab->key.len > 0 ? grab->key.data : "");
    sale->counts.available -= grab->units;
    sale->orders_made++;
    if (sale->terms.pay_within_s > 0) {
        order->state = ORDER_HELD;
        order->pay_by_ms = order->won_ms + 1000ull * sale->terms.pay_within_s;
        sale->counts.held += grab->units;
    } else {
        sale->counts.sold += grab->units;
    }
    return order;
}

enum verdict model_grab(struct model *model, const struct grab *grab, const struct order **order)
{
    *order = NULL;
    struct sale *sale = model_sale(model, grab->sale_id);
    if (grab->units == 0) return VERDICT_BAD_INPUT;
    if (sale == NULL) return VERDICT_NO_SUCH_SALE;

    bool made_up = strncmp(grab->buyer.data, "claim:", 6) == 0 || strncmp(grab->buyer.data, "key:", 4) == 0;
    if (sale->terms.admission == ADMISSION_OPEN && made_up) return VERDICT_BAD_INPUT;
    char buyer[BUYER_BYTES_MAX + 1];
    model_buyer(grab, sale, buyer);
    if (buyer[0] == '\0') return VERDICT_BUSY;
    *order = order_of_key(model, sale->id, buyer, grab->key);
    if (*order != NULL) return (*order)->units == grab->units ? VERDICT_REPEATED : VERDICT_KEY_REUSED;

    uint64_t now_ms = model_time(model, grab->now_ms);
    if (is_over(sale, now_ms)) return VERDICT_CLOSED;
    if (now_ms < sale->terms.opens_ms) return VERDICT_NOT_OPEN;
    if (sale->paused) return VERDICT_PAUSED;
    enum verdict token = token_verdict(model, grab, sale, buyer);
    if (token != VERDICT_WON) return token;
    if (grab->units > sale->terms.units_per_grab_max) return VERDICT_OVER_LIMIT;
    *order = newest_counting(model, sale->id, buyer);
    if (model_grabs(model, sale->id, buyer) >= sale->terms.grabs_per_buyer_max) return VERDICT_ALREADY_WON;
    if (model_returns(model, sale->id, buyer) >= 16) return VERDICT_TOO_MANY_RETURNS;
    if (sale->counts.available < grab->units) return VERDICT_SOLD_OUT;
    if (grab->turned_away || model->orders_count >= model->orders_max) return VERDICT_BUSY;
    *order = model_win(model, grab, sale, buyer);
    return VERDICT_WON;
}

enum verdict model_token(struct model *model, const struct token_ask *ask, uint64_t *nonce, const struct order **order)
{
    char buyer[BUYER_BYTES_MAX + 1];
    snprintf(buyer, sizeof buyer, "%.*s", (int)ask->buyer.len, ask->buyer.data);
    struct sale *sale = model_sale(model, ask->sale_id);
    *order = NULL;
    if (buyer[0] == '\0') return VERDICT_BAD_INPUT;
    if (sale == NULL) return VERDICT_NO_SUCH_SALE;
    if (is_over(sale, model_time(model, ask->now_ms))) return VERDICT_CLOSED;
    if (sale->terms.admission != ask->admission) return VERDICT_NO_TOKENS_NEEDED;
    *order = newest_counting(model, sale->id, buyer);
    if (model_grabs(model, sale->id, buyer) >= sale->terms.grabs_per_buyer_max) return VERDICT_ALREADY_WON;
    if (sale->counts.available == 0) return VERDICT_SOLD_OUT;
    const struct model_token *there = token_unspent(model, sale->id, buyer);
    if (there != NULL) {
        *nonce = there->nonce;
        return VERDICT_REPEATED;
    }
    if (sale->terms.tokens_max > 0 && sale->tokens_given >= sale->terms.tokens_max) return VERDICT_NO_TOKENS_LEFT;
    if (model_tokens_unspent(model) >= model->orders_max) return VERDICT_BUSY;

    model_step(model, ask->now_ms);
    assert(model->tokens_count < MODEL_TOKENS_MAX);
    struct model_token *token = &model->tokens[model->tokens_count++];
    *token = (struct model_token){ .nonce = *nonce = model->seq, .sale_id = sale->id };
    snprintf(token->buyer, sizeof token->buyer, "%s", buyer);
    sale->tokens_given++;
    return VERDICT_DONE;
}

static bool amount_is_right(const struct payment *payment, const struct order *order)
{
    if (order->amount == -1) return payment->amount == -1 || payment->amount == 0;
    return payment->amount == order->amount;
}

/* Before anything is taken: DONE where something is to be. */
static enum verdict payment_verdict(const struct payment *payment, const struct order *order, const char *ref)
{
    if (!amount_is_right(payment, order)) return VERDICT_AMOUNT_MISMATCH;
    if (ref[0] != '\0' && slice_is(payment->ref, ref)) return VERDICT_REPEATED;
    if (order->state == ORDER_PAID || order->state == ORDER_REFUND_DUE) return VERDICT_ALREADY_PAID;
    return VERDICT_DONE;
}

static void ref_set(char *out, struct slice ref)
{
    snprintf(out, PAYMENT_REF_BYTES_MAX + 1, "%.*s", (int)ref.len, ref.data);
}

enum verdict model_pay(struct model *model, const struct payment *payment, enum decision_kind *kind,
                       const struct order **out)
{
    if (payment->ref.len == 0) return VERDICT_BAD_INPUT;
    struct order *order = (struct order *)model_order(model, payment->order_no);
    *out = order;
    if (order == NULL) return VERDICT_NO_SUCH_ORDER;
    char *ref = model->refs[order - model->orders];
    enum verdict verdict = payment_verdict(payment, order, ref);
    if (verdict != VERDICT_DONE) return verdict;

    struct sale *sale = model_sale(model, order->sale_id);
    model_step(model, payment->now_ms);
    ref_set(ref, payment->ref);
    if (order->state == ORDER_HELD) {
        *kind = DECISION_PAID;
        sale->counts.held -= order->units;
    } else if (order->state == ORDER_EXPIRED && sale->terms.late_payment == LATE_PAYMENT_RETAKE &&
               !is_over(sale, model->floor_ms) && sale->counts.available >= order->units &&
               model_grabs(model, sale->id, order->buyer) < sale->terms.grabs_per_buyer_max) {
        *kind = DECISION_RETAKEN;
        sale->counts.available -= order->units;
    } else {
        *kind = DECISION_REFUND_DUE;
        order->state = ORDER_REFUND_DUE;
        return VERDICT_DONE;
    }
    order->state = ORDER_PAID;
    sale->counts.sold += order->units;
    return VERDICT_DONE;
}

enum verdict model_pay_past(struct model *model, const struct payment *payment, const struct order **out)
{
    struct order *order = NULL;
    char *ref = NULL;
    for (uint32_t i = 0; i < model->past_count; i++) {
        if (model->past[i].no != payment->order_no) continue;
        order = &model->past[i];
        ref = model->past_refs[i];
    }
    *out = order;
    assert(order != NULL);
    if (payment->ref.len == 0) return VERDICT_BAD_INPUT;
    enum verdict verdict = payment_verdict(payment, order, ref);
    if (verdict != VERDICT_DONE) return verdict;
    model_step(model, payment->now_ms);
    order->state = ORDER_REFUND_DUE;
    ref_set(ref, payment->ref);
    return VERDICT_DONE;
}

static void model_return(struct model *model, struct order *order, enum order_state state)
{
    struct sale *sale = model_sale(model, order->sale_id);
    sale->counts.held -= order->units;
    sale->counts.available += order->units;
    order->state = state;
}

enum verdict model_cancel(struct model *model, const struct cancel *cancel, const struct order **out)
{
    struct order *order = (struct order *)model_order(model, cancel->order_no);
    *out = order;
    if (cancel->reason.len > 200 || (cancel->by != CANCELLER_BUYER && cancel->reason.len == 0)) return VERDICT_BAD_INPUT;
    if (order == NULL) return VERDICT_NO_SUCH_ORDER;
    if (cancel->by == CANCELLER_BUYER && !slice_is(cancel->name, order->buyer)) return VERDICT_NO_SUCH_ORDER;
    if (cancel->by == CANCELLER_SELLER && !slice_is(cancel->name, model_sale(model, order->sale_id)->seller))
        return VERDICT_NO_SUCH_ORDER;
    if (order->state != ORDER_HELD) return VERDICT_NOT_HELD;
    model_step(model, cancel->now_ms);
    model_return(model, order, ORDER_CANCELLED);
    return VERDICT_DONE;
}

bool model_expire(struct model *model, uint64_t no, uint64_t now_ms)
{
    struct order *order = (struct order *)model_order(model, no);
    if (order == NULL || order->state != ORDER_HELD || order->pay_by_ms > model_time(model, now_ms)) return false;
    model_step(model, now_ms);
    model_return(model, order, ORDER_EXPIRED);
    return true;
}

uint64_t model_due_ms(const struct model *model)
{
    uint64_t due_ms = UINT64_MAX;
    for (uint32_t i = 0; i < model->orders_count; i++)
        if (model->orders[i].state == ORDER_HELD && model->orders[i].pay_by_ms < due_ms) due_ms = model->orders[i].pay_by_ms;
    return due_ms;
}

static struct model_name *name_find(struct model *model, const char *seller, const char *name)
{
    for (uint32_t i = 0; i < model->names_count; i++)
        if (strcmp(model->names[i].seller, seller) == 0 && strcmp(model->names[i].name, name) == 0) return &model->names[i];
    return NULL;
}

static void name_set(struct model_name *entry, const char *seller, const char *name, uint64_t sale_id)
{
    snprintf(entry->seller, sizeof entry->seller, "%s", seller);
    snprintf(entry->name, sizeof entry->name, "%s", name);
    entry->sale_id = sale_id;
}

static bool id_is_free(struct model *model, uint64_t id)
{
    for (uint32_t i = 0; i < model->sales_count; i++)
        if (model->sales[i].id % SALES_OPEN_MAX == id % SALES_OPEN_MAX) return false;
    return true;
}

static bool terms_are_possible(const struct sale_terms *terms)
{
    return terms->units_per_grab_max > 0 && terms->grabs_per_buyer_max > 0 && terms->closes_ms <= TIME_MS_MAX &&
           (terms->closes_ms == 0 || terms->closes_ms > terms->opens_ms) &&
           (terms->admission != ADMISSION_LINE || terms->line_name[0] != '\0');
}

enum verdict model_create(struct model *model, const char *seller, const struct sale_terms *terms, uint32_t stock,
                          uint64_t now_ms)
{
    if (!terms_are_possible(terms)) return VERDICT_BAD_INPUT;
    if (name_find(model, seller, terms->name) != NULL) return VERDICT_NAME_TAKEN;
    model_step(model, now_ms);
    do model->sale_id_last++;
    while (!id_is_free(model, model->sale_id_last));

    assert(model->sales_count < MODEL_SALES_MAX && model->names_count < MODEL_NAMES_MAX);
    struct sale *sale = &model->sales[model->sales_count++];
    *sale = (struct sale){ .id = model->sale_id_last, .terms = *terms };
    snprintf(sale->seller, sizeof sale->seller, "%s", seller);
    sale->counts.offered = sale->counts.available = stock;
    name_set(&model->names[model->names_count++], seller, terms->name, sale->id);
    return VERDICT_DONE;
}

/* The sale, where the asker may know of it. */
static struct sale *own_sale(struct model *model, const char *asker, uint64_t id)
{
    struct sale *sale = model_sale(model, id);
    return sale != NULL && strcmp(sale->seller, asker) == 0 ? sale : NULL;
}

enum verdict model_change(struct model *model, const char *asker, uint64_t id, const struct sale_terms *terms,
                          uint64_t now_ms)
{
    struct sale *sale = own_sale(model, asker, id);
    if (sale == NULL) return VERDICT_NO_SUCH_SALE;
    if (!terms_are_possible(terms)) return VERDICT_BAD_INPUT;
    if (is_over(sale, model_time(model, now_ms))) return VERDICT_CLOSED;
    if (model_time(model, now_ms) >= sale->terms.opens_ms) {
        const struct sale_terms *was = &sale->terms;
        if (terms->closes_ms != 0 && (was->closes_ms == 0 || terms->closes_ms < was->closes_ms)) return VERDICT_SALE_OPEN;
        if (terms->price != was->price || strcmp(terms->currency, was->currency) != 0) return VERDICT_SALE_OPEN;
        if (terms->units_per_grab_max != was->units_per_grab_max) return VERDICT_SALE_OPEN;
        if (terms->grabs_per_buyer_max != was->grabs_per_buyer_max) return VERDICT_SALE_OPEN;
        if (terms->opens_ms != was->opens_ms || terms->admission != was->admission) return VERDICT_SALE_OPEN;
        if (terms->tokens_max != 0 && (was->tokens_max == 0 || terms->tokens_max < was->tokens_max))
            return VERDICT_SALE_OPEN;
        if (terms->admit_max != was->admit_max) return VERDICT_SALE_OPEN;
        if (terms->late_payment != was->late_payment || terms->event_id != was->event_id) return VERDICT_SALE_OPEN;
    }
    struct model_name *other = name_find(model, sale->seller, terms->name);
    if (other != NULL && other->sale_id != id) return VERDICT_NAME_TAKEN;

    model_step(model, now_ms);
    struct model_name *own = name_find(model, sale->seller, sale->terms.name);
    assert(own != NULL);
    name_set(own, sale->seller, terms->name, id);
    sale->terms = *terms;
    return VERDICT_DONE;
}

enum verdict model_stock(struct model *model, const char *asker, uint64_t id, int64_t add, uint64_t now_ms)
{
    struct sale *sale = own_sale(model, asker, id);
    if (sale == NULL) return VERDICT_NO_SUCH_SALE;
    if (is_over(sale, model_time(model, now_ms))) return VERDICT_CLOSED;
    int64_t available = sale->counts.available + add, offered = sale->counts.offered + add;
    if (available < 0 || offered > 1000000000) return VERDICT_NOT_AVAILABLE;
    model_step(model, now_ms);
    sale->counts.available = (uint32_t)available;
    sale->counts.offered = (uint32_t)offered;
    return VERDICT_DONE;
}

enum verdict model_switch(struct model *model, const char *asker, uint64_t id, enum decision_kind kind, uint64_t now_ms)
{
    struct sale *sale = own_sale(model, asker, id);
    if (sale == NULL) return VERDICT_NO_SUCH_SALE;
    if (is_over(sale, model_time(model, now_ms))) return VERDICT_CLOSED;
    if (kind == DECISION_SALE_PAUSED && sale->paused) return VERDICT_PAUSED;
    if (kind == DECISION_SALE_RESUMED && !sale->paused) return VERDICT_NOT_PAUSED;
    model_step(model, now_ms);
    if (kind == DECISION_SALE_CLOSED)
        sale->closed = true;
    else
        sale->paused = kind == DECISION_SALE_PAUSED;
    return VERDICT_DONE;
}

bool model_forget(struct model *model, uint64_t id, uint64_t now_ms)
{
    struct sale *sale = model_sale(model, id);
    if (sale == NULL) return true;
    if (!is_over(sale, now_ms) || sale->counts.held > 0) return false;
    model->floor_ms = model_time(model, now_ms);

    uint32_t kept = 0;
    for (uint32_t i = 0; i < model->orders_count; i++) {
        bool stays = model->orders[i].sale_id != id;
        if (!stays && model->past_count == MODEL_PAST_MAX) continue;
        uint32_t to = stays ? kept++ : model->past_count++;
        (stays ? model->orders : model->past)[to] = model->orders[i];
        memmove((stays ? model->refs : model->past_refs)[to], model->refs[i], sizeof model->refs[i]);
    }
    model->orders_count = kept;
    kept = 0;
    for (uint32_t i = 0; i < model->tokens_count; i++)
        if (model->tokens[i].sale_id != id) model->tokens[kept++] = model->tokens[i];
    model->tokens_count = kept;
    *sale = model->sales[--model->sales_count];
    return true;
}
