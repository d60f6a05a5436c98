/* Any bytes, whole and cut in two or three at places the input chooses: the verdict and the request must be the same, and no
 * slice may reach outside the message. The first four bytes are the cuts. */
#include "base/text.h"
#include "wire/http.h"

#include <stdlib.h>

#define MUST(condition)                                                                                                     \
    do {                                                                                                                    \
        if (!(condition)) abort();                                                                                          \
    } while (0)

struct outcome {
    enum http_progress progress;
    enum problem problem;
    size_t used;
    struct http_request request;
    char *data;
};

static void slice_check(struct slice slice, const char *data, size_t used, bool is_line)
{
    MUST(slice.data >= data && slice.len <= used && (size_t)(slice.data - data) <= used - slice.len);
    for (size_t i = 0; is_line && i < slice.len; i++)
        MUST(slice.data[i] != '\r' && slice.data[i] != '\n' && slice.data[i] != '\0');
}

static void outcome_check(const struct outcome *outcome)
{
    const struct http_request *request = &outcome->request;
    slice_check(request->path, outcome->data, outcome->used, true);
    slice_check(request->query, outcome->data, outcome->used, true);
    slice_check(request->authorization, outcome->data, outcome->used, true);
    slice_check(request->content_type, outcome->data, outcome->used, true);
    slice_check(request->idempotency_key, outcome->data, outcome->used, true);
    slice_check(request->if_none_match, outcome->data, outcome->used, true);
    slice_check(request->accept_encoding, outcome->data, outcome->used, true);
    (void)http_accepts_gzip(request->accept_encoding);
    slice_check(request->body, outcome->data, outcome->used, false);
    slice_check(request->forwarded_for, outcome->data, outcome->used, !request->forwarded_in_parts);
    char joined[HTTP_HEAD_BYTES_MAX];
    struct slice forwarded = http_forwarded_for(request, joined);
    MUST(forwarded.len <= request->forwarded_for.len);
    for (size_t i = 0; i < forwarded.len; i++) MUST(forwarded.data[i] != '\r' && forwarded.data[i] != '\n');
    MUST(request->path.len > 0 && request->path.data[0] == '/');
    MUST(request->body.len <= HTTP_BODY_BYTES_MAX && outcome->used <= HTTP_MESSAGE_BYTES_MAX);

    char value[32];
    bool bad;
    if (http_query_get(request->query, "limit", value, sizeof(value), &bad) && !bad) MUST(utf8_valid(slice_of(value)));
}

static struct outcome parse(const char *message, size_t len, const size_t cuts[2])
{
    struct outcome out = { .progress = HTTP_NEEDS_HEAD };
    struct http_parser parser = { 0 };
    size_t have = 0;
    for (size_t i = 0; i <= 2; i++) {
        size_t to = i < 2 ? cuts[i] : len;
        char *moved = malloc(to > 0 ? to : 1);
        MUST(moved != NULL && to >= have);
        if (have > 0) memcpy(moved, out.data, have);
        if (to > have) memcpy(moved + have, message + have, to - have);
        free(out.data);
        out.data = moved;
        have = to;
        out.progress = http_parse(&parser, out.data, have, &out.request);
        out.used = parser.used;
        out.problem = parser.problem;
        if (out.progress == HTTP_COMPLETE || out.progress == HTTP_BAD) break;
    }
    if (out.progress == HTTP_NEEDS_CONTINUE) out.progress = HTTP_NEEDS_BODY;
    if (out.progress == HTTP_COMPLETE) outcome_check(&out);
    return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 4) return 0;
    const char *message = (const char *)data + 4;
    size_t len = size - 4;
    size_t a = ((size_t)data[0] << 8 | data[1]) % (len + 1);
    size_t b = ((size_t)data[2] << 8 | data[3]) % (len + 1);

    struct outcome whole = parse(message, len, (size_t[2]){ len, len });
    struct outcome split = parse(message, len, a < b ? (size_t[2]){ a, b } : (size_t[2]){ b, a });
    MUST(whole.progress == split.progress);
    if (whole.progress == HTTP_BAD) MUST(whole.problem == split.problem && whole.problem != PROBLEM_NONE);
    if (whole.progress == HTTP_COMPLETE) {
        const struct http_request *x = &whole.request, *y = &split.request;
        MUST(whole.used == split.used);
        MUST(x->method == y->method && x->keep_alive == y->keep_alive && x->http10 == y->http10);
        MUST(x->has_idempotency_key == y->has_idempotency_key);
        MUST(slice_equal(x->path, y->path) && slice_equal(x->query, y->query) && slice_equal(x->body, y->body));
        MUST(slice_equal(x->authorization, y->authorization) && slice_equal(x->content_type, y->content_type));
        MUST(x->forwarded_in_parts == y->forwarded_in_parts && slice_equal(x->forwarded_for, y->forwarded_for));
        MUST(slice_equal(x->idempotency_key, y->idempotency_key) && slice_equal(x->if_none_match, y->if_none_match));
        MUST(slice_equal(x->accept_encoding, y->accept_encoding));
    }
    free(whole.data);
    free(split.data);
    return 0;
}
