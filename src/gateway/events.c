/* Events: campaigns that group sales, and whose seller is told who wanted to know when they open. */
#include "base/text.h"
#include "gateway/request.h"
#include "gateway/resources.h"
#include "ledger/events.h"

#include <stdlib.h>

static const struct json_field event_fields[] = {
    { .name = "name", .kind = JSON_TEXT, .min = 1, .max = EVENT_NAME_BYTES_MAX, .offset = offsetof(struct event, name) },
    { .name = "description",
      .kind = JSON_LINES,
      .nullable = true,
      .max = EVENT_DESCRIPTION_BYTES_MAX,
      .offset = offsetof(struct event, description) },
    { .name = "opens_at", .kind = JSON_TIME, .offset = offsetof(struct event, opens_ms) },
};
#define EVENT_FIELDS (sizeof event_fields / sizeof *event_fields)
_Static_assert(EVENT_NAME == 1 && EVENT_DESCRIPTION == 2 && EVENT_OPENS == 4, "the rows follow the bits");

static void members_render(struct json_out *out, const struct event *event, uint64_t now_ms)
{
    json_key(out, "id");
    json_id(out, event->id);
    json_key(out, "seller");
    json_text(out, event->seller);
    json_key(out, "name");
    json_text(out, event->name);
    json_key(out, "description");
    json_text(out, event->description);
    json_key(out, "state");
    json_text(out, event->told || event->opens_ms <= now_ms ? "open" : "upcoming");
    json_key(out, "opens_at");
    json_time(out, event->opens_ms);
    json_key(out, "created_at");
    json_time(out, event->created_ms);
    json_key(out, "subscribers");
    json_u64(out, event->subscribers);
}

/* What is written, and who reads it back, waits for the disk: on a worker with a connection that writes. */
static void write_ask(struct request *request, void (*run)(struct query *query, struct ledger *ledger),
                      void (*done)(struct crew_job *job))
{
    request->query.seq_wait = 0; /* the clerk has no part in this */
    request->query.now_ms = gate_now_ms(request_rooms(request)->gate);
    request_work(request, request_rooms(request)->writes, run, done);
}

/* True where the job ended in EVENT_DONE; else has replied why not. */
static bool write_done(struct request *request)
{
    if (!write_ended(request)) return false;
    enum event_result result = request->query.event_result; /* the request is gone after the reply */
    if (result == EVENT_UNKNOWN) reply_problem(request, PROBLEM_NO_SUCH_EVENT, NULL);
    if (result == EVENT_OPENED) reply_problem(request, PROBLEM_EVENT_OPEN, NULL);
    return result == EVENT_DONE;
}

static void event_reply(struct request *request, int status)
{
    struct json_out out;
    uint64_t now_ms = gate_now_ms(request_rooms(request)->gate);
    json_object(reply_json(request, &out));
    members_render(&out, &request->query.event, now_ms);
    json_key(&out, "now");
    json_time(&out, now_ms);
    json_object_end(&out);
    reply_send(request, status, &out);
}

static void add_run(struct query *query, struct ledger *ledger)
{
    query->event_result = EVENT_DONE;
    query->fault = ledger_event_add(ledger, &query->event);
}

static void add_done(struct crew_job *job)
{
    struct request *request = REQUEST_OF(job, query.job);
    if (write_done(request)) event_reply(request, 201);
}

/* An event that opens is told then: one that has opened already never would be. False: has replied. */
static bool event_body_read(struct request *request, struct event *event, struct json_found *found)
{
    *event = (struct event){ .id = request->id };
    if (!body_read(request, event_fields, EVENT_FIELDS, event, found)) return false;
    bool late = found->given & EVENT_OPENS && event->opens_ms <= gate_now_ms(request_rooms(request)->gate);
    if (late) reply_problem(request, PROBLEM_BAD_INPUT, "opens_at must be in the future");
    return !late;
}

void events_post(struct request *request)
{
    struct event *event = &request->query.event;
    struct json_found found;
    if (!event_body_read(request, event, &found)) return;
    const char *objection = !(found.given & EVENT_NAME)    ? "name is missing: a text of 1 to 128 bytes"
                            : !(found.given & EVENT_OPENS) ? "opens_at is missing: a time such as 2026-01-31T12:00:00Z"
                                                           : NULL;
    if (objection != NULL) {
        reply_problem(request, PROBLEM_BAD_INPUT, objection);
        return;
    }
    memcpy(event->seller, request->who.name_bytes, sizeof event->seller);
    event->created_ms = gate_now_ms(request_rooms(request)->gate);
    write_ask(request, add_run, add_done);
}

/* The texts given stand in the query's event, which then becomes the event as it is. */
static void change_run(struct query *query, struct ledger *ledger)
{
    struct event given = query->event;
    const struct event_change change = {
        .id = query->id,
        .seller = slice_of(query->seller),
        .mask = query->event_mask,
        .name = given.name,
        .description = given.description,
        .opens_ms = given.opens_ms,
        .now_ms = query->now_ms,
    };
    query->fault = ledger_event_change(ledger, &change, &query->event, &query->event_result);
}

static void change_done(struct crew_job *job)
{
    struct request *request = REQUEST_OF(job, query.job);
    if (write_done(request)) event_reply(request, 200);
}

void event_patch(struct request *request)
{
    struct query *query = &request->query;
    struct json_found found;
    if (!event_body_read(request, &query->event, &found)) return;
    query->id = request->id;
    query->event_mask = found.given | found.nulled;
    memcpy(query->seller, request->who.name_bytes, sizeof query->seller);
    if (request->who.role == ROLE_ADMIN) query->seller[0] = '\0';
    write_ask(request, change_run, change_done);
}

static void subscribe_run(struct query *query, struct ledger *ledger)
{
    const struct subscription subscription = { query->id, slice_of(query->buyer), query->now_ms };
    query->fault = ledger_subscribe(ledger, &subscription, &query->event_result);
}

static void unsubscribe_run(struct query *query, struct ledger *ledger)
{
    const struct subscription subscription = { query->id, slice_of(query->buyer), query->now_ms };
    query->fault = ledger_unsubscribe(ledger, &subscription, &query->event_result);
}

static void subscription_done(struct crew_job *job)
{
    struct request *request = REQUEST_OF(job, query.job);
    if (write_done(request)) reply_raw(request, &(struct http_head){ .status = 204 }, (struct slice){ "", 0 });
}

static void subscription_ask(struct request *request, void (*run)(struct query *query, struct ledger *ledger))
{
    if (!body_none(request)) return;
    request->query.id = request->id;
    memcpy(request->query.buyer, request->who.name_bytes, sizeof request->query.buyer);
    write_ask(request, run, subscription_done);
}

void subscribe_post(struct request *request)
{
    subscription_ask(request, subscribe_run);
}

void subscribe_delete(struct request *request)
{
    subscription_ask(request, unsubscribe_run);
}

static void sales_visit(void *arg, const struct sale *sale)
{
    struct query *query = arg;
    render_sale(&query->list_out, sale, query->now_ms);
    query->list_count++;
    query->list_last = sale->id;
}

/* The event, and a page of its sales. */
static void event_run(struct query *query, struct ledger *ledger)
{
    const struct ledger_sales_query ask = {
        .event_id = query->id, .state = -1, .now_ms = query->now_ms, .after = query->after, .limit = query->limit
    };
    query->fault = ledger_event(ledger, query->id, &query->event, &query->found);
    if (query->fault != FAULT_NONE || !query->found) return;
    query->fault = query_room(query, ((size_t)query->limit + 1) * QUERY_ITEM_BYTES_MAX);
    if (query->fault != FAULT_NONE) return;
    query->list_count = 0;
    json_object(&query->list_out);
    members_render(&query->list_out, &query->event, query->now_ms);
    json_key(&query->list_out, "sales");
    json_array(&query->list_out);
    query->fault = ledger_sales(ledger, &ask, sales_visit, query);
    if (query->fault == FAULT_NONE) query_list_end(query);
}

static void event_done(struct crew_job *job)
{
    struct request *request = REQUEST_OF(job, query.job);
    if (!job->late && request->query.fault == FAULT_NONE && !request->query.found) {
        reply_problem(request, PROBLEM_NO_SUCH_EVENT, NULL);
    } else {
        list_reply(job);
    }
}

void event_get(struct request *request)
{
    struct query *query = &request->query;
    struct gate *gate = request_rooms(request)->gate;
    if (!query_page(request)) return;
    query->id = request->id;
    query->now_ms = gate_now_ms(gate);
    query->seq_wait = gate_seq_decided(gate);
    request_query(request, event_run, event_done);
}

static void events_visit(void *arg, const struct event *event)
{
    struct query *query = arg;
    json_object(&query->list_out);
    members_render(&query->list_out, event, query->now_ms);
    json_object_end(&query->list_out);
    query->list_count++;
    query->list_last = event->id;
}

static void events_run(struct query *query, struct ledger *ledger)
{
    const struct ledger_events_query ask = { .seller = slice_of(query->seller),
                                             .after = query->after,
                                             .limit = query->limit };
    query->fault = query_list_begin(query);
    if (query->fault == FAULT_NONE) query->fault = ledger_events(ledger, &ask, events_visit, query);
    if (query->fault == FAULT_NONE) query_list_end(query);
}

void events_get(struct request *request)
{
    struct query *query = &request->query;
    if (!query_page(request) || !query_text(request, "seller", query->seller, sizeof query->seller)) return;
    query->now_ms = gate_now_ms(request_rooms(request)->gate);
    query->seq_wait = 0; /* events are in the ledger from the first */
    request_work(request, request_rooms(request)->lists, events_run, list_reply);
}
