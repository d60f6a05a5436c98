/* What others ask the keeper for, from any thread, and it does in its next turn. */
#include "base/clock.h"
#include "gate/keeper/inside.h"

#define MEND_APART_MS 2000
/* What has failed after so long was waited for: the others have their turn after whatever else is due. */
#define WAITED_MS 500

/* Under the lock. Asked often, it stands there once; where there is no room it is asked for again by whoever needs it. */
static void ask_put(struct keeper_asks *asks, uint64_t sale_id, bool anyway)
{
    uint32_t at = 0;
    while (at < asks->count && asks->ids[at] != sale_id) at++;
    if (at == asks->count && at < KEEPER_ASKS_MAX) {
        asks->ids[at] = sale_id;
        asks->anyway[at] = false;
        asks->count++;
    }
    if (at < asks->count && anyway) asks->anyway[at] = true;
}

static void ask_add(struct keeper *keeper, struct keeper_asks *asks, uint64_t sale_id, bool anyway)
{
    pthread_mutex_lock(&keeper->lock);
    ask_put(asks, sale_id, anyway);
    pthread_mutex_unlock(&keeper->lock);
}

/* The keeper's own asks wait for its next turn, so that what cannot be done now is not tried without a pause. */
static void turn_hasten(struct keeper *keeper)
{
    if (!atomic_exchange(&keeper->hasty, true)) uv_async_send(&keeper->wake);
}

void keeper_ask_rebuild(struct keeper *keeper, uint64_t sale_id, bool anyway)
{
    ask_add(keeper, &keeper->rebuilds, sale_id, anyway);
}

void keeper_rebuild(struct keeper *keeper, uint64_t sale_id)
{
    ask_add(keeper, &keeper->rebuilds, sale_id, false);
    turn_hasten(keeper);
}

void keeper_mend(struct keeper *keeper, uint64_t sale_id)
{
    ask_add(keeper, &keeper->rebuilds, sale_id, true);
    turn_hasten(keeper);
}

void keeper_fetch(struct keeper *keeper, uint64_t sale_id)
{
    ask_add(keeper, &keeper->fetches, sale_id, false);
    turn_hasten(keeper);
}

void keeper_errands(struct keeper *keeper)
{
    pthread_mutex_lock(&keeper->lock);
    keeper->errands_left = true;
    pthread_mutex_unlock(&keeper->lock);
    turn_hasten(keeper);
}

bool errands_take(struct keeper *keeper)
{
    pthread_mutex_lock(&keeper->lock);
    bool left = keeper->errands_left;
    keeper->errands_left = false;
    pthread_mutex_unlock(&keeper->lock);
    return left;
}

static void asks_take(struct keeper *keeper, struct keeper_asks *from, struct keeper_asks *out)
{
    pthread_mutex_lock(&keeper->lock);
    *out = *from;
    from->count = 0;
    pthread_mutex_unlock(&keeper->lock);
}

bool fetches_take(struct keeper *keeper)
{
    struct keeper_asks asks;
    asks_take(keeper, &keeper->fetches, &asks);
    return asks.count > 0;
}

/* Before those that have come meanwhile: one that does not answer is asked for all the time, and must not always be first.
 */
static void rebuilds_return(struct keeper *keeper, const struct keeper_asks *asks, uint32_t from)
{
    struct keeper_asks back = { .count = 0 };
    pthread_mutex_lock(&keeper->lock);
    for (uint32_t i = from; i < asks->count; i++) ask_put(&back, asks->ids[i], asks->anyway[i]);
    for (uint32_t i = 0; i < keeper->rebuilds.count; i++)
        ask_put(&back, keeper->rebuilds.ids[i], keeper->rebuilds.anyway[i]);
    keeper->rebuilds = back;
    pthread_mutex_unlock(&keeper->lock);
}

/* That a sale is to be mended is known only here: whoever needs it built asks again, and nobody asks for that. There are
 * never so many of these that no other ask has room. */
static bool mend_keep(struct keeper *keeper, uint64_t sale_id)
{
    pthread_mutex_lock(&keeper->lock);
    bool room = keeper->rebuilds.count < KEEPER_ASKS_MAX / 2;
    if (room) ask_put(&keeper->rebuilds, sale_id, true);
    pthread_mutex_unlock(&keeper->lock);
    return room;
}

/* Refusals come in crowds: what is asked for within a moment of the last mend is done once, when that is over. */
static bool mended_before(struct keeper *keeper, uint64_t sale_id)
{
    uint64_t now_ms = mono_ms();
    struct mended *oldest = &keeper->mended[0];
    for (int i = 0; i < KEEPER_MENDED; i++) {
        struct mended *mended = &keeper->mended[i];
        if (mended->sale_id == sale_id && now_ms < mended->at_ms + MEND_APART_MS) {
            mended->again = true;
            return true;
        }
        if (mended->at_ms < oldest->at_ms) oldest = mended;
    }
    if (oldest->again) (void)mend_keep(keeper, oldest->sale_id);
    *oldest = (struct mended){ .sale_id = sale_id, .at_ms = now_ms };
    return false;
}

static void mends_due(struct keeper *keeper)
{
    uint64_t now_ms = mono_ms();
    for (int i = 0; i < KEEPER_MENDED; i++) {
        struct mended *mended = &keeper->mended[i];
        if (mended->again && now_ms >= mended->at_ms + MEND_APART_MS) mended->again = !mend_keep(keeper, mended->sale_id);
    }
}

static void mended_forget(struct keeper *keeper, uint64_t sale_id)
{
    for (int i = 0; i < KEEPER_MENDED; i++) {
        if (keeper->mended[i].sale_id == sale_id) keeper->mended[i] = (struct mended){ .sale_id = 0 };
    }
}

/* Whether it took long and came to nothing. One whose Redis is away is not tried. */
static bool rebuild_was_waited_for(struct keeper *keeper, uint64_t sale_id, bool anyway)
{
    uint64_t began_ms = mono_ms();
    bool away = sale_is_away(keeper, sale_id), mend = anyway && !away && !mended_before(keeper, sale_id);
    bool waited = !away && !sale_rebuild(keeper, sale_id, mend) && mono_ms() - began_ms >= WAITED_MS;
    if (mend && waited) mended_forget(keeper, sale_id);
    if ((anyway && away) || (mend && waited)) (void)mend_keep(keeper, sale_id);
    return waited;
}

void rebuilds_do(struct keeper *keeper)
{
    struct keeper_asks asks;
    uint32_t next = 0;
    mends_due(keeper);
    asks_take(keeper, &keeper->rebuilds, &asks);
    for (bool waited = false; next < asks.count && !waited && !keeper_stopping(keeper); next++) {
        if (keeper_ledger(keeper) == NULL) break; /* without it none can be built */
        waited = rebuild_was_waited_for(keeper, asks.ids[next], asks.anyway[next]);
    }
    if (next < asks.count) rebuilds_return(keeper, &asks, next);
}
