#include "people/revoked.h"

#include <assert.h>
#include <stddef.h>

static _Atomic uint64_t *ids_of(const struct revoked_table *table)
{
    return (_Atomic uint64_t *)(void *)table->ids.base;
}

static uint64_t *expires_of(const struct revoked_table *table)
{
    return (uint64_t *)(void *)table->expires.base;
}

static uint32_t full_at(const struct revoked *revoked)
{
    return revoked->slots / 4 * 3;
}

enum fault revoked_open(struct revoked *revoked, uint32_t slots)
{
    assert(slots >= 4 && (slots & (slots - 1)) == 0);
    *revoked = (struct revoked){ .slots = slots, .expires_first_ms = UINT64_MAX };
    int failed = pthread_mutex_init(&revoked->lock, NULL);
    assert(failed == 0);
    enum fault fault = FAULT_NONE;
    for (int i = 0; i < 2 && fault == FAULT_NONE; i++) {
        fault = region_open(&revoked->tables[i].ids, (size_t)slots * sizeof(uint64_t));
        if (fault == FAULT_NONE) fault = region_open(&revoked->tables[i].expires, (size_t)slots * sizeof(uint64_t));
    }
    if (fault != FAULT_NONE) revoked_close(revoked);
    return fault;
}

void revoked_close(struct revoked *revoked)
{
    for (int i = 0; i < 2; i++) {
        if (revoked->tables[i].ids.base != NULL) region_close(&revoked->tables[i].ids);
        if (revoked->tables[i].expires.base != NULL) region_close(&revoked->tables[i].expires);
    }
    int failed = pthread_mutex_destroy(&revoked->lock);
    assert(failed == 0);
}

/* Token ids are random, so their low bits spread by themselves. */
static bool table_has(const struct revoked *revoked, const struct revoked_table *table, uint64_t token_id)
{
    const _Atomic uint64_t *ids = ids_of(table);
    for (uint64_t at = token_id, tries = 0; tries < revoked->slots; at++, tries++) {
        uint64_t there = atomic_load_explicit(&ids[at & (revoked->slots - 1)], memory_order_acquire);
        if (there == token_id) return true;
        if (there == 0) return false;
    }
    return false;
}

bool revoked_has(const struct revoked *revoked, uint64_t token_id)
{
    /* Nobody logged out: no table is touched, and no cache line of it. */
    if (atomic_load_explicit(&revoked->count, memory_order_acquire) == 0) return false;
    for (;;) {
        uint64_t version = atomic_load_explicit(&revoked->version, memory_order_acquire);
        if (table_has(revoked, &revoked->tables[version % 2], token_id)) return true;
        /* An empty slot of a table being cleared was stored after the version that gave the table up, and was read with
         * acquire: this load cannot miss that version. */
        if (atomic_load_explicit(&revoked->version, memory_order_acquire) == version) return false;
    }
}

static void table_put(const struct revoked *revoked, const struct revoked_table *table, uint64_t token_id,
                      uint64_t expires_ms)
{
    _Atomic uint64_t *ids = ids_of(table);
    uint64_t at = token_id & (revoked->slots - 1);
    while (atomic_load_explicit(&ids[at], memory_order_relaxed) != 0) at = (at + 1) & (revoked->slots - 1);
    expires_of(table)[at] = expires_ms;
    atomic_store_explicit(&ids[at], token_id, memory_order_release);
}

/* Under the lock. */
static bool purge_locked(struct revoked *revoked, uint64_t now_ms, uint64_t mono_now_ms)
{
    if (revoked->purged_ms != 0 && mono_now_ms - revoked->purged_ms < REVOKED_PURGE_PAUSE_MS) return false;
    if (revoked->expires_first_ms == UINT64_MAX || revoked->expires_first_ms + REVOKED_MARGIN_MS > now_ms) return false;

    uint64_t version = atomic_load_explicit(&revoked->version, memory_order_relaxed);
    const struct revoked_table *from = &revoked->tables[version % 2], *to = &revoked->tables[(version + 1) % 2];
    for (uint32_t i = 0; i < revoked->slots; i++) {
        if (atomic_load_explicit(&ids_of(to)[i], memory_order_relaxed) != 0)
            atomic_store_explicit(&ids_of(to)[i], 0, memory_order_release);
    }
    uint32_t kept = 0;
    revoked->expires_first_ms = UINT64_MAX;
    for (uint32_t i = 0; i < revoked->slots; i++) {
        uint64_t token_id = atomic_load_explicit(&ids_of(from)[i], memory_order_relaxed);
        uint64_t expires_ms = expires_of(from)[i];
        if (token_id == 0 || expires_ms + REVOKED_MARGIN_MS <= now_ms) continue;
        table_put(revoked, to, token_id, expires_ms);
        if (expires_ms < revoked->expires_first_ms) revoked->expires_first_ms = expires_ms;
        kept++;
    }
    atomic_store_explicit(&revoked->version, version + 1, memory_order_release);
    atomic_store_explicit(&revoked->count, kept, memory_order_release);
    revoked->purged_ms = mono_now_ms;
    return true;
}

bool revoked_purge(struct revoked *revoked, uint64_t now_ms, uint64_t mono_now_ms)
{
    pthread_mutex_lock(&revoked->lock);
    bool purged = purge_locked(revoked, now_ms, mono_now_ms);
    pthread_mutex_unlock(&revoked->lock);
    return purged;
}

static bool full_locked(const struct revoked *revoked)
{
    return atomic_load_explicit(&revoked->count, memory_order_relaxed) + revoked->reserved >= full_at(revoked);
}

bool revoked_reserve(struct revoked *revoked, uint64_t now_ms, uint64_t mono_now_ms)
{
    pthread_mutex_lock(&revoked->lock);
    if (full_locked(revoked)) purge_locked(revoked, now_ms, mono_now_ms);
    bool room = !full_locked(revoked);
    if (room) revoked->reserved++;
    pthread_mutex_unlock(&revoked->lock);
    return room;
}

void revoked_unreserve(struct revoked *revoked)
{
    pthread_mutex_lock(&revoked->lock);
    assert(revoked->reserved > 0);
    revoked->reserved--;
    pthread_mutex_unlock(&revoked->lock);
}

void revoked_put(struct revoked *revoked, uint64_t token_id, uint64_t expires_ms)
{
    assert(token_id != 0);
    pthread_mutex_lock(&revoked->lock);
    assert(revoked->reserved > 0);
    revoked->reserved--;
    const struct revoked_table *table = &revoked->tables[atomic_load_explicit(&revoked->version, memory_order_relaxed) % 2];
    if (!table_has(revoked, table, token_id)) {
        table_put(revoked, table, token_id, expires_ms);
        if (expires_ms < revoked->expires_first_ms) revoked->expires_first_ms = expires_ms;
        atomic_fetch_add_explicit(&revoked->count, 1, memory_order_release);
    }
    pthread_mutex_unlock(&revoked->lock);
}
