/* resources: the handlers the route table names, one file for each resource, and how they render. */
#ifndef STAMPEDE_GATEWAY_RESOURCES_H
#define STAMPEDE_GATEWAY_RESOURCES_H

#include "base/slice.h"
#include "engine/sale.h"
#include "ledger/ledger.h"
#include "wire/json_in.h"
#include "wire/json_out.h"

struct counts;
struct crew_job;
struct ledger;
struct line_terms;
struct place_view;
struct query;
struct request;
struct rooms;

/* users.c */
void users_post(struct request *request);
/* The same without reading: for a name without objection and a password that is not empty. Texts are copied. */
void register_begin(struct request *request, const char *username, const char *password, enum role role);
/* kind as in struct people_request. */
void login_begin(struct request *request, const char *username, const char *password, const char *(*kind)(enum role role));
void logout_begin(struct request *request);
void login_post(struct request *request);
void logout_post(struct request *request);
/* sales.c: what anyone may see */
void sales_get(struct request *request);
void sale_get(struct request *request);
/* seller.c: what its seller may change */
/* A sale of whoever is logged in, once its terms are read; they need not be good. */
void sale_begin(struct request *request, const struct sale_terms *terms, uint32_t stock);
void sales_post(struct request *request);
void sale_patch(struct request *request);
void stock_post(struct request *request);
void pause_post(struct request *request);
void resume_post(struct request *request);
void close_post(struct request *request);
/* warm.c */
void warm_post(struct request *request);
/* live.c */
void live_get(struct request *request);
/* stats.c */
void stats_get(struct request *request);
/* Member latency_us of answers that took so long (counts.h). */
void render_latency(struct json_out *out, const uint64_t *times);
/* Member verdicts; one second of a series, as an object. */
void render_verdicts(struct json_out *out, const struct counts *counts, const struct sale *sale);
void render_second(struct json_out *out, const struct counts *counts, uint64_t sale_id, uint64_t second);
/* events.c */
void events_post(struct request *request);
void events_get(struct request *request);
void event_get(struct request *request);
void event_patch(struct request *request);
void subscribe_post(struct request *request);
void subscribe_delete(struct request *request);
/* grabs.c */
void grab_post(struct request *request);
/* A grab as some door has read it: of the sale request->id by whoever is logged in, or by anyone where the sale is open. The
 * slices may end with the handler. */
struct grab_ask {
    uint32_t units;
    struct slice key;   /* at most IDEMPOTENCY_KEY_BYTES_MAX; empty: none */
    struct slice token; /* a purchase token; data NULL: none was brought */
};
void grab_begin(struct request *request, const struct grab_ask *ask);
bool grab_key_is_good(struct slice key);
/* The Idempotency-Key it came with, empty where there is none. False: it is no good, and has replied. */
bool grab_key(struct request *request, struct slice *key);
/* line.c */
void line_post(struct request *request);
void place_get(struct request *request);
void place_delete(struct request *request);
/* The numbers of the sale's line, its own or those declared under the name it gives. False: it has none, or its name is not
 * declared (any more). */
bool sale_line(struct rooms *rooms, const struct sale *sale, struct line_terms *out);
/* Why the line has no room, beside what BUSY says anyway. */
#define LINE_FULL_DETAIL "The line is full; try again after the seconds in Retry-After. Nothing was taken."
#define LINE_TWICE_DETAIL                                                                                                   \
    "You are in this line already, as often as one buyer may buy; wait for that answer. Nothing was taken by this request."
#define LINE_GONE_DETAIL                                                                                                    \
    "The line of this sale is not declared at this server; the operator has been told. Nothing was taken."
#define LINE_GONE_RETRY_S 30
#define PLACE_USED_DETAIL "Its purchase token has been used; POST /v1/sales/{sale}/line for another place."
void grab_already(struct request *request, const struct order *order); /* replies ALREADY_WON */
/* tokens.c */
void tokens_post(struct request *request);
void token_render(struct request *request, struct json_out *out, uint64_t nonce); /* members token and expires_at */
/* orders.c */
void orders_get(struct request *request);
void order_get(struct request *request);
void cancel_post(struct request *request);
/* payments.c: what the payment provider says */
void payments_post(struct request *request);
void demo_payment_post(struct request *request); /* what a buyer plays the provider saying */
/* blocks.c: whom admins turn away */
void blocks_get(struct request *request);
void blocks_post(struct request *request);
void block_delete(struct request *request);
/* limits.c */
void limits_get(struct request *request);
void limits_put(struct request *request);
/* webhooks.c: where sellers are told what happened */
void webhooks_get(struct request *request);
void webhook_get(struct request *request);
void webhook_put(struct request *request);
void webhook_delete(struct request *request);
void webhook_test_post(struct request *request);
void deliveries_delete(struct request *request);
void delivery_delete(struct request *request);
void deliveries_get(struct request *request);
void deliveries_retry_post(struct request *request);
void delivery_retry_post(struct request *request);
/* log.c, nodes.c: what admins look at */
void log_get(struct request *request);
void nodes_get(struct request *request);
/* Tells the other nodes of the shop how this one is, from time to time. */
struct server;
void nodes_report(struct server *server);
/* health.c */
void health_get(struct request *request);
void ready_get(struct request *request);
void metrics_get(struct request *request);
void openapi_get(struct request *request);
/* Why no requests should be sent here; NULL: they may be. word is one for machines: ready, draining, … */
const char *ready_objection(struct server *server, const char **word);
uint64_t watchers_count(const struct server *server);

/* render.c */
void render_sale(struct json_out *out, const struct sale *sale, uint64_t now_ms);
void render_order(struct json_out *out, const struct order *order);

/* body.c: reads a body against its table, or has replied why not. */
bool body_read(struct request *request, const struct json_field *fields, size_t count, void *target,
               struct json_found *found);
/* A route that takes no body: an empty one or {} is fine. */
bool body_none(struct request *request);
/* list.c */
/* limit and cursor of a list into its query, or has replied why not. */
bool query_page(struct request *request);
/* A query field that must be one of words (NULL-terminated): its number, or -1 if absent. False: has replied. */
bool query_choice(struct request *request, const char *name, const char *const *words, int *out);
/* A query field of text into out, empty if absent. False: has replied. */
bool query_text(struct request *request, const char *name, char *out, size_t size);
/* A query field with a time (RFC 3339); 0 if absent. False: has replied. */
bool query_time(struct request *request, const char *name, bool *given, uint64_t *ms);
/* Sends the list that a query has rendered, or BUSY. */
void list_reply(struct crew_job *job);
/* Whether a job that writes ended without a fault, or has replied that it did not. */
bool write_ended(struct request *request);
/* Runs the list once the clerk has filed all that is decided at this moment: nobody misses what they just did, or what a
 * sale shown from memory just told them. */
void list_ask(struct request *request, void (*run)(struct query *query, struct ledger *ledger));
/* The same for a list of what the clerk has not filed: no replica can tell whether it has it. */
void list_ask_primary(struct request *request, void (*run)(struct query *query, struct ledger *ledger));

#endif
