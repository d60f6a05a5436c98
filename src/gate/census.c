#include "gate/census.h"

#include "base/clock.h"
#include "gate/keeper_jobs.h"

#include <stdio.h>

#define KEY_BYTES 160

/* By Redis's clock: those of the nodes may differ. */
static const char lives_text[] = "local time = redis.call('TIME') local now = time[1] * 1000 + math.floor(time[2] / 1000) "
                                 "redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1]) "
                                 "redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now) "
                                 "redis.call('PEXPIRE', KEYS[1], ARGV[2]) return redis.call('ZCARD', KEYS[1])";

static void key_print(char key[KEY_BYTES], const struct keeper *keeper)
{
    snprintf(key, KEY_BYTES, "%snodes", keeper->remote->options.prefix);
}

static void nodes_read(void *arg, const struct redis_reply *reply)
{
    struct keeper *keeper = arg;
    bool counted = reply->type == REDIS_NUMBER && reply->number > 0 && reply->number <= NODES_MAX;
    if (counted) atomic_store(&keeper->remote->nodes, (uint32_t)reply->number);
}

void census_keep(struct keeper *keeper)
{
    char key[KEY_BYTES], ttl[24];
    if (!keeper->lease.held || mono_ms() < keeper->census_ms) return;
    keeper->census_ms = mono_ms() + CENSUS_PAUSE_MS;
    key_print(key, keeper);
    snprintf(ttl, sizeof ttl, "%d", CENSUS_MS);
    const struct slice argv[] = { SLICE("EVAL"), slice_of(lives_text),          SLICE("1"),
                                  slice_of(key), slice_of(keeper->lease.owner), slice_of(ttl) };
    const struct command_ask ask = { .argv = argv, .argc = 6, .key = argv[3], .read = nodes_read, .arg = keeper };
    (void)keeper_command(keeper, &ask);
}

static void left(void *arg, const struct redis_reply *reply)
{
    (void)arg, (void)reply;
}

void census_leave(struct keeper *keeper)
{
    char key[KEY_BYTES];
    if (!keeper->lease.held) return;
    key_print(key, keeper);
    const struct slice argv[] = { SLICE("ZREM"), slice_of(key), slice_of(keeper->lease.owner) };
    const struct command_ask ask = { .argv = argv, .argc = 3, .key = argv[1], .read = left };
    (void)keeper_command(keeper, &ask);
}
