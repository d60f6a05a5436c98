#include "wire/http.h"

#include "wire/http_chunk.h"
#include "wire/http_head.h"

#include <assert.h>
#include <string.h>

static struct slice slice_at(const char *data, struct http_span span)
{
    return (struct slice){ data + span.at, span.len };
}

/* Absent fields are empty slices that point at the first byte, so that no reader meets a null pointer. */
static void request_fill(const struct http_parser *parser, const char *data, struct http_request *out)
{
    *out = (struct http_request){
        .method = parser->method,
        .path = slice_at(data, parser->path),
        .query = slice_at(data, parser->query),
        .authorization = slice_at(data, parser->fields[HTTP_AUTHORIZATION]),
        .content_type = slice_at(data, parser->fields[HTTP_CONTENT_TYPE]),
        .idempotency_key = slice_at(data, parser->fields[HTTP_IDEMPOTENCY_KEY]),
        .if_none_match = slice_at(data, parser->fields[HTTP_IF_NONE_MATCH]),
        .accept_encoding = slice_at(data, parser->fields[HTTP_ACCEPT_ENCODING]),
        .forwarded_for = slice_at(data, parser->fields[HTTP_FORWARDED_FOR]),
        .forwarded_in_parts = parser->forwarded_in_parts,
        .webhook_id = slice_at(data, parser->fields[HTTP_WEBHOOK_ID]),
        .webhook_timestamp = slice_at(data, parser->fields[HTTP_WEBHOOK_TIMESTAMP]),
        .webhook_signature = slice_at(data, parser->fields[HTTP_WEBHOOK_SIGNATURE]),
        .has_idempotency_key = (parser->fields_seen & (1u << HTTP_IDEMPOTENCY_KEY)) != 0,
        .body = { data + parser->head_len, parser->body_len },
        .message = { data, parser->head_len + parser->body_seen },
        .keep_alive = !parser->connection_close && (!parser->http10 || parser->connection_keep_alive),
        .http10 = parser->http10,
    };
}

struct slice http_piece_moved(struct slice piece, struct slice from, const char *to)
{
    bool inside = piece.data >= from.data && piece.data <= from.data + from.len;
    return inside ? (struct slice){ to + (piece.data - from.data), piece.len } : piece;
}

void http_request_move(struct http_request *request, char *out)
{
    struct slice from = request->message;
    struct slice *pieces[] = { &request->path,
                               &request->query,
                               &request->authorization,
                               &request->content_type,
                               &request->idempotency_key,
                               &request->if_none_match,
                               &request->accept_encoding,
                               &request->forwarded_for,
                               &request->webhook_id,
                               &request->webhook_timestamp,
                               &request->webhook_signature,
                               &request->body,
                               &request->message };
    memcpy(out, from.data, from.len);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) *pieces[i] = http_piece_moved(*pieces[i], from, out);
}

/* An HTTP/1.0 client cannot mean what it says by Expect, and one that has begun to send does not wait. */
static bool waits_for_continue(const struct http_parser *parser, size_t len)
{
    return (parser->fields_seen & (1u << HTTP_EXPECT)) != 0 && !parser->http10 && !parser->continued &&
           len == parser->head_len;
}

enum http_progress http_parse(struct http_parser *parser, char *data, size_t len, struct http_request *out)
{
    if (!parser->head_done) {
        parser->problem = http_head_scan(parser, data, len);
        if (parser->problem != PROBLEM_NONE) return HTTP_BAD;
        if (!parser->head_done) return HTTP_NEEDS_HEAD;
    }
    assert(len >= parser->head_len);

    bool complete = false;
    if (parser->chunked) {
        parser->problem = http_chunk_decode(parser, data, len, &complete);
        if (parser->problem != PROBLEM_NONE) return HTTP_BAD;
    } else {
        size_t have = len - parser->head_len;
        complete = have >= parser->content_length;
        parser->body_seen = complete ? (size_t)parser->content_length : have;
        parser->body_len = parser->body_seen;
    }
    if (!complete) {
        if (!waits_for_continue(parser, len)) return HTTP_NEEDS_BODY;
        parser->continued = true;
        return HTTP_NEEDS_CONTINUE;
    }
    request_fill(parser, data, out);
    parser->used = parser->head_len + parser->body_seen;
    return HTTP_COMPLETE;
}
