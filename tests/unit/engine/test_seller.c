/* What sellers may do: create, change, add and withdraw stock, pause, resume and close. */
#include "stage.h"

#include <string.h>

static void names_are_taken_per_seller(void **state)
{
    (void)state;
    struct engine *engine = stage_open(10);
    struct sale_terms terms = stage_terms();
    assert_int_equal(stage_create(engine, "sam", &terms, 1, 0), VERDICT_DONE);
    assert_int_equal(stage_create(engine, "sam", &terms, 1, 0), VERDICT_NAME_TAKEN);
    assert_int_equal(stage_create(engine, "sue", &terms, 1, 0), VERDICT_DONE);
    stage_rename(&terms, "Shoes");
    assert_int_equal(stage_create(engine, "sam", &terms, 1, 0), VERDICT_DONE);
    assert_int_equal(engine_sale_by_name(engine, SLICE("sue"), SLICE("shoes")), 2);
    assert_int_equal(engine_sale_by_name(engine, SLICE("sue"), SLICE("Shoes")), 0);
    engine_close(engine);
}

static void impossible_sales_are_refused(void **state)
{
    (void)state;
    struct engine *engine = stage_open(10);
    struct sale_terms terms = stage_terms();
    char long_seller[USERNAME_BYTES_MAX + 2];
    memset(long_seller, 's', sizeof long_seller);
    long_seller[sizeof long_seller - 1] = '\0';
    assert_int_equal(stage_create(engine, "", &terms, 1, 0), VERDICT_BAD_INPUT);
    assert_int_equal(stage_create(engine, long_seller, &terms, 1, 0), VERDICT_BAD_INPUT);
    assert_int_equal(stage_create(engine, "sam", &terms, STOCK_MAX + 1, 0), VERDICT_BAD_INPUT);
    assert_int_equal(stage_create(engine, "sam", &terms, UINT32_MAX, 0), VERDICT_BAD_INPUT);
    terms.closes_ms = 5;
    terms.opens_ms = 5;
    assert_int_equal(stage_create(engine, "sam", &terms, 1, 0), VERDICT_BAD_INPUT);
    assert_int_equal(engine_seq(engine), 0);
    terms.closes_ms = 6;
    assert_int_equal(stage_create(engine, "sam", &terms, STOCK_MAX, 0), VERDICT_DONE);
    engine_close(engine);
}

/* P8: a sale of someone else does not exist for a seller; it does for an admin. */
static void a_sale_is_changed_by_its_seller_or_an_admin(void **state)
{
    (void)state;
    struct engine *engine = stage_open(10);
    struct sale_terms terms = stage_terms();
    uint64_t id = stage_sale(engine, &terms, 5);
    static const struct {
        struct asker asker;
        enum verdict want;
    } rows[] = {
        { { .name = { "sam", 3 } }, VERDICT_DONE },
        { { .name = { "sue", 3 } }, VERDICT_NO_SUCH_SALE },
        { { .name = { "Sam", 3 } }, VERDICT_NO_SUCH_SALE },
        { { .name = { "sa", 2 } }, VERDICT_NO_SUCH_SALE },
        { { .name = { "samm", 4 } }, VERDICT_NO_SUCH_SALE },
        { { .name = { "", 0 } }, VERDICT_NO_SUCH_SALE },
        { { .name = { "root", 4 }, .admin = true }, VERDICT_DONE },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct decision out;
        const struct asker *asker = &rows[i].asker;
        assert_same_verdict(engine_decide_change(engine, ASKER_AT(asker, 1), id, &terms, &out), rows[i].want, "change", i);
        assert_same_verdict(engine_decide_stock(engine, ASKER_AT(asker, 1), id, 1, &out), rows[i].want, "stock", i);
        assert_same_verdict(engine_decide_switch(engine, ASKER_AT(asker, 1), id, DECISION_SALE_PAUSED, &out), rows[i].want,
                            "switch", i);
        assert_int_equal(engine_decide_stock(engine, ASKER_AT(asker, 1), id + 1, 1, &out), VERDICT_NO_SUCH_SALE);
    }
    engine_close(engine);
}

static void set_name(struct sale_terms *terms)
{
    stage_rename(terms, "boots");
}
static void set_description(struct sale_terms *terms)
{
    terms->description[0] = 'd';
}
static void set_currency(struct sale_terms *terms)
{
    memcpy(terms->currency, "EUR", 4);
}
static void set_price(struct sale_terms *terms)
{
    terms->price = 7;
}
static void set_no_price(struct sale_terms *terms)
{
    terms->price = -1;
}
static void set_units(struct sale_terms *terms)
{
    terms->units_per_grab_max = 3;
}
static void set_grabs(struct sale_terms *terms)
{
    terms->grabs_per_buyer_max = 3;
}
static void set_opens(struct sale_terms *terms)
{
    terms->opens_ms = 999;
}
static void set_closes_later(struct sale_terms *terms)
{
    terms->closes_ms = 2001;
}
static void set_closes_earlier(struct sale_terms *terms)
{
    terms->closes_ms = 1999;
}
static void set_closes_never(struct sale_terms *terms)
{
    terms->closes_ms = 0;
}
static void set_pay_within(struct sale_terms *terms)
{
    terms->pay_within_s = 9;
}
static void set_admission(struct sale_terms *terms)
{
    terms->admission = ADMISSION_OPEN;
}
static void set_late_payment(struct sale_terms *terms)
{
    terms->late_payment = LATE_PAYMENT_REFUND;
}
static void set_event(struct sale_terms *terms)
{
    terms->event_id = 3;
}
static void set_nothing(struct sale_terms *terms)
{
    (void)terms;
}
static void set_contradiction(struct sale_terms *terms)
{
    terms->closes_ms = 1;
}

/* The sale is open on [1000, 2000). Before that all may change. */
static void what_may_change_depends_on_whether_the_sale_has_opened(void **state)
{
    (void)state;
    static const struct {
        void (*set)(struct sale_terms *terms);
        enum verdict while_open;
    } rows[] = {
        { set_name, VERDICT_DONE },           { set_description, VERDICT_DONE },         { set_currency, VERDICT_SALE_OPEN },
        { set_price, VERDICT_SALE_OPEN },     { set_no_price, VERDICT_SALE_OPEN },       { set_units, VERDICT_SALE_OPEN },
        { set_grabs, VERDICT_SALE_OPEN },     { set_opens, VERDICT_SALE_OPEN },          { set_closes_later, VERDICT_DONE },
        { set_closes_never, VERDICT_DONE },   { set_closes_earlier, VERDICT_SALE_OPEN }, { set_pay_within, VERDICT_DONE },
        { set_admission, VERDICT_SALE_OPEN }, { set_late_payment, VERDICT_SALE_OPEN },   { set_event, VERDICT_SALE_OPEN },
        { set_nothing, VERDICT_DONE },        { set_contradiction, VERDICT_BAD_INPUT },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct engine *engine = stage_open(10);
        struct sale_terms terms = stage_terms();
        terms.opens_ms = 1000;
        terms.closes_ms = 2000;
        terms.price = 5;
        uint64_t id = stage_sale(engine, &terms, 5);
        struct sale_terms changed = terms;
        rows[i].set(&changed);

        struct decision out;
        const struct asker admin = { .admin = true };
        enum verdict before = rows[i].while_open == VERDICT_BAD_INPUT ? VERDICT_BAD_INPUT : VERDICT_DONE;
        enum verdict after = rows[i].while_open == VERDICT_BAD_INPUT ? VERDICT_BAD_INPUT : VERDICT_CLOSED;
        assert_same_verdict(engine_decide_change(engine, ASKER_AT(&admin, 999), id, &changed, &out), before, "before", i);
        assert_same_verdict(engine_decide_change(engine, ASKER_AT(&admin, 2000), id, &changed, &out), after, "after", i);
        assert_same_verdict(stage_change(engine, id, &changed, 1000), rows[i].while_open, "open", i);
        struct sale sale = stage_look(engine, id);
        assert_same_terms(&sale.terms, rows[i].while_open == VERDICT_DONE ? &changed : &terms);
        engine_close(engine);
    }
}

static void an_open_sale_without_an_end_is_not_given_one(void **state)
{
    (void)state;
    struct engine *engine = stage_open(10);
    struct sale_terms terms = stage_terms();
    uint64_t id = stage_sale(engine, &terms, 5);
    terms.closes_ms = 5000;
    assert_int_equal(stage_change(engine, id, &terms, 1), VERDICT_SALE_OPEN);
    engine_close(engine);
}

static void renaming_frees_the_old_name(void **state)
{
    (void)state;
    struct engine *engine = stage_open(10);
    struct sale_terms terms = stage_terms(), other = stage_terms();
    uint64_t shoes = stage_sale(engine, &terms, 5);
    stage_rename(&other, "hats");
    uint64_t hats = stage_sale(engine, &other, 5);

    assert_int_equal(stage_change(engine, shoes, &other, 1), VERDICT_NAME_TAKEN);
    stage_rename(&terms, "boots");
    assert_int_equal(stage_change(engine, shoes, &terms, 1), VERDICT_DONE);
    assert_int_equal(engine_sale_by_name(engine, SLICE("sam"), SLICE("shoes")), 0);
    assert_int_equal(engine_sale_by_name(engine, SLICE("sam"), SLICE("boots")), shoes);
    stage_rename(&other, "shoes");
    assert_int_equal(stage_change(engine, hats, &other, 1), VERDICT_DONE);
    assert_int_equal(engine_sale_by_name(engine, SLICE("sam"), SLICE("shoes")), hats);
    stage_rename(&terms, "hats");
    assert_int_equal(stage_create(engine, "sam", &terms, 1, 1), VERDICT_DONE);
    engine_close(engine);
}

/* A sale of 5, of which 2 are sold. */
static void stock_is_added_and_withdrawn_within_what_is_there(void **state)
{
    (void)state;
    static const struct {
        int64_t add;
        enum verdict want;
        uint32_t offered, available;
    } rows[] = {
        { -4, VERDICT_NOT_AVAILABLE, 5, 3 },
        { -3, VERDICT_DONE, 2, 0 },
        { -1, VERDICT_NOT_AVAILABLE, 2, 0 },
        { 1, VERDICT_DONE, 3, 1 },
        { 0, VERDICT_DONE, 3, 1 },
        { INT64_MIN, VERDICT_NOT_AVAILABLE, 3, 1 },
        { INT64_MAX, VERDICT_NOT_AVAILABLE, 3, 1 },
        { -INT64_C(4294967295), VERDICT_NOT_AVAILABLE, 3, 1 },
        { INT64_C(4294967296), VERDICT_NOT_AVAILABLE, 3, 1 },
        { (int64_t)STOCK_MAX - 2, VERDICT_NOT_AVAILABLE, 3, 1 },
        { (int64_t)STOCK_MAX - 3, VERDICT_DONE, STOCK_MAX, STOCK_MAX - 2 },
        { 1, VERDICT_NOT_AVAILABLE, STOCK_MAX, STOCK_MAX - 2 },
    };
    struct engine *engine = stage_open(10);
    struct sale_terms terms = stage_terms();
    uint64_t id = stage_sale(engine, &terms, 5);
    assert_int_equal(stage_buy(engine, id, "ann", 1), VERDICT_WON);
    assert_int_equal(stage_buy(engine, id, "bob", 1), VERDICT_WON);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_same_verdict(stage_stock(engine, id, rows[i].add, 2), rows[i].want, "stock", i);
        struct sale sale = stage_look(engine, id);
        assert_int_equal(sale.counts.offered, rows[i].offered);
        assert_int_equal(sale.counts.available, rows[i].available);
        assert_int_equal(sale.counts.sold, 2);
    }
    engine_close(engine);
}

static void switches_work_once_and_closing_is_for_good(void **state)
{
    (void)state;
    static const struct {
        enum decision_kind kind;
        enum verdict want;
    } rows[] = {
        { DECISION_SALE_RESUMED, VERDICT_NOT_PAUSED }, { DECISION_SALE_PAUSED, VERDICT_DONE },
        { DECISION_SALE_PAUSED, VERDICT_PAUSED },      { DECISION_SALE_RESUMED, VERDICT_DONE },
        { DECISION_SALE_RESUMED, VERDICT_NOT_PAUSED }, { DECISION_SALE_PAUSED, VERDICT_DONE },
        { DECISION_SALE_CLOSED, VERDICT_DONE },        { DECISION_SALE_CLOSED, VERDICT_CLOSED },
        { DECISION_SALE_PAUSED, VERDICT_CLOSED },      { DECISION_SALE_RESUMED, VERDICT_CLOSED },
    };
    struct engine *engine = stage_open(10);
    struct sale_terms terms = stage_terms();
    uint64_t id = stage_sale(engine, &terms, 5);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_same_verdict(stage_switch(engine, id, rows[i].kind, 5), rows[i].want, "switch", i);
    assert_int_equal(stage_stock(engine, id, 1, 5), VERDICT_CLOSED);
    assert_int_equal(stage_change(engine, id, &terms, 5), VERDICT_CLOSED);
    engine_close(engine);
}

static void a_sale_past_its_end_is_closed_to_its_seller_too(void **state)
{
    (void)state;
    struct engine *engine = stage_open(10);
    struct sale_terms terms = stage_terms();
    terms.closes_ms = 100;
    uint64_t id = stage_sale(engine, &terms, 5);
    assert_int_equal(stage_stock(engine, id, 1, 99), VERDICT_DONE);
    assert_int_equal(stage_stock(engine, id, 1, 100), VERDICT_CLOSED);
    assert_int_equal(stage_switch(engine, id, DECISION_SALE_CLOSED, 100), VERDICT_CLOSED);
    terms.closes_ms = 1000;
    assert_int_equal(stage_change(engine, id, &terms, 100), VERDICT_CLOSED);
    engine_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_taken_per_seller),
        cmocka_unit_test(impossible_sales_are_refused),
        cmocka_unit_test(a_sale_is_changed_by_its_seller_or_an_admin),
        cmocka_unit_test(what_may_change_depends_on_whether_the_sale_has_opened),
        cmocka_unit_test(an_open_sale_without_an_end_is_not_given_one),
        cmocka_unit_test(renaming_frees_the_old_name),
        cmocka_unit_test(stock_is_added_and_withdrawn_within_what_is_there),
        cmocka_unit_test(switches_work_once_and_closing_is_for_good),
        cmocka_unit_test(a_sale_past_its_end_is_closed_to_its_seller_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
