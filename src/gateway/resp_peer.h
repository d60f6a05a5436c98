/* resp_peer: one peer that speaks the Redis protocol, and its pipeline.
 *
 * Commands are run one after the other, as they are read, and their replies are written down at once (grabs that stand
 * behind each other are decided together, below); but what rests on a record leaves only when that record is durable (P3),
 * and so does all that comes after it. So a pipeline needs no cell for each of its replies: only the text of them, and the
 * last record that it rests on. All its wins share one sync, and one write tells of them.
 *
 *   output   | due: may be sent | held: until its last record is durable | next: what came meanwhile |
 *
 * Only a question to the ledger stops the pipeline behind it until it is answered; and where the gate is not here, every
 * question to the gate, of which grabs that stand behind each other are one.
 *
 * What a peer can make us hold is bounded: a command that is not whole (RESP_COMMAND_BYTES_MAX and a read), and replies
 * (RESP_OUTPUT_BYTES_MAX and one): beyond that nothing more is run or read, and a peer that does not take them for
 * RESP_WRITE_MS_MAX is cut off. One that has not said who it is may ask little (resp_peer.c) and not for long. */
#ifndef STAMPEDE_GATEWAY_RESP_PEER_H
#define STAMPEDE_GATEWAY_RESP_PEER_H

#include "gateway/query.h"
#include "gateway/reactor.h"
#include "people/resp_accounts.h"
#include "wire/resp.h"

#define RESP_OUTPUT_BYTES_MAX (64u << 10)
#define RESP_REPLY_BYTES_MAX (32u << 10)
#define RESP_WRITE_MS_MAX 30000
#define RESP_AUTH_MS_MAX 10000
#define RESP_AUTH_FAILURES_MAX 3
#define RESP_LINGER_MS 1000
#define RESP_CLIENT_NAME_BYTES_MAX 64
_Static_assert(RESP_OUTPUT_BYTES_MAX + RESP_REPLY_BYTES_MAX <= REACTOR_OUT_BYTES, "the replies of one turn fit");
_Static_assert(RESP_COMMAND_BYTES_MAX + 1024 <= RESP_REPLY_BYTES_MAX, "what ECHO is given fits a reply");

struct resp_call;
struct resp_slow;

struct resp_peer {
    uv_tcp_t tcp; /* first */
    struct resp_front *front;
    struct resp_peer *before, *after;   /* of the front's */
    const struct resp_account *account; /* NULL: has not said who it is */
    struct address address;
    uint64_t id;
    uint64_t blocks_version; /* of the block list when its address was looked for */
    uint64_t stranger_ms;    /* connected, or was nobody's again: since then it has not said who it is */
    uint64_t since_ms;       /* the write under way begun, or lingering */
    uint8_t version;         /* 2 or 3 */
    uint8_t auth_failures;
    bool counted;     /* among the connections of its address */
    bool refused;     /* hears why, and is among the refusals rather than the connections */
    bool close_after; /* no more commands are run */
    bool disowned;    /* the disk failed under its replies: no later one is told either */
    bool ended;       /* the peer will send no more */
    bool paused;      /* reading is stopped */
    bool lingering;   /* all is said; waits for the peer to close, so that it can read the answer */
    bool awaiting;    /* among the front's, until what is held is durable */
    bool writing;     /* the socket did not take all */
    bool closing, closed;
    uint32_t grabs_left; /* taken down, and left to be answered with those of others */
    struct resp_peer *await_next;
    uint64_t held_seq;
    struct resp_slow *slow; /* the command that the pipeline waits for */
    bool met, met_in_vain;  /* what other machines know of the next command's sale has been asked; nobody could tell */
    struct resp_reader reader;
    char *input;
    uint32_t input_len, input_size;
    char *output;
    uint32_t output_len, output_size;
    uint32_t due_len, held_len;          /* where those parts of the output end */
    uint32_t held_replies, next_replies; /* how many those parts are */
    uint64_t next_seq;
    char name[RESP_CLIENT_NAME_BYTES_MAX + 1]; /* CLIENT SETNAME */
};

/* Names of sales that have been looked up, so that a grab takes the decision's lock once. */
#define RESP_NAMES 256
struct resp_name {
    const struct resp_account *account; /* NULL: nothing stands here */
    uint64_t version, sale_id;
    uint32_t len;
    char name[SALE_NAME_BYTES_MAX];
};

/* Grabs that stand behind each other are decided together: under one lock, their buyers' memory called for at once. Each is
 * taken down as it is read; before anything else is run all of them are answered. Where the gate is here those at the end of
 * what a peer has sent are left for a moment, until the loop has read what others have sent: a crowd that asks one by one is
 * decided like a pipeline. */
#define RESP_GRABS_MAX 64
#define RESP_GRAB_REPLY_BYTES_MAX 256
struct resp_grab {
    struct resp_peer *peer;
    char buyer[BUYER_BYTES_MAX + 1];                             /* ACCOUNT:USER */
    void (*answer)(struct resp_call *call, struct gate_grab *g); /* writes the reply */
    enum problem problem; /* it was no grab, and stands here for its turn to be told so; PROBLEM_NONE: it was */
    const char *detail;
};
#define RESP_GRABS_BYTES_MAX (RESP_GRABS_MAX * RESP_GRAB_REPLY_BYTES_MAX)
_Static_assert(RESP_OUTPUT_BYTES_MAX + RESP_GRABS_BYTES_MAX + RESP_REPLY_BYTES_MAX <= REACTOR_OUT_BYTES,
               "their replies fit");

/* A command that asks the ledger or the gate, until it is answered; what its answer needs is copied here. It is answered at
 * once where the gate is here: then the front has one for all. */
struct resp_slow {
    struct query query;
    struct gate_ticket ticket;
    struct resp_peer *peer; /* NULL: it has gone */
    struct reactor *reactor;
    const struct resp_account *account;
    /* Writes the reply, on the reactor's thread, or asks again. query->fault is set also where the crew had no time. */
    void (*answer)(struct resp_call *call, struct resp_slow *slow);
    void (*found)(struct resp_call *call, struct resp_slow *slow); /* an order that is to be changed: ticket has it */
    bool here, answered, waiting;
    uint32_t depth; /* of answers that are being written */
    uint32_t replies;
    uint64_t id;
    uint32_t units;
    int64_t amount;
    char ref[PAYMENT_REF_BYTES_MAX + 1], reason[CANCEL_REASON_BYTES_MAX + 1];
    struct resp_crowd *crowd; /* whose it is; NULL: it stands alone */
};

/* Grabs that are on their way together, where the gate is not here. */
struct resp_crowd {
    struct resp_slow slow;
    uint32_t count;
    struct gate_grab grabs[RESP_GRABS_MAX];
    struct resp_grab texts[RESP_GRABS_MAX];
    char key[IDEMPOTENCY_KEY_BYTES_MAX + 1]; /* of the last; no other has one */
    struct resp_crowd *next;
};

/* What a reactor has for all its peers. */
struct resp_front {
    struct reactor *reactor;
    uv_tcp_t listener;
    struct resp_peer *peers;
    _Atomic uint32_t count;
    uint64_t looked_ms;
    bool draining;
    uint64_t hear_until_ms; /* draining: what peers have sent is read until then */
    struct resp_slow here;  /* of the command being run, where the gate is here */
    struct resp_crowd *crowds_free;
    struct gate_ticket durable; /* waits for the first of those below, and so in turn for all of them */
    bool durable_asked;
    struct resp_peer *await_first, *await_last;
    struct resp_name names[RESP_NAMES];
    bool gathering;      /* the loop reads, and will answer what is left when it has read all */
    uint32_t grab_count; /* taken down, and not answered */
    uint32_t grabs_left; /* the first of these: of peers that were read before the one at hand */
    struct gate_grab grabs[RESP_GRABS_MAX];
    struct resp_grab grab_texts[RESP_GRABS_MAX];
    char left_out[RESP_GRABS_BYTES_MAX];
};

/* One command being run. Its handler writes one reply to out, or calls resp_ask(). */
struct resp_call {
    struct resp_peer *peer;
    struct resp_front *front;
    const struct resp_account *account; /* NULL only for commands that are open to strangers */
    uint32_t argc;
    const struct slice *argv;
    struct resp_out *out;
    uint64_t seq; /* of the last record that the reply rests on */
};

/* Fill in query, then resp_ask(). NULL: out of memory, and the reply is written. */
struct resp_slow *resp_slow_new(struct resp_call *call, void (*answer)(struct resp_call *call, struct resp_slow *slow));
/* For a question to the gate: ask it with the ticket, then resp_wait(), and answer is called: now where the gate is here or
 * has answered, else later, and the pipeline waits. An answer may ask again, with resp_again(). NULL as above. */
struct resp_slow *resp_gate(struct resp_call *call, void (*answer)(struct resp_call *call, struct resp_slow *slow));
void resp_again(struct resp_slow *slow, void (*answer)(struct resp_call *call, struct resp_slow *slow));
void resp_wait(struct resp_call *call, struct resp_slow *slow);
/* The same for grabs. NULL: out of memory; nothing is written. */
struct resp_crowd *resp_crowd_acquire(struct resp_call *call);
/* Stops the pipeline until the ledger has answered; where it has no room, says so at once. */
void resp_ask(struct resp_call *call, struct resp_slow *slow, void (*run)(struct query *query, struct ledger *ledger));

static inline struct rooms *resp_rooms(const struct resp_call *call)
{
    return &call->front->reactor->server->rooms;
}

/* resp_peer.c, for the other files of the front. */
void peer_close(struct resp_peer *peer);
/* Replies that are due, then commands that have piled up behind them. */
void peer_continue(struct resp_peer *peer);
void peer_settle(struct resp_peer *peer); /* what it waits for now */
void peer_linger(struct resp_peer *peer); /* all is said */
void peer_start(struct resp_peer *peer);  /* begins to read; one that cannot is closed */
void peer_free(struct resp_peer *peer);   /* unless somebody still has it in hand */
void peer_input_free(struct resp_peer *peer);
static inline struct reactor *peer_reactor(const struct resp_peer *peer)
{
    return peer->front->reactor;
}
/* resp_output.c: replies that rest on the record seq, in out, which is empty after; what is due is sent. */
void output_take(struct resp_peer *peer, struct resp_out *out, uint64_t seq, uint32_t replies);
void output_advance(struct resp_peer *peer);
void output_free(struct resp_peer *peer);
/* resp_front.c: it has gone. */
void front_forget(struct resp_peer *peer);
/* It has an account no more, and is to be as one that has just connected; where its address has too many, it must go. */
void front_estrange(struct resp_peer *peer);
/* Its address has come onto the block list; that is counted. Costs a comparison while the list is the same. */
bool front_blocks(struct resp_peer *peer);
#define RESP_BLOCKED_DETAIL "the address is on the block list of this shop"

/* The reactor's. listen_fd -1: no front, *out is NULL. */
enum fault resp_front_open(struct resp_front **out, struct reactor *reactor, int listen_fd) MUST_USE;
void resp_front_close(struct resp_front *front); /* when its loop has ended */
bool resp_front_listen(struct resp_front *front, int backlog);
void resp_front_tick(struct resp_front *front);
/* Between the two the loop reads, and calls nothing but what has come; grabs may be left to be decided together. */
void resp_front_gather(struct resp_front *front);
void resp_front_answer(struct resp_front *front);
/* Before gate_lane_rest(): the first in the row of those that await a record is waited for; those before it go on. */
void resp_front_rest(struct resp_front *front);
uint32_t resp_front_count(const struct resp_front *front); /* of its peers; any thread */
/* No more peers are to come. */
void resp_front_hush(struct resp_front *front);
bool resp_front_has_peers(const struct resp_front *front); /* who wait to be taken */
/* No more peers are taken; those that wait for nothing and have sent nothing go, the others when they are answered. Done
 * again it does nothing. */
void resp_front_drain(struct resp_front *front);
void resp_front_drop_all(struct resp_front *front);

#endif
