/* http: bytes to a request, and the head of an answer. No sockets.
 *
 * The caller keeps the bytes of one message together in memory and calls http_parse() with all it has so far; the slices of
 * a finished request point into them. Before any head reaches llhttp one pass of ours refuses bare CR or LF, NUL, folding
 * and a space before the colon: whatever the parser's version, nothing is smuggled. That pass and llhttp must then agree on
 * version and length, or the request is refused.
 *
 * Bytes are judged in the order they come, so the verdict and the request are the same wherever the network split them. */
#ifndef STAMPEDE_WIRE_HTTP_H
#define STAMPEDE_WIRE_HTTP_H

#include "base/slice.h"
#include "bounds.h"
#include "wire/problem.h"

#include <stdbool.h>
#include <stdint.h>

/* Chunk lines, their extensions and trailers together; a sender of one-byte chunks meets this before the limit of the body.
 */
#define HTTP_FRAMING_BYTES_MAX 16384
/* A caller whose buffer can hold this much never has to refuse on its own. */
#define HTTP_MESSAGE_BYTES_MAX (HTTP_HEAD_BYTES_MAX + HTTP_BODY_BYTES_MAX + HTTP_FRAMING_BYTES_MAX)

enum http_method { HTTP_GET_, HTTP_POST_, HTTP_PUT_, HTTP_PATCH_, HTTP_DELETE_, HTTP_HEAD_, HTTP_OTHER };

struct http_request {
    enum http_method method;
    struct slice path;  /* before '?', as sent; starts with '/' */
    struct slice query; /* after '?', may be empty */
    struct slice authorization, content_type, idempotency_key, if_none_match, accept_encoding;
    bool has_idempotency_key;
    struct slice forwarded_for; /* X-Forwarded-For; where it came in parts, from the first of them to the end of the last */
    bool forwarded_in_parts;    /* then http_forwarded_for() reads it */
    struct slice webhook_id, webhook_timestamp, webhook_signature; /* of a signed message: wire/signature.h */
    struct slice body;                                             /* decoded; chunked bodies are decoded in place */
    struct slice message;                                          /* all of it, which the others are pieces of */
    bool keep_alive;
    bool http10;
};

enum http_progress {
    HTTP_NEEDS_HEAD,     /* more bytes of the head */
    HTTP_NEEDS_BODY,     /* head is fine; more bytes of the body */
    HTTP_NEEDS_CONTINUE, /* as NEEDS_BODY, and the client waits for 100 Continue; said once per message */
    HTTP_COMPLETE,       /* request is filled; used bytes of the parser belong to it */
    HTTP_BAD,            /* problem of the parser says why; answer and close */
};

/* The headers this server reads, each at most once in a request unless it is a list. */
enum http_field {
    HTTP_HOST,
    HTTP_AUTHORIZATION,
    HTTP_CONTENT_TYPE,
    HTTP_CONTENT_LENGTH,
    HTTP_TRANSFER_ENCODING,
    HTTP_IDEMPOTENCY_KEY,
    HTTP_IF_NONE_MATCH,
    HTTP_ACCEPT_ENCODING,
    HTTP_EXPECT,
    HTTP_FORWARDED_FOR,
    HTTP_WEBHOOK_ID,
    HTTP_WEBHOOK_TIMESTAMP,
    HTTP_WEBHOOK_SIGNATURE,
    HTTP_FIELDS
};

/* Offset and length, because the buffer may move between calls. */
struct http_span {
    uint32_t at, len;
};

/* Where the decoder of chunks stands; values are private to http_chunk.c. */
struct http_chunks {
    uint32_t state;
    uint32_t size_digits;
    size_t left; /* of this chunk's data */
    size_t framing;
};

/* State between calls for one message; zero it for each new one. A caller may read the first three; the rest is private. */
struct http_parser {
    bool head_done;
    enum problem problem; /* when bad */
    size_t used;          /* when complete: the bytes that belong to the message */
    size_t head_scanned;  /* resume points, so that each byte is looked at once */
    size_t line_start;
    size_t head_len;
    size_t body_seen; /* bytes of the body as sent */
    size_t body_len;  /* and as decoded */
    uint64_t content_length;
    uint32_t header_count;
    uint32_t fields_seen; /* bits by enum http_field */
    bool forwarded_in_parts;
    enum http_method method;
    bool chunked, continued, http10;
    bool connection_close, connection_keep_alive;
    struct http_chunks chunks;
    struct http_span path, query;
    struct http_span fields[HTTP_FIELDS];
};

/* data[0..len): all of the message so far, from its first byte. */
enum http_progress http_parse(struct http_parser *parser, char *data, size_t len, struct http_request *out);

/* The request with its message copied to where it stays; out has room for all of message. */
void http_request_move(struct http_request *request, char *out);
/* Where a piece of a message is after that. */
struct slice http_piece_moved(struct slice piece, struct slice from, const char *to);

/* All X-Forwarded-For of a request in their order, joined with commas: as it stands in the message where there is one, else
 * in out. Each proxy may add to the header or write one of its own, and both mean the same. */
struct slice http_forwarded_for(const struct http_request *request, char out[HTTP_HEAD_BYTES_MAX]);

/* Writes status line and headers up to and with the blank line. extra: whole header lines with CRLF, may be empty. Length,
 * or 0 if it does not fit. The status is one of those in the table of http_answer.c. */
struct http_head {
    int status;
    struct slice content_type; /* empty: none, for 204 and 304 */
    size_t content_length;
    bool keep_alive;
    struct slice extra;
    bool endless; /* has no length: it ends with the connection */
};
size_t http_head_write(char *out, size_t size, const struct http_head *head);

/* Whether whoever sent this Accept-Encoding reads gzip. What cannot be read as a list of codings accepts nothing. */
bool http_accepts_gzip(struct slice accept_encoding);
/* Whether a request asks for a page to look at, as browsers do where somebody goes to an address: its Accept names
 * text/html. That is looked up in the message, so a request of which nobody asks it has cost nothing. */
bool http_accepts_html(const struct http_request *request);
/* Whether this If-None-Match is a star or has the tag, "…" with its quotes; W/ before it makes no difference. */
bool http_etag_matches(struct slice if_none_match, struct slice tag);

/* One field of a query, percent-decoded into out with a NUL. False if absent. *bad when it is there but its encoding is
 * wrong, it is not UTF-8, has a NUL, does not fit or is there twice; out is empty then. */
bool http_query_get(struct slice query, const char *name, char *out, size_t size, bool *bad);
/* One segment of a path, percent-decoded into out with a NUL behind its len bytes; here + is a plus. False when an escape is
 * wrong or it does not fit. What the bytes are is not judged. */
bool http_segment_decode(struct slice segment, char *out, size_t size, size_t *len);

#endif
