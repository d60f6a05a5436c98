/* http_feed: gives a message to http_parse() in pieces and writes down what came out, so that two ways can be compared. */
#ifndef STAMPEDE_TESTS_HTTP_FEED_H
#define STAMPEDE_TESTS_HTTP_FEED_H

#include "wire/http.h"

struct feed_result {
    enum http_progress progress;
    enum problem problem; /* PROBLEM_NONE unless bad */
    size_t used;          /* 0 unless complete */
    char text[1024]; /* the request: "POST /path?query keep 1.1 auth=[..] type=[..] key=[..] match=[..] body=N:[..] crc", and
                        " for=[..]" if X-Forwarded-For came */
};

/* Each call to the parser sees a fresh copy of exactly as many bytes as have come, at another address. cuts are where the
 * pieces end, ascending; what is left after the last comes as one piece. */
void feed_pieces(const char *data, size_t len, const size_t *cuts, size_t cut_count, struct feed_result *out);
void feed_whole(const char *data, size_t len, struct feed_result *out);

/* Whole, in two pieces at every place, and byte by byte (bodies of many thousands: at places around the edges): fails the
 * test unless all are the same. */
void feed_every_way(const char *data, size_t len, struct feed_result *out);

#endif
