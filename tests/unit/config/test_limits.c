/* The table of limits, and the text of the option: strict, and a mistake says which number it is about. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "config/limits.h"

#include <stdio.h>
#include <string.h>

static struct limit_terms terms_none(void)
{
    struct limit_terms terms;
    limit_terms_default(&terms);
    for (size_t i = 0; i < LIMIT_ROWS; i++) limit_terms_set(&terms, &limit_rows[i], limit_rows[i].min);
    return terms;
}

static void every_number_has_a_row_with_bounds_and_a_sentence(void **state)
{
    (void)state;
    struct limit_terms terms;
    memset(&terms, 0xff, sizeof(terms));
    limit_terms_default(&terms);
    char mistake[LIMIT_MISTAKE_BYTES];
    assert_true(limit_terms_valid(&terms, mistake));
    /* Who logs in or registers is nobody yet. */
    assert_int_equal(sizeof(terms), (LIMIT_ROWS + 4) * sizeof(int64_t));
    assert_int_equal(terms.rates[RATE_USER][RATE_LOGIN].per_s, 0);
    assert_int_equal(terms.rates[RATE_USER][RATE_REGISTER].per_s, 0);
    for (size_t i = 0; i < LIMIT_ROWS; i++) {
        const struct limit_row *row = &limit_rows[i];
        assert_true(strlen(row->name) <= 32); /* as long as an option's name may be */
        assert_int_equal(row->help[strlen(row->help) - 1], '.');
        assert_int_equal(limit_terms_get(&terms, row), row->fallback);
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(row->name, limit_rows[j].name);
            assert_int_not_equal(row->offset, limit_rows[j].offset);
        }
    }
}

static void a_row_names_the_number_it_sets(void **state)
{
    (void)state;
    static const char *const scopes[RATE_SCOPES] = { "global", "user", "ip" };
    for (int scope = 0; scope < RATE_SCOPES; scope++) {
        for (int class = 0; class < RATE_CLASSES; class ++) {
            if (scope == RATE_USER && (class == RATE_LOGIN || class == RATE_REGISTER)) continue;
            struct limit_terms terms = terms_none();
            char per_s[64], burst[64];
            snprintf(per_s, sizeof(per_s), "%s_%s_per_s", scopes[scope], rate_class_name(class));
            snprintf(burst, sizeof(burst), "%s_%s_burst", scopes[scope], rate_class_name(class));
            int set = 0;
            for (size_t i = 0; i < LIMIT_ROWS; i++) {
                if (strcmp(limit_rows[i].name, per_s) == 0) limit_terms_set(&terms, &limit_rows[i], 7), set++;
                if (strcmp(limit_rows[i].name, burst) == 0) limit_terms_set(&terms, &limit_rows[i], 8), set++;
            }
            assert_int_equal(set, 2);
            assert_int_equal(terms.rates[scope][class].per_s, 7);
            assert_int_equal(terms.rates[scope][class].burst, 8);
        }
    }
}

static void numbers_out_of_bounds_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < LIMIT_ROWS; i++) {
        const struct limit_row *row = &limit_rows[i];
        const int64_t wrong[] = { row->min - 1, row->max + 1, -1, INT64_MIN, INT64_MAX, INT64_C(1) << 32 };
        for (size_t j = 0; j < sizeof(wrong) / sizeof(wrong[0]); j++) {
            struct limit_terms terms = terms_none();
            char mistake[LIMIT_MISTAKE_BYTES] = "";
            limit_terms_set(&terms, row, wrong[j]);
            assert_false(limit_terms_valid(&terms, mistake));
            assert_non_null(strstr(mistake, row->name));
        }
        struct limit_terms terms = terms_none();
        char mistake[LIMIT_MISTAKE_BYTES];
        limit_terms_set(&terms, row, row->max);
        assert_true(limit_terms_valid(&terms, mistake));
        limit_terms_set(&terms, row, row->min);
        assert_true(limit_terms_valid(&terms, mistake));
    }
}

static void a_text_changes_what_it_names_and_nothing_else(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ip_grab_per_s, user_query_burst, connections;
    } rows[] = {
        { "", 50000, 50000, 20000 },
        { " ", 50000, 50000, 20000 },
        { "ip_grab_per_s=7", 7, 50000, 20000 },
        { "ip_grab_per_s = 0 , connections_per_ip=1,", 0, 50000, 1 },
        { "user_query_burst=10000000,,ip_grab_per_s=1,ip_grab_per_s=2", 2, 10000000, 20000 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct limit_terms terms, want;
        char mistake[LIMIT_MISTAKE_BYTES];
        memset(&terms, 0xff, sizeof(terms));
        if (!limit_terms_read(&terms, slice_of(rows[i].text), mistake)) fail_msg("\"%s\": %s", rows[i].text, mistake);
        limit_terms_default(&want);
        want.rates[RATE_IP][RATE_GRAB].per_s = rows[i].ip_grab_per_s;
        want.rates[RATE_USER][RATE_QUERY].burst = rows[i].user_query_burst;
        want.connections_per_ip = rows[i].connections;
        assert_memory_equal(&terms, &want, sizeof(terms));
    }
}

static void a_wrong_text_changes_nothing_and_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } rows[] = {
        { "nonsense=1", "\"nonsense\"" },
        { "user_login_per_s=1", "\"user_login_per_s\"" },
        { "ip_grab_per_s", "ip_grab_per_s is a whole number" },
        { "ip_grab_per_s=", "ip_grab_per_s is a whole number" },
        { "ip_grab_per_s=-1", "ip_grab_per_s is a whole number" },
        { "ip_grab_per_s=1.5", "ip_grab_per_s is a whole number" },
        { "ip_grab_per_s=10000001", "ip_grab_per_s is a whole number" },
        { "ip_grab_per_s=18446744073709551616", "ip_grab_per_s is a whole number" },
        { "ip_grab_burst=0", "ip_grab_burst is a whole number" },
        { "ip_grab_per_s=1,connections_per_ip=1000001", "connections_per_ip is a whole number" },
        { "ip_grab_per_s=1 ip_grab_burst=1", "ip_grab_per_s is a whole number" },
        { "=5", "no limit \"\"" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct limit_terms terms = terms_none(), before = terms;
        char mistake[LIMIT_MISTAKE_BYTES] = "";
        if (limit_terms_read(&terms, slice_of(rows[i].text), mistake)) fail_msg("\"%s\" was taken", rows[i].text);
        if (strstr(mistake, rows[i].says) == NULL) fail_msg("\"%s\": %s", rows[i].text, mistake);
        assert_memory_equal(&terms, &before, sizeof(terms));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_has_a_row_with_bounds_and_a_sentence),
        cmocka_unit_test(a_row_names_the_number_it_sets),
        cmocka_unit_test(numbers_out_of_bounds_are_named),
        cmocka_unit_test(a_text_changes_what_it_names_and_nothing_else),
        cmocka_unit_test(a_wrong_text_changes_nothing_and_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
