#include "gateway/connection.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "gateway/live.h"
#include "gateway/request.h"
#include "gateway/tls.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/socket.h>

struct pending_write {
    uv_write_t request; /* first */
    struct connection *connection;
    size_t len;
    char data[];
};

static void connection_unlist(struct connection *c)
{
    struct connection_list *list = &c->reactor->lists[c->state];
    *(c->before != NULL ? &c->before->after : &list->first) = c->after;
    *(c->after != NULL ? &c->after->before : &list->last) = c->before;
}

/* The one place where a connection changes its state. Entering the same state again makes it the youngest there. */
static void connection_enter(struct connection *c, enum connection_state state)
{
    connection_unlist(c);
    struct connection_list *list = &c->reactor->lists[state];
    c->state = state;
    c->since_ms = uv_now(&c->reactor->loop);
    c->before = list->last;
    c->after = NULL;
    *(list->last != NULL ? &list->last->after : &list->first) = c;
    list->last = c;
}

static void input_free(struct connection *c)
{
    c->reactor->input_bytes -= c->input_size;
    free(c->input);
    c->input = NULL;
    c->input_len = c->input_size = 0;
}

static void connection_free(struct connection *c)
{
    input_free(c);
    if (c->tls != NULL) tls_close(c->tls);
    free(c);
}

static void on_closed(uv_handle_t *handle)
{
    struct connection *c = handle->data;
    connection_unlist(c);
    c->closed = true;
    c->reactor->connections--;
    atomic_fetch_sub(c->refused ? &c->reactor->server->refusals : &c->reactor->server->connections, 1);
    metrics_add(METRIC_CONNECTIONS_CLOSED, 1);
    if (c->counted) peers_leave(c->reactor->server->rooms.guard->peers, &c->peer);
    if (c->request == NULL) connection_free(c); /* else when it is answered */
}

void connection_close(struct connection *c)
{
    if (c->state == CONNECTION_CLOSING) return;
    connection_enter(c, CONNECTION_CLOSING);
    uv_close((uv_handle_t *)&c->tcp, on_closed);
    if (c->watcher != NULL) live_leave(c);
    if (c->request != NULL && c->request->parked) request_leave(c->request);
}

/* All is said. The peer gets a while to read it and close: closing at once with bytes unread would make the system throw our
 * answer away. */
static void connection_linger(struct connection *c)
{
    uv_os_fd_t fd;
    if (c->ended || uv_fileno((uv_handle_t *)&c->tcp, &fd) != 0 || shutdown(fd, SHUT_WR) != 0) {
        connection_close(c);
        return;
    }
    input_free(c);
    connection_enter(c, CONNECTION_LINGERING);
}

static void connection_read(struct connection *c);
static void connection_continue(struct connection *c);

static void on_written(uv_write_t *write, int status)
{
    struct pending_write *pending = (struct pending_write *)write;
    struct connection *c = pending->connection;
    c->reactor->output_bytes -= pending->len;
    free(pending);
    c->writes--;
    if (c->state == CONNECTION_CLOSING) return;
    if (status != 0) {
        connection_close(c);
        return;
    }
    if (c->writes > 0 || c->state == CONNECTION_LINGERING) return;
    if (c->state == CONNECTION_WRITING) connection_enter(c, CONNECTION_IDLE);
    connection_continue(c);
}

/* What the socket does not take now is copied and written when it can. */
static void connection_write(struct connection *c, const char *data, size_t len)
{
    size_t done = 0;
    if (c->writes == 0) {
        uv_buf_t buf = uv_buf_init((char *)data, (unsigned)len);
        int wrote = uv_try_write((uv_stream_t *)&c->tcp, &buf, 1);
        if (wrote < 0 && wrote != UV_EAGAIN) {
            connection_close(c);
            return;
        }
        if (wrote > 0) done = (size_t)wrote;
    }
    if (done == len) return;
    struct reactor *reactor = c->reactor;
    bool fits = reactor->output_bytes + len - done <= REACTOR_OUTPUT_BYTES_MAX;
    struct pending_write *pending = fits ? malloc(sizeof *pending + len - done) : NULL;
    if (pending == NULL) {
        connection_close(c);
        return;
    }
    pending->connection = c;
    pending->len = len - done;
    reactor->output_bytes += pending->len;
    memcpy(pending->data, data + done, len - done);
    uv_buf_t rest = uv_buf_init(pending->data, (unsigned)(len - done));
    c->writes++;
    uv_write(&pending->request, (uv_stream_t *)&c->tcp, &rest, 1, on_written);
}

static void tls_push(struct connection *c)
{
    const char *data;
    size_t len = tls_output(c->tls, &data);
    if (len > 0) connection_write(c, data, len);
    tls_output_taken(c->tls);
}

static void connection_flush(struct connection *c)
{
    struct reactor *reactor = c->reactor;
    size_t len = reactor->out_len;
    reactor->out_len = 0;
    if (len == 0 || c->state == CONNECTION_CLOSING) return;
    if (c->tls == NULL) {
        connection_write(c, reactor->out, len);
    } else if (tls_write(c->tls, reactor->out, len) == FAULT_NONE) {
        tls_push(c);
    } else {
        connection_close(c);
    }
}

bool connection_make_room(struct connection *c, size_t body_len)
{
    struct reactor *reactor = c->reactor;
    if (body_len + HTTP_ANSWER_HEAD_BYTES_MAX <= sizeof reactor->out - reactor->out_len) return true;
    connection_flush(c);
    return body_len + HTTP_ANSWER_HEAD_BYTES_MAX <= sizeof reactor->out;
}

void connection_send_body(struct connection *c, struct slice body)
{
    connection_flush(c);
    if (c->state == CONNECTION_CLOSING) return;
    if (c->tls == NULL) {
        connection_write(c, body.data, body.len);
    } else if (tls_write(c->tls, body.data, body.len) == FAULT_NONE) {
        tls_push(c);
    } else {
        connection_close(c);
    }
}

static bool input_append(struct connection *c, const char *data, size_t len)
{
    size_t need = c->input_len + len;
    if (need > c->input_size) {
        size_t size = c->input_size > 0 ? c->input_size : 1024;
        while (size < need) size *= 2;
        struct reactor *reactor = c->reactor;
        if (need > CONNECTION_INPUT_BYTES_MAX || reactor->input_bytes + size - c->input_size > REACTOR_INPUT_BYTES_MAX)
            return false;
        char *grown = realloc(c->input, size);
        if (grown == NULL) return false;
        reactor->input_bytes += size - c->input_size;
        c->input = grown;
        c->input_size = (uint32_t)size;
    }
    memcpy(c->input + c->input_len, data, len);
    c->input_len = (uint32_t)need;
    return true;
}

void connection_refuse(struct connection *c, enum problem problem)
{
    connection_make_room(c, 1024);
    if (c->state != CONNECTION_CLOSING) reply_refusal(c->reactor, problem);
    c->close_after = true;
}

/* Empty lines before a request are skipped, as a courtesy to old clients (RFC 9112, 2.2). False: there is nothing after
 * them, or half of one. */
static bool empty_lines_skip(const struct connection *c, const char *data, size_t len, size_t *at)
{
    if (c->parser.head_scanned > 0) return true;
    while (len - *at >= 2 && data[*at] == '\r' && data[*at + 1] == '\n') *at += 2;
    return *at < len && (len - *at > 1 || data[*at] != '\r');
}

/* A proxy that has sent something will send more, until it knows that we stop. */
static void connection_heard(struct connection *c)
{
    if (c->proxied) atomic_store_explicit(&c->reactor->proxied_ms, uv_now(&c->reactor->loop), memory_order_relaxed);
}

/* Serves whole messages at data until one has to wait; the number of bytes that are done with. */
static size_t connection_serve(struct connection *c, char *data, size_t len)
{
    size_t at = 0;
    c->serving = true;
    while (at < len && c->request == NULL && !c->close_after && c->writes == 0 && c->state != CONNECTION_CLOSING) {
        struct http_request http;
        if (!empty_lines_skip(c, data, len, &at)) break;
        enum http_progress progress = http_parse(&c->parser, data + at, len - at, &http);
        if (progress == HTTP_COMPLETE) {
            at += c->parser.used;
            c->parser = (struct http_parser){ 0 };
            c->served = true;
            connection_heard(c);
            request_begin(c, &http);
            continue;
        }
        if (progress == HTTP_BAD) request_unreadable(c, data + at);
        if (progress == HTTP_NEEDS_CONTINUE) {
            static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
            connection_make_room(c, sizeof go_on);
            memcpy(c->reactor->out + c->reactor->out_len, go_on, sizeof go_on - 1);
            c->reactor->out_len += sizeof go_on - 1;
        }
        break;
    }
    c->serving = false;
    return at;
}

void connection_settle(struct connection *c)
{
    connection_flush(c);
    if (c->state == CONNECTION_CLOSING) return;
    bool served = c->served;
    c->served = false;
    if (c->ended && c->request == NULL) c->close_after = true; /* what is left is half a message */
    if (c->watcher != NULL) {
        if (c->state != CONNECTION_WATCHING) connection_enter(c, CONNECTION_WATCHING);
    } else if (c->writes > 0) {
        if (c->state != CONNECTION_WRITING) connection_enter(c, CONNECTION_WRITING);
    } else if (c->request != NULL) {
        if (c->state != CONNECTION_BUSY) connection_enter(c, CONNECTION_BUSY);
    } else if (c->close_after) {
        if (c->tls != NULL) {
            tls_goodbye(c->tls);
            tls_push(c);
        }
        if (c->writes > 0) {
            connection_enter(c, CONNECTION_WRITING);
        } else if (c->state != CONNECTION_CLOSING) {
            connection_linger(c);
        }
    } else if (c->input_len == 0) {
        connection_enter(c, CONNECTION_IDLE);
    } else {
        enum connection_state waits = c->parser.head_done ? CONNECTION_BODY : CONNECTION_HEAD;
        if (served || c->state != waits) connection_enter(c, waits);
    }
}

void connection_give_up(struct connection *c, enum problem problem)
{
    c->serving = true;
    request_late(c, problem);
    c->serving = false;
    connection_settle(c);
}

/* Serves what has piled up in the input. */
static void connection_continue(struct connection *c)
{
    if (c->input_len > 0 && c->request == NULL && !c->close_after) {
        size_t used = connection_serve(c, c->input, c->input_len);
        memmove(c->input, c->input + used, c->input_len - used);
        c->input_len -= (uint32_t)used;
        if (c->input_len == 0) input_free(c);
    }
    connection_settle(c);
    connection_read(c);
}

void connection_answered(struct connection *c)
{
    if (c->closed) {
        connection_free(c);
        return;
    }
    if (c->serving || c->state == CONNECTION_CLOSING) return; /* whoever serves, or on_closed(), goes on */
    if (c->state == CONNECTION_BUSY) connection_enter(c, CONNECTION_IDLE);
    connection_flush(c);
    if (c->state != CONNECTION_CLOSING) connection_continue(c);
}

static void connection_bytes(struct connection *c, char *data, size_t len)
{
    if (c->state == CONNECTION_LINGERING || c->state == CONNECTION_CLOSING || c->close_after) return;
    bool waits = c->request != NULL || c->writes > 0;
    if (c->input_len == 0 && !waits) {
        size_t used = connection_serve(c, data, len);
        data += used;
        len -= used;
        if (len > 0 && !c->close_after && c->state != CONNECTION_CLOSING && !input_append(c, data, len))
            connection_refuse(c, PROBLEM_BUSY);
        connection_settle(c);
        return;
    }
    if (!input_append(c, data, len)) {
        if (waits) {
            connection_close(c); /* an answer in between would be taken for that of the request under way */
        } else {
            connection_refuse(c, PROBLEM_BUSY);
            connection_settle(c);
        }
        return;
    }
    if (!waits) connection_continue(c);
}

/* A handshake has the time of a head. */
static void tls_shake(struct connection *c)
{
    bool established = tls_established(c->tls);
    if (!established && c->state == CONNECTION_IDLE) connection_enter(c, CONNECTION_HEAD);
    if (established && c->state == CONNECTION_HEAD && c->input_len == 0) connection_enter(c, CONNECTION_IDLE);
}

static void tls_bytes(struct connection *c, const char *data, size_t len)
{
    long got = tls_feed(c->tls, data, len) == FAULT_NONE ? 1 : -1;
    while (got > 0 && c->state != CONNECTION_CLOSING) {
        got = tls_read(c->tls, c->reactor->plain, sizeof c->reactor->plain);
        tls_push(c);
        if (c->state == CONNECTION_CLOSING) return;
        tls_shake(c);
        if (got > 0) connection_bytes(c, c->reactor->plain, (size_t)got);
    }
    /* Whoever says goodbye while parked or watching has left, as if by closing: nothing is taken for nobody. */
    bool waits = c->watcher != NULL || (c->request != NULL && c->request->parked);
    if (got < 0 && (waits || (c->request == NULL && c->writes == 0))) connection_close(c);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct connection *c = handle->data;
    (void)suggested;
    *buf = uv_buf_init(c->reactor->read, sizeof c->reactor->read);
}

static void on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buf)
{
    struct connection *c = stream->data;
    if (got == UV_EOF && (c->watcher != NULL || (c->request != NULL && c->request->parked))) {
        connection_close(c); /* whoever leaves the line takes nothing */
    } else if (got == UV_EOF && (c->request != NULL || c->writes > 0)) {
        c->ended = true; /* it may still read: what it has asked is answered */
        uv_read_stop(stream);
    } else if (got < 0) {
        connection_close(c);
    } else if (got > 0 && c->tls != NULL) {
        tls_bytes(c, buf->base, (size_t)got);
    } else if (got > 0) {
        connection_bytes(c, buf->base, (size_t)got);
    }
    if (c->state != CONNECTION_CLOSING) connection_read(c);
}

/* Reading goes on while a request is under way, which costs no system call and notices a peer that leaves; it stops only for
 * a peer that sends far ahead. */
static void connection_read(struct connection *c)
{
    bool ahead = c->input_len > CONNECTION_PIPELINE_BYTES_MAX && (c->request != NULL || c->writes > 0);
    if (ahead && c->request != NULL && c->request->parked) {
        connection_close(c); /* a peer in line is watched: whoever leaves takes nothing */
        return;
    }
    if (ahead && !c->paused) {
        uv_read_stop((uv_stream_t *)&c->tcp);
        c->paused = true;
    } else if (!ahead && c->paused && !c->ended) {
        uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read);
        c->paused = false;
    }
}

/* Who is told so takes nothing of what is there for others: a crowd from one address must not fill the house by being
 * refused. */
static void connection_turn_away(struct connection *c)
{
    metrics_add(METRIC_CONNECTIONS_REFUSED, 1);
    struct server *server = c->reactor->server;
    c->refused = true;
    atomic_fetch_sub(&server->connections, 1);
    if (atomic_fetch_add(&server->refusals, 1) >= server->refusals_max || c->tls != NULL) {
        connection_close(c);
        return;
    }
    connection_refuse(c, PROBLEM_BUSY);
    connection_settle(c);
}

/* Learns who it is. False: its address has as many connections as it may. */
static bool connection_greet(struct connection *c)
{
    struct sockaddr_storage peer;
    int len = sizeof peer;
    if (uv_tcp_getpeername(&c->tcp, (struct sockaddr *)&peer, &len) != 0)
        return true; /* gone already: the next read says so */
    if (!address_from_sockaddr(&c->peer, (struct sockaddr *)&peer)) return true;
    c->proxied = networks_have(&c->reactor->server->rooms.guard->proxies, &c->peer);
    connection_heard(c);
    return guard_greet(c->reactor->server->rooms.guard, &c->peer, mono_ns(), &c->counted);
}

void connection_accept(struct reactor *reactor)
{
    struct connection *c = calloc(1, sizeof *c);
    if (c == NULL) {
        /* libuv stops listening on a socket whose peer is not taken. What was said is on disk: better to start anew. */
        log_error("gateway", "out of memory: stopping");
        abort();
    }
    c->reactor = reactor;
    c->tcp.data = c;
    if (uv_tcp_init(&reactor->loop, &c->tcp) != 0) {
        free(c);
        return;
    }
    reactor->connections++;
    uint32_t others = atomic_fetch_add(&reactor->server->connections, 1);
    metrics_add(METRIC_CONNECTIONS_ACCEPTED, 1);
    c->state = CONNECTION_IDLE;
    struct connection_list *list = &reactor->lists[CONNECTION_IDLE];
    c->before = list->last;
    *(list->last != NULL ? &list->last->after : &list->first) = c;
    list->last = c;
    c->since_ms = uv_now(&reactor->loop);

    SSL_CTX *tls = reactor->server->tls;
    if (uv_accept((uv_stream_t *)&reactor->listener, (uv_stream_t *)&c->tcp) != 0 ||
        (tls != NULL && tls_open(&c->tls, tls) != FAULT_NONE) ||
        uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read) != 0) {
        connection_close(c);
    } else if (!connection_greet(c) || others >= reactor->server->options.connections_max) {
        connection_turn_away(c);
    }
}
