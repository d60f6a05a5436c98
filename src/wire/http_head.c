#include "wire/http_head.h"

#include "base/text.h"

#include <assert.h>
#include <llhttp.h>

/* Everything a token may have (RFC 9110, 5.6.2). */
static const bool token_bytes[256] = {
    ['0' ... '9'] = true, ['A' ... 'Z'] = true, ['a' ... 'z'] = true, ['!'] = true, ['#'] = true, ['$'] = true,
    ['%'] = true,         ['&'] = true,         ['\''] = true,        ['*'] = true, ['+'] = true, ['-'] = true,
    ['.'] = true,         ['^'] = true,         ['_'] = true,         ['`'] = true, ['|'] = true, ['~'] = true,
};

bool http_is_token(unsigned char byte)
{
    return token_bytes[byte];
}

/* Position of the first byte below 0x20 or of 0x7f, or end. Eight at a time: borrows can only make wrong hits above a right
 * one in the same word, which the second loop then finds. */
static size_t control_find(const char *data, size_t at, size_t end)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    const uint64_t tops = UINT64_C(0x8080808080808080);

    while (at + 8 <= end) {
        uint64_t word;
        memcpy(&word, data + at, 8);
        uint64_t del = word ^ (ones * 0x7f);
        if (((((word - ones * 0x20) & ~word) | ((del - ones) & ~del)) & tops) != 0) break;
        at += 8;
    }
    while (at < end && (unsigned char)data[at] >= 0x20 && data[at] != 0x7f) at++;
    return at;
}

/* word is in lower case and as long as the text. Setting bit 5 makes no byte that may stand here equal to another's letter.
 */
static bool same_word(const char *text, const char *word, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((text[i] | 0x20) != word[i]) return false;
    return true;
}

static bool slice_is_word(struct slice text, const char *word)
{
    return text.len == strlen(word) && same_word(text.data, word, text.len);
}

static struct http_span span(const char *data, const char *from, const char *to)
{
    return (struct http_span){ (uint32_t)(from - data), (uint32_t)(to - from) };
}

static struct slice field_slice(const struct http_parser *parser, const char *data, enum http_field field)
{
    return (struct slice){ data + parser->fields[field].at, parser->fields[field].len };
}

static bool field_seen(const struct http_parser *parser, enum http_field field)
{
    return (parser->fields_seen & (1u << field)) != 0;
}

/* Origin form, or absolute form with its path taken out. The host of an absolute form is not looked at further: this server
 * is the same for every name it is called by. */
static enum problem read_target(struct http_parser *parser, const char *data, const char *from, const char *to)
{
    const char *path = from;

    for (const char *p = from; p < to; p++)
        if (*p == '#' || (unsigned char)*p > 0x7e) return PROBLEM_BAD_REQUEST;
    if (from < to && *from != '/') {
        size_t len = (size_t)(to - from);
        size_t scheme = len > 7 && same_word(from, "http://", 7) ? 7 : len > 8 && same_word(from, "https://", 8) ? 8 : 0;
        if (scheme == 0) return PROBLEM_BAD_REQUEST;
        const char *host = from + scheme;
        for (path = host; path < to && *path != '/' && *path != '?'; path++)
            if (*path == '@') return PROBLEM_BAD_REQUEST;
        if (path == host) return PROBLEM_BAD_REQUEST;
        if (path == to || *path == '?') {
            /* An empty path means "/", and the nearest one to point at is the second slash of "://". */
            parser->path = span(data, host - 1, host);
            parser->query = path == to ? span(data, to, to) : span(data, path + 1, to);
            return PROBLEM_NONE;
        }
    }
    if (path == to) return PROBLEM_BAD_REQUEST;

    const char *mark = memchr(path, '?', (size_t)(to - path));
    parser->path = span(data, path, mark != NULL ? mark : to);
    parser->query = mark != NULL ? span(data, mark + 1, to) : span(data, to, to);
    return PROBLEM_NONE;
}

static enum problem read_request_line(struct http_parser *parser, const char *data, size_t len)
{
    static const char version[] = " HTTP/1.";
    const size_t version_len = sizeof(version); /* with the digit that stands where the NUL is */
    const char *end = data + len;
    const char *p = data;

    while (p < end && token_bytes[(unsigned char)*p]) p++;
    if (p == data || p == end || *p != ' ') return PROBLEM_BAD_REQUEST;
    const char *target = p + 1;
    if ((size_t)(end - target) < version_len) return PROBLEM_BAD_REQUEST;
    const char *tail = end - version_len;
    if (memcmp(tail, version, version_len - 1) != 0) return PROBLEM_BAD_REQUEST;
    if (end[-1] != '0' && end[-1] != '1') return PROBLEM_BAD_REQUEST;
    parser->http10 = end[-1] == '0';
    if (memchr(target, ' ', (size_t)(tail - target)) != NULL) return PROBLEM_BAD_REQUEST;
    return read_target(parser, data, target, tail);
}

static enum http_field field_of(const char *name, size_t len)
{
    switch (len) {
    case 4:
        return same_word(name, "host", 4) ? HTTP_HOST : HTTP_FIELDS;
    case 6:
        return same_word(name, "expect", 6) ? HTTP_EXPECT : HTTP_FIELDS;
    case 10:
        return same_word(name, "webhook-id", 10) ? HTTP_WEBHOOK_ID : HTTP_FIELDS;
    case 12:
        return same_word(name, "content-type", 12) ? HTTP_CONTENT_TYPE : HTTP_FIELDS;
    case 13:
        if (same_word(name, "authorization", 13)) return HTTP_AUTHORIZATION;
        return same_word(name, "if-none-match", 13) ? HTTP_IF_NONE_MATCH : HTTP_FIELDS;
    case 14:
        return same_word(name, "content-length", 14) ? HTTP_CONTENT_LENGTH : HTTP_FIELDS;
    case 15:
        if (same_word(name, "idempotency-key", 15)) return HTTP_IDEMPOTENCY_KEY;
        if (same_word(name, "accept-encoding", 15)) return HTTP_ACCEPT_ENCODING;
        return same_word(name, "x-forwarded-for", 15) ? HTTP_FORWARDED_FOR : HTTP_FIELDS;
    case 17:
        if (same_word(name, "webhook-timestamp", 17)) return HTTP_WEBHOOK_TIMESTAMP;
        if (same_word(name, "webhook-signature", 17)) return HTTP_WEBHOOK_SIGNATURE;
        return same_word(name, "transfer-encoding", 17) ? HTTP_TRANSFER_ENCODING : HTTP_FIELDS;
    default:
        return HTTP_FIELDS;
    }
}

static void white_trim(const char **from, const char **to)
{
    while (*from < *to && (**from == ' ' || **from == '\t')) ++*from;
    while (*to > *from && ((*to)[-1] == ' ' || (*to)[-1] == '\t')) --*to;
}

/* Connection is a list, may be sent in parts, and close outweighs keep-alive. */
static void read_connection(struct http_parser *parser, const char *p, const char *end)
{
    while (p < end) {
        const char *comma = memchr(p, ',', (size_t)(end - p));
        const char *next = comma != NULL ? comma + 1 : end;
        const char *to = comma != NULL ? comma : end;
        white_trim(&p, &to);
        struct slice word = { p, (size_t)(to - p) };
        if (slice_is_word(word, "close")) parser->connection_close = true;
        if (slice_is_word(word, "keep-alive")) parser->connection_keep_alive = true;
        p = next;
    }
}

static enum problem read_header(struct http_parser *parser, const char *data, const char *line, const char *end)
{
    const char *colon = line;
    while (colon < end && token_bytes[(unsigned char)*colon]) colon++;
    /* Also refuses folding and a space before the colon: neither is made of token characters. */
    if (colon == line || colon == end || *colon != ':') return PROBLEM_BAD_REQUEST;
    if (++parser->header_count > HTTP_HEADERS_MAX) return PROBLEM_HEAD_TOO_LARGE;

    const char *value = colon + 1;
    white_trim(&value, &end);

    size_t name_len = (size_t)(colon - line);
    if (name_len == 10 && same_word(line, "connection", 10)) {
        read_connection(parser, value, end);
        return PROBLEM_NONE;
    }
    enum http_field field = field_of(line, name_len);
    if (field == HTTP_FIELDS) return PROBLEM_NONE;
    if (field_seen(parser, field) && field == HTTP_FORWARDED_FOR) {
        parser->fields[field].len = (uint32_t)(end - data) - parser->fields[field].at;
        parser->forwarded_in_parts = true;
        return PROBLEM_NONE;
    }
    if (field_seen(parser, field)) {
        /* A list may come in parts; one part of it is enough to save a transfer or not. Anything else twice means two
         * readers could choose differently. */
        return field == HTTP_IF_NONE_MATCH || field == HTTP_ACCEPT_ENCODING ? PROBLEM_NONE : PROBLEM_BAD_REQUEST;
    }
    parser->fields_seen |= 1u << field;
    parser->fields[field] = span(data, value, end);
    return PROBLEM_NONE;
}

/* The first line begins with its value, the last ends with it; each in between is a whole line that the scan has found good.
 */
struct slice http_forwarded_for(const struct http_request *request, char out[HTTP_HEAD_BYTES_MAX])
{
    if (!request->forwarded_in_parts) return request->forwarded_for;
    const char *line = request->forwarded_for.data, *end = line + request->forwarded_for.len;
    size_t len = 0;
    for (const char *next; line < end; line = next) {
        const char *to = memchr(line, '\r', (size_t)(end - line));
        next = to != NULL ? to + 2 : end;
        if (to == NULL) to = end;
        const char *value = line;
        if (line != request->forwarded_for.data) {
            const char *colon = memchr(line, ':', (size_t)(to - line));
            if (colon == NULL || field_of(line, (size_t)(colon - line)) != HTTP_FORWARDED_FOR) continue;
            value = colon + 1;
            out[len++] = ',';
        }
        white_trim(&value, &to);
        assert(len + (size_t)(to - value) < HTTP_HEAD_BYTES_MAX); /* it is shorter than what it was read from */
        memcpy(out + len, value, (size_t)(to - value));
        len += (size_t)(to - value);
    }
    return (struct slice){ out, len };
}

static bool host_good(struct slice host)
{
    for (size_t i = 0; i < host.len; i++) {
        unsigned char byte = (unsigned char)host.data[i];
        if (byte <= 0x20 || byte >= 0x7f || memchr("/\\@?#,\"<>", byte, 9) != NULL) return false;
    }
    return true;
}

/* What the headers mean together. */
static enum problem read_meaning(struct http_parser *parser, const char *data)
{
    bool has_length = field_seen(parser, HTTP_CONTENT_LENGTH);

    if (!parser->http10 && !field_seen(parser, HTTP_HOST)) return PROBLEM_BAD_REQUEST;
    if (field_seen(parser, HTTP_HOST) && !host_good(field_slice(parser, data, HTTP_HOST))) return PROBLEM_BAD_REQUEST;
    if (field_seen(parser, HTTP_TRANSFER_ENCODING)) {
        /* Chunked alone: no other coding is known here, and in HTTP/1.0 there is none at all. */
        if (parser->http10 || has_length) return PROBLEM_BAD_REQUEST;
        if (!slice_is_word(field_slice(parser, data, HTTP_TRANSFER_ENCODING), "chunked")) return PROBLEM_BAD_REQUEST;
        parser->chunked = true;
    }
    if (has_length && !text_to_u64(field_slice(parser, data, HTTP_CONTENT_LENGTH), &parser->content_length))
        return PROBLEM_BAD_REQUEST;
    if (field_seen(parser, HTTP_EXPECT) && !slice_is_word(field_slice(parser, data, HTTP_EXPECT), "100-continue"))
        return PROBLEM_BAD_REQUEST;
    return PROBLEM_NONE;
}

static int pause_at_body(llhttp_t *llhttp)
{
    (void)llhttp;
    return HPE_PAUSED;
}

static enum http_method method_of(uint8_t method)
{
    switch (method) {
    case HTTP_GET:
        return HTTP_GET_;
    case HTTP_POST:
        return HTTP_POST_;
    case HTTP_PUT:
        return HTTP_PUT_;
    case HTTP_PATCH:
        return HTTP_PATCH_;
    case HTTP_DELETE:
        return HTTP_DELETE_;
    case HTTP_HEAD:
        return HTTP_HEAD_;
    default:
        return HTTP_OTHER;
    }
}

/* llhttp reads the same head on its own; where it sees another message than we do, someone behind or before us may too. */
static enum problem ask_llhttp(struct http_parser *parser, const char *data)
{
    static const llhttp_settings_t settings = { .on_headers_complete = pause_at_body };
    llhttp_t llhttp;

    llhttp_init(&llhttp, HTTP_REQUEST, &settings);
    if (llhttp_execute(&llhttp, data, parser->head_len) != HPE_PAUSED) return PROBLEM_BAD_REQUEST;
    if (llhttp.method == HTTP_CONNECT) return PROBLEM_BAD_REQUEST;
    if (llhttp.http_major != 1 || llhttp.http_minor != (parser->http10 ? 0 : 1)) return PROBLEM_BAD_REQUEST;
    if (((llhttp.flags & F_CHUNKED) != 0) != parser->chunked) return PROBLEM_BAD_REQUEST;
    if (((llhttp.flags & F_CONTENT_LENGTH) != 0) != field_seen(parser, HTTP_CONTENT_LENGTH)) return PROBLEM_BAD_REQUEST;
    if (llhttp.content_length != parser->content_length) return PROBLEM_BAD_REQUEST;
    parser->method = method_of(llhttp.method);
    return PROBLEM_NONE;
}

static enum problem head_end(struct http_parser *parser, const char *data, size_t head_len)
{
    parser->head_len = head_len;
    enum problem problem = read_meaning(parser, data);
    if (problem == PROBLEM_NONE) problem = ask_llhttp(parser, data);
    if (problem == PROBLEM_NONE && parser->content_length > HTTP_BODY_BYTES_MAX) problem = PROBLEM_BODY_TOO_LARGE;
    parser->head_done = problem == PROBLEM_NONE;
    return problem;
}

enum problem http_head_scan(struct http_parser *parser, const char *data, size_t len)
{
    size_t window = len < HTTP_HEAD_BYTES_MAX ? len : HTTP_HEAD_BYTES_MAX;
    size_t at = parser->head_scanned;

    while ((at = control_find(data, at, window)) < window) {
        if (data[at] == '\t' && parser->line_start > 0) {
            /* Fine in a header's value; a name with one is refused at the end of its line. */
            at++;
            continue;
        }
        if (data[at] != '\r') return PROBLEM_BAD_REQUEST;
        if (at + 1 == window) break;
        if (data[at + 1] != '\n') return PROBLEM_BAD_REQUEST;

        enum problem problem;
        if (parser->line_start == 0)
            problem = read_request_line(parser, data, at);
        else if (at == parser->line_start)
            return head_end(parser, data, at + 2);
        else
            problem = read_header(parser, data, data + parser->line_start, data + at);
        if (problem != PROBLEM_NONE) return problem;
        at += 2;
        parser->line_start = at;
    }
    parser->head_scanned = at;
    if (len < HTTP_HEAD_BYTES_MAX) return PROBLEM_NONE;
    return parser->line_start == 0 ? PROBLEM_URI_TOO_LONG : PROBLEM_HEAD_TOO_LARGE;
}
