/* A journal may bring anything. What the engine has no objection to, it applies without an assertion. */
#include "stage.h"

#include <stdio.h>
#include <string.h>

/* sale 1: 5 shoes of sam at 10 each, 2 units a grab, one grab each, 60 s to pay, open on [1000, 2000); ann has won 1 at 1500
 * with key k (seq 2). */
static struct engine *scene(void)
{
    struct engine *engine = stage_open(3);
    struct sale_terms terms = stage_terms();
    terms.price = 10;
    terms.units_per_grab_max = 2;
    terms.pay_within_s = 60;
    terms.opens_ms = 1000;
    terms.closes_ms = 2000;
    uint64_t id = stage_sale(engine, &terms, 5);
    assert_int_equal(id, 1);
    struct grab grab = { .sale_id = id, .buyer = SLICE("ann"), .key = SLICE("k"), .units = 1, .now_ms = 1500 };
    struct grab_answer answer;
    assert_int_equal(stage_grab(engine, &grab, &answer), VERDICT_WON);
    return engine;
}

static struct decision good_win(void)
{
    struct decision win = { .seq = 3, .at_ms = 1600, .kind = DECISION_WON, .sale_id = 1 };
    win.won.buyer = SLICE("bob");
    win.won.key = SLICE("k");
    win.won.units = 2;
    win.won.amount = 20;
    win.won.pay_by_ms = 61600;
    return win;
}

#define OBJECTS(from, change)                                                                                               \
    do {                                                                                                                    \
        struct decision d = (from);                                                                                         \
        change;                                                                                                             \
        if (engine_objection(engine, &d) == NULL) fail_msg("no objection to %s", #change);                                  \
    } while (0)

static void a_win_must_follow_from_what_was(void **state)
{
    (void)state;
    struct engine *engine = scene();
    struct decision win = good_win();
    static const char long_text[80] = { [0 ... 79] = 'x' };
    OBJECTS(win, d.seq = 2);
    OBJECTS(win, d.seq = 4);
    OBJECTS(win, d.seq = 0);
    OBJECTS(win, d.seq = UINT64_MAX);
    OBJECTS(win, d.at_ms = 1499);
    OBJECTS(win, d.at_ms = 2000);
    OBJECTS(win, d.at_ms = UINT64_MAX);
    OBJECTS(win, d.sale_id = 0);
    OBJECTS(win, d.sale_id = 2);
    OBJECTS(win, d.sale_id = 1 + SALES_OPEN_MAX);
    OBJECTS(win, d.kind = (enum decision_kind)0);
    OBJECTS(win, d.kind = (enum decision_kind)9);
    OBJECTS(win, d.won.token_nonce = 1); /* its sale asks for none */
    OBJECTS(win, d.kind = (enum decision_kind)UINT32_MAX);
    OBJECTS(win, d.won.buyer = SLICE(""));
    OBJECTS(win, d.won.buyer = SLICE("ann"));
    OBJECTS(win, d.won.buyer = SLICE("b\0b"));
    OBJECTS(win, d.won.buyer = ((struct slice){ long_text, 65 }));
    OBJECTS(win, d.won.key = ((struct slice){ long_text, 65 }));
    OBJECTS(win, d.won.key = SLICE("k\0"));
    OBJECTS(win, d.won.units = 0);
    OBJECTS(win, d.won.units = 3);
    OBJECTS(win, d.won.units = 1);
    OBJECTS(win, d.won.units = UINT32_MAX);
    OBJECTS(win, d.won.amount = 10);
    OBJECTS(win, d.won.amount = -1);
    OBJECTS(win, d.won.pay_by_ms = 0);
    OBJECTS(win, d.won.pay_by_ms = 61601);
    OBJECTS(win, d.won.pay_by_ms = 1);
    OBJECTS(win, d.won.pay_by_ms = UINT64_MAX);
    assert_null(engine_objection(engine, &win));

    /* Same key and units as ann's: had it been asked for, it would have been a repeat. */
    struct decision repeat = win;
    repeat.won.buyer = SLICE("ann");
    repeat.won.units = 1;
    repeat.won.amount = 10;
    assert_non_null(engine_objection(engine, &repeat));

    engine_apply(engine, &win);
    struct decision third = win;
    third.seq = 4;
    third.won.buyer = SLICE("cat");
    assert_null(engine_objection(engine, &third));
    engine_apply(engine, &third);
    struct decision fourth = third;
    fourth.seq = 5;
    fourth.won.buyer = SLICE("dan");
    assert_string_equal(engine_objection(engine, &fourth), "it has more units than were available");
    engine_close(engine);
}

static void a_token_must_follow_from_what_was(void **state)
{
    (void)state;
    struct engine *engine = stage_open(3);
    struct sale_terms terms = stage_terms(), other = stage_terms();
    terms.admission = ADMISSION_TOKEN;
    terms.tokens_max = 2;
    stage_rename(&other, "hats");
    uint64_t id = stage_sale(engine, &terms, 5), other_id = stage_sale(engine, &other, 5);
    struct decision given = { .seq = 3, .kind = DECISION_TOKEN_GIVEN, .sale_id = id };
    given.token_given.buyer = SLICE("ann");
    static const char long_text[80] = { [0 ... 79] = 'x' };
    OBJECTS(given, d.seq = 4);
    OBJECTS(given, d.sale_id = other_id); /* it hands out none */
    OBJECTS(given, d.sale_id = 99);
    OBJECTS(given, d.token_given.buyer = SLICE(""));
    OBJECTS(given, d.token_given.buyer = SLICE("a\0n"));
    OBJECTS(given, d.token_given.buyer = ((struct slice){ long_text, 65 }));
    assert_null(engine_objection(engine, &given));
    engine_apply(engine, &given);
    OBJECTS(given, d.seq = 4); /* ann has one that is not spent */

    struct decision second = given;
    second.seq = 4;
    second.token_given.buyer = SLICE("bob");
    assert_null(engine_objection(engine, &second));
    engine_apply(engine, &second);
    OBJECTS(second, (d.seq = 5, d.token_given.buyer = SLICE("cat"))); /* two were all */

    struct decision win = { .seq = 5, .kind = DECISION_WON, .sale_id = id };
    win.won.buyer = SLICE("ann");
    win.won.units = 1;
    win.won.amount = -1;
    win.won.token_nonce = 3;
    OBJECTS(win, d.won.token_nonce = 4);
    OBJECTS(win, d.won.token_nonce = 5);
    OBJECTS(win, d.won.token_nonce = UINT64_MAX);
    OBJECTS(win, d.won.buyer = SLICE("bob"));
    OBJECTS(win, d.won.buyer = SLICE("cat"));
    struct decision trusted = win; /* a backend asked for it, and needs no token */
    trusted.won.token_nonce = 0;
    assert_null(engine_objection(engine, &trusted));
    assert_null(engine_objection(engine, &win));
    engine_apply(engine, &win);
    OBJECTS(win, d.seq = 6);
    engine_close(engine);
}

/* A start finds in memory what the server had let go of; the room of those sales counts as free. */
static void tokens_of_sales_that_are_over_give_their_room_in_replay(void **state)
{
    (void)state;
    struct engine *engine = stage_open(2);
    struct sale_terms first = stage_terms(), second = stage_terms();
    first.admission = second.admission = ADMISSION_TOKEN;
    first.closes_ms = 100;
    stage_rename(&second, "hats");
    uint64_t first_id = stage_sale(engine, &first, 5), second_id = stage_sale(engine, &second, 5);
    stage_nonce(engine, first_id, "ann", 10);
    stage_nonce(engine, first_id, "bob", 10);
    struct decision given = { .seq = engine_seq(engine) + 1, .kind = DECISION_TOKEN_GIVEN, .sale_id = second_id };
    given.token_given.buyer = SLICE("cat");
    given.at_ms = 99;
    assert_non_null(engine_objection(engine, &given));
    given.at_ms = 100;
    assert_null(engine_objection(engine, &given));
    engine_apply(engine, &given);
    assert_int_equal(engine_token(engine, second_id, SLICE("cat")), given.seq);

    /* Orders that are over give no room for tokens. */
    struct decision more = given;
    more.seq = engine_seq(engine) + 1;
    more.token_given.buyer = SLICE("dan");
    assert_null(engine_objection(engine, &more));
    engine_apply(engine, &more);
    more.seq++;
    more.token_given.buyer = SLICE("eve");
    assert_non_null(engine_objection(engine, &more));
    engine_close(engine);
}

static void wins_beyond_the_memory_reserved_are_objected_to(void **state)
{
    (void)state;
    struct engine *engine = scene();
    for (uint64_t seq = 3; seq <= 5; seq++) {
        struct decision win = good_win();
        char name[2] = { (char)('a' + seq), '\0' };
        win.seq = seq;
        win.won.buyer = slice_of(name);
        win.won.units = 1;
        win.won.amount = 10;
        const char *objection = engine_objection(engine, &win);
        if (seq == 5)
            assert_non_null(objection);
        else
            assert_null(objection);
        if (objection == NULL) engine_apply(engine, &win);
    }
    engine_close(engine);
}

static void a_new_sale_must_be_possible(void **state)
{
    (void)state;
    struct engine *engine = scene();
    struct sale_terms terms = stage_terms(), taken = stage_terms(), bad = stage_terms();
    stage_rename(&terms, "hats");
    bad.units_per_grab_max = 0;
    struct decision created = { .seq = 3, .at_ms = 1600, .kind = DECISION_SALE_CREATED, .sale_id = 2 };
    created.created.seller = SLICE("sam");
    created.created.terms = &terms;
    created.created.stock = STOCK_MAX;
    static const char long_text[80] = { [0 ... 79] = 'x' };
    OBJECTS(created, d.sale_id = 0);
    OBJECTS(created, d.sale_id = 1);
    OBJECTS(created, d.sale_id = 1 + SALES_OPEN_MAX);
    OBJECTS(created, d.sale_id = 2 + SALES_OPEN_MAX);
    OBJECTS(created, d.sale_id = UINT64_MAX);
    OBJECTS(created, d.created.stock = STOCK_MAX + 1);
    OBJECTS(created, d.created.terms = &taken);
    OBJECTS(created, d.created.terms = &bad);
    OBJECTS(created, d.created.seller = SLICE(""));
    OBJECTS(created, d.created.seller = SLICE("s\0m"));
    OBJECTS(created, d.created.seller = ((struct slice){ long_text, 65 }));
    assert_null(engine_objection(engine, &created));

    /* The place of a sale that is over by then, with nothing held, may be taken: the server had let go of it. */
    struct decision again = created;
    again.sale_id = 1 + SALES_OPEN_MAX;
    again.at_ms = 2000;
    assert_non_null(engine_objection(engine, &again));
    engine_close(engine);
}

static void changes_must_follow_from_what_was(void **state)
{
    (void)state;
    struct engine *engine = scene();
    struct sale sale = stage_look(engine, 1);
    struct decision changed = {
        .seq = 3, .at_ms = 1600, .kind = DECISION_SALE_CHANGED, .sale_id = 1, .changed = &sale.terms
    };
    assert_null(engine_objection(engine, &changed));
    sale.terms.price = 11;
    assert_non_null(engine_objection(engine, &changed));

    struct decision stock = { .seq = 3, .at_ms = 1600, .kind = DECISION_STOCK_ADDED, .sale_id = 1, .stock_added = -4 };
    assert_null(engine_objection(engine, &stock));
    OBJECTS(stock, d.stock_added = -5);
    OBJECTS(stock, d.stock_added = INT64_MIN);
    OBJECTS(stock, d.stock_added = INT64_MAX);
    OBJECTS(stock, d.at_ms = 2000);

    struct decision pause = { .seq = 3, .at_ms = 1600, .kind = DECISION_SALE_PAUSED, .sale_id = 1 };
    assert_null(engine_objection(engine, &pause));
    OBJECTS(pause, d.kind = DECISION_SALE_RESUMED);
    OBJECTS(pause, d.sale_id = 7);
    engine_close(engine);
}

static uint64_t some_number(uint64_t *dice)
{
    static const uint64_t odd[] = { 0,
                                    1,
                                    2,
                                    3,
                                    1000,
                                    1600,
                                    UINT32_MAX,
                                    STOCK_MAX,
                                    TIME_MS_MAX,
                                    SALES_OPEN_MAX,
                                    UINT64_MAX,
                                    INT64_MAX,
                                    (uint64_t)INT64_MIN };
    switch (dice_below(dice, 4)) {
    case 0:
        return odd[dice_below(dice, sizeof odd / sizeof odd[0])];
    case 1:
        return dice_roll(dice);
    default:
        return dice_below(dice, 5);
    }
}

static struct slice some_text(uint64_t *dice, char bytes[80])
{
    static const uint32_t lens[] = { 0, 1, 1, 1, 2, 16, 17, 33, 64, 65, 80 };
    uint32_t len = lens[dice_below(dice, sizeof lens / sizeof lens[0])];
    memset(bytes, 'a' + (int)dice_below(dice, 4), 80);
    if (dice_below(dice, 20) == 0) bytes[dice_below(dice, 80)] = '\0';
    return (struct slice){ bytes, len };
}

static void some_terms(uint64_t *dice, struct sale_terms *terms)
{
    *terms = stage_terms();
    snprintf(terms->name, sizeof terms->name, "%u", dice_below(dice, 50));
    terms->grabs_per_buyer_max = 1 + dice_below(dice, 3);
    terms->units_per_grab_max = 1 + dice_below(dice, 3);
    terms->pay_within_s = dice_below(dice, 2);
    terms->admission = (enum admission)dice_below(dice, 4);
    terms->tokens_max = dice_below(dice, 4);
    if (dice_below(dice, 4)) terms->line_name[0] = 'a';
    switch (dice_below(dice, 16)) {
    case 0:
        memset(terms->name, 'n', sizeof terms->name);
        break;
    case 1:
        memset(terms->description, 'd', sizeof terms->description);
        break;
    case 2:
        terms->price = (int64_t)some_number(dice);
        break;
    case 3:
        terms->units_per_grab_max = (uint32_t)some_number(dice);
        break;
    case 4:
        terms->grabs_per_buyer_max = (uint32_t)some_number(dice);
        break;
    case 5:
        terms->opens_ms = some_number(dice);
        break;
    case 6:
        terms->closes_ms = some_number(dice);
        break;
    case 7:
        terms->pay_within_s = (uint32_t)some_number(dice);
        break;
    case 8:
        terms->admission = (enum admission)some_number(dice);
        break;
    case 9:
        terms->late_payment = (enum late_payment)some_number(dice);
        break;
    default:
        break;
    }
}

struct some_order {
    uint32_t left;
    struct order order;
};

static bool order_counted(void *arg, const struct order *order)
{
    struct some_order *some = arg;
    some->order = *order;
    return some->left-- > 0;
}

static void some_end(uint64_t *dice, const struct engine *engine, struct decision *d, char texts[2][80])
{
    struct some_order some = { .left = dice_below(dice, 100) };
    engine_each_order(engine, order_counted, &some);
    d->sale_id = some.order.sale_id;
    d->ended.order_no = some.order.no;
    d->ended.units = some.order.units;
    d->at_ms += dice_below(dice, 2) * 1000;
    if (d->kind == DECISION_CANCELLED) {
        d->ended.reason = some_text(dice, texts[0]);
        d->ended.by = (enum canceller)dice_below(dice, 5);
    } else if (d->kind != DECISION_EXPIRED) {
        d->ended.ref = some_text(dice, texts[0]);
    }
    if (dice_below(dice, 20) == 0) d->ended.order_no = some_number(dice);
    if (dice_below(dice, 20) == 0) d->ended.units = (uint32_t)some_number(dice);
}

/* tidy: long function because every field of every kind is spoilt here.
 *
 * Half of what it makes is nearly right, so that some is applied and the rest meets every state. */
static void some_decision(uint64_t *dice, const struct engine *engine, struct decision *d, struct sale_terms *terms,
                          char texts[2][80])
{
    *d = (struct decision){ .seq = engine_seq(engine) + 1, .at_ms = engine_time(engine) + dice_below(dice, 3) };
    d->kind = (enum decision_kind)(1 + dice_below(dice, DECISION_REFUND_DUE));
    if (dice_below(dice, 2) > 0) d->kind = DECISION_WON;
    struct sale there;
    for (int tries = 0; tries < 100 && !engine_sale(engine, d->sale_id, &there); tries++)
        d->sale_id = 1 + dice_below(dice, 30);
    if (d->kind == DECISION_SALE_CLOSED && dice_below(dice, 10) > 0) d->kind = DECISION_SALE_CREATED;
    some_terms(dice, terms);
    switch (d->kind) {
    case DECISION_SALE_CREATED:
        d->sale_id = 1 + dice_below(dice, 30);
        d->created.seller = some_text(dice, texts[0]);
        d->created.terms = terms;
        d->created.stock = (uint32_t)some_number(dice);
        break;
    case DECISION_SALE_CHANGED:
        d->changed = terms;
        break;
    case DECISION_STOCK_ADDED:
        d->stock_added = (int64_t)(some_number(dice) - 3);
        break;
    case DECISION_WON: {
        struct sale sale = { 0 };
        bool found = engine_sale(engine, d->sale_id, &sale);
        d->won.buyer = some_text(dice, texts[0]);
        d->won.key = some_text(dice, texts[1]);
        d->won.units = 1 + dice_below(dice, 2);
        d->won.amount = found ? sale_amount(&sale.terms, d->won.units) : 0;
        d->won.pay_by_ms = sale.terms.pay_within_s == 0 ? 0 : d->at_ms + sale.terms.pay_within_s * UINT64_C(1000);
        d->won.token_nonce = engine_token(engine, d->sale_id, d->won.buyer);
        break;
    }
    case DECISION_TOKEN_GIVEN:
        d->token_given.buyer = some_text(dice, texts[0]);
        break;
    case DECISION_PAID:
    case DECISION_CANCELLED:
    case DECISION_EXPIRED:
    case DECISION_RETAKEN:
    case DECISION_REFUND_DUE:
        some_end(dice, engine, d, texts);
        break;
    default:
        break;
    }
    switch (dice_below(dice, 20)) {
    case 0:
        d->seq = some_number(dice);
        break;
    case 1:
        d->at_ms = some_number(dice);
        break;
    case 2:
        d->sale_id = some_number(dice);
        break;
    case 3:
        d->kind = d->kind == DECISION_WON ? (enum decision_kind)(DECISION_REFUND_DUE + 1 + some_number(dice) % 100)
                                          : d->kind;
        break;
    case 4:
        if (d->kind == DECISION_WON) d->won.units = (uint32_t)some_number(dice);
        break;
    case 5:
        if (d->kind == DECISION_WON) d->won.amount = (int64_t)some_number(dice);
        break;
    case 6:
        if (d->kind == DECISION_WON) d->won.pay_by_ms = some_number(dice);
        break;
    case 7:
        if (d->kind == DECISION_WON) d->won.token_nonce = some_number(dice);
        break;
    default:
        break;
    }
}

static bool sale_adds_up(void *arg, const struct sale *sale)
{
    (void)arg;
    assert_true(sale_counts_add_up(&sale->counts));
    return true;
}

static void whatever_passes_is_applied(void **state)
{
    (void)state;
    uint64_t dice = stage_seed("whatever_passes_is_applied");
    uint32_t applied = 0, refused = 0, ends[DECISION_REFUND_DUE + 1] = { 0 };
    for (int round = 0; round < 400; round++) {
        struct engine *engine = stage_open(100);
        for (int i = 0; i < 500; i++) {
            struct decision decision;
            struct sale_terms terms;
            char texts[2][80];
            some_decision(&dice, engine, &decision, &terms, texts);
            bool fits = engine_objection(engine, &decision) == NULL;
            if (fits) engine_apply(engine, &decision);
            if (fits) ends[decision.kind]++;
            *(fits ? &applied : &refused) += 1;
        }
        engine_each_sale(engine, sale_adds_up, NULL);
        engine_close(engine);
    }
    fprintf(stderr, "%u applied, %u refused\n", applied, refused);
    assert_true(applied > 2000);
    assert_true(refused > 2000);
    for (int kind = DECISION_PAID; kind <= DECISION_REFUND_DUE; kind++) assert_true(ends[kind] > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_win_must_follow_from_what_was),
        cmocka_unit_test(wins_beyond_the_memory_reserved_are_objected_to),
        cmocka_unit_test(a_new_sale_must_be_possible),
        cmocka_unit_test(changes_must_follow_from_what_was),
        cmocka_unit_test(a_token_must_follow_from_what_was),
        cmocka_unit_test(whatever_passes_is_applied),
        cmocka_unit_test(tokens_of_sales_that_are_over_give_their_room_in_replay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
