/* request: one question and its one answer.
 *
 * A handler answers at once with a reply_*() call, or hands the request to the gate, the people or the query crew and
 * replies from their completion. Exactly one reply_*() ends a request; it must not be touched after. The slices of http are
 * valid until the handler returns: what a completion needs is copied. */
#ifndef STAMPEDE_GATEWAY_REQUEST_H
#define STAMPEDE_GATEWAY_REQUEST_H

#include "base/clock.h"
#include "gateway/connection.h"
#include "gateway/counts.h"
#include "gateway/face.h"
#include "gateway/query.h"
#include "gateway/routes.h"
#include "guard/places.h"
#include "wire/json_out.h"
#include "wire/problem.h"

struct sale_draft;

struct request {
    struct connection *connection;
    struct reactor *reactor;
    struct http_request http;
    const struct route *route;
    const struct face *face;         /* NULL: it is answered natively */
    char allow[64];                  /* of a 405: the methods that the path has */
    struct slice ids[ROUTE_IDS_MAX]; /* what stands for {sale} or {order} in the path, and then for {place} */
    uint64_t id;                     /* the first as a number; 0 where it is none, which nothing has */
    struct identity who;
    enum problem token_problem; /* why who is nobody; PROBLEM_NONE where it is somebody */
    enum problem refused;       /* of a grab: what the guard said of its address; who asks was not looked at */
    struct request *free_next;
    struct guard_visit visit;
    uint32_t retry_s; /* for Retry-After; 0: as the status says */

    struct line_waiter waiter;
    bool parked;                      /* in line: the connection waits, no thread does */
    bool lined;                       /* the sale has a line */
    bool let_in;                      /* by the line, which is to hear when there is an answer */
    enum verdict line_verdict;        /* why the line refuses, while the gate is asked whether it was won elsewhere */
    char place[PLACE_TEXT_BYTES + 1]; /* whose token is being made */

    bool counted; /* a grab of a sale that exists: its answer is counted */
    bool won;     /* of a claim: only its number is still to be found */
    /* Of a grab, for what comes after the gate: asking the ledger, and taking it back from the count of those admitted. */
    uint32_t units;
    bool entered;
    bool turned_away; /* past admit_max */
    char key[IDEMPOTENCY_KEY_BYTES_MAX + 1];
    /* Of a payment, for the same. */
    int64_t amount;
    bool failed; /* the provider says so: nothing changes */
    char payment_ref[PAYMENT_REF_BYTES_MAX + 1];

    bool met;    /* what other machines know of its sale has been asked for */
    bool looked; /* the same for how the sale stands now */
    char *kept;  /* its message, while that was asked; freed when the request ends */
    void (*meet_then)(struct request *request);

    struct sale_draft *draft; /* of a sale that waits for its event to be looked up; freed when the request ends */

    union {
        struct gate_ticket ticket;
        struct people_request people;
        struct query query;
    };
};

/* Makes a request of the message just parsed and dispatches it. */
void request_begin(struct connection *connection, const struct http_request *http);
/* Gives the request back and tells the connection. Called by reply_*(). */
void request_end(struct request *request);
/* The peer of a request in line is gone: takes it out, ends it. */
void request_leave(struct request *request);
/* Answers bytes at data that are no request, the last thing on this connection: what is wrong with them, unless the guard
 * turns the peer away; in the words of the door whose path they begin with. They count as a read from its address. */
void request_unreadable(struct connection *connection, const char *data);
/* The same for half a message in the input, of which the rest does not come; its address has paid with its connection. */
void request_late(struct connection *connection, enum problem problem);
/* The checks of the guard that need to know who asks, once. False: has replied. */
bool request_guarded(struct request *request);
static inline struct rooms *request_rooms(struct request *request)
{
    return &request->reactor->server->rooms;
}
/* Where it is a grab that counts, its answer does: kind as in counts.h. */
static inline void request_count(struct request *request, unsigned kind)
{
    if (!request->counted) return;
    counts_add(request->reactor->counts, request->id, kind, reactor_now_ms(request->reactor) / 1000);
    counts_took(request->reactor->counts, request->id, mono_ns() - request->visit.entered_ns);
}
static inline struct asker request_asker(const struct request *request)
{
    return (struct asker){ .name = request->who.name, .admin = request->who.role == ROLE_ADMIN };
}

/* Where the gate does not know a sale that another machine may have made just now, asks for it and goes on with then(), or
 * replies BUSY. True: it does so. False: there is nothing to ask; the caller goes on. The message stays readable. */
bool request_meets(struct request *request, const struct gate_stranger *stranger, void (*then)(struct request *request));

/* The same for how its sale stands at this moment, where the gate is not here; the gate's memory has it then. */
bool request_looks(struct request *request, void (*then)(struct request *request));

/* The login it came with. False: none. */
bool request_token(const struct request *request, struct slice *token);
/* Whether what is this seller's is theirs to see and change: for everyone else it does not exist (P8). */
static inline bool request_owns(const struct request *request, const char *seller)
{
    return request->who.role == ROLE_ADMIN || (request->who.role == ROLE_SELLER && slice_is(request->who.name, seller));
}

#define REQUEST_OF(pointer, member) ((struct request *)((char *)(pointer)-offsetof(struct request, member)))

/* Begins a JSON body; reply_send() sends it. */
struct json_out *reply_json(struct request *request, struct json_out *out);
void reply_send(struct request *request, int status, struct json_out *out);
/* detail NULL: the problem's own. */
void reply_problem(struct request *request, enum problem problem, const char *detail);
/* For a problem that carries more: begin, add members, send. */
void reply_problem_begin(struct request *request, struct json_out *out, enum problem problem, const char *detail);
void reply_problem_send(struct request *request, enum problem problem, struct json_out *out);
/* The problem of a verdict that is not a success. */
enum problem verdict_problem(enum verdict verdict);
void reply_verdict(struct request *request, enum verdict verdict);
void reply_verdict_detail(struct request *request, enum verdict verdict, const char *detail); /* NULL as above */
/* Anything else. extra: whole header lines. */
void reply_raw(struct request *request, const struct http_head *head, struct slice body);
/* A refusal before there is a request: written to reactor->out, the connection is to close. */
void reply_refusal(struct reactor *reactor, enum problem problem);
/* Hands query to the query crew; BUSY when its queue is full. */
void request_query(struct request *request, void (*run)(struct query *query, struct ledger *ledger),
                   void (*done)(struct crew_job *job));
/* The same where a replica of the ledger may answer, if it has filed what the query waits for. */
void request_read(struct request *request, void (*run)(struct query *query, struct ledger *ledger),
                  void (*done)(struct crew_job *job));
/* The same to a crew of the caller's choice. */
void request_work(struct request *request, struct crew *crew, void (*run)(struct query *query, struct ledger *ledger),
                  void (*done)(struct crew_job *job));

#endif
