#include "base/text.h"
#include "wire/http.h"

#include <assert.h>
#include <time.h>

/* Every status the server answers with. Written whole, so that the commonest part of an answer is one copy. */
#define STATUS(code, phrase)                                                                                                \
    case code:                                                                                                              \
        return SLICE("HTTP/1.1 " #code " " phrase "\r\n")

static struct slice status_line(int status)
{
    switch (status) {
        STATUS(200, "OK");
        STATUS(201, "Created");
        STATUS(202, "Accepted");
        STATUS(204, "No Content");
        STATUS(304, "Not Modified");
        STATUS(400, "Bad Request");
        STATUS(401, "Unauthorized");
        STATUS(403, "Forbidden");
        STATUS(404, "Not Found");
        STATUS(405, "Method Not Allowed");
        STATUS(408, "Request Timeout");
        STATUS(409, "Conflict");
        STATUS(413, "Content Too Large");
        STATUS(414, "URI Too Long");
        STATUS(415, "Unsupported Media Type");
        STATUS(422, "Unprocessable Content");
        STATUS(429, "Too Many Requests");
        STATUS(431, "Request Header Fields Too Large");
        STATUS(500, "Internal Server Error");
        STATUS(503, "Service Unavailable");
        STATUS(504, "Gateway Timeout");
    }
    assert(false && "a status that is not in the table");
    return SLICE("");
}

#define DATE_BYTES 37 /* Date: Sun, 06 Nov 1994 08:49:37 GMT and CRLF */

static void two_digits(char *out, int value)
{
    out[0] = (char)('0' + value / 10);
    out[1] = (char)('0' + value % 10);
}

/* By hand, because strftime() would speak the language of the machine. */
static void date_write(char out[DATE_BYTES], time_t now)
{
    static const char days[] = "SunMonTueWedThuFriSat";
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    struct tm tm;

    struct tm *known = gmtime_r(&now, &tm);
    assert(known != NULL && tm.tm_year >= 0 && tm.tm_year < 8100);
    memcpy(out, "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n", DATE_BYTES);
    memcpy(out + 6, days + (size_t)tm.tm_wday * 3, 3);
    two_digits(out + 11, tm.tm_mday);
    memcpy(out + 14, months + (size_t)tm.tm_mon * 3, 3);
    two_digits(out + 18, (tm.tm_year + 1900) / 100);
    two_digits(out + 20, (tm.tm_year + 1900) % 100);
    two_digits(out + 23, tm.tm_hour);
    two_digits(out + 26, tm.tm_min);
    two_digits(out + 29, tm.tm_sec);
}

/* The line is the same for a whole second; each thread keeps its own, so none waits for another. */
static const char *date_line(void)
{
    static _Thread_local char line[DATE_BYTES];
    static _Thread_local time_t written_for;

    time_t now = time(NULL);
    if (now != written_for) {
        date_write(line, now);
        written_for = now;
    }
    return line;
}

static char *append(char *at, struct slice text)
{
    if (text.len > 0) memcpy(at, text.data, text.len);
    return at + text.len;
}

size_t http_head_write(char *out, size_t size, const struct http_head *head)
{
    static const char type_name[] = "Content-Type: ";
    static const char length_name[] = "Content-Length: ";
    static const char close_line[] = "Connection: close\r\n";
    struct slice status = status_line(head->status);
    char digits[20];
    struct slice length = { digits, text_from_u64(digits, head->content_length) };

    /* 204 and 304 have no body, and so no length either (RFC 9110, 8.6). */
    bool has_length = head->status != 204 && head->status != 304 && !head->endless;
    size_t need = status.len + DATE_BYTES + head->extra.len + 2;
    if (head->content_type.len > 0) need += sizeof(type_name) - 1 + head->content_type.len + 2;
    if (has_length) need += sizeof(length_name) - 1 + length.len + 2;
    if (!head->keep_alive) need += sizeof(close_line) - 1;
    if (need > size) return 0;

    char *at = append(out, status);
    at = append(at, (struct slice){ date_line(), DATE_BYTES });
    if (head->content_type.len > 0) {
        at = append(at, SLICE(type_name));
        at = append(at, head->content_type);
        at = append(at, SLICE("\r\n"));
    }
    if (has_length) {
        at = append(at, SLICE(length_name));
        at = append(at, length);
        at = append(at, SLICE("\r\n"));
    }
    if (!head->keep_alive) at = append(at, SLICE(close_line));
    at = append(at, head->extra);
    at = append(at, SLICE("\r\n"));
    assert((size_t)(at - out) == need);
    return need;
}
