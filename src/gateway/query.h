/* query: a question to the ledger, on the query crew's threads. */
#ifndef STAMPEDE_GATEWAY_QUERY_H
#define STAMPEDE_GATEWAY_QUERY_H

#include "gateway/server.h"
#include "guard/block_entry.h"
#include "ledger/events.h"
#include "ledger/outbox.h"
#include "wire/json_out.h"

/* How long a list waits for the clerk before it says BUSY. */
#define QUERY_WAIT_MS_MAX 2000
/* The largest sale or event as JSON: every byte of name and description escaped to two, and the other fields. */
#define QUERY_ITEM_BYTES_MAX (2 * (SALE_NAME_BYTES_MAX + SALE_DESCRIPTION_BYTES_MAX) + 1024)
_Static_assert(EVENT_NAME_BYTES_MAX + EVENT_DESCRIPTION_BYTES_MAX <= SALE_NAME_BYTES_MAX + SALE_DESCRIPTION_BYTES_MAX,
               "an event fits where a sale does");

struct query {
    struct crew_job job;
    void (*run)(struct query *query, struct ledger *ledger); /* on a worker */
    struct rooms *rooms;
    uint64_t seq_wait; /* the ledger must have filed this first; 0: any state will do */
    bool replica;      /* may be read from a replica that has filed it */
    enum fault fault;
    bool found;

    /* What is asked. */
    uint64_t id, now_ms, after, from_ms, to_ms;
    uint32_t limit;
    int state;
    char seller[USERNAME_BYTES_MAX + 1];
    char buyer[BUYER_BYTES_MAX + 1];
    char key[IDEMPOTENCY_KEY_BYTES_MAX + 1];
    char entry[BLOCK_ENTRY_BYTES_MAX + 1]; /* of the block list, in normal form */

    bool rotate; /* the secret of a webhook */

    /* What was found: one of them, or a rendered list. */
    struct sale sale;
    struct order order;
    struct ledger_order filed;
    struct hook hook; /* put: its url is what is asked */
    bool fresh;       /* its secret is new */
    struct outbox_counts notices;
    uint64_t notices_changed; /* sent again, or dropped */
    uint64_t place;           /* of an order among those of its sale, from 1 */
    struct event event;
    uint32_t event_mask;
    enum event_result event_result;
    char *list; /* from malloc; freed when it is sent */
    struct json_out list_out;
    uint32_t list_count;
    uint64_t list_last;
};

/* A crew of readers of the ledger. */
enum fault queries_open(struct crew **out, const char *name, const struct query_places *places, uint32_t threads) MUST_USE;
/* The same for one who writes rows that are no decisions. */
enum fault writes_open(struct crew **out, const struct query_places *places) MUST_USE;
/* The job's work: waits for the clerk where asked, then runs. */
void query_work(struct crew_job *job, void *tools);
/* Makes list_out a buffer of this size, in list. */
enum fault query_room(struct query *query, size_t bytes) MUST_USE;
/* {"items":[ … and ],"next":…}: between them the visitor renders. */
enum fault query_list_begin(struct query *query) MUST_USE;
void query_list_end(struct query *query);

#endif
