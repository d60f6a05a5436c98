/* The replies of a peer on their way out. */
#include "gateway/resp_peer.h"

#include <assert.h>
#include <stdlib.h>

struct resp_write {
    uv_write_t request; /* first */
    struct resp_peer *peer;
    size_t len;
    char data[];
};

void output_free(struct resp_peer *peer)
{
    peer_reactor(peer)->output_bytes -= peer->output_size;
    free(peer->output);
    peer->output = NULL;
    peer->output_len = peer->output_size = peer->due_len = peer->held_len = 0;
}

static void on_written(uv_write_t *request, int status)
{
    struct resp_write *write = (struct resp_write *)request;
    struct resp_peer *peer = write->peer;
    peer_reactor(peer)->output_bytes -= write->len;
    peer->writing = false;
    free(write);
    if (peer->closing) return;
    if (status != 0) {
        peer_close(peer);
    } else {
        peer_continue(peer);
    }
}

/* What the socket does not take now is copied and written when it can. */
static void peer_write(struct resp_peer *peer, const char *data, size_t len)
{
    struct reactor *reactor = peer_reactor(peer);
    assert(!peer->writing);
    uv_buf_t buf = uv_buf_init((char *)data, (unsigned)len);
    int wrote = uv_try_write((uv_stream_t *)&peer->tcp, &buf, 1);
    if (wrote < 0 && wrote != UV_EAGAIN) {
        peer_close(peer);
        return;
    }
    size_t done = wrote > 0 ? (size_t)wrote : 0;
    if (done == len) return;
    bool fits = reactor->output_bytes + len - done <= REACTOR_OUTPUT_BYTES_MAX;
    struct resp_write *write = fits ? malloc(sizeof *write + len - done) : NULL;
    if (write == NULL) {
        peer_close(peer);
        return;
    }
    write->peer = peer;
    write->len = len - done;
    memcpy(write->data, data + done, write->len);
    reactor->output_bytes += write->len;
    peer->writing = true;
    peer->since_ms = uv_now(&reactor->loop);
    uv_buf_t rest = uv_buf_init(write->data, (unsigned)write->len);
    uv_write(&write->request, (uv_stream_t *)&peer->tcp, &rest, 1, on_written);
}

static void output_send(struct resp_peer *peer)
{
    uint32_t len = peer->due_len;
    if (len == 0 || peer->writing || peer->closing) return;
    peer_write(peer, peer->output, len);
    memmove(peer->output, peer->output + len, peer->output_len - len);
    peer->output_len -= len;
    peer->held_len = peer->awaiting ? peer->held_len - len : 0;
    peer->due_len = 0;
}

static bool output_append(struct resp_peer *peer, const char *data, size_t len)
{
    struct reactor *reactor = peer_reactor(peer);
    size_t need = peer->output_len + len;
    if (need > peer->output_size) {
        size_t size = peer->output_size > 0 ? peer->output_size : 1024;
        while (size < need) size *= 2;
        if (reactor->output_bytes + size - peer->output_size > REACTOR_OUTPUT_BYTES_MAX) return false;
        char *grown = realloc(peer->output, size);
        if (grown == NULL) return false;
        reactor->output_bytes += size - peer->output_size;
        peer->output = grown;
        peer->output_size = (uint32_t)size;
    }
    memcpy(peer->output + peer->output_len, data, len);
    peer->output_len = (uint32_t)need;
    return true;
}

static void unknown_append(struct resp_peer *peer, uint32_t replies)
{
    static const char unknown[] = "-OUTCOME_UNKNOWN the disk failed: ask again once the server is back\r\n";
    for (uint32_t i = 0; i < replies; i++) {
        if (!output_append(peer, unknown, sizeof unknown - 1)) break;
    }
}

/* Whether what was held may be told is not known and never will be (P10): each of its replies becomes this, refusals and
 * all, and so do those that came after them and the one that the ledger still owes. */
static void output_disown(struct resp_peer *peer)
{
    peer->output_len = peer->due_len;
    unknown_append(peer, peer->held_replies + peer->next_replies);
    peer->due_len = peer->output_len;
    peer->held_len = peer->held_replies = peer->next_replies = 0;
    peer->next_seq = 0;
    peer->disowned = peer->close_after = true;
}

static void on_durable(struct gate_ticket *ticket);

/* Takes the first out of the row. */
static struct resp_peer *await_end(struct resp_front *front)
{
    struct resp_peer *peer = front->await_first;
    front->await_first = peer->await_next;
    peer->awaiting = false;
    return peer;
}

void resp_front_rest(struct resp_front *front)
{
    struct resp_peer *peer;
    if (front == NULL || front->durable_asked) return;
    front->durable.done = on_durable;
    while ((peer = front->await_first) != NULL) {
        if (!gate_await(front->reactor->lane, peer->held_seq, &front->durable)) {
            front->durable_asked = true;
            front->reactor->requests++;
            return;
        }
        await_end(front);
        peer->due_len = peer->held_len;
        if (!peer->closing) peer_continue(peer);
        peer_free(peer);
    }
}

static void on_durable(struct gate_ticket *ticket)
{
    struct resp_front *front = (struct resp_front *)((char *)ticket - offsetof(struct resp_front, durable));
    front->durable_asked = false;
    front->reactor->requests--;
    while (ticket->verdict == VERDICT_UNKNOWN && front->await_first != NULL) {
        struct resp_peer *peer = await_end(front);
        output_disown(peer);
        if (!peer->closing) peer_continue(peer);
        peer_free(peer);
    }
    resp_front_rest(front);
}

/* What rests on nothing becomes due; the rest waits in its row. */
void output_advance(struct resp_peer *peer)
{
    struct resp_front *front = peer->front;
    if (!peer->awaiting && peer->output_len > peer->due_len) {
        if (peer->next_seq == 0) {
            peer->due_len = peer->output_len;
        } else {
            peer->awaiting = true;
            peer->held_len = peer->output_len;
            peer->held_seq = peer->next_seq;
            peer->held_replies = peer->next_replies;
            peer->await_next = NULL;
            *(front->await_first != NULL ? &front->await_last->await_next : &front->await_first) = peer;
            front->await_last = peer;
        }
        peer->next_seq = 0;
        peer->next_replies = 0;
    }
    output_send(peer);
}

/* Replies that rest on seq. Most often nothing waits before them and they are durable, and then they are not copied. */
void output_take(struct resp_peer *peer, struct resp_out *out, uint64_t seq, uint32_t replies)
{
    if (peer->disowned && out->len > 0 && !peer->closing) {
        unknown_append(peer, replies);
        output_advance(peer);
    } else if (out->len > 0 && !peer->closing) {
        uint64_t durable = gate_seq_durable(peer_reactor(peer)->server->rooms.gate);
        if (peer->output_len == 0 && !peer->writing && seq <= durable) {
            peer_write(peer, out->data, out->len);
        } else if (output_append(peer, out->data, out->len)) {
            if (seq > peer->next_seq) peer->next_seq = seq;
            peer->next_replies += replies;
            output_advance(peer);
        } else {
            peer_close(peer);
        }
    }
    out->len = 0;
}
