#include "wire/http.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* Looked up: "name", into 8 bytes. */
static const struct {
    const char *query;
    bool found, bad;
    const char *value;
} rows[] = {
    { "", false, false, "" },
    { "&", false, false, "" },
    { "other=1", false, false, "" },
    { "names=1&nam=2&=3", false, false, "" },
    { "name", true, false, "" },
    { "name=", true, false, "" },
    { "name=1", true, false, "1" },
    { "a=b&name=1&c", true, false, "1" },
    { "&&name=1&&", true, false, "1" },
    { "name=a=b", true, false, "a=b" },
    { "na%6de=1", true, false, "1" },
    { "na%zze=1", false, false, "" },
    { "name=a+b%2b", true, false, "a b+" },
    { "name=%C3%a9", true, false, "\xc3\xa9" },
    { "name=1234567", true, false, "1234567" },
    { "name=12345678", true, true, "" },
    { "name=%31234567", true, false, "1234567" },
    { "name=%", true, true, "" },
    { "name=%4", true, true, "" },
    { "name=%4&x=1", true, true, "" },
    { "name=%4g", true, true, "" },
    { "name=%00", true, true, "" },
    { "name=%ff", true, true, "" },
    { "name=%c3", true, true, "" },
    { "name=1&name=1", true, true, "" },
    { "name=1&name=%", true, true, "" },
    { "name=%&name=1", true, true, "" },
    { "NAME=1", false, false, "" },
};

static void fields_are_found_decoded_and_refused_when_doubtful(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        /* Exactly as long as it is, so that a step beyond is seen by the sanitizer. */
        size_t len = strlen(rows[i].query);
        char *query = malloc(len + 1);
        char *out = malloc(8);
        bool bad = !rows[i].bad;
        assert_true(query != NULL && out != NULL);
        memcpy(query, rows[i].query, len);
        bool found = http_query_get((struct slice){ query, len }, "name", out, 8, &bad);
        if (found != rows[i].found || bad != rows[i].bad || strcmp(out, rows[i].value) != 0)
            fail_msg("row %zu: found %d bad %d value [%s]", i, found, bad, out);
        free(query);
        free(out);
    }
}

/* Into 8 bytes. */
static void a_segment_of_a_path_is_decoded_and_a_plus_stays_one(void **state)
{
    (void)state;
    static const struct {
        const char *segment, *value; /* NULL: refused */
    } script[] = {
        { "", "" },         { "abc", "abc" },         { "a%20b", "a b" },   { "a+b", "a+b" },         { "%2F", "/" },
        { "%41%62", "Ab" }, { "1234567", "1234567" }, { "12345678", NULL }, { "%C3%A9", "\xc3\xa9" }, { "%", NULL },
        { "%4", NULL },     { "%4g", NULL },          { "a%", NULL },
    };
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++) {
        char out[8];
        size_t len;
        bool good = http_segment_decode(slice_of(script[i].segment), out, sizeof(out), &len);
        assert_int_equal(good, script[i].value != NULL);
        if (!good) continue;
        assert_string_equal(out, script[i].value);
        assert_int_equal(len, strlen(out));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(fields_are_found_decoded_and_refused_when_doubtful),
                                        cmocka_unit_test(a_segment_of_a_path_is_decoded_and_a_plus_stays_one) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
