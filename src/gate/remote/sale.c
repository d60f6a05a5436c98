/* What a seller changes. The ledger first, then the gate by errand; only what is withdrawn is taken from the gate first. */
#include "base/clock.h"
#include "engine/rules.h"
#include "gate/remote/change.h"

#include <inttypes.h>
#include <stdio.h>

/* The sale as the ledger has it now, and on the shelf of this node. */
static enum fault sale_shelve(struct change *change, struct ledger *ledger, uint64_t sale_id)
{
    bool found;
    enum fault fault = ledger_shelved(ledger, sale_id, &change->shelved, &found);
    if (fault == FAULT_NONE && found) shelf_put(change->lane->remote->shelf, &change->shelved);
    return fault;
}

static enum fault change_decide(struct change *change, struct ledger *ledger)
{
    change->asker.now_ms = remote_now_ms(&change->lane->remote->gate);
    const struct ledger_change ask = {
        .asker = change->asker,
        .asked_mono_ms = mono_ms(),
        .sale_id = change->sale_id,
        .kind = change->kind,
        .mask = change->mask,
        .terms = &change->terms,
        .add = change->add,
        .sales_per_seller_max = change->lane->remote->options.sales_per_seller_max,
    };
    enum fault fault = ledger_change(ledger, &ask, &change->verdict, &change->shelved.sale, &change->errand);
    if (fault != FAULT_NONE || change->verdict != VERDICT_DONE) return fault;
    /* It is written, and must not be once more, whatever becomes of reading it back. */
    return sale_shelve(change, ledger, change->shelved.sale.id) == FAULT_NONE ? FAULT_NONE : FAULT_UNSURE;
}

static void change_decided(struct change *change)
{
    if (change->fault != FAULT_NONE) {
        change_end(change, change_failed(change));
    } else if (change->verdict != VERDICT_DONE) {
        change_end(change, change->verdict);
    } else {
        change_errand(change);
    }
}

static struct change *change_of(struct gate_lane *base, struct asker *asker, enum decision_kind kind,
                                struct gate_ticket *ticket)
{
    struct change *change = change_open(remote_lane_of(base), ticket);
    asker->now_ms = remote_now_ms(base->gate);
    if (change == NULL) return NULL;
    change->kind = kind;
    change->asker = *asker;
    change->asker.name = change_text(change->name, sizeof change->name, asker->name);
    return change;
}

/* A new sale sells as soon as its seller hears of it. Where Redis is not there, it exists all the same, and is built by
 * whoever asks for it first. */

static void built_ask(struct change *change);

static void built_answered(struct redis_call *call, const struct redis_reply *reply)
{
    struct change *change = (struct change *)call;
    struct script_answer answer;
    bool built = call->result == REDIS_ANSWERED && script_answer(reply, &answer) && slice_is(answer.word, "DONE");
    if (built || mono_ms() + 2 * FLIGHT_ASK_AGAIN_MS >= change->until_ms || !change->lane->attached) {
        change_end(change, VERDICT_DONE);
        return;
    }
    keeper_rebuild(change->lane->remote->keeper, change->sale_id);
    change_wait(change, built_ask);
}

static void built_ask(struct change *change)
{
    if (!shelf_epoch(change->lane->remote->shelf, change->sale_id, &change->epoch)) change->epoch = 0;
    change_call(change, GATE_SCRIPT_PEEK, 0, built_answered);
}

static void create_decided(struct change *change)
{
    if (change->fault != FAULT_NONE || change->verdict != VERDICT_DONE) {
        change_decided(change);
        return;
    }
    change->sale_id = change->shelved.sale.id;
    keeper_rebuild(change->lane->remote->keeper, change->sale_id);
    change_wait(change, built_ask);
}

void remote_create(struct gate_lane *base, struct asker *seller, const struct sale_terms *terms, uint32_t stock,
                   struct gate_ticket *ticket)
{
    struct change *change = change_of(base, seller, DECISION_SALE_CREATED, ticket);
    if (change == NULL) return;
    change->terms = *terms;
    change->add = stock;
    change_file(change, change_decide, create_decided);
}

void remote_change(struct gate_lane *base, struct asker *asker, uint64_t sale_id, const struct sale_change *given,
                   struct gate_ticket *ticket)
{
    struct change *change = change_of(base, asker, DECISION_SALE_CHANGED, ticket);
    if (change == NULL) return;
    change->sale_id = sale_id;
    change->mask = given->mask;
    change->terms = given->terms;
    change_file(change, change_decide, change_decided);
}

void remote_switch(struct gate_lane *base, struct asker *asker, uint64_t sale_id, enum decision_kind kind,
                   struct gate_ticket *ticket)
{
    struct change *change = change_of(base, asker, kind, ticket);
    if (change == NULL) return;
    change->sale_id = sale_id;
    change_file(change, change_decide, change_decided);
}

/* Withdrawing. */

static void withdraw_ask(struct change *change);

static void withdraw_undone(struct redis_call *call, const struct redis_reply *reply)
{
    struct change *change = (struct change *)call;
    (void)reply;
    keeper_mend(change->lane->remote->keeper, change->sale_id);
    change_tell(change, VERDICT_NOT_AVAILABLE);
    change_clear(change);
}

/* The ledger has less than the gate: it is put back, and the gate is built anew. */
static void withdraw_undo(struct change *change)
{
    struct slice *argv = change->argv + GATE_KEYS + 1;
    snprintf(change->numbers[1], sizeof change->numbers[1], "-%" PRIu64, change->number);
    argv[0] = slice_of(change->numbers[1]);
    argv[1] = change_number(change, 2, -change->add);
    argv[2] = SLICE("1");
    change_call(change, GATE_SCRIPT_RESTOCK, 3, withdraw_undone);
}

static enum fault withdraw_file(struct change *change, struct ledger *ledger)
{
    enum fault fault = ledger_takes(ledger, &change->take, 1);
    bool filed = change->take.result == TAKE_FILED || change->take.result == TAKE_FILED_BEFORE;
    if (fault != FAULT_NONE || !filed) return fault;
    return sale_shelve(change, ledger, change->sale_id) == FAULT_NONE ? FAULT_NONE : FAULT_UNSURE; /* it is committed */
}

static void withdraw_filed(struct change *change)
{
    change_taken(change, withdraw_ask, withdraw_undo);
}

static void withdraw_answered(struct redis_call *call, const struct redis_reply *reply)
{
    struct change *change = (struct change *)call;
    struct remote *remote = change->lane->remote;
    struct script_answer answer;
    enum verdict verdict;
    if (!change_answer(change, reply, &answer)) {
        change_wait(change, withdraw_ask);
        return;
    }
    if (change_later(change, answer.word, withdraw_ask)) return;
    if (slice_is(answer.word, "DONE") || slice_is(answer.word, "REPEATED")) {
        change_text(change->entry, sizeof change->entry, reply_text(reply, 4));
        remote_saw_time(remote, answer.at_ms);
        const struct shelf_left left = { change->epoch, answer.at_ms, answer.available, false };
        shelf_left(remote->shelf, change->sale_id, &left);
        change->take = (struct ledger_take){ .epoch = change->epoch };
        change->take.decision = (struct decision){ .seq = change->number,
                                                   .kind = DECISION_STOCK_ADDED,
                                                   .sale_id = change->sale_id,
                                                   .at_ms = answer.at_ms,
                                                   .stock_added = change->add };
        change_file(change, withdraw_file, withdraw_filed);
    } else if (script_verdict(answer.word, &verdict)) {
        change_end(change, verdict);
    } else {
        change_end(change, change->unknown ? VERDICT_UNKNOWN : VERDICT_BUSY); /* FULL */
    }
}

static void withdraw_ask(struct change *change)
{
    struct slice *argv = change->argv + GATE_KEYS + 1;
    if (!shelf_epoch(change->lane->remote->shelf, change->sale_id, &change->epoch)) {
        change_end(change, change->unknown ? VERDICT_UNKNOWN : VERDICT_CLOSED); /* over since */
        return;
    }
    argv[0] = change_number(change, 1, (int64_t)change->number);
    argv[1] = change_number(change, 2, change->add);
    argv[2] = SLICE("0");
    change_call(change, GATE_SCRIPT_RESTOCK, 3, withdraw_answered);
}

void remote_stock(struct gate_lane *base, struct asker *asker, uint64_t sale_id, int64_t add, struct gate_ticket *ticket)
{
    struct change *change = change_of(base, asker, DECISION_STOCK_ADDED, ticket);
    if (change == NULL) return;
    struct remote *remote = change->lane->remote;
    change->sale_id = sale_id;
    change->add = add;
    struct sale sale;
    if (add > 0) {
        change_file(change, change_decide, change_decided);
    } else if (!shelf_sale(remote->shelf, sale_id, &sale) || !asker_may_know(&change->asker, &sale)) {
        change_end(change, VERDICT_NO_SUCH_SALE);
    } else {
        change->number = remote_number(remote, 0);
        change->repeatable = true; /* by that */
        if (change->number == 0) {
            change_end(change, VERDICT_BUSY);
        } else {
            withdraw_ask(change);
        }
    }
}
