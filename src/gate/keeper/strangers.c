/* Sales that Redis has and the shelf has not: over, or unknown to the ledger. A node that starts has never met those that
 * ended while no node was up, and their logs may hold what was taken and not filed. */
#include "base/log.h"
#include "base/text.h"
#include "gate/keeper/inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MASTER_KEYS 4096 /* looked through for one that leads to each master */
#define PAGES_AT_ONCE 20 /* in a round; and so many of the sales on them: the keeper has other things to do */
#define SETTLED_AT_ONCE 100
#define PAGE "1000"
#define TOLD_MAX 10

struct page {
    const struct keeper *keeper;
    struct strangers *strangers;
    bool good;
};

static void key_look(struct page *page, struct slice key)
{
    char begin[FLIGHT_KEY_BYTES];
    const struct slice end = SLICE("}:state");
    const struct remote *remote = page->keeper->remote;
    size_t len = (size_t)snprintf(begin, sizeof begin, "%s{sale:", remote->options.prefix);
    uint64_t id, epoch;
    if (key.len <= len + end.len || memcmp(key.data, begin, len) != 0 ||
        memcmp(key.data + key.len - end.len, end.data, end.len) != 0)
        return;
    if (!text_to_u64((struct slice){ key.data + len, key.len - len - end.len }, &id)) return;
    if (!shelf_epoch(remote->shelf, id, &epoch)) page->good = peek_list_add(&page->strangers->found, id, 0);
}

static void page_read(void *arg, const struct redis_reply *reply)
{
    struct page *page = arg;
    struct slice cursor = reply_text(reply, 0);
    page->good = reply->type == REDIS_LIST && reply->count == 2 && cursor.len > 0 &&
                 cursor.len < sizeof page->strangers->cursor;
    for (size_t i = 0; page->good && i < reply->items[1].count; i++) key_look(page, reply_text(&reply->items[1], i));
    if (!page->good) return;
    memcpy(page->strangers->cursor, cursor.data, cursor.len);
    page->strangers->cursor[cursor.len] = '\0';
}

static bool page_scan(struct keeper *keeper, struct strangers *strangers)
{
    struct page page = { keeper, strangers, false };
    const struct slice argv[] = { SLICE("SCAN"),  slice_of(strangers->cursor),
                                  SLICE("MATCH"), SLICE("*{sale:*}:state"),
                                  SLICE("COUNT"), SLICE(PAGE) };
    struct command_ask ask = { .argv = argv, .argc = 6, .key = slice_of(strangers->key), .read = page_read, .arg = &page };
    if (!keeper_command(keeper, &ask) || !page.good) return false;
    strangers->scanning = strcmp(strangers->cursor, "0") != 0;
    return true;
}

/* A key that leads to a master that has not been looked through is found by trying. */
static bool master_next(struct keeper *keeper, struct strangers *strangers)
{
    struct redis_status status;
    char *seen = strangers->seen[strangers->masters];
    if (strangers->tried == 0 && !keeper_master(keeper, SLICE("k0"), seen)) return false; /* from here on all are known */
    redis_status(keeper->remote->options.redis, &status);
    while (strangers->tried < MASTER_KEYS && strangers->masters < status.masters &&
           strangers->masters < STRANGERS_MASTERS_MAX) {
        bool known = false;
        snprintf(strangers->key, sizeof strangers->key, "k%" PRIu32, strangers->tried);
        seen = strangers->seen[strangers->masters];
        if (!keeper_master(keeper, slice_of(strangers->key), seen)) return false;
        strangers->tried++;
        for (uint32_t i = 0; i < strangers->masters; i++) known = known || strcmp(strangers->seen[i], seen) == 0;
        if (known) continue;
        strangers->masters++;
        strangers->scanning = true;
        snprintf(strangers->cursor, sizeof strangers->cursor, "0");
        return true;
    }
    strangers->looked = true;
    return true;
}

bool strangers_look(struct keeper *keeper, struct strangers *strangers, uint32_t pages)
{
    for (; pages > 0 && !strangers->looked && !keeper_stopping(keeper); pages--) {
        bool answered = strangers->scanning ? page_scan(keeper, strangers) : master_next(keeper, strangers);
        keeper_pulse(keeper);
        if (!answered) return false;
    }
    return true;
}

void strangers_deinit(struct strangers *strangers)
{
    peek_list_free(&strangers->found);
    *strangers = (struct strangers){ .tried = 0 };
}

bool stranger_file(struct keeper *keeper, uint64_t sale_id, bool *found)
{
    struct ledger_shelved row;
    if (!keeper_row(keeper, sale_id, &row, found)) return false;
    if (!*found) return true;
    if (!sale_is_over(keeper->remote, &row)) return true;
    struct peek peek;
    sale_peek(keeper, sale_id, 0, &peek);
    if (peek.state == PEEK_DAMAGED) return sale_drop_damaged(keeper, sale_id); /* else it is found again and again */
    /* Nothing is decided in it any more: what the ledger refuses need not be taken back. */
    struct stream_ask ask = { .sale_id = sale_id, .until_ms = UINT64_MAX, .shut = true };
    if (!stream_file(keeper, &ask)) return false;
    if (ask.filed + ask.refused + ask.lapsed > 0)
        log_info("keeper",
                 "sale %" PRIu64 " was over when this node came: of its log, %" PRIu64 " filed, %" PRIu64
                 " refused, %" PRIu64 " dropped",
                 sale_id, ask.filed, ask.refused, ask.lapsed);
    return true;
}

static void unknown_tell(const struct keeper *keeper, uint64_t sale_id)
{
    log_warn("keeper",
             "sale %" PRIu64 " is in Redis under %s, and the ledger does not know it: give each shop a redis_prefix of its "
             "own; what an earlier ledger has left `stampede reconcile --repair` drops",
             sale_id, keeper->remote->options.prefix);
}

/* What was filed may hold something: then it is over no more, and is built anew, for nobody knows what its gate has not been
 * told. False: not now. */
static bool stranger_settle(struct keeper *keeper, uint64_t sale_id)
{
    struct ledger_shelved row;
    bool found;
    if (!stranger_file(keeper, sale_id, &found) || !keeper_row(keeper, sale_id, &row, &found)) return false;
    if (!found) {
        if (++keeper->strangers.unknown <= TOLD_MAX) unknown_tell(keeper, sale_id);
    } else if (sale_is_over(keeper->remote, &row)) {
        sale_keys_end(keeper, sale_id);
    } else {
        keeper_shelve(keeper, &row);
        keeper_ask_rebuild(keeper, sale_id, sale_is_closed(&row.sale, remote_now_ms(&keeper->remote->gate)));
    }
    return true;
}

void strangers_meet(struct keeper *keeper)
{
    struct strangers *strangers = &keeper->strangers;
    if (strangers->met || !strangers_look(keeper, strangers, PAGES_AT_ONCE)) return;
    struct peek_list *found = &strangers->found;
    for (int i = 0; i < SETTLED_AT_ONCE && found->count > 0 && !keeper_stopping(keeper); i++) {
        if (!stranger_settle(keeper, found->ids[found->count - 1])) return;
        found->count--;
        keeper_pulse(keeper);
    }
    bool met = strangers->looked && found->count == 0;
    if (met && strangers->unknown > TOLD_MAX)
        log_warn("keeper", "so it is with %" PRIu64 " more sales", strangers->unknown - TOLD_MAX);
    if (met) strangers_deinit(strangers);
    strangers->met = met;
}
