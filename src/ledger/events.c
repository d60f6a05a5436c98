#include "ledger/events.h"

#include "base/log.h"
#include "ledger/sqlite.h"

#include <assert.h>

static bool row_event(sqlite3_stmt *s, struct event *out)
{
    bool good = row_string(s, 1, out->seller, sizeof(out->seller)) && row_string(s, 2, out->name, sizeof(out->name)) &&
                row_string(s, 3, out->description, sizeof(out->description)) && sqlite3_column_int64(s, 4) >= 0 &&
                sqlite3_column_int64(s, 4) <= (int64_t)TIME_MS_MAX;
    if (!good) {
        log_error("ledger", "event %lld has a value that cannot be", (long long)sqlite3_column_int64(s, 0));
        return false;
    }
    out->id = (uint64_t)sqlite3_column_int64(s, 0);
    out->opens_ms = (uint64_t)sqlite3_column_int64(s, 4);
    out->created_ms = (uint64_t)sqlite3_column_int64(s, 5);
    out->subscribers = (uint64_t)sqlite3_column_int64(s, 6);
    out->places = (uint64_t)sqlite3_column_int64(s, 7);
    out->told = sqlite3_column_int(s, 8) != 0;
    return true;
}

enum fault ledger_event_add(struct ledger *ledger, struct event *event)
{
    sqlite3_stmt *s;
    enum fault fault = statement_open(ledger, STATEMENT_EVENT_INSERT, &s);
    if (fault != FAULT_NONE) return fault;
    bind_string(s, 1, event->seller);
    bind_string(s, 2, event->name);
    bind_string(s, 3, event->description);
    bind_number(s, 4, event->opens_ms);
    bind_number(s, 5, event->created_ms);
    ledger_queue_enter();
    int rc = sqlite3_step(s);
    ledger_queue_leave();
    fault = statement_close(ledger, STATEMENT_EVENT_INSERT, rc);
    event->id = (uint64_t)sqlite3_last_insert_rowid(ledger->db);
    event->subscribers = event->places = 0;
    event->told = false;
    return fault;
}

enum fault ledger_event(struct ledger *ledger, uint64_t id, struct event *out, bool *found)
{
    *found = false;
    sqlite3_stmt *s;
    enum fault fault = statement_open(ledger, STATEMENT_EVENT, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, id);
    int rc = sqlite3_step(s);
    *found = rc == SQLITE_ROW;
    bool damaged = *found && !row_event(s, out);
    fault = statement_close(ledger, STATEMENT_EVENT, rc);
    return damaged ? FAULT_DAMAGE : fault;
}

static bool event_is_open(const struct event *event, uint64_t now_ms)
{
    return event->told || event->opens_ms <= now_ms;
}

/* Inside a transaction. */
static enum fault change_write(struct ledger *ledger, const struct event_change *change, struct event *event)
{
    sqlite3_stmt *s;
    enum fault fault = statement_open(ledger, STATEMENT_EVENT_CHANGE, &s);
    if (fault != FAULT_NONE) return fault;
    if (change->mask & EVENT_NAME) memcpy(event->name, change->name, strlen(change->name) + 1);
    if (change->mask & EVENT_DESCRIPTION) memcpy(event->description, change->description, strlen(change->description) + 1);
    if (change->mask & EVENT_OPENS) event->opens_ms = change->opens_ms;
    bind_number(s, 1, event->id);
    bind_string(s, 2, event->name);
    bind_string(s, 3, event->description);
    bind_number(s, 4, event->opens_ms);
    return statement_close(ledger, STATEMENT_EVENT_CHANGE, sqlite3_step(s));
}

enum fault ledger_event_change(struct ledger *ledger, const struct event_change *change, struct event *out,
                               enum event_result *result)
{
    assert(!(change->mask & EVENT_NAME) || strlen(change->name) < sizeof(out->name));
    assert(!(change->mask & EVENT_DESCRIPTION) || strlen(change->description) < sizeof(out->description));
    bool found = false;
    enum fault fault = small_begin(ledger);
    if (fault != FAULT_NONE) return fault;
    fault = ledger_event(ledger, change->id, out, &found);
    bool theirs = found && (change->seller.len == 0 || slice_is(change->seller, out->seller));
    *result = !theirs ? EVENT_UNKNOWN : change->mask != 0 && event_is_open(out, change->now_ms) ? EVENT_OPENED : EVENT_DONE;
    if (fault == FAULT_NONE && *result == EVENT_DONE) fault = change_write(ledger, change, out);
    return small_end(ledger, fault);
}

/* How many rows a statement about one subscriber has changed or found. */
static enum fault subscriber_do(struct ledger *ledger, enum statement id, const struct subscription *subscription,
                                uint64_t place, int *rows)
{
    sqlite3_stmt *s;
    enum fault fault = statement_open(ledger, id, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, subscription->event_id);
    bind_slice(s, 2, subscription->buyer);
    if (id == STATEMENT_SUBSCRIBE) bind_number(s, 3, place);
    int rc = sqlite3_step(s);
    *rows = id == STATEMENT_SUBSCRIBED ? rc == SQLITE_ROW : sqlite3_changes(ledger->db);
    return statement_close(ledger, id, rc);
}

static enum fault subscribers_count(struct ledger *ledger, uint64_t id, int more, int places)
{
    sqlite3_stmt *s;
    enum fault fault = statement_open(ledger, STATEMENT_EVENT_COUNT, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, id);
    bind_signed(s, 2, more);
    bind_signed(s, 3, places);
    return statement_close(ledger, STATEMENT_EVENT_COUNT, sqlite3_step(s));
}

enum fault ledger_subscribe(struct ledger *ledger, const struct subscription *subscription, enum event_result *result)
{
    struct event event;
    bool found = false;
    int rows = 0;
    enum fault fault = small_begin(ledger);
    if (fault != FAULT_NONE) return fault;
    fault = ledger_event(ledger, subscription->event_id, &event, &found);
    if (fault == FAULT_NONE && found) fault = subscriber_do(ledger, STATEMENT_SUBSCRIBED, subscription, 0, &rows);
    *result = !found ? EVENT_UNKNOWN : rows == 0 && event_is_open(&event, subscription->now_ms) ? EVENT_OPENED : EVENT_DONE;
    if (fault == FAULT_NONE && *result == EVENT_DONE && rows == 0) {
        fault = subscriber_do(ledger, STATEMENT_SUBSCRIBE, subscription, event.places, &rows);
        if (fault == FAULT_NONE) fault = subscribers_count(ledger, event.id, 1, 1);
    }
    return small_end(ledger, fault);
}

enum fault ledger_unsubscribe(struct ledger *ledger, const struct subscription *subscription, enum event_result *result)
{
    struct event event;
    bool found = false;
    int rows = 0;
    enum fault fault = small_begin(ledger);
    if (fault != FAULT_NONE) return fault;
    fault = ledger_event(ledger, subscription->event_id, &event, &found);
    *result = found ? EVENT_DONE : EVENT_UNKNOWN;
    if (fault == FAULT_NONE && found && !event_is_open(&event, subscription->now_ms))
        fault = subscriber_do(ledger, STATEMENT_UNSUBSCRIBE, subscription, 0, &rows);
    if (fault == FAULT_NONE && rows > 0) fault = subscribers_count(ledger, event.id, -1, 0);
    return small_end(ledger, fault);
}

enum fault ledger_events(struct ledger *ledger, const struct ledger_events_query *query,
                         void (*visit)(void *arg, const struct event *event), void *arg)
{
    enum statement id = query->seller.len > 0 ? STATEMENT_EVENTS_LIST_SELLER : STATEMENT_EVENTS_LIST;
    sqlite3_stmt *s;
    enum fault fault = statement_open(ledger, id, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, query->after == 0 || query->after > INT64_MAX ? INT64_MAX : query->after);
    bind_number(s, 2, query->limit);
    if (id == STATEMENT_EVENTS_LIST_SELLER) bind_slice(s, 3, query->seller);
    struct event event;
    bool damaged = false;
    int rc;
    while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
        damaged = !row_event(s, &event);
        if (damaged) break;
        visit(arg, &event);
    }
    fault = statement_close(ledger, id, rc);
    return damaged ? FAULT_DAMAGE : fault;
}

enum fault ledger_event_part(struct ledger *ledger, uint64_t id, uint32_t part, void (*visit)(void *arg, struct slice buyer),
                             void *arg)
{
    sqlite3_stmt *s;
    enum fault fault = statement_open(ledger, STATEMENT_EVENT_PART, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, id);
    bind_number(s, 2, (uint64_t)part * EVENT_PART_MAX);
    bind_number(s, 3, (uint64_t)part * EVENT_PART_MAX + EVENT_PART_MAX);
    int rc;
    while ((rc = sqlite3_step(s)) == SQLITE_ROW)
        visit(arg, (struct slice){ (const char *)sqlite3_column_text(s, 0), (size_t)sqlite3_column_bytes(s, 0) });
    return statement_close(ledger, STATEMENT_EVENT_PART, rc);
}

enum fault ledger_goods(struct ledger *ledger, const struct ledger_goods *goods, uint64_t *sale_id, bool *found)
{
    enum statement id = goods->event_id != 0 ? STATEMENT_GOODS_OF_EVENT : STATEMENT_GOODS_OF_EVENT_NAME;
    sqlite3_stmt *s;
    enum fault fault = statement_open(ledger, id, &s);
    if (fault != FAULT_NONE) return fault;
    if (goods->event_id != 0) {
        bind_number(s, 1, goods->event_id);
    } else {
        bind_slice(s, 1, goods->event);
        bind_number(s, 3, goods->now_ms);
    }
    bind_slice(s, 2, goods->name);
    int rc = sqlite3_step(s);
    *found = rc == SQLITE_ROW;
    if (*found) *sale_id = (uint64_t)sqlite3_column_int64(s, 0);
    return statement_close(ledger, id, rc);
}
