#include "http_feed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define H "Host: a\r\n"
#define ROW(text)                                                                                                           \
    {                                                                                                                       \
        text, sizeof(text) - 1                                                                                              \
    }

/* Everything here is BAD_REQUEST, wherever the network splits it. */
static const struct {
    const char *data;
    size_t len;
} bad[] = {
    /* Two lengths, or none that can be believed. */
    ROW("POST / HTTP/1.1\r\n" H "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ROW("POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"),
    ROW("POST / HTTP/1.1\r\n" H "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"),
    ROW("POST / HTTP/1.1\r\n" H "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello"),
    ROW("POST / HTTP/1.1\r\n" H "Content-Length: 5\r\ncONTENT-lENGTH: 5\r\n\r\nhello"),
    ROW("POST / HTTP/1.1\r\n" H "Content-Length: 5, 5\r\n\r\nhello"),
    ROW("POST / HTTP/1.1\r\n" H "Content-Length:\r\n\r\n"),
    ROW("POST / HTTP/1.1\r\n" H "Content-Length:  \t\r\n\r\n"),
    ROW("POST / HTTP/1.1\r\n" H "Content-Length: +5\r\n\r\nhello"),
    ROW("POST / HTTP/1.1\r\n" H "Content-Length: -5\r\n\r\nhello"),
    ROW("POST / HTTP/1.1\r\n" H "Content-Length: 0x5\r\n\r\nhello"),
    ROW("POST / HTTP/1.1\r\n" H "Content-Length: 5.0\r\n\r\nhello"),
    ROW("POST / HTTP/1.1\r\n" H "Content-Length: 1e1\r\n\r\nhello"),
    ROW("POST / HTTP/1.1\r\n" H "Content-Length: 05\r\n\r\nhello"),
    ROW("POST / HTTP/1.1\r\n" H "Content-Length: 5 5\r\n\r\nhello"),
    ROW("POST / HTTP/1.1\r\n" H "Content-Length: \"5\"\r\n\r\nhello"),
    ROW("POST / HTTP/1.1\r\n" H "Content-Length: 18446744073709551616\r\n\r\nhello"),
    ROW("POST / HTTP/1.1\r\n" H "Content-Length: 18446744073709551621\r\n\r\nhello"),
    ROW("POST / HTTP/1.1\r\n" H "Content-Length: 99999999999999999999999999999999\r\n\r\nhello"),
    /* Which of two was signed? */
    ROW("POST / HTTP/1.1\r\n" H "webhook-id: a\r\nWebhook-Id: b\r\n\r\n"),
    ROW("POST / HTTP/1.1\r\n" H "webhook-timestamp: 1\r\nwebhook-timestamp: 1\r\n\r\n"),
    ROW("POST / HTTP/1.1\r\n" H "webhook-signature: v1,a\r\nwebhook-signature: v1,b\r\n\r\n"),
    /* Codings that hide the end of the body. */
    ROW("POST / HTTP/1.1\r\n" H "Transfer-Encoding: gzip\r\n\r\n"),
    ROW("POST / HTTP/1.1\r\n" H "Transfer-Encoding: identity\r\n\r\n"),
    ROW("POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n"),
    ROW("POST / HTTP/1.1\r\n" H "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    ROW("POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"),
    ROW("POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ROW("POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n"),
    ROW("POST / HTTP/1.1\r\n" H "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
    ROW("POST / HTTP/1.1\r\n" H "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n"),
    ROW("POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n"),
    ROW("POST / HTTP/1.1\r\n" H "Transfer-Encoding: ,chunked\r\n\r\n0\r\n\r\n"),
    ROW("POST / HTTP/1.1\r\n" H "Transfer-Encoding:\r\n\r\n0\r\n\r\n"),
    ROW("POST / HTTP/1.1\r\n" H "Transfer-Encoding: \vchunked\r\n\r\n0\r\n\r\n"),
    ROW("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    /* Lines that end, or seem to end, elsewhere. */
    ROW("GET / HTTP/1.1\n" H "\n"),
    ROW("GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n"),
    ROW("GET / HTTP/1.1\r\nHost: a\r\nX: y\n\r\n"),
    ROW("GET / HTTP/1.1\r\nHost: a\r\n\n"),
    ROW("GET / HTTP/1.1\r\nHost: a\rX: y\r\n\r\n"),
    ROW("GET / HTTP/1.1\r\nHost: a\r\r\n\r\n"),
    ROW("GET / HTTP/1.1\rHost: a\r\n\r\n"),
    ROW("GET / HTTP/1.1\r\nHost: a\r\nX: y\r\rContent-Length: 5\r\n\r\nhello"),
    ROW("GET / HTTP/1.1\r\nHost: a\r\n\rX: y\r\n\r\n"),
    ROW("GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n"),
    ROW("GET / HTTP/1.1\r\nHost: a\r\nX\0: b\r\n\r\n"),
    ROW("GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n"),
    ROW("\0GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    ROW("GET / HTTP/1.1\r\nHost: a\r\nX: a\x01\r\n\r\n"),
    ROW("GET / HTTP/1.1\r\nHost: a\r\nX: a\x7f\r\n\r\n"),
    ROW("GET / HTTP/1.1\r\nHost: a\r\nX: a\x0b\r\n\r\n"),
    ROW("GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n folded\r\n\r\n"),
    ROW("GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n\tfolded: z\r\n\r\n"),
    ROW("GET / HTTP/1.1\r\n Host: a\r\n\r\n"),
    ROW("GET / HTTP/1.1\r\nHost: a\r\n \r\n\r\n"),
    /* Names. */
    ROW("GET / HTTP/1.1\r\nHost : a\r\n\r\n"),
    ROW("GET / HTTP/1.1\r\nHost\t: a\r\n\r\n"),
    ROW("POST / HTTP/1.1\r\n" H "Content-Length : 5\r\n\r\nhello"),
    ROW("POST / HTTP/1.1\r\n" H "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"),
    ROW("GET / HTTP/1.1\r\n" H ": empty\r\n\r\n"),
    ROW("GET / HTTP/1.1\r\n" H "no colon\r\n\r\n"),
    ROW("GET / HTTP/1.1\r\n" H "nocolon\r\n\r\n"),
    ROW("GET / HTTP/1.1\r\n" H "a(b): c\r\n\r\n"),
    ROW("GET / HTTP/1.1\r\n" H "a\xc3\xa9: c\r\n\r\n"),
    ROW("GET / HTTP/1.1\r\n" H "\"a\": c\r\n\r\n"),
    /* Headers of which there can be one. */
    ROW("GET / HTTP/1.1\r\n\r\n"),
    ROW("GET / HTTP/1.1\r\nX: y\r\n\r\n"),
    ROW("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"),
    ROW("GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n"),
    ROW("GET / HTTP/1.1\r\nHost: a b\r\n\r\n"),
    ROW("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"),
    ROW("GET / HTTP/1.1\r\nHost: a@b\r\n\r\n"),
    ROW("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n"),
    ROW("GET / HTTP/1.1\r\nHost: caf\xc3\xa9\r\n\r\n"),
    ROW("GET http://a/ HTTP/1.1\r\n\r\n"),
    ROW("GET / HTTP/1.1\r\n" H "Authorization: a\r\nAuthorization: a\r\n\r\n"),
    ROW("GET / HTTP/1.1\r\n" H "Idempotency-Key: a\r\nIdempotency-Key: b\r\n\r\n"),
    ROW("GET / HTTP/1.1\r\n" H "Content-Type: a/b\r\nContent-Type: a/c\r\n\r\n"),
    ROW("GET / HTTP/1.1\r\n" H "Expect: 200-ok\r\n\r\n"),
    ROW("GET / HTTP/1.1\r\n" H "Expect:\r\n\r\n"),
    ROW("GET / HTTP/1.1\r\n" H "Expect: 100-continue\r\nExpect: 100-continue\r\n\r\n"),
    /* Request lines. */
    ROW("\r\n"),
    ROW("\r\nGET / HTTP/1.1\r\n" H "\r\n"),
    ROW("\r\n\r\nGET / HTTP/1.1\r\n" H "\r\n"),
    ROW(" GET / HTTP/1.1\r\n" H "\r\n"),
    ROW("GET\r\n\r\n"),
    ROW("GET /\r\n\r\n"),
    ROW("GET / \r\n\r\n"),
    ROW("GET / HTTP/1.1 \r\n" H "\r\n"),
    ROW("GET  / HTTP/1.1\r\n" H "\r\n"),
    ROW("GET /  HTTP/1.1\r\n" H "\r\n"),
    ROW("GET\t/ HTTP/1.1\r\n" H "\r\n"),
    ROW("GET /\tHTTP/1.1\r\n" H "\r\n"),
    ROW("GET /a b HTTP/1.1\r\n" H "\r\n"),
    ROW("GET HTTP/1.1\r\n" H "\r\n"),
    ROW("GET  HTTP/1.1\r\n" H "\r\n"),
    ROW("GET / HTTP/0.9\r\n" H "\r\n"),
    ROW("GET / HTTP/1.2\r\n" H "\r\n"),
    ROW("GET / HTTP/2.0\r\n" H "\r\n"),
    ROW("GET / HTTP/2\r\n" H "\r\n"),
    ROW("GET / HTTP/1\r\n" H "\r\n"),
    ROW("GET / HTTP/1.10\r\n" H "\r\n"),
    ROW("GET / HTTP/01.1\r\n" H "\r\n"),
    ROW("GET / http/1.1\r\n" H "\r\n"),
    ROW("GET / RTSP/1.0\r\n" H "\r\n"),
    ROW("SOURCE / ICE/1.0\r\n" H "\r\n"),
    ROW("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    ROW("get / HTTP/1.1\r\n" H "\r\n"),
    ROW("GETT / HTTP/1.1\r\n" H "\r\n"),
    ROW("GE(T / HTTP/1.1\r\n" H "\r\n"),
    ROW("DESCRIBE / HTTP/1.1\r\n" H "\r\n"),
    ROW("CONNECT a:443 HTTP/1.1\r\n" H "\r\n"),
    ROW("CONNECT / HTTP/1.1\r\n" H "\r\n"),
    ROW("OPTIONS * HTTP/1.1\r\n" H "\r\n"),
    ROW("GET a HTTP/1.1\r\n" H "\r\n"),
    ROW("GET ?a HTTP/1.1\r\n" H "\r\n"),
    ROW("GET /a#b HTTP/1.1\r\n" H "\r\n"),
    ROW("GET /caf\xc3\xa9 HTTP/1.1\r\n" H "\r\n"),
    ROW("GET http:///a HTTP/1.1\r\n" H "\r\n"),
    ROW("GET http:// HTTP/1.1\r\n" H "\r\n"),
    ROW("GET http://me@a/ HTTP/1.1\r\n" H "\r\n"),
    ROW("GET ftp://a/ HTTP/1.1\r\n" H "\r\n"),
    ROW("GET file:///etc/passwd HTTP/1.1\r\n" H "\r\n"),
    ROW("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
};

static void smuggling_shapes_and_other_nonsense_are_bad_requests_at_every_split(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct feed_result result;
        feed_every_way(bad[i].data, bad[i].len, &result);
        if (result.progress != HTTP_BAD || result.problem != PROBLEM_BAD_REQUEST)
            fail_msg("row %zu: progress %d problem %d for\n%s", i, result.progress, result.problem, bad[i].data);
    }
}

/* Heads that are not whole yet: llhttp has not seen them, so it is our own pass that refuses. */
static const struct {
    const char *data;
    size_t len;
} early[] = {
    ROW("GET / HTTP/1.1\n"),
    ROW("GET / HTTP/1.1\rH"),
    ROW("GET /\tHTTP/1.1"),
    ROW("GET\t"),
    ROW("\r\n"),
    ROW("GET /\0"),
    ROW("GET /\x7f"),
    ROW("GET / HTTP/1.1\r\nX: a\n"),
    ROW("GET / HTTP/1.1\r\nX: a\rb"),
    ROW("GET / HTTP/1.1\r\nX: a\r\r"),
    ROW("GET / HTTP/1.1\r\nX: a\0"),
    ROW("GET / HTTP/1.1\r\nX: abcdefghijkl\x7f-tail-of-more-than-a-word"),
    ROW("GET / HTTP/1.1\r\nX: abcdefghijkl\x1f-tail-of-more-than-a-word"),
    ROW("GET / HTTP/1.1\r\nX : a\r\n"),
    ROW("GET / HTTP/1.1\r\nX\t: a\r\n"),
    ROW("GET / HTTP/1.1\r\n: a\r\n"),
    ROW("GET / HTTP/1.1\r\nX: a\r\n b\r\n"),
    ROW("GET / HTTP/1.1\r\nX: a\r\n\tb: c\r\n"),
    ROW("GET / HTTP/1.1\r\nX\r\n"),
    ROW("GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n"),
    ROW("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
    ROW("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n"),
    ROW("GET / HTTP/1.2\r\n"),
    ROW("GET /a b HTTP/1.1\r\n"),
};

static void our_own_pass_refuses_without_waiting_for_the_rest(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(early) / sizeof(early[0]); i++) {
        struct feed_result result;
        feed_every_way(early[i].data, early[i].len, &result);
        if (result.progress != HTTP_BAD || result.problem != PROBLEM_BAD_REQUEST)
            fail_msg("row %zu: progress %d problem %d", i, result.progress, result.problem);
    }
}

/* Any byte that may not stand in a head, put in the place of any byte of a good one, must not get through. */
static void a_control_character_anywhere_is_refused(void **state)
{
    (void)state;
    static const char text[] = "POST /v1/a?b=c HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nX-Y: z w\r\n\r\nabc";
    size_t head_len = sizeof(text) - 1 - 3;
    for (int byte = 0; byte < 0x20; byte++) {
        for (size_t at = 0; at < head_len; at++) {
            char changed[sizeof(text)];
            struct feed_result result;
            memcpy(changed, text, sizeof(text));
            if (changed[at] == byte) continue;
            /* A tab is white space in a value, and may also replace the space before it. */
            if (byte == '\t' && at > 25 && text[at] != '\r' && text[at] != '\n') continue;
            changed[at] = (char)byte;
            feed_whole(changed, sizeof(text) - 1, &result);
            if (result.progress != HTTP_BAD) fail_msg("0x%02x at %zu: progress %d", (unsigned)byte, at, result.progress);
        }
    }
}

/* A good request whose head has exactly len bytes, by a header of filler or a long path. */
static char *head_of(size_t len, bool in_path)
{
    const char *before = in_path ? "GET /" : "GET / HTTP/1.1\r\n" H "X: ";
    const char *after = in_path ? " HTTP/1.1\r\n" H "\r\n" : "\r\n\r\n";
    char *out = malloc(len + 1);
    assert_non_null(out);
    memset(out, 'x', len);
    memcpy(out, before, strlen(before));
    memcpy(out + len - strlen(after), after, strlen(after) + 1);
    return out;
}

static void a_head_may_have_8192_bytes_and_no_more(void **state)
{
    (void)state;
    for (int in_path = 0; in_path < 2; in_path++) {
        struct feed_result result;
        char *fits = head_of(HTTP_HEAD_BYTES_MAX, in_path != 0);
        feed_every_way(fits, HTTP_HEAD_BYTES_MAX, &result);
        assert_int_equal(result.progress, HTTP_COMPLETE);
        assert_int_equal(result.used, HTTP_HEAD_BYTES_MAX);
        free(fits);

        char *over = head_of(HTTP_HEAD_BYTES_MAX + 1, in_path != 0);
        feed_every_way(over, HTTP_HEAD_BYTES_MAX + 1, &result);
        assert_int_equal(result.progress, HTTP_BAD);
        assert_int_equal(result.problem, PROBLEM_HEAD_TOO_LARGE);
        free(over);
    }
}

static void a_request_line_beyond_the_limit_is_a_uri_too_long(void **state)
{
    (void)state;
    static char line[20000];
    struct feed_result result;

    memset(line, 'x', sizeof(line));
    memcpy(line, "GET /", 5);
    feed_every_way(line, HTTP_HEAD_BYTES_MAX - 1, &result);
    assert_int_equal(result.progress, HTTP_NEEDS_HEAD);
    feed_every_way(line, HTTP_HEAD_BYTES_MAX, &result);
    assert_int_equal(result.problem, PROBLEM_URI_TOO_LONG);
    feed_every_way(line, sizeof(line), &result);
    assert_int_equal(result.problem, PROBLEM_URI_TOO_LONG);
}

static void a_head_that_never_ends_is_too_large_and_not_waited_for(void **state)
{
    (void)state;
    static char text[HTTP_HEAD_BYTES_MAX];
    struct feed_result result;

    memset(text, 'x', sizeof(text));
    memcpy(text, "GET / HTTP/1.1\r\nX: ", 19);
    feed_every_way(text, sizeof(text), &result);
    assert_int_equal(result.problem, PROBLEM_HEAD_TOO_LARGE);
    /* The CR of the last blank line as the last byte allowed: its LF would be one too many. */
    memcpy(text + sizeof(text) - 3, "\r\n\r", 3);
    feed_every_way(text, sizeof(text), &result);
    assert_int_equal(result.problem, PROBLEM_HEAD_TOO_LARGE);
}

static void a_head_may_have_64_headers_and_no_more(void **state)
{
    (void)state;
    for (size_t count = HTTP_HEADERS_MAX; count <= HTTP_HEADERS_MAX + 1; count++) {
        char text[1024] = "GET / HTTP/1.1\r\nHost: a\r\n";
        size_t len = strlen(text);
        for (size_t i = 1; i < count; i++, len += 6) memcpy(text + len, "X: y\r\n", 6);
        memcpy(text + len, "\r\n", 2);
        struct feed_result result;
        feed_every_way(text, len + 2, &result);
        assert_int_equal(result.progress, count == HTTP_HEADERS_MAX ? HTTP_COMPLETE : HTTP_BAD);
        assert_int_equal(result.problem, count == HTTP_HEADERS_MAX ? PROBLEM_NONE : PROBLEM_HEAD_TOO_LARGE);
    }
}

/* Said from the head alone: nobody has to send what will not be taken. */
static void a_body_may_have_65536_bytes_and_no_more(void **state)
{
    (void)state;
    static const struct {
        const char *length;
        enum http_progress progress;
        enum problem problem;
    } rows[] = {
        { "65535", HTTP_NEEDS_BODY, PROBLEM_NONE },
        { "65536", HTTP_NEEDS_BODY, PROBLEM_NONE },
        { "65537", HTTP_BAD, PROBLEM_BODY_TOO_LARGE },
        { "2147483647", HTTP_BAD, PROBLEM_BODY_TOO_LARGE },
        { "2147483648", HTTP_BAD, PROBLEM_BODY_TOO_LARGE },
        { "4294967295", HTTP_BAD, PROBLEM_BODY_TOO_LARGE },
        { "4294967296", HTTP_BAD, PROBLEM_BODY_TOO_LARGE },
        { "4294967301", HTTP_BAD, PROBLEM_BODY_TOO_LARGE },
        { "9223372036854775807", HTTP_BAD, PROBLEM_BODY_TOO_LARGE },
        { "9223372036854775808", HTTP_BAD, PROBLEM_BODY_TOO_LARGE },
        { "18446744073709551615", HTTP_BAD, PROBLEM_BODY_TOO_LARGE },
        { "18446744073709551616", HTTP_BAD, PROBLEM_BAD_REQUEST },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[128];
        struct feed_result result;
        int len = snprintf(text, sizeof(text), "POST / HTTP/1.1\r\n" H "Content-Length: %s\r\n\r\n", rows[i].length);
        feed_every_way(text, (size_t)len, &result);
        assert_int_equal(result.progress, rows[i].progress);
        assert_int_equal(result.problem, rows[i].problem);
    }

    static char full[128 + HTTP_BODY_BYTES_MAX];
    int head = snprintf(full, 128, "POST / HTTP/1.1\r\n" H "Content-Length: %d\r\n\r\n", HTTP_BODY_BYTES_MAX);
    memset(full + head, 'b', HTTP_BODY_BYTES_MAX);
    struct feed_result result;
    feed_every_way(full, (size_t)head + HTTP_BODY_BYTES_MAX, &result);
    assert_int_equal(result.progress, HTTP_COMPLETE);
    assert_int_equal(result.used, (size_t)head + HTTP_BODY_BYTES_MAX);
}

static void the_headers_of_a_signed_message_are_read_in_any_case(void **state)
{
    (void)state;
    static const char *const heads[] = {
        "webhook-id: m1\r\nwebhook-timestamp: 17\r\nwebhook-signature: v1,a v1,b\r\n",
        "Webhook-Signature:v1,a v1,b \r\nWEBHOOK-ID:\tm1\r\nWebhook-Timestamp:  17\r\n",
    };
    for (size_t i = 0; i < sizeof(heads) / sizeof(*heads); i++) {
        char text[256];
        struct http_parser parser = { 0 };
        struct http_request request;
        int len = snprintf(text, sizeof(text), "POST /v1/payments HTTP/1.1\r\n" H "%s\r\n", heads[i]);
        assert_int_equal(http_parse(&parser, text, (size_t)len, &request), HTTP_COMPLETE);
        assert_true(slice_is(request.webhook_id, "m1"));
        assert_true(slice_is(request.webhook_timestamp, "17"));
        assert_true(slice_is(request.webhook_signature, "v1,a v1,b"));
    }
}

/* RFC 9110, 5.3: a list in parts is the list joined. Whoever looks at one part only believes what a client wrote. */
static void x_forwarded_for_in_parts_is_joined_in_its_order(void **state)
{
    (void)state;
#define FOR "X-Forwarded-For: "
    static const struct {
        const char *headers, *want;
    } rows[] = {
        { FOR "1.1.1.1\r\n", "1.1.1.1" },
        { FOR "1.1.1.1, 2.2.2.2\r\n", "1.1.1.1, 2.2.2.2" },
        { FOR "1.1.1.1\r\n" FOR "2.2.2.2\r\n", "1.1.1.1,2.2.2.2" },
        { FOR "1.1.1.1 \t\r\nAccept: x\r\nx-FORWARDED-for:\t2.2.2.2, 3.3.3.3\r\n" FOR "4.4.4.4 \r\nVia: y\r\n",
          "1.1.1.1,2.2.2.2, 3.3.3.3,4.4.4.4" },
        { FOR "\r\n" FOR "2.2.2.2\r\n", ",2.2.2.2" },
        { FOR "1.1.1.1\r\n" FOR "\r\n", "1.1.1.1," },
        { FOR "\r\nA: b\r\n" FOR "\r\n", "," },
        { FOR "1.1.1.1\r\nX-Forwarded-Foo: 2.2.2.2\r\nAccept: X-Forwarded-For: 3.3.3.3\r\n" FOR "4.4.4.4\r\n",
          "1.1.1.1,4.4.4.4" },
    };
#undef FOR
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char message[512], want[256];
        int len = snprintf(message, sizeof(message), "GET / HTTP/1.1\r\n" H "%s\r\n", rows[i].headers);
        snprintf(want, sizeof(want), " for=[%s]", rows[i].want);
        struct feed_result result;
        feed_every_way(message, (size_t)len, &result);
        assert_int_equal(result.progress, HTTP_COMPLETE);
        const char *found = strstr(result.text, " for=[");
        assert_string_equal(found != NULL ? found : "", want);
    }
}

static void as_many_parts_of_x_forwarded_for_as_a_head_holds_are_joined(void **state)
{
    (void)state;
    char message[HTTP_HEAD_BYTES_MAX], joined[HTTP_HEAD_BYTES_MAX];
    int len = snprintf(message, sizeof(message), "GET / HTTP/1.1\r\n" H);
    for (int i = 0; i < 63; i++)
        len += snprintf(message + len, sizeof(message) - (size_t)len, "X-Forwarded-For:%0100d\r\n", i);
    len += snprintf(message + len, sizeof(message) - (size_t)len, "\r\n");
    struct http_parser parser = { 0 };
    struct http_request request;
    assert_int_equal(http_parse(&parser, message, (size_t)len, &request), HTTP_COMPLETE);
    struct slice forwarded = http_forwarded_for(&request, joined);
    assert_int_equal(forwarded.len, 63 * 101 - 1);
    assert_memory_equal(forwarded.data + forwarded.len - 3, "062", 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(smuggling_shapes_and_other_nonsense_are_bad_requests_at_every_split),
        cmocka_unit_test(the_headers_of_a_signed_message_are_read_in_any_case),
        cmocka_unit_test(x_forwarded_for_in_parts_is_joined_in_its_order),
        cmocka_unit_test(as_many_parts_of_x_forwarded_for_as_a_head_holds_are_joined),
        cmocka_unit_test(our_own_pass_refuses_without_waiting_for_the_rest),
        cmocka_unit_test(a_control_character_anywhere_is_refused),
        cmocka_unit_test(a_head_may_have_8192_bytes_and_no_more),
        cmocka_unit_test(a_request_line_beyond_the_limit_is_a_uri_too_long),
        cmocka_unit_test(a_head_that_never_ends_is_too_large_and_not_waited_for),
        cmocka_unit_test(a_head_may_have_64_headers_and_no_more),
        cmocka_unit_test(a_body_may_have_65536_bytes_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
