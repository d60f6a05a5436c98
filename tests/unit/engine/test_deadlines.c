#include "engine/deadlines.h"
#include "stage.h"

#include <stdio.h>
#include <stdlib.h>

#define DAY_MS UINT64_C(86400000)

static struct deadlines open_for(uint32_t count_max)
{
    struct deadlines deadlines;
    assert_int_equal(deadlines_open(&deadlines, count_max), FAULT_NONE);
    return deadlines;
}

/* Against a list searched from end to end: what comes first is of the earliest tick, and everything comes once. */
static void what_is_due_first_comes_first(void **state)
{
    (void)state;
    enum { MOST = 300 };
    uint64_t dice = stage_seed("what_is_due_first_comes_first");
    struct deadlines deadlines = open_for(MOST);
    uint64_t due[MOST + 1] = { 0 }; /* by cell; 0: not there */
    uint32_t count = 0;
    for (int i = 0; i < 200000; i++) {
        bool put = count == 0 || (count < MOST && dice_below(&dice, 2) == 0);
        if (put) {
            uint32_t cell = 1;
            while (due[cell] != 0) cell++;
            due[cell] = 1000 * DAY_MS + dice_below(&dice, 100000);
            deadlines_put(&deadlines, due[cell], cell);
            count++;
        } else {
            const struct deadline *first = deadlines_first(&deadlines);
            assert_non_null(first);
            uint32_t cell = first->cell;
            assert_true(due[cell] != 0 && deadline_is_of(&deadlines, first, due[cell]));
            for (uint32_t other = 1; other <= MOST; other++)
                if (due[other] != 0) assert_true(due[cell] / DEADLINE_TICK_MS <= due[other] / DEADLINE_TICK_MS);
            due[cell] = 0;
            deadlines_drop_first(&deadlines);
            count--;
        }
        assert_int_equal(deadlines_are_full(&deadlines), count == MOST);
    }
    while (count-- > 0) deadlines_drop_first(&deadlines);
    assert_null(deadlines_first(&deadlines));
    deadlines_close(&deadlines);
}

/* The same with hints dropped in turn: order is kept, and a round without wins looks at every one. */
static void hints_dropped_in_turn_leave_the_rest_in_order(void **state)
{
    (void)state;
    enum { MOST = 300 };
    uint64_t dice = stage_seed("hints_dropped_in_turn_leave_the_rest_in_order");
    for (int round = 0; round < 300; round++) {
        struct deadlines deadlines = open_for(MOST);
        uint64_t due[MOST + 1];
        uint32_t left = 1 + dice_below(&dice, MOST), spread = 1 + dice_below(&dice, 100000);
        for (uint32_t cell = 1; cell <= left; cell++) {
            due[cell] = 1000 * DAY_MS + dice_below(&dice, spread);
            deadlines_put(&deadlines, due[cell], cell);
        }
        bool stale[MOST + 1] = { false }, seen[MOST + 1] = { false };
        for (uint32_t cell = 1; cell <= MOST; cell++) stale[cell] = dice_below(&dice, 1 + (uint32_t)round % 5) != 0;
        uint32_t looks = left * 2;
        for (uint32_t i = 0; i < looks; i++) {
            const struct deadline *next = deadlines_next(&deadlines);
            if (next == NULL) break;
            seen[next->cell] = true;
            if (!stale[next->cell]) continue;
            stale[next->cell] = false; /* gone: no other may be dropped for it */
            due[next->cell] = 0;
            deadlines_drop_next(&deadlines);
            left--;
        }
        uint64_t last = 0;
        for (const struct deadline *first; (first = deadlines_first(&deadlines)) != NULL; left--) {
            assert_true(seen[first->cell] && !stale[first->cell] && due[first->cell] != 0);
            assert_true(due[first->cell] / DEADLINE_TICK_MS >= last);
            last = due[first->cell] / DEADLINE_TICK_MS;
            due[first->cell] = 0;
            deadlines_drop_first(&deadlines);
        }
        assert_int_equal(left, 0);
        deadlines_close(&deadlines);
    }
}

/* A century of holds, each put in a year before its time or later, some never looked at for years: ticks are 32 bits. */
static void order_survives_every_lap_of_the_ticks(void **state)
{
    (void)state;
    struct deadlines deadlines = open_for(1000);
    uint64_t dice = stage_seed("order_survives_every_lap_of_the_ticks");
    uint64_t now_ms = 0, dropped = 0;
    uint64_t due[1001] = { 0 };
    uint32_t cells[1000], free_count = 1000, moves = 0;
    for (uint32_t i = 0; i < 1000; i++) cells[i] = i + 1;
    for (uint64_t base = 0; now_ms < 100 * 365 * DAY_MS; now_ms += DAY_MS) {
        for (uint32_t n = dice_below(&dice, 4); n > 0 && free_count > 0; n--) {
            uint32_t cell = cells[--free_count];
            due[cell] = now_ms + 1000 + dice_below(&dice, PAY_WITHIN_S_MAX) * UINT64_C(1000);
            deadlines_put(&deadlines, due[cell], cell);
        }
        moves += deadlines.base != base;
        base = deadlines.base;
        if (dice_below(&dice, 200) != 0 && free_count > 50) continue;
        /* All that is due, in order: but for what is due since longer than ticks can tell. */
        uint64_t last_ms = 0;
        for (const struct deadline *first; (first = deadlines_first(&deadlines)) != NULL; dropped++) {
            uint32_t cell = first->cell;
            assert_true(due[cell] != 0 && deadline_is_of(&deadlines, first, due[cell]));
            if (due[cell] > now_ms) break;
            if (now_ms - due[cell] < 30 * DAY_MS) {
                assert_true(due[cell] + DEADLINE_TICK_MS > last_ms);
                last_ms = due[cell];
            }
            due[cell] = 0;
            cells[free_count++] = cell;
            deadlines_drop_first(&deadlines);
        }
        for (uint32_t cell = 1; cell <= 1000; cell++) assert_true(due[cell] == 0 || due[cell] + DEADLINE_TICK_MS > now_ms);
    }
    assert_true(dropped > 10000 && moves > 20);
    deadlines_close(&deadlines);
}

/* A server that was off for years, or a clock that leapt: what is long due goes before what is not. */
static void what_is_long_due_goes_before_the_rest(void **state)
{
    (void)state;
    struct deadlines deadlines = open_for(10);
    deadlines_put(&deadlines, 100 * DAY_MS, 1);
    deadlines_put(&deadlines, 99 * DAY_MS, 2);
    deadlines_put(&deadlines, 3000 * DAY_MS, 3);
    deadlines_put(&deadlines, 2999 * DAY_MS, 4);
    uint32_t seen = 0;
    static const uint64_t due[] = { 0, 100 * DAY_MS, 99 * DAY_MS, 3000 * DAY_MS, 2999 * DAY_MS };
    for (int i = 0; i < 2; i++, deadlines_drop_first(&deadlines)) {
        const struct deadline *first = deadlines_first(&deadlines);
        assert_true(deadline_is_of(&deadlines, first, due[first->cell]));
        seen |= 1u << first->cell;
    }
    assert_int_equal(seen, 1u << 1 | 1u << 2);
    assert_int_equal(deadlines_first(&deadlines)->cell, 4);
    assert_false(deadline_is_of(&deadlines, deadlines_first(&deadlines), due[3]));
    deadlines_drop_first(&deadlines);
    assert_int_equal(deadlines_first(&deadlines)->cell, 3);
    deadlines_close(&deadlines);
}

/* Holds that are paid leave their hints behind, and a year's hold is not the first for a year: wins drop them in turn. */
static void hints_of_holds_that_were_paid_make_room(void **state)
{
    (void)state;
    struct engine *engine = stage_open(10);
    uint64_t now_ms = 1000;
    struct sale_terms keeping = stage_terms();
    keeping.pay_within_s = 1000;
    keeping.grabs_per_buyer_max = 5;
    uint64_t kept_id = stage_sale(engine, &keeping, 5);
    for (int i = 0; i < 3; i++) assert_int_equal(stage_buy(engine, kept_id, "ann", now_ms + (uint64_t)i), VERDICT_WON);
    uint64_t kept_first = engine_seq(engine) - 2;

    for (int round = 0; round < 300; round++, now_ms += DEADLINE_TICK_MS) {
        struct sale_terms terms = stage_terms();
        snprintf(terms.name, sizeof terms.name, "sale %d", round);
        terms.pay_within_s = PAY_WITHIN_S_MAX;
        assert_int_equal(stage_create(engine, "sam", &terms, 1, now_ms), VERDICT_DONE);
        uint64_t id = engine_sale_by_name(engine, SLICE("sam"), slice_of(terms.name));
        assert_int_equal(stage_buy(engine, id, "bob", now_ms), VERDICT_WON);
        struct payment payment = { .order_no = engine_seq(engine), .ref = SLICE("p"), .amount = -1, .now_ms = now_ms };
        struct order order;
        assert_int_equal(stage_pay(engine, &payment, &order), VERDICT_DONE);
        assert_int_equal(stage_switch(engine, id, DECISION_SALE_CLOSED, now_ms), VERDICT_DONE);
        assert_true(engine_forget(engine, id, 10, now_ms));
        struct engine_usage usage;
        engine_usage(engine, &usage);
        assert_true(usage.hints <= 15);
    }
    for (uint64_t i = 0; i < 3; i++) assert_int_equal(stage_expire(engine, 1001000 + i), kept_first + i);
    assert_int_equal(stage_expire(engine, UINT64_C(1) << 42), 0);
    engine_close(engine);
}

static uint64_t sale_for(struct engine *engine, uint32_t stock, uint32_t pay_within_s, uint64_t now_ms)
{
    struct sale_terms terms = stage_terms();
    snprintf(terms.name, sizeof terms.name, "sale at %llu", (unsigned long long)engine_seq(engine));
    terms.pay_within_s = pay_within_s;
    terms.grabs_per_buyer_max = stock;
    assert_int_equal(stage_create(engine, "sam", &terms, stock, now_ms), VERDICT_DONE);
    return engine_sale_by_name(engine, SLICE("sam"), slice_of(terms.name));
}

static void buy_and_pay(struct engine *engine, uint64_t sale_id, uint32_t count, uint64_t now_ms)
{
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(stage_buy(engine, sale_id, "bob", now_ms), VERDICT_WON);
        struct payment payment = { .order_no = engine_seq(engine), .ref = SLICE("p"), .amount = -1, .now_ms = now_ms };
        struct order order;
        assert_int_equal(stage_pay(engine, &payment, &order), VERDICT_DONE);
    }
}

/* Memory for orders is used up again and again, with deadlines that go back and forth: hints never come near twice as many.
 */
static void hints_never_fill_however_often_memory_is_used_again(void **state)
{
    (void)state;
    enum { MOST = 20000 };
    uint64_t dice = stage_seed("hints_never_fill_however_often_memory_is_used_again");
    struct engine *engine = stage_open(MOST);
    uint64_t kept_id = sale_for(engine, MOST / 2, PAY_WITHIN_S_MAX, 1000), now_ms = 1000;
    for (uint32_t i = 0; i < MOST / 2; i++) assert_int_equal(stage_buy(engine, kept_id, "ann", now_ms), VERDICT_WON);
    uint32_t hints_most = 0;
    for (uint32_t round = 0; round < 40; round++, now_ms += 1000) {
        uint32_t pay_within_s = round % 2 ? PAY_WITHIN_S_MAX - round * 1000 : 1000 + dice_below(&dice, 1000000);
        uint64_t id = sale_for(engine, MOST / 2, pay_within_s, now_ms);
        buy_and_pay(engine, id, MOST / 2, now_ms);
        assert_int_equal(stage_switch(engine, id, DECISION_SALE_CLOSED, now_ms), VERDICT_DONE);
        while (!engine_forget(engine, id, 1000, now_ms)) continue;
        struct engine_usage usage;
        engine_usage(engine, &usage);
        if (hints_most < usage.hints) hints_most = usage.hints;
    }
    assert_true(hints_most >= MOST && hints_most <= MOST / 2 * 3);
    uint32_t expired = 0;
    while (stage_expire(engine, now_ms + PAY_WITHIN_S_MAX * UINT64_C(1000)) != 0) expired++;
    assert_int_equal(expired, MOST / 2);
    engine_close(engine);
}

/* Ten cells, each won and paid and let go of ten times in one tick, and then held: every hint passes for that of the hold.
 */
static void hints_that_pass_for_those_of_holds_are_made_anew(void **state)
{
    (void)state;
    enum { MOST = 10, TIMES = 15 };
    struct engine *engine = stage_open(MOST);
    for (uint32_t held = 0; held < MOST; held++) {
        for (uint32_t i = 0; i < TIMES; i++) {
            uint64_t id = sale_for(engine, 1, 1000, 1600);
            assert_int_equal(stage_buy(engine, id, "bob", 1600), VERDICT_WON);
            if (i == TIMES - 1) break;
            struct payment payment = { .order_no = engine_seq(engine), .ref = SLICE("p"), .amount = -1, .now_ms = 1600 };
            struct order order;
            assert_int_equal(stage_pay(engine, &payment, &order), VERDICT_DONE);
            assert_int_equal(stage_switch(engine, id, DECISION_SALE_CLOSED, 1600), VERDICT_DONE);
            assert_true(engine_forget(engine, id, 10, 1600));
        }
    }
    assert_int_equal(stage_expire(engine, 1001599), 0);
    for (uint32_t held = 0; held < MOST; held++) assert_int_not_equal(stage_expire(engine, 1001600), 0);
    assert_int_equal(stage_expire(engine, UINT64_C(1) << 42), 0);
    engine_close(engine);
}

/* In a random order of deadlines; each once, none early, the earlier before the later but for one tick. */
static void a_million_holds_expire_in_order(void **state)
{
    (void)state;
    enum { HOLDS = 1000000, SALES = 50 };
    uint64_t dice = stage_seed("a_million_holds_expire_in_order");
    struct engine *engine = stage_open(HOLDS);
    uint64_t ids[SALES];
    for (uint32_t i = 0; i < SALES; i++) {
        struct sale_terms terms = stage_terms();
        snprintf(terms.name, sizeof terms.name, "sale %u", i);
        terms.pay_within_s = 1 + dice_below(&dice, 5000);
        ids[i] = stage_sale(engine, &terms, HOLDS);
    }
    for (uint32_t i = 0; i < HOLDS; i++) {
        char buyer[17];
        snprintf(buyer, sizeof buyer, "buyer-%010u", i);
        struct grab grab = { .sale_id = ids[dice_below(&dice, SALES)], .buyer = slice_of(buyer), .units = 1 };
        struct decision decision;
        struct grab_answer answer;
        grab.now_ms = 1000 + i / 100;
        assert_int_equal(engine_decide_grab(engine, &grab, &decision, &answer), VERDICT_WON);
        engine_apply(engine, &decision);
    }
    struct engine_usage usage;
    engine_usage(engine, &usage);
    assert_true(usage.bytes <= 98ull * HOLDS + SALES * 4096ull); /* 90 a buyer, 8 a hint, and the sales */

    uint64_t last_ms = 0, now_ms = 11000;
    uint32_t expired = 0;
    for (; expired < HOLDS; now_ms += 1 + dice_below(&dice, 2000)) {
        struct decision decision;
        uint32_t hints_left = UINT32_MAX;
        while (engine_decide_expiry(engine, now_ms, &hints_left, &decision)) {
            struct order order;
            assert_true(engine_order(engine, decision.ended.order_no, &order));
            assert_true(order.state == ORDER_HELD && order.pay_by_ms <= now_ms);
            assert_true(order.pay_by_ms + DEADLINE_TICK_MS > last_ms);
            if (order.pay_by_ms > last_ms) last_ms = order.pay_by_ms;
            engine_apply(engine, &decision);
            expired++;
        }
    }
    assert_int_equal(stage_expire(engine, UINT64_C(1) << 42), 0);
    for (uint32_t i = 0; i < SALES; i++) {
        struct sale sale = stage_look(engine, ids[i]);
        assert_int_equal(sale.counts.held, 0);
        assert_int_equal(sale.counts.available, HOLDS);
    }
    engine_close(engine);
}

/* The first winner pays last of all, or never: the hints of those who have paid wait behind theirs, and when it goes no call
 * looks at more of them than it was allowed. */
static void hints_of_a_million_who_paid_are_dropped_a_few_at_a_time(void **state)
{
    (void)state;
    enum { HOLDS = 1000000, HINTS_A_CALL = 32 };
    struct engine *engine = stage_open(HOLDS);
    struct sale_terms terms = stage_terms();
    terms.pay_within_s = 60;
    uint64_t id = stage_sale(engine, &terms, HOLDS), held_no[2] = { 0 };
    for (uint32_t i = 0; i < HOLDS; i++) {
        char buyer[17];
        snprintf(buyer, sizeof buyer, "buyer-%010u", i);
        assert_int_equal(stage_buy(engine, id, buyer, 1000 + i / 100), VERDICT_WON);
        if (i == 0 || i == HOLDS - 1) {
            held_no[i != 0] = engine_seq(engine);
            continue;
        }
        struct payment payment = { .order_no = engine_seq(engine), .ref = SLICE("p"), .amount = -1, .now_ms = 1000 };
        struct order order;
        assert_int_equal(stage_pay(engine, &payment, &order), VERDICT_DONE);
    }

    struct engine_usage usage;
    engine_usage(engine, &usage);
    assert_int_equal(usage.hints, HOLDS);
    uint32_t expired = 0, calls = 0, hints_left = 0;
    for (uint32_t hints = usage.hints; hints_left == 0; hints = usage.hints, calls++) {
        struct decision decision;
        hints_left = HINTS_A_CALL;
        while (engine_decide_expiry(engine, 80000, &hints_left, &decision)) {
            assert_true(expired < 2);
            assert_int_equal(decision.ended.order_no, held_no[expired++]);
            engine_apply(engine, &decision);
        }
        engine_usage(engine, &usage);
        assert_true(hints - usage.hints <= HINTS_A_CALL);
    }
    assert_int_equal(expired, 2);
    assert_int_equal(usage.hints, 0);
    assert_true(calls >= HOLDS / HINTS_A_CALL);
    engine_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_due_first_comes_first),
        cmocka_unit_test(order_survives_every_lap_of_the_ticks),
        cmocka_unit_test(what_is_long_due_goes_before_the_rest),
        cmocka_unit_test(hints_of_holds_that_were_paid_make_room),
        cmocka_unit_test(a_million_holds_expire_in_order),
        cmocka_unit_test(hints_dropped_in_turn_leave_the_rest_in_order),
        cmocka_unit_test(hints_never_fill_however_often_memory_is_used_again),
        cmocka_unit_test(hints_that_pass_for_those_of_holds_are_made_anew),
        cmocka_unit_test(hints_of_a_million_who_paid_are_dropped_a_few_at_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
