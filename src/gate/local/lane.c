#include "base/log.h"
#include "gate/local/local.h"

#include <assert.h>
#include <stdlib.h>

enum fault local_lane_open(struct gate_lane **out, struct gate *base, void (*wake)(void *arg), void *arg)
{
    struct local *gate = local_of(base);
    uint32_t count = atomic_load(&gate->lane_count);
    assert(count < REACTORS_MAX);
    struct local_lane *lane = calloc(1, sizeof *lane);
    if (lane == NULL) return FAULT_MEMORY;
    lane->lane.gate = base;
    lane->gate = gate;
    pthread_mutex_init(&lane->wake_lock, NULL);
    lane->wake = wake;
    lane->arg = arg;
    gate->lanes[count] = lane;
    atomic_store(&gate->lane_count, count + 1); /* the committer sees the lane only when it is whole */
    *out = &lane->lane;
    return FAULT_NONE;
}

void local_lane_close(struct gate_lane *base)
{
    struct local_lane *lane = lane_of(base);
    assert(lane->first == NULL);
    /* The committer may be looking at the lane until the journal is closed, so gate_close() frees it. */
    pthread_mutex_lock(&lane->wake_lock);
    lane->wake = NULL;
    pthread_mutex_unlock(&lane->wake_lock);
}

/* Its answers come by wake alone. */
enum fault local_lane_attach(struct gate_lane *base, struct uv_loop_s *loop)
{
    (void)base, (void)loop;
    return FAULT_NONE;
}

void local_lane_detach(struct gate_lane *base)
{
    (void)base;
}

static void lane_wait(struct local_lane *lane, struct gate_ticket *ticket)
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

void lane_answer(struct gate_lane *base, struct gate_ticket *ticket, uint64_t seq)
{
    struct local_lane *lane = lane_of(base);
    ticket->seq = seq;
    if (ticket->done == NULL) return;
    if (seq <= journal_seq_durable(lane->gate->journal)) {
        ticket->done(ticket);
    } else {
        lane_wait(lane, ticket);
    }
}

bool local_await(struct gate_lane *base, uint64_t seq, struct gate_ticket *ticket)
{
    struct local_lane *lane = lane_of(base);
    if (seq <= journal_seq_durable(lane->gate->journal)) return true;
    ticket->verdict = VERDICT_DONE;
    ticket->seq = seq;
    lane_wait(lane, ticket);
    return false;
}

/* done() may put new tickets at the end of the list. A ticket behind one with a higher seq waits for that one too: they
 * differ by one commit at most. */
static void lane_flush(struct local_lane *lane)
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

void local_lane_rise(struct gate_lane *base)
{
    struct local_lane *lane = lane_of(base);
    atomic_store_explicit(&lane->resting, false, memory_order_relaxed);
}

/* Either the committer sees resting after it has moved the mark, or we see the moved mark after we have set resting: the two
 * fences leave no third case, so no wake-up is lost. */
void local_lane_rest(struct gate_lane *base)
{
    struct local_lane *lane = lane_of(base);
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
    struct local *gate = arg;
    (void)seq_durable; /* lanes read the mark themselves, when they get to it */
    atomic_thread_fence(memory_order_seq_cst);
    uint32_t count = atomic_load(&gate->lane_count);
    for (uint32_t i = 0; i < count; i++) {
        struct local_lane *lane = gate->lanes[i];
        if (!atomic_exchange(&lane->resting, false)) continue;
        pthread_mutex_lock(&lane->wake_lock);
        if (lane->wake != NULL) lane->wake(lane->arg);
        pthread_mutex_unlock(&lane->wake_lock);
    }
    if (journal_poisoned(gate->journal) && !atomic_exchange(&gate->poison_told, true))
        gate->options.on_poison(gate->options.arg);
}
