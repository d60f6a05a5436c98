#include "gateway/reactor.h"

#include "base/clock.h"
#include "base/log.h"
#include "gateway/connection.h"
#include "gateway/counts.h"
#include "gateway/live.h"
#include "gateway/request.h"
#include "gateway/resp_peer.h"
#include "gateway/socket.h"

#include <signal.h>
#include <stdlib.h>

#define TICK_MS 50
/* Holds that are due are looked for this often. */
#define EXPIRY_MS 10
#define BACKLOG 4096
/* As long as what is on its way to us when we stop may take, a handshake for example. */
#define SETTLE_MS 20

static void on_connection(uv_stream_t *listener, int status)
{
    struct reactor *reactor = listener->data;
    if (status == 0) {
        connection_accept(reactor);
    } else {
        connections_make_way(reactor);
    }
}

/* A turn of the loop begins after polling and ends before it: the gate need not wake a reactor that is up. */
static void on_rise(uv_check_t *handle)
{
    struct reactor *reactor = handle->data;
    resp_front_answer(reactor->resp);
    gate_lane_rise(reactor->lane);
}

static void on_rest(uv_prepare_t *handle)
{
    struct reactor *reactor = handle->data;
    resp_front_rest(reactor->resp);
    gate_lane_rest(reactor->lane);
    resp_front_gather(reactor->resp);
}

static void on_wake(uv_async_t *handle)
{
    struct reactor *reactor = handle->data;
    crew_mailbox_deliver(reactor->mailbox);
    line_mailbox_deliver(reactor->line_mailbox, mono_ns());
}

/* Called by the committer and by workers. */
static void reactor_wake(void *arg)
{
    struct reactor *reactor = arg;
    uv_async_send(&reactor->wake);
}

static void close_handle(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (!uv_is_closing(handle)) uv_close(handle, NULL);
}

/* The reactor's own handles; the loop ends when they and all connections are closed. */
static void reactor_finish(struct reactor *reactor)
{
    gate_lane_detach(reactor->lane);
    uv_handle_t *own[] = { (uv_handle_t *)&reactor->wake,       (uv_handle_t *)&reactor->stop,
                           (uv_handle_t *)&reactor->rest,       (uv_handle_t *)&reactor->rise,
                           (uv_handle_t *)&reactor->tick,       (uv_handle_t *)&reactor->expiry_look,
                           (uv_handle_t *)&reactor->expiry_next };
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) close_handle(own[i], NULL);
}

static void clock_look(struct reactor *reactor)
{
    reactor->clock_ahead_ms = gate_now_ms(reactor->server->rooms.gate) - uv_now(&reactor->loop);
}

/* What was under way when the server was told to stop is answered. Who has been heard by the time that all is closed is,
 * too: see socket.h. */
static void drain(struct reactor *reactor)
{
    uint64_t now_ms = uv_now(&reactor->loop);
    bool late = now_ms >= reactor->drain_until_ms;
    /* Not in on_stop(): between two ticks the loop reads, however late it is. */
    if (reactor->settled_ms == 0) reactor->settled_ms = now_ms + SETTLE_MS;
    bool taken = !socket_has_peers(&reactor->listener) && !resp_front_has_peers(reactor->resp);
    if ((now_ms < reactor->settled_ms || !taken) && !late) return;
    close_handle((uv_handle_t *)&reactor->listener, NULL);
    resp_front_drain(reactor->resp);
    connections_close_idle(reactor);
    if (late) {
        people_stop(reactor->server->rooms.people);
        crew_stop(reactor->server->rooms.lists);
        crew_stop(reactor->server->rooms.lookups);
        crew_stop(reactor->server->rooms.writes);
    }
    if (late) resp_front_drop_all(reactor->resp);
    for (enum connection_state state = 0; late && state < CONNECTION_CLOSING; state++) {
        if (state == CONNECTION_BUSY) continue; /* answered within the bounds of gate, queries and passwords */
        while (reactor->lists[state].first != NULL) connection_close(reactor->lists[state].first);
    }
    if (reactor->connections == 0 && reactor->requests == 0 && !reactor->expiry.waits) reactor_finish(reactor);
}

static void on_tick(uv_timer_t *handle)
{
    struct reactor *reactor = handle->data;
    clock_look(reactor);
    connections_expire(reactor);
    resp_front_tick(reactor->resp);
    live_tick(reactor);
    counts_tidy(reactor->counts, reactor_now_ms(reactor) / 1000);
    if (reactor == reactor->server->reactors[0]) server_housekeep(reactor->server);
    server_weigh(reactor->server);
    if (reactor->draining) drain(reactor);
}

static void expire(struct reactor *reactor)
{
    struct expiry *expiry = &reactor->expiry;
    expiry->waits = true; /* done() may be called before it returns */
    if (!gate_expire(reactor->lane, &expiry->ticket)) expiry->waits = false;
}

static void on_expiry_next(uv_idle_t *handle)
{
    uv_idle_stop(handle);
    expire(handle->data);
}

/* A million holds may be due at once: more end in the next turn, after the requests that have come. */
static void on_expired(struct gate_ticket *ticket)
{
    struct expiry *expiry = (struct expiry *)ticket;
    struct reactor *reactor = expiry->reactor;
    expiry->waits = false;
    if (!reactor->draining) uv_idle_start(&reactor->expiry_next, on_expiry_next);
}

static void on_expiry_look(uv_timer_t *handle)
{
    struct reactor *reactor = handle->data;
    if (!reactor->expiry.waits && !uv_is_active((uv_handle_t *)&reactor->expiry_next)) expire(reactor);
}

static void on_stop(uv_async_t *handle)
{
    struct reactor *reactor = handle->data;
    if (reactor->draining) return;
    reactor->draining = true;
    reactor->drain_until_ms = uv_now(&reactor->loop) + reactor->server->options.drain_ms_max;
    socket_hush(&reactor->listener);
    resp_front_hush(reactor->resp);
    live_drain(reactor);
    uv_timer_stop(&reactor->expiry_look);
    uv_idle_stop(&reactor->expiry_next);
    uv_timer_start(&reactor->tick, on_tick, 0, 20);
}

static enum fault reactor_handles(struct reactor *reactor, int listen_fd)
{
    uv_loop_t *loop = &reactor->loop;
    int failed = uv_loop_init(loop);
    failed |= uv_tcp_init(loop, &reactor->listener);
    failed |= uv_tcp_open(&reactor->listener, listen_fd);
    failed |= uv_async_init(loop, &reactor->wake, on_wake);
    failed |= uv_async_init(loop, &reactor->stop, on_stop);
    failed |= uv_prepare_init(loop, &reactor->rest);
    failed |= uv_check_init(loop, &reactor->rise);
    failed |= uv_timer_init(loop, &reactor->tick);
    failed |= uv_timer_init(loop, &reactor->expiry_look);
    failed |= uv_idle_init(loop, &reactor->expiry_next);
    if (failed) return FAULT_MEMORY;
    reactor->listener.data = reactor->wake.data = reactor->stop.data = reactor;
    reactor->rest.data = reactor->rise.data = reactor->tick.data = reactor;
    reactor->expiry_look.data = reactor->expiry_next.data = reactor;
    reactor->expiry = (struct expiry){ .ticket.done = on_expired, .reactor = reactor };
    return FAULT_NONE;
}

enum fault reactor_open(struct reactor **out, struct server *server, int http_fd, int resp_fd)
{
    struct reactor *reactor = calloc(1, sizeof *reactor);
    if (reactor == NULL) return FAULT_MEMORY;
    reactor->server = server;
    recall_init(&reactor->recall);
    reactor->counts = counts_page(server->rooms.counts, server->reactor_count);
    enum fault fault = reactor_handles(reactor, http_fd);
    if (fault == FAULT_NONE) fault = resp_front_open(&reactor->resp, reactor, resp_fd);
    if (fault == FAULT_NONE) fault = gate_lane_open(&reactor->lane, server->rooms.gate, reactor_wake, reactor);
    if (fault == FAULT_NONE) fault = gate_lane_attach(reactor->lane, &reactor->loop);
    if (fault == FAULT_NONE) fault = token_mac_open(&reactor->tokens, people_ring(server->rooms.people));
    if (fault == FAULT_NONE) fault = crew_mailbox_open(&reactor->mailbox, reactor_wake, reactor);
    if (fault == FAULT_NONE) fault = line_mailbox_open(&reactor->line_mailbox, server->rooms.lines, reactor_wake, reactor);
    if (fault == FAULT_NONE) fault = live_open(&reactor->live);
    if (fault == FAULT_NONE) reactor->blocks = blocks_reader_open(server->rooms.blocks);
    if (fault != FAULT_NONE) {
        log_error("gateway", "cannot make an event loop: out of memory or file descriptors");
        token_mac_close(reactor->tokens);
        live_close(reactor->live);
        free(reactor);
        return fault;
    }
    *out = reactor;
    return FAULT_NONE;
}

static void reactor_run(void *arg)
{
    struct reactor *reactor = arg;
    clock_look(reactor);
    /* libuv begins with what was started last: what is asked here leaves with the flush of the lane's own client. */
    uv_prepare_start(&reactor->rest, on_rest);
    uv_check_start(&reactor->rise, on_rise);
    uv_timer_start(&reactor->tick, on_tick, TICK_MS, TICK_MS);
    bool first = reactor == reactor->server->reactors[0];
    if (first) uv_timer_start(&reactor->expiry_look, on_expiry_look, EXPIRY_MS, EXPIRY_MS);
    uv_run(&reactor->loop, UV_RUN_DEFAULT);
}

enum fault reactor_start(struct reactor *reactor)
{
    if (uv_listen((uv_stream_t *)&reactor->listener, BACKLOG, on_connection) != 0) return FAULT_IN_USE;
    if (!resp_front_listen(reactor->resp, BACKLOG)) return FAULT_IN_USE;
    return uv_thread_create(&reactor->thread, reactor_run, reactor) == 0 ? FAULT_NONE : FAULT_MEMORY;
}

void reactor_stop(struct reactor *reactor)
{
    uv_async_send(&reactor->stop);
}

void reactor_join(struct reactor *reactor)
{
    uv_thread_join(&reactor->thread);
}

void reactor_close(struct reactor *reactor)
{
    uv_walk(&reactor->loop, close_handle, NULL);
    uv_run(&reactor->loop, UV_RUN_NOWAIT);
    uv_loop_close(&reactor->loop);
    gate_lane_close(reactor->lane);
    crew_mailbox_close(reactor->mailbox);
    line_mailbox_close(reactor->line_mailbox);
    blocks_reader_close(reactor->blocks);
    token_mac_close(reactor->tokens);
    live_close(reactor->live);
    resp_front_close(reactor->resp);
    while (reactor->requests_free != NULL) {
        struct request *request = reactor->requests_free;
        reactor->requests_free = request->free_next;
        free(request);
    }
    free(reactor);
}
