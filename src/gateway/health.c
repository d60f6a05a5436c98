#include "base/memory.h"
#include "base/metrics.h"
#include "courier/courier.h"
#include "gateway/request.h"
#include "gateway/resources.h"
#include "gateway/resp_commands.h"
#include "publisher/publisher.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

/* docs/openapi.yaml, embedded at build. */
extern const unsigned char openapi_yaml[];
extern const size_t openapi_yaml_len;

/* detail NULL: there is nothing to say. */
static void word_reply(struct request *request, const char *word, const char *detail)
{
    struct json_out out;
    json_object(reply_json(request, &out));
    json_key(&out, "status");
    json_text(&out, word);
    if (detail != NULL) {
        json_key(&out, "detail");
        json_text(&out, detail);
    }
    json_object_end(&out);
    reply_send(request, 200, &out);
}

void health_get(struct request *request)
{
    word_reply(request, "alive", NULL);
}

/* What does not keep requests away, and yet is not as it should be. */
static const char *ready_detail(struct request *request)
{
    struct rooms *rooms = request_rooms(request);
    struct gate_status gate;
    gate_status(rooms->gate, &gate);
    if (!gate.room) return "Disk space is low: nothing is sold until there is more.";
    struct clerk_status clerk;
    clerk_status(rooms->clerk, &clerk);
    if (clerk.failing || clerk.stopped) return "The ledger cannot be written; see the log.";
    struct guard_sharing limits;
    guard_sharing(rooms->guard, &limits);
    if (limits.shared && !limits.answers) return "Redis is slow: limits count on this node alone.";
    return NULL;
}

const char *ready_objection(struct server *server, const char **word)
{
    struct gate_status status;
    gate_status(server->rooms.gate, &status);
    const struct {
        bool applies;
        const char *word, *detail;
    } rows[] = {
        { atomic_load(&server->draining), "draining", "The server is draining; send new requests to another." },
        { status.poisoned, "disk_failed", "The disk has failed; see the log." },
        { status.shared && status.redis_refuses != NULL, "no_redis", status.redis_refuses },
        { status.shared && !status.redis_up, "no_redis",
          "Redis cannot be reached from here; send new requests to another." },
        { status.shared && !status.numbered, "no_number",
          "The number of this node has not been renewed, or is another's; send new requests to another." },
        { status.shared && !status.selling, "no_ledger",
          "The ledger cannot be reached from here, or takes no writes; send new requests to another." },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        *word = rows[i].word;
        if (rows[i].applies) return rows[i].detail;
    }
    *word = "ready";
    return NULL;
}

void ready_get(struct request *request)
{
    const char *word, *objection = ready_objection(request->reactor->server, &word);
    if (objection != NULL) {
        reply_problem(request, PROBLEM_NOT_READY, objection);
    } else {
        word_reply(request, word, ready_detail(request));
    }
}

static const char *label_word(enum metric metric, uint32_t value)
{
    static const char *const classes[] = { NULL, "1xx", "2xx", "3xx", "4xx", "5xx" };
    if (metric == METRIC_GUARD_REFUSED) return guard_check_name(value);
    if (metric == METRIC_LINE_OUTCOMES)
        return value != LINE_WAITING && value < LINE_OUTCOMES ? line_outcome_word((enum line_outcome)value) : NULL;
    if (metric == METRIC_SHED_REFUSED) return value < RATE_CLASSES ? rate_class_name((enum rate_class)value) : NULL;
    if (metric == METRIC_RESP_COMMANDS) return resp_command_name(value);
    if (metric == METRIC_GRABS) return value < VERDICT_COUNT ? verdict_word((enum verdict)value) : NULL;
    return value < sizeof classes / sizeof *classes ? classes[value] : NULL;
}

struct gauge {
    const char *name, *help;
    uint64_t value;
};

static size_t gauges_render(char *out, size_t size, const struct gauge *gauges, size_t count)
{
    size_t len = 0;
    for (size_t i = 0; i < count; i++) {
        len += (size_t)snprintf(out + len, size - len, "# HELP %s %s\n# TYPE %s gauge\n%s %" PRIu64 "\n", gauges[i].name,
                                gauges[i].help, gauges[i].name, gauges[i].name, gauges[i].value);
    }
    return len;
}

/* Of a gate that several machines share. */
static size_t shared_render(char *out, size_t size, const struct gate_status *gate, const struct guard_sharing *limits)
{
    const struct gauge gauges[] = {
        { "stampede_nodes", "Nodes of the shop, as far as this one knows.", gate->nodes },
        { "stampede_limits_shared", "1 while limits count on all nodes together, 0 while on this one alone.",
          limits->answers },
        { "stampede_limits_told", "Times that other nodes were told of a user, an address or a login.", limits->told },
        { "stampede_limits_untold", "Times that they could not be.", limits->untold },
        { "stampede_redis_up", "1 while this node is connected to every master, and they take writes.", gate->redis_up },
        { "stampede_ledger_up", "1 while the ledger takes what this node files.", gate->ledger_up },
        { "stampede_redis_latency_microseconds", "What an answer of Redis takes at present.", gate->redis_latency_us },
        { "stampede_redis_in_flight", "Calls to Redis that are under way.", gate->redis_in_flight },
        { "stampede_redis_unknown", "Calls to Redis without an answer since the start.", gate->redis_unknown },
        { "stampede_redis_reconnects", "Connections to Redis made again since the start.", gate->redis_reconnects },
        { "stampede_unfiled", "Decisions in Redis that the ledger does not have.", gate->unfiled },
        { "stampede_unfiled_oldest_seconds", "Age of the oldest of them.", gate->unfiled_oldest_ms / 1000 },
        { "stampede_errands", "Releases and changes that Redis has still to be told.", gate->errands },
        { "stampede_rebuilds", "Sales that this node has built in Redis since the start.", gate->rebuilds },
        { "stampede_owns_expiry", "1 while this node ends holds for all.", gate->owns_expiry },
        { "stampede_owns_warm", "1 while this node warms up sales for all.", gate->owns_warm },
        { "stampede_owns_courier", "1 while this node sends webhooks for all.", gate->owns[GATE_JOB_COURIER] },
        { "stampede_owns_publisher", "1 while this node publishes for all.", gate->owns[GATE_JOB_PUBLISHER] },
    };
    return gauges_render(out, size, gauges, sizeof gauges / sizeof *gauges);
}

/* A family that the breakers count by themselves, one for each class of routes. */
static size_t breakers_render(char *out, size_t size, const struct guard *guard)
{
    size_t len = 0;
    for (int opened = 1; opened >= 0; opened--) {
        const char *name = opened ? "stampede_breaker_opened_total" : "stampede_breaker_refused_total";
        len += (size_t)snprintf(out + len, size - len, "# HELP %s %s, by class of routes.\n# TYPE %s counter\n", name,
                                opened ? "How often a breaker opened" : "Requests an open breaker turned away", name);
        for (enum rate_class class = 0; class < RATE_CLASSES; class ++) {
            const struct breaker *breaker = &guard->breakers[class];
            uint64_t total = atomic_load(opened ? &breaker->opened_total : &breaker->refused_total);
            len += (size_t)snprintf(out + len, size - len, "%s{class=\"%s\"} %" PRIu64 "\n", name, rate_class_name(class),
                                    total);
        }
    }
    return len;
}

static uint64_t resp_connections(const struct server *server)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < server->reactor_count; i++) count += resp_front_count(server->reactors[i]->resp);
    return count;
}

uint64_t watchers_count(const struct server *server)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < server->reactor_count; i++) count += atomic_load(&server->reactors[i]->watchers);
    return count;
}

void metrics_get(struct request *request)
{
    struct rooms *rooms = request_rooms(request);
    struct gate_status gate;
    struct clerk_status clerk;
    gate_status(rooms->gate, &gate);
    clerk_status(rooms->clerk, &clerk);
    struct lines_status lines;
    lines_status(rooms->lines, &lines);
    struct courier_status courier;
    courier_status(rooms->courier, &courier);
    struct publisher_status publisher;
    publisher_status(rooms->publisher, &publisher);
    struct guard_sharing limits;
    guard_sharing(rooms->guard, &limits);
    const struct gauge gauges[] = {
        { "stampede_connections", "Connections held.", atomic_load(&request->reactor->server->connections) },
        { "stampede_resp_connections", "Those of them that speak the Redis protocol.",
          resp_connections(request->reactor->server) },
        { "stampede_watchers", "Connections that watch a sale live.", watchers_count(request->reactor->server) },
        { "stampede_memory_bytes", "Resident memory.", memory_resident() },
        { "stampede_engine_bytes", "Memory of sales and orders.", gate.usage.bytes },
        { "stampede_sales", "Sales in memory.", gate.usage.sales },
        { "stampede_orders", "Orders in memory.", gate.usage.orders },
        { "stampede_orders_max", "Orders that fit in memory.", gate.usage.orders_max },
        { "stampede_journal_lag", "Decisions made and not yet durable.", gate.seq_decided - gate.seq_durable },
        { "stampede_clerk_lag", "Decisions durable and not yet filed.",
          gate.seq_durable > clerk.seq_filed ? gate.seq_durable - clerk.seq_filed : 0 },
        { "stampede_clerk_failing", "1 while the ledger refuses to be written.", clerk.failing || clerk.stopped },
        { "stampede_shed_level", "0 nothing is shed, 1 queries, 2 all but grabs, 3 grabs too.",
          shed_level(&rooms->guard->shed) },
        { "stampede_breaker_grab", "0 closed, 1 open, 2 half open.", breaker_state(&rooms->guard->breakers[RATE_GRAB]) },
        { "stampede_breaker_query", "0 closed, 1 open, 2 half open.", breaker_state(&rooms->guard->breakers[RATE_QUERY]) },
        { "stampede_breaker_login", "0 closed, 1 open, 2 half open.", breaker_state(&rooms->guard->breakers[RATE_LOGIN]) },
        { "stampede_breaker_register", "0 closed, 1 open, 2 half open.",
          breaker_state(&rooms->guard->breakers[RATE_REGISTER]) },
        { "stampede_breaker_write", "0 closed, 1 open, 2 half open.", breaker_state(&rooms->guard->breakers[RATE_WRITE]) },
        { "stampede_line_waiting", "People in line, parked or by a place.", lines.waiting },
        { "stampede_line_parked", "Requests held by lines, also repeats that wait beside the first.", lines.parked },
        { "stampede_line_places", "Places held, also those whose outcome can still be read.", lines.places },
        { "stampede_blocks", "Entries on the block list.", blocks_count(rooms->blocks) },
        { "stampede_webhooks_pending", "Webhook messages to be sent.", courier.pending },
        { "stampede_webhooks_failed", "Webhook messages that were given up and are kept.", courier.failed },
        { "stampede_webhooks_oldest_seconds", "Age of the oldest webhook message to be sent.", courier.oldest_ms / 1000 },
        { "stampede_publish_lag", "Events to be published, about.", publisher.waiting },
        { "stampede_publish_oldest_seconds", "Age of the oldest event to be published.", publisher.oldest_ms / 1000 },
        { "stampede_publish_failing", "1 while the queue does not take events.", publisher.failing },
        { "stampede_publish_dropped", "Events that were not published because too many waited.", publisher.dropped },
        { "stampede_journal_room", "1 while the journal has room and space.", gate.room },
    };
    struct reactor *reactor = request->reactor;
    size_t len = metrics_render(reactor->body, sizeof reactor->body / 2, label_word);
    len += gauges_render(reactor->body + len, sizeof reactor->body - len, gauges, sizeof gauges / sizeof *gauges);
    if (gate.shared) len += shared_render(reactor->body + len, sizeof reactor->body - len, &gate, &limits);
    len += breakers_render(reactor->body + len, sizeof reactor->body - len, rooms->guard);
    reply_raw(request,
              &(struct http_head){ .status = 200, .content_type = SLICE("text/plain; version=0.0.4; charset=utf-8") },
              (struct slice){ reactor->body, len });
}

void openapi_get(struct request *request)
{
    reply_raw(request, &(struct http_head){ .status = 200, .content_type = SLICE("application/yaml") },
              (struct slice){ (const char *)openapi_yaml, openapi_yaml_len });
}
