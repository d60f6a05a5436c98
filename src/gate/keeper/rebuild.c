/* A sale is put into Redis as the ledger has it: where Redis has lost it, is another than it was, or disagrees.
 *
 *   lock and fence -> shut -> file what stands in the log -> raise the epoch -> load from one snapshot -> open
 *
 * From the raise on nothing that was decided before is filed any more: what the shut gate had logged has been, and what a
 * lost one had given and nobody had filed has not happened. Interrupted anywhere, it is begun anew by whoever asks next. */
#include "base/clock.h"
#include "base/log.h"
#include "gate/keeper/inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Nobody asks for a withdrawal again after so long: see FLIGHT_MS. */
#define WITHDRAWN_MS 60000

struct load {
    struct keeper *keeper;
    struct lock lock;
    uint64_t sale_id, epoch, t_ms;
    struct ledger_shelved sale; /* as it was loaded */
    uint64_t orders, tokens;    /* sent so far */
    uint32_t items;             /* of the chunk that is being filled */
    struct telling telling;
    struct slice argv[1 + GATE_ITEMS_MAX * TELLING_ORDER_ARGS];
    char text[GATE_ITEMS_MAX * TELLING_ITEM_BYTES];
    bool refused; /* by Redis, not by the ledger */
    char word[32], why[128];
    uint64_t epoch_there;
};

static void load_read(void *arg, const struct redis_reply *reply)
{
    struct load *load = arg;
    struct slice word = reply_text(reply, 0), why = reply_text(reply, 1);
    snprintf(load->word, sizeof load->word, "%.*s", (int)word.len, word.data);
    snprintf(load->why, sizeof load->why, "%.*s", (int)why.len, why.data);
    load->epoch_there = slice_is(word, "STALE") ? reply_number(reply, 2) : 0;
}

static void telling_begin(struct load *load)
{
    telling_init(&load->telling, load->argv, sizeof load->argv / sizeof *load->argv, load->text, sizeof load->text);
    load->items = 0;
}

/* One step of the load. */
static enum fault load_send(struct load *load)
{
    struct script_ask ask = { .sale_id = load->sale_id,
                              .epoch = load->epoch,
                              .script = GATE_SCRIPT_LOAD,
                              .argv = load->telling.argv,
                              .argc = load->telling.argc,
                              .read = load_read,
                              .arg = load };
    snprintf(load->word, sizeof load->word, "no answer");
    load->why[0] = '\0';
    keeper_pulse(load->keeper);
    keeper_others(load->keeper);
    bool sent = lock_keep(&load->lock, load->keeper) && keeper_script(load->keeper, &ask);
    load->refused = !sent || strcmp(load->word, "DONE") != 0;
    return load->refused ? FAULT_TIMEOUT : FAULT_NONE;
}

static enum fault load_sale(void *arg, const struct ledger_shelved *sale)
{
    struct load *load = arg;
    if (sale->epoch != load->epoch) return FAULT_FENCED; /* raised once more, by another */
    load->sale = *sale;
    struct telling_load begin = { .sale = sale, .t_ms = load->t_ms, .log_max = load->keeper->remote->options.log_max };
    telling_begin(load);
    telling_load_begin(&load->telling, &begin);
    enum fault fault = load_send(load);
    telling_begin(load);
    return fault;
}

static enum fault load_flush(struct load *load)
{
    enum fault fault = load->items > 0 ? load_send(load) : FAULT_NONE;
    telling_begin(load);
    return fault;
}

static void item_begin(struct load *load)
{
    if (load->items++ == 0) telling_text(&load->telling, SLICE("chunk"));
}

static enum fault load_order(void *arg, const struct ledger_order *order, uint32_t nth)
{
    struct load *load = arg;
    (void)nth;
    item_begin(load);
    telling_order(&load->telling, order);
    load->orders++;
    return load->items == GATE_ITEMS_MAX ? load_flush(load) : FAULT_NONE;
}

static enum fault load_token(void *arg, const struct ledger_token *token)
{
    struct load *load = arg;
    item_begin(load);
    telling_token(&load->telling, token);
    load->tokens++;
    return load->items == GATE_ITEMS_MAX ? load_flush(load) : FAULT_NONE;
}

/* Stock that the snapshot has, as the script that adds and withdraws it keeps it: asked for once more it is REPEATED. */
static enum fault stock_note(struct load *load, struct slice id, int64_t add)
{
    struct keeper *keeper = load->keeper;
    char field[48], units[24];
    int len = snprintf(field, sizeof field, "%c%.*s", '\0', (int)id.len, id.data);
    snprintf(units, sizeof units, "%" PRId64, add);
    sale_keys(keeper->remote, load->sale_id, keeper->keys);
    const struct slice argv[] = { SLICE("HSET"), slice_of(keeper->keys[3]), { field, (size_t)len }, slice_of(units) };
    struct command_ask ask = { .argv = argv, .argc = 4, .key = argv[1] };
    load->refused = !keeper_command(keeper, &ask);
    return load->refused ? FAULT_TIMEOUT : FAULT_NONE;
}

/* Units that were added after the epoch was raised are in the snapshot, and the errand that tells of them says the new
 * epoch: the gate must know it as told. Other errands find done what they tell. */
static enum fault load_errand(void *arg, const struct ledger_errand *errand)
{
    struct load *load = arg;
    char text[32];
    struct slice id;
    struct telling name;
    if (errand->kind != ERRAND_STOCK || errand->epoch < load->epoch) return FAULT_NONE;
    telling_init(&name, &id, 1, text, sizeof text);
    telling_errand_name(&name, errand->id);
    return stock_note(load, id, errand->units);
}

/* Who withdrew them may not have heard so, and ask the new gate for it. */
static enum fault load_withdrawal(void *arg, uint64_t number, uint32_t units)
{
    char id[24];
    snprintf(id, sizeof id, "%" PRIu64, number);
    return stock_note(arg, slice_of(id), -(int64_t)units);
}

static enum fault load_end(struct load *load)
{
    enum fault fault = load_flush(load);
    if (fault != FAULT_NONE) return fault;
    telling_text(&load->telling, SLICE("end"));
    telling_number(&load->telling, load->orders);
    telling_number(&load->telling, load->tokens);
    return load_send(load);
}

/* Its keys go, all of them. */
static bool sale_unlink(struct keeper *keeper, uint64_t sale_id)
{
    struct slice argv[1 + GATE_KEYS] = { SLICE("UNLINK") };
    sale_keys(keeper->remote, sale_id, keeper->keys);
    for (int i = 0; i < GATE_KEYS; i++) argv[1 + i] = slice_of(keeper->keys[i]);
    struct command_ask ask = { .argv = argv, .argc = 1 + GATE_KEYS, .key = argv[1] };
    if (keeper_command(keeper, &ask)) return true;
    log_warn("keeper", "sale %" PRIu64 " could not be dropped from Redis", sale_id);
    return false;
}

/* Redis has the sale under an epoch that the ledger has never reached: it is of another ledger, or of one that was put back
 * to an earlier day. The ledger has the last word. */
static bool sale_forget(struct load *load, uint64_t epoch_there)
{
    log_error("keeper",
              "sale %" PRIu64 ": Redis has it in epoch %" PRIu64 ", which the ledger has not reached: it is dropped there",
              load->sale_id, epoch_there);
    return lock_keep(&load->lock, load->keeper) && sale_unlink(load->keeper, load->sale_id);
}

static enum fault load_walk(struct load *load, struct ledger *ledger)
{
    uint64_t since_ms = load->t_ms > WITHDRAWN_MS ? load->t_ms - WITHDRAWN_MS : 0;
    const struct ledger_rebuild visit = { .sale = load_sale,
                                          .order = load_order,
                                          .token = load_token,
                                          .errand = load_errand,
                                          .withdrawal = load_withdrawal,
                                          .arg = load,
                                          .withdrawn_after = number_first(since_ms) };
    load->orders = load->tokens = 0;
    load->epoch_there = 0;
    telling_begin(load);
    enum fault fault = ledger_rebuild(ledger, load->sale_id, &visit);
    return fault == FAULT_NONE ? load_end(load) : fault;
}

/* Of a DAMAGED sale: nothing is decided in it any more, and keys with another kind of value are gone. False: not now. */
static bool sale_clear(struct keeper *keeper, uint64_t sale_id, uint64_t epoch)
{
    const struct slice argv[] = { SLICE("shut") };
    struct script_ask ask = { .sale_id = sale_id, .epoch = epoch, .script = GATE_SCRIPT_LOAD, .argv = argv, .argc = 1 };
    return keeper_script(keeper, &ask);
}

/* Ends what was decided under the epoch there is, and files it. False: not now. */
static bool gate_shut(struct load *load, const struct ledger_shelved *row, const struct peek *peek)
{
    struct keeper *keeper = load->keeper;
    struct stream_ask ask = { .sale_id = load->sale_id, .until_ms = UINT64_MAX, .shut = true };
    /* Who has not heard yet that the lineage is another still decides by what stands there. */
    bool decides = (peek->state == PEEK_GOOD || peek->state == PEEK_STALE) && peek->epoch == row->epoch;
    if (decides) {
        load->epoch = row->epoch;
        telling_begin(load);
        telling_text(&load->telling, SLICE("shut"));
        if (load_send(load) != FAULT_NONE) return false;
    }
    if (peek->state == PEEK_DAMAGED) {
        log_error("keeper", "sale %" PRIu64 ": what stands in Redis cannot be used: %s", load->sale_id, peek->why);
        if (!lock_keep(&load->lock, keeper) || !sale_clear(keeper, load->sale_id, row->epoch)) return false;
    }
    /* Where the state cannot be read the log cannot be trusted to belong to it, but its entries say their epoch. */
    if (!stream_file(keeper, &ask)) return false;
    if (ask.filed + ask.refused + ask.lapsed > 0)
        log_info("keeper", "sale %" PRIu64 ": of its log, %" PRIu64 " filed, %" PRIu64 " refused, %" PRIu64 " dropped",
                 load->sale_id, ask.filed, ask.refused, ask.lapsed);
    return true;
}

static bool load_run(struct load *load, struct ledger *ledger)
{
    uint64_t began_ms = mono_ms();
    struct keeper *keeper = load->keeper;
    enum fault fault = ledger_epoch_raise(ledger, &load->lock.fence, load->sale_id, &load->epoch);
    if (fault == FAULT_NONE && load->epoch == 0) return false;
    if (fault == FAULT_NONE) fault = load_walk(load, ledger);
    if (fault == FAULT_TIMEOUT && load->refused && load->epoch_there > load->epoch) {
        struct ledger_shelved row;
        bool found;
        if (ledger_shelved(ledger, load->sale_id, &row, &found) == FAULT_NONE && found && row.epoch == load->epoch &&
            sale_forget(load, load->epoch_there))
            fault = load_walk(load, ledger);
    }
    if (fault == FAULT_NONE) {
        log_info("keeper",
                 "sale %" PRIu64 " stands in Redis under epoch %" PRIu64 ": %" PRIu64 " orders, %" PRIu64
                 " tokens, in %" PRIu64 " ms",
                 load->sale_id, load->epoch, load->orders, load->tokens, mono_ms() - began_ms);
        return true;
    }
    if (fault == FAULT_FENCED) {
        lock_fenced(&load->lock);
    } else if (load->refused) {
        log_warn("keeper", "sale %" PRIu64 " could not be put into Redis: %s %s", load->sale_id, load->word, load->why);
    } else {
        keeper_ledger_failed(keeper, fault);
    }
    return false;
}

/* The crowd must not be the one that finds them missing. */
static void scripts_load(struct keeper *keeper, uint64_t sale_id)
{
    sale_keys(keeper->remote, sale_id, keeper->keys);
    for (int i = 0; i < GATE_SALE_SCRIPT_COUNT; i++) {
        const struct slice argv[] = { SLICE("SCRIPT"), SLICE("LOAD"), slice_of(gate_scripts[i].text) };
        struct command_ask ask = { .argv = argv, .argc = 3, .key = slice_of(keeper->keys[0]) };
        if (!keeper_command(keeper, &ask)) return;
    }
}

/* With the lock in hand: looks once more, for another may have done it meanwhile. */
static bool load_locked(struct load *load, uint64_t epoch_seen, bool anyway)
{
    struct keeper *keeper = load->keeper;
    struct ledger *ledger;
    struct ledger_shelved row;
    struct peek peek;
    char lineage[REDIS_LINEAGE_BYTES_MAX + 1];
    bool found;
    /* A node that builds a sale under a lineage that was and one that knows better would take it from each other. */
    sale_keys(keeper->remote, load->sale_id, keeper->keys);
    if (!keeper_master(keeper, slice_of(keeper->keys[0]), lineage)) return false;
    if (!keeper_row(keeper, load->sale_id, &row, &found) || !found) return false;
    sale_peek(keeper, load->sale_id, row.epoch, &peek);
    if (peek.state == PEEK_NONE) return false;
    /* Never built from this ledger: what is there is none of ours, however it looks. */
    if (row.epoch == 0 && peek.state != PEEK_ABSENT) {
        if (!sale_forget(load, peek.epoch)) return false;
        peek.state = PEEK_ABSENT;
    }
    if (peek.state == PEEK_GOOD && (!anyway || row.epoch != epoch_seen)) {
        load->sale = row;
        return true;
    }
    /* Time does not go back (P12), neither the sale's own nor Redis's clock as it was seen last. */
    uint64_t now_ms = remote_now_ms(&keeper->remote->gate);
    load->t_ms = peek.at_ms > now_ms ? peek.at_ms : now_ms;
    if (!gate_shut(load, &row, &peek) || (ledger = keeper_ledger(keeper)) == NULL) return false;
    keeper->ledger_lent = true; /* it reads one snapshot from the first chunk to the last */
    bool done = load_run(load, ledger);
    keeper->ledger_lent = false;
    keeper_beside_close(keeper);
    return done;
}

/* The row as it is now, on the shelf; false: there is none, or nobody could say. */
static bool sale_fetch(struct keeper *keeper, uint64_t sale_id, struct ledger_shelved *row)
{
    bool found;
    if (!keeper_row(keeper, sale_id, row, &found) || !found) return false;
    keeper_shelve(keeper, row);
    return true;
}

static void rebuilt(struct load *load)
{
    keeper_count_rebuild(load->keeper);
    scripts_load(load->keeper, load->sale_id);
}

static void sale_lock_init(struct lock *lock, const struct keeper *keeper, uint64_t sale_id)
{
    char job[LOCK_JOB_BYTES];
    snprintf(job, sizeof job, "sale:%" PRIu64, sale_id);
    lock_init(lock, keeper, job);
}

bool sale_rebuild(struct keeper *keeper, uint64_t sale_id, bool anyway)
{
    struct ledger_shelved row;
    struct peek peek;
    if (!sale_fetch(keeper, sale_id, &row)) return false;
    if (row.epoch != 0 && !anyway) {
        sale_peek(keeper, sale_id, row.epoch, &peek);
        if (peek.state == PEEK_GOOD) return true;
        if (peek.state == PEEK_NONE) return false;
    }
    struct load *load = calloc(1, sizeof *load);
    if (load == NULL) {
        keeper_note_memory(keeper);
        return false;
    }
    load->keeper = keeper;
    load->sale_id = sale_id;
    sale_lock_init(&load->lock, keeper, sale_id);
    bool done = false;
    if (lock_take(&load->lock, keeper)) {
        keeper->building = &load->lock;
        done = load_locked(load, row.epoch, anyway);
        keeper->building = NULL;
        lock_release(&load->lock, keeper);
        if (done && load->epoch == load->sale.epoch) rebuilt(load);
        if (done) keeper_shelve(keeper, &load->sale);
        if (done) sale_peek(keeper, sale_id, load->sale.epoch, &peek);
    }
    free(load);
    return done;
}

bool sale_drop(struct keeper *keeper, uint64_t sale_id)
{
    struct lock lock;
    struct ledger_shelved row;
    bool found;
    sale_lock_init(&lock, keeper, sale_id);
    if (!lock_take(&lock, keeper)) return false;
    bool done = keeper_row(keeper, sale_id, &row, &found) &&
                (found || (lock_keep(&lock, keeper) && sale_unlink(keeper, sale_id)));
    lock_release(&lock, keeper);
    return done;
}

bool sale_drop_damaged(struct keeper *keeper, uint64_t sale_id)
{
    struct lock lock;
    struct ledger_shelved row;
    struct stream_ask ask = { .sale_id = sale_id, .until_ms = UINT64_MAX, .shut = true };
    bool found;
    sale_lock_init(&lock, keeper, sale_id);
    if (!lock_take(&lock, keeper)) return false;
    bool done = keeper_row(keeper, sale_id, &row, &found) && found && sale_is_over(keeper->remote, &row);
    if (done && row.epoch != 0) done = sale_clear(keeper, sale_id, row.epoch) && stream_file(keeper, &ask);
    done = done && lock_keep(&lock, keeper) && sale_unlink(keeper, sale_id);
    lock_release(&lock, keeper);
    if (done)
        log_warn("keeper",
                 "sale %" PRIu64 " is over, and what stood of it in Redis could not be used: of its log, %" PRIu64
                 " filed, %" PRIu64 " refused, %" PRIu64 " dropped",
                 sale_id, ask.filed, ask.refused, ask.lapsed);
    return done;
}
