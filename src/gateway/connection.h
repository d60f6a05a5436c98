/* connection: one peer, one request at a time. Bytes come in, requests go to dispatch(), answers are collected and written.
 *
 * Idle connections hold no buffer: bytes are parsed where they were read, and only a message that is not whole is copied. */
#ifndef STAMPEDE_GATEWAY_CONNECTION_H
#define STAMPEDE_GATEWAY_CONNECTION_H

#include "gateway/reactor.h"
#include "wire/http.h"

/* The largest message: head, body, and what chunking adds to it. */
#define CONNECTION_INPUT_BYTES_MAX (HTTP_HEAD_BYTES_MAX + 2 * HTTP_BODY_BYTES_MAX)
/* The largest head of an answer of ours, which is that of a page. */
#define HTTP_ANSWER_HEAD_BYTES_MAX 2048
/* What may pile up behind a request under way before we stop reading. */
#define CONNECTION_PIPELINE_BYTES_MAX (32u << 10)
#define CONNECTION_LINGER_MS 1000
#define CONNECTION_WRITE_MS 30000

struct tls;
struct watcher;

struct connection {
    uv_tcp_t tcp; /* first */
    struct reactor *reactor;
    struct connection *before, *after; /* in the list of its state */
    uint64_t since_ms;                 /* in this state */
    enum connection_state state;
    bool served;             /* a message was served since the connection last settled */
    bool serving;            /* answers are collected, not yet written */
    bool close_after;        /* the answers collected are the last */
    bool paused;             /* reading is stopped */
    bool ended;              /* the peer will send no more */
    bool closed;             /* the handle is gone; a request under way still points here */
    struct address peer;     /* at the other end of the socket */
    bool counted;            /* among the connections of its address */
    bool proxied;            /* the peer is a proxy of ours */
    bool refused;            /* hears why, and is among the refusals rather than the connections */
    struct request *request; /* under way, or NULL */
    struct watcher *watcher; /* the answer under way does not end (live.h) */
    struct tls *tls;
    uint32_t writes; /* begun and not yet taken by the socket */
    char *input;
    uint32_t input_len, input_size;
    struct http_parser parser;
};

/* Takes the peer that waits at the listener, or turns it away at the limit. */
void connection_accept(struct reactor *reactor);
void connection_close(struct connection *connection);
/* Says what is wrong with the bytes or the moment, and closes. */
void connection_refuse(struct connection *connection, enum problem problem);
/* The same of a message that did not come in time, at a door in the door's words. */
void connection_give_up(struct connection *connection, enum problem problem);
/* The answer of a request is in reactor->out. Called once for every request, by request_end(). */
void connection_answered(struct connection *connection);
/* Makes reactor->out fit for an answer with a body of this length; false where it never will, and the body is to be sent by
 * connection_send_body() after its head. */
bool connection_make_room(struct connection *connection, size_t body_len);
/* After an answer, or a part of one: what the connection waits for now. */
void connection_settle(struct connection *connection);
void connection_send_body(struct connection *connection, struct slice body);
/* Ends connections that have been too long in their state. */
void connections_expire(struct reactor *reactor);
/* The system is out of descriptors: gives up the connection that is missed least. */
void connections_make_way(struct reactor *reactor);
/* The server stops: ends those that wait for nothing and have sent nothing, and those who watch. */
void connections_close_idle(struct reactor *reactor);

#endif
