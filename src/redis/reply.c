#include "redis/reply.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <stdlib.h>

#define CHUNK_BYTES 16384
#define READER_BUFFER_KEPT (1u << 20)

/* How many elements an array has is told in another type since 1.0. */
#if HIREDIS_MAJOR >= 1
#define ELEMENTS size_t
#else
#define ELEMENTS int
#endif

struct reply_chunk {
    struct reply_chunk *next;
    size_t used, size;
    _Alignas(max_align_t) char bytes[];
};

static struct reply_chunk *chunk_make(size_t size)
{
    struct reply_chunk *chunk = malloc(sizeof(*chunk) + size);
    if (chunk != NULL) *chunk = (struct reply_chunk){ .size = size };
    return chunk;
}

/* NULL, which hiredis takes for a lack of memory, also when the reply is beyond the bound. */
static void *arena_take(struct reply_reader *reader, size_t bytes)
{
    if (bytes > REDIS_REPLY_BYTES_MAX) return NULL;
    bytes = (bytes + _Alignof(max_align_t) - 1) & ~(_Alignof(max_align_t) - 1);
    struct reply_chunk *chunk = reader->chunks;
    if (chunk->size - chunk->used < bytes) {
        size_t size = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
        if (reader->bytes + size > REDIS_REPLY_BYTES_MAX || (chunk = chunk_make(size)) == NULL) return NULL;
        chunk->next = reader->chunks;
        reader->chunks = chunk;
        reader->bytes += size;
    }
    void *taken = chunk->bytes + chunk->used;
    chunk->used += bytes;
    return taken;
}

static void arena_empty(struct reply_reader *reader)
{
    while (reader->chunks->next != NULL) {
        struct reply_chunk *chunk = reader->chunks;
        reader->chunks = chunk->next;
        reader->bytes -= chunk->size;
        free(chunk);
    }
    reader->chunks->used = 0;
}

/* An element stands in its list already; the outermost reply gets a place of its own. */
static struct redis_reply *reply_place(const redisReadTask *task)
{
    if (task->parent == NULL) return arena_take(task->privdata, sizeof(struct redis_reply));
    struct redis_reply *list = task->parent->obj;
    return (struct redis_reply *)&list->items[task->idx];
}

static void *text_create(const redisReadTask *task, char *bytes, size_t len)
{
    struct redis_reply *reply = reply_place(task);
    char *copy = arena_take(task->privdata, len + 1);
    if (reply == NULL || copy == NULL) return NULL;
    memcpy(copy, bytes, len);
    copy[len] = '\0';
    *reply = (struct redis_reply){ .type = REDIS_TEXT, .text = { copy, len } };
    if (task->type == REDIS_REPLY_STATUS) reply->type = REDIS_WORD;
    if (task->type == REDIS_REPLY_ERROR) reply->type = REDIS_FAIL;
    return reply;
}

static void *list_create(const redisReadTask *task, ELEMENTS count)
{
    struct redis_reply *reply = reply_place(task);
    if (reply == NULL || (size_t)count > REDIS_REPLY_BYTES_MAX / sizeof(struct redis_reply)) return NULL;
    struct redis_reply *items = arena_take(task->privdata, (size_t)count * sizeof(*items));
    if (items == NULL) return NULL;
    *reply = (struct redis_reply){ .type = REDIS_LIST, .items = items, .count = (size_t)count };
    return reply;
}

static void *number_create(const redisReadTask *task, long long number)
{
    struct redis_reply *reply = reply_place(task);
    if (reply != NULL) *reply = (struct redis_reply){ .type = REDIS_NUMBER, .number = number };
    return reply;
}

static void *nil_create(const redisReadTask *task)
{
    struct redis_reply *reply = reply_place(task);
    if (reply != NULL) *reply = (struct redis_reply){ .type = REDIS_NIL };
    return reply;
}

/* All of it goes together, with the arena. */
static void reply_free(void *reply)
{
    (void)reply;
}

bool reply_reader_open(struct reply_reader *reader)
{
    static redisReplyObjectFunctions functions = {
        .createString = text_create,
        .createArray = list_create,
        .createInteger = number_create,
        .createNil = nil_create,
        .freeObject = reply_free,
    };
    *reader = (struct reply_reader){ .chunks = chunk_make(CHUNK_BYTES), .bytes = CHUNK_BYTES };
    reader->reader = redisReaderCreateWithFunctions(&functions);
    if (reader->chunks == NULL || reader->reader == NULL) {
        reply_reader_close(reader);
        return false;
    }
    reader->reader->privdata = reader;
    reader->reader->maxbuf = READER_BUFFER_KEPT;
    return true;
}

void reply_reader_close(struct reply_reader *reader)
{
    if (reader->reader != NULL) redisReaderFree(reader->reader);
    if (reader->chunks != NULL) arena_empty(reader);
    free(reader->chunks);
    *reader = (struct reply_reader){ 0 };
}

bool reply_reader_feed(struct reply_reader *reader, const char *bytes, size_t len)
{
    /* A text that is not complete stands in hiredis's own buffer, which has no bound of its own. */
    if (reader->reader->len + len > REDIS_REPLY_BYTES_MAX) return false;
    return redisReaderFeed(reader->reader, bytes, len) == REDIS_OK;
}

bool reply_reader_next(struct reply_reader *reader, const struct redis_reply **out)
{
    /* Only between two replies: what is begun stands in the arena. */
    if (reader->reader->ridx == -1) arena_empty(reader);
    void *reply = NULL;
    if (redisReaderGetReply(reader->reader, &reply) != REDIS_OK) return false;
    *out = reply;
    return true;
}

const char *reply_reader_error(const struct reply_reader *reader)
{
    return reader->reader->err != 0 ? reader->reader->errstr : "an answer of more than 64 MB";
}
