/* What becomes of an order after its win: every state meets everything that can happen to it (P6). */
#include "stage.h"

#include <stdio.h>
#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

/* Won by ann at 1000 in a sale of sam's, 2 units of 5 at 100 each, to be paid within a minute. */
#define WON_MS 1000
#define PAY_BY_MS 61000
#define LATER_MS 100000
#define UNITS 2
#define STOCK 5

enum start { HELD, PAID, PAID_AT_ONCE, CANCELLED, EXPIRED, EXPIRED_REFUND, REFUND_DUE, RETAKEN, STARTS };
static const char *const start_words[] = { "held",    "paid",           "paid at once", "cancelled",
                                           "expired", "expired/refund", "refund due",   "retaken" };

static enum verdict pay(struct engine *engine, uint64_t no, const char *ref, int64_t amount, uint64_t now_ms)
{
    struct payment payment = { .order_no = no, .ref = slice_of(ref), .amount = amount, .now_ms = now_ms };
    struct order order;
    enum verdict verdict = stage_pay(engine, &payment, &order);
    if (verdict == VERDICT_NO_SUCH_ORDER || verdict == VERDICT_BAD_INPUT) return verdict;
    struct order there = stage_order(engine, no);
    assert_same_order(&order, &there);
    return verdict;
}

static enum verdict cancel(struct engine *engine, uint64_t no, enum canceller by, const char *name)
{
    struct cancel asked = { .order_no = no, .by = by, .name = slice_of(name), .now_ms = LATER_MS };
    if (by != CANCELLER_BUYER) asked.reason = SLICE("sold elsewhere");
    struct order order;
    enum verdict verdict = stage_cancel(engine, &asked, &order);
    if (verdict == VERDICT_NO_SUCH_ORDER) return verdict;
    struct order there = stage_order(engine, no);
    assert_same_order(&order, &there);
    return verdict;
}

static uint64_t win(struct engine *engine, uint64_t sale_id, const char *buyer, uint32_t units, uint64_t now_ms)
{
    struct grab grab = { .sale_id = sale_id, .buyer = slice_of(buyer), .units = units, .now_ms = now_ms };
    struct grab_answer answer;
    assert_same_verdict(stage_grab(engine, &grab, &answer), VERDICT_WON, buyer, (size_t)now_ms);
    return answer.order.no;
}

static struct sale_terms hold_terms(void)
{
    struct sale_terms terms = stage_terms();
    terms.price = 100;
    terms.units_per_grab_max = UNITS;
    terms.pay_within_s = 60;
    return terms;
}

/* An engine with ann's order in this state. */
static struct engine *start(enum start state, uint64_t *sale_id, uint64_t *no)
{
    struct engine *engine = stage_open(10);
    struct sale_terms terms = hold_terms();
    if (state == PAID_AT_ONCE) terms.pay_within_s = 0;
    if (state == EXPIRED_REFUND) terms.late_payment = LATE_PAYMENT_REFUND;
    *sale_id = stage_sale(engine, &terms, STOCK);
    *no = win(engine, *sale_id, "ann", UNITS, WON_MS);
    if (state == PAID) assert_int_equal(pay(engine, *no, "p1", 200, WON_MS), VERDICT_DONE);
    if (state == CANCELLED || state == REFUND_DUE) {
        struct cancel asked = { .order_no = *no, .by = CANCELLER_BUYER, .name = SLICE("ann"), .now_ms = WON_MS };
        struct order order;
        assert_int_equal(stage_cancel(engine, &asked, &order), VERDICT_DONE);
    }
    if (state == EXPIRED || state == EXPIRED_REFUND || state == RETAKEN)
        assert_int_equal(stage_expire(engine, PAY_BY_MS), *no);
    if (state == REFUND_DUE || state == RETAKEN) assert_int_equal(pay(engine, *no, "p1", 200, LATER_MS), VERDICT_DONE);
    return engine;
}

/* What is held, sold and available follows from the one order's state, whatever has led there. */
static void assert_counts(const struct engine *engine, uint64_t sale_id, enum order_state state)
{
    struct sale sale = stage_look(engine, sale_id);
    assert_int_equal(sale.counts.offered, STOCK);
    assert_int_equal(sale.counts.held, state == ORDER_HELD ? UNITS : 0);
    assert_int_equal(sale.counts.sold, state == ORDER_PAID ? UNITS : 0);
    assert_int_equal(sale.counts.available, order_state_counts(state) ? STOCK - UNITS : STOCK);
}

enum act { PAY_P1, PAY_P2, PAY_WRONG, BY_ANN, BY_BOB, BY_SAM, BY_SUE, BY_ADMIN, DUE_BEFORE, DUE_AT, DUE_AFTER, ACTS };

/* NONE: nothing expires. */
#define NONE VERDICT_COUNT
static enum verdict act(struct engine *engine, enum act what, uint64_t no)
{
    switch (what) {
    case PAY_P1:
        return pay(engine, no, "p1", 200, LATER_MS);
    case PAY_P2:
        return pay(engine, no, "p2", 200, LATER_MS);
    case PAY_WRONG:
        return pay(engine, no, "p1", 199, LATER_MS);
    case BY_ANN:
        return cancel(engine, no, CANCELLER_BUYER, "ann");
    case BY_BOB:
        return cancel(engine, no, CANCELLER_BUYER, "bob");
    case BY_SAM:
        return cancel(engine, no, CANCELLER_SELLER, "sam");
    case BY_SUE:
        return cancel(engine, no, CANCELLER_SELLER, "sue");
    case BY_ADMIN:
        return cancel(engine, no, CANCELLER_ADMIN, "root");
    case DUE_BEFORE:
        return stage_expire(engine, PAY_BY_MS - 1) == 0 ? NONE : VERDICT_DONE;
    case DUE_AT:
        return stage_expire(engine, PAY_BY_MS) == 0 ? NONE : VERDICT_DONE;
    default:
        return stage_expire(engine, LATER_MS) == 0 ? NONE : VERDICT_DONE;
    }
}

#define DONE_(after)                                                                                                        \
    {                                                                                                                       \
        VERDICT_DONE, ORDER_##after                                                                                         \
    }
#define STAYS(verdict, state)                                                                                               \
    {                                                                                                                       \
        VERDICT_##verdict, ORDER_##state                                                                                    \
    }
#define NOT_DUE(state)                                                                                                      \
    { NONE, ORDER_##state }, { NONE, ORDER_##state },                                                                       \
    {                                                                                                                       \
        NONE, ORDER_##state                                                                                                 \
    }
/* Nobody's but their own: a stranger is told that there is no such order (P8). */
#define NOT_HELD(state)                                                                                                     \
    STAYS(NOT_HELD, state), STAYS(NO_SUCH_ORDER, state), STAYS(NOT_HELD, state), STAYS(NO_SUCH_ORDER, state),               \
        STAYS(NOT_HELD, state)

static const struct {
    enum verdict verdict;
    enum order_state after;
} table[STARTS][ACTS] = {
    [HELD] = { DONE_(PAID),
               DONE_(PAID),
               STAYS(AMOUNT_MISMATCH, HELD),
               DONE_(CANCELLED),
               STAYS(NO_SUCH_ORDER, HELD),
               DONE_(CANCELLED),
               STAYS(NO_SUCH_ORDER, HELD),
               DONE_(CANCELLED),
               { NONE, ORDER_HELD },
               DONE_(EXPIRED),
               DONE_(EXPIRED) },
    [PAID] = { STAYS(REPEATED, PAID), STAYS(ALREADY_PAID, PAID), STAYS(AMOUNT_MISMATCH, PAID), NOT_HELD(PAID),
               NOT_DUE(PAID) },
    [PAID_AT_ONCE] = { STAYS(ALREADY_PAID, PAID), STAYS(ALREADY_PAID, PAID), STAYS(AMOUNT_MISMATCH, PAID), NOT_HELD(PAID),
                       NOT_DUE(PAID) },
    [CANCELLED] = { DONE_(REFUND_DUE), DONE_(REFUND_DUE), STAYS(AMOUNT_MISMATCH, CANCELLED), NOT_HELD(CANCELLED),
                    NOT_DUE(CANCELLED) },
    [EXPIRED] = { DONE_(PAID), DONE_(PAID), STAYS(AMOUNT_MISMATCH, EXPIRED), NOT_HELD(EXPIRED), NOT_DUE(EXPIRED) },
    [EXPIRED_REFUND] = { DONE_(REFUND_DUE), DONE_(REFUND_DUE), STAYS(AMOUNT_MISMATCH, EXPIRED), NOT_HELD(EXPIRED),
                         NOT_DUE(EXPIRED) },
    [REFUND_DUE] = { STAYS(REPEATED, REFUND_DUE), STAYS(ALREADY_PAID, REFUND_DUE), STAYS(AMOUNT_MISMATCH, REFUND_DUE),
                     NOT_HELD(REFUND_DUE), NOT_DUE(REFUND_DUE) },
    [RETAKEN] = { STAYS(REPEATED, PAID), STAYS(ALREADY_PAID, PAID), STAYS(AMOUNT_MISMATCH, PAID), NOT_HELD(PAID),
                  NOT_DUE(PAID) },
};

static void every_state_meets_everything(void **state)
{
    (void)state;
    for (enum start from = 0; from < STARTS; from++) {
        for (enum act what = 0; what < ACTS; what++) {
            uint64_t sale_id, no;
            struct engine *engine = start(from, &sale_id, &no);
            uint64_t seq = engine_seq(engine);
            enum verdict got = act(engine, what, no), want = table[from][what].verdict;
            struct order order = stage_order(engine, no);
            if (got != want || order.state != table[from][what].after)
                fail_msg("%s, act %d: verdict %d, then %s", start_words[from], (int)what, (int)got,
                         order_state_word(order.state));
            assert_int_equal(engine_seq(engine), seq + (want == VERDICT_DONE));
            assert_counts(engine, sale_id, table[from][what].after);
            /* And whatever it was, it is not done again. */
            if (want == VERDICT_DONE) assert_true(act(engine, what, no) != VERDICT_DONE);
            engine_close(engine);
        }
    }
}

/* Bytes of a disk: of all ends an order could be given, the engine believes those that it would have decided. */
static void only_ends_that_follow_are_believed(void **state)
{
    (void)state;
    static const enum decision_kind kinds[] = { DECISION_PAID, DECISION_CANCELLED, DECISION_EXPIRED, DECISION_RETAKEN,
                                                DECISION_REFUND_DUE };
    static const bool believed[STARTS][COUNT(kinds)] = {
        [HELD] = { true, true, true, false, false },
        [CANCELLED] = { false, false, false, false, true },
        [EXPIRED] = { false, false, false, true, false },
        [EXPIRED_REFUND] = { false, false, false, false, true },
    };
    for (enum start from = 0; from < STARTS; from++) {
        for (size_t i = 0; i < COUNT(kinds); i++) {
            uint64_t sale_id, no;
            struct engine *engine = start(from, &sale_id, &no);
            struct decision end = { .seq = engine_seq(engine) + 1, .at_ms = LATER_MS, .kind = kinds[i], .sale_id = sale_id };
            end.ended.order_no = no;
            end.ended.units = UNITS;
            if (end.kind == DECISION_CANCELLED) {
                end.ended.by = CANCELLER_SELLER;
                end.ended.reason = SLICE("why");
            } else if (end.kind != DECISION_EXPIRED) {
                end.ended.ref = SLICE("p9");
            }
            const char *objection = engine_objection(engine, &end);
            if ((objection == NULL) != believed[from][i])
                fail_msg("%s, kind %d: %s", start_words[from], (int)kinds[i], objection == NULL ? "believed" : objection);
            if (objection == NULL) engine_apply(engine, &end);
            engine_close(engine);
        }
    }
}

static void an_end_must_fit_its_order(void **state)
{
    (void)state;
    uint64_t sale_id, no;
    struct engine *engine = start(HELD, &sale_id, &no);
    struct sale_terms terms = hold_terms();
    stage_rename(&terms, "hats");
    uint64_t other_id = stage_sale(engine, &terms, STOCK);
    struct decision good = { .seq = engine_seq(engine) + 1, .at_ms = PAY_BY_MS, .sale_id = sale_id };
    good.ended.order_no = no;
    good.ended.units = UNITS;
    char text[256];
    memset(text, 'r', sizeof text);

#define OBJECTED(end_kind, change)                                                                                          \
    do {                                                                                                                    \
        struct decision d = good;                                                                                           \
        d.kind = end_kind;                                                                                                  \
        if (end_kind == DECISION_PAID) d.ended.ref = SLICE("p");                                                            \
        if (end_kind == DECISION_CANCELLED) d.ended.by = CANCELLER_BUYER;                                                   \
        assert_null(engine_objection(engine, &d));                                                                          \
        change;                                                                                                             \
        if (engine_objection(engine, &d) == NULL) fail_msg("believed with %s", #change);                                    \
    } while (0)

    static const enum decision_kind kinds[] = { DECISION_PAID, DECISION_CANCELLED, DECISION_EXPIRED };
    for (size_t i = 0; i < COUNT(kinds); i++) {
        OBJECTED(kinds[i], d.ended.order_no = 0);
        OBJECTED(kinds[i], d.ended.order_no = no + 1);
        OBJECTED(kinds[i], d.ended.units = 1);
        OBJECTED(kinds[i], d.ended.units = 0);
        OBJECTED(kinds[i], d.sale_id = other_id);
        OBJECTED(kinds[i], d.sale_id = 0);
        OBJECTED(kinds[i], d.sale_id = other_id + 1);
        OBJECTED(kinds[i], d.seq++);
    }
    OBJECTED(DECISION_EXPIRED, d.at_ms = PAY_BY_MS - 1);
    OBJECTED(DECISION_PAID, d.ended.ref = SLICE(""));
    OBJECTED(DECISION_PAID, d.ended.ref = ((struct slice){ text, 65 }));
    OBJECTED(DECISION_PAID, d.ended.ref = ((struct slice){ "a\0b", 3 }));
    OBJECTED(DECISION_CANCELLED, d.ended.reason = ((struct slice){ text, 201 }));
    OBJECTED(DECISION_CANCELLED, d.ended.reason = ((struct slice){ "a\0b", 3 }));
    OBJECTED(DECISION_CANCELLED, d.ended.by = CANCELLER_NONE);
    OBJECTED(DECISION_CANCELLED, d.ended.by = CANCELLER_SELLER); /* gives no reason */
    OBJECTED(DECISION_CANCELLED, d.ended.by = CANCELLER_ADMIN);
    OBJECTED(DECISION_CANCELLED, d.ended.by = (enum canceller)4);
    engine_close(engine);
}

static void a_payment_after_its_time_is_taken_while_held(void **state)
{
    (void)state;
    uint64_t sale_id, no;
    struct engine *engine = start(HELD, &sale_id, &no);
    assert_int_equal(pay(engine, no, "p1", 200, PAY_BY_MS + 1), VERDICT_DONE);
    assert_int_equal(stage_order(engine, no).state, ORDER_PAID);
    assert_int_equal(stage_expire(engine, UINT64_C(1) << 40), 0);
    engine_close(engine);
}

static void a_late_payment_takes_again_only_what_may_be_taken(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        bool closed, paused, sold, won_again;
        uint64_t now_ms;
        enum order_state want;
    } script[] = {
        { "plain", false, false, false, false, LATER_MS, ORDER_PAID },
        { "paused", false, true, false, false, LATER_MS, ORDER_PAID },
        { "closed", true, false, false, false, LATER_MS, ORDER_REFUND_DUE },
        { "closed by time", false, false, false, false, 200000, ORDER_REFUND_DUE },
        { "a moment before", false, false, false, false, 199999, ORDER_PAID },
        { "too few left", false, false, true, false, LATER_MS, ORDER_REFUND_DUE },
        { "won again", false, false, false, true, LATER_MS, ORDER_REFUND_DUE },
    };
    for (size_t i = 0; i < COUNT(script); i++) {
        struct engine *engine = stage_open(10);
        struct sale_terms terms = hold_terms();
        terms.closes_ms = 200000;
        uint64_t sale_id = stage_sale(engine, &terms, STOCK);
        uint64_t no = win(engine, sale_id, "ann", UNITS, WON_MS);
        assert_int_equal(stage_expire(engine, PAY_BY_MS), no);
        if (script[i].sold) {
            win(engine, sale_id, "bob", UNITS, LATER_MS);
            win(engine, sale_id, "cat", UNITS, LATER_MS);
        }
        if (script[i].won_again) win(engine, sale_id, "ann", 1, LATER_MS);
        if (script[i].paused) stage_switch(engine, sale_id, DECISION_SALE_PAUSED, LATER_MS);
        if (script[i].closed) stage_switch(engine, sale_id, DECISION_SALE_CLOSED, LATER_MS);
        assert_int_equal(pay(engine, no, "p1", 200, script[i].now_ms), VERDICT_DONE);
        enum order_state got = stage_order(engine, no).state;
        if (got != script[i].want) fail_msg("%s: %s", script[i].what, order_state_word(got));
        engine_close(engine);
    }
}

static void what_comes_back_is_on_sale_at_once(void **state)
{
    (void)state;
    struct engine *engine = stage_open(10);
    struct sale_terms terms = hold_terms();
    uint64_t id = stage_sale(engine, &terms, 2);
    uint64_t ann = win(engine, id, "ann", 2, WON_MS);
    assert_int_equal(stage_buy(engine, id, "bob", WON_MS), VERDICT_SOLD_OUT);
    assert_int_equal(stage_buy(engine, id, "ann", WON_MS), VERDICT_ALREADY_WON);
    assert_int_equal(cancel(engine, ann, CANCELLER_BUYER, "ann"), VERDICT_DONE);
    struct sale sale = stage_look(engine, id);
    assert_int_equal(sale_state_at(&sale, LATER_MS), SALE_RUNNING);
    struct board_notice notice;
    assert_true(engine_notice(engine, id, &notice));
    assert_int_equal(notice.available, 2);

    /* To everyone, and to her too: what was cancelled does not count. */
    assert_int_equal(stage_buy(engine, id, "bob", LATER_MS), VERDICT_WON);
    assert_int_equal(stage_buy(engine, id, "ann", LATER_MS), VERDICT_WON);
    assert_int_equal(stage_buy(engine, id, "cat", LATER_MS), VERDICT_SOLD_OUT);
    assert_int_equal(stage_buy(engine, id, "ann", LATER_MS), VERDICT_ALREADY_WON);
    assert_int_not_equal(stage_expire(engine, LATER_MS + 60000), 0);
    assert_int_not_equal(stage_expire(engine, LATER_MS + 60000), 0);
    assert_int_equal(stage_expire(engine, LATER_MS + 60000), 0);
    assert_int_equal(stage_buy(engine, id, "cat", LATER_MS + 60000), VERDICT_WON);
    engine_close(engine);
}

static void already_won_names_an_order_that_counts(void **state)
{
    (void)state;
    struct engine *engine = stage_open(20);
    struct sale_terms terms = hold_terms();
    terms.grabs_per_buyer_max = 2;
    uint64_t id = stage_sale(engine, &terms, 20);
    uint64_t first = win(engine, id, "ann", 1, WON_MS), second = win(engine, id, "ann", 1, WON_MS);
    struct grab grab = { .sale_id = id, .buyer = SLICE("ann"), .units = 1, .now_ms = WON_MS };
    struct grab_answer answer;
    assert_int_equal(stage_grab(engine, &grab, &answer), VERDICT_ALREADY_WON);
    assert_int_equal(answer.order.no, second);

    assert_int_equal(stage_expire(engine, PAY_BY_MS), first);
    assert_int_equal(stage_expire(engine, PAY_BY_MS), second);
    grab.now_ms = PAY_BY_MS;
    uint64_t third = win(engine, id, "ann", 1, PAY_BY_MS);
    assert_int_equal(cancel(engine, third, CANCELLER_BUYER, "ann"), VERDICT_DONE);
    assert_int_equal(pay(engine, second, "p2", 100, LATER_MS), VERDICT_DONE);
    assert_int_equal(pay(engine, first, "p1", 100, LATER_MS), VERDICT_DONE);
    assert_int_equal(stage_order(engine, first).state, ORDER_PAID);
    grab.now_ms = LATER_MS;
    assert_int_equal(stage_grab(engine, &grab, &answer), VERDICT_ALREADY_WON);
    assert_int_equal(answer.order.no, second); /* the third is newer, and ended */
    engine_close(engine);
}

static void a_key_is_answered_by_its_order_as_it_is_now(void **state)
{
    (void)state;
    struct engine *engine = stage_open(10);
    struct sale_terms terms = hold_terms();
    uint64_t id = stage_sale(engine, &terms, STOCK);
    struct grab grab = { .sale_id = id, .buyer = SLICE("ann"), .key = SLICE("k"), .units = 1, .now_ms = WON_MS };
    struct grab_answer answer;
    assert_int_equal(stage_grab(engine, &grab, &answer), VERDICT_WON);
    uint64_t no = answer.order.no;
    assert_int_equal(stage_expire(engine, PAY_BY_MS), no);
    grab.now_ms = PAY_BY_MS;
    assert_int_equal(stage_grab(engine, &grab, &answer), VERDICT_REPEATED);
    assert_int_equal(answer.order.no, no);
    assert_int_equal(answer.order.state, ORDER_EXPIRED);
    assert_int_equal(pay(engine, no, "p1", 100, LATER_MS), VERDICT_DONE);
    assert_int_equal(stage_grab(engine, &grab, &answer), VERDICT_REPEATED);
    assert_int_equal(answer.order.state, ORDER_PAID);
    engine_close(engine);
}

static void input_that_cannot_be_kept_is_refused(void **state)
{
    (void)state;
    uint64_t sale_id, no;
    struct engine *engine = start(HELD, &sale_id, &no);
    char text[256];
    memset(text, 'r', sizeof text);
    const struct slice refs[] = { SLICE(""), { text, 65 }, { "a\0b", 3 } };
    struct order order;
    for (size_t i = 0; i < COUNT(refs); i++) {
        struct payment payment = { .order_no = no, .ref = refs[i], .amount = 200, .now_ms = WON_MS };
        assert_int_equal(stage_pay(engine, &payment, &order), VERDICT_BAD_INPUT);
        struct decision decision;
        assert_int_equal(engine_decide_past_payment(engine, &payment, SLICE(""), &decision, &(struct order){ .no = no }),
                         VERDICT_BAD_INPUT);
    }
    const struct {
        enum canceller by;
        struct slice reason;
    } script[] = {
        { CANCELLER_SELLER, SLICE("") },     { CANCELLER_ADMIN, SLICE("") },   { CANCELLER_BUYER, { text, 201 } },
        { CANCELLER_SELLER, { "a\0b", 3 } }, { CANCELLER_NONE, SLICE("why") }, { (enum canceller)4, SLICE("why") },
        { CANCELLER_ADMIN, { text, 201 } },
    };
    for (size_t i = 0; i < COUNT(script); i++) {
        struct cancel asked = { .order_no = no, .by = script[i].by, .name = SLICE("sam"), .reason = script[i].reason };
        assert_int_equal(stage_cancel(engine, &asked, &order), VERDICT_BAD_INPUT);
    }
    struct cancel longest = { .order_no = no, .by = CANCELLER_SELLER, .name = SLICE("sam"), .reason = { text, 200 } };
    assert_int_equal(stage_cancel(engine, &longest, &order), VERDICT_DONE);
    struct payment longest_ref = { .order_no = no, .ref = { text, 64 }, .amount = 200 };
    assert_int_equal(stage_pay(engine, &longest_ref, &order), VERDICT_DONE);
    engine_close(engine);
}

static void an_order_without_a_price_takes_nothing_or_zero(void **state)
{
    (void)state;
    static const struct {
        int64_t price, paid;
        enum verdict want;
    } script[] = {
        { -1, -1, VERDICT_DONE },
        { -1, 0, VERDICT_DONE },
        { -1, 1, VERDICT_AMOUNT_MISMATCH },
        { 0, 0, VERDICT_DONE },
        { 0, -1, VERDICT_AMOUNT_MISMATCH },
        { 5, 0, VERDICT_AMOUNT_MISMATCH },
        { 5, -1, VERDICT_AMOUNT_MISMATCH },
        { 5, 5, VERDICT_DONE },
        { 5, INT64_MIN, VERDICT_AMOUNT_MISMATCH },
    };
    for (size_t i = 0; i < COUNT(script); i++) {
        struct engine *engine = stage_open(10);
        struct sale_terms terms = hold_terms();
        terms.price = script[i].price;
        uint64_t no = win(engine, stage_sale(engine, &terms, 1), "ann", 1, WON_MS);
        assert_same_verdict(pay(engine, no, "p", script[i].paid, WON_MS), script[i].want, "paid", i);
        engine_close(engine);
    }
}

static void a_sale_that_holds_something_stays(void **state)
{
    (void)state;
    uint64_t sale_id, no;
    struct engine *engine = start(HELD, &sale_id, &no);
    assert_int_equal(stage_switch(engine, sale_id, DECISION_SALE_CLOSED, LATER_MS), VERDICT_DONE);
    assert_false(engine_forget(engine, sale_id, 100, LATER_MS));
    assert_int_equal(stage_order(engine, no).state, ORDER_HELD);
    /* The units of a closed sale come back too; its buyer has no more of it. */
    assert_int_equal(stage_expire(engine, LATER_MS), no);
    assert_counts(engine, sale_id, ORDER_EXPIRED);
    assert_true(engine_forget(engine, sale_id, 100, LATER_MS));
    assert_int_equal(stage_expire(engine, UINT64_C(1) << 40), 0);
    engine_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_state_meets_everything),
        cmocka_unit_test(only_ends_that_follow_are_believed),
        cmocka_unit_test(an_end_must_fit_its_order),
        cmocka_unit_test(a_payment_after_its_time_is_taken_while_held),
        cmocka_unit_test(a_late_payment_takes_again_only_what_may_be_taken),
        cmocka_unit_test(what_comes_back_is_on_sale_at_once),
        cmocka_unit_test(already_won_names_an_order_that_counts),
        cmocka_unit_test(a_key_is_answered_by_its_order_as_it_is_now),
        cmocka_unit_test(input_that_cannot_be_kept_is_refused),
        cmocka_unit_test(an_order_without_a_price_takes_nothing_or_zero),
        cmocka_unit_test(a_sale_that_holds_something_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
