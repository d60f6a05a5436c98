/* The numbers of a sale: what became of its orders, from the ledger, and how its grabs were answered, from memory. */
#include "base/text.h"
#include "gateway/request.h"
#include "gateway/resources.h"

#include <stdlib.h>

#define SECONDS_DEFAULT 60
/* {"at":"2026-01-31T12:00:00.000Z","requests":4294967295,"wins":4294967295,"refusals":4294967295}, */
#define SECOND_BYTES_MAX 100
#define VERDICT_BYTES_MAX 64
#define ORDERS_BYTES_MAX 1024

static void number(struct json_out *out, const char *key, uint64_t value)
{
    json_key(out, key);
    json_u64(out, value);
}

/* Wins are those of the record: a restart forgets the refusals only. */
void render_verdicts(struct json_out *out, const struct counts *counts, const struct sale *sale)
{
    uint64_t totals[COUNTED_KINDS];
    counts_totals(counts, sale->id, totals);
    totals[COUNTED_WON] = sale->orders_made;
    json_key(out, "verdicts");
    json_object(out);
    for (unsigned kind = 0; kind < COUNTED_KINDS; kind++) {
        if (totals[kind] != 0) number(out, counted_word(kind), totals[kind]);
    }
    json_object_end(out);
}

void render_second(struct json_out *out, const struct counts *counts, uint64_t sale_id, uint64_t second)
{
    struct counts_second at = counts_at(counts, sale_id, second);
    json_object(out);
    json_key(out, "at");
    json_time(out, second * 1000);
    number(out, "requests", at.requests);
    number(out, "wins", at.wins);
    number(out, "refusals", at.refusals);
    json_object_end(out);
}

void render_latency(struct json_out *out, const uint64_t *times)
{
    static const struct {
        const char *key;
        uint32_t permille;
    } rows[] = { { "p50", 500 }, { "p90", 900 }, { "p99", 990 }, { "p999", 999 } };
    bool any = counts_within_us(times, 1000) != 0;
    json_key(out, "latency_us");
    if (!any) {
        json_null(out);
        return;
    }
    json_object(out);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        number(out, rows[i].key, counts_within_us(times, rows[i].permille));
    json_object_end(out);
}

static void orders_render(struct json_out *out, const struct ledger_numbers *numbers)
{
    json_key(out, "orders");
    json_object(out);
    for (enum order_state state = 0; state <= ORDER_STATE_LAST; state++) {
        json_key(out, order_state_word(state));
        json_object(out);
        number(out, "orders", numbers->orders[state]);
        number(out, "units", numbers->units[state]);
        json_object_end(out);
    }
    json_object_end(out);
    json_key(out, "holds");
    json_object(out);
    number(out, "made", numbers->holds_made);
    number(out, "converted", numbers->holds_paid);
    number(out, "returned_units", numbers->units_returned);
    json_object_end(out);
}

/* opens_at may have been moved after the sale had sold out: then it took no time. */
static void sold_out_render(struct json_out *out, const struct sale *sale, uint64_t sold_out_ms)
{
    uint64_t opens_ms = sale->terms.opens_ms;
    json_key(out, "sold_out_at");
    if (sold_out_ms == 0) {
        json_null(out);
        json_key(out, "time_to_sell_out_ms");
        json_null(out);
        return;
    }
    json_time(out, sold_out_ms);
    number(out, "time_to_sell_out_ms", sold_out_ms > opens_ms ? sold_out_ms - opens_ms : 0);
}

static void stats_render(struct query *query, const struct ledger_numbers *numbers)
{
    const struct rooms *rooms = query->rooms;
    struct json_out *out = &query->list_out;
    uint64_t now_ms = gate_now_ms(rooms->gate), times[COUNTS_TIMES];
    json_object(out);
    json_key(out, "sale");
    render_sale(out, &query->sale, now_ms);
    render_verdicts(out, rooms->counts, &query->sale);
    json_key(out, "since");
    json_time(out, rooms->counts_since_ms);
    sold_out_render(out, &query->sale, numbers->sold_out_ms);
    orders_render(out, numbers);
    counts_times(rooms->counts, query->sale.id, times);
    render_latency(out, times);
    json_key(out, "series");
    json_array(out);
    for (uint64_t left = query->limit; left > 0; left--)
        render_second(out, rooms->counts, query->sale.id, now_ms / 1000 + 1 - left);
    json_array_end(out);
    json_key(out, "now");
    json_time(out, now_ms);
    json_object_end(out);
}

/* Ownership is part of the look-up (P8): seller is empty for admins. */
static void stats_run(struct query *query, struct ledger *ledger)
{
    struct ledger_numbers numbers;
    query->fault = ledger_sale(ledger, query->id, &query->sale, &query->found);
    if (query->fault != FAULT_NONE || !query->found) return;
    query->found = query->seller[0] == '\0' || strcmp(query->seller, query->sale.seller) == 0;
    if (!query->found) return;
    query->fault = ledger_numbers(ledger, query->id, &numbers, &query->found);
    if (query->fault != FAULT_NONE || !query->found) return;
    query->fault = query_room(query, QUERY_ITEM_BYTES_MAX + ORDERS_BYTES_MAX + COUNTED_KINDS * VERDICT_BYTES_MAX +
                                         (size_t)query->limit * SECOND_BYTES_MAX);
    if (query->fault == FAULT_NONE) stats_render(query, &numbers);
}

static void stats_done(struct crew_job *job)
{
    struct request *request = REQUEST_OF(job, query.job);
    if (!job->late && request->query.fault == FAULT_NONE && !request->query.found) {
        reply_problem(request, PROBLEM_NO_SUCH_SALE, NULL);
    } else {
        list_reply(job);
    }
}

static bool seconds_read(struct request *request, uint32_t *out)
{
    char text[16];
    uint64_t number = SECONDS_DEFAULT;
    bool bad = false;
    bool given = http_query_get(request->http.query, "seconds", text, sizeof text, &bad);
    if (given && (!text_to_u64(slice_of(text), &number) || number < 1 || number > COUNTS_SECONDS)) bad = true;
    *out = (uint32_t)number;
    if (bad) reply_problem(request, PROBLEM_BAD_INPUT, "seconds must be an integer from 1 to 3600");
    return !bad;
}

void stats_get(struct request *request)
{
    struct query *query = &request->query;
    if (!seconds_read(request, &query->limit)) return;
    bool admin = request->who.role == ROLE_ADMIN;
    memcpy(query->seller, request->who.name_bytes, sizeof query->seller);
    if (admin) query->seller[0] = '\0';
    query->id = request->id;
    query->seq_wait = gate_seq_decided(request_rooms(request)->gate);
    request_read(request, stats_run, stats_done);
}
