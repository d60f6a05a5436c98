#include "http_feed.h"

#include "base/checksum.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define SPLIT_ALL_MAX 1200

static const char *const methods[] = { "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OTHER" };

static void inside(struct slice slice, const char *data, size_t len)
{
    assert_true(slice.data >= data && slice.data <= data + len && slice.len <= (size_t)(data + len - slice.data));
}

static void describe(const struct http_request *request, const char *data, struct feed_result *out)
{
    const struct slice slices[] = { request->path,
                                    request->query,
                                    request->authorization,
                                    request->content_type,
                                    request->idempotency_key,
                                    request->if_none_match,
                                    request->accept_encoding,
                                    request->forwarded_for,
                                    request->webhook_id,
                                    request->webhook_timestamp,
                                    request->webhook_signature,
                                    request->body };
    for (size_t i = 0; i < sizeof(slices) / sizeof(slices[0]); i++) inside(slices[i], data, out->used);

    int shown = request->body.len < 40 ? (int)request->body.len : 40;
    int written = snprintf(out->text, sizeof(out->text),
                           "%s %.*s?%.*s %s %s auth=[%.*s] type=[%.*s] key=%s[%.*s] match=[%.*s] body=%zu:[%.*s] %08x",
                           methods[request->method], (int)request->path.len, request->path.data, (int)request->query.len,
                           request->query.data, request->keep_alive ? "keep" : "close", request->http10 ? "1.0" : "1.1",
                           (int)request->authorization.len, request->authorization.data, (int)request->content_type.len,
                           request->content_type.data, request->has_idempotency_key ? "" : "none",
                           (int)request->idempotency_key.len, request->idempotency_key.data, (int)request->if_none_match.len,
                           request->if_none_match.data, request->body.len, shown, request->body.data,
                           crc32c(0, request->body.data, request->body.len));
    assert_true(written > 0);
    char joined[HTTP_HEAD_BYTES_MAX];
    struct slice forwarded = http_forwarded_for(request, joined);
    if (forwarded.len == 0 && !request->forwarded_in_parts) return;
    written += snprintf(out->text + written, sizeof(out->text) - (size_t)written, " for=[%.*s]", (int)forwarded.len,
                        forwarded.data);
    assert_true(written > 0 && (size_t)written < sizeof(out->text));
}

/* What the caller holds between two reads: decoded bytes must survive the move to another address. */
struct held {
    char *data;
    size_t len;
};

static void held_grow(struct held *held, const char *data, size_t len)
{
    char *fresh = malloc(len > 0 ? len : 1);
    assert_non_null(fresh);
    if (held->len > 0) memcpy(fresh, held->data, held->len);
    memcpy(fresh + held->len, data + held->len, len - held->len);
    free(held->data);
    *held = (struct held){ fresh, len };
}

void feed_pieces(const char *data, size_t len, const size_t *cuts, size_t cut_count, struct feed_result *out)
{
    struct http_parser parser = { 0 };
    struct held held = { 0 };

    *out = (struct feed_result){ .progress = HTTP_NEEDS_HEAD };
    for (size_t i = 0; i <= cut_count; i++) {
        struct http_request request;

        held_grow(&held, data, i < cut_count ? cuts[i] : len);
        out->progress = http_parse(&parser, held.data, held.len, &request);
        if (out->progress == HTTP_BAD) {
            assert_int_not_equal(parser.problem, PROBLEM_NONE);
            out->problem = parser.problem;
            break;
        }
        if (out->progress == HTTP_COMPLETE) {
            size_t used = parser.used;
            out->used = used;
            assert_true(used > 0 && used <= held.len);
            describe(&request, held.data, out);
            /* What belongs to the next message is left alone. */
            assert_memory_equal(held.data + used, data + used, held.len - used);
            break;
        }
    }
    /* Asked for once, if at all; whether it was depends on what had come when. */
    if (out->progress == HTTP_NEEDS_CONTINUE) out->progress = HTTP_NEEDS_BODY;
    free(held.data);
}

void feed_whole(const char *data, size_t len, struct feed_result *out)
{
    feed_pieces(data, len, NULL, 0, out);
}

static void same(const struct feed_result *a, const struct feed_result *b, size_t cut)
{
    if (a->progress == b->progress && a->problem == b->problem && a->used == b->used && strcmp(a->text, b->text) == 0)
        return;
    fail_msg("cut at %zu: whole gives %d/%d/%zu [%s], pieces give %d/%d/%zu [%s]", cut, a->progress, a->problem, a->used,
             a->text, b->progress, b->problem, b->used, b->text);
}

void feed_every_way(const char *data, size_t len, struct feed_result *out)
{
    struct feed_result other;

    feed_whole(data, len, out);
    for (size_t cut = 0; cut <= len; cut++) {
        if (len > SPLIT_ALL_MAX && cut > 300 && cut + 300 < len && cut % 997 != 0) continue;
        feed_pieces(data, len, &cut, 1, &other);
        same(out, &other, cut);
    }
    if (len <= SPLIT_ALL_MAX) {
        size_t cuts[SPLIT_ALL_MAX];
        for (size_t i = 0; i < len; i++) cuts[i] = i;
        feed_pieces(data, len, cuts, len, &other);
        same(out, &other, 0);
    }
}
