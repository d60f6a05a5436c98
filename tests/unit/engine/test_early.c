/* The refusal without a lock, asked by threads while another decides. Run under ThreadSanitizer too. */
#include "stage.h"

#include "base/random.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define READERS 2

struct street {
    struct engine *engine;
    uint64_t sale_id;
    _Atomic uint64_t other_id; /* of a test's own */
    _Atomic uint32_t winners;  /* buyers 0 … winners - 1 have won */
    _Atomic bool over;
    _Atomic uint64_t wrong, refused;
    void (*ask)(struct street *street, uint32_t turn);
};

static struct slice buyer_name(char out[32], const char *kind, uint32_t n)
{
    return (struct slice){ out, (size_t)snprintf(out, 32, "%s%u", kind, n) };
}

static enum verdict ask(const struct street *street, uint64_t sale_id, struct slice buyer)
{
    struct grab grab = { .sale_id = sale_id, .buyer = buyer, .units = 1, .now_ms = 10 };
    return engine_refuse_early(street->engine, &grab);
}

static void *reader_run(void *arg)
{
    struct street *street = arg;
    for (uint32_t turn = 0; !atomic_load(&street->over); turn++) street->ask(street, turn);
    return NULL;
}

static void with_readers(struct street *street, void (*write)(struct street *street))
{
    pthread_t readers[READERS];
    for (int i = 0; i < READERS; i++) assert_int_equal(pthread_create(&readers[i], NULL, reader_run, street), 0);
    write(street);
    atomic_store(&street->over, true);
    for (int i = 0; i < READERS; i++) pthread_join(readers[i], NULL);
    assert_int_equal(atomic_load(&street->wrong), 0);
}

static void street_open(struct street *street, uint32_t stock, void (*ask_one)(struct street *street, uint32_t turn))
{
    struct sale_terms terms = stage_terms();
    *street = (struct street){ .engine = stage_open(100000), .ask = ask_one };
    street->sale_id = stage_sale(street->engine, &terms, stock);
}

static void ask_winner(struct street *street, uint32_t turn)
{
    char name[32];
    uint32_t winners = atomic_load(&street->winners);
    if (winners == 0) return;
    if (ask(street, street->sale_id, buyer_name(name, "w", turn % winners)) != VERDICT_DONE)
        atomic_fetch_add(&street->wrong, 1);
    if (ask(street, street->sale_id, buyer_name(name, "stranger", turn)) == VERDICT_SOLD_OUT)
        atomic_fetch_add(&street->refused, 1);
}

/* One by one: restocked by one, sold out by one. */
static void sell_all(struct street *street)
{
    for (uint32_t i = 0; i < 5000 || atomic_load(&street->refused) == 0; i++) {
        char name[32];
        assert_int_equal(stage_stock(street->engine, street->sale_id, 1, 10), VERDICT_DONE);
        buyer_name(name, "w", i);
        assert_int_equal(stage_buy(street->engine, street->sale_id, name, 10), VERDICT_WON);
        atomic_store(&street->winners, i + 1);
    }
}

static void a_winner_is_never_told_sold_out(void **state)
{
    (void)state;
    struct street street;
    street_open(&street, 0, ask_winner);
    with_readers(&street, sell_all);
    assert_true(atomic_load(&street.refused) > 0);
    engine_close(street.engine);
}

static void ask_stranger(struct street *street, uint32_t turn)
{
    char name[32];
    if (ask(street, street->sale_id, buyer_name(name, "stranger", turn)) != VERDICT_DONE)
        atomic_fetch_add(&street->wrong, 1);
}

/* Nothing is left only while the sale is paused: at no moment is "sold out" the answer. */
static void empty_while_paused(struct street *street)
{
    for (int i = 0; i < 5000; i++) {
        assert_int_equal(stage_switch(street->engine, street->sale_id, DECISION_SALE_PAUSED, 10), VERDICT_DONE);
        assert_int_equal(stage_stock(street->engine, street->sale_id, -3, 10), VERDICT_DONE);
        assert_int_equal(stage_stock(street->engine, street->sale_id, 3, 10), VERDICT_DONE);
        assert_int_equal(stage_switch(street->engine, street->sale_id, DECISION_SALE_RESUMED, 10), VERDICT_DONE);
    }
}

static void a_sale_with_stock_while_it_runs_turns_nobody_away(void **state)
{
    (void)state;
    struct street street;
    street_open(&street, 3, ask_stranger);
    with_readers(&street, empty_while_paused);
    engine_close(street.engine);
}

static void ask_old_sale(struct street *street, uint32_t turn)
{
    char name[32];
    uint64_t id = atomic_load(&street->other_id);
    if (ask(street, id, buyer_name(name, "stranger", turn)) != VERDICT_DONE) atomic_fetch_add(&street->wrong, 1);
}

/* Sales take turns in one slot. Those that are asked for have stock till they close; those in between have none. */
static void share_a_slot(struct street *street)
{
    struct sale_terms terms = stage_terms();
    for (uint32_t i = 0; i < 2000; i++) {
        char name[32];
        snprintf(name, sizeof name, "sale %u", i);
        stage_rename(&terms, name);
        uint64_t id = stage_sale(street->engine, &terms, i % 2 == 0 ? 3 : 0);
        if (i % 2 == 0) atomic_store(&street->other_id, id);
        assert_int_equal(stage_switch(street->engine, id, DECISION_SALE_CLOSED, 10), VERDICT_DONE);
        assert_true(engine_forget(street->engine, id, 1, 10));
        engine_load_point(street->engine, engine_seq(street->engine), engine_digest(street->engine), id + SALES_OPEN_MAX - 1,
                          10);
    }
}

static void the_next_sale_in_a_slot_is_not_mistaken_for_the_last(void **state)
{
    (void)state;
    struct street street;
    street_open(&street, 3, ask_old_sale);
    atomic_store(&street.other_id, street.sale_id);
    with_readers(&street, share_a_slot);
    engine_close(street.engine);
}

struct early_row {
    const char *buyer, *key;
    uint32_t units;
    uint64_t at_ms;
    enum verdict want;
};

/* Sold out, open on [1000, 2000), ann has won. A stranger may by chance share a bucket with ann, so several are asked. */
static void only_a_running_sale_with_nothing_left_is_refused_early(void **state)
{
    (void)state;
    struct engine *engine = stage_open(1000);
    struct sale_terms terms = stage_terms();
    terms.opens_ms = 1000;
    terms.closes_ms = 2000;
    terms.units_per_grab_max = 2;
    uint64_t id = stage_sale(engine, &terms, 1);
    struct grab grab = { .sale_id = id, .buyer = SLICE("bob"), .units = 1, .now_ms = 1500 };
    assert_int_equal(engine_refuse_early(engine, &grab), VERDICT_DONE);
    grab.units = 2; /* more than is left, but something is */
    assert_int_equal(engine_refuse_early(engine, &grab), VERDICT_DONE);
    assert_int_equal(stage_buy(engine, id, "ann", 1500), VERDICT_WON);

    static const struct early_row rows[] = {
        { "bob", NULL, 1, 1500, VERDICT_SOLD_OUT }, { "bob", "k", 2, 1999, VERDICT_SOLD_OUT },
        { "ann", NULL, 1, 1500, VERDICT_DONE },     { "ann", "k", 1, 1500, VERDICT_DONE },
        { "bob", NULL, 3, 1500, VERDICT_DONE },     { "bob", NULL, 1, 999, VERDICT_DONE },
        { "bob", NULL, 1, 2000, VERDICT_DONE },     { "bob", NULL, 0, 1500, VERDICT_DONE },
        { NULL, NULL, 1, 1500, VERDICT_DONE },      { NULL, "k", 1, 1500, VERDICT_DONE },
        { "key:x", NULL, 1, 1500, VERDICT_DONE },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        grab = (struct grab){ .sale_id = id, .units = rows[i].units, .now_ms = rows[i].at_ms };
        if (rows[i].buyer != NULL) grab.buyer = slice_of(rows[i].buyer);
        if (rows[i].key != NULL) grab.key = slice_of(rows[i].key);
        enum verdict got = engine_refuse_early(engine, &grab);
        if (got == VERDICT_DONE && rows[i].want == VERDICT_SOLD_OUT) {
            grab.buyer = SLICE("bill"); /* bob's bucket is ann's, once in so many runs as there are buckets */
            got = engine_refuse_early(engine, &grab);
        }
        assert_same_verdict(got, rows[i].want, "early", i);
    }

    grab = (struct grab){ .sale_id = id + 1, .buyer = SLICE("bob"), .units = 1, .now_ms = 1500 };
    assert_int_equal(engine_refuse_early(engine, &grab), VERDICT_DONE);
    grab.sale_id = id;
    assert_int_equal(stage_switch(engine, id, DECISION_SALE_PAUSED, 1600), VERDICT_DONE);
    assert_int_equal(engine_refuse_early(engine, &grab), VERDICT_DONE);
    assert_int_equal(stage_switch(engine, id, DECISION_SALE_RESUMED, 1600), VERDICT_DONE);
    assert_int_equal(stage_stock(engine, id, 1, 1600), VERDICT_DONE);
    assert_int_equal(engine_refuse_early(engine, &grab), VERDICT_DONE);
    assert_int_equal(stage_stock(engine, id, -1, 1600), VERDICT_DONE);
    assert_int_equal(stage_switch(engine, id, DECISION_SALE_CLOSED, 1600), VERDICT_DONE);
    assert_int_equal(engine_refuse_early(engine, &grab), VERDICT_DONE);
    engine_close(engine);
}

static void open_admission_is_refused_early_too(void **state)
{
    (void)state;
    struct engine *engine = stage_open(100000);
    struct sale_terms terms = stage_terms();
    terms.admission = ADMISSION_OPEN;
    uint64_t id = stage_sale(engine, &terms, 1);
    struct grab grab = { .sale_id = id, .key = SLICE("winner"), .units = 1, .now_ms = 1 };
    struct grab_answer answer;
    assert_int_equal(stage_grab(engine, &grab, &answer), VERDICT_WON);
    assert_int_equal(engine_refuse_early(engine, &grab), VERDICT_DONE);
    grab.key = SLICE("");
    assert_int_equal(engine_refuse_early(engine, &grab), VERDICT_SOLD_OUT);
    engine_close(engine);
}

/* Most of a crowd must be turned away outside: with a tenth of the orders there may be, nine in ten or so. */
static void most_strangers_are_turned_away_early(void **state)
{
    (void)state;
    struct engine *engine = stage_open(16384);
    struct sale_terms terms = stage_terms();
    uint64_t id = stage_sale(engine, &terms, 1638);
    char name[32];
    for (uint32_t i = 0; i < 1638; i++) {
        buyer_name(name, "w", i);
        assert_int_equal(stage_buy(engine, id, name, 1), VERDICT_WON);
    }
    uint32_t refused = 0;
    for (uint32_t i = 0; i < 10000; i++) {
        struct grab grab = { .sale_id = id, .buyer = buyer_name(name, "s", i), .units = 1, .now_ms = 1 };
        refused += engine_refuse_early(engine, &grab) == VERDICT_SOLD_OUT;
    }
    assert_in_range(refused, 8700, 10000);
    engine_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_winner_is_never_told_sold_out),
        cmocka_unit_test(a_sale_with_stock_while_it_runs_turns_nobody_away),
        cmocka_unit_test(the_next_sale_in_a_slot_is_not_mistaken_for_the_last),
        cmocka_unit_test(only_a_running_sale_with_nothing_left_is_refused_early),
        cmocka_unit_test(open_admission_is_refused_early_too),
        cmocka_unit_test(most_strangers_are_turned_away_early),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
