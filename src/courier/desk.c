#include "courier/desk.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/random.h"
#include "courier/opening.h"
#include "journal/journal.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/resource.h>

/* How often the outbox is looked at, and how soon once a message has left a place free. */
#define LOOK_MS 100
#define LOOK_AGAIN_MS 2
#define LOOK_MS_WITHOUT_HOOKS 1000
/* Tries that end within this time are recorded together, unless they are many: one sync for all of them. */
#define RECORD_MS 50
#define RECORD_COUNT 256
#define MOMENTS_MS 250
/* A decision reads the clock before it waits for its turn: what is told to have happened by time lies this far back. */
#define MOMENTS_MARGIN_MS 1000
#define MOMENTS_WAIT_MS 200
#define ADVANCE_MS 60000
#define COUNT_MS 2000
#define RECONNECT_MS_MIN 100
#define RECONNECT_MS_MAX 5000
#define LEDGER_WAIT_MS_MAX 1000

/* A message takes three descriptors at most while its endpoint is looked for: all of them take a sixteenth of what there
 * is. */
static uint32_t in_flight_plan(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max / 48 >= COURIER_IN_FLIGHT_MAX) return COURIER_IN_FLIGHT_MAX;
    return limit.rlim_max >= 96 ? (uint32_t)(limit.rlim_max / 48) : 2;
}

enum fault desk_init(struct desk *desk, const struct courier_options *options, struct gate *gate, struct clerk *clerk)
{
    desk->gate = gate;
    desk->clerk = clerk;
    desk->private_allowed = options->private_allowed;
    desk->pace = options->pace;
    desk->place = *options->ledger;
    desk->ca_path = strdup(options->ca_path);
    desk->deliveries = calloc(DELIVERIES_MAX, sizeof *desk->deliveries);
    if (desk->ca_path == NULL || desk->deliveries == NULL) return FAULT_MEMORY;
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) return FAULT_MEMORY;
    desk->multi = curl_multi_init();
    if (desk->multi == NULL) return FAULT_MEMORY;
    desk->in_flight_max = in_flight_plan();
    curl_multi_setopt(desk->multi, CURLMOPT_MAXCONNECTS, (long)desk->in_flight_max);
    return FAULT_NONE;
}

void desk_deinit(struct desk *desk)
{
    for (size_t i = 0; desk->deliveries != NULL && i < DELIVERIES_MAX; i++) {
        delivery_abort(&desk->deliveries[i], desk->multi);
        delivery_deinit(&desk->deliveries[i]);
    }
    if (desk->multi != NULL) curl_multi_cleanup(desk->multi);
    if (desk->ledger != NULL) ledger_close(desk->ledger);
    endpoints_clear(desk);
    free(desk->deliveries);
    free(desk->ca_path);
}

static uint32_t dice(void)
{
    uint32_t number;
    random_bytes(&number, sizeof number);
    return number;
}

/* What has arrived, or has not. */

static void delivery_leave(struct desk *desk, struct delivery *delivery)
{
    assert(delivery->state == DELIVERY_DONE);
    delivery->endpoint->known--;
    delivery->state = DELIVERY_FREE;
    desk->done--;
}

static void delivery_judge(struct desk *desk, struct delivery *delivery, const struct delivery_answer *answer)
{
    struct endpoint *endpoint = delivery->endpoint;
    const struct backoff backoff = { desk->pace.retry_ms_min, desk->pace.retry_ms_max };
    uint64_t now_ms = gate_now_ms(desk->gate);
    uint64_t took_ms = now_ms > delivery->started_ms ? now_ms - delivery->started_ms : 0;
    if (answer->delivered || took_ms > ENDPOINT_SLOW_MS) endpoint_timed(endpoint, took_ms);
    if (answer->delivered) {
        endpoint_answered(endpoint);
        delivery->result.outcome = TRY_DELIVERED;
        metrics_add(METRIC_WEBHOOKS_DELIVERED, 1);
        return;
    }
    uint64_t asked_ms = answer->wait_ms < backoff.ms_max ? answer->wait_ms : backoff.ms_max;
    const struct endpoint_failure failure = { delivery->started_ms, now_ms, asked_ms, dice() };
    endpoint_failed(endpoint, &backoff, &failure);
    uint64_t wait_ms = backoff_ms(&backoff, delivery->notice.attempts + 1, dice());
    delivery->result.next_ms = now_ms + (wait_ms > asked_ms ? wait_ms : asked_ms);
    bool late = now_ms >= delivery->notice.since_ms + desk->pace.give_up_ms;
    delivery->result.outcome = answer->gone || late ? TRY_GIVEN_UP : TRY_FAILED;
    metrics_add(METRIC_WEBHOOKS_FAILED, 1);
    log_debug("courier", "notice %llu to %s: %s", (unsigned long long)delivery->notice.id, delivery->notice.seller,
              delivery->error);
}

static void transfer_end(struct desk *desk, struct delivery *delivery, CURLcode code, uint64_t now_ms)
{
    const struct delivery_answer answer = delivery_finish(delivery, desk->multi, code);
    delivery->endpoint->in_flight--;
    desk->in_flight--;
    if (desk->done++ == 0) desk->record_ms = now_ms + RECORD_MS;
    delivery_judge(desk, delivery, &answer);
    if (desk->look_ms > now_ms + LOOK_AGAIN_MS) desk->look_ms = now_ms + LOOK_AGAIN_MS;
}

static void transfers_take(struct desk *desk, uint64_t now_ms)
{
    int left;
    CURLMsg *message;
    curl_multi_perform(desk->multi, &left);
    while ((message = curl_multi_info_read(desk->multi, &left)) != NULL) {
        if (message->msg != CURLMSG_DONE) continue;
        struct delivery *delivery = NULL;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&delivery);
        transfer_end(desk, delivery, message->data.result, now_ms);
    }
    for (size_t i = 0; desk->in_flight > 0 && i < DELIVERIES_MAX; i++) {
        struct delivery *delivery = &desk->deliveries[i];
        if (delivery_lingers(delivery, mono_ms())) transfer_end(desk, delivery, CURLE_OPERATION_TIMEDOUT, now_ms);
    }
}

/* What became of tries goes into the ledger; only then are their places free. */

static enum fault results_record(struct desk *desk, uint64_t now_ms)
{
    const struct outbox_result *results[DELIVERIES_MAX];
    size_t count = 0;
    uint64_t given_up;
    for (size_t i = 0; i < DELIVERIES_MAX; i++) {
        if (desk->deliveries[i].state == DELIVERY_DONE) results[count++] = &desk->deliveries[i].result;
    }
    enum fault fault = ledger_outbox_record(desk->ledger, &(struct outbox_results){ results, count, now_ms }, &given_up);
    if (fault != FAULT_NONE) return fault;
    metrics_add(METRIC_WEBHOOKS_GIVEN_UP, given_up);
    for (size_t i = 0; i < DELIVERIES_MAX; i++) {
        if (desk->deliveries[i].state == DELIVERY_DONE) delivery_leave(desk, &desk->deliveries[i]);
    }
    desk->look_ms = now_ms; /* what waited for these may set out */
    return FAULT_NONE;
}

/* An endpoint that fails gets one message at a time: those behind it grow too old without having been tried. */
static enum fault stale_give_up(struct desk *desk, uint64_t now_ms)
{
    uint64_t since_ms_max = now_ms > desk->pace.give_up_ms ? now_ms - desk->pace.give_up_ms : 0;
    for (size_t i = 0; i < desk->endpoint_count; i++) {
        struct endpoint *endpoint = desk->endpoints[i];
        if (!endpoint->stale) continue;
        const struct outbox_age age = { slice_of(endpoint->hook.seller), since_ms_max, now_ms };
        uint64_t count;
        enum fault fault = ledger_outbox_give_up(desk->ledger, &age, &count);
        if (fault != FAULT_NONE) return fault;
        endpoint->stale = count > 0; /* there may be more */
        metrics_add(METRIC_WEBHOOKS_GIVEN_UP, count);
        if (count > 0)
            log_warn("courier", "%llu notices to %s are given up: its webhook does not answer", (unsigned long long)count,
                     endpoint->hook.seller);
    }
    return FAULT_NONE;
}

/* What is due sets out. */

struct look {
    const struct desk *desk;
    struct notice notices[ENDPOINT_PARALLEL_MAX];
    uint32_t count, max;
};

static void due_take(void *arg, const struct notice *notice)
{
    struct look *look = arg;
    if (look->count == look->max) return;
    for (size_t i = 0; i < DELIVERIES_MAX; i++) {
        const struct delivery *delivery = &look->desk->deliveries[i];
        if (delivery->state != DELIVERY_FREE && delivery->notice.id == notice->id) return;
    }
    look->notices[look->count++] = *notice;
}

static struct delivery *delivery_free_find(struct desk *desk)
{
    for (size_t i = 0; i < DELIVERIES_MAX; i++) {
        if (desk->deliveries[i].state == DELIVERY_FREE) return &desk->deliveries[i];
    }
    return NULL;
}

static enum fault notice_send(struct desk *desk, struct endpoint *endpoint, const struct notice *notice, uint64_t now_ms)
{
    struct delivery *delivery = delivery_free_find(desk);
    if (delivery == NULL) return FAULT_NONE; /* recorded in a moment */
    struct ledger_order order;
    bool found = false;
    enum fault fault = notice->order_no == 0 ? FAULT_NONE : ledger_order(desk->ledger, notice->order_no, &order, &found);
    struct slice body = { NULL, 0 };
    if (fault == FAULT_NONE && notice->event_id != 0) fault = opening_render(desk->ledger, notice, &body);
    if (fault != FAULT_NONE) return fault;
    const struct delivery_options options = { desk->pace.timeout_ms, desk->private_allowed, desk->ca_path };
    const struct delivery_parcel parcel = {
        .order = found ? &order : NULL,
        .body = (char *)body.data,
        .body_len = body.len,
        .uuid = gate_uuid(desk->gate),
        .now_ms = now_ms,
        .signed_ms = gate_shop_ms(desk->gate),
    };
    delivery->notice = *notice;
    delivery->endpoint = endpoint;
    delivery->started_ms = now_ms;
    endpoint->known++;
    if (delivery_start(delivery, desk->multi, &options, &parcel)) {
        endpoint->in_flight++;
        desk->in_flight++;
        return FAULT_NONE;
    }
    delivery->state = DELIVERY_DONE;
    if (desk->done++ == 0) desk->record_ms = now_ms + RECORD_MS;
    delivery_judge(desk, delivery, &(struct delivery_answer){ .delivered = false });
    return FAULT_NONE;
}

static enum fault seller_serve(struct desk *desk, struct endpoint *endpoint, uint32_t room, uint64_t now_ms)
{
    struct look look = { .desk = desk, .max = room };
    /* Those under way are due, too, and come first. */
    const struct outbox_due due = { slice_of(endpoint->hook.seller), now_ms, endpoint->known + look.max };
    enum fault fault = ledger_outbox_due(desk->ledger, &due, due_take, &look);
    for (uint32_t i = 0; i < look.count && fault == FAULT_NONE; i++)
        fault = notice_send(desk, endpoint, &look.notices[i], now_ms);
    return fault;
}

/* Marks who has something to hear, and who is slow without having answered. */
static enum fault waiting_mark(struct desk *desk, uint64_t now_ms)
{
    for (size_t i = 0; i < desk->endpoint_count; i++) desk->endpoints[i]->waiting = desk->endpoints[i]->overdue = false;
    for (size_t i = 0; i < DELIVERIES_MAX; i++) {
        const struct delivery *delivery = &desk->deliveries[i];
        if (delivery->state == DELIVERY_IN_FLIGHT && now_ms > delivery->started_ms + ENDPOINT_SLOW_MS)
            delivery->endpoint->overdue = true;
    }
    char seller[USERNAME_BYTES_MAX + 1] = "";
    bool found = true;
    while (found) {
        enum fault fault = ledger_outbox_seller(desk->ledger, seller, &found);
        if (fault != FAULT_NONE) return fault;
        struct endpoint *endpoint = found ? endpoint_find(desk, seller) : NULL;
        if (endpoint != NULL) endpoint->waiting = endpoint_room(endpoint, now_ms) > 0;
    }
    return FAULT_NONE;
}

static struct sharing sharing_of(const struct desk *desk)
{
    struct sharing sharing = { .places = desk->in_flight_max };
    for (size_t i = 0; i < desk->endpoint_count; i++) sharing_count(&sharing, desk->endpoints[i]);
    return sharing;
}

/* One seller after the other, going on after the one who was last in this turn. */
static enum fault turn_serve(struct desk *desk, enum sharing_turn turn, uint64_t now_ms)
{
    char *last = desk->seller_last[turn];
    struct sharing sharing = sharing_of(desk);
    size_t start = 0;
    while (start < desk->endpoint_count && strcmp(desk->endpoints[start]->hook.seller, last) <= 0) start++;
    for (size_t i = 0; i < desk->endpoint_count; i++) {
        struct endpoint *endpoint = desk->endpoints[(start + i) % desk->endpoint_count];
        uint32_t room = endpoint->waiting ? sharing_room(&sharing, turn, endpoint, now_ms) : 0;
        if (room == 0) continue;
        uint32_t before = endpoint->in_flight;
        enum fault fault = seller_serve(desk, endpoint, room, now_ms);
        if (fault != FAULT_NONE) return fault;
        if (endpoint->in_flight == before) continue;
        sharing.taken[endpoint_pace(endpoint)] += endpoint->in_flight - before;
        sharing.busy += before == 0;
        memcpy(last, endpoint->hook.seller, sizeof desk->seller_last[turn]);
    }
    return FAULT_NONE;
}

static enum fault outbox_look(struct desk *desk, uint64_t now_ms)
{
    if (desk->in_flight == desk->in_flight_max) return FAULT_NONE;
    enum fault fault = waiting_mark(desk, now_ms);
    for (enum sharing_turn turn = 0; turn < SHARING_TURN_COUNT && fault == FAULT_NONE; turn++)
        fault = turn_serve(desk, turn, now_ms);
    return fault;
}

/* What happens by time alone: asked of what is filed, and filed only when all that was decided by then is. */
static enum fault moments_file(struct desk *desk, uint64_t now_ms)
{
    struct outbox_span span = { desk->told_ms, now_ms > MOMENTS_MARGIN_MS ? now_ms - MOMENTS_MARGIN_MS : 0 };
    bool any, advance = now_ms >= desk->advance_ms;
    if (span.to_ms <= span.from_ms) return FAULT_NONE;
    uint64_t seq = advance ? gate_seq_decided(desk->gate) : 0;
    struct clerk_status clerk;
    clerk_status(desk->clerk, &clerk);
    enum fault fault = ledger_outbox_moments(desk->ledger, span, &any);
    if (fault != FAULT_NONE) return fault;
    if (any) {
        if (clerk_wait(desk->clerk, gate_seq_decided(desk->gate), MOMENTS_WAIT_MS) != FAULT_NONE) return FAULT_NONE;
        fault = ledger_outbox_file_moments(desk->ledger, span);
        if (fault == FAULT_NONE) desk->told_ms = span.to_ms;
        desk->look_ms = now_ms;
    } else if (advance && clerk.seq_filed >= seq) {
        /* Kept in mind only, so that an idle server writes nothing. */
        desk->told_ms = span.to_ms;
        desk->advance_ms = now_ms + ADVANCE_MS;
    }
    return fault;
}

static enum fault notices_count(struct desk *desk, uint64_t now_ms)
{
    struct outbox_counts counts;
    enum fault fault = ledger_outbox_counts(desk->ledger, (struct slice){ "", 0 }, &counts);
    if (fault != FAULT_NONE) return fault;
    atomic_store(&desk->pending, counts.pending);
    atomic_store(&desk->failed, counts.failed);
    atomic_store(&desk->oldest_ms, counts.oldest_ms);
    desk->count_ms = now_ms + COUNT_MS;
    return FAULT_NONE;
}

static enum fault desk_work(struct desk *desk, uint64_t now_ms)
{
    enum fault fault = FAULT_NONE;
    if (desk->done > 0 && (now_ms >= desk->record_ms || desk->done >= RECORD_COUNT)) fault = results_record(desk, now_ms);
    if (fault == FAULT_NONE) fault = stale_give_up(desk, now_ms);
    if (fault == FAULT_NONE && desk->endpoint_count > 0 && now_ms >= desk->moments_ms) {
        desk->moments_ms = now_ms + MOMENTS_MS;
        fault = moments_file(desk, now_ms);
    }
    /* The hooks are read first: what sets out goes where the seller wants it now, signed as they expect it now. */
    if (fault == FAULT_NONE && now_ms >= desk->look_ms) fault = endpoints_refresh(desk);
    if (fault == FAULT_NONE && now_ms >= desk->look_ms) {
        desk->look_ms = now_ms + (desk->endpoint_count > 0 ? LOOK_MS : LOOK_MS_WITHOUT_HOOKS);
        if (desk->endpoint_count > 0) fault = outbox_look(desk, now_ms);
    }
    return fault;
}

/* The job is another machine's now, or was meanwhile. What was under way is sent again by whoever has it; the rest is as
 * after a start. */
static void work_drop(struct desk *desk)
{
    for (size_t i = 0; i < DELIVERIES_MAX; i++) delivery_abort(&desk->deliveries[i], desk->multi);
    desk->in_flight = desk->done = 0;
    endpoints_clear(desk);
    desk->hooks_read = false;
    desk->told_ms = desk->look_ms = 0;
}

static bool desk_owns(struct desk *desk)
{
    struct ledger_fence fence;
    bool owner = gate_owns(desk->gate, GATE_JOB_COURIER, &fence);
    if (desk->owner && (!owner || fence.number != desk->fence.number)) work_drop(desk);
    desk->owner = owner;
    desk->fence = fence;
    ledger_set_fence(desk->ledger, &fence);
    return owner;
}

static enum fault desk_connect(struct desk *desk)
{
    enum fault fault = ledger_open(&desk->ledger, &desk->place, LEDGER_WRITER);
    if (fault == FAULT_NONE) ledger_set_patience(desk->ledger, LEDGER_WAIT_MS_MAX);
    desk->hooks_read = false;
    return fault;
}

/* A ledger that fails is left alone for a moment; what was delivered is recorded when it works again. */
static void fault_take(struct desk *desk)
{
    if (desk->ledger != NULL) ledger_close(desk->ledger);
    desk->ledger = NULL;
    if (desk->reconnect_wait_ms == 0) {
        log_warn("courier", "the ledger fails, will try again");
        desk->reconnect_wait_ms = RECONNECT_MS_MIN;
    }
    desk->reconnect_ms = mono_ms() + desk->reconnect_wait_ms;
    if (desk->reconnect_wait_ms < RECONNECT_MS_MAX) desk->reconnect_wait_ms *= 2;
}

uint32_t desk_turn(struct desk *desk)
{
    uint64_t now_ms = gate_now_ms(desk->gate);
    transfers_take(desk, now_ms);
    if (mono_ms() < desk->reconnect_ms) return LOOK_MS;
    enum fault fault = desk->ledger == NULL ? desk_connect(desk) : FAULT_NONE;
    bool owner = fault == FAULT_NONE && desk_owns(desk);
    if (owner) fault = desk_work(desk, now_ms);
    if (fault == FAULT_FENCED) {
        gate_disown(desk->gate, GATE_JOB_COURIER, &desk->fence);
        return 0;
    }
    if (fault == FAULT_NONE && now_ms >= desk->count_ms) fault = notices_count(desk, now_ms);
    if (fault != FAULT_NONE) {
        fault_take(desk);
        return LOOK_MS;
    }
    desk->reconnect_wait_ms = 0;
    if (!owner) return LOOK_MS;
    uint64_t next_ms = desk->done > 0 && desk->record_ms < desk->look_ms ? desk->record_ms : desk->look_ms;
    now_ms = gate_now_ms(desk->gate);
    return next_ms > now_ms ? (uint32_t)(next_ms - now_ms) : 0;
}
