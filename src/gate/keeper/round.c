/* The round: every sale that is open, or is soon, is looked at. What stands in its log for too long is filed, holds that are
 * due are ended by the node that has that job, what opens soon is warmed up by the node that has that one, what is not as it
 * should be is built anew, and what is over goes. */
#include "base/clock.h"
#include "base/log.h"
#include "gate/keeper/inside.h"

#include <inttypes.h>

/* What is over may still be asked for by nodes that have not seen it go. */
#define GONE_MS "3600000"
/* For the logs of one round. */
#define LOGS_MS 500

struct round {
    struct keeper *keeper;
    struct peek_list looked, soon, logs, holding, cold, over; /* over: in place of the epoch, whether Redis has it */
    uint64_t now_ms, until_ms;                                /* sales that open by then are warmed up */
    uint64_t entries, oldest_ms;
    bool more; /* of the logs than there was time for */
    bool memory;
};

static void list_add(struct round *round, struct peek_list *list, uint64_t sale_id, uint64_t epoch)
{
    if (!peek_list_add(list, sale_id, epoch)) round->memory = false;
}

static void shelved(const struct sale *sale, uint64_t epoch, void *arg)
{
    struct round *round = arg;
    bool soon = sale->terms.opens_ms > round->now_ms && !sale_is_closed(sale, round->now_ms);
    if (sale->terms.opens_ms <= round->until_ms) list_add(round, soon ? &round->soon : &round->looked, sale->id, epoch);
}

static bool peek_is_over(const struct peek *peek)
{
    bool closed = peek->closed || (peek->terms.closes_ms != 0 && peek->at_ms >= peek->terms.closes_ms);
    return closed && peek->holds == 0 && peek->counts.counts.held == 0 && peek->entries == 0;
}

static void seen(struct keeper *keeper, uint64_t sale_id, const struct peek *peek, void *arg)
{
    struct round *round = arg;
    round->entries += peek->entries;
    if (peek->state == PEEK_GOOD) {
        if (peek->entries > 0) list_add(round, &round->logs, sale_id, peek->epoch);
        if (peek->holds > 0) list_add(round, &round->holding, sale_id, peek->epoch);
        if (peek_is_over(peek)) list_add(round, &round->over, sale_id, 1);
    } else if (peek->state == PEEK_ABSENT) {
        list_add(round, &round->over, sale_id, 0);
    } else {
        keeper_ask_rebuild(keeper, sale_id, false);
    }
}

static void soon_seen(struct keeper *keeper, uint64_t sale_id, const struct peek *peek, void *arg)
{
    struct round *round = arg;
    if (peek->state == PEEK_GOOD) {
        seen(keeper, sale_id, peek, round);
    } else {
        list_add(round, &round->cold, sale_id, 0);
    }
}

/* A long log is filed in pieces: rebuilds and what other nodes have changed wait for the keeper, too. */
static void logs_file(struct round *round)
{
    struct keeper *keeper = round->keeper;
    uint64_t now_ms = remote_now_ms(&keeper->remote->gate), stop_ms = mono_ms() + LOGS_MS;
    for (size_t i = 0; i < round->logs.count && !keeper_stopping(keeper); i++) {
        struct stream_ask ask = { .sale_id = round->logs.ids[i],
                                  .until_ms = now_ms - KEEPER_LATE_MS,
                                  .stop_mono_ms = stop_ms };
        bool whole = stream_file(keeper, &ask);
        round->more = round->more || (!whole && ask.filed > 0 && mono_ms() >= stop_ms);
        if (ask.filed + ask.refused + ask.lapsed > 0)
            log_info("keeper",
                     "sale %" PRIu64 ": found in its log, %" PRIu64 " filed, %" PRIu64 " refused, %" PRIu64 " dropped",
                     ask.sale_id, ask.filed, ask.refused, ask.lapsed);
        round->entries -= round->entries < ask.filed ? round->entries : ask.filed;
        if (!whole && ask.first_ms != 0 && now_ms > ask.first_ms && now_ms - ask.first_ms > round->oldest_ms)
            round->oldest_ms = now_ms - ask.first_ms;
        if (!whole && keeper->redis_silent) return; /* it has answered for all of them just now */
    }
}

/* Its state first. */
void sale_keys_end(struct keeper *keeper, uint64_t sale_id)
{
    char keys[GATE_KEYS][FLIGHT_KEY_BYTES];
    sale_keys(keeper->remote, sale_id, keys);
    for (int i = 0; i < GATE_KEYS; i++) {
        const struct slice argv[] = { SLICE("PEXPIRE"), slice_of(keys[i]), SLICE(GONE_MS) };
        struct command_ask ask = { .argv = argv, .argc = 3, .key = argv[1] };
        if (!keeper_command(keeper, &ask)) return;
    }
}

/* One that is not there and not over is built. */
static void over_judge(struct round *round, uint64_t sale_id, bool there)
{
    struct keeper *keeper = round->keeper;
    struct ledger_shelved row;
    bool found, over;
    if (!keeper_row(keeper, sale_id, &row, &found)) return;
    over = !found || sale_is_over(keeper->remote, &row);
    if (over && there) {
        sale_keys_end(keeper, sale_id);
        /* Its seller may have given it more time just now, and its gate have heard of that before its keys were ended. */
        if (!keeper_row(keeper, sale_id, &row, &found)) return;
        over = !found || sale_is_over(keeper->remote, &row);
    }
    if (over) {
        shelf_drop(keeper->remote->shelf, sale_id);
    } else {
        keeper_ask_rebuild(keeper, sale_id, there);
    }
}

struct due {
    uint64_t count, at_ms;
};

static void due_read(void *arg, const struct redis_reply *reply)
{
    struct due *due = arg;
    due->at_ms = reply_number(reply, 1);
    due->count = slice_is(reply_text(reply, 0), "DONE") ? reply_number(reply, 3) : 0;
}

/* Ends what is due of a sale, in the ledger first: the gate is told by errands. False: the job is not ours any more, or
 * cannot be done now. */
static bool holds_end(struct keeper *keeper, uint64_t sale_id, uint64_t epoch)
{
    struct due due = { .count = 0 };
    struct lock *lock = &keeper->locks[KEEPER_LOCK_EXPIRY];
    struct script_ask ask = { .sale_id = sale_id, .epoch = epoch, .script = GATE_SCRIPT_DUE, .read = due_read, .arg = &due };
    for (uint32_t expired = 1; expired > 0;) {
        if (!keeper_script(keeper, &ask)) return !keeper->redis_silent; /* what it refuses of one it may do for another */
        if (due.count == 0) return true;
        struct ledger *ledger = keeper_ledger(keeper);
        struct ledger_expiry expiry = { .sale_id = sale_id, .now_ms = due.at_ms, .max = LEDGER_TAKES_MAX };
        if (ledger == NULL || !job_keep(keeper, KEEPER_LOCK_EXPIRY)) return false;
        enum fault fault = ledger_expire(ledger, &lock->fence, &expiry, &expired);
        if (fault == FAULT_FENCED) lock_fenced(lock);
        if (fault != FAULT_NONE && fault != FAULT_FENCED) keeper_ledger_failed(keeper, fault);
        if (fault != FAULT_NONE) return false;
        if (expired > 0) {
            log_debug("keeper", "sale %" PRIu64 ": %u holds have ended", sale_id, expired);
            errands_do(keeper, KEEPER_ERRANDS_ALL);
        }
        keeper_pulse(keeper);
        keeper_others(keeper);
        if (keeper_stopping(keeper)) return false;
    }
    return true;
}

static void expiry_do(struct round *round)
{
    struct keeper *keeper = round->keeper;
    if (!job_keep(keeper, KEEPER_LOCK_EXPIRY) && !lock_take(&keeper->locks[KEEPER_LOCK_EXPIRY], keeper)) return;
    for (size_t i = 0; i < round->holding.count; i++) {
        if (!holds_end(keeper, round->holding.ids[i], round->holding.epochs[i])) return;
    }
}

/* Sales that open soon are put into Redis by one node; those that are open, or are asked for, by whoever needs them. */
static void warm_do(struct round *round)
{
    struct keeper *keeper = round->keeper;
    if (!job_keep(keeper, KEEPER_LOCK_WARM) && !lock_take(&keeper->locks[KEEPER_LOCK_WARM], keeper)) return;
    for (size_t i = 0; i < round->cold.count && !keeper->redis_silent && !keeper_stopping(keeper); i++) {
        if (!job_keep(keeper, KEEPER_LOCK_WARM)) return;
        sale_rebuild(keeper, round->cold.ids[i], false);
    }
}

static void round_status(const struct round *round, uint64_t errands)
{
    struct keeper *keeper = round->keeper;
    pthread_mutex_lock(&keeper->lock);
    keeper->status.entries = round->entries;
    keeper->status.oldest_ms = round->oldest_ms;
    keeper->status.errands = errands;
    pthread_mutex_unlock(&keeper->lock);
}

void round_do(struct keeper *keeper)
{
    struct round round = { .keeper = keeper, .memory = true };
    round.now_ms = remote_now_ms(&keeper->remote->gate);
    round.until_ms = round.now_ms + UINT64_C(1000) * keeper->remote->options.warm_before_s;
    uint64_t errands = errands_do(keeper, round.now_ms - KEEPER_LATE_MS);
    shelf_each(keeper->remote->shelf, shelved, &round);
    sales_peek(keeper, &round.looked, seen, &round);
    sales_peek(keeper, &round.soon, soon_seen, &round);
    logs_file(&round);
    expiry_do(&round);
    warm_do(&round);
    for (size_t i = 0; i < round.over.count && !keeper->redis_silent && !keeper_stopping(keeper); i++)
        over_judge(&round, round.over.ids[i], round.over.epochs[i] != 0);
    strangers_meet(keeper);
    if (!round.memory) keeper_note_memory(keeper);
    round_status(&round, errands);
    /* Many sales are looked at less often, or Redis would do little else. */
    uint64_t looked = round.looked.count + round.soon.count;
    keeper->round_ms = round.more ? mono_ms() : mono_ms() + KEEPER_ROUND_MS + looked;
    peek_list_free(&round.looked);
    peek_list_free(&round.soon);
    peek_list_free(&round.logs);
    peek_list_free(&round.holding);
    peek_list_free(&round.cold);
    peek_list_free(&round.over);
}
