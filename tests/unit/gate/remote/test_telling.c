/* What a gate is told, and what its answers mean for an errand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gate/remote/telling.h"

#include <stdio.h>

static struct slice argv[64];
static char text[4096];

static struct telling told(void)
{
    struct telling telling;
    telling_init(&telling, argv, 64, text, sizeof text);
    return telling;
}

static void words_are(const struct telling *telling, const char *const *want)
{
    uint32_t at = 0;
    for (; want[at] != NULL; at++) {
        assert_true(at < telling->argc);
        assert_true(slice_is(telling->argv[at], want[at]));
    }
    assert_int_equal(telling->argc, at);
}

#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })

static struct ledger_shelved sale_make(void)
{
    struct ledger_shelved row = { .version = 31, .epoch = 4 };
    row.sale = (struct sale){ .id = 7, .seller = "shop", .paused = true, .orders_made = 9, .tokens_given = 2 };
    row.sale.counts = (struct sale_counts){ .offered = 10, .available = 5, .held = 3, .sold = 2 };
    row.sale.terms = (struct sale_terms){ .currency = "EUR",
                                          .price = -1,
                                          .units_per_grab_max = 2,
                                          .grabs_per_buyer_max = 3,
                                          .opens_ms = 100,
                                          .closes_ms = 200,
                                          .pay_within_s = 60,
                                          .admission = ADMISSION_TOKEN,
                                          .tokens_max = 50,
                                          .admit_max = 6,
                                          .late_payment = LATE_PAYMENT_REFUND,
                                          .event_id = 8 };
    return row;
}

static void a_load_tells_the_whole_sale(void **state)
{
    (void)state;
    struct ledger_shelved row = sale_make();
    struct telling_load load = { .sale = &row, .t_ms = 77, .log_max = 1000 };
    struct telling telling = told();
    telling_load_begin(&telling, &load);
    assert_int_equal(telling.argc, TELLING_LOAD_ARGS);
    words_are(&telling, WORDS("begin", "77", "10", "5", "3", "2", "9", "2", "-1", "2", "3", "100", "200", "60", "2", "50",
                              "1", "1", "0", "1000", "31"));
}

static void orders_and_tokens_are_items_of_a_chunk(void **state)
{
    (void)state;
    struct ledger_order row = { .payment_ref = "p1" };
    row.order = (struct order){ .no = INT64_MAX,
                                .buyer = "ann",
                                .key = "k",
                                .units = 2,
                                .amount = -1,
                                .state = ORDER_PAID,
                                .won_ms = 5,
                                .pay_by_ms = 6,
                                .token_nonce = 7 };
    struct ledger_token token = { .nonce = 8, .buyer = "bob" };
    struct telling telling = told();
    telling_order(&telling, &row);
    telling_token(&telling, &token);
    assert_int_equal(telling.argc, TELLING_ORDER_ARGS + TELLING_TOKEN_ARGS);
    words_are(&telling,
              WORDS("order", "9223372036854775807", "1", "2", "-1", "5", "6", "7", "ann", "k", "p1", "token", "bob", "8"));
}

/* The longest item there can be. */
static void an_item_fits_its_place(void **state)
{
    (void)state;
    struct ledger_order row;
    memset(&row, 0xff, sizeof row);
    row.order.no = row.order.won_ms = row.order.pay_by_ms = row.order.token_nonce = INT64_MAX;
    row.order.amount = INT64_MIN;
    memset(row.order.buyer, 'b', BUYER_BYTES_MAX);
    memset(row.order.key, 'k', IDEMPOTENCY_KEY_BYTES_MAX);
    memset(row.payment_ref, 'p', PAYMENT_REF_BYTES_MAX);
    row.order.buyer[BUYER_BYTES_MAX] = row.order.key[IDEMPOTENCY_KEY_BYTES_MAX] = row.payment_ref[PAYMENT_REF_BYTES_MAX] =
        '\0';
    struct telling telling = told();
    telling_order(&telling, &row);
    assert_true(telling.used <= TELLING_ITEM_BYTES);
}

static void every_errand_has_its_script(void **state)
{
    (void)state;
    struct errand_facts facts = { .found = true, .sale = sale_make() };
    facts.order.order = (struct order){ .no = 5, .buyer = "ann", .amount = 998 };
    snprintf(facts.order.payment_ref, sizeof facts.order.payment_ref, "p1");
    struct ledger_errand errand = { .id = 12, .kind = ERRAND_PAID, .sale_id = 7, .epoch = 4, .order_no = 5, .units = 3 };

    struct telling telling = told();
    assert_int_equal(errand_tell(&errand, &facts, &telling), GATE_SCRIPT_PAY);
    words_are(&telling, WORDS("5", "p1", "998", "paid"));

    errand.kind = ERRAND_REFUND;
    telling = told();
    assert_int_equal(errand_tell(&errand, &facts, &telling), GATE_SCRIPT_PAY);
    words_are(&telling, WORDS("5", "p1", "998", "refund_due"));

    errand.kind = ERRAND_CANCELLED;
    telling = told();
    assert_int_equal(errand_tell(&errand, &facts, &telling), GATE_SCRIPT_CANCEL);
    words_are(&telling, WORDS("5", "errand:12"));

    errand.kind = ERRAND_STOCK;
    telling = told();
    assert_int_equal(errand_tell(&errand, &facts, &telling), GATE_SCRIPT_RESTOCK);
    words_are(&telling, WORDS("errand:12", "3", "1"));

    errand.kind = ERRAND_SALE;
    telling = told();
    assert_int_equal(errand_tell(&errand, &facts, &telling), GATE_SCRIPT_CHANGE);
    words_are(&telling, WORDS("31", "-1", "2", "3", "100", "200", "60", "2", "50", "1", "1", "0"));
}

/* clang-format off */
static const struct { enum errand_kind kind; const char *word, *line; enum errand_end want; } answers[] = {
    { ERRAND_PAID,  "DONE",            NULL,                       ERRAND_DONE },
    { ERRAND_PAID,  "REPEATED",        NULL,                       ERRAND_DONE },
    { ERRAND_PAID,  "NOT_HELD",        "1 1 -1 1 9 0 3 0 2 annp1", ERRAND_DONE },
    { ERRAND_PAID,  "NOT_HELD",        "3 1 -1 1 9 0 3 0 0 ann",   ERRAND_OPPOSED },
    { ERRAND_PAID,  "NOT_HELD",        "?",                        ERRAND_OPPOSED },
    { ERRAND_PAID,  "NO_SUCH_ORDER",   NULL,                       ERRAND_OPPOSED },
    { ERRAND_PAID,  "AMOUNT_MISMATCH", NULL,                       ERRAND_OPPOSED },
    { ERRAND_REFUND, "DONE",           NULL,                       ERRAND_DONE },
    { ERRAND_REFUND, "REPEATED",       "4 1 -1 1 9 0 3 0 2 annp1", ERRAND_DONE },
    { ERRAND_REFUND, "REPEATED",       "1 1 -1 1 9 0 3 0 2 annp1", ERRAND_OPPOSED },
    { ERRAND_REFUND, "NOT_HELD",       "0 1 -1 1 9 0 3 0 0 ann",   ERRAND_EARLY },
    { ERRAND_REFUND, "ALREADY_PAID",   "4 1 -1 1 9 0 3 0 2 annp2", ERRAND_OPPOSED },
    { ERRAND_STOCK, "KEY_REUSED",      NULL,                       ERRAND_OPPOSED },
    { ERRAND_SALE,  "REPEATED",        NULL,                       ERRAND_DONE },
    { ERRAND_STOCK, "NOT_LOADED",      NULL,                       ERRAND_LATER },
    { ERRAND_STOCK, "FULL",            NULL,                       ERRAND_OPPOSED },
};
/* clang-format on */

static void answers_end_errands(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        struct errand_facts facts = { .found = true };
        facts.order.order.state = answers[i].kind == ERRAND_REFUND ? ORDER_REFUND_DUE : ORDER_PAID;
        struct ledger_errand errand = { .id = 1, .kind = answers[i].kind, .sale_id = 7, .epoch = 4, .order_no = 5 };
        struct redis_reply items[7] = { { .type = REDIS_TEXT, .text = slice_of(answers[i].word) },
                                        { .type = REDIS_NUMBER },
                                        { .type = REDIS_NUMBER },
                                        { .type = REDIS_TEXT, .text = SLICE("") },
                                        { .type = REDIS_TEXT, .text = SLICE("") },
                                        { .type = REDIS_TEXT, .text = SLICE("5") } };
        if (answers[i].line != NULL)
            items[6] = (struct redis_reply){ .type = REDIS_TEXT, .text = slice_of(answers[i].line) };
        struct redis_reply reply = { .type = REDIS_LIST, .items = items, .count = 7 };
        assert_int_equal(errand_judge(&errand, &facts, &reply), answers[i].want);
    }
}

/* A later gate was built from a ledger that had the errand; an older or equal one is the keeper's to see to. */
static void an_errand_is_done_where_the_gate_is_newer(void **state)
{
    (void)state;
    struct errand_facts facts = { .found = true };
    struct ledger_errand errand = { .id = 1, .kind = ERRAND_STOCK, .sale_id = 7, .epoch = 4 };
    static const char *const words[] = { "STALE", "LOADING" };
    static const char *const epochs[] = { "3", "4", "5" };
    for (int w = 0; w < 2; w++) {
        for (int e = 0; e < 3; e++) {
            struct redis_reply items[4] = { { .type = REDIS_TEXT, .text = slice_of(words[w]) },
                                            { .type = REDIS_TEXT, .text = SLICE("run") },
                                            { .type = REDIS_TEXT, .text = slice_of(epochs[e]) },
                                            { .type = REDIS_NUMBER } };
            struct redis_reply reply = { .type = REDIS_LIST, .items = items, .count = 4 };
            assert_int_equal(errand_judge(&errand, &facts, &reply), e == 2 ? ERRAND_DONE : ERRAND_LATER);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_load_tells_the_whole_sale), cmocka_unit_test(orders_and_tokens_are_items_of_a_chunk),
        cmocka_unit_test(an_item_fits_its_place),      cmocka_unit_test(every_errand_has_its_script),
        cmocka_unit_test(answers_end_errands),         cmocka_unit_test(an_errand_is_done_where_the_gate_is_newer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
