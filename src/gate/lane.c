#include "base/log.h"
#include "gate/local.h"

#include <assert.h>
#include <stdlib.h>

enum fault gate_lane_open(struct gate_lane **out, struct gate *gate, void (*wake)(void *arg), void *arg)
{
    uint32_t count = atomic_load(&gate->lane_count);
    assert(count < REACTORS_MAX);
    struct gate_lane *lane = calloc(1, sizeof *lane);
    if (lane == NULL) return FAULT_MEMORY;
    lane->gate = gate;
    pthread_mutex_init(&lane->wake_lock, NULL);
    lane->wake = wake;
    lane->arg = arg;
    gate->lanes[count] = lane;
    atomic_store(&gate->lane_count, count + 1); /* the committer sees the lane only when it is whole */
    *out = lane;
    return FAULT_NONE;
}

void gate_lane_close(struct gate_lane *lane)
{
    assert(lane->first == NULL);
    /* The committer may be looking at the lane until the journal is closed, so gate_close() frees it. */
    pthread_mutex_lock(&lane->wake_lock);
    lane->wake = NULL;
    pthread_mutex_unlock(&lane->wake_lock);
}

static void lane_wait(struct gate_lane *lane, struct gate_ticket *ticket)
{
    ticket->next = NULL;
    lane->urgent = true;
    if (lane->last != NULL) {
        lane->last->next = ticket;
    } else {
        lane->first = ticket;
    }
    lane->last = ticket;
}

void lane_answer(struct gate_lane *lane, struct gate_ticket *ticket, uint64_t seq)
{
    ticket->seq = seq;
    if (ticket->done == NULL) return;
    if (seq <= journal_seq_durable(lane->gate->journal)) {
        ticket->done(ticket);
    } else {
        lane_wait(lane, ticket);
    }
}

bool gate_await(struct gate_lane *lane, uint64_t seq, struct gate_ticket *ticket)
{
    if (seq <= journal_seq_durable(lane->gate->journal)) return true;
    ticket->verdict = VERDICT_DONE;
    ticket->seq = seq;
    lane_wait(lane, ticket);
    return false;
}

/* done() may put new tickets at the end of the list. A ticket behind one with a higher seq waits for that one too: they
 * differ by one commit at most. */
static void lane_flush(struct gate_lane *lane)
{
    bool poisoned = journal_poisoned(lane->gate->journal);
    uint64_t durable = journal_seq_durable(lane->gate->journal);
    while (lane->first != NULL && (poisoned || lane->first->seq <= durable)) {
        struct gate_ticket *ticket = lane->first;
        lane->first = ticket->next;
        if (lane->first == NULL) lane->last = NULL;
        if (ticket->seq > durable) ticket->verdict = VERDICT_UNKNOWN;
        ticket->done(ticket);
    }
}

void gate_lane_rise(struct gate_lane *lane)
{
    atomic_store_explicit(&lane->resting, false, memory_order_relaxed);
}

/* Either the committer sees resting after it has moved the mark, or we see the moved mark after we have set resting: the two
 * fences leave no third case, so no wake-up is lost. */
void gate_lane_rest(struct gate_lane *lane)
{
    lane_flush(lane);
    for (;;) {
        if (lane->urgent) journal_urge(lane->gate->journal);
        lane->urgent = false;
        if (lane->first == NULL) return;
        atomic_store_explicit(&lane->resting, true, memory_order_relaxed);
        atomic_thread_fence(memory_order_seq_cst);
        if (lane->first->seq > journal_seq_durable(lane->gate->journal) && !journal_poisoned(lane->gate->journal)) return;
        lane_flush(lane);
    }
}

void lanes_wake(void *arg, uint64_t seq_durable)
{
    struct gate *gate = arg;
    (void)seq_durable; /* lanes read the mark themselves, when they get to it */
    atomic_thread_fence(memory_order_seq_cst);
    uint32_t count = atomic_load(&gate->lane_count);
    for (uint32_t i = 0; i < count; i++) {
        struct gate_lane *lane = gate->lanes[i];
        if (!atomic_exchange(&lane->resting, false)) continue;
        pthread_mutex_lock(&lane->wake_lock);
        if (lane->wake != NULL) lane->wake(lane->arg);
        pthread_mutex_unlock(&lane->wake_lock);
    }
    if (journal_poisoned(gate->journal) && !atomic_exchange(&gate->poison_told, true))
        gate->options.on_poison(gate->options.arg);
}
