#include "http_feed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define HEAD "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n"

static const struct {
    const char *chunks, *rest, *body;
} good[] = {
    { "0\r\n\r\n", "", "" },
    { "0\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "" },
    { "5\r\nhello\r\n0\r\n\r\n", "more", "hello" },
    { "1\r\nh\r\n2\r\nel\r\n2\r\nlo\r\n00\r\n\r\n", "", "hello" },
    { "A\r\n0123456789\r\na\r\nabcdefghij\r\n0\r\n\r\n", "", "0123456789abcdefghij" },
    { "00000005\r\nhello\r\n00000000\r\n\r\n", "", "hello" },
    { "5;name=value;q=\"a b\"\r\nhello\r\n0;last\r\n\r\n", "", "hello" },
    { "5;\r\nhello\r\n0\r\n\r\n", "", "hello" },
    { "5\r\nhello\r\n0\r\nX-Sum: 1\r\nContent-Length: 7\r\nTransfer-Encoding: gzip\r\n\r\n", "", "hello" },
    { "5\r\nhello\r\n0\r\nX-Empty:\r\n\r\n", "", "hello" },
    { "7\r\n\r\n0\r\n\r\n\r\n0\r\n\r\n", "", "\r\n0\r\n\r\n" },
};

static void chunked_bodies_are_decoded_in_place_at_every_split(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        char text[1024], want[128];
        struct feed_result result;
        int len = snprintf(text, sizeof(text), "%s%s%s", HEAD, good[i].chunks, good[i].rest);
        snprintf(want, sizeof(want), " body=%zu:[%s] ", strlen(good[i].body), good[i].body);
        feed_every_way(text, (size_t)len, &result);
        if (result.progress != HTTP_COMPLETE) fail_msg("row %zu: progress %d", i, result.progress);
        if (strstr(result.text, want) == NULL) fail_msg("row %zu: %s", i, result.text);
        assert_int_equal(result.used, strlen(HEAD) + strlen(good[i].chunks));
    }
}

static const char *const bad[] = {
    "\r\n",
    "\r\n0\r\n\r\n",
    ";ext\r\n",
    "g\r\n",
    "-1\r\n",
    "+1\r\nx\r\n0\r\n\r\n",
    "0x1\r\nx\r\n0\r\n\r\n",
    " 1\r\nx\r\n0\r\n\r\n",
    "1 \r\nx\r\n0\r\n\r\n",
    "1 ;e\r\nx\r\n0\r\n\r\n",
    "1\t\r\nx\r\n0\r\n\r\n",
    "1\nx\r\n0\r\n\r\n",
    "1\rx\r\n0\r\n\r\n",
    "1\r\rx",
    "1\r\nx\n0\r\n\r\n",
    "1\r\nx0\r\n\r\n",
    "1\r\nxy\n0\r\n\r\n",
    "1\r\nxx\r\n0\r\n\r\n",
    "1\r\nx\r0\r\n\r\n",
    "1\r\nx\r\n\r\n0\r\n\r\n",
    "2\r\nx\r\n0\r\n\r\n",
    "1;e\nx\r\n0\r\n\r\n",
    "1;e\x01\r\nx\r\n0\r\n\r\n",
    "1;e\rf\r\nx\r\n0\r\n\r\n",
    "000000001\r\nx\r\n0\r\n\r\n",
    "000000000\r\n\r\n",
    "0\r\n\n",
    "0\r\n\rx",
    "0\r\n: x\r\n\r\n",
    "0\r\n x: y\r\n\r\n",
    "0\r\nx : y\r\n\r\n",
    "0\r\nx\r\n\r\n",
    "0\r\nx: y\n\r\n",
    "0\r\nx: y\r\n\tz\r\n\r\n",
    "0\r\nx: \x01\r\n\r\n",
    "0\r\nGET / HTTP/1.1\r\n\r\n",
};

static void chunks_out_of_form_are_bad_requests_at_every_split(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char text[512];
        struct feed_result result;
        int len = snprintf(text, sizeof(text), "%s%s", HEAD, bad[i]);
        feed_every_way(text, (size_t)len, &result);
        if (result.progress != HTTP_BAD || result.problem != PROBLEM_BAD_REQUEST)
            fail_msg("row %zu: progress %d problem %d", i, result.progress, result.problem);
    }
}

static void a_chunk_that_would_pass_the_limit_is_refused_when_its_size_is_said(void **state)
{
    (void)state;
    static const struct {
        const char *chunks;
        enum http_progress progress;
    } rows[] = {
        { "10000\r\n", HTTP_NEEDS_BODY },
        { "10001", HTTP_BAD },
        { "fffffff", HTTP_BAD },
        { "ffffffffffffffff\r\n", HTTP_BAD },
        { "3\r\nabc\r\nfffd\r\n", HTTP_NEEDS_BODY },
        { "3\r\nabc\r\nfffe", HTTP_BAD },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[512];
        struct feed_result result;
        int len = snprintf(text, sizeof(text), "%s%s", HEAD, rows[i].chunks);
        feed_every_way(text, (size_t)len, &result);
        assert_int_equal(result.progress, rows[i].progress);
        assert_int_equal(result.problem, result.progress == HTTP_BAD ? PROBLEM_BODY_TOO_LARGE : PROBLEM_NONE);
    }
}

/* Chunks of the given size until total bytes of body, then the end. */
static char *many_chunks(size_t size, size_t total, size_t *len)
{
    char *text = malloc(strlen(HEAD) + total + (total / size + 2) * 16);
    assert_non_null(text);
    *len = (size_t)snprintf(text, 256, "%s", HEAD);
    for (size_t sent = 0; sent < total; sent += size) {
        *len += (size_t)snprintf(text + *len, 16, "%zx\r\n", size);
        for (size_t i = 0; i < size; i++) text[(*len)++] = (char)('a' + (sent + i) % 26);
        *len += (size_t)snprintf(text + *len, 16, "\r\n");
    }
    *len += (size_t)snprintf(text + *len, 16, "0\r\n\r\n");
    return text;
}

static void many_chunks_may_add_up_to_65536_bytes_and_no_more(void **state)
{
    (void)state;
    struct feed_result result;
    size_t len;

    char *fits = many_chunks(64, HTTP_BODY_BYTES_MAX, &len);
    feed_every_way(fits, len, &result);
    assert_int_equal(result.progress, HTTP_COMPLETE);
    assert_int_equal(result.used, len);
    assert_non_null(strstr(result.text, " body=65536:[abcdefghijklmnopqrstuvwxyz"));
    free(fits);

    char *over = many_chunks(64, HTTP_BODY_BYTES_MAX + 64, &len);
    feed_every_way(over, len, &result);
    assert_int_equal(result.problem, PROBLEM_BODY_TOO_LARGE);
    free(over);
}

static void framing_is_bounded_so_that_a_message_fits_its_buffer(void **state)
{
    (void)state;
    struct feed_result result;
    size_t len;

    /* One-byte chunks carry five bytes of framing each, and the end five more. */
    size_t most = (HTTP_FRAMING_BYTES_MAX - 5) / 5;
    char *fits = many_chunks(1, most, &len);
    feed_every_way(fits, len, &result);
    assert_int_equal(result.progress, HTTP_COMPLETE);
    assert_true(len <= HTTP_MESSAGE_BYTES_MAX);
    free(fits);

    char *over = many_chunks(1, most + 1, &len);
    feed_every_way(over, len, &result);
    assert_int_equal(result.problem, PROBLEM_BODY_TOO_LARGE);
    free(over);

    static char text[HTTP_FRAMING_BYTES_MAX + 256];
    static const char *const endless[] = { "1;", "0\r\nx: ", "0\r\nx" };
    for (size_t i = 0; i < 3; i++) {
        memset(text, 'x', sizeof(text));
        int start = snprintf(text, 256, "%s%s", HEAD, endless[i]);
        text[start] = 'x';
        feed_every_way(text, strlen(HEAD) + HTTP_FRAMING_BYTES_MAX, &result);
        assert_int_equal(result.progress, HTTP_NEEDS_BODY);
        feed_every_way(text, strlen(HEAD) + HTTP_FRAMING_BYTES_MAX + 1, &result);
        assert_int_equal(result.problem, PROBLEM_BODY_TOO_LARGE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunked_bodies_are_decoded_in_place_at_every_split),
        cmocka_unit_test(chunks_out_of_form_are_bad_requests_at_every_split),
        cmocka_unit_test(a_chunk_that_would_pass_the_limit_is_refused_when_its_size_is_said),
        cmocka_unit_test(many_chunks_may_add_up_to_65536_bytes_and_no_more),
        cmocka_unit_test(framing_is_bounded_so_that_a_message_fits_its_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
