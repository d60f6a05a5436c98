/* The listener of a reactor for the Redis protocol, and all its peers. */
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "gateway/connection.h"
#include "gateway/resp_peer.h"
#include "gateway/socket.h"

#include <stdlib.h>

#define LOOK_MS 500
/* Once the server stops: who never pauses is cut off then. */
#define HEAR_MS 500

/* One that has not said who it is counts among the connections of its address. */
static void stranger_forget(struct resp_peer *peer)
{
    if (peer->counted) peers_leave(peer_reactor(peer)->server->rooms.guard->peers, &peer->address);
    peer->counted = false;
}

void front_estrange(struct resp_peer *peer)
{
    struct reactor *reactor = peer_reactor(peer);
    peer->account = NULL;
    peer->stranger_ms = uv_now(&reactor->loop);
    if (peer->counted) return;
    if (!guard_greet(reactor->server->rooms.guard, &peer->address, mono_ns(), &peer->counted)) peer->close_after = true;
}

void front_forget(struct resp_peer *peer)
{
    struct resp_front *front = peer->front;
    *(peer->before != NULL ? &peer->before->after : &front->peers) = peer->after;
    if (peer->after != NULL) peer->after->before = peer->before;
    stranger_forget(peer);
    front->reactor->connections--;
    atomic_fetch_sub(&front->count, 1);
    struct server *server = front->reactor->server;
    atomic_fetch_sub(peer->refused ? &server->refusals : &server->connections, 1);
    metrics_add(METRIC_CONNECTIONS_CLOSED, 1);
}

static bool address_is_blocked(struct resp_peer *peer, const char *path)
{
    struct reactor *reactor = peer_reactor(peer);
    const struct guard_visit visit = {
        .blocks = reactor->blocks,
        .client = peer->address,
        .user = { "", 0 },
        .method = "RESP",
        .path = path,
        .entered_ns = mono_ns(),
    };
    peer->blocks_version = blocks_version(reactor->blocks);
    return guard_is_blocked(reactor->server->rooms.guard, &visit);
}

bool front_blocks(struct resp_peer *peer)
{
    return peer->blocks_version != blocks_version(peer_reactor(peer)->blocks) && address_is_blocked(peer, "command");
}

/* It hears why, unless many do already. */
static void peer_refuse(struct resp_peer *peer, struct slice why)
{
    struct server *server = peer_reactor(peer)->server;
    peer->refused = true;
    atomic_fetch_sub(&server->connections, 1);
    if (atomic_fetch_add(&server->refusals, 1) >= server->refusals_max) {
        peer_close(peer);
        return;
    }
    uv_buf_t buf = uv_buf_init((char *)why.data, (unsigned)why.len);
    uv_try_write((uv_stream_t *)&peer->tcp, &buf, 1);
    peer->close_after = peer->paused = true; /* lingering begins to read */
    peer_linger(peer);
}

/* False: it is gone, or its address has as many as it may. */
static bool peer_greet(struct resp_peer *peer)
{
    struct sockaddr_storage from;
    int len = sizeof from;
    struct server *server = peer_reactor(peer)->server;
    if (uv_tcp_getpeername(&peer->tcp, (struct sockaddr *)&from, &len) != 0) return false;
    if (!address_from_sockaddr(&peer->address, (struct sockaddr *)&from)) return false;
    peer->account = resp_accounts_unasked(server->rooms.resp_accounts);
    return peer->account != NULL || guard_greet(server->rooms.guard, &peer->address, mono_ns(), &peer->counted);
}

static struct resp_peer *peer_new(struct resp_front *front)
{
    struct resp_peer *peer = calloc(1, sizeof *peer);
    if (peer == NULL || uv_tcp_init(&front->reactor->loop, &peer->tcp) != 0) {
        log_error("gateway", "out of memory: stopping"); /* as connection_accept() */
        abort();
    }
    peer->tcp.data = peer;
    peer->front = front;
    peer->version = 2;
    peer->id = 1 + atomic_fetch_add(&front->reactor->server->resp_peers, 1);
    peer->stranger_ms = uv_now(&front->reactor->loop);
    resp_reader_init(&peer->reader);
    peer->after = front->peers;
    if (peer->after != NULL) peer->after->before = peer;
    front->peers = peer;
    return peer;
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct resp_front *front = listener->data;
    struct reactor *reactor = front->reactor;
    if (status != 0) {
        connections_make_way(reactor);
        return;
    }
    struct resp_peer *peer = peer_new(front);
    reactor->connections++;
    atomic_fetch_add(&front->count, 1);
    uint32_t others = atomic_fetch_add(&reactor->server->connections, 1);
    metrics_add(METRIC_CONNECTIONS_ACCEPTED, 1);
    if (uv_accept(listener, (uv_stream_t *)&peer->tcp) != 0 || !peer_greet(peer)) {
        peer_close(peer);
    } else if (address_is_blocked(peer, "connection")) {
        peer_refuse(peer, SLICE("-BLOCKED " RESP_BLOCKED_DETAIL "\r\n"));
    } else if (others >= reactor->server->options.connections_max) {
        metrics_add(METRIC_CONNECTIONS_REFUSED, 1);
        peer_refuse(peer, SLICE("-BUSY as many connections are open as may be; try again\r\n"));
    } else {
        uv_tcp_nodelay(&peer->tcp, 1);
        uv_tcp_keepalive(&peer->tcp, 1, 60);
        peer_start(peer);
    }
}

/* Replies that it takes slowly buy a stranger no time. */
static bool peer_is_late(const struct resp_peer *peer, uint64_t now_ms)
{
    if (peer->lingering) return now_ms - peer->since_ms >= RESP_LINGER_MS;
    if (peer->account == NULL && now_ms - peer->stranger_ms >= RESP_AUTH_MS_MAX) return true;
    return peer->writing && now_ms - peer->since_ms >= RESP_WRITE_MS_MAX;
}

static void peer_look(struct resp_peer *peer, uint64_t now_ms)
{
    if (peer->account != NULL) stranger_forget(peer);
    if (!peer->closing && peer_is_late(peer, now_ms)) {
        if (!peer->lingering) metrics_add(METRIC_TIMEOUTS, 1);
        peer_close(peer);
    }
    /* Who has been quiet holds no buffers. */
    if (peer->input_len == 0 && peer->input != NULL) peer_input_free(peer);
    if (peer->output_len == 0 && peer->output != NULL && !peer->awaiting) output_free(peer);
}

void resp_front_tick(struct resp_front *front)
{
    if (front == NULL) return;
    uint64_t now_ms = uv_now(&front->reactor->loop);
    if (now_ms - front->looked_ms < LOOK_MS && !front->draining) return;
    front->looked_ms = now_ms;
    for (struct resp_peer *peer = front->peers, *next; peer != NULL; peer = next) {
        next = peer->after;
        peer_look(peer, now_ms);
        if (front->draining) peer_settle(peer);
    }
}

void resp_front_hush(struct resp_front *front)
{
    if (front != NULL) socket_hush(&front->listener);
}

bool resp_front_has_peers(const struct resp_front *front)
{
    return front != NULL && !front->draining && socket_has_peers(&front->listener);
}

void resp_front_drain(struct resp_front *front)
{
    if (front == NULL || front->draining) return;
    front->draining = true;
    front->hear_until_ms = uv_now(&front->reactor->loop) + HEAR_MS;
    uv_close((uv_handle_t *)&front->listener, NULL);
    resp_front_tick(front);
}

void resp_front_drop_all(struct resp_front *front)
{
    if (front == NULL) return;
    for (struct resp_peer *peer = front->peers, *next; peer != NULL; peer = next) {
        next = peer->after;
        if (!peer->awaiting && peer->slow == NULL) peer_close(peer); /* those are answered within bounds */
    }
}

enum fault resp_front_open(struct resp_front **out, struct reactor *reactor, int listen_fd)
{
    *out = NULL;
    if (listen_fd < 0) return FAULT_NONE;
    struct resp_front *front = calloc(1, sizeof *front);
    if (front == NULL) return FAULT_MEMORY;
    front->reactor = reactor;
    if (uv_tcp_init(&reactor->loop, &front->listener) != 0 || uv_tcp_open(&front->listener, listen_fd) != 0) {
        free(front);
        return FAULT_MEMORY;
    }
    front->listener.data = front;
    *out = front;
    return FAULT_NONE;
}

uint32_t resp_front_count(const struct resp_front *front)
{
    return front != NULL ? atomic_load(&front->count) : 0;
}

void resp_front_close(struct resp_front *front)
{
    while (front != NULL && front->crowds_free != NULL) {
        struct resp_crowd *crowd = front->crowds_free;
        front->crowds_free = crowd->next;
        free(crowd);
    }
    free(front);
}

bool resp_front_listen(struct resp_front *front, int backlog)
{
    return front == NULL || uv_listen((uv_stream_t *)&front->listener, backlog, on_connection) == 0;
}
