/* reactor: one thread, one libuv loop, its connections and its lane to the gate. Nothing here is touched by another thread
 * but through the two async handles. A reactor never waits for the disk, the database or a password. */
#ifndef STAMPEDE_GATEWAY_REACTOR_H
#define STAMPEDE_GATEWAY_REACTOR_H

#include "gateway/server.h"
#include "guard/token.h"

#include <uv.h>

struct connection;
struct counts_page;
struct live;
struct request;
struct resp_front;

/* Bytes that partial messages of one reactor may take together; beyond it their senders get 503 (P9). */
#define REACTOR_INPUT_BYTES_MAX (256u << 20)
/* Bytes of answers that peers have not taken yet; beyond it a peer that does not read is cut off (P9). */
#define REACTOR_OUTPUT_BYTES_MAX (256u << 20)
#define REACTOR_READ_BYTES (64u << 10)
#define REACTOR_OUT_BYTES (256u << 10)
#define REACTOR_BODY_BYTES (128u << 10)

/* What a connection is doing; each state is a list in order of entry, so that the oldest is the next to time out. */
enum connection_state {
    CONNECTION_IDLE,      /* between requests */
    CONNECTION_HEAD,      /* part of a head is here */
    CONNECTION_BODY,      /* part of a body is here */
    CONNECTION_BUSY,      /* a request waits for the gate, the ledger or a password */
    CONNECTION_WATCHING,  /* gets an event a second */
    CONNECTION_WRITING,   /* the peer reads slowly */
    CONNECTION_LINGERING, /* all is said; waits for the peer to close, so that it can read the answer */
    CONNECTION_CLOSING,
    CONNECTION_STATES
};

struct connection_list {
    struct connection *first, *last;
};

/* The ends of holds that are not on the disk yet. */
struct expiry {
    struct gate_ticket ticket; /* first: it is what done() gets */
    struct reactor *reactor;
    bool waits; /* for done() */
};

struct reactor {
    struct server *server;
    struct gate_lane *lane;
    struct crew_mailbox *mailbox;
    struct line_mailbox *line_mailbox;
    struct blocks_reader *blocks;
    struct recall recall;
    struct token_mac *tokens; /* purchase tokens are signed and checked on this thread */
    struct live *live;
    struct resp_front *resp;    /* NULL: the Redis protocol is off */
    _Atomic uint32_t watchers;  /* connections that watch a sale */
    struct counts_page *counts; /* this thread's part of them */
    uint64_t clock_ahead_ms;    /* of decision time before the loop's, as of the last tick */
    struct connection_list lists[CONNECTION_STATES];
    uint32_t connections;
    struct request *requests_free;
    _Atomic uint32_t requests; /* under way, also those whose connection is gone */
    size_t input_bytes, output_bytes;

    size_t out_len;
    char read[REACTOR_READ_BYTES];
    char plain[REACTOR_READ_BYTES]; /* decrypted */
    char out[REACTOR_OUT_BYTES];    /* answers of the connection being served, until they are written */
    char body[REACTOR_BODY_BYTES];  /* of the answer being made */

    uv_loop_t loop;
    uv_tcp_t listener;
    uv_async_t wake, stop;
    uv_prepare_t rest;
    uv_check_t rise;
    uv_timer_t tick;
    uv_timer_t expiry_look; /* the first reactor's: looks for holds that are due */
    uv_idle_t expiry_next;  /* while there are more than one commit takes */
    struct expiry expiry;
    uv_thread_t thread;
    _Atomic uint64_t proxied_ms; /* uv_now() when a proxy was heard last; 0: never */
    bool draining;
    uint64_t drain_until_ms;
    uint64_t settled_ms; /* draining: who has been on the way is here by then; 0: not known yet */
};

/* Decision time as of this turn of the loop, a tick's slewing aside: good enough to count by, and free. */
static inline uint64_t reactor_now_ms(const struct reactor *reactor)
{
    return uv_now(&reactor->loop) + reactor->clock_ahead_ms;
}

/* Takes over the listening sockets; resp_fd -1: none. */
enum fault reactor_open(struct reactor **out, struct server *server, int http_fd, int resp_fd) MUST_USE;
enum fault reactor_start(struct reactor *reactor) MUST_USE;
void reactor_stop(struct reactor *reactor); /* any thread: begin to drain */
void reactor_join(struct reactor *reactor);
void reactor_close(struct reactor *reactor);

#endif
