/* local: the inside of the gate on one machine, shared by local.c (decisions), hold.c (orders after their win), lane.c
 * (answers) and start.c (recovery). */
#ifndef STAMPEDE_GATE_LOCAL_H
#define STAMPEDE_GATE_LOCAL_H

#include "base/clock.h"
#include "gate/gate.h"

#include <pthread.h>
#include <stdatomic.h>

struct gate {
    pthread_mutex_t lock; /* around decide, apply and append: journal order is decision order */
    struct engine *engine;
    struct journal *journal;
    struct clock clock;
    struct gate_options options;
    _Atomic uint64_t sale_id_last;
    _Atomic uint64_t past_seq; /* of the newest refund for an order not in memory; 0: all of them are filed */
    uint8_t hash_key[16];

    /* Of the lane that ends holds. */
    bool expiring;           /* more may be due than have ended */
    uint64_t expired_all_ms; /* when no more were, if so */

    struct gate_lane *lanes[REACTORS_MAX];
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

struct gate_lane {
    struct gate *gate;
    pthread_mutex_t wake_lock; /* so that whoever closes the lane knows that no wake is under way */
    void (*wake)(void *arg);   /* NULL once closed */
    void *arg;
    struct gate_ticket *first, *last;
    _Atomic bool resting; /* wants to be woken when the durable mark moves */
    bool urgent;          /* a ticket of this turn waits for a commit */
};

/* Under the lock: a decision becomes true in memory and is on its way to the disk. */
uint64_t decision_take(struct gate *gate, const struct decision *decision);
/* Under the lock: what has to be durable before the order may be told of. */
uint64_t order_seq(const struct gate *gate, const struct order *order);

/* Answers now if seq is durable (0 always is), else when it is. */
void lane_answer(struct gate_lane *lane, struct gate_ticket *ticket, uint64_t seq);
/* As sales[].seller has it. */
uint64_t seller_hash(const struct gate *gate, struct slice seller);
/* The journal's on_durable. */
void lanes_wake(void *arg, uint64_t seq_durable);

#endif
