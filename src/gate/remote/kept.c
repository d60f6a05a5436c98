#include "gate/remote/kept.h"

#include "base/clock.h"

/* So long a row in demand may stand still: what others file takes a commit of theirs. */
#define SURE_MS 250
/* Two misses further apart than that are two stories. */
#define STORY_MS 500
#define ALONE_MS 1000

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

/* The place of a sale; KEPT_MAX: it has none. */
static uint32_t row_find(const struct kept *kept, uint64_t sale_id)
{
    uint32_t at = 0;
    while (at < KEPT_MAX && atomic_load_explicit(&kept->rows[at].sale_id, memory_order_relaxed) != sale_id) at++;
    return at;
}

/* A free one, or that which was tried longest ago. */
static uint32_t row_choose(const struct kept *kept)
{
    uint32_t chosen = 0;
    for (uint32_t at = 0; at < KEPT_MAX; at++) {
        if (atomic_load(&kept->rows[at].sale_id) == 0) return at;
        if (kept->rows[at].last_ms < kept->rows[chosen].last_ms) chosen = at;
    }
    return chosen;
}

/* Under the lock: the sale's row, or a new one. */
static struct kept_row *row_of(struct kept *kept, uint64_t sale_id, uint64_t standing, uint64_t now_ms)
{
    uint32_t at = row_find(kept, sale_id);
    if (at < KEPT_MAX) return &kept->rows[at];
    struct kept_row *row = &kept->rows[row_choose(kept)];
    if (atomic_load(&row->sale_id) == 0) atomic_fetch_add(&kept->count, 1);
    atomic_store(&row->until_ms, 0);
    atomic_store(&row->sale_id, sale_id);
    row->standing = standing;
    row->first_ms = row->last_ms = now_ms;
    return row;
}

/* Under the lock. */
static void row_end(struct kept *kept, struct kept_row *row)
{
    atomic_store(&row->sale_id, 0);
    atomic_fetch_sub(&kept->count, 1);
}

static enum kept_state row_judge(struct kept *kept, struct kept_row *row, uint64_t standing, uint64_t now_ms)
{
    bool sure = atomic_load(&row->until_ms) != 0;
    if (row->standing != standing) {
        row_end(kept, row);
        atomic_store(&kept->waited_ms, 0);
        return KEPT_MOVES;
    }
    if (!sure && now_ms - row->last_ms > STORY_MS) row->first_ms = now_ms;
    row->last_ms = now_ms;
    if (!sure && now_ms - row->first_ms < SURE_MS) return KEPT_UNSURE;
    atomic_store(&row->until_ms, now_ms + ALONE_MS);
    return KEPT_SURE;
}

enum kept_state kept_miss(struct kept *kept, uint64_t sale_id, uint64_t standing, uint64_t now_ms)
{
    pthread_mutex_lock(&kept->lock);
    enum kept_state state = row_judge(kept, row_of(kept, sale_id, standing, now_ms), standing, now_ms);
    pthread_mutex_unlock(&kept->lock);
    return state;
}

void kept_remove(struct kept *kept, uint64_t sale_id)
{
    if (row_find(kept, sale_id) == KEPT_MAX) return;
    pthread_mutex_lock(&kept->lock);
    uint32_t at = row_find(kept, sale_id);
    if (at < KEPT_MAX) row_end(kept, &kept->rows[at]);
    pthread_mutex_unlock(&kept->lock);
}

bool kept_has(const struct kept *kept, uint64_t sale_id)
{
    uint32_t at = row_find(kept, sale_id);
    return at < KEPT_MAX && atomic_load_explicit(&kept->rows[at].until_ms, memory_order_relaxed) != 0;
}

bool kept_now(const struct kept *kept, uint64_t sale_id)
{
    uint32_t at = row_find(kept, sale_id);
    return at < KEPT_MAX && mono_ms() < atomic_load_explicit(&kept->rows[at].until_ms, memory_order_relaxed);
}
