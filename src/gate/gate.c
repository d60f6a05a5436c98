/* The seam: every call goes to the gate's kind. */
#include "base/clock.h"
#include "gate/kind.h"

enum fault gate_start(struct gate *gate)
{
    return gate->kind->start(gate);
}

void gate_close(struct gate *gate)
{
    gate->kind->close(gate);
}

enum fault gate_lane_open(struct gate_lane **out, struct gate *gate, void (*wake)(void *arg), void *arg)
{
    return gate->kind->lane_open(out, gate, wake, arg);
}

void gate_lane_close(struct gate_lane *lane)
{
    lane->gate->kind->lane_close(lane);
}

enum fault gate_lane_attach(struct gate_lane *lane, struct uv_loop_s *loop)
{
    return lane->gate->kind->lane_attach(lane, loop);
}

void gate_lane_detach(struct gate_lane *lane)
{
    lane->gate->kind->lane_detach(lane);
}

void gate_lane_rise(struct gate_lane *lane)
{
    lane->gate->kind->lane_rise(lane);
}

void gate_lane_rest(struct gate_lane *lane)
{
    lane->gate->kind->lane_rest(lane);
}

bool gate_await(struct gate_lane *lane, uint64_t seq, struct gate_ticket *ticket)
{
    return lane->gate->kind->await(lane, seq, ticket);
}

uint64_t gate_now_ms(const struct gate *gate)
{
    return gate->kind->now_ms(gate);
}

uint64_t gate_shop_ms(const struct gate *gate)
{
    return gate_is_here(gate) ? wall_ms() : gate_now_ms(gate);
}

void gate_grab(struct gate_lane *lane, struct grab *grab, struct gate_ticket *ticket)
{
    lane->gate->kind->grab(lane, grab, ticket);
}

void gate_grabs(struct gate_lane *lane, struct gate_grab *grabs, uint32_t count)
{
    lane->gate->kind->grabs(lane, grabs, count);
}

void gate_grabs_ask(struct gate_lane *lane, struct gate_grab *grabs, uint32_t count, struct gate_ticket *ticket)
{
    lane->gate->kind->grabs_ask(lane, grabs, count, ticket);
}

void gate_token(struct gate_lane *lane, struct token_ask *ask, struct gate_ticket *ticket)
{
    lane->gate->kind->token(lane, ask, ticket);
}

void gate_create(struct gate_lane *lane, struct asker *seller, const struct sale_terms *terms, uint32_t stock,
                 struct gate_ticket *ticket)
{
    lane->gate->kind->create(lane, seller, terms, stock, ticket);
}

void gate_change(struct gate_lane *lane, struct asker *asker, uint64_t sale_id, const struct sale_change *change,
                 struct gate_ticket *ticket)
{
    lane->gate->kind->change(lane, asker, sale_id, change, ticket);
}

void gate_stock(struct gate_lane *lane, struct asker *asker, uint64_t sale_id, int64_t add, struct gate_ticket *ticket)
{
    lane->gate->kind->stock(lane, asker, sale_id, add, ticket);
}

void gate_switch(struct gate_lane *lane, struct asker *asker, uint64_t sale_id, enum decision_kind kind,
                 struct gate_ticket *ticket)
{
    lane->gate->kind->turn(lane, asker, sale_id, kind, ticket);
}

void gate_pay(struct gate_lane *lane, struct payment *payment, struct gate_ticket *ticket)
{
    lane->gate->kind->pay(lane, payment, ticket);
}

void gate_pay_past(struct gate_lane *lane, struct payment *payment, struct slice ref_taken, struct gate_ticket *ticket)
{
    lane->gate->kind->pay_past(lane, payment, ref_taken, ticket);
}

void gate_cancel(struct gate_lane *lane, struct cancel *cancel, struct gate_ticket *ticket)
{
    lane->gate->kind->cancel(lane, cancel, ticket);
}

bool gate_expire(struct gate_lane *lane, struct gate_ticket *ticket)
{
    return lane->gate->kind->expire(lane, ticket);
}

bool gate_is_here(const struct gate *gate)
{
    return gate->kind->is_here(gate);
}

void gate_look(struct gate_lane *lane, uint64_t sale_id, struct gate_ticket *ticket)
{
    lane->gate->kind->look(lane, sale_id, ticket);
}

void gate_meet(struct gate_lane *lane, const struct gate_stranger *stranger, struct gate_ticket *ticket)
{
    lane->gate->kind->meet(lane, stranger, ticket);
}

bool gate_is_strange(struct gate *gate, const struct gate_stranger *stranger)
{
    return gate->kind->is_strange(gate, stranger);
}

void gate_warm(struct gate_lane *lane, uint64_t sale_id, struct gate_ticket *ticket)
{
    lane->gate->kind->warm(lane, sale_id, ticket);
}

void gate_tell_logouts(struct gate *gate, const struct gate_logouts *logouts)
{
    gate->kind->tell_logouts(gate, logouts);
}

bool gate_owns(struct gate *gate, enum gate_job job, struct ledger_fence *fence)
{
    return gate->kind->owns(gate, job, fence);
}

void gate_disown(struct gate *gate, enum gate_job job, const struct ledger_fence *fence)
{
    gate->kind->disown(gate, job, fence);
}

bool gate_give_away(struct gate *gate, enum gate_job job)
{
    return gate->kind->give_away(gate, job);
}

void gate_report(struct gate *gate, struct slice report)
{
    gate->kind->report(gate, report);
}

void gate_nodes_each(struct gate *gate, void (*look)(const struct gate_node *node, void *arg), void *arg)
{
    gate->kind->nodes_each(gate, look, arg);
}

bool gate_order_possible(struct gate *gate, uint64_t order_no)
{
    return gate->kind->order_possible(gate, order_no);
}

const uint8_t *gate_uuid(const struct gate *gate)
{
    return gate->kind->uuid(gate);
}

uint64_t gate_seq_durable(const struct gate *gate)
{
    return gate->kind->seq_durable(gate);
}

bool gate_sale(struct gate *gate, uint64_t sale_id, struct sale *out)
{
    return gate->kind->sale(gate, sale_id, out);
}

uint64_t gate_sale_by_name(struct gate *gate, struct slice seller, struct slice name)
{
    return gate->kind->sale_by_name(gate, seller, name);
}

uint64_t gate_names_version(const struct gate *gate)
{
    return gate->kind->names_version(gate);
}

void gate_sales_each(struct gate *gate, void (*look)(const struct sale *sale, void *arg), void *arg)
{
    gate->kind->sales_each(gate, look, arg);
}

bool gate_sale_is_past(struct gate *gate, uint64_t sale_id)
{
    return gate->kind->sale_is_past(gate, sale_id);
}

bool gate_was_kept(const struct gate *gate, uint64_t since_ms)
{
    return gate->kind->was_kept(gate, since_ms);
}

bool gate_sale_notice(const struct gate *gate, uint64_t sale_id, struct board_notice *out)
{
    return gate->kind->sale_notice(gate, sale_id, out);
}

void gate_order(struct gate_lane *lane, uint64_t order_no, struct gate_ticket *ticket)
{
    lane->gate->kind->order(lane, order_no, ticket);
}

uint64_t gate_seq_decided(struct gate *gate)
{
    return gate->kind->seq_decided(gate);
}

uint64_t gate_seq_past(const struct gate *gate)
{
    return gate->kind->seq_past(gate);
}

void gate_status(struct gate *gate, struct gate_status *out)
{
    gate->kind->status(gate, out);
}

struct journal *gate_journal(struct gate *gate)
{
    return gate->kind->journal(gate);
}

void gate_housekeep(struct gate *gate, uint64_t seq_filed)
{
    gate->kind->housekeep(gate, seq_filed);
}
