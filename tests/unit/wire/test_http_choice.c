/* What a client would take. */
#include "wire/http.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

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

static void a_page_is_shown_to_those_who_ask_for_one(void **state)
{
    (void)state;
    static const struct {
        const char *lines;
        bool accepts;
    } script[] = {
        { "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n", true },
        { "Host: x\r\naccept:text/html\r\n", true },
        { "Accept: application/json\r\nACCEPT: \tTEXT/HTML ;level=1;q=0.1\t\r\nHost: x\r\n", true },
        { "Accept: */*, text/html; q=0.001\r\n", true },
        { "Accept: text/html;q=0\r\n", false },
        { "Accept: text/html; charset=utf-8; q=0.00\r\n", false },
        { "Accept: */*\r\n", false },
        { "Accept: text/*\r\n", false },
        { "Accept: application/json\r\n", false },
        { "Accept: text/htmlx, xtext/html, text/htm\r\n", false },
        { "Accept:\r\n", false },
        { "Accept-Language: text/html\r\nX-Accept: text/html\r\n", false },
        { "X: y, Accept: text/html\r\n", false },
        { "", false },
    };
    for (size_t i = 0; i < sizeof script / sizeof *script; i++) {
        char text[256];
        struct http_request request;
        struct http_parser parser = { .head_done = false };
        int len = snprintf(text, sizeof text, "GET / HTTP/1.1\r\n%s%s\r\n", script[i].lines,
                           strstr(script[i].lines, "Host") != NULL ? "" : "Host: x\r\n");
        assert_int_equal(http_parse(&parser, text, (size_t)len, &request), HTTP_COMPLETE);
        assert_int_equal(http_accepts_html(&request), script[i].accepts);
    }
}

static void what_stands_in_a_body_is_no_wish(void **state)
{
    (void)state;
    char text[] = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 21\r\n\r\n\r\nAccept: text/html\r\n";
    struct http_request request;
    struct http_parser parser = { .head_done = false };
    assert_int_equal(http_parse(&parser, text, sizeof text - 1, &request), HTTP_COMPLETE);
    assert_false(http_accepts_html(&request));
    request.message.len = 0; /* of one whose message is gone */
    assert_false(http_accepts_html(&request));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gzip_is_sent_to_those_who_read_it),
        cmocka_unit_test(a_version_that_is_here_already_is_recognized),
        cmocka_unit_test(a_page_is_shown_to_those_who_ask_for_one),
        cmocka_unit_test(what_stands_in_a_body_is_no_wish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
