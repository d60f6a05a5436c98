#include "gate/remote/kept.h"

#include "base/clock.h"

void kept_init(struct kept *kept)
{
    *kept = (struct kept){ .count = 0 };
    pthread_mutex_init(&kept->lock, NULL);
}

void kept_deinit(struct kept *kept)
{
    pthread_mutex_destroy(&kept->lock);
}

void kept_wait(struct kept *kept)
{
    atomic_store(&kept->waited_ms, mono_ms());
}

bool kept_since(const struct kept *kept, uint64_t since_ms)
{
    return atomic_load_explicit(&kept->waited_ms, memory_order_relaxed) > since_ms;
}

/* The place of a sale; KEPT_MAX: it has none. On the way of every grab: nearly always there are none at all. */
static uint32_t row_find(const struct kept *kept, uint64_t sale_id)
{
    uint32_t at = atomic_load_explicit(&kept->count, memory_order_relaxed) > 0 ? 0 : KEPT_MAX;
    while (at < KEPT_MAX && atomic_load_explicit(&kept->rows[at].sale_id, memory_order_relaxed) != sale_id) at++;
    return at;
}

/* A free one, or that which was tried longest ago. */
static uint32_t row_choose(const struct kept *kept)
{
    uint32_t chosen = 0;
    for (uint32_t at = 0; at < KEPT_MAX; at++) {
        if (atomic_load(&kept->rows[at].sale_id) == 0) return at;
        if (atomic_load(&kept->rows[at].until_ms) < atomic_load(&kept->rows[chosen].until_ms)) chosen = at;
    }
    return chosen;
}

void kept_add(struct kept *kept, uint64_t sale_id, uint64_t until_ms)
{
    pthread_mutex_lock(&kept->lock);
    uint32_t at = row_find(kept, sale_id);
    if (at == KEPT_MAX) {
        at = row_choose(kept);
        if (atomic_load(&kept->rows[at].sale_id) == 0) atomic_fetch_add(&kept->count, 1);
    }
    atomic_store(&kept->rows[at].until_ms, until_ms);
    atomic_store(&kept->rows[at].sale_id, sale_id);
    pthread_mutex_unlock(&kept->lock);
}

void kept_remove(struct kept *kept, uint64_t sale_id)
{
    if (!kept_has(kept, sale_id)) return;
    pthread_mutex_lock(&kept->lock);
    uint32_t at = row_find(kept, sale_id);
    if (at < KEPT_MAX) {
        atomic_store(&kept->rows[at].sale_id, 0);
        atomic_fetch_sub(&kept->count, 1);
    }
    pthread_mutex_unlock(&kept->lock);
}

bool kept_has(const struct kept *kept, uint64_t sale_id)
{
    return row_find(kept, sale_id) < KEPT_MAX;
}

bool kept_now(const struct kept *kept, uint64_t sale_id)
{
    uint32_t at = row_find(kept, sale_id);
    return at < KEPT_MAX && mono_ms() < atomic_load_explicit(&kept->rows[at].until_ms, memory_order_relaxed);
}
