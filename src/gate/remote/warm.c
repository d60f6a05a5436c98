/* Warming a sale up: it stands in Redis before the crowd comes, as the ledger has it. */
#include "gate/remote/change.h"

static void warm_ask(struct change *change);

static void warm_answered(struct redis_call *call, const struct redis_reply *reply)
{
    struct change *change = (struct change *)call;
    struct remote *remote = change->lane->remote;
    struct shelf_counts counts;
    if (call->result != REDIS_ANSWERED) {
        change_wait(change, warm_ask);
    } else if (script_counts(reply, &counts)) {
        remote_saw_counts(remote, change->sale_id, &counts);
        bool there = shelf_sale(remote->shelf, change->sale_id, &change->shelved.sale);
        change_end(change, there ? VERDICT_DONE : VERDICT_NO_SUCH_SALE);
    } else if (!change_later(change, reply_text(reply, 0), warm_ask)) {
        change_end(change, VERDICT_BUSY);
    }
}

static void warm_ask(struct change *change)
{
    struct remote *remote = change->lane->remote;
    if (!shelf_epoch(remote->shelf, change->sale_id, &change->epoch)) {
        change_end(change, VERDICT_NO_SUCH_SALE);
        return;
    }
    change_call(change, GATE_SCRIPT_PEEK, 0, warm_answered);
}

void remote_warm(struct gate_lane *lane, uint64_t sale_id, struct gate_ticket *ticket)
{
    struct change *change = change_open(remote_lane_of(lane), ticket);
    if (change == NULL) return;
    change->sale_id = sale_id;
    warm_ask(change);
}
