#include "gateway/live.h"

#include "gateway/request.h"
#include "gateway/resources.h"

#include <assert.h>
#include <stdlib.h>

/* An event with every kind of answer in it. */
#define EVENT_BYTES_MAX 4096
/* A tick sends to one in so many of the watchers; there are more ticks in a second. */
#define TICKS_A_ROUND 12

/* A sale that is watched on this reactor. */
struct watched {
    uint64_t sale_id;
    struct watched *next;
    uint32_t watchers;
    uint64_t second;              /* of the text */
    uint64_t times[COUNTS_TIMES]; /* as they were then */
    bool over;                    /* memory has let go of it */
    size_t len;
    char text[EVENT_BYTES_MAX];
};

struct watcher {
    struct connection *connection;
    struct watched *watched;
    struct watcher *before, *after; /* in the order they were last sent to */
    uint64_t second;                /* of the event it had last */
    struct guard_visit visit;
    char name[BUYER_BYTES_MAX + 1];
    size_t token_len;
    char token[];
};

struct live {
    struct watched *sales;
    struct watcher *first, *last;
};

enum fault live_open(struct live **out)
{
    *out = calloc(1, sizeof **out);
    return *out == NULL ? FAULT_MEMORY : FAULT_NONE;
}

void live_close(struct live *live)
{
    assert(live == NULL || live->first == NULL);
    free(live);
}

static void counts_render(struct json_out *out, const struct sale *sale, uint64_t now_ms)
{
    const struct {
        const char *key;
        uint32_t value;
    } rows[] = {
        { "offered", sale->counts.offered },
        { "available", sale->counts.available },
        { "held", sale->counts.held },
        { "sold", sale->counts.sold },
    };
    json_key(out, "sale");
    json_id(out, sale->id);
    json_key(out, "state");
    json_text(out, sale_state_word(sale_state_at(sale, now_ms)));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_key(out, rows[i].key);
        json_u64(out, rows[i].value);
    }
}

/* What stands before the JSON of an event, and after it. */
static void text_begin(struct json_out *out, char *text, struct slice before)
{
    memcpy(text, before.data, before.len);
    json_out_init(out, text + before.len, EVENT_BYTES_MAX - before.len - 2);
}

static size_t text_end(const struct json_out *out, const char *text)
{
    assert(!out->overflow);
    memcpy(out->data + out->len, "\n\n", 2);
    return (size_t)(out->data + out->len + 2 - text);
}

/* Of those that were answered since the event before. */
static void latency_render(struct json_out *out, struct watched *watched, const struct counts *counts)
{
    uint64_t times[COUNTS_TIMES], since[COUNTS_TIMES];
    counts_times(counts, watched->sale_id, times);
    for (unsigned i = 0; i < COUNTS_TIMES; i++) since[i] = times[i] - watched->times[i];
    memcpy(watched->times, times, sizeof times);
    render_latency(out, since);
}

static void watched_render(struct watched *watched, const struct rooms *rooms, uint64_t second)
{
    struct sale sale;
    watched->second = second;
    watched->over = !gate_sale(rooms->gate, watched->sale_id, &sale);
    if (watched->over) return;
    uint64_t now_ms = gate_now_ms(rooms->gate);
    struct json_out out;
    text_begin(&out, watched->text, SLICE("data: "));
    json_object(&out);
    counts_render(&out, &sale, now_ms);
    json_key(&out, "second");
    render_second(&out, rooms->counts, sale.id, second - 1); /* the last that is whole */
    render_verdicts(&out, rooms->counts, &sale);
    latency_render(&out, watched, rooms->counts);
    json_key(&out, "now");
    json_time(&out, now_ms);
    json_object_end(&out);
    watched->len = text_end(&out, watched->text);
}

static struct watched *watched_find(struct live *live, const struct counts *counts, uint64_t sale_id)
{
    for (struct watched *watched = live->sales; watched != NULL; watched = watched->next) {
        if (watched->sale_id == sale_id) return watched;
    }
    struct watched *watched = malloc(sizeof *watched);
    if (watched == NULL) return NULL;
    watched->sale_id = sale_id;
    watched->watchers = 0;
    watched->second = 0;
    counts_times(counts, sale_id, watched->times);
    watched->over = false;
    watched->next = live->sales;
    live->sales = watched;
    return watched;
}

static void watched_release(struct live *live, struct watched *watched)
{
    if (watched->watchers > 0) return;
    struct watched **at = &live->sales;
    while (*at != watched) at = &(*at)->next;
    *at = watched->next;
    free(watched);
}

static void watcher_unlist(struct live *live, struct watcher *watcher)
{
    *(watcher->before != NULL ? &watcher->before->after : &live->first) = watcher->after;
    *(watcher->after != NULL ? &watcher->after->before : &live->last) = watcher->before;
}

static void watcher_list(struct live *live, struct watcher *watcher)
{
    watcher->before = live->last;
    watcher->after = NULL;
    *(live->last != NULL ? &live->last->after : &live->first) = watcher;
    live->last = watcher;
}

void live_leave(struct connection *connection)
{
    struct live *live = connection->reactor->live;
    struct watcher *watcher = connection->watcher;
    connection->watcher = NULL;
    watcher_unlist(live, watcher);
    connection->reactor->watchers--;
    watcher->watched->watchers--;
    watched_release(live, watcher->watched);
    free(watcher);
}

/* Says why and ends the stream. */
static void watcher_end(struct watcher *watcher, const char *reason)
{
    struct connection *connection = watcher->connection;
    char text[EVENT_BYTES_MAX];
    struct json_out out;
    text_begin(&out, text, SLICE("event: end\ndata: "));
    json_object(&out);
    json_key(&out, "sale");
    json_id(&out, watcher->watched->sale_id);
    json_key(&out, "reason");
    json_text(&out, reason);
    json_key(&out, "now");
    json_time(&out, gate_now_ms(connection->reactor->server->rooms.gate));
    json_object_end(&out);
    connection_send_body(connection, (struct slice){ text, text_end(&out, text) });
    if (connection->watcher == NULL) return; /* it could not be sent */
    live_leave(connection);
    connection_settle(connection);
}

/* Whoever may not see this any more: logged out, expired, or blocked meanwhile. */
static bool watcher_may(const struct watcher *watcher)
{
    struct identity who;
    const struct rooms *rooms = &watcher->connection->reactor->server->rooms;
    struct slice token = { watcher->token, watcher->token_len };
    return people_check(rooms->people, token, gate_shop_ms(rooms->gate), &who) == TOKEN_GOOD &&
           !guard_is_blocked(rooms->guard, &watcher->visit);
}

static void watcher_send(struct watcher *watcher, uint64_t second)
{
    struct connection *connection = watcher->connection;
    struct watched *watched = watcher->watched;
    watcher->second = second;
    if (uv_stream_get_write_queue_size((uv_stream_t *)&connection->tcp) >= LIVE_BEHIND_BYTES_MAX) {
        connection_close(connection);
        return;
    }
    if (watched->second != second) watched_render(watched, &connection->reactor->server->rooms, second);
    if (watched->over) {
        watcher_end(watcher, "closed");
    } else if (!watcher_may(watcher)) {
        watcher_end(watcher, "logged_out");
    } else {
        connection_send_body(connection, (struct slice){ watched->text, watched->len });
    }
}

void live_tick(struct reactor *reactor)
{
    struct live *live = reactor->live;
    uint64_t second = reactor_now_ms(reactor) / 1000;
    for (uint32_t left = reactor->watchers / TICKS_A_ROUND + 1; left > 0 && live->first != NULL; left--) {
        struct watcher *watcher = live->first;
        if (watcher->second >= second) return;
        watcher_unlist(live, watcher);
        watcher_list(live, watcher);
        watcher_send(watcher, second);
    }
}

void live_drain(struct reactor *reactor)
{
    while (reactor->live->first != NULL) watcher_end(reactor->live->first, "stopping");
}

/* NULL: out of memory. */
static struct watcher *watcher_begin(struct request *request, struct slice token)
{
    struct live *live = request->reactor->live;
    struct watcher *watcher = malloc(sizeof *watcher + token.len);
    struct watched *watched = watcher == NULL ? NULL : watched_find(live, request_rooms(request)->counts, request->id);
    if (watched == NULL) {
        free(watcher);
        return NULL;
    }
    *watcher = (struct watcher){ .connection = request->connection, .watched = watched, .token_len = token.len };
    memcpy(watcher->token, token.data, token.len);
    memcpy(watcher->name, request->who.name_bytes, sizeof watcher->name);
    watcher->visit = request->visit;
    watcher->visit.inside = false;
    watcher->visit.user = slice_of(watcher->name);
    watched->watchers++;
    request->reactor->watchers++;
    watcher_list(live, watcher);
    request->connection->watcher = watcher;
    return watcher;
}

static const struct http_head stream_head = {
    .status = 200,
    .content_type = { "text/event-stream", sizeof "text/event-stream" - 1 },
    .endless = true,
    /* X-Accel-Buffering: nginx before us must not collect events. */
    .extra = { "Cache-Control: no-store\r\nX-Accel-Buffering: no\r\n",
               sizeof "Cache-Control: no-store\r\nX-Accel-Buffering: no\r\n" - 1 },
};

/* The head, when to come again, and the first event, in one piece. */
static void stream_begin(struct request *request)
{
    struct connection *connection = request->connection;
    struct reactor *reactor = request->reactor;
    struct slice token;
    if (reactor->draining) {
        reply_problem(request, PROBLEM_NOT_READY, NULL);
        return;
    }
    bool known = request_token(request, &token);
    assert(known); /* the route is closed to nobody */
    bool gone = connection->state == CONNECTION_CLOSING || connection->closed;
    struct watcher *watcher = gone ? NULL : watcher_begin(request, token);
    if (watcher == NULL) {
        reply_problem(request, PROBLEM_BUSY, NULL);
        return;
    }
    int socket_bytes = LIVE_SOCKET_BYTES;
    uv_send_buffer_size((uv_handle_t *)&connection->tcp, &socket_bytes); /* a hint: the bound of ours holds without it */
    watcher->second = reactor_now_ms(reactor) / 1000;
    if (watcher->watched->second != watcher->second)
        watched_render(watcher->watched, &reactor->server->rooms, watcher->second);
    int len = snprintf(reactor->body, sizeof reactor->body, ": one event a second\nretry: %d\n\n", LIVE_RETRY_MS);
    if (watcher->watched->over) watcher->second = 0; /* in this moment: the next tick says so and ends it */
    size_t event_len = watcher->watched->over ? 0 : watcher->watched->len;
    memcpy(reactor->body + len, watcher->watched->text, event_len);
    reply_raw(request, &stream_head, (struct slice){ reactor->body, (size_t)len + event_len });
}

static void past_run(struct query *query, struct ledger *ledger)
{
    query->fault = ledger_sale(ledger, query->id, &query->sale, &query->found);
}

/* Nothing happens in a sale that is over: 204 tells a client of events not to come again. */
static void past_done(struct crew_job *job)
{
    struct request *request = REQUEST_OF(job, query.job);
    if (job->late || request->query.fault != FAULT_NONE) {
        reply_problem(request, PROBLEM_BUSY, NULL);
    } else if (!request->query.found || !request_owns(request, request->query.sale.seller)) {
        reply_problem(request, PROBLEM_NO_SUCH_SALE, NULL);
    } else {
        reply_raw(request, &(struct http_head){ .status = 204 }, (struct slice){ "", 0 });
    }
}

void live_get(struct request *request)
{
    struct sale sale;
    struct gate *gate = request_rooms(request)->gate;
    if (request_looks(request, live_get)) return; /* the first event tells what is, not what was */
    if (gate_sale(gate, request->id, &sale)) {
        if (!request_owns(request, sale.seller)) {
            reply_problem(request, PROBLEM_NO_SUCH_SALE, NULL);
        } else if (request->http.method == HTTP_HEAD_) {
            reply_raw(request, &stream_head, (struct slice){ "", 0 });
        } else {
            stream_begin(request);
        }
    } else if (gate_sale_is_past(gate, request->id)) {
        request->query.id = request->id;
        request->query.seq_wait = 0; /* what memory let go of has been filed */
        request_query(request, past_run, past_done);
    } else {
        reply_problem(request, PROBLEM_NO_SUCH_SALE, NULL);
    }
}
