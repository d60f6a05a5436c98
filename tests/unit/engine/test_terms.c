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
    REFUSED(admission, (enum admission)2);
    REFUSED(admission, (enum admission)UINT32_MAX);
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
        cmocka_unit_test(texts_end_within_their_arrays),
        cmocka_unit_test(terms_may_not_contradict_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
