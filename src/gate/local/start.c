/* Start-up: what the ledger has filed, then the journal after that point. There is no third format. */
#include "base/log.h"
#include "base/random.h"
#include "gate/local/local.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static enum fault load_sale(void *arg, const struct sale *sale)
{
    struct local *gate = arg;
    return engine_load_sale(gate->engine, sale);
}

static enum fault load_order(void *arg, const struct ledger_order *row)
{
    struct local *gate = arg;
    return engine_load_order(gate->engine, &row->order, slice_of(row->payment_ref));
}

static enum fault load_token(void *arg, const struct ledger_token *token)
{
    struct local *gate = arg;
    return engine_load_token(gate->engine, token->sale_id, slice_of(token->buyer), token->nonce);
}

static enum fault load_name(void *arg, struct slice seller, struct slice name, uint64_t sale_id)
{
    struct local *gate = arg;
    return engine_load_name(gate->engine, seller, name, sale_id);
}

/* Sales open at the time of the last filed decision, not at the present: a decision that is in the journal only may rest on
 * a sale that has closed since. */
static enum fault load_ledger(struct local *gate, struct ledger *ledger, const struct ledger_point *point)
{
    enum fault fault = ledger_each_open_sale(ledger, point->at_ms, load_sale, gate);
    if (fault == FAULT_NONE) fault = ledger_each_open_order(ledger, point->at_ms, load_order, gate);
    if (fault == FAULT_NONE) fault = ledger_each_open_token(ledger, point->at_ms, load_token, gate);
    if (fault == FAULT_NONE) fault = ledger_each_name(ledger, load_name, gate);
    if (fault == FAULT_NONE) fault = engine_load_check(gate->engine);
    if (fault == FAULT_SPACE)
        log_error("gate", "the ledger has more open sales, orders or tokens than fit: raise orders_max");
    if (fault != FAULT_NONE) return fault;
    engine_load_point(gate->engine, point->seq, point->digest, point->sale_id_last, point->at_ms);
    atomic_store(&gate->sale_id_last, point->sale_id_last);
    return FAULT_NONE;
}

struct replay {
    struct local *gate;
    bool ledger_new;  /* it has never belonged to a journal */
    bool ledger_lost; /* and there are decisions, so that another ledger was here */
};

static const char *replay_decision(void *arg, const struct decision *decision)
{
    struct replay *replay = arg;
    struct local *gate = replay->gate;
    if (replay->ledger_new) {
        replay->ledger_lost = true;
        return "the ledger does not know of this journal";
    }
    const char *objection = engine_objection(gate->engine, decision);
    if (objection != NULL) return objection;
    engine_apply(gate->engine, decision);
    if (decision->kind == DECISION_SALE_CREATED) atomic_store(&gate->sale_id_last, decision->sale_id);
    return NULL;
}

static void replay_batch_begin(void *arg, uint32_t version)
{
    const struct replay *replay = arg;
    engine_digest_by(replay->gate->engine, (enum digest_kind)version);
}

static const char *replay_batch_end(void *arg, uint64_t seq, uint64_t digest)
{
    const struct replay *replay = arg;
    struct local *gate = replay->gate;
    if (seq != engine_seq(gate->engine)) return NULL; /* a batch the ledger had filed */
    return digest == engine_digest(gate->engine) ? NULL
                                                 : "the state after this batch is not the state it was written with (P5)";
}

/* reason: empty where the ledger has logged it. */
static enum fault ledger_damaged(struct journal_damage *damage, const char *reason)
{
    *damage = (struct journal_damage){ .of_ledger = true };
    snprintf(damage->reason, sizeof damage->reason, "%s", reason);
    return FAULT_DAMAGE;
}

struct identity_check {
    struct local *gate;
    struct journal_damage *damage;
    uint32_t available_max;
    bool broken;
};

/* P1 of every sale in memory, and the list of them for housekeeping. */
static bool check_stock(void *arg, const struct sale *sale)
{
    struct identity_check *check = arg;
    struct local *gate = check->gate;
    const struct sale_counts *c = &sale->counts;
    bool over = sale_is_closed(sale, engine_time(gate->engine));
    if (!over && c->available > check->available_max) check->available_max = c->available;
    gate->sales[gate->sale_count].seller = seller_hash(gate, slice_of(sale->seller));
    gate->sales[gate->sale_count++].id = sale->id;
    if (sale_counts_add_up(c)) return true;
    check->damage->of_ledger = true;
    snprintf(check->damage->reason, sizeof check->damage->reason,
             "sale %" PRIu64 ": available %u + held %u + sold %u is not offered %u (P1)", sale->id, c->available, c->held,
             c->sold, c->offered);
    check->broken = true;
    return false;
}

/* The journal after the filed point. What the journal does not have would be lost in silence with a ledger that was here
 * before: so a new one goes only with a journal without decisions, and is told which one that is before anything is decided.
 * A crash in between leaves both new. */
static enum fault journal_replay(struct local *gate, struct ledger *ledger, const struct ledger_point *filed,
                                 struct journal_damage *damage)
{
    struct journal_point point = { .seq = filed->seq, .digest = filed->digest };
    memcpy(point.uuid, filed->uuid, sizeof point.uuid);
    char folder[600];
    snprintf(folder, sizeof folder, "%s/journal", gate->options.folder);
    const struct journal_options options = {
        .folder = folder,
        .segment_bytes = gate->options.segment_bytes,
        .space_bytes_min = gate->options.space_bytes_min,
        .lock = &gate->lock,
        .on_durable = lanes_wake,
        .arg = gate,
    };
    struct replay replay = { .gate = gate, .ledger_new = ledger_point_is_new(filed) };
    const struct journal_reader reader = {
        .batch_begin = replay_batch_begin, .decision = replay_decision, .batch_end = replay_batch_end, .arg = &replay
    };
    enum fault fault = journal_open(&gate->journal, &options, &point, &reader, damage);
    engine_digest_by(gate->engine, DIGEST_FOLD); /* of what is decided from now on */
    if (replay.ledger_lost)
        return ledger_damaged(damage, "it has never belonged to a journal, but the journal here has decisions: the users, "
                                      "logouts and webhooks of this shop are in another ledger");
    if (fault != FAULT_NONE || !replay.ledger_new) return fault;
    fault = ledger_point_begin(ledger, journal_uuid(gate->journal));
    return fault == FAULT_DAMAGE ? ledger_damaged(damage, "") : fault;
}

static enum fault local_recover(struct local *gate, struct ledger *ledger, struct journal_damage *damage)
{
    struct ledger_point filed;
    enum fault fault = ledger_point(ledger, &filed);
    if (fault == FAULT_NONE) fault = load_ledger(gate, ledger, &filed);
    if (fault == FAULT_DAMAGE) {
        const char *objection = engine_load_objection(gate->engine);
        if (objection[0] == '\0') objection = ledger_objection(ledger);
        return ledger_damaged(damage, objection);
    }
    if (fault == FAULT_NONE) fault = journal_replay(gate, ledger, &filed, damage);
    if (fault != FAULT_NONE) return fault;

    /* Some of what was replayed may be refunds for orders that memory does not have. */
    if (engine_seq(gate->engine) > filed.seq) atomic_store(&gate->past_seq, engine_seq(gate->engine));
    struct identity_check check = { .gate = gate, .damage = damage };
    engine_each_sale(gate->engine, check_stock, &check);
    if (check.broken) return FAULT_DAMAGE;
    ready_look(gate, check.available_max);
    log_info("gate", "recovered to decision %" PRIu64 ": %" PRIu64 " filed in the ledger, %" PRIu64 " from the journal",
             engine_seq(gate->engine), filed.seq, engine_seq(gate->engine) - filed.seq);
    return FAULT_NONE;
}

static const struct gate_kind local_kind = {
    .start = local_start,
    .close = local_close,
    .lane_open = local_lane_open,
    .lane_close = local_lane_close,
    .lane_attach = local_lane_attach,
    .lane_detach = local_lane_detach,
    .lane_rise = local_lane_rise,
    .lane_rest = local_lane_rest,
    .await = local_await,
    .now_ms = local_now_ms,
    .grab = local_grab,
    .grabs = local_grabs,
    .token = local_token,
    .create = local_create,
    .change = local_change,
    .stock = local_stock,
    .turn = local_switch,
    .pay = local_pay,
    .pay_past = local_pay_past,
    .cancel = local_cancel,
    .expire = local_expire,
    .is_here = local_is_here,
    .look = local_look,
    .meet = local_meet,
    .is_strange = local_is_strange,
    .warm = local_look,
    .tell_logouts = local_tell_logouts,
    .owns = local_owns,
    .disown = local_disown,
    .give_away = local_give_away,
    .report = local_report,
    .nodes_each = local_nodes_each,
    .order_possible = local_order_possible,
    .uuid = local_uuid,
    .seq_durable = local_seq_durable,
    .sale = local_sale,
    .sale_by_name = local_sale_by_name,
    .names_version = local_names_version,
    .sales_each = local_sales_each,
    .sale_is_past = local_sale_is_past,
    .was_kept = local_was_kept,
    .sale_notice = local_sale_notice,
    .order = local_order,
    .seq_decided = local_seq_decided,
    .seq_past = local_seq_past,
    .status = local_status,
    .journal = local_journal,
    .housekeep = local_housekeep,
};

enum fault gate_open(struct gate **out, const struct gate_options *options, struct ledger *ledger,
                     struct journal_damage *damage)
{
    struct local *gate = calloc(1, sizeof *gate);
    if (gate == NULL) return FAULT_MEMORY;
    gate->gate.kind = &local_kind;
    gate->options = *options;
    pthread_mutex_init(&gate->lock, NULL);
    ready_init(gate);

    random_bytes(gate->hash_key, sizeof gate->hash_key);
    enum fault fault = engine_open(&gate->engine, options->orders_max, gate->hash_key);
    if (fault == FAULT_NONE) fault = local_recover(gate, ledger, damage);
    if (fault != FAULT_NONE) {
        local_close(&gate->gate);
        return fault;
    }
    clock_init(&gate->clock, engine_time(gate->engine));
    *out = &gate->gate;
    return FAULT_NONE;
}

enum fault local_start(struct gate *base)
{
    struct local *gate = local_of(base);
    return journal_start(gate->journal);
}

void local_close(struct gate *base)
{
    struct local *gate = local_of(base);
    if (base == NULL) return;
    if (gate->journal != NULL) journal_close(gate->journal);
    ready_close(gate);
    for (uint32_t i = 0; i < atomic_load(&gate->lane_count); i++) {
        pthread_mutex_destroy(&gate->lanes[i]->wake_lock);
        free(gate->lanes[i]);
    }
    if (gate->engine != NULL) engine_close(gate->engine);
    pthread_mutex_destroy(&gate->lock);
    free(gate);
}
