#include "http_feed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define H "Host: a\r\n"

/* Requests that are taken, and what they mean. used is all of the text but what follows '|' in a pipeline. */
static const struct {
    const char *request, *rest, *want;
} good[] = {
    { "GET / HTTP/1.1\r\n" H "\r\n", "", "GET /? keep 1.1 auth=[] type=[] key=none[] match=[] body=0:[] 00000000" },
    { "GET /a%20b?x=1&y=?/ HTTP/1.1\r\n" H "\r\n", "", "GET /a%20b?x=1&y=?/ keep" },
    { "GET /a? HTTP/1.1\r\n" H "\r\n", "", "GET /a? keep" },
    { "GET http://shop.example:80/v1/sales?limit=2 HTTP/1.1\r\n" H "\r\n", "", "GET /v1/sales?limit=2 keep" },
    { "GET HTTPS://shop.example/v1 HTTP/1.1\r\n" H "\r\n", "", "GET /v1? keep" },
    { "GET http://shop.example HTTP/1.1\r\n" H "\r\n", "", "GET /? keep" },
    { "GET http://shop.example?q=1 HTTP/1.1\r\n" H "\r\n", "", "GET /?q=1 keep" },
    { "GET //double HTTP/1.1\r\n" H "\r\n", "", "GET //double? keep" },
    { "PUT /x HTTP/1.1\r\n" H "\r\n", "", "PUT /x" },
    { "PATCH /x HTTP/1.1\r\n" H "\r\n", "", "PATCH /x" },
    { "DELETE /x HTTP/1.1\r\n" H "\r\n", "", "DELETE /x" },
    { "HEAD /x HTTP/1.1\r\n" H "\r\n", "", "HEAD /x" },
    { "OPTIONS /x HTTP/1.1\r\n" H "\r\n", "", "OTHER /x" },
    { "GET / HTTP/1.0\r\n\r\n", "", "GET /? close 1.0" },
    { "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "", "GET /? keep 1.0" },
    { "GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", "", "GET /? close 1.0" },
    { "GET / HTTP/1.1\r\n" H "Connection: close\r\n\r\n", "", "GET /? close 1.1" },
    { "GET / HTTP/1.1\r\n" H "Connection: te , CLOSE\r\n\r\n", "", "GET /? close 1.1" },
    { "GET / HTTP/1.1\r\n" H "Connection: keep-alive\r\nConnection: close\r\n\r\n", "", "GET /? close 1.1" },
    { "GET / HTTP/1.1\r\n" H "Connection: closed\r\n\r\n", "", "GET /? keep 1.1" },
    { "GET / HTTP/1.1\r\n" H "Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n", "", "GET /? keep 1.1" },
    { "POST /p HTTP/1.1\r\n" H "Connection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 2\r\n\r\nhi", "NEXT",
      "POST /p? keep 1.1 auth=[] type=[] key=none[] match=[] body=2:[hi]" },
    { "POST /p HTTP/1.1\r\n" H "Content-Length: 5\r\n\r\nhello", "",
      "POST /p? keep 1.1 auth=[] type=[] key=none[] match=[] body=5:[hello]" },
    { "POST /p HTTP/1.1\r\n" H "Content-Length: 0\r\n\r\n", "GET / HTTP/1.1\r\n", "POST /p?" },
    { "POST /p HTTP/1.1\r\n" H "\r\n", "{\"units\":1}", "POST /p? keep 1.1 auth=[] type=[] key=none[] match=[] body=0:[]" },
    { "GET /p HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nabc", "GET /next HTTP/1.1\r\n\r\n",
      "GET /p? keep 1.1 auth=[] type=[] key=none[] match=[] body=3:[abc]" },
    { "POST /p HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc", "",
      "POST /p? close 1.0 auth=[] type=[] key=none[] match=[] body=3:[abc]" },
    { "POST /p HTTP/1.1\r\n" H "Expect: 100-Continue\r\nContent-Length: 3\r\n\r\nabc", "", "POST /p? keep" },
    { "POST /p HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc", "", "POST /p? close" },
    { "POST /p HTTP/1.1\r\n" H "AUTHORIZATION:  Bearer x.y.z \t\r\nContent-type:application/json\r\n"
      "idempotency-KEY: k 1\r\nIf-None-Match: W/\"1\"\r\nContent-Length: 1\r\n\r\n7",
      "", "POST /p? keep 1.1 auth=[Bearer x.y.z] type=[application/json] key=[k 1] match=[W/\"1\"] body=1:[7]" },
    { "GET / HTTP/1.1\r\n" H "Idempotency-Key:\r\n\r\n", "", "GET /? keep 1.1 auth=[] type=[] key=[] match=[]" },
    { "GET / HTTP/1.1\r\n" H "If-None-Match: \"a\"\r\nIf-None-Match: \"b\"\r\n\r\n", "",
      "GET /? keep 1.1 auth=[] type=[] key=none[] match=[\"a\"]" },
    { "GET / HTTP/1.1\r\n" H "X-Tab:\ta\tb\t\r\nX-Latin: caf\xe9\r\nX-Empty:\r\n\r\n", "", "GET /? keep" },
    { "GET / HTTP/1.1\r\n" H "Content-Lengths: 5\r\nX-Transfer-Encoding: gzip\r\nHosts: b\r\n\r\n", "", "GET /? keep" },
    { "GET / HTTP/1.1\r\nHost:\r\n\r\n", "", "GET /? keep" },
    { "GET / HTTP/1.1\r\nHost: [::1]:20080\r\n\r\n", "", "GET /? keep" },
};

static void good_requests_are_understood_at_every_split(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        char text[2048];
        struct feed_result result;
        int len = snprintf(text, sizeof(text), "%s%s", good[i].request, good[i].rest);
        feed_every_way(text, (size_t)len, &result);
        if (result.progress != HTTP_COMPLETE)
            fail_msg("row %zu: progress %d problem %d", i, result.progress, result.problem);
        if (strncmp(result.text, good[i].want, strlen(good[i].want)) != 0) fail_msg("row %zu: %s", i, result.text);
        assert_int_equal(result.used, strlen(good[i].request));
    }
}

static void every_prefix_of_a_good_request_asks_for_more(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        size_t head = (size_t)(strstr(good[i].request, "\r\n\r\n") + 4 - good[i].request);
        for (size_t len = 0; len < strlen(good[i].request); len++) {
            struct feed_result result;
            feed_whole(good[i].request, len, &result);
            assert_int_equal(result.progress, len < head ? HTTP_NEEDS_HEAD : HTTP_NEEDS_BODY);
        }
    }
}

static void continue_is_asked_for_once_and_only_while_nothing_of_the_body_came(void **state)
{
    (void)state;
    char head[] = "POST / HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 2\r\n\r\nab";
    size_t head_len = sizeof(head) - 3;
    struct http_request request;

    struct http_parser waits = { 0 };
    assert_int_equal(http_parse(&waits, head, head_len - 1, &request), HTTP_NEEDS_HEAD);
    assert_int_equal(http_parse(&waits, head, head_len, &request), HTTP_NEEDS_CONTINUE);
    assert_int_equal(http_parse(&waits, head, head_len, &request), HTTP_NEEDS_BODY);
    assert_int_equal(http_parse(&waits, head, head_len + 2, &request), HTTP_COMPLETE);

    struct http_parser sends = { 0 };
    assert_int_equal(http_parse(&sends, head, head_len + 1, &request), HTTP_NEEDS_BODY);

    char old[] = "POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n";
    struct http_parser http10 = { 0 };
    assert_int_equal(http_parse(&http10, old, sizeof(old) - 1, &request), HTTP_NEEDS_BODY);
}

static void a_pipeline_is_taken_apart_message_by_message(void **state)
{
    (void)state;
    char text[] = "POST /1 HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nabc"
                  "POST /2 HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n2\r\nde\r\n1;x=y\r\nf\r\n0\r\n\r\n"
                  "GET /3 HTTP/1.1\r\n" H "\r\n";
    static const char *const want[] = { "/1", "/2", "/3" };
    static const char *const bodies[] = { "abc", "def", "" };
    char *at = text;

    for (size_t i = 0; i < 3; i++) {
        struct http_parser parser = { 0 };
        struct http_request request;
        assert_int_equal(http_parse(&parser, at, strlen(at), &request), HTTP_COMPLETE);
        assert_true(slice_is(request.path, want[i]));
        assert_true(slice_is(request.body, bodies[i]));
        at += parser.used;
    }
    assert_int_equal(*at, '\0');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_requests_are_understood_at_every_split),
        cmocka_unit_test(every_prefix_of_a_good_request_asks_for_more),
        cmocka_unit_test(continue_is_asked_for_once_and_only_while_nothing_of_the_body_came),
        cmocka_unit_test(a_pipeline_is_taken_apart_message_by_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
