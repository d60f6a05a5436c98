#include "stage.h"

#include <string.h>

static void plain_terms_stand(void **state)
{
    (void)state;
    struct sale_terms terms = stage_terms();
    assert_null(sale_terms_objection(&terms));
}

#define REFUSED(field, value)                                                                                               \
    do {                                                                                                                    \
        struct sale_terms terms = stage_terms();                                                                            \
        terms.field = (value);                                                                                              \
        assert_non_null(sale_terms_objection(&terms));                                                                      \
    } while (0)
#define ALLOWED(field, value)                                                                                               \
    do {                                                                                                                    \
        struct sale_terms terms = stage_terms();                                                                            \
        terms.field = (value);                                                                                              \
        assert_null(sale_terms_objection(&terms));                                                                          \
    } while (0)

static void numbers_stay_within_their_bounds(void **state)
{
    (void)state;
    ALLOWED(price, 0);
    ALLOWED(price, PRICE_MAX);
    REFUSED(price, -2);
    REFUSED(price, INT64_MIN);
    REFUSED(price, PRICE_MAX + 1);
    REFUSED(price, INT64_MAX);
    ALLOWED(units_per_grab_max, UNITS_PER_GRAB_MAX);
    REFUSED(units_per_grab_max, 0);
    REFUSED(units_per_grab_max, UNITS_PER_GRAB_MAX + 1);
    REFUSED(units_per_grab_max, UINT32_MAX);
    ALLOWED(grabs_per_buyer_max, GRABS_PER_BUYER_MAX);
    REFUSED(grabs_per_buyer_max, 0);
    REFUSED(grabs_per_buyer_max, GRABS_PER_BUYER_MAX + 1);
    REFUSED(grabs_per_buyer_max, UINT32_MAX);
    ALLOWED(opens_ms, TIME_MS_MAX);
    REFUSED(opens_ms, TIME_MS_MAX + 1);
    REFUSED(opens_ms, UINT64_MAX);
    ALLOWED(closes_ms, TIME_MS_MAX);
    REFUSED(closes_ms, TIME_MS_MAX + 1);
    REFUSED(closes_ms, UINT64_MAX);
    ALLOWED(pay_within_s, PAY_WITHIN_S_MAX);
    REFUSED(pay_within_s, PAY_WITHIN_S_MAX + 1);
    REFUSED(pay_within_s, UINT32_MAX);
    ALLOWED(admission, ADMISSION_OPEN);
    ALLOWED(admission, ADMISSION_TOKEN);
    REFUSED(admission, (enum admission)4);
    REFUSED(admission, (enum admission)UINT32_MAX);
    ALLOWED(tokens_max, TOKENS_MAX);
    REFUSED(tokens_max, TOKENS_MAX + 1);
    REFUSED(tokens_max, UINT32_MAX);
    ALLOWED(admit_max, ADMIT_MAX);
    REFUSED(admit_max, ADMIT_MAX + 1);
    REFUSED(admit_max, UINT32_MAX);
    ALLOWED(late_payment, LATE_PAYMENT_REFUND);
    REFUSED(late_payment, (enum late_payment)2);
    REFUSED(late_payment, (enum late_payment)UINT32_MAX);
    ALLOWED(event_id, UINT64_MAX);
}

static const char *line_of(enum admission admission, uint32_t rate_per_s, uint32_t size, uint32_t timeout_ms,
                           const char *name)
{
    struct sale_terms terms = stage_terms();
    terms.admission = admission;
    terms.line_rate_per_s = rate_per_s;
    terms.line_size = size;
    terms.line_timeout_ms = timeout_ms;
    memcpy(terms.line_name, name, strlen(name) < sizeof terms.line_name ? strlen(name) : sizeof terms.line_name);
    return sale_terms_objection(&terms);
}

static void a_line_is_three_numbers_or_a_name(void **state)
{
    (void)state;
    assert_null(line_of(ADMISSION_LINE, 1, 1, 1, ""));
    assert_null(line_of(ADMISSION_LINE, LINE_RATE_MAX, LINE_SIZE_MAX, LINE_TIMEOUT_MS_MAX, ""));
    assert_null(line_of(ADMISSION_LINE, 0, 0, 0, "main-hall_2"));
    assert_null(line_of(ADMISSION_LINE, 0, 0, 0, "a name of 32 bytes has no spaces" + 31));
    assert_null(line_of(ADMISSION_LOGIN, 0, 0, 0, ""));
    assert_null(line_of(ADMISSION_LOGIN, 5, 5, 5, "")); /* not used until the admission says so */

    assert_string_equal(line_of(ADMISSION_LINE, 0, 0, 0, ""), "admission line needs a line");
    assert_non_null(line_of(ADMISSION_LINE, 1, 1, 0, ""));
    assert_non_null(line_of(ADMISSION_LINE, 1, 0, 1, ""));
    assert_non_null(line_of(ADMISSION_LINE, 0, 1, 1, ""));
    assert_non_null(line_of(ADMISSION_LINE, 1, 1, 1, "hall"));
    assert_non_null(line_of(ADMISSION_LINE, LINE_RATE_MAX + 1, 1, 1, ""));
    assert_non_null(line_of(ADMISSION_LINE, 1, LINE_SIZE_MAX + 1, 1, ""));
    assert_non_null(line_of(ADMISSION_LINE, 1, 1, LINE_TIMEOUT_MS_MAX + 1, ""));
    assert_non_null(line_of(ADMISSION_LINE, 0, 0, 0, "two words"));
    assert_non_null(line_of(ADMISSION_LINE, 0, 0, 0, "dot.ted"));
    assert_non_null(line_of(ADMISSION_LINE, 0, 0, 0, "name-that-is-longer-than-thirty-two-bytes"));
}

static void terms_are_equal_in_every_field_or_not_at_all(void **state)
{
    (void)state;
    const struct sale_terms plain = stage_terms();
    assert_true(sale_terms_equal(&plain, &plain));
#define DIFFERS(change)                                                                                                     \
    do {                                                                                                                    \
        struct sale_terms t = plain;                                                                                        \
        change;                                                                                                             \
        assert_false(sale_terms_equal(&t, &plain));                                                                         \
    } while (0)
    DIFFERS(t.name[0] = 'z');
    DIFFERS(t.description[0] = 'z');
    DIFFERS(t.currency[0] = 'Z');
    DIFFERS(t.price++);
    DIFFERS(t.units_per_grab_max++);
    DIFFERS(t.grabs_per_buyer_max++);
    DIFFERS(t.opens_ms++);
    DIFFERS(t.closes_ms++);
    DIFFERS(t.pay_within_s++);
    DIFFERS(t.admission = ADMISSION_LINE);
    DIFFERS(t.tokens_max++);
    DIFFERS(t.admit_max++);
    DIFFERS(t.line_rate_per_s++);
    DIFFERS(t.line_size++);
    DIFFERS(t.line_timeout_ms++);
    DIFFERS(t.line_name[0] = 'z');
    DIFFERS(t.late_payment = LATE_PAYMENT_REFUND);
    DIFFERS(t.event_id++);
}

static void texts_end_within_their_arrays(void **state)
{
    (void)state;
    struct sale_terms terms = stage_terms();
    memset(terms.name, 'n', SALE_NAME_BYTES_MAX);
    terms.name[SALE_NAME_BYTES_MAX] = '\0';
    assert_null(sale_terms_objection(&terms));
    terms.name[SALE_NAME_BYTES_MAX] = 'n';
    assert_non_null(sale_terms_objection(&terms));

    terms = stage_terms();
    memset(terms.description, 'd', sizeof terms.description);
    assert_non_null(sale_terms_objection(&terms));
    terms = stage_terms();
    memset(terms.currency, 'E', sizeof terms.currency);
    assert_non_null(sale_terms_objection(&terms));
    terms = stage_terms();
    terms.name[0] = '\0';
    assert_non_null(sale_terms_objection(&terms));
}

static void terms_may_not_contradict_each_other(void **state)
{
    (void)state;
    struct sale_terms terms = stage_terms();
    terms.opens_ms = 1000;
    terms.closes_ms = 1000;
    assert_non_null(sale_terms_objection(&terms));
    terms.closes_ms = 1001;
    assert_null(sale_terms_objection(&terms));

    terms.price = PRICE_MAX;
    terms.units_per_grab_max = 9007;
    assert_null(sale_terms_objection(&terms));
    terms.units_per_grab_max = 9008;
    assert_non_null(sale_terms_objection(&terms));
    terms.units_per_grab_max = 0;
    assert_non_null(sale_terms_objection(&terms));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_terms_stand),
        cmocka_unit_test(numbers_stay_within_their_bounds),
        cmocka_unit_test(a_line_is_three_numbers_or_a_name),
        cmocka_unit_test(terms_are_equal_in_every_field_or_not_at_all),
        cmocka_unit_test(texts_end_within_their_arrays),
        cmocka_unit_test(terms_may_not_contradict_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
