/* The gate of several machines: opening, lanes, and what is answered from memory. */
#include "gate/remote/remote.h"

#include "base/clock.h"
#include "gate/remote/change.h"
#include "gate/keeper/roster.h"

#include <assert.h>
#include <stdlib.h>
#include <time.h>

/* Who was told before it was filed does not wait for that, and a ledger takes hundreds for what a few cost it. */
#define GATHER_MS 25

uint64_t remote_now_ms(const struct gate *base)
{
    struct remote *remote = (struct remote *)base;
    uint64_t now_ms = mono_ms() + (uint64_t)atomic_load_explicit(&remote->ahead_ms, memory_order_relaxed);
    uint64_t last_ms = atomic_load_explicit(&remote->now_ms, memory_order_relaxed);
    while (last_ms < now_ms && !atomic_compare_exchange_weak(&remote->now_ms, &last_ms, now_ms)) continue;
    return last_ms > now_ms ? last_ms : now_ms;
}

uint64_t remote_number(struct remote *remote, uint64_t sale_id)
{
    uint64_t now_ms = remote_now_ms(&remote->gate);
    return numbers_next(&remote->numbers, sale_id, now_ms, mono_ms());
}

bool remote_saw_counts(struct remote *remote, uint64_t sale_id, const struct shelf_counts *counts)
{
    remote_saw_time(remote, counts->at_ms);
    return shelf_count(remote->shelf, sale_id, counts);
}

bool sale_is_over(const struct remote *remote, const struct ledger_shelved *row)
{
    return sale_is_closed(&row->sale, remote_now_ms(&remote->gate)) && row->sale.counts.held == 0;
}

static void on_mail(void *arg)
{
    struct remote_lane *lane = arg;
    pthread_mutex_lock(&lane->wake_lock);
    if (lane->wake != NULL) lane->wake(lane->arg);
    pthread_mutex_unlock(&lane->wake_lock);
}

static void remote_lane_close(struct gate_lane *base)
{
    struct remote_lane *lane = remote_lane_of(base);
    assert(!lane->attached);
    while (lane->jobs > 0) {
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        crew_mailbox_deliver(lane->changed);
        remote_file(lane);
    }
    remote_looks_close(lane);
    rechecks_close(lane);
    search_close(lane);
    filer_mailbox_close(lane->filed);
    if (lane->changed != NULL) crew_mailbox_close(lane->changed);
    pthread_mutex_destroy(&lane->wake_lock);
    free(lane->flights);
    free(lane);
}

static enum fault remote_lane_open(struct gate_lane **out, struct gate *base, void (*wake)(void *arg), void *arg)
{
    struct remote_lane *lane = calloc(1, sizeof *lane);
    if (lane == NULL) return FAULT_MEMORY;
    lane->lane.gate = base;
    lane->remote = remote_of(base);
    pthread_mutex_init(&lane->wake_lock, NULL);
    lane->wake = wake;
    lane->arg = arg;
    lane->flights = calloc(FLIGHTS_MAX, sizeof *lane->flights);
    enum fault fault = lane->flights == NULL ? FAULT_MEMORY : filer_mailbox_open(&lane->filed, on_mail, lane);
    if (fault == FAULT_NONE) fault = crew_mailbox_open(&lane->changed, on_mail, lane);
    if (fault == FAULT_NONE) fault = remote_looks_open(lane);
    if (fault == FAULT_NONE) fault = rechecks_open(lane);
    if (fault == FAULT_NONE) fault = search_open(lane);
    if (fault != FAULT_NONE) {
        remote_lane_close(&lane->lane);
        return fault;
    }
    for (uint32_t i = 0; i < FLIGHTS_MAX; i++) {
        lane->flights[i].next = lane->free;
        lane->free = &lane->flights[i];
    }
    *out = &lane->lane;
    return FAULT_NONE;
}

static enum fault remote_lane_attach(struct gate_lane *base, struct uv_loop_s *loop)
{
    struct remote_lane *lane = remote_lane_of(base);
    enum fault fault = redis_client_open(&lane->client, lane->remote->options.redis, loop);
    if (fault != FAULT_NONE) return fault;
    uv_timer_init(loop, &lane->again);
    uv_timer_init(loop, &lane->looks_again);
    uv_timer_init(loop, &lane->filing_late);
    uv_timer_init(loop, &lane->search_next);
    lane->again.data = lane->looks_again.data = lane->filing_late.data = lane->search_next.data = lane;
    lane->attached = true;
    return FAULT_NONE;
}

static void remote_lane_detach(struct gate_lane *base)
{
    struct remote_lane *lane = remote_lane_of(base);
    if (!lane->attached) return;
    pthread_mutex_lock(&lane->wake_lock);
    lane->wake = NULL; /* the loop is about to end; what comes later is collected when the lane is closed */
    pthread_mutex_unlock(&lane->wake_lock);
    lane->attached = false;
    uv_close((uv_handle_t *)&lane->again, NULL);
    uv_close((uv_handle_t *)&lane->looks_again, NULL);
    uv_close((uv_handle_t *)&lane->filing_late, NULL);
    uv_close((uv_handle_t *)&lane->search_next, NULL);
    redis_client_close(lane->client);
    remote_looks_end(lane);
    remote_ask(lane); /* they are told that there is nobody to ask */
}

static void remote_lane_rise(struct gate_lane *base)
{
    (void)base;
}

static void remote_lane_rest(struct gate_lane *base)
{
    struct remote_lane *lane = remote_lane_of(base);
    crew_mailbox_deliver(lane->changed);
    remote_file(lane);
    remote_ask(lane);
    if (lane->attached) remote_replicate(lane);
}

/* Every ticket has its own done(): nothing is waited for by number. */
static bool remote_await(struct gate_lane *base, uint64_t seq, struct gate_ticket *ticket)
{
    (void)base, (void)seq, (void)ticket;
    return true;
}

/* The keeper ends holds. */
static bool remote_expire(struct gate_lane *base, struct gate_ticket *ticket)
{
    (void)base, (void)ticket;
    return false;
}

static bool remote_sale(struct gate *base, uint64_t sale_id, struct sale *out)
{
    return shelf_sale(remote_of(base)->shelf, sale_id, out);
}

static uint64_t remote_sale_by_name(struct gate *base, struct slice seller, struct slice name)
{
    return shelf_by_name(remote_of(base)->shelf, seller, name);
}

static uint64_t remote_names_version(const struct gate *base)
{
    return shelf_names_version(((const struct remote *)base)->shelf);
}

struct visitor {
    void (*look)(const struct sale *sale, void *arg);
    void *arg;
};

static void visit(const struct sale *sale, uint64_t epoch, void *arg)
{
    const struct visitor *visitor = arg;
    (void)epoch;
    visitor->look(sale, visitor->arg);
}

static void remote_sales_each(struct gate *base, void (*look)(const struct sale *sale, void *arg), void *arg)
{
    struct visitor visitor = { look, arg };
    shelf_each(remote_of(base)->shelf, visit, &visitor);
}

static bool remote_sale_is_past(struct gate *base, uint64_t sale_id)
{
    struct shelf *shelf = remote_of(base)->shelf;
    uint64_t epoch;
    return sale_id != 0 && sale_id <= shelf_id_last(shelf) && !shelf_epoch(shelf, sale_id, &epoch);
}

static bool remote_was_kept(const struct gate *base, uint64_t since_ms)
{
    return kept_since(&((const struct remote *)base)->kept, since_ms);
}

static bool remote_sale_notice(const struct gate *base, uint64_t sale_id, struct board_notice *out)
{
    return shelf_notice(((const struct remote *)base)->shelf, sale_id, out);
}

/* Those that lists wait for: of this node, given and not filed. With ack = ledger what anybody was told is filed. */
static uint64_t remote_seq_decided(struct gate *base)
{
    struct remote *remote = remote_of(base);
    return remote->options.ack == GATE_ACK_LEDGER ? 0 : atomic_load(&remote->decided);
}

static uint64_t remote_seq_past(const struct gate *base)
{
    (void)base;
    return 0;
}

static uint64_t remote_seq_durable(const struct gate *base)
{
    (void)base;
    return UINT64_MAX;
}

static bool remote_is_here(const struct gate *base)
{
    (void)base;
    return false;
}

static bool remote_order_possible(struct gate *base, uint64_t order_no)
{
    enum { CLOCKS_APART_MS = 60000 };
    return order_no != 0 && order_no <= INT64_MAX && number_ms(order_no) <= remote_now_ms(base) + CLOCKS_APART_MS;
}

static const uint8_t *remote_uuid(const struct gate *base)
{
    return ((const struct remote *)base)->options.uuid;
}

static void remote_status(struct gate *base, struct gate_status *out)
{
    struct remote *remote = remote_of(base);
    struct redis_status redis;
    struct keeper_status keeper = { .entries = 0 };
    redis_status(remote->options.redis, &redis);
    if (remote->keeper != NULL) keeper_status(remote->keeper, &keeper);
    *out = (struct gate_status){ .room = true, .shared = true };
    out->seq_decided = atomic_load(&remote->decided);
    out->seq_durable = out->seq_decided;
    out->seq_filed = atomic_load(&remote->filed);
    out->nodes = atomic_load(&remote->nodes);
    out->usage.sales = shelf_size(remote->shelf);
    out->redis_up = redis.connected && redis.refuses == NULL;
    out->redis_refuses = redis.refuses;
    out->ledger_up = !filer_failing(remote->filer);
    out->numbered = numbers_are_given(&remote->numbers, mono_ms());
    out->selling = out->redis_up && out->numbered && (out->ledger_up || remote->options.ack != GATE_ACK_LEDGER);
    out->unfiled = keeper.entries;
    out->unfiled_oldest_ms = keeper.oldest_ms;
    out->errands = keeper.errands;
    out->rebuilds = keeper.rebuilds;
    out->owns_expiry = keeper.owns[KEEPER_LOCK_EXPIRY];
    out->owns_warm = keeper.owns[KEEPER_LOCK_WARM];
    for (int i = 0; i < GATE_JOB_COUNT; i++) out->owns[i] = keeper.owns[KEEPER_LOCK_JOBS + i];
    out->redis_latency_us = redis.latency_us;
    out->redis_in_flight = redis.in_flight;
    out->redis_unknown = redis.unknown;
    out->redis_reconnects = redis.reconnects;
}

static struct journal *remote_journal(struct gate *base)
{
    (void)base;
    return NULL;
}

static void remote_housekeep(struct gate *base, uint64_t seq_filed)
{
    (void)base, (void)seq_filed;
}

static enum fault remote_start(struct gate *base)
{
    struct remote *remote = remote_of(base);
    return keeper_open(&remote->keeper, remote);
}

static void remote_close(struct gate *base)
{
    struct remote *remote = remote_of(base);
    if (base == NULL) return;
    keeper_close(remote->keeper);
    crew_close(remote->changes);
    crew_close(remote->reads);
    filer_close(remote->filer);
    kept_deinit(&remote->kept);
    shelf_close(remote->shelf);
    free(remote);
}

static void remote_tell_logouts(struct gate *base, const struct gate_logouts *logouts)
{
    keeper_tell_logouts(remote_of(base)->keeper, logouts);
}

static bool remote_owns(struct gate *base, enum gate_job job, struct ledger_fence *fence)
{
    return keeper_owns(remote_of(base)->keeper, job, fence);
}

static void remote_disown(struct gate *base, enum gate_job job, const struct ledger_fence *fence)
{
    keeper_disown(remote_of(base)->keeper, job, fence);
}

static bool remote_give_away(struct gate *base, enum gate_job job)
{
    keeper_give_away(remote_of(base)->keeper, job);
    return true;
}

static void remote_report(struct gate *base, struct slice report)
{
    roster_say(keeper_roster(remote_of(base)->keeper), report);
}

static void remote_nodes_each(struct gate *base, void (*look)(const struct gate_node *node, void *arg), void *arg)
{
    roster_each(keeper_roster(remote_of(base)->keeper), look, arg);
}

static const struct gate_kind remote_kind = {
    .start = remote_start,
    .close = remote_close,
    .lane_open = remote_lane_open,
    .lane_close = remote_lane_close,
    .lane_attach = remote_lane_attach,
    .lane_detach = remote_lane_detach,
    .lane_rise = remote_lane_rise,
    .lane_rest = remote_lane_rest,
    .await = remote_await,
    .now_ms = remote_now_ms,
    .grab = remote_grab,
    .grabs_ask = remote_grabs_ask,
    .token = remote_token,
    .create = remote_create,
    .change = remote_change,
    .stock = remote_stock,
    .turn = remote_switch,
    .pay = remote_pay,
    .pay_past = remote_pay_past,
    .cancel = remote_cancel,
    .expire = remote_expire,
    .is_here = remote_is_here,
    .look = remote_look,
    .meet = remote_meet,
    .is_strange = remote_is_strange,
    .warm = remote_warm,
    .tell_logouts = remote_tell_logouts,
    .owns = remote_owns,
    .disown = remote_disown,
    .give_away = remote_give_away,
    .report = remote_report,
    .nodes_each = remote_nodes_each,
    .order_possible = remote_order_possible,
    .uuid = remote_uuid,
    .seq_durable = remote_seq_durable,
    .sale = remote_sale,
    .sale_by_name = remote_sale_by_name,
    .names_version = remote_names_version,
    .sales_each = remote_sales_each,
    .sale_is_past = remote_sale_is_past,
    .was_kept = remote_was_kept,
    .sale_notice = remote_sale_notice,
    .order = remote_order,
    .seq_decided = remote_seq_decided,
    .seq_past = remote_seq_past,
    .status = remote_status,
    .journal = remote_journal,
    .housekeep = remote_housekeep,
};

static void *changes_open(void *arg)
{
    struct change_tools *tools = calloc(1, sizeof *tools);
    if (tools != NULL) tools->place = arg;
    return tools;
}

static void changes_close(void *tools)
{
    struct change_tools *own = tools;
    if (own->ledger != NULL) ledger_close(own->ledger);
    free(own);
}

static enum fault remote_rooms(struct remote *remote)
{
    const struct gate_shared_options *options = &remote->options;
    const struct filer_options filing = {
        .place = options->ledger,
        .kept = &remote->kept,
        .threads = options->filer_threads,
        .gather_ms = options->ack == GATE_ACK_LEDGER ? 0 : GATHER_MS,
    };
    struct crew_options crew = {
        .name = "change",
        .threads = 4,
        .queue_max = 4096,
        .wait_ms_max = FLIGHT_MS,
        .tools_open = changes_open,
        .tools_close = changes_close,
        .arg = &remote->changes_place,
    };
    remote->changes_place = *options->ledger;
    remote->changes_place.answer_s_max = CHANGE_ANSWER_S_MAX;
    kept_init(&remote->kept);
    enum fault fault = shelf_open(&remote->shelf);
    if (fault == FAULT_NONE) fault = filer_open(&remote->filer, &filing);
    if (fault == FAULT_NONE) fault = crew_open(&remote->changes, &crew);
    crew.name = "read";
    return fault == FAULT_NONE ? crew_open(&remote->reads, &crew) : fault;
}

enum fault gate_open_shared(struct gate **out, const struct gate_shared_options *options)
{
    struct remote *remote = calloc(1, sizeof *remote);
    if (remote == NULL) return FAULT_MEMORY;
    remote->gate.kind = &remote_kind;
    remote->options = *options;
    atomic_store(&remote->nodes, 1);
    enum fault fault = remote_rooms(remote);
    if (fault != FAULT_NONE) {
        remote_close(&remote->gate);
        return fault;
    }
    *out = &remote->gate;
    return FAULT_NONE;
}
