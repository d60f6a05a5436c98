#include "ledger/events.h"

#include "base/log.h"
#include "ledger/database.h"

#include <assert.h>

static bool row_event(struct cursor *s, struct event *out)
{
    bool good = row_string(s, 1, out->seller, sizeof(out->seller)) && row_string(s, 2, out->name, sizeof(out->name)) &&
                row_string(s, 3, out->description, sizeof(out->description)) && column_number(s, 4) >= 0 &&
                column_number(s, 4) <= (int64_t)TIME_MS_MAX;
    if (!good) {
        log_error("ledger", "event %lld has a value that cannot be", (long long)column_number(s, 0));
        return false;
    }
    out->id = (uint64_t)column_number(s, 0);
    out->opens_ms = (uint64_t)column_number(s, 4);
    out->created_ms = (uint64_t)column_number(s, 5);
    out->subscribers = (uint64_t)column_number(s, 6);
    out->told = column_number(s, 7) != 0;
    return true;
}

enum fault ledger_event_add(struct ledger *ledger, struct event *event)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_EVENT_INSERT, &s);
    if (fault != FAULT_NONE) return fault;
    bind_string(s, 1, event->seller);
    bind_string(s, 2, event->name);
    bind_string(s, 3, event->description);
    bind_number(s, 4, event->opens_ms);
    bind_number(s, 5, event->created_ms);
    ledger_queue_enter();
    enum step step = cursor_step(s);
    ledger_queue_leave();
    fault = statement_close(ledger, STATEMENT_EVENT_INSERT, step);
    event->id = ledger_last_id(ledger);
    event->subscribers = 0;
    event->told = false;
    return fault;
}

enum fault ledger_event(struct ledger *ledger, uint64_t id, struct event *out, bool *found)
{
    *found = false;
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_EVENT, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, id);
    enum step step = cursor_step(s);
    *found = step == STEP_ROW;
    bool damaged = *found && !row_event(s, out);
    fault = statement_close(ledger, STATEMENT_EVENT, step);
    return damaged ? FAULT_DAMAGE : fault;
}

static bool event_is_open(const struct event *event, uint64_t now_ms)
{
    return event->told || event->opens_ms <= now_ms;
}

/* Inside a transaction. */
static enum fault change_write(struct ledger *ledger, const struct event_change *change, struct event *event)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_EVENT_CHANGE, &s);
    if (fault != FAULT_NONE) return fault;
    if (change->mask & EVENT_NAME) memcpy(event->name, change->name, strlen(change->name) + 1);
    if (change->mask & EVENT_DESCRIPTION) memcpy(event->description, change->description, strlen(change->description) + 1);
    if (change->mask & EVENT_OPENS) event->opens_ms = change->opens_ms;
    bind_number(s, 1, event->id);
    bind_string(s, 2, event->name);
    bind_string(s, 3, event->description);
    bind_number(s, 4, event->opens_ms);
    return statement_close(ledger, STATEMENT_EVENT_CHANGE, cursor_step(s));
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

/* Whether there is a subscriber of this name, and their place. */
static enum fault subscriber_find(struct ledger *ledger, const struct subscription *subscription, bool *found,
                                  uint64_t *place)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_SUBSCRIBED, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, subscription->event_id);
    bind_slice(s, 2, subscription->buyer);
    enum step step = cursor_step(s);
    *found = step == STEP_ROW;
    *place = *found ? (uint64_t)column_number(s, 0) : 0;
    return statement_close(ledger, STATEMENT_SUBSCRIBED, step);
}

static enum fault subscribers_count(struct ledger *ledger, uint64_t id, int more)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_EVENT_COUNT, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, id);
    bind_signed(s, 2, more);
    return statement_close(ledger, STATEMENT_EVENT_COUNT, cursor_step(s));
}

static enum fault subscriber_add(struct ledger *ledger, const struct subscription *subscription, uint64_t place)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_SUBSCRIBE, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, subscription->event_id);
    bind_slice(s, 2, subscription->buyer);
    bind_number(s, 3, place);
    fault = statement_close(ledger, STATEMENT_SUBSCRIBE, cursor_step(s));
    return fault == FAULT_NONE ? subscribers_count(ledger, subscription->event_id, 1) : fault;
}

/* The last of them takes the place that becomes free: who comes and goes leaves no gaps behind. */
static enum fault subscriber_drop(struct ledger *ledger, const struct subscription *subscription, uint64_t place,
                                  uint64_t place_last)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_UNSUBSCRIBE, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, subscription->event_id);
    bind_slice(s, 2, subscription->buyer);
    fault = statement_close(ledger, STATEMENT_UNSUBSCRIBE, cursor_step(s));
    if (fault == FAULT_NONE) fault = statement_open(ledger, STATEMENT_PLACE_FILL, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, subscription->event_id);
    bind_number(s, 2, place);
    bind_number(s, 3, place_last);
    fault = statement_close(ledger, STATEMENT_PLACE_FILL, cursor_step(s));
    return fault == FAULT_NONE ? subscribers_count(ledger, subscription->event_id, -1) : fault;
}

enum fault ledger_subscribe(struct ledger *ledger, const struct subscription *subscription, enum event_result *result)
{
    struct event event;
    bool found = false, already = false;
    uint64_t place;
    enum fault fault = small_begin(ledger);
    if (fault != FAULT_NONE) return fault;
    fault = ledger_event(ledger, subscription->event_id, &event, &found);
    if (fault == FAULT_NONE && found) fault = subscriber_find(ledger, subscription, &already, &place);
    *result = !found ? EVENT_UNKNOWN : !already && event_is_open(&event, subscription->now_ms) ? EVENT_OPENED : EVENT_DONE;
    if (fault == FAULT_NONE && *result == EVENT_DONE && !already)
        fault = subscriber_add(ledger, subscription, event.subscribers);
    return small_end(ledger, fault);
}

enum fault ledger_unsubscribe(struct ledger *ledger, const struct subscription *subscription, enum event_result *result)
{
    struct event event;
    bool found = false, there = false;
    uint64_t place = 0;
    enum fault fault = small_begin(ledger);
    if (fault != FAULT_NONE) return fault;
    fault = ledger_event(ledger, subscription->event_id, &event, &found);
    *result = found ? EVENT_DONE : EVENT_UNKNOWN;
    if (fault == FAULT_NONE && found && !event_is_open(&event, subscription->now_ms))
        fault = subscriber_find(ledger, subscription, &there, &place);
    if (fault == FAULT_NONE && there) fault = subscriber_drop(ledger, subscription, place, event.subscribers - 1);
    return small_end(ledger, fault);
}

enum fault ledger_events(struct ledger *ledger, const struct ledger_events_query *query,
                         void (*visit)(void *arg, const struct event *event), void *arg)
{
    enum statement id = query->seller.len > 0 ? STATEMENT_EVENTS_LIST_SELLER : STATEMENT_EVENTS_LIST;
    struct cursor *s;
    enum fault fault = statement_open(ledger, id, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, query->after == 0 || query->after > INT64_MAX ? INT64_MAX : query->after);
    bind_number(s, 2, query->limit);
    if (id == STATEMENT_EVENTS_LIST_SELLER) bind_slice(s, 3, query->seller);
    struct event event;
    bool damaged = false;
    enum step step;
    while ((step = cursor_step(s)) == STEP_ROW) {
        damaged = !row_event(s, &event);
        if (damaged) break;
        visit(arg, &event);
    }
    fault = statement_close(ledger, id, step);
    return damaged ? FAULT_DAMAGE : fault;
}

enum fault ledger_event_part(struct ledger *ledger, uint64_t id, uint32_t part, void (*visit)(void *arg, struct slice buyer),
                             void *arg)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_EVENT_PART, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, id);
    bind_number(s, 2, (uint64_t)part * EVENT_PART_MAX);
    bind_number(s, 3, (uint64_t)part * EVENT_PART_MAX + EVENT_PART_MAX);
    enum step step;
    while ((step = cursor_step(s)) == STEP_ROW) visit(arg, column_text(s, 0));
    return statement_close(ledger, STATEMENT_EVENT_PART, step);
}

enum fault ledger_goods(struct ledger *ledger, const struct ledger_goods *goods, uint64_t *sale_id, bool *found)
{
    enum statement id = goods->event_id != 0 ? STATEMENT_GOODS_OF_EVENT : STATEMENT_GOODS_OF_EVENT_NAME;
    struct cursor *s;
    enum fault fault = statement_open(ledger, id, &s);
    if (fault != FAULT_NONE) return fault;
    if (goods->event_id != 0) {
        bind_number(s, 1, goods->event_id);
    } else {
        bind_slice(s, 1, goods->event);
        bind_number(s, 3, goods->now_ms);
    }
    bind_slice(s, 2, goods->name);
    enum step step = cursor_step(s);
    *found = step == STEP_ROW;
    if (*found) *sale_id = (uint64_t)column_number(s, 0);
    return statement_close(ledger, id, step);
}
