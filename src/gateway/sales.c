#include "base/siphash.h"
#include "base/text.h"
#include "gateway/request.h"
#include "gateway/resources.h"

/* Weak, and of what stands before "now": it changes when the sale does. */
static size_t etag_write(char out[32], struct slice sale_json)
{
    static const uint8_t key[16] = "stampede etag";
    uint64_t hash = siphash(key, sale_json.data, sale_json.len - sizeof "\"now\":\"\"}" - TIME_TEXT_BYTES);
    return (size_t)snprintf(out, 32, "W/\"%016llx\"", (unsigned long long)hash);
}

static void sale_reply(struct request *request, const struct sale *sale, struct slice if_none_match)
{
    struct json_out out;
    render_sale(reply_json(request, &out), sale, gate_now_ms(request_rooms(request)->gate));
    char etag[32], extra[64];
    size_t etag_len = etag_write(etag, (struct slice){ out.data, out.len });
    bool same = http_etag_matches(if_none_match, (struct slice){ etag + 2, etag_len - 2 });
    int extra_len = snprintf(extra, sizeof extra, "ETag: %s\r\n", etag);
    const struct http_head head = {
        .status = same ? 304 : 200,
        .content_type = same ? (struct slice){ "", 0 } : SLICE("application/json"),
        .extra = { extra, (size_t)extra_len },
    };
    reply_raw(request, &head, same ? (struct slice){ "", 0 } : (struct slice){ out.data, out.len });
}

static void sale_run(struct query *query, struct ledger *ledger)
{
    query->fault = ledger_sale(ledger, query->id, &query->sale, &query->found);
}

static void sale_done(struct crew_job *job)
{
    struct request *request = REQUEST_OF(job, query.job);
    if (job->late || request->query.fault != FAULT_NONE) {
        reply_problem(request, PROBLEM_BUSY, NULL);
    } else if (!request->query.found) {
        reply_problem(request, PROBLEM_NO_SUCH_SALE, NULL);
    } else {
        sale_reply(request, &request->query.sale, slice_of(request->key));
    }
}

static void sale_seen(struct gate_ticket *ticket)
{
    struct request *request = REQUEST_OF(ticket, ticket);
    if (ticket->verdict == VERDICT_DONE) {
        sale_reply(request, &ticket->sale, slice_of(request->key));
    } else if (ticket->verdict != VERDICT_NO_SUCH_SALE) {
        reply_verdict(request, ticket->verdict);
    } else if (!gate_sale_is_past(request_rooms(request)->gate, request->id)) {
        reply_problem(request, PROBLEM_NO_SUCH_SALE, NULL);
    } else {
        request->query.id = request->id;
        request->query.seq_wait = 0;
        request_query(request, sale_run, sale_done);
    }
}

/* The tag is all we need of the head after this. */
void sale_get(struct request *request)
{
    struct slice tag = request->http.if_none_match;
    size_t len = tag.len < sizeof request->key ? tag.len : 0;
    memcpy(request->key, tag.data, len);
    request->key[len] = '\0';
    request->ticket.done = sale_seen;
    gate_look(request->reactor->lane, request->id, &request->ticket);
}

static void sales_visit(void *arg, const struct sale *sale)
{
    struct query *query = arg;
    render_sale(&query->list_out, sale, query->now_ms);
    query->list_count++;
    query->list_last = sale->id;
}

static void sales_run(struct query *query, struct ledger *ledger)
{
    const struct ledger_sales_query ask = { .seller = slice_of(query->seller),
                                            .state = query->state,
                                            .now_ms = query->now_ms,
                                            .after = query->after,
                                            .limit = query->limit };
    query->fault = query_list_begin(query);
    if (query->fault == FAULT_NONE) query->fault = ledger_sales(ledger, &ask, sales_visit, query);
    if (query->fault == FAULT_NONE) query_list_end(query);
}

void sales_get(struct request *request)
{
    static const char *const states[] = { "upcoming", "open", "paused", "sold_out", "closed", NULL };
    struct query *query = &request->query;
    if (!query_page(request) || !query_choice(request, "state", states, &query->state) ||
        !query_text(request, "seller", query->seller, sizeof query->seller))
        return;
    list_ask(request, sales_run);
}
