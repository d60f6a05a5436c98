#include "redis/client.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "base/thread.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>

#define IN_FLIGHT_MAX_DEFAULT 10000
#define CALL_MS_DEFAULT 1000
#define CONNECT_MS_DEFAULT 1000
#define REACH_SAY_MS 3000

static bool sha1_print(char out[SHA1_TEXT_BYTES + 1], const char *text)
{
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    if (EVP_Digest(text, strlen(text), digest, &len, EVP_sha1(), NULL) != 1 || len * 2 != SHA1_TEXT_BYTES) return false;
    out[hex_encode(out, digest, len)] = '\0';
    return true;
}

enum fault redis_open(struct redis **out, const struct redis_options *options)
{
    assert(options->scripts_count <= REDIS_SCRIPTS_MAX && options->place.seeds_count > 0);
    struct redis *redis = calloc(1, sizeof(*redis));
    if (redis == NULL) return FAULT_MEMORY;
    redis->options = *options;
    if (redis->options.in_flight_max == 0) redis->options.in_flight_max = IN_FLIGHT_MAX_DEFAULT;
    if (redis->options.call_ms == 0) redis->options.call_ms = CALL_MS_DEFAULT;
    if (redis->options.connect_ms == 0) redis->options.connect_ms = CONNECT_MS_DEFAULT;
    thread_must(pthread_mutex_init(&redis->lock, NULL));
    for (uint32_t i = 0; i < options->scripts_count; i++) {
        if (sha1_print(redis->sha1[i], options->scripts[i].text)) continue;
        redis_close(redis);
        return FAULT_MEMORY;
    }
    *out = redis;
    return FAULT_NONE;
}

void redis_close(struct redis *redis)
{
    assert(redis->clients == NULL);
    thread_must(pthread_mutex_destroy(&redis->lock));
    OPENSSL_cleanse(&redis->options, sizeof(redis->options));
    free(redis);
}

/* Whether it was said already a short while ago; if not, it is now. Under the lock. */
static bool sentence_known(struct redis *redis, const char *sentence)
{
    uint64_t now_ms = mono_ms();
    struct redis_said *oldest = &redis->said[0];
    for (uint32_t i = 0; i < SAID_MAX; i++) {
        struct redis_said *said = &redis->said[i];
        if (strcmp(said->sentence, sentence) == 0 && now_ms - said->at_ms < SAID_AGAIN_MS) return true;
        if (said->at_ms < oldest->at_ms) oldest = said;
    }
    oldest->at_ms = now_ms;
    snprintf(oldest->sentence, sizeof(oldest->sentence), "%s", sentence);
    return false;
}

void redis_say(struct redis *redis, const char *sentence)
{
    thread_must(pthread_mutex_lock(&redis->lock));
    snprintf(redis->past.error, sizeof(redis->past.error), "%s", sentence);
    bool known = sentence_known(redis, sentence);
    thread_must(pthread_mutex_unlock(&redis->lock));
    if (!known) log_warn("redis", "%s", sentence);
}

void redis_note_refusal(struct redis *redis, const char *advice)
{
    uint64_t now_ms = mono_ms();
    thread_must(pthread_mutex_lock(&redis->lock));
    struct redis_refusal *refusal = &redis->refusal;
    if (now_ms - refusal->last_ms > REFUSAL_MS) refusal->first_ms = now_ms;
    refusal->last_ms = now_ms;
    refusal->advice = advice;
    thread_must(pthread_mutex_unlock(&redis->lock));
}

/* NULL: writes are taken, or have not been refused for long. */
static const char *refusal_advice(const struct redis_refusal *refusal)
{
    uint64_t now_ms = mono_ms();
    bool lasts = now_ms - refusal->first_ms >= REFUSAL_MS && now_ms - refusal->last_ms <= REFUSAL_MS;
    return lasts ? refusal->advice : NULL;
}

void redis_reached(struct redis *redis, const struct redis_node *node)
{
    char at[REDIS_ADDRESS_TEXT_BYTES], sentence[REDIS_SENTENCE_BYTES];
    const struct facts *facts = &node->facts;
    redis_address_print(at, &node->address);
    snprintf(sentence, sizeof(sentence), "Redis at %s is reached: version %s, %s, run id %s.", at, facts->version,
             facts->is_master ? "master" : "replica", facts->run_id);
    thread_must(pthread_mutex_lock(&redis->lock));
    if (facts->is_master) {
        memcpy(redis->past.run_id, facts->run_id, sizeof(redis->past.run_id));
        memcpy(redis->past.version, facts->version, sizeof(redis->past.version));
    }
    bool known = sentence_known(redis, sentence);
    thread_must(pthread_mutex_unlock(&redis->lock));
    if (!known) log_info("redis", "%s", sentence);
}

void redis_join(struct redis *redis, struct redis_client *client)
{
    thread_must(pthread_mutex_lock(&redis->lock));
    client->next = redis->clients;
    redis->clients = client;
    thread_must(pthread_mutex_unlock(&redis->lock));
}

static void status_add(struct redis_status *status, struct redis_client *client)
{
    status->calls += atomic_load(&client->calls);
    status->answered += atomic_load(&client->counts[REDIS_ANSWERED]);
    status->failed += atomic_load(&client->counts[REDIS_FAILED]);
    status->refused += atomic_load(&client->counts[REDIS_REFUSED]);
    status->busy += atomic_load(&client->counts[REDIS_BUSY]);
    status->down += atomic_load(&client->counts[REDIS_DOWN]);
    status->unknown += atomic_load(&client->counts[REDIS_UNKNOWN]);
    status->repeats += atomic_load(&client->repeats);
    status->reconnects += atomic_load(&client->reconnects);
}

void redis_leave(struct redis *redis, struct redis_client *client)
{
    thread_must(pthread_mutex_lock(&redis->lock));
    struct redis_client **at = &redis->clients;
    while (*at != client) at = &(*at)->next;
    *at = client->next;
    status_add(&redis->past, client);
    thread_must(pthread_mutex_unlock(&redis->lock));
}

void redis_status(struct redis *redis, struct redis_status *out)
{
    thread_must(pthread_mutex_lock(&redis->lock));
    *out = redis->past;
    out->connected = redis->clients != NULL;
    out->refuses = refusal_advice(&redis->refusal);
    for (struct redis_client *client = redis->clients; client != NULL; client = client->next) {
        uint32_t masters = atomic_load(&client->masters), ready = atomic_load(&client->masters_ready);
        uint64_t latency_us = atomic_load(&client->latency_us);
        status_add(out, client);
        out->clients++;
        out->masters += masters;
        out->masters_connected += ready;
        out->in_flight += atomic_load(&client->in_flight_seen);
        if (masters == 0 || ready < masters) out->connected = false;
        if (latency_us > out->latency_us) out->latency_us = latency_us;
    }
    thread_must(pthread_mutex_unlock(&redis->lock));
}

struct reach {
    uint64_t until_ms;
    bool over;
};

/* At every pause, and at the end. */
static void reach_turn(uv_timer_t *timer)
{
    struct reach *reach = timer->data;
    uint64_t now_ms = uv_now(timer->loop);
    reach->over = now_ms >= reach->until_ms;
    if (reach->over) return;
    uint64_t left_ms = reach->until_ms - now_ms;
    log_info("redis", "Redis is not reached yet: waiting for it, %u s more at most", (unsigned)((left_ms + 999) / 1000));
    uv_timer_start(timer, reach_turn, left_ms < REACH_SAY_MS ? left_ms : REACH_SAY_MS, 0);
}

/* The last thing that went wrong, and what to do about it. */
static void reach_explain(struct redis *redis, char sentence[REDIS_SENTENCE_BYTES])
{
    struct redis_status status;
    redis_status(redis, &status);
    snprintf(sentence, REDIS_SENTENCE_BYTES,
             "%.700s Check that it runs there and is well, and the address in the URL; then start again.",
             status.error[0] != '\0' ? status.error : "Redis does not answer.");
}

enum fault redis_reach(struct redis *redis, uint32_t wait_ms, char sentence[REDIS_SENTENCE_BYTES])
{
    uv_loop_t loop;
    uv_timer_t timer;
    struct redis_client *client;
    snprintf(sentence, REDIS_SENTENCE_BYTES, "There is no memory for a client of Redis.");
    if (uv_loop_init(&loop) != 0) return FAULT_MEMORY;
    enum fault fault = redis_client_open(&client, redis, &loop);
    if (fault == FAULT_NONE) {
        struct reach reach = { .until_ms = uv_now(&loop) + wait_ms };
        uv_timer_init(&loop, &timer);
        timer.data = &reach;
        uv_timer_start(&timer, reach_turn, wait_ms < REACH_SAY_MS ? wait_ms : REACH_SAY_MS, 0);
        while (!reach.over && client->unfit[0] == '\0' && !redis_client_ready(client)) uv_run(&loop, UV_RUN_ONCE);
        if (client->unfit[0] != '\0') {
            fault = FAULT_CONFIG;
            snprintf(sentence, REDIS_SENTENCE_BYTES, "%s", client->unfit);
        } else if (!redis_client_ready(client)) {
            fault = FAULT_TIMEOUT;
            reach_explain(redis, sentence);
        }
        uv_close((uv_handle_t *)&timer, NULL);
        redis_client_close(client);
    }
    /* Also what a client that could not be opened has left. */
    while (uv_run(&loop, UV_RUN_DEFAULT) != 0) continue;
    thread_must(uv_loop_close(&loop));
    return fault;
}
