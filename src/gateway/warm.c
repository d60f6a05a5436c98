/* Warming a sale up. Systems that keep stock in a cache load it before the crowd comes, at once or at a time; here the gate
 * has every sale that is not over in memory from the moment it is made, so there is nothing to load, and the answer says so.
 */
#include "gateway/request.h"
#include "gateway/resources.h"

void warm_post(struct request *request)
{
    static const struct json_field fields[] = { { .name = "at", .kind = JSON_TIME, .nullable = true } };
    uint64_t at_ms = 0;
    struct json_found found;
    struct sale sale;
    struct json_out out;
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
    json_object(reply_json(request, &out));
    json_key(&out, "warmed");
    json_bool(&out, true);
    json_key(&out, "gate");
    json_text(&out, "local");
    json_key(&out, "available");
    json_u64(&out, sale.counts.available);
    json_key(&out, "detail");
    json_text(&out, found.given != 0
                        ? "Nothing to do now or then: this gate has the stock in memory since the sale was made."
                        : "Nothing to do: this gate has the stock in memory since the sale was made.");
    json_key(&out, "now");
    json_time(&out, gate_now_ms(gate));
    json_object_end(&out);
    reply_send(request, 200, &out);
}
