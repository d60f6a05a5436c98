/* A Redis stream: an entry for each event, pipelined, confirmed by the id that XADD answers. */
#include "publisher/sink.h"

#include <assert.h>
#include <errno.h>
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct redis_sink {
    struct sink sink;
    redisContext *redis;
    char length_max[24];
};

static struct timeval timeval_of(uint32_t ms)
{
    return (struct timeval){ .tv_sec = ms / 1000, .tv_usec = (suseconds_t)(ms % 1000) * 1000 };
}

/* The connection has failed; hiredis calls a time-out by the name that the system has for it. */
static bool connection_failed(struct redis_sink *own)
{
    const struct publish_place *place = own->sink.options.place;
    bool late = own->redis->err == REDIS_ERR_IO && (errno == EAGAIN || errno == EWOULDBLOCK);
    return sink_failed(&own->sink, "Redis at %s port %u: %.120s", place->host, (unsigned)place->port,
                       late ? "it does not answer in time" : own->redis->errstr);
}

/* One command and its answer: NULL or an error is a failure, but for errors that begin with forgiven. */
static bool command_run(struct redis_sink *own, int count, const char **words, const char *forgiven)
{
    const struct publish_place *place = own->sink.options.place;
    redisReply *reply = redisCommandArgv(own->redis, count, words, NULL);
    if (reply == NULL) return connection_failed(own);
    bool good = reply->type != REDIS_REPLY_ERROR ||
                (forgiven != NULL && strncmp(reply->str, forgiven, strlen(forgiven)) == 0);
    if (!good)
        sink_failed(&own->sink, "Redis at %s port %u says no to %s: %.120s", place->host, (unsigned)place->port, words[0],
                    reply->str);
    freeReplyObject(reply);
    return good;
}

static bool login(struct redis_sink *own)
{
    const struct sink_options *options = &own->sink.options;
    const char *words[3] = { "AUTH", options->place->user, options->password };
    if (options->password[0] == '\0') return true;
    if (options->place->user[0] != '\0') return command_run(own, 3, words, NULL);
    words[1] = options->password;
    return command_run(own, 2, words, NULL);
}

static bool connect_redis(struct redis_sink *own)
{
    const struct publish_place *place = own->sink.options.place;
    own->redis = redisConnectWithTimeout(place->host, place->port, timeval_of(SINK_OPEN_MS));
    if (own->redis == NULL) return sink_failed(&own->sink, "there is no memory for a connection to Redis");
    if (own->redis->err != 0) return connection_failed(own);
    redisSetTimeout(own->redis, timeval_of(SINK_OPEN_MS));
    redisEnableKeepAlive(own->redis);
    if (!login(own)) return false;
    /* Whether we may, and whether the key is a stream. A user who may only add to it is not told, which is no matter. */
    const char *words[2] = { "XLEN", place->name };
    if (!command_run(own, 2, words, "NOPERM")) return false;
    redisSetTimeout(own->redis, timeval_of(SINK_CONFIRM_MS));
    return true;
}

static void redis_close(struct sink *sink)
{
    struct redis_sink *own = (struct redis_sink *)sink;
    if (own->redis != NULL) redisFree(own->redis);
    free(own);
}

static struct sink *redis_open(const struct sink_options *options, char error[SINK_ERROR_BYTES])
{
    struct redis_sink *own = calloc(1, sizeof *own);
    assert(own != NULL);
    own->sink = (struct sink){ .kind = &sink_redis, .options = *options };
    snprintf(own->length_max, sizeof own->length_max, "%" PRIu64, options->place->length_max);
    if (connect_redis(own)) return &own->sink;
    snprintf(error, SINK_ERROR_BYTES, "%s", own->sink.error);
    redis_close(&own->sink);
    return NULL;
}

#define WORDS_MAX 16
struct words {
    const char *text[WORDS_MAX];
    size_t len[WORDS_MAX];
    int count;
};

static void word_add(struct words *words, struct slice text)
{
    assert(words->count < WORDS_MAX);
    words->text[words->count] = text.data;
    words->len[words->count++] = text.len;
}

static bool redis_send(struct sink *sink, struct sink_message *message)
{
    struct redis_sink *own = (struct redis_sink *)sink;
    struct words words = { .count = 0 };
    word_add(&words, SLICE("XADD"));
    word_add(&words, slice_of(sink->options.place->name));
    if (sink->options.place->length_max > 0) {
        word_add(&words, SLICE("MAXLEN"));
        word_add(&words, SLICE("~"));
        word_add(&words, slice_of(own->length_max));
    }
    word_add(&words, SLICE("*"));
    word_add(&words, SLICE("id"));
    word_add(&words, slice_of(message->id));
    word_add(&words, SLICE("key"));
    word_add(&words, slice_of(message->key));
    word_add(&words, SLICE("type"));
    word_add(&words, slice_of(message->type));
    word_add(&words, SLICE("body"));
    word_add(&words, message->body);
    if (redisAppendCommandArgv(own->redis, words.count, words.text, words.len) == REDIS_OK) return true;
    return connection_failed(own);
}

static bool redis_confirm(struct sink *sink, struct sink_message *messages, size_t count)
{
    struct redis_sink *own = (struct redis_sink *)sink;
    bool all = true;
    for (size_t i = 0; i < count; i++) {
        void *answer = NULL;
        if (redisGetReply(own->redis, &answer) != REDIS_OK) return connection_failed(own);
        redisReply *reply = answer;
        bool good = reply->type == REDIS_REPLY_STRING;
        if (good) messages[i].fate = SINK_CONFIRMED;
        if (!good && all)
            sink_failed(sink, "Redis at %s port %u does not take an entry of stream %.60s: %.90s", sink->options.place->host,
                        (unsigned)sink->options.place->port, sink->options.place->name,
                        reply->type == REDIS_REPLY_ERROR ? reply->str : "its answer is none to XADD");
        all = all && good;
        freeReplyObject(reply);
    }
    return all;
}

const struct sink_kind sink_redis = { redis_open, redis_send, redis_confirm, redis_close };
