/* The nodes of the shop and how they are, for admins: this one as it is now, the others as they have told of themselves. A
 * report is "name=value name=value …", so that nodes of two releases understand each other as far as both know a name. */
#include "base/clock.h"
#include "base/memory.h"
#include "base/metrics.h"
#include "base/text.h"
#include "courier/courier.h"
#include "gateway/request.h"
#include "gateway/resources.h"
#include "publisher/publisher.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define REPORT_EVERY_MS 1000
/* A node that has missed several of its turns to speak. */
#define SILENT_MS 10000
#define NODE_BYTES_MAX 2048

/* In the order in which they are shown. */
#define NUMBERS(ROW)                                                                                                        \
    ROW(uptime_s)                                                                                                           \
    ROW(connections)                                                                                                        \
    ROW(watchers)                                                                                                           \
    ROW(answers)                                                                                                            \
    ROW(grabs)                                                                                                              \
    ROW(wins)                                                                                                               \
    ROW(memory_bytes)                                                                                                       \
    ROW(sales)                                                                                                              \
    ROW(orders)                                                                                                             \
    ROW(orders_max)                                                                                                         \
    ROW(journal_lag)                                                                                                        \
    ROW(clerk_lag)                                                                                                          \
    ROW(clerk_failing)                                                                                                      \
    ROW(journal_room)                                                                                                       \
    ROW(shed_level)                                                                                                         \
    ROW(breakers_open)                                                                                                      \
    ROW(line_waiting)                                                                                                       \
    ROW(blocks)                                                                                                             \
    ROW(webhooks_pending)                                                                                                   \
    ROW(webhooks_failed)                                                                                                    \
    ROW(webhooks_oldest_s)                                                                                                  \
    ROW(publish_lag)                                                                                                        \
    ROW(publish_failing)                                                                                                    \
    ROW(redis_latency_us)                                                                                                   \
    ROW(redis_in_flight)                                                                                                    \
    ROW(unfiled)                                                                                                            \
    ROW(unfiled_oldest_s)                                                                                                   \
    ROW(errands)                                                                                                            \
    ROW(rebuilds)

struct numbers_of_node {
#define FIELD(name) uint64_t name;
    NUMBERS(FIELD)
#undef FIELD
};

static const struct {
    const char *name;
    size_t offset;
} rows[] = {
#define NUMBER(name) { #name, offsetof(struct numbers_of_node, name) },
    NUMBERS(NUMBER)
#undef NUMBER
};
#define ROWS (sizeof rows / sizeof *rows)

struct report {
    char state[16], version[16], address[80];
    struct numbers_of_node numbers;
};

static uint64_t *number_at(struct report *report, size_t row)
{
    return (uint64_t *)(void *)((char *)&report->numbers + rows[row].offset);
}

static uint64_t family_total(enum metric metric, uint32_t width)
{
    uint64_t sum = 0;
    for (uint32_t label = 0; label < width; label++) sum += metrics_total(metric, label);
    return sum;
}

static void gate_numbers(struct numbers_of_node *out, struct rooms *rooms)
{
    struct gate_status gate;
    struct clerk_status clerk;
    gate_status(rooms->gate, &gate);
    clerk_status(rooms->clerk, &clerk);
    out->sales = gate.usage.sales;
    out->orders = gate.usage.orders;
    out->orders_max = gate.usage.orders_max;
    out->journal_lag = gate.seq_decided - gate.seq_durable;
    out->clerk_lag = gate.seq_durable > clerk.seq_filed ? gate.seq_durable - clerk.seq_filed : 0;
    out->clerk_failing = clerk.failing || clerk.stopped || (gate.shared && !gate.ledger_up);
    out->journal_room = gate.room;
    out->redis_latency_us = gate.redis_latency_us;
    out->redis_in_flight = gate.redis_in_flight;
    out->unfiled = gate.unfiled;
    out->unfiled_oldest_s = gate.unfiled_oldest_ms / 1000;
    out->errands = gate.errands;
    out->rebuilds = gate.rebuilds;
}

static void guard_numbers(struct numbers_of_node *out, struct rooms *rooms)
{
    struct lines_status lines;
    lines_status(rooms->lines, &lines);
    out->shed_level = shed_level(&rooms->guard->shed);
    for (enum rate_class class = 0; class < RATE_CLASSES; class ++)
        out->breakers_open += breaker_state(&rooms->guard->breakers[class]) != BREAKER_CLOSED;
    out->line_waiting = lines.waiting;
    out->blocks = blocks_count(rooms->blocks);
}

static void telling_numbers(struct numbers_of_node *out, struct rooms *rooms)
{
    struct courier_status courier;
    struct publisher_status publisher;
    courier_status(rooms->courier, &courier);
    publisher_status(rooms->publisher, &publisher);
    out->webhooks_pending = courier.pending;
    out->webhooks_failed = courier.failed;
    out->webhooks_oldest_s = courier.oldest_ms / 1000;
    out->publish_lag = publisher.waiting;
    out->publish_failing = publisher.failing;
}

static void report_make(struct report *out, struct server *server)
{
    const char *word;
    ready_objection(server, &word);
    *out = (struct report){ .version = STAMPEDE_VERSION };
    snprintf(out->state, sizeof out->state, "%s", word);
    snprintf(out->address, sizeof out->address, "%s", server->address);
    struct numbers_of_node *numbers = &out->numbers;
    numbers->uptime_s = (mono_ms() - server->started_ms) / 1000;
    numbers->connections = atomic_load(&server->connections);
    numbers->watchers = watchers_count(server);
    numbers->answers = family_total(METRIC_RESPONSES, 6);
    numbers->grabs = family_total(METRIC_GRABS, VERDICT_COUNT);
    numbers->wins = metrics_total(METRIC_GRABS, VERDICT_WON);
    numbers->memory_bytes = memory_resident();
    gate_numbers(numbers, &server->rooms);
    guard_numbers(numbers, &server->rooms);
    telling_numbers(numbers, &server->rooms);
}

void nodes_report(struct server *server)
{
    struct report report;
    char text[GATE_REPORT_BYTES + 1];
    uint64_t now_ms = mono_ms();
    if (now_ms < server->report_ms || gate_is_here(server->rooms.gate)) return;
    server->report_ms = now_ms + REPORT_EVERY_MS;
    report_make(&report, server);
    int len = snprintf(text, sizeof text, "state=%s version=%s address=%s", report.state, report.version, report.address);
    for (size_t i = 0; i < ROWS; i++) {
        int more = snprintf(text + len, sizeof text - (size_t)len, " %s=%" PRIu64, rows[i].name, *number_at(&report, i));
        if (more >= (int)sizeof text - len) break; /* what has no room any more is told as 0 */
        len += more;
    }
    gate_report(server->rooms.gate, (struct slice){ text, (size_t)len });
}

/* What is no word of ours, or no number, is left as it is. */
static void field_read(struct report *out, struct slice name, struct slice value)
{
    const struct {
        const char *name;
        char *text;
        size_t size;
    } texts[] = {
        { "state", out->state, sizeof out->state },
        { "version", out->version, sizeof out->version },
        { "address", out->address, sizeof out->address },
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (slice_is(name, texts[i].name) && text_is_printable(value) && value.len < texts[i].size)
            snprintf(texts[i].text, texts[i].size, "%.*s", (int)value.len, value.data);
    }
    for (size_t i = 0; i < ROWS; i++) {
        uint64_t number;
        if (slice_is(name, rows[i].name) && text_to_u64(value, &number)) *number_at(out, i) = number;
    }
}

static void report_read(struct report *out, const char *text)
{
    *out = (struct report){ .state = "" };
    while (*text != '\0') {
        size_t len = strcspn(text, " ");
        const char *equals = memchr(text, '=', len);
        if (equals != NULL) {
            size_t name_len = (size_t)(equals - text);
            field_read(out, (struct slice){ text, name_len }, (struct slice){ equals + 1, len - name_len - 1 });
        }
        text += len + (text[len] == ' ');
    }
}

struct rendering {
    struct json_out out;
    char *text;
    size_t room;
    uint32_t count, here;
    uint64_t now_ms;
};

static void node_render(struct rendering *rendering, struct report *report, const struct gate_node *node)
{
    struct json_out *out = &rendering->out;
    bool silent = !node->here && node->age_ms > SILENT_MS;
    json_object(out);
    json_key(out, "node");
    if (node->number != 0) {
        json_u64(out, node->number);
    } else {
        json_null(out);
    }
    json_key(out, "here");
    json_bool(out, node->here);
    json_key(out, "state");
    json_text(out, silent ? "silent" : report->state);
    json_key(out, "heard_at");
    json_time(out, rendering->now_ms > node->age_ms ? rendering->now_ms - node->age_ms : 0);
    json_key(out, "version");
    json_text(out, report->version);
    json_key(out, "address");
    json_text(out, report->address);
    for (size_t i = 0; i < ROWS; i++) {
        json_key(out, rows[i].name);
        json_u64(out, *number_at(report, i));
    }
    json_object_end(out);
}

static void other_count(const struct gate_node *node, void *arg)
{
    struct rendering *rendering = arg;
    rendering->count++;
    if (node->here) rendering->here = node->number;
}

/* More may have come since they were counted: those are shown the next time. */
static void other_render(const struct gate_node *node, void *arg)
{
    struct rendering *rendering = arg;
    struct report report;
    if (node->here || rendering->count == 0) return;
    rendering->count--;
    report_read(&report, node->report);
    node_render(rendering, &report, node);
}

/* At once, with no crew and no ledger: this is looked at when those stand still. */
void nodes_get(struct request *request)
{
    struct server *server = request->reactor->server;
    struct gate *gate = server->rooms.gate;
    struct rendering rendering = { .now_ms = gate_now_ms(gate) };
    gate_nodes_each(gate, other_count, &rendering);
    rendering.room = (rendering.count + 2) * NODE_BYTES_MAX;
    rendering.text = malloc(rendering.room);
    if (rendering.text == NULL) {
        reply_problem(request, PROBLEM_BUSY, NULL);
        return;
    }
    struct report own;
    report_make(&own, server);
    struct json_out *out = &rendering.out;
    json_out_init(out, rendering.text, rendering.room);
    json_object(out);
    json_key(out, "gate");
    json_text(out, gate_is_here(gate) ? "local" : "redis");
    json_key(out, "items");
    json_array(out);
    const struct gate_node here = { .number = rendering.here, .here = true };
    node_render(&rendering, &own, &here);
    gate_nodes_each(gate, other_render, &rendering);
    json_array_end(out);
    json_key(out, "now");
    json_time(out, rendering.now_ms);
    json_object_end(out);
    const struct http_head head = { .status = 200, .content_type = SLICE("application/json") };
    reply_raw(request, &head, (struct slice){ out->data, out->len });
    free(rendering.text);
}
