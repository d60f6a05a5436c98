/* What a client would take. */
#include "wire/http.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void gzip_is_sent_to_those_who_read_it(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        bool accepts;
    } script[] = {
        { "gzip", true },
        { "gzip, deflate, br, zstd", true },
        { "deflate,gzip", true },
        { "GZIP", true },
        { "x-gzip", true },
        { " gzip ; q=0.5 ", true },
        { "gzip;q=1.000", true },
        { "gzip;q=0.001", true },
        { "*", true },
        { "br;q=1, *;q=0.1", true },
        { "", false },
        { "identity", false },
        { "br", false },
        { "gzip;q=0", false },
        { "gzip;q=0.", false },
        { "gzip ; Q = 0.000", false },
        { "*;q=0", false },
        { "gzip;q=0, *", false },
        { "*, gzip;q=0", false },
        { "*;q=0, gzip", true },
        { "gzipped", false },
        { "gzi", false },
        { ",,;,", false },
        { ";q=0", false },
    };
    for (size_t i = 0; i < sizeof script / sizeof *script; i++)
        assert_int_equal(http_accepts_gzip(slice_of(script[i].header)), script[i].accepts);
}

static void a_version_that_is_here_already_is_recognized(void **state)
{
    (void)state;
    static const struct slice tag = { "\"a1\"", 4 };
    assert_true(http_etag_matches(SLICE("\"a1\""), tag));
    assert_true(http_etag_matches(SLICE("W/\"a1\""), tag));
    assert_true(http_etag_matches(SLICE("\"b\", W/\"a1\", \"c\""), tag));
    assert_true(http_etag_matches(SLICE("*"), tag));
    assert_false(http_etag_matches(SLICE(""), tag));
    assert_false(http_etag_matches(SLICE("\"a12\""), tag));
    assert_false(http_etag_matches(SLICE("a1"), tag));
    assert_false(http_etag_matches(SLICE("\"*\""), tag));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gzip_is_sent_to_those_who_read_it),
        cmocka_unit_test(a_version_that_is_here_already_is_recognized),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
