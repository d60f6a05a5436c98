/* http_head: the first pass over a head, line by line as bytes come, and llhttp's agreement with it. Private to http.c. */
#ifndef STAMPEDE_WIRE_HTTP_HEAD_H
#define STAMPEDE_WIRE_HTTP_HEAD_H

#include "wire/http.h"

/* True for the characters of a method or a header's name. */
bool http_is_token(unsigned char byte);

/* Looks at what is new in data. PROBLEM_NONE: fine so far; parser->head_done tells whether the head is whole. */
enum problem http_head_scan(struct http_parser *parser, const char *data, size_t len);

#endif
