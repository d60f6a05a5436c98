/* The decision on one machine: engine and journal behind one lock. */
#include "gate/local/local.h"

#include "base/siphash.h"

#include <assert.h>

uint64_t local_clock_ms(const struct local *gate)
{
    return clock_now_ms((struct clock *)&gate->clock);
}

uint64_t local_now_ms(const struct gate *base)
{
    return local_clock_ms(local_of_const(base));
}

/* Of one that has been applied. */
static uint64_t decision_append(struct local *gate, const struct decision *decision)
{
    journal_append(gate->journal, decision, engine_digest(gate->engine));
    return decision->seq;
}

uint64_t decision_take(struct local *gate, const struct decision *decision)
{
    engine_apply(gate->engine, decision);
    return decision_append(gate, decision);
}

/* Under the lock: an order is told of only when the state it is told in is on disk (P3). One that is as it was won rests on
 * its win alone; when another's state changed is not known here, so it waits for all that is decided. */
uint64_t order_seq(const struct local *gate, const struct order *order)
{
    bool as_won = order->state == (order->pay_by_ms == 0 ? ORDER_PAID : ORDER_HELD);
    return as_won ? order->no : engine_seq(gate->engine);
}

/* Under the lock: decides, and a win is taken. What has to be durable before the answer is told; 0: nothing. */
static uint64_t grab_settle(struct local *gate, const struct grab *grab, struct grab_answer *answer, enum verdict *verdict)
{
    struct decision decision;
    *verdict = engine_decide_grab(gate->engine, grab, &decision, answer);
    if (*verdict == VERDICT_WON && !journal_has_room(gate->journal)) *verdict = VERDICT_BUSY;
    if (*verdict == VERDICT_WON) {
        engine_apply_grab(gate->engine, &decision, grab);
        return decision_append(gate, &decision);
    }
    bool named = *verdict == VERDICT_REPEATED || *verdict == VERDICT_ALREADY_WON;
    return named ? order_seq(gate, &answer->order) : 0;
}

void local_grab(struct gate_lane *lane, struct grab *grab, struct gate_ticket *ticket)
{
    struct local *gate = local_of(lane->gate);
    engine_hash_grab(gate->engine, grab);
    grab->now_ms = local_clock_ms(gate);
    ticket->verdict = engine_refuse_early(gate->engine, grab);
    if (ticket->verdict != VERDICT_DONE) {
        ticket->grab.available = 0;
        lane_answer(lane, ticket, 0);
        return;
    }

    pthread_mutex_lock(&gate->lock);
    uint64_t seq = grab_settle(gate, grab, &ticket->grab, &ticket->verdict);
    pthread_mutex_unlock(&gate->lock);
    lane_answer(lane, ticket, seq);
}

/* From the first grab on that only the full decision can answer the lock is held: an early refusal after it is one of that
 * moment too, so the answers are those of one grab after the other. */
void local_grabs(struct gate_lane *lane, struct gate_grab *grabs, uint32_t count)
{
    struct local *gate = local_of(lane->gate);
    uint64_t now_ms = local_clock_ms(gate);
    for (uint32_t i = 0; i < count; i++) engine_hash_grab(gate->engine, &grabs[i].grab);
    for (uint32_t i = 0; i < count; i++) engine_expect_order(gate->engine, &grabs[i].grab);

    bool locked = false;
    for (struct gate_grab *it = grabs; it < grabs + count; it++) {
        it->grab.now_ms = now_ms;
        it->available = 0;
        it->order_no = it->seq = 0;
        it->verdict = engine_refuse_early(gate->engine, &it->grab);
        if (it->verdict != VERDICT_DONE) continue;
        if (!locked) {
            pthread_mutex_lock(&gate->lock);
            locked = true;
            for (struct gate_grab *due = it; due < grabs + count; due++) engine_expect_name(gate->engine, &due->grab);
        }
        struct grab_answer answer;
        it->seq = grab_settle(gate, &it->grab, &answer, &it->verdict);
        it->available = answer.available;
        if (it->seq != 0) it->order_no = answer.order.no;
    }
    if (locked) pthread_mutex_unlock(&gate->lock);
}

void local_token(struct gate_lane *lane, struct token_ask *ask, struct gate_ticket *ticket)
{
    struct local *gate = local_of(lane->gate);
    ask->now_ms = local_clock_ms(gate);
    ticket->verdict = engine_refuse_token_early(gate->engine, ask);
    if (ticket->verdict != VERDICT_DONE) {
        lane_answer(lane, ticket, 0);
        return;
    }

    struct decision decision;
    uint64_t seq = 0;
    pthread_mutex_lock(&gate->lock);
    enum verdict verdict = engine_decide_token(gate->engine, ask, &decision, &ticket->token);
    if (verdict == VERDICT_DONE && !journal_has_room(gate->journal)) verdict = VERDICT_BUSY;
    if (verdict == VERDICT_DONE) {
        seq = decision_take(gate, &decision);
    } else if (verdict == VERDICT_REPEATED) {
        seq = ticket->token.nonce;
    } else if (verdict == VERDICT_ALREADY_WON) {
        seq = order_seq(gate, &ticket->token.order);
    }
    pthread_mutex_unlock(&gate->lock);

    ticket->verdict = verdict;
    lane_answer(lane, ticket, seq);
}

/* The common end of a seller's change: take it if it may be, copy the sale as it is now, answer when durable. The lock is
 * held on entry and released here. */
static void change_finish(struct gate_lane *lane, enum verdict verdict, const struct decision *decision,
                          struct gate_ticket *ticket)
{
    struct local *gate = local_of(lane->gate);
    uint64_t seq = 0;
    if (verdict == VERDICT_DONE && !journal_has_room(gate->journal)) verdict = VERDICT_BUSY;
    if (verdict == VERDICT_DONE) {
        seq = decision_take(gate, decision);
        if (decision->kind == DECISION_SALE_CREATED) {
            assert(gate->sale_count < SALES_OPEN_MAX);
            gate->sales[gate->sale_count].id = decision->sale_id;
            gate->sales[gate->sale_count].seller = seller_hash(gate, decision->created.seller);
            gate->sales[gate->sale_count++].over_seq = 0;
            atomic_store(&gate->sale_id_last, decision->sale_id);
        }
        bool found = engine_sale(gate->engine, decision->sale_id, &ticket->sale);
        assert(found);
    }
    pthread_mutex_unlock(&gate->lock);
    if (verdict == VERDICT_DONE) ready_look(gate, ticket->sale.counts.available);
    ticket->verdict = verdict;
    lane_answer(lane, ticket, seq);
}

uint64_t seller_hash(const struct local *gate, struct slice seller)
{
    return siphash(gate->hash_key, seller.data, seller.len);
}

/* Closed by its seller or by its time, whether housekeeping has seen it or not. */
static bool sale_is_over(const struct local *gate, uint32_t turn, uint64_t now_ms)
{
    struct board_notice notice;
    if (gate->sales[turn].over_seq != 0) return true;
    if (!engine_notice(gate->engine, gate->sales[turn].id, &notice)) return true;
    return notice.closed || (notice.closes_ms != 0 && now_ms >= notice.closes_ms);
}

/* Under the lock. Names are compared by a hash nobody can aim, and the boards of sales, a cache line each, are read only
 * where the names alone are too many: about 10 microseconds among as many sales as there can be, 40 for a seller at the
 * limit. */
static bool seller_has_too_many(const struct local *gate, struct slice seller, uint64_t now_ms)
{
    uint32_t max = gate->options.sales_per_seller_max, count = 0;
    if (max == 0) return false;
    uint64_t hash = seller_hash(gate, seller);
    for (uint32_t i = 0; i < gate->sale_count; i++) count += gate->sales[i].seller == hash;
    for (uint32_t i = 0; i < gate->sale_count && count >= max; i++)
        count -= gate->sales[i].seller == hash && sale_is_over(gate, i, now_ms);
    return count >= max;
}

void local_create(struct gate_lane *lane, struct asker *seller, const struct sale_terms *terms, uint32_t stock,
                  struct gate_ticket *ticket)
{
    struct local *gate = local_of(lane->gate);
    struct decision decision;
    seller->now_ms = local_clock_ms(gate);
    pthread_mutex_lock(&gate->lock);
    enum verdict verdict = engine_decide_create(gate->engine, seller, terms, stock, &decision);
    if (verdict == VERDICT_DONE && seller_has_too_many(gate, seller->name, seller->now_ms)) verdict = VERDICT_TOO_MANY_SALES;
    change_finish(lane, verdict, &decision, ticket);
}

void local_change(struct gate_lane *lane, struct asker *asker, uint64_t sale_id, const struct sale_change *change,
                  struct gate_ticket *ticket)
{
    struct local *gate = local_of(lane->gate);
    struct decision decision;
    asker->now_ms = local_clock_ms(gate);
    enum verdict verdict = VERDICT_NO_SUCH_SALE;
    pthread_mutex_lock(&gate->lock);
    /* The merged terms stand in the ticket's sale until the decision has been encoded. */
    if (engine_sale(gate->engine, sale_id, &ticket->sale)) {
        struct sale_terms *terms = &ticket->sale.terms;
        sale_terms_merge(terms, &change->terms, change->mask);
        verdict = engine_decide_change(gate->engine, asker, sale_id, terms, &decision);
    }
    change_finish(lane, verdict, &decision, ticket);
}

void local_stock(struct gate_lane *lane, struct asker *asker, uint64_t sale_id, int64_t add, struct gate_ticket *ticket)
{
    struct local *gate = local_of(lane->gate);
    struct decision decision;
    asker->now_ms = local_clock_ms(gate);
    pthread_mutex_lock(&gate->lock);
    enum verdict verdict = engine_decide_stock(gate->engine, asker, sale_id, add, &decision);
    change_finish(lane, verdict, &decision, ticket);
}

void local_switch(struct gate_lane *lane, struct asker *asker, uint64_t sale_id, enum decision_kind kind,
                  struct gate_ticket *ticket)
{
    struct local *gate = local_of(lane->gate);
    struct decision decision;
    asker->now_ms = local_clock_ms(gate);
    pthread_mutex_lock(&gate->lock);
    enum verdict verdict = engine_decide_switch(gate->engine, asker, sale_id, kind, &decision);
    change_finish(lane, verdict, &decision, ticket);
}

bool local_sale(struct gate *base, uint64_t sale_id, struct sale *out)
{
    struct local *gate = local_of(base);
    pthread_mutex_lock(&gate->lock);
    bool found = engine_sale(gate->engine, sale_id, out);
    pthread_mutex_unlock(&gate->lock);
    return found;
}

uint64_t local_sale_by_name(struct gate *base, struct slice seller, struct slice name)
{
    struct local *gate = local_of(base);
    pthread_mutex_lock(&gate->lock);
    uint64_t sale_id = engine_sale_by_name(gate->engine, seller, name);
    pthread_mutex_unlock(&gate->lock);
    return sale_id;
}

/* The lock is taken anew for each, so that grabs go on meanwhile. From the last to the first, because housekeeping moves the
 * last to where one has gone: it has been looked at by then. */
void local_sales_each(struct gate *base, void (*look)(const struct sale *sale, void *arg), void *arg)
{
    struct local *gate = local_of(base);
    for (uint32_t i = SALES_OPEN_MAX; i > 0;) {
        struct sale sale;
        pthread_mutex_lock(&gate->lock);
        if (i > gate->sale_count) i = gate->sale_count;
        bool found = i > 0 && engine_sale(gate->engine, gate->sales[--i].id, &sale);
        pthread_mutex_unlock(&gate->lock);
        if (found) look(&sale, arg);
    }
}

uint64_t local_names_version(const struct gate *base)
{
    const struct local *gate = local_of_const(base);
    return engine_names_version(gate->engine);
}

bool local_sale_is_past(struct gate *base, uint64_t sale_id)
{
    struct local *gate = local_of(base);
    if (sale_id == 0 || sale_id > atomic_load(&gate->sale_id_last)) return false;
    struct sale sale;
    return !local_sale(base, sale_id, &sale);
}

bool local_was_kept(const struct gate *base, uint64_t since_ms)
{
    (void)base;
    (void)since_ms;
    return false; /* no decision waits for the ledger */
}

bool local_sale_notice(const struct gate *base, uint64_t sale_id, struct board_notice *out)
{
    const struct local *gate = local_of_const(base);
    return engine_notice(gate->engine, sale_id, out);
}

void local_order(struct gate_lane *lane, uint64_t order_no, struct gate_ticket *ticket)
{
    struct local *gate = local_of(lane->gate);
    pthread_mutex_lock(&gate->lock);
    bool found = engine_order(gate->engine, order_no, &ticket->order);
    uint64_t seq = found ? order_seq(gate, &ticket->order) : 0;
    pthread_mutex_unlock(&gate->lock);
    ticket->verdict = found ? VERDICT_DONE : VERDICT_NO_SUCH_ORDER;
    lane_answer(lane, ticket, seq);
}

uint64_t local_seq_decided(struct gate *base)
{
    struct local *gate = local_of(base);
    pthread_mutex_lock(&gate->lock);
    uint64_t seq = engine_seq(gate->engine);
    pthread_mutex_unlock(&gate->lock);
    return seq;
}

uint64_t local_seq_past(const struct gate *base)
{
    const struct local *gate = local_of_const(base);
    return atomic_load(&gate->past_seq);
}

void local_status(struct gate *base, struct gate_status *out)
{
    struct local *gate = local_of(base);
    *out = (struct gate_status){ .shared = false };
    pthread_mutex_lock(&gate->lock);
    out->seq_decided = engine_seq(gate->engine);
    out->seq_durable = journal_seq_durable(gate->journal); /* of the same moment: never more than was decided */
    out->room = journal_has_room(gate->journal);
    engine_usage(gate->engine, &out->usage);
    pthread_mutex_unlock(&gate->lock);
    out->poisoned = journal_poisoned(gate->journal);
}

bool local_is_here(const struct gate *base)
{
    (void)base;
    return true;
}

void local_look(struct gate_lane *lane, uint64_t sale_id, struct gate_ticket *ticket)
{
    bool found = local_sale(lane->gate, sale_id, &ticket->sale);
    ticket->verdict = found ? VERDICT_DONE : VERDICT_NO_SUCH_SALE;
    lane_answer(lane, ticket, 0);
}

bool local_is_strange(struct gate *base, const struct gate_stranger *stranger)
{
    (void)base, (void)stranger;
    return false;
}

void local_meet(struct gate_lane *lane, const struct gate_stranger *stranger, struct gate_ticket *ticket)
{
    (void)stranger;
    ticket->verdict = VERDICT_DONE;
    lane_answer(lane, ticket, 0);
}

void local_tell_logouts(struct gate *base, const struct gate_logouts *logouts)
{
    (void)base, (void)logouts;
}

/* There is no other. */
bool local_owns(struct gate *base, enum gate_job job, struct ledger_fence *fence)
{
    (void)base, (void)job;
    *fence = (struct ledger_fence){ .job = NULL };
    return true;
}

void local_disown(struct gate *base, enum gate_job job, const struct ledger_fence *fence)
{
    (void)base, (void)job, (void)fence;
}

bool local_give_away(struct gate *base, enum gate_job job)
{
    (void)base, (void)job;
    return false;
}

void local_report(struct gate *base, struct slice report)
{
    (void)base, (void)report;
}

void local_nodes_each(struct gate *base, void (*look)(const struct gate_node *node, void *arg), void *arg)
{
    (void)base, (void)look, (void)arg;
}

bool local_order_possible(struct gate *base, uint64_t order_no)
{
    return order_no != 0 && order_no <= local_seq_decided(base);
}

const uint8_t *local_uuid(const struct gate *base)
{
    return journal_uuid(local_of_const(base)->journal);
}

uint64_t local_seq_durable(const struct gate *base)
{
    return journal_seq_durable(local_of_const(base)->journal);
}

struct journal *local_journal(struct gate *base)
{
    struct local *gate = local_of(base);
    return gate->journal;
}

/* A sale goes only when the ledger can answer for it: when all is filed that was decided before it was seen to be over. One
 * that is half gone is not found any more, and goes on. */
static bool sale_may_go(struct local *gate, uint32_t turn, uint64_t seq_filed, uint64_t now_ms)
{
    struct sale sale;
    if (gate->sales[turn].over_seq == 0) {
        bool over = !engine_sale(gate->engine, gate->sales[turn].id, &sale) ||
                    (sale_is_closed(&sale, now_ms) && sale.counts.held == 0);
        if (over) gate->sales[turn].over_seq = engine_seq(gate->engine);
    }
    /* A late payment may have changed one of its orders since. */
    bool filed = engine_sale_seq(gate->engine, gate->sales[turn].id) <= seq_filed;
    return gate->sales[turn].over_seq != 0 && gate->sales[turn].over_seq <= seq_filed && filed;
}

/* Looks at a few sales a call and lets go of a few orders under each lock: nobody waits for it. */
void local_housekeep(struct gate *base, uint64_t seq_filed)
{
    struct local *gate = local_of(base);
    enum { SALES_A_CALL = 64, ORDERS_A_LOCK = 32, LOCKS_A_CALL = 512 };
    uint64_t now_ms = local_clock_ms(gate);
    uint64_t past_seq = atomic_load(&gate->past_seq);
    /* Not where another refund has come meanwhile. */
    if (past_seq <= seq_filed) atomic_compare_exchange_strong(&gate->past_seq, &past_seq, 0);
    pthread_mutex_lock(&gate->lock);
    engine_filed(gate->engine, seq_filed);
    pthread_mutex_unlock(&gate->lock);
    for (uint32_t looked = 0, locks = 0; looked < SALES_A_CALL && locks < LOCKS_A_CALL; locks++) {
        pthread_mutex_lock(&gate->lock);
        if (gate->sale_next >= gate->sale_count) gate->sale_next = 0;
        uint32_t turn = gate->sale_next;
        if (turn >= gate->sale_count || !sale_may_go(gate, turn, seq_filed, now_ms)) {
            gate->sale_next++;
            looked++;
        } else if (engine_forget(gate->engine, gate->sales[turn].id, ORDERS_A_LOCK, now_ms)) {
            gate->sales[turn] = gate->sales[--gate->sale_count];
        }
        pthread_mutex_unlock(&gate->lock);
    }
}
