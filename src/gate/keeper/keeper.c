#include "gate/keeper/keeper.h"

#include "base/clock.h"
#include "base/log.h"
#include "gate/keeper/inside.h"
#include "ledger/watch.h"

#include <inttypes.h>
#include <stdlib.h>

#define LEDGER_ANSWER_S 3
#define LEDGER_PATIENCE_MS 2000
#define LEDGER_PAUSE_MS_MIN 250
#define LEDGER_PAUSE_MS_MAX 4000
#define BESIDE_PAUSE_MS 1000
#define LOGOUTS_AGAIN_MS 5000

bool keeper_stopping(struct keeper *keeper)
{
    pthread_mutex_lock(&keeper->lock);
    bool stopping = keeper->stopping;
    pthread_mutex_unlock(&keeper->lock);
    return stopping;
}

/* One that is known to be away is not asked; as soon as it is back it is. */
struct ledger *keeper_ledger(struct keeper *keeper)
{
    if (ledger_watch_health(keeper->place.watch) >= LEDGER_GONE) {
        keeper->ledger_again_ms = 0;
        return NULL;
    }
    if (keeper->ledger != NULL || mono_ms() < keeper->ledger_again_ms) return keeper->ledger;
    enum fault fault = ledger_open(&keeper->ledger, &keeper->place, LEDGER_WRITER);
    if (fault != FAULT_NONE) {
        keeper->ledger = NULL;
        keeper_ledger_failed(keeper, fault);
        return NULL;
    }
    ledger_set_patience(keeper->ledger, LEDGER_PATIENCE_MS);
    if (keeper->ledger_pause_ms != 0) log_info("keeper", "the ledger is open again");
    keeper->ledger_pause_ms = 0;
    return keeper->ledger;
}

bool keeper_ledger_takes(const struct keeper *keeper)
{
    return keeper->ledger != NULL && ledger_watch_health(keeper->place.watch) == LEDGER_WELL;
}

void keeper_ledger_failed(struct keeper *keeper, enum fault fault)
{
    /* It has refused a write; one that is open may still be read. */
    if (keeper->ledger != NULL && ledger_watch_health(keeper->place.watch) == LEDGER_UNSAFE && fault == FAULT_TIMEOUT)
        return;
    if (keeper->ledger != NULL) ledger_close(keeper->ledger);
    keeper->ledger = NULL;
    keeper->ledger_pause_ms *= 2;
    if (keeper->ledger_pause_ms < LEDGER_PAUSE_MS_MIN) keeper->ledger_pause_ms = LEDGER_PAUSE_MS_MIN;
    if (keeper->ledger_pause_ms > LEDGER_PAUSE_MS_MAX) keeper->ledger_pause_ms = LEDGER_PAUSE_MS_MAX;
    keeper->ledger_again_ms = mono_ms() + keeper->ledger_pause_ms;
    log_warn("keeper", "the ledger failed (%d), and is left alone for %" PRIu64 " ms", (int)fault, keeper->ledger_pause_ms);
}

void keeper_note_memory(struct keeper *keeper)
{
    (void)keeper;
    log_warn("keeper", "no memory for all there is to do; it is tried again");
}

void keeper_count_rebuild(struct keeper *keeper)
{
    pthread_mutex_lock(&keeper->lock);
    keeper->status.rebuilds++;
    pthread_mutex_unlock(&keeper->lock);
}

void keeper_pulse(struct keeper *keeper)
{
    lease_keep(&keeper->lease, keeper);
    roster_keep(keeper);
    locks_keep(keeper);
    if (keeper->building != NULL && !lock_keep(keeper->building, keeper)) keeper->building = NULL;
}

/* The shelf. */

void keeper_shelve(struct keeper *keeper, const struct ledger_shelved *sale)
{
    struct shelf *shelf = keeper->remote->shelf;
    uint64_t epoch;
    /* One that is over and was never here need not come; one that is here goes when nothing of it is under way. */
    if (sale_is_over(keeper->remote, sale) && !shelf_epoch(shelf, sale->sale.id, &epoch)) return;
    if (!shelf_put(shelf, sale)) {
        log_error("keeper", "no room for sale %" PRIu64 " on the shelf: %u are the most", sale->sale.id, SALES_OPEN_MAX);
    }
}

static void sale_changed(void *arg, const struct ledger_shelved *sale)
{
    struct keeper *keeper = arg;
    keeper_shelve(keeper, sale);
    shelf_saw_id(keeper->remote->shelf, sale->sale.id); /* whose id is lower was made before, and seen before */
    if (sale->version > keeper->version) keeper->version = sale->version;
}

static enum fault shelf_refresh(struct keeper *keeper, struct ledger *ledger)
{
    uint64_t id_last = 0;
    enum fault fault = FAULT_NONE;
    /* Before the sales: one that is made meanwhile must not be taken for one that is over. */
    if (keeper->version == 0) fault = ledger_sale_id_last(ledger, &id_last);
    if (fault != FAULT_NONE) return fault;
    fault = ledger_each_changed_sale(ledger, keeper->version, remote_now_ms(&keeper->remote->gate), sale_changed, keeper);
    if (fault == FAULT_NONE && id_last != 0) shelf_saw_id(keeper->remote->shelf, id_last);
    return fault;
}

static void logged_out(void *arg, uint64_t token_id, uint64_t expires_ms)
{
    struct keeper *keeper = arg;
    pthread_mutex_lock(&keeper->logouts_lock);
    if (keeper->logouts.told != NULL) keeper->logouts.told(keeper->logouts.arg, token_id, expires_ms);
    pthread_mutex_unlock(&keeper->logouts_lock);
}

/* Whoever is told has not heard of those before. */
void keeper_tell_logouts(struct keeper *keeper, const struct gate_logouts *logouts)
{
    pthread_mutex_lock(&keeper->logouts_lock);
    keeper->logouts = logouts != NULL ? *logouts : (struct gate_logouts){ .told = NULL };
    keeper->logouts_new = logouts != NULL;
    pthread_mutex_unlock(&keeper->logouts_lock);
}

static bool logouts_wanted(struct keeper *keeper)
{
    pthread_mutex_lock(&keeper->logouts_lock);
    bool wanted = keeper->logouts.told != NULL;
    if (keeper->logouts_new) keeper->logouts_from = keeper->logouts_seen = 0;
    keeper->logouts_new = false;
    pthread_mutex_unlock(&keeper->logouts_lock);
    return wanted;
}

/* Logouts of other nodes. Rows get their numbers before they are committed, so one may come to be seen after a later one:
 * those of the last seconds are read again. */
static enum fault logouts_read(struct keeper *keeper, struct ledger *ledger)
{
    if (!logouts_wanted(keeper)) return FAULT_NONE;
    uint64_t last = keeper->logouts_from;
    enum fault fault = ledger_each_revoked_after(ledger, &last, logged_out, keeper);
    if (fault == FAULT_NONE && mono_ms() >= keeper->logouts_ms) {
        keeper->logouts_from = keeper->logouts_seen;
        keeper->logouts_seen = last;
        keeper->logouts_ms = mono_ms() + LOGOUTS_AGAIN_MS;
    }
    return fault;
}

static enum fault refresh_from(struct keeper *keeper, struct ledger *ledger)
{
    enum fault fault = shelf_refresh(keeper, ledger);
    return fault == FAULT_NONE ? logouts_read(keeper, ledger) : fault;
}

static void refresh(struct keeper *keeper)
{
    struct ledger *ledger = keeper_ledger(keeper);
    enum fault fault = ledger == NULL ? FAULT_NONE : refresh_from(keeper, ledger);
    if (fault != FAULT_NONE) keeper_ledger_failed(keeper, fault);
    keeper->refresh_ms = mono_ms() + KEEPER_REFRESH_MS;
}

/* On a connection beside the keeper's own, whose failure is not that of the other. */
static void refresh_beside(struct keeper *keeper)
{
    enum fault fault = FAULT_NONE;
    keeper->refresh_ms = mono_ms() + KEEPER_REFRESH_MS;
    if (ledger_watch_health(keeper->place.watch) >= LEDGER_GONE) return;
    if (keeper->beside == NULL) fault = ledger_open(&keeper->beside, &keeper->place, LEDGER_READER);
    if (fault == FAULT_NONE) fault = refresh_from(keeper, keeper->beside);
    if (fault == FAULT_NONE) return;
    keeper_beside_close(keeper);
    keeper->refresh_ms = mono_ms() + BESIDE_PAUSE_MS;
    log_warn("keeper", "what other nodes have changed could not be read (%d); again in %d ms", (int)fault, BESIDE_PAUSE_MS);
}

void keeper_beside_close(struct keeper *keeper)
{
    ledger_close(keeper->beside);
    keeper->beside = NULL;
}

void keeper_others(struct keeper *keeper)
{
    if (mono_ms() >= keeper->counts_ms) {
        asked_peek(keeper);
        keeper->counts_ms = mono_ms() + KEEPER_TURN_MS;
    }
    if (mono_ms() < keeper->refresh_ms) return;
    if (keeper->ledger_lent) refresh_beside(keeper);
    if (!keeper->ledger_lent) refresh(keeper);
}

/* What others know of it. */

struct roster *keeper_roster(struct keeper *keeper)
{
    return &keeper->roster;
}

void keeper_status(struct keeper *keeper, struct keeper_status *out)
{
    pthread_mutex_lock(&keeper->lock);
    *out = keeper->status;
    pthread_mutex_unlock(&keeper->lock);
}

/* What others ask for. */

/* A new sale of another node: the changes have it, and say so by the last id. */
static void fetches_do(struct keeper *keeper)
{
    if (fetches_take(keeper)) refresh(keeper);
}

static void errands_told_do(struct keeper *keeper)
{
    if (errands_take(keeper)) errands_do(keeper, KEEPER_ERRANDS_ALL);
}

/* The thread. */

static void turn(struct keeper *keeper)
{
    lease_keep(&keeper->lease, keeper); /* first: without it nothing is sold here */
    fetches_do(keeper);
    rebuilds_do(keeper);
    errands_told_do(keeper);
    asked_peek(keeper);
    uint64_t now_ms = mono_ms();
    if (now_ms >= keeper->refresh_ms) refresh(keeper);
    keeper_pulse(keeper);
    jobs_look(keeper);
    if (now_ms >= keeper->round_ms) round_do(keeper);
}

/* It only ends a wait; the turn looks for itself what there is to do. */
static void on_wake(uv_async_t *wake)
{
    (void)wake;
}

static void on_time(uv_timer_t *timer)
{
    struct keeper *keeper = timer->data;
    keeper->due = true;
}

/* The client's own clock ticks in this loop too, far more often than anybody has to be looked at. A round that has more to
 * file than there was time for goes on at once. */
static bool turn_waits(struct keeper *keeper)
{
    return !keeper->due && !atomic_load(&keeper->hasty) && !keeper_stopping(keeper) && mono_ms() < keeper->round_ms;
}

static void *keeper_run(void *arg)
{
    struct keeper *keeper = arg;
    while (!keeper_stopping(keeper)) {
        atomic_store(&keeper->hasty, false);
        turn(keeper);
        keeper->due = false;
        uv_run(&keeper->loop, UV_RUN_NOWAIT);
        while (turn_waits(keeper)) uv_run(&keeper->loop, UV_RUN_ONCE);
    }
    return NULL;
}

static enum fault keeper_loop(struct keeper *keeper)
{
    if (uv_loop_init(&keeper->loop) != 0) return FAULT_MEMORY;
    keeper->looped = true;
    if (uv_async_init(&keeper->loop, &keeper->wake, on_wake) != 0) return FAULT_MEMORY;
    uv_timer_init(&keeper->loop, &keeper->turn);
    keeper->turn.data = keeper;
    uv_timer_start(&keeper->turn, on_time, KEEPER_TURN_MS, KEEPER_TURN_MS);
    return redis_client_open(&keeper->client, keeper->remote->options.redis, &keeper->loop);
}

enum fault keeper_make(struct keeper **out, struct remote *remote)
{
    struct keeper *keeper = calloc(1, sizeof *keeper);
    if (keeper == NULL) return FAULT_MEMORY;
    keeper->remote = remote;
    keeper->place = *remote->options.ledger;
    keeper->place.answer_s_max = LEDGER_ANSWER_S;
    pthread_mutex_init(&keeper->lock, NULL);
    pthread_mutex_init(&keeper->logouts_lock, NULL);
    roster_init(&keeper->roster);
    enum fault fault = keeper_loop(keeper);
    if (fault == FAULT_NONE) fault = keeper_clock(keeper);
    if (fault == FAULT_NONE) fault = keeper_ledger(keeper) == NULL ? FAULT_LEDGER : shelf_refresh(keeper, keeper->ledger);
    if (fault != FAULT_NONE) {
        keeper_close(keeper);
        return fault;
    }
    *out = keeper;
    return FAULT_NONE;
}

enum fault keeper_open(struct keeper **out, struct remote *remote)
{
    struct keeper *keeper;
    enum fault fault = keeper_make(&keeper, remote);
    if (fault != FAULT_NONE) return fault;
    fault = lease_take(&keeper->lease, keeper, remote->options.node);
    if (fault != FAULT_NONE) {
        keeper_close(keeper);
        return fault;
    }
    locks_init(keeper);
    *out = remote->keeper = keeper;
    if (pthread_create(&keeper->thread, NULL, keeper_run, keeper) == 0) {
        keeper->threaded = true;
        (void)pthread_setname_np(keeper->thread, "keeper");
        return FAULT_NONE;
    }
    keeper_close(keeper);
    *out = NULL;
    return FAULT_MEMORY;
}

static void handle_close(uv_handle_t *handle, void *arg)
{
    const struct keeper *keeper = arg;
    bool ours = handle == (const uv_handle_t *)&keeper->wake || handle == (const uv_handle_t *)&keeper->turn;
    if (ours && !uv_is_closing(handle)) uv_close(handle, NULL);
}

void keeper_close(struct keeper *keeper)
{
    if (keeper == NULL) return;
    pthread_mutex_lock(&keeper->lock);
    keeper->stopping = true;
    pthread_mutex_unlock(&keeper->lock);
    if (keeper->threaded) {
        uv_async_send(&keeper->wake);
        pthread_join(keeper->thread, NULL);
    }
    if (keeper->client != NULL && !keeper->redis_silent) {
        locks_release(keeper);
        roster_leave(keeper);
        lease_release(&keeper->lease, keeper);
    }
    if (keeper->client != NULL) redis_client_close(keeper->client);
    if (keeper->looped) {
        uv_walk(&keeper->loop, handle_close, keeper);
        uv_run(&keeper->loop, UV_RUN_DEFAULT);
        uv_loop_close(&keeper->loop);
    }
    ledger_close(keeper->ledger);
    keeper_beside_close(keeper);
    strangers_deinit(&keeper->strangers);
    pthread_mutex_destroy(&keeper->lock);
    pthread_mutex_destroy(&keeper->logouts_lock);
    roster_deinit(&keeper->roster);
    free(keeper);
}
