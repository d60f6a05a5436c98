/* gate: the seam in front of the decision, in completion style.
 *
 * A lane belongs to one reactor thread. Every gate_*() call below takes a ticket that the caller owns and keeps alive
 * until its done() is called, exactly once, on the lane's thread: at once for what is already known (most refusals), or
 * when the record it rests on is durable (P3). "Already yours" waits for the durability of the order it names.
 *
 * A ticket without done() is answered before the call returns, and it is the caller's to tell nobody before seq is durable:
 * gate_await() with the last seq of many such answers waits for all of them at once.
 *
 * There are two kinds (kind.h). Of one machine: engine and journal behind one lock (local/). Of several: scripts in Redis,
 * and a ledger that has the last word (remote/), and a thread for what nobody waits for (keeper/). What other rooms may
 * include stands beside this file. */
#ifndef STAMPEDE_GATE_GATE_H
#define STAMPEDE_GATE_GATE_H

#include "base/fault.h"
#include "engine/engine.h"
#include "journal/journal.h"
#include "ledger/ledger.h"

#include <stdbool.h>
#include <stdint.h>

struct gate;
struct gate_lane;

struct gate_options {
    const char *folder; /* the data folder */
    uint32_t segment_bytes;
    uint64_t space_bytes_min;
    uint32_t orders_max;
    uint64_t memory_bytes_max;     /* of the whole process; 0: no limit */
    uint32_t sales_per_seller_max; /* upcoming or running; 0: no limit */
    /* Called once, on the committer's thread, when a write or sync has failed: no "won" is said any more (P10). */
    void (*on_poison)(void *arg);
    void *arg;
};

/* Loads open sales, holds and buyers from the ledger, replays the journal after the filed point, checks P1 and the digest.
 * FAULT_DAMAGE has filled *damage. */
enum fault gate_open(struct gate **out, const struct gate_options *options, struct ledger *ledger,
                     struct journal_damage *damage) MUST_USE;
/* When "won" is said (docs/promises.md). */
enum gate_ack {
    GATE_ACK_GATE,    /* when Redis has decided */
    GATE_ACK_REPLICA, /* and a replica has it */
    GATE_ACK_LEDGER,  /* and the ledger has it, which has the last word */
};
struct redis;
struct gate_shared_options {
    struct redis *redis; /* with the scripts of gate/scripts.h; the caller's */
    const char *prefix;  /* of every key */
    const struct ledger_place *ledger;
    enum gate_ack ack;
    uint32_t replicas, replica_ms; /* for GATE_ACK_REPLICA: how many, and how long to wait for them */
    uint32_t node;                 /* 1 to 1023, another for each; 0: one that is free */
    uint32_t log_max;              /* decisions of a sale that may wait to be filed */
    uint32_t sales_per_seller_max;
    uint32_t filer_threads;
    uint32_t share_percent; /* of an even share of what is left, that a node asks for at once; 0: as much as comes */
    uint32_t warm_before_s; /* sales are built this long before they open */
    uint8_t uuid[16];       /* names the shop's decisions, the same on all nodes */
};
/* The gate of several machines: decisions in Redis, the ledger shared. */
enum fault gate_open_shared(struct gate **out, const struct gate_shared_options *options) MUST_USE;

enum fault gate_start(struct gate *gate) MUST_USE;
/* Every waiting ticket has been answered by then: reactors are stopped first. */
void gate_close(struct gate *gate);

/* wake is called on the committer's thread when the lane has answers to send; it must cause a turn of the
 * lane's thread. */
enum fault gate_lane_open(struct gate_lane **out, struct gate *gate, void (*wake)(void *arg), void *arg) MUST_USE;
void gate_lane_close(struct gate_lane *lane);
/* The lane's loop, before its first turn; and before its handles are closed, once every ticket has been answered. */
struct uv_loop_s;
enum fault gate_lane_attach(struct gate_lane *lane, struct uv_loop_s *loop) MUST_USE;
void gate_lane_detach(struct gate_lane *lane);
/* The lane's turn begins: until the next gate_lane_rest() no wake is needed. */
void gate_lane_rise(struct gate_lane *lane);
/* The lane's turn ends: calls done() of every ticket whose record is durable, and asks to be woken for the rest. After
 * poisoning, of all that wait, with VERDICT_UNKNOWN. */
void gate_lane_rest(struct gate_lane *lane);

struct gate_ticket {
    void (*done)(struct gate_ticket *ticket); /* NULL: see above */
    enum verdict verdict;
    uint64_t seq; /* of the last record that the answer rests on; 0: on none */
    union {
        struct grab_answer grab;
        struct token_answer token;
        struct sale sale;   /* after a seller's change */
        struct order order; /* of gate_order(), gate_pay() and gate_cancel() */
    };
    struct gate_ticket *next; /* the gate's own */
    uint32_t left;            /* the same */
};

/* True: seq is durable already, and done() is not called. False: done() is, with VERDICT_DONE, or VERDICT_UNKNOWN where it
 * never will be. */
bool gate_await(struct gate_lane *lane, uint64_t seq, struct gate_ticket *ticket);

/* The time that decisions are made at (P12): never goes back, also not over a restart. Any thread. */
uint64_t gate_now_ms(const struct gate *gate);
/* The time that tokens and signatures go by, which others make and check too: the clock of this machine; of several machines
 * that of Redis, for theirs may differ. Any thread. */
uint64_t gate_shop_ms(const struct gate *gate);

/* now_ms of grabs, asks, askers, payments and cancels is set by the gate. */
void gate_grab(struct gate_lane *lane, struct grab *grab, struct gate_ticket *ticket);
/* Grabs that have come together, decided in their order and without tickets: verdict and what follows are the answer, and it
 * is the caller's to tell nobody before seq is durable. One lock and one look at the clock for all of them; few enough that
 * others need not wait long. */
struct gate_grab {
    struct grab grab;
    enum verdict verdict;
    uint32_t available; /* after the decision */
    uint64_t order_no;  /* for WON, REPEATED and ALREADY_WON */
    uint64_t seq;       /* as of a ticket */
};
void gate_grabs(struct gate_lane *lane, struct gate_grab *grabs, uint32_t count);
/* The same where gate_is_here() is false: all are on their way together, and done() is called when the last is answered,
 * with DONE. The grabs stay until then; their texts are copied. */
void gate_grabs_ask(struct gate_lane *lane, struct gate_grab *grabs, uint32_t count, struct gate_ticket *ticket);
/* A purchase token: VERDICT_DONE or VERDICT_REPEATED with its nonce, once the record that gave it is durable. */
void gate_token(struct gate_lane *lane, struct token_ask *ask, struct gate_ticket *ticket);
/* TOO_MANY_SALES where the engine has no objection but the seller, whoever it is, has sales_per_seller_max that are not
 * over. The limit is of this door only: what was created stands in the journal, and replay asks nobody. */
void gate_create(struct gate_lane *lane, struct asker *seller, const struct sale_terms *terms, uint32_t stock,
                 struct gate_ticket *ticket);

/* A change of some terms, merged with the present ones under the lock: mask has a TERM_ bit for each field given. */
struct sale_change {
    uint32_t mask;
    struct sale_terms terms;
};
/* VERDICT_BAD_INPUT when the merged terms contradict each other; ticket->sale.terms then has them. */
void gate_change(struct gate_lane *lane, struct asker *asker, uint64_t sale_id, const struct sale_change *change,
                 struct gate_ticket *ticket);
void gate_stock(struct gate_lane *lane, struct asker *asker, uint64_t sale_id, int64_t add, struct gate_ticket *ticket);
void gate_switch(struct gate_lane *lane, struct asker *asker, uint64_t sale_id, enum decision_kind kind,
                 struct gate_ticket *ticket);

/* DONE and REPEATED with the order as it now is, once that is durable; the others as engine_decide_payment() says.
 * NO_SUCH_ORDER: ask the ledger, then gate_pay_past() with the order and the ref that it has. */
void gate_pay(struct gate_lane *lane, struct payment *payment, struct gate_ticket *ticket);
/* ticket->order is the order as the ledger has it. NO_SUCH_ORDER: memory has it after all, ask gate_pay(). */
void gate_pay_past(struct gate_lane *lane, struct payment *payment, struct slice ref_taken, struct gate_ticket *ticket);
void gate_cancel(struct gate_lane *lane, struct cancel *cancel, struct gate_ticket *ticket);
/* Ends holds that are due, as many as one commit takes without being noticed, a few under each lock. True: done() is called
 * when their ends are durable, at once if there was nothing to write; more may be due then, so call again in another turn.
 * False: none are due, or the journal is to be left to others for now; done() is not called. One at a time, by one lane. */
bool gate_expire(struct gate_lane *lane, struct gate_ticket *ticket);

/* Whether tickets without done() may be used: a gate whose decision is elsewhere answers later, always. */
bool gate_is_here(const struct gate *gate);
/* The sale as it is at present: DONE with ticket->sale, or NO_SUCH_SALE where memory does not have it and the ledger is to
 * be asked. */
void gate_look(struct gate_lane *lane, uint64_t sale_id, struct gate_ticket *ticket);
/* Calls done() once memory knows of a sale whatever there is to know: another machine may have made it just now. BUSY where
 * nobody could be asked. A gate whose decisions are here knows all at once. */
struct gate_stranger {
    uint64_t sale_id;          /* 0: by its seller and its name */
    struct slice seller, name; /* copied */
};
void gate_meet(struct gate_lane *lane, const struct gate_stranger *stranger, struct gate_ticket *ticket);
/* Whether that would tell more than memory does. No lock where the gate is here. */
bool gate_is_strange(struct gate *gate, const struct gate_stranger *stranger);
/* DONE with ticket->sale once the sale stands where it is decided; BUSY where that takes too long, and is still being done.
 * A gate whose decision is here has every sale that is not over in memory from the moment it is made. */
void gate_warm(struct gate_lane *lane, uint64_t sale_id, struct gate_ticket *ticket);
/* Whom to tell of tokens that were logged out, here or on another machine: on a thread of the gate's, more than once maybe.
 * NULL: nobody any more, from the return of the call on. A gate whose decision is here hears of none. */
struct gate_logouts {
    void (*told)(void *arg, uint64_t token_id, uint64_t expires_ms);
    void *arg;
};
void gate_tell_logouts(struct gate *gate, const struct gate_logouts *logouts);
/* Jobs outside of the gate that one machine does for all. */
enum gate_job {
    GATE_JOB_COURIER, /* webhooks, and what happens by time alone and is told by them: sales that close, events that open */
    GATE_JOB_PUBLISHER, /* the operator's queue */
    GATE_JOB_COUNT
};
/* Whether the job is this machine's to do now: ask before each part of it. Who asks wants to have it; who has not asked for
 * half a minute gives it away. *fence is to be set on the connection that the job writes with (ledger_set_fence()); another
 * number than before means that another machine may have done it meanwhile. A gate whose decision is here has every job for
 * itself. Any thread. */
bool gate_owns(struct gate *gate, enum gate_job job, struct ledger_fence *fence);
/* The ledger said FAULT_FENCED to this number. */
void gate_disown(struct gate *gate, enum gate_job job, const struct ledger_fence *fence);
/* Gives it to whoever else asks for it, until gate_owns() is asked again: wait some seconds before that. False: there is
 * nobody else, and it stays. */
bool gate_give_away(struct gate *gate, enum gate_job job);
/* What this node tells the others of a shop of itself, a text of at most GATE_REPORT_BYTES that the gate does not read; and
 * what all of them have told within the last hour, this one too, as of some seconds ago. Any thread. A gate whose decision
 * is here has nobody to tell. */
#define GATE_REPORT_BYTES 1023
struct gate_node {
    uint32_t number;
    bool here;       /* it is this one */
    uint64_t age_ms; /* of its report */
    char report[GATE_REPORT_BYTES + 1];
};
void gate_report(struct gate *gate, struct slice report);
void gate_nodes_each(struct gate *gate, void (*look)(const struct gate_node *node, void *arg), void *arg);
/* Could an order have this number? What never was given out costs no query. */
bool gate_order_possible(struct gate *gate, uint64_t order_no);
/* Names this shop's decisions among all shops'. */
const uint8_t *gate_uuid(const struct gate *gate);
/* Up to this decision all is durable; 0 where tickets say it all. */
uint64_t gate_seq_durable(const struct gate *gate);

/* From memory, at once, with no ticket: false where memory does not have it and the ledger is to be asked. */
bool gate_sale(struct gate *gate, uint64_t sale_id, struct sale *out);
/* The sale of a seller by its name, also one that is over and gone from memory; 0: there never was one. What was found
 * counts until the version moves. */
uint64_t gate_sale_by_name(struct gate *gate, struct slice seller, struct slice name);
uint64_t gate_names_version(const struct gate *gate); /* no lock */
/* Calls look with a copy of every sale in memory, in no order; one made meanwhile may be missed, one may come twice. */
void gate_sales_each(struct gate *gate, void (*look)(const struct sale *sale, void *arg), void *arg);
/* An id that was given out and is not in memory: that sale is over, and only the ledger knows it. */
bool gate_sale_is_past(struct gate *gate, uint64_t sale_id);
/* What stands on the board outside the sale; false where memory does not have it. No lock: on the way of every grab. */
bool gate_sale_notice(const struct gate *gate, uint64_t sale_id, struct board_notice *out);
/* Whether anybody waited in vain since then (monotonic) for a row of the ledger that somebody keeps: what was late meanwhile
 * may have been so for that alone. No lock. */
bool gate_was_kept(const struct gate *gate, uint64_t since_ms);
/* VERDICT_DONE with the order once it is durable, or VERDICT_NO_SUCH_ORDER where memory does not have it. */
void gate_order(struct gate_lane *lane, uint64_t order_no, struct gate_ticket *ticket);

uint64_t gate_seq_decided(struct gate *gate);
/* What the ledger must have filed to tell the present state of an order that memory does not have: a refund may have been
 * decided since memory let go of it. 0, nearly always: it has. */
uint64_t gate_seq_past(const struct gate *gate);
struct gate_status {
    uint64_t seq_decided, seq_durable; /* of one moment: the first is never less */
    bool poisoned, room;
    struct engine_usage usage;
    /* Of several machines. */
    bool shared;
    uint32_t nodes;                      /* that there are, as far as is known */
    bool redis_up, ledger_up;            /* as this node sees them */
    bool numbered;                       /* its number is its own: it may make orders */
    const char *redis_refuses;           /* NULL, or why Redis, which is reached, takes no writes, and what to do */
    bool selling;                        /* grabs can be answered with a win */
    uint64_t seq_filed;                  /* decisions of this node, counted, that the ledger has or has refused */
    uint64_t unfiled, unfiled_oldest_ms; /* in the streams of all nodes */
    uint64_t errands;                    /* that gates have still to be told */
    uint64_t rebuilds;                   /* of sales, by this node */
    bool owns[GATE_JOB_COUNT], owns_expiry, owns_warm;
    uint64_t redis_latency_us, redis_in_flight, redis_unknown, redis_reconnects;
};
void gate_status(struct gate *gate, struct gate_status *out);
struct journal *gate_journal(struct gate *gate); /* NULL: there is none, and nothing for a clerk to file */

/* Called from time to time with what the ledger has filed: lets go of sales that are over. On a thread of full priority: one
 * that is niced could be put to sleep with the decision lock in its hand. */
void gate_housekeep(struct gate *gate, uint64_t seq_filed);

#endif
