#include "courier/opening.h"

#include "courier/message.h"
#include "ledger/events.h"
#include "wire/json_out.h"

#include <assert.h>
#include <stdlib.h>

/* Every byte of a name escaped to six, with quotes and a comma; the event's name likewise, and the other members. */
#define OPENING_BYTES_MAX (EVENT_PART_MAX * (6 * BUYER_BYTES_MAX + 3) + 6 * EVENT_NAME_BYTES_MAX + 512)

static void subscriber_render(void *arg, struct slice buyer)
{
    json_string(arg, buyer);
}

/* Every event has one part at least: its seller is told also where nobody subscribed. */
static uint64_t parts_of(const struct event *event)
{
    return event->subscribers == 0 ? 1 : (event->subscribers + EVENT_PART_MAX - 1) / EVENT_PART_MAX;
}

static enum fault data_render(struct json_out *out, struct ledger *ledger, const struct notice *notice,
                              const struct event *event)
{
    json_key(out, "event");
    json_id(out, event->id);
    json_key(out, "name");
    json_text(out, event->name);
    json_key(out, "opens_at");
    json_time(out, event->opens_ms);
    json_key(out, "part");
    json_u64(out, notice->part + UINT64_C(1));
    json_key(out, "parts");
    json_u64(out, parts_of(event));
    json_key(out, "subscribers");
    json_array(out);
    enum fault fault = ledger_event_part(ledger, event->id, notice->part, subscriber_render, out);
    json_array_end(out);
    return fault;
}

enum fault opening_render(struct ledger *ledger, const struct notice *notice, struct slice *out)
{
    struct event event;
    bool found;
    *out = (struct slice){ NULL, 0 };
    enum fault fault = ledger_event(ledger, notice->event_id, &event, &found);
    if (fault != FAULT_NONE || !found) return fault;
    char *bytes = malloc(OPENING_BYTES_MAX);
    if (bytes == NULL) return FAULT_MEMORY;
    struct json_out json;
    json_out_init(&json, bytes, OPENING_BYTES_MAX);
    message_begin(&json, notice);
    fault = data_render(&json, ledger, notice, &event);
    message_end(&json);
    if (fault != FAULT_NONE) {
        free(bytes);
        return fault;
    }
    *out = (struct slice){ bytes, json.len };
    return FAULT_NONE;
}
