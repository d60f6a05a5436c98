/* The engine against the model: 10^6 random operations, compared after each; and every so often two more engines are built,
 * one from all decisions, one from what a ledger would hold and the decisions after it, and both must be the same (P5).
 *
 * tidy: long because everything that can happen to a sale happens here, in one world. */
#include "model.h"
#include "stage.h"

#include "base/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 50
#define OPERATIONS_PER_ROUND 20000
#define ORDERS_MAX 400

struct record {
    struct decision decision;
    struct sale_terms *terms;
    char buyer[BUYER_BYTES_MAX + 1], key[IDEMPOTENCY_KEY_BYTES_MAX + 1], seller[USERNAME_BYTES_MAX + 1];
    char ref[PAYMENT_REF_BYTES_MAX + 1];
};

/* What a ledger holds at a point. */
struct snapshot {
    uint64_t seq, digest, sale_id_last, at_ms;
    struct sale sales[MODEL_SALES_MAX];
    struct order orders[ORDERS_MAX];
    char refs[ORDERS_MAX][PAYMENT_REF_BYTES_MAX + 1];
    struct model_token tokens[ORDERS_MAX];
    struct model_name *names;
    uint32_t sales_count, orders_count, tokens_count, names_count;
    uint32_t records_before;
};

struct world {
    uint64_t dice;
    uint64_t now_ms;
    struct engine *engine;
    struct model *model;
    struct record *records;
    uint32_t records_count;
    struct snapshot *start, *middle;
    uint32_t kinds[DECISION_REFUND_DUE + 1]; /* how many decisions of each */
    uint32_t verdicts[VERDICT_COUNT];        /* how many grabs of each */
};

static const char *const sellers[] = { "sam", "sue", "a seller with a long name of 35 bytes" };
static const char *const buyers[] = {
    "ann", "bob",     "cat",    "a buyer of sixteen+", "a buyer whose name is longer than 32 bytes", "", "", "dan",
    "eve", "claim:3", "key:one"
};
static const char *const keys[] = { "", "", "", "one", "two", "a key that is longer than sixteen", "three" };
#define PICK(world, list) ((list)[dice_below(&(world)->dice, sizeof(list) / sizeof((list)[0]))])

static void record(struct world *world, const struct decision *decision)
{
    const char *objection = engine_objection(world->engine, decision);
    if (objection != NULL) fail_msg("the engine objects to its own decision: %s", objection);
    engine_apply(world->engine, decision);
    world->kinds[decision->kind]++;

    assert_true(world->records_count < OPERATIONS_PER_ROUND);
    struct record *copy = &world->records[world->records_count++];
    *copy = (struct record){ .decision = *decision };
    const struct sale_terms *terms = NULL;
    if (decision->kind == DECISION_SALE_CREATED) terms = decision->created.terms;
    if (decision->kind == DECISION_SALE_CHANGED) terms = decision->changed;
    if (terms != NULL) {
        copy->terms = malloc(sizeof *terms);
        assert_non_null(copy->terms);
        *copy->terms = *terms;
    }
    if (decision->kind == DECISION_SALE_CREATED) {
        memcpy(copy->seller, decision->created.seller.data, decision->created.seller.len);
        copy->decision.created.seller = slice_of(copy->seller);
        copy->decision.created.terms = copy->terms;
    } else if (decision->kind == DECISION_SALE_CHANGED) {
        copy->decision.changed = copy->terms;
    } else if (decision->kind == DECISION_WON) {
        memcpy(copy->buyer, decision->won.buyer.data, decision->won.buyer.len);
        memcpy(copy->key, decision->won.key.data, decision->won.key.len);
        copy->decision.won.buyer = slice_of(copy->buyer);
        copy->decision.won.key = slice_of(copy->key);
    } else if (decision->kind == DECISION_TOKEN_GIVEN) {
        memcpy(copy->buyer, decision->token_given.buyer.data, decision->token_given.buyer.len);
        copy->decision.token_given.buyer = slice_of(copy->buyer);
    } else if (decision->kind >= DECISION_PAID && decision->ended.ref.len > 0) {
        memcpy(copy->ref, decision->ended.ref.data, decision->ended.ref.len);
        copy->decision.ended.ref = slice_of(copy->ref);
    }
}

static void compare_sale(struct world *world, uint64_t id)
{
    const struct sale *want = model_sale(world->model, id);
    struct sale got;
    assert_int_equal(engine_sale(world->engine, id, &got), want != NULL);
    if (want == NULL) return;
    assert_int_equal(got.counts.available + got.counts.held + got.counts.sold, got.counts.offered); /* P1 */
    assert_same_sale(&got, want);
}

/* What is known of a sale, in memory or long ago: some id near those that are there. */
static uint64_t any_sale(struct world *world)
{
    const struct model *model = world->model;
    if (model->sales_count == 0 || dice_below(&world->dice, 50) == 0)
        return model->sale_id_last + dice_below(&world->dice, 3);
    return model->sales[dice_below(&world->dice, model->sales_count)].id;
}

static void any_terms(struct world *world, struct sale_terms *terms)
{
    uint64_t *dice = &world->dice;
    uint32_t names = dice_below(dice, 2) ? 30 : 100000;
    snprintf(terms->name, sizeof terms->name, "sale %u", dice_below(dice, names));
    terms->price = (int64_t)dice_below(dice, 4) - 1;
    terms->units_per_grab_max = dice_below(dice, 40) ? 1 + dice_below(dice, 3) : 0;
    terms->grabs_per_buyer_max = dice_below(dice, 40) ? 1 + dice_below(dice, 3) : 0;
    terms->opens_ms = world->now_ms + dice_below(dice, 300);
    if (dice_below(dice, 2)) terms->opens_ms = world->now_ms - dice_below(dice, 300);
    if (dice_below(dice, 2)) terms->closes_ms = terms->opens_ms + dice_below(dice, 2000);
    terms->pay_within_s = dice_below(dice, 3) ? 1 + dice_below(dice, 4) * dice_below(dice, 20) : 0;
    if (dice_below(dice, 100) == 0) terms->pay_within_s = PAY_WITHIN_S_MAX;
    terms->late_payment = (enum late_payment)dice_below(dice, 2);
    terms->event_id = dice_below(dice, 3);
    static const enum admission admissions[] = { ADMISSION_OPEN,  ADMISSION_OPEN,  ADMISSION_LOGIN, ADMISSION_LOGIN,
                                                 ADMISSION_LOGIN, ADMISSION_TOKEN, ADMISSION_TOKEN, ADMISSION_LINE };
    terms->admission = admissions[dice_below(dice, 8)];
    terms->tokens_max = dice_below(dice, 2) ? 0 : 1 + dice_below(dice, 10);
    if (dice_below(dice, 10)) snprintf(terms->line_name, sizeof terms->line_name, "hall-%u", dice_below(dice, 3));
}

static void do_create(struct world *world)
{
    if (world->model->sales_count == MODEL_SALES_MAX) return;
    struct sale_terms terms = { 0 };
    any_terms(world, &terms);
    const char *seller = PICK(world, sellers);
    uint32_t stock = dice_below(&world->dice, 30);
    struct decision decision;
    enum verdict got = engine_decide_create(
        world->engine, &(struct asker){ .name = slice_of(seller), .now_ms = world->now_ms }, &terms, stock, &decision);
    enum verdict want = model_create(world->model, seller, &terms, stock, world->now_ms);
    assert_same_verdict(got, want, "create", world->records_count);
    if (got != VERDICT_DONE) return;
    record(world, &decision);
    assert_int_equal(decision.sale_id, world->model->sale_id_last);
    compare_sale(world, decision.sale_id);
    assert_int_equal(engine_sale_by_name(world->engine, slice_of(seller), slice_of(terms.name)), decision.sale_id);
}

static void do_change(struct world *world)
{
    uint64_t id = any_sale(world);
    const struct sale *sale = model_sale(world->model, id);
    struct sale_terms terms = { 0 }, other = { 0 };
    any_terms(world, &other);
    if (sale != NULL) terms = sale->terms;
    switch (dice_below(&world->dice, 7)) {
    case 0:
        memcpy(terms.name, other.name, sizeof terms.name);
        break;
    case 1:
        terms.closes_ms = terms.closes_ms + dice_below(&world->dice, 50) - 10;
        break;
    case 2:
        terms.closes_ms = 0;
        break;
    case 3:
        terms.pay_within_s = other.pay_within_s;
        break;
    case 4:
        terms.grabs_per_buyer_max = other.grabs_per_buyer_max;
        break;
    case 5:
        terms.late_payment = other.late_payment;
        terms.event_id = other.event_id;
        break;
    default:
        terms = other;
    }
    const char *seller = sale == NULL || dice_below(&world->dice, 20) == 0 ? "sam" : sale->seller;
    const struct asker asker = { .name = slice_of(seller) };
    struct decision decision;
    enum verdict got = engine_decide_change(world->engine, ASKER_AT(&asker, world->now_ms), id, &terms, &decision);
    enum verdict want = model_change(world->model, seller, id, &terms, world->now_ms);
    assert_same_verdict(got, want, "change", world->records_count);
    if (got == VERDICT_DONE) record(world, &decision);
    compare_sale(world, id);
}

static void do_stock(struct world *world)
{
    uint64_t id = any_sale(world);
    const struct sale *sale = model_sale(world->model, id);
    int64_t add = (int64_t)dice_below(&world->dice, 12) - 6;
    if (dice_below(&world->dice, 50) == 0) add = INT64_C(1000000000);
    const char *seller = sale == NULL ? "sue" : sale->seller;
    const struct asker asker = { .name = slice_of(seller) };
    struct decision decision;
    enum verdict got = engine_decide_stock(world->engine, ASKER_AT(&asker, world->now_ms), id, add, &decision);
    assert_same_verdict(got, model_stock(world->model, seller, id, add, world->now_ms), "stock", world->records_count);
    if (got == VERDICT_DONE) record(world, &decision);
    compare_sale(world, id);
}

static void do_switch(struct world *world)
{
    static const enum decision_kind kinds[] = { DECISION_SALE_PAUSED, DECISION_SALE_RESUMED, DECISION_SALE_RESUMED,
                                                DECISION_SALE_CLOSED };
    enum decision_kind kind = PICK(world, kinds);
    uint64_t id = any_sale(world);
    const struct sale *sale = model_sale(world->model, id);
    const char *seller = sale == NULL ? "sue" : sale->seller;
    const struct asker asker = { .name = slice_of(seller) };
    struct decision decision;
    enum verdict got = engine_decide_switch(world->engine, ASKER_AT(&asker, world->now_ms), id, kind, &decision);
    assert_same_verdict(got, model_switch(world->model, seller, id, kind, world->now_ms), "switch", world->records_count);
    if (got == VERDICT_DONE) record(world, &decision);
    compare_sale(world, id);
}

/* A token that the buyer was once given in the sale, spent or not: all that the guard lets through. */
static uint64_t any_nonce(struct world *world, const struct grab *grab)
{
    const struct model *model = world->model;
    if (dice_below(&world->dice, 5) == 0) return 0;
    uint32_t first = model->tokens_count == 0 ? 0 : dice_below(&world->dice, model->tokens_count);
    for (uint32_t i = 0; i < model->tokens_count; i++) {
        const struct model_token *token = &model->tokens[(first + i) % model->tokens_count];
        if (token->sale_id == grab->sale_id && slice_is(grab->buyer, token->buyer)) return token->nonce;
    }
    return 0;
}

/* Already won: by an order of theirs that counts, whichever. */
static void assert_counting(struct world *world, const struct order *got, const struct order *newest)
{
    const struct order *there = model_order(world->model, got->no);
    assert_non_null(there);
    assert_same_order(got, there);
    assert_int_equal(got->sale_id, newest->sale_id);
    assert_string_equal(got->buyer, newest->buyer);
    assert_true(got->state == ORDER_HELD || got->state == ORDER_PAID);
}

static void do_token(struct world *world)
{
    struct token_ask ask = {
        .sale_id = any_sale(world),
        .buyer = slice_of(PICK(world, buyers)),
        .admission = dice_below(&world->dice, 5) ? ADMISSION_TOKEN : ADMISSION_LINE,
        .now_ms = world->now_ms,
    };
    struct decision decision;
    struct token_answer answer;
    const struct order *want_order;
    uint64_t nonce = 0;
    enum verdict early = engine_refuse_token_early(world->engine, &ask);
    enum verdict got = engine_decide_token(world->engine, &ask, &decision, &answer);
    enum verdict want = model_token(world->model, &ask, &nonce, &want_order);
    assert_same_verdict(got, want, "token", world->records_count);
    assert_int_equal(answer.verdict, got);
    if (early != VERDICT_DONE && want != VERDICT_CLOSED) assert_int_equal(want, early);
    if (got == VERDICT_ALREADY_WON) assert_counting(world, &answer.order, want_order);
    if (got == VERDICT_DONE || got == VERDICT_REPEATED) assert_int_equal(answer.nonce, nonce);
    if (got == VERDICT_DONE) record(world, &decision);
    compare_sale(world, ask.sale_id);
}

static struct grab any_grab(struct world *world)
{
    struct grab grab = {
        .sale_id = any_sale(world),
        .buyer = slice_of(PICK(world, buyers)),
        .key = slice_of(PICK(world, keys)),
        .units = dice_below(&world->dice, 30) ? 1 + dice_below(&world->dice, 2) : dice_below(&world->dice, 6),
        .now_ms = world->now_ms - (dice_below(&world->dice, 10) ? 0 : dice_below(&world->dice, 20)),
    };
    grab.token_nonce = any_nonce(world, &grab);
    grab.token_brought = grab.token_nonce != 0 || dice_below(&world->dice, 4) == 0;
    grab.turned_away = dice_below(&world->dice, 20) == 0;
    return grab;
}

static enum verdict do_grab(struct world *world, struct grab grab)
{
    enum verdict early = engine_refuse_early(world->engine, &grab);
    const struct sale *sale = model_sale(world->model, grab.sale_id);
    uint32_t available_before = sale == NULL ? 0 : sale->counts.available;

    struct decision decision;
    struct grab_answer answer;
    const struct order *want_order;
    enum verdict got = engine_decide_grab(world->engine, &grab, &decision, &answer);
    enum verdict want = model_grab(world->model, &grab, &want_order);
    assert_same_verdict(got, want, "grab", world->records_count);
    assert_int_equal(answer.verdict, got);
    if (early == VERDICT_SOLD_OUT && !grab.turned_away) assert_int_equal(available_before, 0);
    /* A thread that read the clock too early may be told of the sale as it was then. */
    if (early != VERDICT_DONE && want != VERDICT_CLOSED) assert_int_equal(want, early);

    if (got == VERDICT_WON || got == VERDICT_REPEATED) assert_same_order(&answer.order, want_order);
    if (got == VERDICT_ALREADY_WON) assert_counting(world, &answer.order, want_order);
    if (got == VERDICT_WON) {
        record(world, &decision);
        struct order order;
        assert_true(engine_order(world->engine, decision.seq, &order));
        assert_same_order(&order, want_order);
        assert_true(model_grabs(world->model, sale->id, order.buyer) <= sale->terms.grabs_per_buyer_max); /* P2 */
    }
    if (sale != NULL && got != VERDICT_BAD_INPUT) assert_int_equal(answer.available, sale->counts.available);
    compare_sale(world, grab.sale_id);
    world->verdicts[got]++;
    return got;
}

static uint64_t any_order(struct world *world)
{
    const struct model *model = world->model;
    if (model->orders_count == 0 || dice_below(&world->dice, 50) == 0) return model->seq - dice_below(&world->dice, 10);
    return model->orders[dice_below(&world->dice, model->orders_count)].no;
}

static struct payment any_payment(struct world *world, const struct order *order)
{
    static const char *const refs[] = { "p1", "p2", "a payment of a provider with names of more than 32" };
    struct payment payment = { .order_no = order == NULL ? any_order(world) : order->no, .now_ms = world->now_ms };
    if (order == NULL) order = model_order(world->model, payment.order_no);
    payment.ref = slice_of(dice_below(&world->dice, 50) ? PICK(world, refs) : "");
    payment.amount = order != NULL && dice_below(&world->dice, 8) ? order->amount : (int64_t)dice_below(&world->dice, 4) - 1;
    return payment;
}

static void do_pay(struct world *world)
{
    struct payment payment = any_payment(world, NULL);
    struct decision decision;
    struct order order;
    const struct order *want_order = NULL;
    enum decision_kind kind = 0;
    enum verdict got = engine_decide_payment(world->engine, &payment, &decision, &order);
    enum verdict want = model_pay(world->model, &payment, &kind, &want_order);
    assert_same_verdict(got, want, "pay", world->records_count);
    if (got == VERDICT_BAD_INPUT || got == VERDICT_NO_SUCH_ORDER) return;
    assert_same_order(&order, want_order);
    if (got == VERDICT_DONE) {
        assert_int_equal(decision.kind, kind);
        record(world, &decision);
        assert_true(engine_order(world->engine, order.no, &order));
        assert_same_order(&order, want_order);
    }
    compare_sale(world, order.sale_id);
}

/* The ledger is always a little behind: now and then it does not know yet of a refund that was decided. */
static void do_pay_past(struct world *world)
{
    struct model *model = world->model;
    if (model->past_count == 0) return;
    uint32_t which = dice_below(&world->dice, model->past_count);
    struct order order = model->past[which];
    struct payment payment = any_payment(world, &order);
    char ref[PAYMENT_REF_BYTES_MAX + 1];
    memcpy(ref, model->past_refs[which], sizeof ref);
    if (order.state == ORDER_REFUND_DUE && dice_below(&world->dice, 2)) {
        order.state = ORDER_EXPIRED;
        ref[0] = '\0';
    }
    struct decision decision;
    const struct order *want_order;
    enum verdict got = engine_decide_past_payment(world->engine, &payment, slice_of(ref), &decision, &order);
    enum verdict want = model_pay_past(model, &payment, &want_order);
    assert_same_verdict(got, want, "pay past", world->records_count);
    if (got == VERDICT_REPEATED || got == VERDICT_ALREADY_PAID || got == VERDICT_DONE) assert_same_order(&order, want_order);
    if (got != VERDICT_DONE) return;
    assert_int_equal(decision.kind, DECISION_REFUND_DUE);
    record(world, &decision);
}

static struct cancel any_cancel(struct world *world)
{
    static const char *const reasons[] = { "", "out of stock", "not what I wanted" };
    static const enum canceller cancellers[] = { CANCELLER_BUYER, CANCELLER_BUYER, CANCELLER_SELLER, CANCELLER_ADMIN };
    struct cancel cancel = { .order_no = any_order(world),
                             .by = PICK(world, cancellers),
                             .reason = slice_of(PICK(world, reasons)) };
    cancel.now_ms = world->now_ms;
    const struct order *there = model_order(world->model, cancel.order_no);
    cancel.name = slice_of(cancel.by == CANCELLER_BUYER ? PICK(world, buyers) : PICK(world, sellers));
    if (there != NULL && cancel.by == CANCELLER_BUYER && dice_below(&world->dice, 5)) cancel.name = slice_of(there->buyer);
    return cancel;
}

static void do_cancel(struct world *world, struct cancel cancel)
{
    struct decision decision;
    struct order order;
    const struct order *there;
    enum verdict got = engine_decide_cancel(world->engine, &cancel, &decision, &order);
    enum verdict want = model_cancel(world->model, &cancel, &there);
    assert_same_verdict(got, want, "cancel", world->records_count);
    if (got == VERDICT_NOT_HELD || got == VERDICT_DONE) assert_same_order(&order, there);
    if (got == VERDICT_DONE) record(world, &decision);
    if (there != NULL) compare_sale(world, there->sale_id);
}

/* One buyer takes and gives back, a few times or until they may no more. */
static void do_return(struct world *world)
{
    struct grab grab = { .sale_id = any_sale(world), .buyer = SLICE("eve"), .units = 1, .now_ms = world->now_ms };
    for (uint32_t times = dice_below(&world->dice, 20); times > 0; times--) {
        if (do_grab(world, grab) != VERDICT_WON) return;
        struct cancel cancel = { .order_no = world->model->seq, .by = CANCELLER_BUYER, .name = grab.buyer };
        cancel.now_ms = world->now_ms;
        do_cancel(world, cancel);
    }
}

/* Nothing expires before its time, and nothing that is not held; the first first, but for the length of a tick. A clock that
 * has leapt beyond what ticks can tell apart leaves no order among those long due. */
static void do_expire(struct world *world, uint32_t count)
{
    enum { TICK_MS = 16 };
    struct decision decision;
    uint32_t hints_left = UINT32_MAX;
    while (count-- > 0 && engine_decide_expiry(world->engine, world->now_ms, &hints_left, &decision)) {
        assert_int_equal(decision.kind, DECISION_EXPIRED);
        uint64_t due_ms = model_due_ms(world->model);
        const struct order *order = model_order(world->model, decision.ended.order_no);
        assert_non_null(order);
        if (world->now_ms - due_ms < 1000000) assert_true(order->pay_by_ms < due_ms + TICK_MS);
        assert_true(model_expire(world->model, order->no, world->now_ms));
        record(world, &decision);
        compare_sale(world, decision.sale_id);
    }
    if (count == UINT32_MAX) return;
    uint64_t at_ms = engine_time(world->engine) > world->now_ms ? engine_time(world->engine) : world->now_ms;
    assert_true(model_due_ms(world->model) > at_ms - TICK_MS);
}

static void do_forget(struct world *world)
{
    uint64_t id = any_sale(world);
    bool may = model_forget(world->model, id, world->now_ms);
    bool gone = engine_forget(world->engine, id, 1 + dice_below(&world->dice, 5), world->now_ms);
    if (!may) assert_false(gone);
    for (int calls = 0; may && !gone; calls++) {
        assert_true(calls < ORDERS_MAX);
        gone = engine_forget(world->engine, id, 1 + dice_below(&world->dice, 5), world->now_ms);
    }
    compare_sale(world, id);
}

struct comparison {
    struct world *world;
    uint32_t sales, orders;
};

static bool visit_sale(void *arg, const struct sale *sale)
{
    struct comparison *comparison = arg;
    const struct sale *want = model_sale(comparison->world->model, sale->id);
    assert_non_null(want);
    assert_same_sale(sale, want);
    comparison->sales++;
    return true;
}

static bool visit_order(void *arg, const struct order *order)
{
    struct comparison *comparison = arg;
    const struct order *want = model_order(comparison->world->model, order->no);
    assert_non_null(want);
    assert_same_order(order, want);
    comparison->orders++;
    return true;
}

static void compare_all(struct world *world)
{
    struct comparison comparison = { .world = world };
    engine_each_sale(world->engine, visit_sale, &comparison);
    engine_each_order(world->engine, visit_order, &comparison);
    assert_int_equal(comparison.sales, world->model->sales_count);
    assert_int_equal(comparison.orders, world->model->orders_count);
    assert_int_equal(engine_seq(world->engine), world->model->seq);
    struct engine_usage usage;
    engine_usage(world->engine, &usage);
    assert_int_equal(usage.sales, world->model->sales_count);
    assert_int_equal(usage.orders, world->model->orders_count);
    assert_int_equal(usage.tokens, model_tokens_unspent(world->model));
}

static bool save_sale(void *arg, const struct sale *sale)
{
    struct snapshot *snapshot = arg;
    snapshot->sales[snapshot->sales_count++] = *sale;
    return true;
}

static bool save_order(void *arg, const struct order *order)
{
    struct snapshot *snapshot = arg;
    snapshot->orders[snapshot->orders_count++] = *order;
    return true;
}

static struct snapshot *snapshot_take(const struct world *world)
{
    struct snapshot *snapshot = calloc(1, sizeof *snapshot);
    assert_non_null(snapshot);
    snapshot->seq = engine_seq(world->engine);
    snapshot->digest = engine_digest(world->engine);
    snapshot->at_ms = engine_time(world->engine);
    snapshot->sale_id_last = world->model->sale_id_last;
    snapshot->records_before = world->records_count;
    engine_each_sale(world->engine, save_sale, snapshot);
    engine_each_order(world->engine, save_order, snapshot);
    for (uint32_t i = 0; i < world->model->tokens_count; i++) {
        const struct model_token *token = &world->model->tokens[i];
        if (!token->spent) snapshot->tokens[snapshot->tokens_count++] = *token;
    }
    for (uint32_t i = 0; i < snapshot->orders_count; i++)
        memcpy(snapshot->refs[i], model_ref(world->model, snapshot->orders[i].no), sizeof snapshot->refs[i]);
    snapshot->names_count = world->model->names_count;
    snapshot->names = calloc(snapshot->names_count + 1, sizeof *snapshot->names);
    assert_non_null(snapshot->names);
    memcpy(snapshot->names, world->model->names, snapshot->names_count * sizeof *snapshot->names);
    return snapshot;
}

static void snapshot_free(struct snapshot *snapshot)
{
    free(snapshot->names);
    free(snapshot);
}

static struct engine *rebuild(struct world *world, const struct snapshot *from)
{
    struct engine *engine = stage_open(ORDERS_MAX);
    for (uint32_t i = 0; i < from->sales_count; i++) assert_int_equal(engine_load_sale(engine, &from->sales[i]), FAULT_NONE);
    for (uint32_t i = 0; i < from->names_count; i++) {
        const struct model_name *name = &from->names[i];
        assert_int_equal(engine_load_name(engine, slice_of(name->seller), slice_of(name->name), name->sale_id), FAULT_NONE);
    }
    /* In another order than they were won in: a ledger may give them as it likes. */
    uint32_t first = from->orders_count == 0 ? 0 : dice_below(&world->dice, from->orders_count);
    for (uint32_t i = 0; i < from->orders_count; i++) {
        uint32_t turn = (first + i) % from->orders_count;
        assert_int_equal(engine_load_order(engine, &from->orders[turn], slice_of(from->refs[turn])), FAULT_NONE);
    }
    for (uint32_t i = 0; i < from->tokens_count; i++) {
        const struct model_token *token = &from->tokens[i];
        assert_int_equal(engine_load_token(engine, token->sale_id, slice_of(token->buyer), token->nonce), FAULT_NONE);
    }
    engine_load_point(engine, from->seq, from->digest, from->sale_id_last, from->at_ms);

    for (uint32_t i = from->records_before; i < world->records_count; i++) {
        const char *objection = engine_objection(engine, &world->records[i].decision);
        if (objection != NULL) fail_msg("replay objects to record %u: %s", i, objection);
        engine_apply(engine, &world->records[i].decision);
    }
    return engine;
}

/* Every hold comes to its end, once: the deadlines were rebuilt, and no more than those. */
static void expire_rebuilt(struct engine *engine, const struct model *model, uint64_t now_ms)
{
    uint32_t held = 0;
    struct decision decision;
    uint64_t end_ms = now_ms + PAY_WITHIN_S_MAX * UINT64_C(1000);
    uint32_t hints_left = UINT32_MAX;
    for (; engine_decide_expiry(engine, end_ms, &hints_left, &decision); held++) {
        assert_null(engine_objection(engine, &decision));
        engine_apply(engine, &decision);
    }
    assert_int_equal(held, model_held(model));
}

/* The rebuilt one may have room where the other has not; but who has given back too much is known to both. */
static void compare_returns(const struct world *world, const struct engine *rebuilt, uint64_t sale_id)
{
    for (size_t i = 0; i < sizeof buyers / sizeof buyers[0]; i++) {
        struct grab grab = { .sale_id = sale_id, .buyer = slice_of(buyers[i]), .units = 1, .now_ms = world->now_ms };
        struct decision decision;
        struct grab_answer answer;
        bool here = engine_decide_grab(world->engine, &grab, &decision, &answer) == VERDICT_TOO_MANY_RETURNS;
        bool there = engine_decide_grab(rebuilt, &grab, &decision, &answer) == VERDICT_TOO_MANY_RETURNS;
        assert_int_equal(here, there);
    }
}

/* Letting go is no decision, so the rebuilt one may know more sales; of those still in memory it knows all. */
static void compare_rebuilt(struct world *world, const struct snapshot *from)
{
    struct engine *engine = rebuild(world, from);
    assert_int_equal(engine_seq(engine), engine_seq(world->engine));
    assert_int_equal(engine_time(engine), engine_time(world->engine));
    assert_int_equal(engine_digest(engine), engine_digest(world->engine));
    const struct model *model = world->model;
    for (uint32_t i = 0; i < model->sales_count; i++) {
        struct sale sale;
        if (!engine_sale(engine, model->sales[i].id, &sale)) {
            assert_true(sale_is_closed(&model->sales[i], engine_time(engine)));
            continue;
        }
        assert_same_sale(&sale, &model->sales[i]);
        compare_returns(world, engine, sale.id);
    }
    for (uint32_t i = 0; i < model->orders_count; i++) {
        struct order order;
        struct sale sale;
        if (!engine_sale(engine, model->orders[i].sale_id, &sale)) continue;
        assert_true(engine_order(engine, model->orders[i].no, &order));
        assert_same_order(&order, &model->orders[i]);
    }
    for (uint32_t i = 0; i < model->past_count; i++) {
        struct order order;
        if (engine_order(engine, model->past[i].no, &order)) assert_same_order(&order, &model->past[i]);
    }
    for (uint32_t i = 0; i < model->tokens_count; i++) {
        const struct model_token *token = &model->tokens[i];
        struct sale sale;
        if (!engine_sale(engine, token->sale_id, &sale)) continue;
        uint64_t unspent = engine_token(engine, token->sale_id, slice_of(token->buyer));
        assert_int_equal(unspent == token->nonce, !token->spent);
    }
    for (uint32_t i = 0; i < model->names_count; i++)
        assert_int_equal(engine_sale_by_name(engine, slice_of(model->names[i].seller), slice_of(model->names[i].name)),
                         model->names[i].sale_id);
    expire_rebuilt(engine, model, world->now_ms);
    engine_close(engine);
}

static void operate(struct world *world)
{
    world->now_ms += dice_below(&world->dice, 3);
    if (dice_below(&world->dice, 5000) == 0) world->now_ms += dice_below(&world->dice, 800) * UINT64_C(86400000);
    uint32_t what = dice_below(&world->dice, 100);
    if (what < 3)
        do_create(world);
    else if (what < 7)
        do_change(world);
    else if (what < 11)
        do_stock(world);
    else if (what < 14)
        do_switch(world);
    else if (what < 18)
        do_forget(world);
    else if (what < 26)
        do_token(world);
    else if (what < 36)
        do_pay(world);
    else if (what < 39)
        do_pay_past(world);
    else if (what < 45)
        do_cancel(world, any_cancel(world));
    else if (what < 46)
        do_return(world);
    else if (what < 50)
        do_expire(world, dice_below(&world->dice, 4) ? 1 + dice_below(&world->dice, 3) : 1000);
    else
        do_grab(world, any_grab(world));
}

static void play_round(struct world *world)
{
    world->engine = stage_open(ORDERS_MAX);
    *world->model = (struct model){ .orders_max = ORDERS_MAX };
    world->records_count = 0;
    world->now_ms = 1000000 + dice_below(&world->dice, 1000000);

    /* Somewhere in the life of a server, near the end of a lap of the slots. */
    world->model->seq = dice_roll(&world->dice) % (UINT64_C(1) << 40);
    world->model->sale_id_last = SALES_OPEN_MAX * (uint64_t)dice_below(&world->dice, 5) + SALES_OPEN_MAX - 20;
    world->model->floor_ms = world->now_ms - 5;
    engine_load_point(world->engine, world->model->seq, dice_roll(&world->dice), world->model->sale_id_last,
                      world->model->floor_ms);
    world->start = snapshot_take(world);

    uint32_t middle = dice_below(&world->dice, OPERATIONS_PER_ROUND);
    for (uint32_t i = 0; i < OPERATIONS_PER_ROUND; i++) {
        if (i == middle) world->middle = snapshot_take(world);
        operate(world);
        if (i % 1000 == 0) compare_all(world);
    }
    compare_all(world);
    compare_rebuilt(world, world->start);
    compare_rebuilt(world, world->middle);

    for (uint32_t i = 0; i < world->records_count; i++) free(world->records[i].terms);
    snapshot_free(world->start);
    snapshot_free(world->middle);
    engine_close(world->engine);
}

static void engine_and_model_agree(void **state)
{
    (void)state;
    struct world world = { .dice = stage_seed("engine_and_model_agree") };
    world.model = malloc(sizeof *world.model);
    world.records = calloc(OPERATIONS_PER_ROUND, sizeof *world.records);
    assert_non_null(world.model);
    assert_non_null(world.records);
    for (int round = 0; round < ROUNDS; round++) play_round(&world);
    for (int kind = DECISION_SALE_CREATED; kind <= DECISION_REFUND_DUE; kind++) assert_true(world.kinds[kind] > ROUNDS);
    assert_true(world.verdicts[VERDICT_TOO_MANY_RETURNS] > ROUNDS);
    free(world.records);
    free(world.model);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(engine_and_model_agree) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
