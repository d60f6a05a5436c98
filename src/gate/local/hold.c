/* Orders after their win: payments, cancels and expiries. */
#include "gate/local/local.h"

/* The common end of what is asked about an order: take the decision if there is one, answer when what is told is durable.
 * The lock is held on entry and released here. */
static void order_finish(struct gate_lane *lane, enum verdict verdict, const struct decision *decision,
                         struct gate_ticket *ticket)
{
    struct local *gate = local_of(lane->gate);
    uint64_t seq = 0;
    if (verdict == VERDICT_DONE && !journal_has_room(gate->journal)) {
        verdict = VERDICT_BUSY;
    } else if (verdict == VERDICT_DONE) {
        seq = decision_take(gate, decision);
    } else if (verdict != VERDICT_BAD_INPUT && verdict != VERDICT_NO_SUCH_ORDER && verdict != VERDICT_BUSY) {
        seq = order_seq(gate, &ticket->order);
    }
    pthread_mutex_unlock(&gate->lock);
    ticket->verdict = verdict;
    lane_answer(lane, ticket, seq);
}

void local_pay(struct gate_lane *lane, struct payment *payment, struct gate_ticket *ticket)
{
    struct local *gate = local_of(lane->gate);
    struct decision decision;
    payment->now_ms = local_clock_ms(gate);
    pthread_mutex_lock(&gate->lock);
    enum verdict verdict = engine_decide_payment(gate->engine, payment, &decision, &ticket->order);
    order_finish(lane, verdict, &decision, ticket);
}

void local_pay_past(struct gate_lane *lane, struct payment *payment, struct slice ref_taken, struct gate_ticket *ticket)
{
    struct local *gate = local_of(lane->gate);
    struct decision decision;
    payment->now_ms = local_clock_ms(gate);
    pthread_mutex_lock(&gate->lock);
    enum verdict verdict = engine_decide_past_payment(gate->engine, payment, ref_taken, &decision, &ticket->order);
    if (verdict == VERDICT_DONE && journal_has_room(gate->journal)) atomic_store(&gate->past_seq, decision.seq);
    order_finish(lane, verdict, &decision, ticket);
}

void local_cancel(struct gate_lane *lane, struct cancel *cancel, struct gate_ticket *ticket)
{
    struct local *gate = local_of(lane->gate);
    struct decision decision;
    cancel->now_ms = local_clock_ms(gate);
    pthread_mutex_lock(&gate->lock);
    enum verdict verdict = engine_decide_cancel(gate->engine, cancel, &decision, &ticket->order);
    order_finish(lane, verdict, &decision, ticket);
}

/* Looks at a few hints under one lock, whether their holds have ended or end now, so that a grab that comes meanwhile waits
 * for no more than those. False: no more are due, or the journal is to be left to others for now. */
static bool expire_some(struct local *gate, uint64_t now_ms, uint32_t hints_left, uint64_t *seq)
{
    struct decision decision;
    bool more = true;
    pthread_mutex_lock(&gate->lock);
    while (more && hints_left > 0) {
        more = journal_has_room_to_spare(gate->journal);
        if (!more) break;
        if (engine_decide_expiry(gate->engine, now_ms, &hints_left, &decision)) {
            *seq = decision_take(gate, &decision);
        } else {
            more = hints_left == 0;
        }
    }
    pthread_mutex_unlock(&gate->lock);
    return more;
}

/* A grab that shares a commit with a crowd of expiries waits for the crowd. One for each microsecond that a commit takes
 * makes it longer by a fraction, on any disk, and lets a million end in a second; holds that fall behind all the same, such
 * as after a stop, come before grabs step by step. The most is far less than what sheds load. */
static uint32_t hints_a_commit(const struct local *gate, uint64_t now_ms)
{
    enum { HINTS_MIN = 512, HINTS_MAX = 16384, BEHIND_STEP_MS = 8 };
    uint64_t commit_us = journal_commit_us(gate->journal);
    uint64_t hints = commit_us < HINTS_MIN ? HINTS_MIN : commit_us;
    hints *= 1 + (now_ms - gate->expired_all_ms) / BEHIND_STEP_MS;
    return hints > HINTS_MAX ? HINTS_MAX : (uint32_t)hints;
}

bool local_expire(struct gate_lane *lane, struct gate_ticket *ticket)
{
    enum { HINTS_A_LOCK = 32 };
    struct local *gate = local_of(lane->gate);
    uint64_t now_ms = local_clock_ms(gate), seq = 0;
    if (!gate->expiring) gate->expired_all_ms = now_ms;
    bool more = true;
    for (uint32_t left = hints_a_commit(gate, now_ms); more && left >= HINTS_A_LOCK; left -= HINTS_A_LOCK)
        more = expire_some(gate, now_ms, HINTS_A_LOCK, &seq);
    gate->expiring = more;
    if (!more && seq == 0) return false;
    ticket->verdict = VERDICT_DONE;
    lane_answer(lane, ticket, seq);
    return true;
}
