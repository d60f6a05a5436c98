/* remote: the gate of several machines. Redis decides, by script; the ledger has the last word.
 *
 *   takes      gate_grab, gate_token                 shelf_refuse (the pre-count; recheck.c for those with a key) -> flight
 *              grab.c                                -> script in Redis (-> replicas: replica.c) -> filer, by filing.c
 *                                                    -> answer
 *   releases   gate_pay, gate_cancel, gate_change …  change (change.h) -> ledger, by a crew -> script in Redis -> answer
 *              order.c, sale.c                       search.c: orders that the ledger does not have yet
 *   looks      gate_look, gate_meet, gate_warm       script in Redis, or the ledger -> shelf -> answer
 *              look.c, warm.c
 *   all else   remote.c                              from memory: the shelf
 *
 * What nobody waits for is the keeper's (keeper/). A flight is one request under way, from a pool of its lane (flight.c); an
 * empty pool is an answer, BUSY. What Redis or the ledger did not answer is asked again by the same number until the
 * flight's time is over: nothing is guessed, and nothing is taken twice. */
#ifndef STAMPEDE_GATE_REMOTE_REMOTE_H
#define STAMPEDE_GATE_REMOTE_REMOTE_H

#include "base/crew.h"
#include "gate/remote/filer.h"
#include "gate/remote/kept.h"
#include "gate/keeper/keeper.h"
#include "gate/kind.h"
#include "gate/remote/number.h"
#include "gate/scripts.h"
#include "gate/remote/shelf.h"
#include "redis/redis.h"

#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

#define FLIGHTS_MAX 8192       /* of a lane */
#define FLIGHTS_TOLD_MAX 2048  /* of these, told before they were filed (ack = gate, replica) */
#define FLIGHT_MS 2000         /* then an unknown outcome is told as such */
#define FLIGHT_ASK_AGAIN_MS 20 /* while a sale is being built, or nobody answers */
#define FLIGHT_LATE_MS 100     /* how often those with the filer are looked at */
#define CHANGE_ANSWER_S_MAX 3  /* somebody waits for it; longer a ledger must not be silent */
#define FLIGHT_PATIENCE_MS 500 /* for the share, once all is sold */
#define FLIGHT_ARGV_MAX (GATE_KEYS + 1 + GATE_GRABS_MAX * GATE_GRAB_WORDS)
#define FLIGHT_KEY_BYTES 128
#define FLIGHT_ENTRY_BYTES 48

struct remote {
    struct gate gate; /* first */
    struct gate_shared_options options;
    struct shelf *shelf;
    struct filer *filer;
    struct kept kept;
    struct crew *changes; /* threads with a ledger, for what goes there first */
    struct crew *reads;   /* the same for what is only looked up there */
    struct ledger_place changes_place;
    struct keeper *keeper;
    struct numbers numbers;
    _Atomic int64_t ahead_ms;        /* Redis's clock before our monotonic one: our wall clock may be off by hours */
    _Atomic uint64_t now_ms;         /* told last; never goes back */
    _Atomic uint32_t nodes;          /* that there are, this one too */
    _Atomic uint64_t decided, filed; /* takes of this node, that lists wait for */
};

/* Flights whose entries of a sale's log are to be deleted, by next. */
struct clearing {
    struct flight *first;
    uint32_t count;
};
#define LANE_CLEARINGS 16 /* each at its sale's id modulo this */

/* Grabs of one sale and epoch that are about to be asked in one call, in the order in which they came, by next. */
struct asking {
    struct flight *first, *last;
    uint32_t count;
};
#define LANE_ASKINGS 16 /* sales at a time */

struct remote_lane {
    struct gate_lane lane; /* first */
    struct remote *remote;
    pthread_mutex_t wake_lock;
    void (*wake)(void *arg); /* under the lock; NULL: the loop has ended */
    void *arg;
    struct redis_client *client;
    uv_timer_t again;       /* asks again for those that wait */
    uv_timer_t looks_again; /* the same for looks */
    uv_timer_t filing_late; /* tells those that the ledger keeps waiting */
    uv_timer_t search_next; /* the next step of a search */
    struct filer_mailbox *filed;
    struct filer_job *unfiled, *unfiled_last; /* taken in this turn, for the filer */
    struct clearing clearing[LANE_CLEARINGS];
    struct asking asking[LANE_ASKINGS];
    uint32_t asking_count; /* grabs in all of them */
    struct crew_mailbox *changed;
    struct flight *flights; /* all of them */
    struct flight *free;
    /* Those to be asked again, in the order in which they came. */
    struct flight *waiting, *waiting_last;
    struct change *changes_waiting, *changes_last;
    struct flight *unreplicated; /* won in this turn, to be confirmed by a replica */
    uint64_t short_said_ms;      /* when the log was told last that there are too few replicas */
    uint64_t damage_said_ms;     /* and of a sale that cannot be used */
    struct flight *filing;       /* with the filer */
    struct look *looks;          /* of sales that are looked at, see look.c */
    struct meeting *meeting;
    struct recheck *rechecks; /* of sales that are sold out, see recheck.c */
    struct search *search;    /* for orders that only Redis has, see search.c */
    uint32_t in_flight, told; /* of these, answered already */
    uint32_t jobs;            /* with the crew or the filer: they come back before the lane is closed */
    bool attached;
};

enum flight_kind { FLIGHT_GRAB, FLIGHT_TOKEN };

struct flight {
    struct redis_call call; /* first */
    struct remote_lane *lane;
    struct gate_ticket *ticket; /* NULL: answered */
    struct gate_grab *together; /* of several grabs with one ticket: this one; else NULL */
    enum flight_kind kind;
    void (*ask)(struct flight *flight); /* sends it to Redis, for the first time or again */
    uint64_t until_ms;                  /* monotonic */
    bool shares;                        /* has a part of the node's share: shelf_leave() is owed */
    bool unknown;                       /* a try had no answer: it may have happened */
    bool by_ledger;                     /* no replica has confirmed it, and the ledger has been given time to */

    uint64_t sale_id, epoch, number;
    struct grab grab; /* its slices point below */
    struct token_ask token;
    char buyer[BUYER_BYTES_MAX + 1], made[BUYER_BYTES_MAX + 1], key[IDEMPOTENCY_KEY_BYTES_MAX + 1];

    /* As Redis answered. */
    enum verdict verdict;
    uint64_t at_ms; /* the script's time */
    uint32_t available, grabs_left;
    struct order order;
    char entry[FLIGHT_ENTRY_BYTES]; /* of the stream; empty: none */
    uint64_t connection;

    struct filer_job job;
    char keys[GATE_KEYS][FLIGHT_KEY_BYTES];
    char numbers[4][24];
    char flags[8];
    struct slice argv[FLIGHT_ARGV_MAX];
    struct flight *next, *prev; /* prev: among those with the filer */
};

static inline struct remote *remote_of(struct gate *gate)
{
    return (struct remote *)gate;
}

static inline struct remote_lane *remote_lane_of(struct gate_lane *lane)
{
    return (struct remote_lane *)lane;
}

/* A ledger of the crew's; NULL while there is none. */
struct change_tools {
    const struct ledger_place *place;
    struct ledger *ledger;
};

/* flight.c */
void lane_ask_again(struct remote_lane *lane);                                    /* calls those that wait in a moment */
struct flight *flight_open(struct remote_lane *lane, struct gate_ticket *ticket); /* NULL: none is free */
void flight_close(struct flight *flight);
void flight_wait(struct flight *flight);                       /* asks again in a moment, or gives up if its time is over */
void flight_later(struct flight *flight);                      /* the same, once the keeper has looked at the sale */
void flight_tell(struct flight *flight, enum verdict verdict); /* answers the ticket; the flight goes on */
void flight_share_end(struct flight *flight);                  /* Redis has answered: another may ask */
struct slice flight_number(struct flight *flight, int at, uint64_t value); /* as text, at this place of its numbers */
/* A script: its keys, the epoch, and count more arguments that stand in argv already. */
void flight_call(struct flight *flight, enum gate_script_name script, uint32_t count,
                 void (*done)(struct redis_call *call, const struct redis_reply *reply));
void flight_file(struct flight *flight); /* what was taken is for the filer, once the turn ends; filing.c */
/* A script of a sale, but for done(): its keys come first in argv; the epoch, and count more arguments after it, stand there
 * already. All of it stays until the call is done. */
struct script_words {
    struct redis_call *call;
    char (*keys)[FLIGHT_KEY_BYTES];
    struct slice *argv;
};
void script_call(const struct remote *remote, uint64_t sale_id, enum gate_script_name script, uint32_t count,
                 const struct script_words *words);
/* The keys of a sale. */
void sale_keys(const struct remote *remote, uint64_t sale_id, char keys[GATE_KEYS][FLIGHT_KEY_BYTES]);
/* What every reply begins with. False: it is not what a script of ours answers. */
struct script_answer {
    struct slice word;
    uint64_t at_ms;
    uint32_t available;
};
bool script_answer(const struct redis_reply *reply, struct script_answer *out);
bool script_verdict(struct slice word, enum verdict *out);
bool script_order(struct slice no, struct slice line, uint64_t sale_id, struct order *out, struct slice *ref);
/* Of peek; false: it has none. keeper/peek.c */
bool script_counts(const struct redis_reply *reply, struct shelf_counts *out);
struct slice reply_text(const struct redis_reply *reply, size_t at); /* empty where there is none */
uint64_t reply_number(const struct redis_reply *reply, size_t at);   /* also of a text; 0 where there is none */
/* Redis's clock was at this. */
void remote_saw_time(struct remote *remote, uint64_t at_ms);
/* The next number of this node; 0: it may give none at present, which is BUSY. */
uint64_t remote_number(struct remote *remote, uint64_t sale_id);
/* The counts of a sale were these. True as of shelf_count(). */
bool remote_saw_counts(struct remote *remote, uint64_t sale_id, const struct shelf_counts *counts);
/* Whether the ledger says so, which has the last word: closed, and holds nothing. */
bool sale_is_over(const struct remote *remote, const struct ledger_shelved *row);

/* The calls of gate.h, by file. */
uint64_t remote_now_ms(const struct gate *gate);
void remote_grab(struct gate_lane *lane, struct grab *grab, struct gate_ticket *ticket);
void remote_grabs_ask(struct gate_lane *lane, struct gate_grab *grabs, uint32_t count, struct gate_ticket *ticket);
void remote_token(struct gate_lane *lane, struct token_ask *ask, struct gate_ticket *ticket);
void remote_ask(struct remote_lane *lane); /* asks Redis for all grabs of this turn */
/* recheck.c: calls ask() of the flight once Redis has said how its sale stands now. False: not now, and it will not. */
enum fault rechecks_open(struct remote_lane *lane) MUST_USE;
void rechecks_close(struct remote_lane *lane);
bool recheck_wait(struct flight *flight);
void remote_replicate(struct remote_lane *lane); /* asks for replicas of what was won in this turn; replica.c */
void remote_file(struct remote_lane *lane);      /* gives the filer what was taken, tells what it has filed; filing.c */

void remote_order(struct gate_lane *lane, uint64_t order_no, struct gate_ticket *ticket);
void remote_pay(struct gate_lane *lane, struct payment *payment, struct gate_ticket *ticket);
void remote_pay_past(struct gate_lane *lane, struct payment *payment, struct slice ref_taken, struct gate_ticket *ticket);
void remote_cancel(struct gate_lane *lane, struct cancel *cancel, struct gate_ticket *ticket);

void remote_create(struct gate_lane *lane, struct asker *seller, const struct sale_terms *terms, uint32_t stock,
                   struct gate_ticket *ticket);
void remote_change(struct gate_lane *lane, struct asker *asker, uint64_t sale_id, const struct sale_change *change,
                   struct gate_ticket *ticket);
void remote_stock(struct gate_lane *lane, struct asker *asker, uint64_t sale_id, int64_t add, struct gate_ticket *ticket);
void remote_switch(struct gate_lane *lane, struct asker *asker, uint64_t sale_id, enum decision_kind kind,
                   struct gate_ticket *ticket);

void remote_warm(struct gate_lane *lane, uint64_t sale_id, struct gate_ticket *ticket);
void remote_look(struct gate_lane *lane, uint64_t sale_id, struct gate_ticket *ticket);
void remote_meet(struct gate_lane *lane, const struct gate_stranger *stranger, struct gate_ticket *ticket);
bool remote_is_strange(struct gate *gate, const struct gate_stranger *stranger);
enum fault remote_looks_open(struct remote_lane *lane) MUST_USE;
/* Those who wait are told what is known. */
void remote_looks_end(struct remote_lane *lane);
void remote_looks_close(struct remote_lane *lane);

#endif
