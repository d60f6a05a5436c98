#include "redis/client.h"

#include "base/random.h"

#include <assert.h>
#include <stdlib.h>

#define TICK_MS_LATE (6 * WHEEL_TICK_MS)

static void flush_turn(uv_prepare_t *handle)
{
    struct redis_client *client = handle->data;
    client->hurried = false;
    while (client->dirty != NULL) {
        struct link *link = client->dirty;
        client->dirty = link->next_dirty;
        link->dirty = false;
        link_flush(link);
    }
    /* Whom a link that was lost has told may have asked for more. */
    if (!client->hurried && client->ended.first == NULL) uv_idle_stop(&client->hurry);
}

/* While it is there the loop does not rest, and comes to the flush. */
static void hurry_turn(uv_idle_t *handle)
{
    call_tell_ended(handle->data);
}

void client_hurry(struct redis_client *client)
{
    client->hurried = true;
    if (!uv_is_active((uv_handle_t *)&client->hurry)) uv_idle_start(&client->hurry, hurry_turn);
}

void redis_client_hurry(struct redis_client *client)
{
    if (!client->closing) client_hurry(client);
}

void client_dirty(struct redis_client *client, struct link *link)
{
    if (link->dirty || link->node == NULL) return;
    link->dirty = true;
    link->next_dirty = client->dirty;
    client->dirty = link;
    client_hurry(client);
}

void client_clean(struct redis_client *client, struct link *link)
{
    if (!link->dirty) return;
    struct link **at = &client->dirty;
    while (*at != link) at = &(*at)->next_dirty;
    *at = link->next_dirty;
    link->dirty = false;
}

/* A loop that was kept from turning has answers to read before it may say that they did not come. */
static void tick_turn(uv_timer_t *timer)
{
    struct redis_client *client = timer->data;
    uint64_t now_ms = uv_now(client->loop);
    bool late = now_ms - client->ticked_ms > TICK_MS_LATE;
    client->ticked_ms = now_ms;
    if (late) return;
    call_turn(client, now_ms);
    if (client->deadlines.count == 0 && client->retries.count == 0) uv_timer_stop(timer);
}

void client_ticks(struct redis_client *client)
{
    if (client->closing || uv_is_active((uv_handle_t *)&client->tick)) return;
    client->ticked_ms = uv_now(client->loop);
    uv_timer_start(&client->tick, tick_turn, WHEEL_TICK_MS, WHEEL_TICK_MS);
}

uint32_t client_dice(struct redis_client *client, uint32_t below)
{
    client->dice ^= client->dice << 13;
    client->dice ^= client->dice >> 7;
    client->dice ^= client->dice << 17;
    return (uint32_t)((client->dice >> 32) * below >> 32);
}

uint64_t client_backoff_ms(struct redis_client *client, uint32_t failures, uint32_t ms_min, uint32_t ms_max)
{
    if (failures == 0) return 0;
    uint64_t ms = ms_min;
    for (uint32_t i = 1; i < failures && ms < ms_max; i++) ms *= 2;
    if (ms > ms_max) ms = ms_max;
    return ms / 2 + client_dice(client, (uint32_t)(ms - ms / 2) + 1);
}

void client_count_masters(struct redis_client *client)
{
    uint32_t wanted = 0, ready = 0;
    for (uint32_t i = 0; i < client->nodes_count; i++) {
        const struct redis_node *node = client->nodes[i];
        if (!node->wanted) continue;
        wanted++;
        if (node->state == NODE_READY && node->facts.is_master) ready++;
    }
    atomic_store(&client->masters, wanted);
    atomic_store(&client->masters_ready, ready);
}

bool redis_client_ready(const struct redis_client *client)
{
    uint32_t masters = atomic_load(&client->masters);
    return client->routed && masters > 0 && atomic_load(&client->masters_ready) == masters;
}

bool redis_client_reaches(struct redis_client *client, struct slice key)
{
    const struct redis_node *node = route_choose(client, key);
    return node != NULL ? !node->down : !client->routed && !client->lost;
}

static void client_handles_init(struct redis_client *client)
{
    uv_prepare_init(client->loop, &client->flush);
    uv_idle_init(client->loop, &client->hurry);
    uv_timer_init(client->loop, &client->tick);
    uv_timer_init(client->loop, &client->look);
    client->flush.data = client->hurry.data = client->tick.data = client->look.data = client;
    client->handles = 4;
    uv_prepare_start(&client->flush, flush_turn);
}

enum fault redis_client_open(struct redis_client **out, struct redis *redis, uv_loop_t *loop)
{
    struct redis_client *client = calloc(1, sizeof(*client));
    if (client == NULL) return FAULT_MEMORY;
    client->redis = redis;
    client->loop = loop;
    random_bytes(&client->dice, sizeof(client->dice));
    client->dice |= 1;
    uv_update_time(loop);
    wheel_init(&client->deadlines, uv_now(loop));
    wheel_init(&client->retries, uv_now(loop));
    client_handles_init(client);
    redis_join(redis, client);
    enum fault fault = route_start(client);
    if (fault != FAULT_NONE) {
        redis_client_close(client);
        return fault;
    }
    *out = client;
    return FAULT_NONE;
}

void client_handle_closed(struct redis_client *client)
{
    assert(client->handles > 0);
    if (--client->handles == 0) free(client);
}

static void handle_closed(uv_handle_t *handle)
{
    client_handle_closed(handle->data);
}

void redis_client_close(struct redis_client *client)
{
    client->closing = true;
    while (client->parked.first != NULL) call_finish(client, client->parked.first, REDIS_DOWN, NULL);
    while (client->nodes_count > 0) node_close(client->nodes[client->nodes_count - 1]);
    call_tell_ended(client);
    assert(client->in_flight == 0);
    redis_leave(client->redis, client);
    uv_close((uv_handle_t *)&client->flush, handle_closed);
    uv_close((uv_handle_t *)&client->hurry, handle_closed);
    uv_close((uv_handle_t *)&client->tick, handle_closed);
    uv_close((uv_handle_t *)&client->look, handle_closed);
}
