/* local: the inside of the gate on one machine, shared by local.c (decisions), hold.c (orders after their win),
 * lane.c (answers), ready.c (memory) and start.c (recovery). */
#ifndef STAMPEDE_GATE_LOCAL_LOCAL_H
#define STAMPEDE_GATE_LOCAL_LOCAL_H

#include "base/clock.h"
#include "engine/engine.h"
#include "gate/kind.h"

#include <pthread.h>
#include <stdatomic.h>

struct local {
    struct gate gate;     /* first */
    pthread_mutex_t lock; /* around decide, apply and append: journal order is decision order */
    struct engine *engine;
    struct journal *journal;
    struct clock clock;
    struct gate_options options;
    _Atomic uint64_t sale_id_last;
    _Atomic uint64_t past_seq; /* of the newest refund for an order not in memory; 0: all of them are filed */
    uint8_t hash_key[16];

    struct {
        pthread_mutex_t lock;
        pthread_cond_t work;
        bool begun, runs;
        bool wanted;               /* there may be more to do */
        struct engine_reach reach; /* how far memory is wanted for orders */
        bool told;                 /* that there was too little; its own */
        _Atomic bool stop;
        pthread_t thread;
    } ready;

    /* Of the lane that ends holds. */
    bool expiring;           /* more may be due than have ended */
    uint64_t expired_all_ms; /* when no more were, if so */

    struct local_lane *lanes[REACTORS_MAX];
    _Atomic uint32_t lane_count;
    _Atomic bool poison_told;

    /* The sales in memory, for housekeeping; under the lock. */
    struct {
        uint64_t id;
        uint64_t over_seq; /* the last decision when it was first seen to be over; 0 while it is not */
        uint64_t seller;   /* hash of the name */
    } sales[SALES_OPEN_MAX];
    uint32_t sale_count;
    uint32_t sale_next; /* whose turn it is */
};

struct local_lane {
    struct gate_lane lane; /* first */
    struct local *gate;
    pthread_mutex_t wake_lock; /* so that whoever closes the lane knows that no wake is under way */
    void (*wake)(void *arg);   /* NULL once closed */
    void *arg;
    struct gate_ticket *first, *last;
    _Atomic bool resting; /* wants to be woken when the durable mark moves */
    bool urgent;          /* a ticket of this turn waits for a commit */
};

static inline struct local *local_of(struct gate *gate)
{
    return (struct local *)gate;
}

static inline const struct local *local_of_const(const struct gate *gate)
{
    return (const struct local *)gate;
}

static inline struct local_lane *lane_of(struct gate_lane *lane)
{
    return (struct local_lane *)lane;
}

/* The time that decisions are made at. */
uint64_t local_clock_ms(const struct local *gate);
/* Under the lock: a decision becomes true in memory and is on its way to the disk. */
uint64_t decision_take(struct local *gate, const struct decision *decision);
/* Under the lock: what has to be durable before the order may be told of. */
uint64_t order_seq(const struct local *gate, const struct order *order);

/* Answers now if seq is durable (0 always is), else when it is. */
void lane_answer(struct gate_lane *lane, struct gate_ticket *ticket, uint64_t seq);
/* As sales[].seller has it. */
uint64_t seller_hash(const struct local *gate, struct slice seller);
void ready_init(struct local *gate);
/* Any thread, not under the lock: so many units of a sale are to be had. Where they are enough for a crowd, memory is made
 * ready for it. */
void ready_look(struct local *gate, uint32_t units);
/* When nobody else uses the gate any more. */
void ready_close(struct local *gate);
/* The journal's on_durable. */
void lanes_wake(void *arg, uint64_t seq_durable);

/* The calls of gate.h. */
enum fault local_start(struct gate *gate);
void local_close(struct gate *gate);
enum fault local_lane_open(struct gate_lane **out, struct gate *gate, void (*wake)(void *arg), void *arg);
void local_lane_close(struct gate_lane *lane);
enum fault local_lane_attach(struct gate_lane *lane, struct uv_loop_s *loop);
void local_lane_detach(struct gate_lane *lane);
void local_lane_rise(struct gate_lane *lane);
void local_lane_rest(struct gate_lane *lane);
bool local_await(struct gate_lane *lane, uint64_t seq, struct gate_ticket *ticket);
uint64_t local_now_ms(const struct gate *gate);
void local_grab(struct gate_lane *lane, struct grab *grab, struct gate_ticket *ticket);
void local_grabs(struct gate_lane *lane, struct gate_grab *grabs, uint32_t count);
void local_token(struct gate_lane *lane, struct token_ask *ask, struct gate_ticket *ticket);
void local_create(struct gate_lane *lane, struct asker *seller, const struct sale_terms *terms, uint32_t stock,
                  struct gate_ticket *ticket);
void local_change(struct gate_lane *lane, struct asker *asker, uint64_t sale_id, const struct sale_change *change,
                  struct gate_ticket *ticket);
void local_stock(struct gate_lane *lane, struct asker *asker, uint64_t sale_id, int64_t add, struct gate_ticket *ticket);
void local_switch(struct gate_lane *lane, struct asker *asker, uint64_t sale_id, enum decision_kind kind,
                  struct gate_ticket *ticket);
void local_pay(struct gate_lane *lane, struct payment *payment, struct gate_ticket *ticket);
void local_pay_past(struct gate_lane *lane, struct payment *payment, struct slice ref_taken, struct gate_ticket *ticket);
void local_cancel(struct gate_lane *lane, struct cancel *cancel, struct gate_ticket *ticket);
bool local_expire(struct gate_lane *lane, struct gate_ticket *ticket);
bool local_is_here(const struct gate *gate);
void local_look(struct gate_lane *lane, uint64_t sale_id, struct gate_ticket *ticket);
void local_meet(struct gate_lane *lane, const struct gate_stranger *stranger, struct gate_ticket *ticket);
bool local_is_strange(struct gate *gate, const struct gate_stranger *stranger);
void local_tell_logouts(struct gate *gate, const struct gate_logouts *logouts);
bool local_owns(struct gate *gate, enum gate_job job, struct ledger_fence *fence);
void local_disown(struct gate *gate, enum gate_job job, const struct ledger_fence *fence);
bool local_give_away(struct gate *gate, enum gate_job job);
void local_report(struct gate *gate, struct slice report);
void local_nodes_each(struct gate *gate, void (*look)(const struct gate_node *node, void *arg), void *arg);
bool local_order_possible(struct gate *gate, uint64_t order_no);
const uint8_t *local_uuid(const struct gate *gate);
uint64_t local_seq_durable(const struct gate *gate);
bool local_sale(struct gate *gate, uint64_t sale_id, struct sale *out);
uint64_t local_sale_by_name(struct gate *gate, struct slice seller, struct slice name);
uint64_t local_names_version(const struct gate *gate);
void local_sales_each(struct gate *gate, void (*look)(const struct sale *sale, void *arg), void *arg);
bool local_sale_is_past(struct gate *gate, uint64_t sale_id);
bool local_was_kept(const struct gate *gate, uint64_t since_ms);
bool local_sale_notice(const struct gate *gate, uint64_t sale_id, struct board_notice *out);
void local_order(struct gate_lane *lane, uint64_t order_no, struct gate_ticket *ticket);
uint64_t local_seq_decided(struct gate *gate);
uint64_t local_seq_past(const struct gate *gate);
void local_status(struct gate *gate, struct gate_status *out);
struct journal *local_journal(struct gate *gate);
void local_housekeep(struct gate *gate, uint64_t seq_filed);

#endif
