#include "guard/peers.h"

#include "base/log.h"
#include "base/random.h"
#include "base/region.h"
#include "base/siphash.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* connections 0: empty. */
struct peer {
    struct address address;
    uint32_t connections;
};

/* Open addressing with linear probing, at most half full. */
struct peers {
    pthread_mutex_t lock;
    struct region region;
    struct peer *slots;
    uint32_t slot_mask;
    uint32_t connections, connections_max;
    _Atomic uint32_t per_peer_max;
    uint8_t secret[16];
};

enum fault peers_open(struct peers **out, uint32_t connections_max, uint32_t per_peer_max)
{
    assert(connections_max > 0 && connections_max <= UINT32_C(1) << 30);
    uint32_t slots = 2;
    while (slots / 2 < connections_max) slots *= 2;

    struct peers *peers = calloc(1, sizeof(*peers));
    if (peers == NULL) {
        log_error("peers", "no memory for the table of addresses");
        return FAULT_MEMORY;
    }
    if (region_open(&peers->region, (size_t)slots * sizeof(struct peer)) != FAULT_NONE) {
        free(peers);
        return FAULT_MEMORY;
    }
    peers->slots = (struct peer *)(void *)peers->region.base;
    peers->slot_mask = slots - 1;
    peers->connections_max = connections_max;
    atomic_init(&peers->per_peer_max, per_peer_max);
    random_bytes(peers->secret, sizeof(peers->secret));
    pthread_mutex_init(&peers->lock, NULL);
    *out = peers;
    return FAULT_NONE;
}

void peers_close(struct peers *peers)
{
    if (peers == NULL) return;
    pthread_mutex_destroy(&peers->lock);
    region_close(&peers->region);
    free(peers);
}

static uint32_t slot_wanted(const struct peers *peers, const struct address *address)
{
    return (uint32_t)siphash(peers->secret, address->bytes, sizeof(address->bytes)) & peers->slot_mask;
}

/* The slot of an address, or the empty one where it belongs. */
static uint32_t slot_find(const struct peers *peers, const struct address *address)
{
    uint32_t at = slot_wanted(peers, address);
    while (peers->slots[at].connections > 0 && !address_equal(&peers->slots[at].address, address))
        at = (at + 1) & peers->slot_mask;
    return at;
}

/* Moves back whoever stands behind the hole and could stand in it, so that look-ups need no marks of what was once there. */
static void slot_empty(struct peers *peers, uint32_t hole)
{
    uint32_t mask = peers->slot_mask;
    for (uint32_t at = (hole + 1) & mask; peers->slots[at].connections > 0; at = (at + 1) & mask) {
        uint32_t wanted = slot_wanted(peers, &peers->slots[at].address);
        if (((at - wanted) & mask) < ((at - hole) & mask)) continue;
        peers->slots[hole] = peers->slots[at];
        hole = at;
    }
    peers->slots[hole].connections = 0;
}

static bool enter_locked(struct peers *peers, const struct address *key)
{
    if (peers->connections == peers->connections_max) return false;
    struct peer *peer = &peers->slots[slot_find(peers, key)];
    uint32_t per_peer_max = atomic_load_explicit(&peers->per_peer_max, memory_order_relaxed);
    if (per_peer_max > 0 && peer->connections >= per_peer_max) return false;
    if (peer->connections == 0) peer->address = *key;
    peer->connections++;
    peers->connections++;
    return true;
}

bool peers_enter(struct peers *peers, const struct address *address)
{
    struct address key = address_rate_key(address);
    pthread_mutex_lock(&peers->lock);
    bool entered = enter_locked(peers, &key);
    pthread_mutex_unlock(&peers->lock);
    return entered;
}

void peers_leave(struct peers *peers, const struct address *address)
{
    struct address key = address_rate_key(address);
    pthread_mutex_lock(&peers->lock);
    uint32_t at = slot_find(peers, &key);
    assert(peers->slots[at].connections > 0 && peers->connections > 0);
    peers->connections--;
    if (peers->slots[at].connections > 1) {
        peers->slots[at].connections--;
    } else {
        slot_empty(peers, at);
    }
    pthread_mutex_unlock(&peers->lock);
}

void peers_set_max(struct peers *peers, uint32_t per_peer_max)
{
    atomic_store_explicit(&peers->per_peer_max, per_peer_max, memory_order_relaxed);
}
