/* reply: hiredis's reader, made to build our replies in an arena that is emptied after each. Inside this room only. */
#ifndef STAMPEDE_REDIS_REPLY_H
#define STAMPEDE_REDIS_REPLY_H

#include "redis/redis.h"

struct reply_chunk;
struct redisReader;

struct reply_reader {
    struct redisReader *reader;
    struct reply_chunk *chunks; /* the newest first; the last is kept */
    size_t bytes;               /* in all of them */
};

bool reply_reader_open(struct reply_reader *reader); /* false: no memory */
void reply_reader_close(struct reply_reader *reader);
/* False: what came is not the protocol, or too large; nothing more can be read. */
bool reply_reader_feed(struct reply_reader *reader, const char *bytes, size_t len) MUST_USE;
/* The next reply, valid until the next call. NULL in out: none is complete. False as above. */
bool reply_reader_next(struct reply_reader *reader, const struct redis_reply **out) MUST_USE;
const char *reply_reader_error(const struct reply_reader *reader);

#endif
