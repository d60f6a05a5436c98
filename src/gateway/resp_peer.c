#include "gateway/resp_peer.h"

#include "gateway/resp_commands.h"
#include "gateway/socket.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/socket.h>

/* Before a peer has said who it is. */
static const struct resp_limits stranger_limits = { .args_max = 8, .bytes_max = 1024 };
static const struct resp_limits known_limits = { .args_max = RESP_ARGS_MAX, .bytes_max = RESP_COMMAND_BYTES_MAX };

void peer_input_free(struct resp_peer *peer)
{
    peer_reactor(peer)->input_bytes -= peer->input_size;
    free(peer->input);
    peer->input = NULL;
    peer->input_len = peer->input_size = 0;
}

/* When the handle is gone and nobody has it in hand. */
void peer_free(struct resp_peer *peer)
{
    if (!peer->closed || peer->awaiting) return;
    if (peer->slow != NULL) peer->slow->peer = NULL;
    peer_input_free(peer);
    output_free(peer);
    free(peer);
}

static void on_closed(uv_handle_t *handle)
{
    struct resp_peer *peer = handle->data;
    front_forget(peer);
    peer->closed = true;
    peer_free(peer);
}

void peer_close(struct resp_peer *peer)
{
    if (peer->closing) return;
    peer->closing = true;
    uv_close((uv_handle_t *)&peer->tcp, on_closed);
}

static bool peer_may_run(const struct resp_peer *peer)
{
    return !peer->closing && !peer->close_after && peer->slow == NULL && !peer->writing &&
           peer->output_len < RESP_OUTPUT_BYTES_MAX;
}

static void malformed_say(struct resp_out *out, const char *mistake)
{
    char detail[192];
    int len = snprintf(detail, sizeof detail, "Protocol error: %s", mistake);
    resp_error(out, "ERR", (struct slice){ detail, (size_t)len });
}

/* Runs whole commands at data until the replies of them are enough for one write; the number of bytes that are done with. */
static size_t commands_run(struct resp_peer *peer, char *data, size_t len)
{
    struct resp_front *front = peer->front;
    struct resp_out out = { .data = front->reactor->out, .size = REACTOR_OUT_BYTES };
    struct resp_command command;
    struct resp_call call = { .peer = peer, .front = front, .argv = command.argv, .out = &out };
    uint32_t replies = 0;
    size_t at = 0;
    if (front_blocks(peer)) { /* after what it was told before */
        resp_grabs_answer(&call);
        resp_problem(&call, PROBLEM_BLOCKED, RESP_BLOCKED_DETAIL);
        replies++;
        peer->close_after = true;
    }
    while (at < len && out.len < RESP_OUTPUT_BYTES_MAX && !peer->close_after && peer->slow == NULL) {
        const struct resp_limits *limits = peer->account != NULL ? &known_limits : &stranger_limits;
        enum resp_progress progress = resp_read(&peer->reader, limits, data + at, len - at, &command);
        if (progress == RESP_MORE) break;
        if (progress == RESP_MALFORMED) {
            resp_grabs_answer(&call);
            malformed_say(&out, command.mistake);
            replies++;
            peer->close_after = true;
            break;
        }
        out.version = peer->version;
        call.account = peer->account;
        call.argc = command.argc;
        if (progress != RESP_EMPTY && !resp_run(&call)) { /* again, when what it waits for has come */
            resp_put_back(&peer->reader, data + at, &command);
            break;
        }
        at += command.bytes;
        if (progress != RESP_EMPTY && peer->slow == NULL) replies++; /* else it is counted when it is written: slow_end() */
    }
    if (resp_grabs_leave(&call)) return at;
    if (front->grab_count > front->grabs_left) resp_grabs_answer(&call);
    assert(!out.overflow);
    output_take(peer, &out, call.seq, replies);
    return at;
}

static size_t peer_serve(struct resp_peer *peer, char *data, size_t len)
{
    size_t at = 0, used = 1;
    while (used > 0 && at < len && peer_may_run(peer)) {
        used = commands_run(peer, data + at, len - at);
        at += used;
    }
    return at;
}

static bool input_append(struct resp_peer *peer, const char *data, size_t len)
{
    struct reactor *reactor = peer_reactor(peer);
    size_t need = peer->input_len + len;
    if (need > peer->input_size) {
        size_t size = peer->input_size > 0 ? peer->input_size : 1024;
        while (size < need) size *= 2;
        if (reactor->input_bytes + size - peer->input_size > REACTOR_INPUT_BYTES_MAX) return false;
        char *grown = realloc(peer->input, size);
        if (grown == NULL) return false;
        reactor->input_bytes += size - peer->input_size;
        peer->input = grown;
        peer->input_size = (uint32_t)size;
    }
    memcpy(peer->input + peer->input_len, data, len);
    peer->input_len = (uint32_t)need;
    return true;
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct resp_peer *peer = handle->data;
    (void)suggested;
    *buf = uv_buf_init(peer_reactor(peer)->read, REACTOR_READ_BYTES);
}

static void on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buf);

static void peer_pause(struct resp_peer *peer, bool pause)
{
    if (pause && !peer->paused) {
        uv_read_stop((uv_stream_t *)&peer->tcp);
    } else if (!pause && peer->paused && !peer->ended) {
        uv_read_start((uv_stream_t *)&peer->tcp, on_alloc, on_read);
    }
    peer->paused = pause;
}

/* All is said. The peer gets a while to read it and close: closing at once with bytes unread would make the system throw our
 * replies away. */
void peer_linger(struct resp_peer *peer)
{
    uv_os_fd_t fd;
    if (peer->ended || uv_fileno((uv_handle_t *)&peer->tcp, &fd) != 0 || shutdown(fd, SHUT_WR) != 0) {
        peer_close(peer);
        return;
    }
    peer_input_free(peer);
    peer->lingering = true;
    peer->since_ms = uv_now(&peer_reactor(peer)->loop);
    peer_pause(peer, false);
}

void peer_settle(struct resp_peer *peer)
{
    if (peer->closing || peer->lingering) return;
    struct resp_front *front = peer->front;
    bool deaf = front->draining && uv_now(&front->reactor->loop) >= front->hear_until_ms;
    bool idle = peer->output_len == 0 && !peer->writing && !peer->awaiting && peer->slow == NULL && peer->grabs_left == 0;
    if (idle && (peer->close_after || deaf || (front->draining && !socket_has_bytes(&peer->tcp)))) {
        peer_linger(peer);
    } else if (idle && peer->ended) {
        peer_close(peer);
    } else {
        /* Most send nothing while they wait for an answer, and stopping and starting to read costs as much as reading. Who
         * does is read once. */
        bool waits = peer->slow != NULL && peer->input_len == 0 && !peer->writing;
        peer_pause(peer, (!peer_may_run(peer) && !waits) || deaf);
    }
}

void peer_continue(struct resp_peer *peer)
{
    output_advance(peer);
    if (peer->input_len > 0) {
        size_t used = peer_serve(peer, peer->input, peer->input_len);
        memmove(peer->input, peer->input + used, peer->input_len - used);
        peer->input_len -= (uint32_t)used;
    }
    peer_settle(peer);
}

static void peer_bytes(struct resp_peer *peer, char *data, size_t len)
{
    size_t used = peer->input_len == 0 ? peer_serve(peer, data, len) : 0;
    if (used < len && !peer->close_after && !peer->closing && !input_append(peer, data + used, len - used)) {
        peer_close(peer);
    } else if (used == 0 && peer->input_len > len) {
        peer_continue(peer);
    } else {
        peer_settle(peer);
    }
}

static void on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buf)
{
    struct resp_peer *peer = stream->data;
    if (got > 0) {
        if (!peer->lingering && !peer->closing) peer_bytes(peer, buf->base, (size_t)got);
    } else if (got == UV_EOF && !peer->lingering) {
        peer->ended = true; /* it may still read: what it has asked is answered */
        uv_read_stop(stream);
        peer_settle(peer);
    } else if (got < 0) {
        peer_close(peer);
    }
}

void peer_start(struct resp_peer *peer)
{
    if (uv_read_start((uv_stream_t *)&peer->tcp, on_alloc, on_read) != 0) peer_close(peer);
}

static void slow_init(struct resp_slow *slow, struct resp_call *call,
                      void (*answer)(struct resp_call *call, struct resp_slow *slow))
{
    slow->peer = call->peer;
    slow->reactor = call->front->reactor;
    slow->account = call->account;
    slow->answer = answer;
    slow->replies = 1;
    slow->query.rooms = resp_rooms(call);
}

struct resp_slow *resp_slow_new(struct resp_call *call, void (*answer)(struct resp_call *call, struct resp_slow *slow))
{
    struct resp_slow *slow = calloc(1, sizeof *slow);
    if (slow == NULL) {
        resp_error(call->out, "BUSY", SLICE("out of memory; try again"));
        return NULL;
    }
    slow_init(slow, call, answer);
    return slow;
}

struct resp_crowd *resp_crowd_acquire(struct resp_call *call)
{
    struct resp_front *front = call->front;
    struct resp_crowd *crowd = front->crowds_free;
    if (crowd != NULL) {
        front->crowds_free = crowd->next;
    } else {
        crowd = calloc(1, sizeof *crowd);
        if (crowd == NULL) return NULL;
    }
    slow_init(&crowd->slow, call, NULL);
    crowd->slow.crowd = crowd;
    return crowd;
}

static void slow_free(struct resp_slow *slow)
{
    struct resp_crowd *crowd = slow->crowd;
    if (crowd == NULL) {
        free(slow);
        return;
    }
    crowd->next = slow->reactor->resp->crowds_free;
    slow->reactor->resp->crowds_free = crowd;
}

/* The answer may ask for more, and then it goes on. */
static void slow_answer(struct resp_call *call, struct resp_slow *slow)
{
    slow->depth++;
    slow->answer(call, slow);
    slow->depth--;
    if (slow->depth == 0 && !slow->waiting && !slow->here) slow_free(slow);
}

/* What it waited for has come. */
static void slow_end(struct resp_slow *slow)
{
    struct resp_peer *peer = slow->peer;
    slow->reactor->requests--;
    slow->waiting = false;
    if (peer != NULL) peer->slow = NULL;
    if (peer == NULL || peer->closing) {
        slow_free(slow);
        return;
    }
    struct resp_out out = { .data = slow->reactor->out, .size = REACTOR_OUT_BYTES, .version = peer->version };
    struct resp_call call = { .peer = peer, .front = peer->front, .account = slow->account, .out = &out };
    uint32_t replies = slow->replies;
    slow_answer(&call, slow);
    output_take(peer, &out, call.seq, replies);
    if (peer->slow == NULL) peer_continue(peer);
}

static void slow_wait(struct resp_call *call, struct resp_slow *slow)
{
    slow->waiting = true;
    slow->reactor->requests++;
    call->peer->slow = slow;
}

static void on_ticket(struct gate_ticket *ticket)
{
    struct resp_slow *slow = (struct resp_slow *)((char *)ticket - offsetof(struct resp_slow, ticket));
    slow->answered = true;
    if (slow->waiting) slow_end(slow);
}

struct resp_slow *resp_gate(struct resp_call *call, void (*answer)(struct resp_call *call, struct resp_slow *slow))
{
    bool here = gate_is_here(resp_rooms(call)->gate);
    struct resp_slow *slow = here ? &call->front->here : resp_slow_new(call, answer);
    if (slow == NULL) return NULL;
    slow->here = here;
    resp_again(slow, answer);
    return slow;
}

void resp_again(struct resp_slow *slow, void (*answer)(struct resp_call *call, struct resp_slow *slow))
{
    slow->answer = answer;
    slow->answered = false;
    slow->ticket.done = slow->here ? NULL : on_ticket;
}

void resp_wait(struct resp_call *call, struct resp_slow *slow)
{
    if (slow->here || slow->answered) {
        slow_answer(call, slow);
    } else {
        slow_wait(call, slow);
    }
}

static void on_answered(struct crew_job *job)
{
    struct resp_slow *slow = (struct resp_slow *)job;
    if (job->late) slow->query.fault = FAULT_TIMEOUT;
    slow_end(slow);
}

void resp_ask(struct resp_call *call, struct resp_slow *slow, void (*run)(struct query *query, struct ledger *ledger))
{
    struct query *query = &slow->query;
    query->run = run;
    query->job.work = query_work;
    query->job.done = on_answered;
    query->job.mailbox = slow->reactor->mailbox;
    query->replica = false;
    if (crew_ask(query->seq_wait != 0 ? query->rooms->lists : query->rooms->lookups, &query->job)) {
        slow_wait(call, slow);
        return;
    }
    query->fault = FAULT_TIMEOUT;
    slow_answer(call, slow);
}
