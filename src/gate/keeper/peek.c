/* How sales stand in Redis: one, many at a time, and those that are asked for. */
#include "base/clock.h"
#include "base/memory.h"
#include "gate/keeper/inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void peek_read(const struct redis_reply *reply, struct peek *out)
{
#define PEEK_NUMBER(name) NUMBER_##name,
    enum { GATE_SALE_NUMBERS(PEEK_NUMBER) };
#undef PEEK_NUMBER
    enum { EPOCH = 3, ENTRIES, ORDERS, TOKENS, HOLDS, NUMBERS };
    struct slice word = reply_text(reply, 0), price = reply_text(reply, NUMBERS + NUMBER_price);
    *out = (struct peek){ .state = PEEK_DAMAGED };
    if (slice_is(word, "NOT_LOADED")) out->state = PEEK_ABSENT;
    if (slice_is(word, "DAMAGED")) {
        struct slice why = reply_text(reply, 1);
        snprintf(out->why, sizeof out->why, "%.*s", (int)why.len, why.data);
    }
    if (slice_is(word, "STALE") || slice_is(word, "LOADING")) {
        out->state = slice_is(word, "STALE") ? PEEK_STALE : PEEK_LOADING;
        out->epoch = reply_number(reply, 2);
        out->at_ms = reply_number(reply, 3);
    }
    if (!slice_is(word, "DONE") || reply->count <= NUMBERS + NUMBER_version) return;
    out->state = PEEK_GOOD;
    out->at_ms = reply_number(reply, 1);
    out->epoch = reply_number(reply, EPOCH);
    out->entries = reply_number(reply, ENTRIES);
    out->orders = reply_number(reply, ORDERS);
    out->tokens = reply_number(reply, TOKENS);
    out->holds = reply_number(reply, HOLDS);
    out->terms = (struct peek_terms){
        .price = slice_is(price, "-1") ? -1 : (int64_t)reply_number(reply, NUMBERS + NUMBER_price),
        .units_per_grab_max = reply_number(reply, NUMBERS + NUMBER_units_max),
        .grabs_per_buyer_max = reply_number(reply, NUMBERS + NUMBER_grabs_max),
        .opens_ms = reply_number(reply, NUMBERS + NUMBER_opens),
        .closes_ms = reply_number(reply, NUMBERS + NUMBER_closes),
        .pay_within_s = reply_number(reply, NUMBERS + NUMBER_pay_within),
        .admission = reply_number(reply, NUMBERS + NUMBER_admission),
        .tokens_max = reply_number(reply, NUMBERS + NUMBER_tokens_max),
        .late_payment = reply_number(reply, NUMBERS + NUMBER_late_payment),
    };
    out->paused = reply_number(reply, NUMBERS + NUMBER_paused) != 0;
    out->closed = reply_number(reply, NUMBERS + NUMBER_closed) != 0;
    out->counts = (struct shelf_counts){
        .epoch = out->epoch,
        .at_ms = out->at_ms,
        .version = reply_number(reply, NUMBERS + NUMBER_version),
        .counts = { .offered = (uint32_t)reply_number(reply, NUMBERS + NUMBER_offered),
                    .available = (uint32_t)reply_number(reply, NUMBERS + NUMBER_available),
                    .held = (uint32_t)reply_number(reply, NUMBERS + NUMBER_held),
                    .sold = (uint32_t)reply_number(reply, NUMBERS + NUMBER_sold) },
        .orders_made = reply_number(reply, NUMBERS + NUMBER_orders_made),
        .tokens_given = reply_number(reply, NUMBERS + NUMBER_tokens_given),
    };
}

bool script_counts(const struct redis_reply *reply, struct shelf_counts *out)
{
    struct peek peek;
    peek_read(reply, &peek);
    *out = peek.counts;
    return peek.state == PEEK_GOOD;
}

static void read_one(void *arg, const struct redis_reply *reply)
{
    peek_read(reply, arg);
}

void sale_peek(struct keeper *keeper, uint64_t sale_id, uint64_t epoch, struct peek *out)
{
    struct script_ask ask = { .sale_id = sale_id, .epoch = epoch, .script = GATE_SCRIPT_PEEK, .read = read_one, .arg = out };
    uint64_t asked_ms = mono_ms();
    out->state = PEEK_NONE;
    if (keeper_script(keeper, &ask) && out->state == PEEK_GOOD) {
        out->counts.asked_mono_ms = asked_ms;
        remote_saw_counts(keeper->remote, sale_id, &out->counts);
    }
}

bool peek_list_add(struct peek_list *list, uint64_t sale_id, uint64_t epoch)
{
    if (list->count == list->room) {
        size_t room = list->room == 0 ? KEEPER_PIPE : 2 * list->room;
        uint64_t *ids = realloc(list->ids, room * sizeof *ids);
        if (ids != NULL) list->ids = ids;
        uint64_t *epochs = realloc(list->epochs, room * sizeof *epochs);
        if (epochs != NULL) list->epochs = epochs;
        if (ids == NULL || epochs == NULL) return false;
        list->room = room;
    }
    list->ids[list->count] = sale_id;
    list->epochs[list->count++] = epoch;
    return true;
}

void peek_list_free(struct peek_list *list)
{
    free(list->ids);
    free(list->epochs);
    *list = (struct peek_list){ .count = 0 };
}

/* One of many on their way. */
struct peeking {
    struct redis_call call; /* first */
    uint32_t *under_way;
    struct heard *heard;
    struct peek peek;
    char keys[GATE_KEYS][FLIGHT_KEY_BYTES];
    char epoch[24];
    struct slice argv[GATE_KEYS + 1];
};

static void peeking_answered(struct redis_call *call, const struct redis_reply *reply)
{
    struct peeking *peeking = (struct peeking *)call;
    peeking->peek.state = PEEK_NONE;
    if (call->result == REDIS_ANSWERED) peek_read(reply, &peeking->peek);
    peeking->heard->answered += redis_spoke(call->result);
    --*peeking->under_way;
}

static void peeking_begin(struct keeper *keeper, struct peeking *peeking, uint64_t sale_id, uint64_t epoch)
{
    const struct script_words words = { &peeking->call, peeking->keys, peeking->argv };
    snprintf(peeking->epoch, sizeof peeking->epoch, "%" PRIu64, epoch);
    peeking->argv[GATE_KEYS] = slice_of(peeking->epoch);
    script_call(keeper->remote, sale_id, GATE_SCRIPT_PEEK, 0, &words);
    peeking->call.done = peeking_answered;
    peeking->heard->asked++;
    peeking->heard->sent += redis_client_reaches(keeper->client, peeking->call.key);
    ++*peeking->under_way;
    redis_call(keeper->client, &peeking->call);
}

void sales_peek(struct keeper *keeper, const struct peek_list *list,
                void (*seen)(struct keeper *keeper, uint64_t sale_id, const struct peek *peek, void *arg), void *arg)
{
    struct peeking *many = list->count > 0 ? calloc(KEEPER_PIPE, sizeof *many) : NULL;
    if (many == NULL) return;
    bool silent = false; /* where none of those that were asked together answered, the others would not either */
    for (size_t from = 0; from < list->count && !silent && !keeper_stopping(keeper); from += KEEPER_PIPE) {
        size_t count = list->count - from < KEEPER_PIPE ? list->count - from : KEEPER_PIPE;
        uint32_t under_way = 0;
        struct heard heard = { .asked = 0 };
        uint64_t asked_ms = mono_ms();
        for (size_t i = 0; i < count; i++) {
            many[i].under_way = &under_way;
            many[i].heard = &heard;
            peeking_begin(keeper, &many[i], list->ids[from + i], list->epochs[from + i]);
        }
        while (under_way > 0) uv_run(&keeper->loop, UV_RUN_ONCE);
        keeper_heard(keeper, &heard);
        silent = keeper->redis_silent;
        for (size_t i = 0; i < count; i++) {
            struct peek *peek = &many[i].peek;
            if (peek->state == PEEK_NONE) continue;
            if (peek->state == PEEK_GOOD) {
                peek->counts.asked_mono_ms = asked_ms;
                remote_saw_counts(keeper->remote, list->ids[from + i], &peek->counts);
            }
            seen(keeper, list->ids[from + i], peek, arg);
        }
    }
    free(many);
}

/* Names of winners, page by page. */
struct names {
    struct slice *buyers; /* only their lengths until all have come: the text moves as it grows */
    size_t count, room;
    char *text;
    size_t used, size;
    char cursor[24];
    bool failed, end;
};

static bool name_add(struct names *names, struct slice buyer)
{
    if (buyer.len > BUYER_BYTES_MAX) return true; /* none of ours */
    if (names->count == names->room) {
        size_t room = names->room == 0 ? 1024 : 2 * names->room;
        struct slice *buyers = realloc(names->buyers, room * sizeof *buyers);
        if (buyers == NULL) return false;
        names->buyers = buyers;
        names->room = room;
    }
    if (names->size - names->used < buyer.len) {
        size_t size = 2 * names->size + 65536;
        char *text = realloc(names->text, size);
        if (text == NULL) return false;
        names->text = text;
        names->size = size;
    }
    memcpy(names->text + names->used, buyer.data, buyer.len);
    names->buyers[names->count++] = (struct slice){ NULL, buyer.len };
    names->used += buyer.len;
    return true;
}

static void names_read(void *arg, const struct redis_reply *reply)
{
    struct names *names = arg;
    struct slice cursor = reply_text(reply, 0);
    names->failed = reply->type != REDIS_LIST || reply->count != 2 || reply->items[1].type != REDIS_LIST ||
                    cursor.len >= sizeof names->cursor;
    if (names->failed) return;
    for (size_t i = 0; i + 1 < reply->items[1].count && !names->failed; i += 2)
        names->failed = !name_add(names, reply_text(&reply->items[1], i));
    memcpy(names->cursor, cursor.data, cursor.len);
    names->cursor[cursor.len] = '\0';
    names->end = slice_is(cursor, "0");
}

/* All who had won when the sale had made so many orders, and maybe some who won after. A sale that is built anew meanwhile
 * shows only a part of them; its epoch is another then. */
static void winners_fetch(struct keeper *keeper, uint64_t sale_id, uint64_t epoch)
{
    struct peek before, after;
    sale_peek(keeper, sale_id, epoch, &before);
    char keys[GATE_KEYS][FLIGHT_KEY_BYTES];
    struct names names = { .cursor = "0" };
    sale_keys(keeper->remote, sale_id, keys);
    while (before.state == PEEK_GOOD && !names.end && !names.failed && !keeper_stopping(keeper)) {
        const struct slice argv[] = { SLICE("HSCAN"), slice_of(keys[1]), slice_of(names.cursor), SLICE("COUNT"),
                                      SLICE("1000") };
        struct command_ask ask = { .argv = argv, .argc = 5, .key = argv[1], .read = names_read, .arg = &names };
        if (!keeper_command(keeper, &ask)) names.failed = true;
        keeper_pulse(keeper);
    }
    const char *next = names.text;
    for (size_t i = 0; i < names.count; i++) {
        names.buyers[i].data = next;
        next += names.buyers[i].len;
    }
    sale_peek(keeper, sale_id, epoch, &after);
    if (names.end && !names.failed && names.count > 0 && after.state == PEEK_GOOD &&
        !shelf_winners(keeper->remote->shelf, sale_id, &before.counts, names.buyers, names.count))
        keeper_note_memory(keeper);
    free(names.buyers);
    free(names.text);
}

/* What is wrong with a sale that is asked for is mended before the next one asks. */
static void asked_seen(struct keeper *keeper, uint64_t sale_id, const struct peek *peek, void *arg)
{
    struct peek_list *wanted = arg;
    if (peek->state != PEEK_GOOD) {
        keeper_ask_rebuild(keeper, sale_id, false);
        return;
    }
    for (size_t i = 0; i < wanted->count; i++) {
        if (wanted->ids[i] == sale_id && peek->counts.counts.available == 0) wanted->epochs[i] = peek->epoch;
    }
}

struct asked {
    struct keeper *keeper;
    struct peek_list list, wanted; /* wanted: those that are sold out; epoch 0: it is not */
};

static void asked_look(uint64_t sale_id, bool winners, void *arg)
{
    struct asked *asked = arg;
    uint64_t epoch;
    if (!shelf_epoch(asked->keeper->remote->shelf, sale_id, &epoch) || epoch == 0) return;
    bool added = peek_list_add(&asked->list, sale_id, epoch) && (!winners || peek_list_add(&asked->wanted, sale_id, 0));
    if (!added) keeper_note_memory(asked->keeper);
}

void asked_peek(struct keeper *keeper)
{
    struct asked asked = { .keeper = keeper };
    uint64_t now_ms = mono_ms();
    shelf_each_asked(keeper->remote->shelf, now_ms > KEEPER_ASKED_MS ? now_ms - KEEPER_ASKED_MS : 0, asked_look, &asked);
    sales_peek(keeper, &asked.list, asked_seen, &asked.wanted);
    for (size_t i = 0; i < asked.wanted.count && !keeper->redis_silent; i++) {
        if (asked.wanted.epochs[i] != 0) winners_fetch(keeper, asked.wanted.ids[i], asked.wanted.epochs[i]);
    }
    peek_list_free(&asked.list);
    peek_list_free(&asked.wanted);
}
