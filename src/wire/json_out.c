#include "wire/json_out.h"

#include "base/text.h"

/* A byte of six at most: \u00XX. */
#define ESCAPE_BYTES_MAX 6

void json_out_init(struct json_out *out, char *data, size_t size)
{
    *out = (struct json_out){ .data = data, .size = size };
}

/* Room for need more bytes, or overflow for good: half a value must never be followed by a whole one. */
static bool room(struct json_out *out, size_t need)
{
    if (out->overflow || need > out->size - out->len) {
        out->overflow = true;
        return false;
    }
    return true;
}

static void put(struct json_out *out, char byte)
{
    if (room(out, 1)) out->data[out->len++] = byte;
}

static void put_run(struct json_out *out, const char *data, size_t len)
{
    if (len == 0 || !room(out, len)) return;
    memcpy(out->data + out->len, data, len);
    out->len += len;
}

static void put_comma(struct json_out *out)
{
    if (out->comma) put(out, ',');
    out->comma = true;
}

static bool needs_escape(char byte)
{
    return (unsigned char)byte < 0x20 || byte == '"' || byte == '\\';
}

/* Length of the run of bytes that stand for themselves. Eight at a time: a subtraction borrows out of a byte only where it
 * was smaller, and a wrong hit can only lie above a right one in the same word, which the second loop then finds. */
static size_t plain_run(const char *data, size_t len)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    const uint64_t tops = UINT64_C(0x8080808080808080);
    size_t at = 0;

    while (at + 8 <= len) {
        uint64_t word;
        memcpy(&word, data + at, 8);
        uint64_t quote = word ^ (ones * '"');
        uint64_t slash = word ^ (ones * '\\');
        uint64_t low = (word - ones * 0x20) & ~word;
        if (((low | ((quote - ones) & ~quote) | ((slash - ones) & ~slash)) & tops) != 0) break;
        at += 8;
    }
    while (at < len && !needs_escape(data[at])) at++;
    return at;
}

static void put_escape(struct json_out *out, char byte)
{
    static const char hex[] = "0123456789abcdef";
    char text[ESCAPE_BYTES_MAX] = { '\\', byte };
    size_t len = 2;

    switch (byte) {
    case '"':
    case '\\':
        break;
    case '\b':
        text[1] = 'b';
        break;
    case '\f':
        text[1] = 'f';
        break;
    case '\n':
        text[1] = 'n';
        break;
    case '\r':
        text[1] = 'r';
        break;
    case '\t':
        text[1] = 't';
        break;
    default:
        memcpy(text + 1, "u00", 3);
        text[4] = hex[(unsigned char)byte >> 4];
        text[5] = hex[byte & 0x0f];
        len = 6;
    }
    put_run(out, text, len);
}

static void put_quoted(struct json_out *out, struct slice value)
{
    put(out, '"');
    for (size_t at = 0; at < value.len;) {
        size_t run = plain_run(value.data + at, value.len - at);
        put_run(out, value.data + at, run);
        at += run;
        if (at < value.len) put_escape(out, value.data[at++]);
    }
    put(out, '"');
}

void json_out_open(struct json_out *out, char bracket)
{
    put_comma(out);
    put(out, bracket);
    out->comma = false;
}

void json_out_close(struct json_out *out, char bracket)
{
    put(out, bracket);
    out->comma = true;
}

void json_out_quoted(struct json_out *out, struct slice value)
{
    put_comma(out);
    put_quoted(out, value);
}

void json_out_raw(struct json_out *out, struct slice value)
{
    put_comma(out);
    put_run(out, value.data, value.len);
}

void json_key(struct json_out *out, const char *key)
{
    put_comma(out);
    put_quoted(out, slice_of(key));
    put(out, ':');
    out->comma = false;
}

void json_u64(struct json_out *out, uint64_t value)
{
    char digits[20];
    json_out_raw(out, (struct slice){ digits, text_from_u64(digits, value) });
}

void json_i64(struct json_out *out, int64_t value)
{
    char digits[21] = "-";
    size_t sign = value < 0 ? 1 : 0;
    /* Negated as unsigned: the lowest int64_t has no positive twin. */
    uint64_t size = value < 0 ? -(uint64_t)value : (uint64_t)value;
    size_t len = text_from_u64(digits + sign, size);
    json_out_raw(out, (struct slice){ digits, sign + len });
}

void json_time(struct json_out *out, uint64_t ms)
{
    char text[TIME_TEXT_BYTES + 1];
    time_to_text(text, ms);
    json_out_quoted(out, (struct slice){ text, TIME_TEXT_BYTES });
}

void json_id(struct json_out *out, uint64_t id)
{
    char digits[20];
    json_out_quoted(out, (struct slice){ digits, text_from_u64(digits, id) });
}

void json_text_or_null(struct json_out *out, const char *key, const char *text)
{
    json_key(out, key);
    if (text[0] != '\0') {
        json_text(out, text);
    } else {
        json_null(out);
    }
}

void json_time_or_null(struct json_out *out, const char *key, uint64_t ms)
{
    json_key(out, key);
    if (ms != 0) {
        json_time(out, ms);
    } else {
        json_null(out);
    }
}

void json_id_or_null(struct json_out *out, const char *key, uint64_t id)
{
    json_key(out, key);
    if (id != 0) {
        json_id(out, id);
    } else {
        json_null(out);
    }
}
