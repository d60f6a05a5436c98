/* http_chunk: a strict decoder of chunked bodies, in place. Private to http.c. */
#ifndef STAMPEDE_WIRE_HTTP_CHUNK_H
#define STAMPEDE_WIRE_HTTP_CHUNK_H

#include "wire/http.h"

/* Decodes what is new in data[head_len + body_seen..len). *complete when the last chunk and the trailers are behind. CRLF
 * only; extensions and trailers are checked and dropped. */
enum problem http_chunk_decode(struct http_parser *parser, char *data, size_t len, bool *complete);

#endif
