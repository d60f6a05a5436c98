#include "wire/http.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

/* Takes the Date line out, so that the rest can be compared; it must be there and be of this moment. */
static void date_cut(char *text)
{
    char *line = strstr(text, "Date: ");
    assert_non_null(line);
    struct tm tm = { 0 };
    const char *end = strptime(line, "Date: %a, %d %b %Y %H:%M:%S GMT", &tm);
    assert_non_null(end);
    assert_int_equal(end - line, 35);
    assert_memory_equal(end, "\r\n", 2);
    time_t said = timegm(&tm);
    assert_true(said <= time(NULL) && said >= time(NULL) - 30);
    int day = (int)((said / 86400 + 4) % 7);
    assert_int_equal(tm.tm_wday, day);
    memmove(line, end + 2, strlen(end + 2) + 1);
}

static const struct {
    struct http_head head;
    const char *want;
} rows[] = {
    { { 200, { "application/json", 16 }, 0, true, { "", 0 }, false },
      "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 0\r\n\r\n" },
    { { 201, { "application/json", 16 }, 65536, true, { "Location: /x\r\n", 14 }, false },
      "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 65536\r\nLocation: /x\r\n\r\n" },
    { { 204, { "", 0 }, 0, true, { "", 0 }, false }, "HTTP/1.1 204 No Content\r\n\r\n" },
    { { 304, { NULL, 0 }, 0, true, { "ETag: W/\"1\"\r\n", 13 }, false },
      "HTTP/1.1 304 Not Modified\r\nETag: W/\"1\"\r\n\r\n" },
    { { 400, { "application/problem+json", 24 }, 99, false, { NULL, 0 }, false },
      "HTTP/1.1 400 Bad Request\r\nContent-Type: application/problem+json\r\nContent-Length: 99\r\n"
      "Connection: close\r\n\r\n" },
    { { 500, { "a/b", 3 }, (size_t)-1, false, { "X: y\r\n", 6 }, false },
      "HTTP/1.1 500 Internal Server Error\r\nContent-Type: a/b\r\nContent-Length: 18446744073709551615\r\n"
      "Connection: close\r\nX: y\r\n\r\n" },
    { { 200, { "text/event-stream", 17 }, 0, false, { "", 0 }, true },
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n" },
};

static void heads_are_written_to_the_byte_and_only_if_they_fit(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[512];
        size_t len = http_head_write(text, sizeof(text) - 1, &rows[i].head);
        assert_int_equal(len, strlen(rows[i].want) + 37);
        text[len] = '\0';
        date_cut(text);
        assert_string_equal(text, rows[i].want);

        char *tight = malloc(len);
        assert_non_null(tight);
        assert_int_equal(http_head_write(tight, len, &rows[i].head), len);
        assert_int_equal(http_head_write(tight, len - 1, &rows[i].head), 0);
        assert_int_equal(http_head_write(tight, 0, &rows[i].head), 0);
        free(tight);
    }
}

static void every_status_of_a_problem_has_its_line(void **state)
{
    (void)state;
    for (enum problem problem = PROBLEM_NONE + 1; problem < PROBLEM_COUNT; problem++) {
        char text[256], want[16];
        struct http_head head = { .status = problem_status(problem), .keep_alive = true };
        size_t len = http_head_write(text, sizeof(text), &head);
        int want_len = snprintf(want, sizeof(want), "HTTP/1.1 %d ", head.status);
        assert_true(len > 0);
        assert_memory_equal(text, want, (size_t)want_len);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_are_written_to_the_byte_and_only_if_they_fit),
        cmocka_unit_test(every_status_of_a_problem_has_its_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
