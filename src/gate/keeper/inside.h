/* inside: what the files of the keeper share. Inside this folder only; all of it on the keeper's thread.
 *
 * A job asks Redis or the ledger and waits for the answer: nobody waits for the keeper. So that one that does not answer
 * stops the others only for a moment, both have short times, and the ledger is left alone for a while after a fault. */
#ifndef STAMPEDE_GATE_KEEPER_INSIDE_H
#define STAMPEDE_GATE_KEEPER_INSIDE_H

#include "gate/keeper/lease.h"
#include "gate/keeper/lock.h"
#include "gate/remote/remote.h"
#include "gate/keeper/roster.h"
#include "gate/remote/telling.h"

#include <pthread.h>

#define KEEPER_TURN_MS 50
#define KEEPER_REFRESH_MS 100 /* changes of other nodes are seen within this and a turn */
#define KEEPER_ROUND_MS 1000  /* between two looks at every sale */
#define KEEPER_ASKED_MS 3000  /* a sale's counts are kept fresh so long after somebody asked for it */
#define KEEPER_LATE_MS 3000   /* what others should have done by then is done here */
#define KEEPER_ASKS_MAX 512
#define KEEPER_ARGV_MAX (GATE_KEYS + 1 + 1 + GATE_ITEMS_MAX * TELLING_ORDER_ARGS)
#define KEEPER_PIPE 64 /* questions on their way together */

/* What nodes have asked for since the last turn. */
struct keeper_asks {
    uint64_t ids[KEEPER_ASKS_MAX];
    bool anyway[KEEPER_ASKS_MAX]; /* of a rebuild: also where nothing is found wrong */
    uint32_t count;
};

#define KEEPER_MENDED 16
struct mended {
    uint64_t sale_id, at_ms;
    bool again; /* it was asked for since */
};

struct peek_list {
    uint64_t *ids;
    uint64_t *epochs;
    size_t count, room;
};

/* Sales that Redis has and the shelf has not, as far as they have been looked for. */
#define STRANGERS_MASTERS_MAX 64
struct strangers {
    struct peek_list found;
    uint32_t tried, masters;
    uint64_t unknown;         /* to the ledger */
    char key[16], cursor[24]; /* a key of the master that is being looked through, and how far that has come */
    char seen[STRANGERS_MASTERS_MAX + 1][REDIS_LINEAGE_BYTES_MAX + 1];
    bool scanning, looked, met; /* looked: all are found; met: and settled */
};

/* A job that is done elsewhere. */
struct keeper_job {
    uint64_t asked_ms, until_ms; /* monotonic: somebody wanted it; it is ours */
    uint64_t number, fenced;     /* of the lock; that the ledger has refused */
};

struct keeper {
    struct remote *remote;
    pthread_t thread;
    bool threaded, looped;
    uv_loop_t loop;
    uv_async_t wake;
    uv_timer_t turn;
    struct redis_client *client;
    struct ledger_place place;
    struct ledger *ledger; /* NULL: not open at present */
    struct ledger *beside; /* NULL: not needed at present */
    bool ledger_lent;      /* the first is, to a load: nobody else may ask or close it */
    uint64_t ledger_again_ms, ledger_pause_ms;
    bool redis_failed;      /* it was told that a master did not answer, and not yet that all are there again */
    bool redis_silent;      /* what was asked last was sent, and not answered */
    uint64_t errands_after; /* the next run of errands begins behind this one; 0: with the first */
    bool due;               /* the time of the next turn has come */
    _Atomic bool hasty;     /* somebody waits for the next turn */

    pthread_mutex_t lock; /* of these */
    struct keeper_asks rebuilds, fetches;
    bool errands_left, stopping;
    struct keeper_status status;
    struct keeper_job jobs[GATE_JOB_COUNT];

    struct mended mended[KEEPER_MENDED]; /* the last ones */
    struct lease lease;
    struct roster roster;
    struct lock locks[KEEPER_LOCKS];
    uint64_t jobs_try_ms[GATE_JOB_COUNT];            /* not before this, while another has it */
    uint64_t logouts_from, logouts_seen, logouts_ms; /* see logouts_read() */
    pthread_mutex_t logouts_lock;                    /* of these */
    struct gate_logouts logouts;
    bool logouts_new;

    struct strangers strangers;
    uint64_t version;              /* the ledger's changes are on the shelf up to this */
    uint64_t refresh_ms, round_ms; /* when they are next due */
    uint64_t counts_ms;            /* the same, of the counts that are asked for, while something long is done */
    struct lock *building;         /* of the sale that is being built; NULL: of none */

    struct slice argv[KEEPER_ARGV_MAX];
    char keys[GATE_KEYS][FLIGHT_KEY_BYTES];
    char epoch[24];
};

/* A keeper without its thread, whose jobs the caller does: for tools. The shelf is filled. */
enum fault keeper_make(struct keeper **out, struct remote *remote) MUST_USE;

/* A question to Redis that is waited for; read() has the answer, on this thread, before the call returns; NULL: nobody reads
 * it. False: there was none, or only an error. */
struct command_ask {
    const struct slice *argv;
    uint32_t argc;
    struct slice key;
    void (*read)(void *arg, const struct redis_reply *reply);
    void *arg;
};
bool keeper_command(struct keeper *keeper, const struct command_ask *ask);
/* A script of GATE_NODE_SCRIPTS: its key, then its arguments. */
bool keeper_node_script(struct keeper *keeper, enum gate_script_name script, const struct command_ask *ask);
/* The lineage of the master that has this key, as it is now. */
bool keeper_master(struct keeper *keeper, struct slice key, char lineage[REDIS_LINEAGE_BYTES_MAX + 1]);
struct script_ask {
    uint64_t sale_id, epoch; /* 0: whatever it is */
    enum gate_script_name script;
    const struct slice *argv; /* after the epoch */
    uint32_t argc;
    void (*read)(void *arg, const struct redis_reply *reply);
    void *arg;
};
bool keeper_script(struct keeper *keeper, const struct script_ask *ask);
/* Its Redis is known not to answer: nobody waits for it. */
bool sale_is_away(struct keeper *keeper, uint64_t sale_id);
/* The clock of the shop, before anything is judged by it: this machine's may be off by hours. */
enum fault keeper_clock(struct keeper *keeper) MUST_USE;

/* The ledger, opened if it has to be; NULL while it is left alone. */
struct ledger *keeper_ledger(struct keeper *keeper);
/* Whether it is open and, as far as is known, takes what is written. Nobody is asked. */
bool keeper_ledger_takes(const struct keeper *keeper);
/* It did not do what it was asked: it is closed, and left alone for a while. */
void keeper_ledger_failed(struct keeper *keeper, enum fault fault);
/* A sale as the ledger has it now. False: it did not say. */
bool keeper_row(struct keeper *keeper, uint64_t sale_id, struct ledger_shelved *row, bool *found);
/* Between the steps of something long: renews what has to be renewed. */
void keeper_pulse(struct keeper *keeper);
/* The same, of something that takes seconds: keeps the counts of other sales fresh, so that their crowds are turned away,
 * and reads what other nodes have changed, not least whom they have logged out. It may close what keeper_ledger() gave
 * before, unless that is lent. */
void keeper_others(struct keeper *keeper);
/* The connection that it needs while the keeper's own is lent. */
void keeper_beside_close(struct keeper *keeper);
/* What became of questions to Redis. Of a Cluster one master may be away while the others answer: that is told once, and
 * stops no job of the others. Who is away need not be waited for; who is there and silent must not be, again and again. */
struct heard {
    uint32_t asked;
    uint32_t sent; /* of these, to a master that was not known to be away */
    uint32_t answered;
};
static inline bool redis_spoke(enum redis_result result)
{
    return result == REDIS_ANSWERED || result == REDIS_FAILED || result == REDIS_REFUSED;
}
void keeper_heard(struct keeper *keeper, const struct heard *heard);
void keeper_note_memory(struct keeper *keeper); /* something was left out for want of it */
/* Puts a sale on the shelf as the ledger has it. */
void keeper_shelve(struct keeper *keeper, const struct ledger_shelved *sale);
void keeper_count_rebuild(struct keeper *keeper);
bool keeper_stopping(struct keeper *keeper);

/* asks.c: what others have asked for since the last turn. A sale that does not answer keeps no other from being built: what
 * there was no time for is done in the next turn. */
void keeper_ask_rebuild(struct keeper *keeper, uint64_t sale_id, bool anyway);
void rebuilds_do(struct keeper *keeper);
bool fetches_take(struct keeper *keeper); /* whether there were some */
bool errands_take(struct keeper *keeper);

/* jobs.c: whose jobs they are. keep: renews what this node has, while its ledger takes what is written; look: takes what it
 * wants to have, too. */
bool job_keep(struct keeper *keeper, enum keeper_lock which) MUST_USE; /* see lock_keep() */
void locks_init(struct keeper *keeper);
void locks_keep(struct keeper *keeper);
void locks_release(struct keeper *keeper);
void jobs_look(struct keeper *keeper);

/* peek.c: how a sale stands in Redis. */
#define PEEK_WHY_BYTES (FLIGHT_KEY_BYTES + 32)
enum peek_state { PEEK_NONE, PEEK_GOOD, PEEK_ABSENT, PEEK_STALE, PEEK_LOADING, PEEK_DAMAGED };
struct peek_terms {
    int64_t price;
    uint64_t units_per_grab_max, grabs_per_buyer_max, opens_ms, closes_ms, pay_within_s, admission, tokens_max, late_payment;
};
struct peek {
    enum peek_state state;
    char why[PEEK_WHY_BYTES]; /* of DAMAGED; "": nobody said */
    uint64_t epoch;           /* of GOOD, STALE and LOADING */
    uint64_t at_ms;           /* its time */
    uint64_t entries, orders, tokens, holds;
    struct shelf_counts counts;
    struct peek_terms terms;
    bool paused, closed;
};
void peek_read(const struct redis_reply *reply, struct peek *out);
/* NONE where Redis did not answer. epoch 0: whatever it is. */
void sale_peek(struct keeper *keeper, uint64_t sale_id, uint64_t epoch, struct peek *out);
/* Many at a time; seen() is told each that was answered. */
bool peek_list_add(struct peek_list *list, uint64_t sale_id, uint64_t epoch); /* false: no memory */
void peek_list_free(struct peek_list *list);
void sales_peek(struct keeper *keeper, const struct peek_list *list,
                void (*seen)(struct keeper *keeper, uint64_t sale_id, const struct peek *peek, void *arg), void *arg);
/* Keeps the counts of sales that are asked for as Redis has them. */
void asked_peek(struct keeper *keeper);

/* stream.c: a sale's log, that of what has been taken and not been seen to be filed. */
#define LOG_ID_BYTES 48
#define LOG_BATCH LEDGER_TAKES_MAX
struct log_entry {
    char id[LOG_ID_BYTES];
    bool takes;              /* false: nothing that a log of ours would hold */
    struct ledger_take take; /* its slices point below */
    struct order order;
    char text[BUYER_BYTES_MAX + 1];
};
/* False: it is no entry at all. */
bool log_entry_read(const struct redis_reply *reply, uint64_t sale_id, struct log_entry *out);
/* Files what was logged up to this time, oldest first, and deletes it. What the ledger refuses is undone, unless the sale is
 * about to be built anew anyway. False: not all of it. */
struct stream_ask {
    uint64_t sale_id, until_ms; /* UINT64_MAX: all */
    bool shut;                  /* the sale is shut, to be built anew */
    uint64_t stop_mono_ms;      /* the rest has time; 0: it has not */
    uint64_t filed, refused, lapsed;
    uint64_t first_ms; /* of the oldest there was; 0: none */
};
bool stream_file(struct keeper *keeper, struct stream_ask *ask);
/* How many of its oldest LOG_BATCH entries the ledger has not. A Redis that came back with an earlier day's data has many
 * that it has. */
enum fault stream_unfiled(struct keeper *keeper, uint64_t sale_id, uint64_t *count) MUST_USE;

/* rebuild.c: puts a sale into Redis as the ledger has it, if it is not there, or anyway. True: it stands there now. */
bool sale_rebuild(struct keeper *keeper, uint64_t sale_id, bool anyway);

/* A sale that the ledger does not know goes from Redis, under the lock that whoever makes it now needs to build it. True:
 * it is gone, or the ledger knows it by now. False: another has that lock, or nobody could say. */
bool sale_drop(struct keeper *keeper, uint64_t sale_id);
/* One that is over and DAMAGED does so, too, once what can be read of its log is filed. False: not now. */
bool sale_drop_damaged(struct keeper *keeper, uint64_t sale_id);

/* round.c: looks at every sale. */
void round_do(struct keeper *keeper);
/* The keys of a sale go by themselves after a while. */
void sale_keys_end(struct keeper *keeper, uint64_t sale_id);

/* strangers.c: finds more of them, a page at a time. False: Redis did not answer. */
bool strangers_look(struct keeper *keeper, struct strangers *strangers, uint32_t pages);
void strangers_deinit(struct strangers *strangers);
/* Files what stands in the log of a sale that is over, and drops it where it is damaged. *found: whether the ledger knows
 * it. False: not all of it. */
bool stranger_file(struct keeper *keeper, uint64_t sale_id, bool *found);
/* Settles those that are there when the node comes, or Redis comes back, a few at a time. */
void strangers_meet(struct keeper *keeper);

/* compare.c: what only the ledger or only Redis has of a sale, in lines. FAULT_TIMEOUT: Redis did not tell all of it. */
struct facts;
enum fault sale_compare(struct keeper *keeper, const struct ledger_shelved *row, struct facts *out) MUST_USE;

/* errand.c: does those made before this time, or as many of them as there is time for: the next run goes on behind them, so
 * that what cannot be told now keeps nothing else from being told. How many there were. */
#define KEEPER_ERRANDS_ALL (UINT64_MAX >> 1)
uint64_t errands_do(struct keeper *keeper, uint64_t made_before_ms);

#endif
