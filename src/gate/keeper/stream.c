/* The log of a sale, filed by whoever finds it: what a node has taken and did not live to file, or the ledger was away for.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "gate/keeper/inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct slice field_of(const struct redis_reply *fields, const char *name)
{
    for (size_t i = 0; i + 1 < fields->count; i += 2) {
        if (slice_is(reply_text(fields, i), name)) return reply_text(fields, i + 1);
    }
    return (struct slice){ "", 0 };
}

static bool field_number(const struct redis_reply *fields, const char *name, uint64_t *out)
{
    return text_to_u64(field_of(fields, name), out) && *out <= INT64_MAX;
}

static bool text_keep(char out[BUYER_BYTES_MAX + 1], struct slice text)
{
    if (text.len == 0 || text.len > BUYER_BYTES_MAX) return false;
    memcpy(out, text.data, text.len);
    out[text.len] = '\0';
    return true;
}

static bool won_read(const struct redis_reply *fields, struct log_entry *out)
{
    struct decision *d = &out->take.decision;
    struct slice ref;
    if (!script_order(field_of(fields, "no"), field_of(fields, "order"), d->sale_id, &out->order, &ref)) return false;
    *d = decision_of_win(&out->order);
    return d->seq != 0 && d->won.units > 0;
}

static bool token_read(const struct redis_reply *fields, struct log_entry *out)
{
    struct decision *d = &out->take.decision;
    d->kind = DECISION_TOKEN_GIVEN;
    if (!field_number(fields, "no", &d->seq) || !text_keep(out->text, field_of(fields, "buyer"))) return false;
    d->token_given.buyer = slice_of(out->text);
    return d->seq != 0;
}

static bool retaken_read(const struct redis_reply *fields, struct log_entry *out)
{
    struct decision *d = &out->take.decision;
    uint64_t units;
    d->kind = DECISION_RETAKEN;
    if (!field_number(fields, "no", &d->seq) || !field_number(fields, "units", &units) || units > STOCK_MAX ||
        !text_keep(out->text, field_of(fields, "ref")))
        return false;
    d->ended.order_no = d->seq;
    d->ended.units = (uint32_t)units;
    d->ended.ref = slice_of(out->text);
    return d->seq != 0;
}

/* Only what is withdrawn is logged; its id is a number of its node. */
static bool withdrawal_read(const struct redis_reply *fields, struct log_entry *out)
{
    struct decision *d = &out->take.decision;
    struct slice add = field_of(fields, "add");
    uint64_t units;
    d->kind = DECISION_STOCK_ADDED;
    if (!field_number(fields, "id", &d->seq) || add.len < 2 || add.data[0] != '-') return false;
    if (!text_to_u64((struct slice){ add.data + 1, add.len - 1 }, &units) || units == 0 || units > STOCK_MAX) return false;
    d->stock_added = -(int64_t)units;
    return d->seq != 0;
}

bool log_entry_read(const struct redis_reply *reply, uint64_t sale_id, struct log_entry *out)
{
    static const struct {
        const char *kind;
        bool (*read)(const struct redis_reply *fields, struct log_entry *out);
    } readers[] = {
        { "won", won_read },
        { "token_given", token_read },
        { "retaken", retaken_read },
        { "stock_added", withdrawal_read },
    };
    struct slice id = reply_text(reply, 0);
    memset(out, 0, sizeof *out);
    if (reply->type != REDIS_LIST || reply->count != 2 || id.len == 0 || id.len >= sizeof out->id) return false;
    memcpy(out->id, id.data, id.len);
    const struct redis_reply *fields = &reply->items[1];
    if (fields->type != REDIS_LIST) return true;
    out->take.decision.sale_id = sale_id;
    if (!field_number(fields, "epoch", &out->take.epoch) || !field_number(fields, "at", &out->take.decision.at_ms))
        return true;
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
        if (slice_is(field_of(fields, "kind"), readers[i].kind)) out->takes = readers[i].read(fields, out);
    }
    return true;
}

struct batch {
    struct stream_ask *ask;
    struct log_entry entries[LOG_BATCH];
    uint32_t count;
    bool failed;
    struct ledger_take takes[LOG_BATCH];
    struct slice ids[LOG_BATCH + 2];
    uint32_t ids_count;
};

static void batch_read(void *arg, const struct redis_reply *reply)
{
    struct batch *batch = arg;
    batch->failed = reply->type != REDIS_LIST || reply->count > LOG_BATCH;
    for (size_t i = 0; !batch->failed && i < reply->count; i++)
        batch->failed = !log_entry_read(&reply->items[i], batch->ask->sale_id, &batch->entries[batch->count++]);
}

static bool batch_fetch(struct keeper *keeper, struct batch *batch)
{
    char end[24] = "+", count[8];
    const struct stream_ask *ask = batch->ask;
    sale_keys(keeper->remote, ask->sale_id, keeper->keys);
    if (ask->until_ms != UINT64_MAX) snprintf(end, sizeof end, "%" PRIu64, ask->until_ms);
    snprintf(count, sizeof count, "%d", LOG_BATCH);
    const struct slice argv[] = { SLICE("XRANGE"), slice_of(keeper->keys[GATE_KEYS - 1]),
                                  SLICE("-"),      slice_of(end),
                                  SLICE("COUNT"),  slice_of(count) };
    struct command_ask command = { .argv = argv, .argc = 6, .key = argv[1], .read = batch_read, .arg = batch };
    batch->count = 0;
    batch->ids_count = 2;
    return keeper_command(keeper, &command) && !batch->failed;
}

static bool batch_file(struct keeper *keeper, struct batch *batch)
{
    struct ledger *ledger = keeper_ledger(keeper);
    if (ledger == NULL) return false;
    size_t count = 0;
    for (uint32_t i = 0; i < batch->count; i++) {
        if (batch->entries[i].takes) batch->takes[count++] = batch->entries[i].take;
    }
    if (count == 0) return true;
    enum fault fault = ledger_takes(ledger, batch->takes, count);
    if (fault != FAULT_NONE) {
        keeper_ledger_failed(keeper, fault);
        return false;
    }
    count = 0;
    for (uint32_t i = 0; i < batch->count; i++) {
        if (batch->entries[i].takes) batch->entries[i].take.result = batch->takes[count++].result;
    }
    return true;
}

static void undo_read(void *arg, const struct redis_reply *reply)
{
    struct slice word = reply_text(reply, 0);
    *(bool *)arg = slice_is(word, "DONE");
}

/* The ledger has refused it: taken back in the gate, its entry with it. */
static bool entry_undo(struct keeper *keeper, uint64_t sale_id, const struct log_entry *entry)
{
    const struct decision *d = &entry->take.decision;
    bool win = d->kind == DECISION_WON, undone = false;
    char no[24];
    if (!win && d->kind != DECISION_RETAKEN) return false;
    snprintf(no, sizeof no, "%" PRIu64, d->seq);
    const struct slice argv[] = { win ? SLICE("win") : SLICE("retake"), slice_of(no), win ? d->won.buyer : d->ended.ref,
                                  slice_of(entry->id) };
    struct script_ask ask = { .sale_id = sale_id,
                              .epoch = entry->take.epoch,
                              .script = GATE_SCRIPT_UNDO,
                              .argv = argv,
                              .argc = 4,
                              .read = undo_read,
                              .arg = &undone };
    return keeper_script(keeper, &ask) && undone;
}

static void entry_judge(struct keeper *keeper, struct batch *batch, const struct log_entry *entry)
{
    struct stream_ask *ask = batch->ask;
    bool undone = false;
    if (!entry->takes) {
        log_error("keeper", "sale %" PRIu64 ": the entry %s of its log cannot be read and is dropped", ask->sale_id,
                  entry->id);
        ask->lapsed++;
    } else if (entry->take.result == TAKE_FILED || entry->take.result == TAKE_FILED_BEFORE) {
        ask->filed++;
    } else if (entry->take.result == TAKE_STALE) {
        log_warn("keeper", "sale %" PRIu64 ": %" PRIu64 " was decided in epoch %" PRIu64 ", which is over, and is dropped",
                 ask->sale_id, entry->take.decision.seq, entry->take.epoch);
        ask->lapsed++;
    } else {
        log_warn("keeper", "sale %" PRIu64 ": the ledger refused %" PRIu64 ", which the gate had given: %s", ask->sale_id,
                 entry->take.decision.seq, take_result_text(entry->take.result));
        ask->refused++;
        undone = !ask->shut && entry_undo(keeper, ask->sale_id, entry);
    }
    if (!undone) batch->ids[batch->ids_count++] = slice_of(entry->id);
}

static void deleted(void *arg, const struct redis_reply *reply)
{
    *(bool *)arg = reply->type == REDIS_NUMBER;
}

static bool batch_clear(struct keeper *keeper, struct batch *batch)
{
    bool done = true;
    if (batch->ids_count == 2) return true;
    sale_keys(keeper->remote, batch->ask->sale_id, keeper->keys);
    batch->ids[0] = SLICE("XDEL");
    batch->ids[1] = slice_of(keeper->keys[GATE_KEYS - 1]);
    struct command_ask ask = {
        .argv = batch->ids, .argc = batch->ids_count, .key = batch->ids[1], .read = deleted, .arg = &done
    };
    return keeper_command(keeper, &ask) && done;
}

static void first_note(struct stream_ask *ask, const struct log_entry *entry)
{
    const char *dash = strchr(entry->id, '-');
    if (ask->first_ms != 0 || dash == NULL) return;
    if (!text_to_u64((struct slice){ entry->id, (size_t)(dash - entry->id) }, &ask->first_ms)) ask->first_ms = 0;
}

bool stream_file(struct keeper *keeper, struct stream_ask *ask)
{
    struct batch *batch = malloc(sizeof *batch);
    bool going = batch != NULL, whole = false;
    ask->filed = ask->refused = ask->lapsed = ask->first_ms = 0;
    while (going) {
        memset(batch, 0, sizeof *batch);
        batch->ask = ask;
        going = batch_fetch(keeper, batch);
        if (going && batch->count > 0) first_note(ask, &batch->entries[0]);
        going = going && batch_file(keeper, batch);
        for (uint32_t i = 0; going && i < batch->count; i++) entry_judge(keeper, batch, &batch->entries[i]);
        going = going && batch_clear(keeper, batch);
        whole = going && batch->count < LOG_BATCH;
        going = going && !whole && !keeper_stopping(keeper) && (ask->stop_mono_ms == 0 || mono_ms() < ask->stop_mono_ms);
        keeper_pulse(keeper);
        keeper_others(keeper);
    }
    free(batch);
    if (ask->refused > 0 && !ask->shut) keeper_ask_rebuild(keeper, ask->sale_id, true);
    return whole;
}

/* Whether the ledger has what an entry tells. Of what cannot be looked up it is taken that it has not. */
static enum fault entry_look(struct ledger *ledger, const struct log_entry *entry, bool *filed)
{
    struct ledger_order order;
    struct ledger_token token;
    *filed = false;
    if (!entry->takes) return FAULT_NONE;
    switch (entry->take.decision.kind) {
    case DECISION_WON:
        return ledger_order(ledger, entry->take.decision.seq, &order, filed);
    case DECISION_TOKEN_GIVEN:
        return ledger_token(ledger, entry->take.decision.seq, &token, filed);
    default:
        return FAULT_NONE;
    }
}

enum fault stream_unfiled(struct keeper *keeper, uint64_t sale_id, uint64_t *count)
{
    struct stream_ask ask = { .sale_id = sale_id, .until_ms = UINT64_MAX };
    struct ledger *ledger = keeper_ledger(keeper);
    struct batch *batch = ledger == NULL ? NULL : calloc(1, sizeof *batch);
    if (batch == NULL) return ledger == NULL ? FAULT_LEDGER : FAULT_MEMORY;
    batch->ask = &ask;
    *count = 0;
    enum fault fault = batch_fetch(keeper, batch) ? FAULT_NONE : FAULT_TIMEOUT;
    for (uint32_t i = 0; i < batch->count && fault == FAULT_NONE; i++) {
        bool filed;
        fault = entry_look(ledger, &batch->entries[i], &filed);
        *count += !filed;
    }
    free(batch);
    return fault;
}
