/* metrics: counters, gauges and histograms, one table; adding is a relaxed add on the thread's own line of memory.
 *
 * base knows nothing of sales: a metric is a row here, its labels are given by whoever renders them (gateway/health.c). */
#ifndef STAMPEDE_BASE_METRICS_H
#define STAMPEDE_BASE_METRICS_H

#include <stddef.h>
#include <stdint.h>

/* clang-format off */
/* name, kind, help. A FAMILY has one label with as many values as its width. */
#define METRICS(COUNTER, FAMILY, HISTOGRAM)                                                                               \
    FAMILY(GRABS, "stampede_grabs_total", "verdict", 32, "Grabs by verdict.")                                             \
    FAMILY(RESPONSES, "stampede_http_responses_total", "status", 6, "HTTP answers by class of status.")                   \
    FAMILY(GUARD_REFUSED, "stampede_guard_refused_total", "check", 16, "Who was turned away, by each check of the guard.")  \
    FAMILY(SHED_REFUSED, "stampede_shed_refused_total", "class", 8, "Requests shed, by class of routes.")                   \
    FAMILY(LINE_OUTCOMES, "stampede_line_outcomes_total", "outcome", 16, "Waits in line by what became of them.")           \
    FAMILY(RESP_COMMANDS, "stampede_resp_commands_total", "command", 32, "Commands of the Redis protocol.")                 \
    COUNTER(GRABS_ASKED, "stampede_grabs_asked_total", "Grabs that Redis was asked to decide; again is counted again.")   \
    COUNTER(SHARE_WAITS, "stampede_share_waits_total", "Times that a grab waited for this node's share of a sale.")       \
    COUNTER(CONNECTIONS_ACCEPTED, "stampede_connections_accepted_total", "Connections taken.")                            \
    COUNTER(CONNECTIONS_REFUSED, "stampede_connections_refused_total", "Connections turned away at the limit.")           \
    COUNTER(CONNECTIONS_CLOSED, "stampede_connections_closed_total", "Connections ended.")                                \
    COUNTER(TIMEOUTS, "stampede_connection_timeouts_total", "Connections ended for being too slow.")                      \
    COUNTER(COMMITS, "stampede_commits_total", "Journal batches made durable.")                                           \
    COUNTER(DECISIONS, "stampede_decisions_total", "Decisions made durable.")                                             \
    COUNTER(FILED, "stampede_clerk_filed_total", "Decisions filed into the ledger.")                                      \
    COUNTER(LEDGER_FAILURES, "stampede_ledger_failures_total", "Failed ledger transactions.")                             \
    COUNTER(WEBHOOKS_DELIVERED, "stampede_webhooks_delivered_total", "Webhook messages that were taken.")                 \
    COUNTER(WEBHOOKS_FAILED, "stampede_webhooks_failed_tries_total", "Tries to send a webhook message that failed.")      \
    COUNTER(WEBHOOKS_GIVEN_UP, "stampede_webhooks_given_up_total", "Webhook messages that are tried no more.")            \
    COUNTER(PUBLISHED, "stampede_published_total", "Events that the queue has confirmed.")                                \
    COUNTER(PUBLISH_FAILED, "stampede_publish_failed_tries_total", "Tries to reach or use the queue that failed.")        \
    HISTOGRAM(COMMIT_SECONDS, "stampede_commit_seconds", 1e-9, "Write and sync of one journal batch.")                    \
    HISTOGRAM(BATCH_DECISIONS, "stampede_commit_batch_decisions", 1.0, "Decisions that shared one sync.")

enum metric {
#define METRIC_ENUM(name, ...) METRIC_##name,
    METRICS(METRIC_ENUM, METRIC_ENUM, METRIC_ENUM)
#undef METRIC_ENUM
    METRIC_COUNT
};
/* clang-format on */

void metrics_add(enum metric metric, uint64_t n);                          /* COUNTER */
void metrics_add_labelled(enum metric metric, uint32_t label, uint64_t n); /* FAMILY */
void metrics_observe(enum metric metric, uint64_t value);                  /* HISTOGRAM: powers of two */
uint64_t metrics_total(enum metric metric, uint32_t label);

/* Appends the Prometheus text of every metric to out (at most size bytes, NUL not counted) and returns its length. label
 * names the label values of a FAMILY; NULL skips one. */
size_t metrics_render(char *out, size_t size, const char *(*label)(enum metric metric, uint32_t value));

#endif
