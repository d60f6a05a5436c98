/* Warming a sale up: systems that keep stock in a cache load it before the crowd comes, at once or at a time. A gate of this
 * process has every sale that is not over in memory from the moment it is made; one in Redis is given the sale now, which is
 * early enough for any time that could be asked for. */
#include "gateway/request.h"
#include "gateway/resources.h"

static void warm_done(struct gate_ticket *ticket)
{
    struct request *request = REQUEST_OF(ticket, ticket);
    struct gate *gate = request_rooms(request)->gate;
    struct json_out out;
    bool here = gate_is_here(gate);
    if (ticket->verdict == VERDICT_NO_SUCH_SALE && gate_sale_is_past(gate, request->id)) ticket->verdict = VERDICT_CLOSED;
    if (ticket->verdict != VERDICT_DONE) {
        reply_verdict(request, ticket->verdict);
        return;
    }
    json_object(reply_json(request, &out));
    json_key(&out, "warmed");
    json_bool(&out, true);
    json_key(&out, "gate");
    json_text(&out, here ? "local" : "redis");
    json_key(&out, "available");
    json_u64(&out, ticket->sale.counts.available);
    json_key(&out, "detail");
    json_text(&out, here ? "Nothing to do, now or later: this gate has the stock in memory since the sale was made."
                         : "Redis has the sale as the ledger does, and the scripts that decide.");
    json_key(&out, "now");
    json_time(&out, gate_now_ms(gate));
    json_object_end(&out);
    reply_send(request, 200, &out);
}

void warm_post(struct request *request)
{
    static const struct json_field fields[] = { { .name = "at", .kind = JSON_TIME, .nullable = true } };
    uint64_t at_ms = 0;
    struct json_found found;
    struct sale sale;
    struct gate *gate = request_rooms(request)->gate;
    if (!body_read(request, fields, 1, &at_ms, &found)) return;
    if (!gate_sale(gate, request->id, &sale)) {
        reply_problem(request, gate_sale_is_past(gate, request->id) ? PROBLEM_CLOSED : PROBLEM_NO_SUCH_SALE, NULL);
        return;
    }
    if (!request_owns(request, sale.seller)) {
        reply_problem(request, PROBLEM_NO_SUCH_SALE, NULL);
        return;
    }
    request->ticket.done = warm_done;
    gate_warm(request->reactor->lane, request->id, &request->ticket);
}
