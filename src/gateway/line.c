/* Places in the line of a sale, for pages and clients that poll rather than wait. */
#include "base/clock.h"
#include "gateway/request.h"
#include "gateway/resources.h"
#include "guard/places.h"

static struct place_ask place_ask_of(const struct request *request, uint32_t available)
{
    return (struct place_ask){ .sale_id = request->id, .buyer = request->who.name, .available = available };
}

static void waiting_render(struct json_out *out, const struct place_view *view, uint32_t heartbeat_ms)
{
    json_key(out, "position");
    json_u64(out, view->position);
    json_key(out, "people_ahead");
    json_u64(out, view->ahead);
    json_key(out, "wait_ms");
    json_u64(out, view->wait_ms);
    json_key(out, "hopeless");
    json_bool(out, view->hopeless);
    json_key(out, "heartbeat_ms");
    json_u64(out, heartbeat_ms);
}

bool sale_line(struct rooms *rooms, const struct sale *sale, struct line_terms *out)
{
    const struct sale_terms *terms = &sale->terms;
    if (terms->line_name[0] != '\0') return lines_declared(rooms->lines, slice_of(terms->line_name), out);
    *out = (struct line_terms){ terms->line_rate_per_s, terms->line_size, terms->line_timeout_ms };
    return terms->line_rate_per_s != 0;
}

static void place_begin(struct request *request, struct json_out *out, const char *id, enum place_state state)
{
    json_object(reply_json(request, out));
    json_key(out, "place");
    json_text(out, id);
    json_key(out, "state");
    json_text(out, place_state_word(state));
}

static void place_end(struct request *request, struct json_out *out, int status)
{
    json_key(out, "now");
    json_time(out, gate_now_ms(request_rooms(request)->gate));
    json_object_end(out);
    reply_send(request, status, out);
}

/* A place that was let in is worth one purchase token, the same however often it is looked at. */
static void place_token_done(struct gate_ticket *ticket)
{
    struct request *request = REQUEST_OF(ticket, ticket);
    if (ticket->verdict == VERDICT_ALREADY_WON) {
        grab_already(request, &ticket->token.order);
        return;
    }
    if (ticket->verdict != VERDICT_DONE && ticket->verdict != VERDICT_REPEATED) {
        reply_verdict(request, ticket->verdict);
        return;
    }
    struct json_out out;
    uint64_t nonce = ticket->token.nonce;
    place_begin(request, &out, request->place, PLACE_ADMITTED);
    token_render(request, &out, nonce);
    place_end(request, &out, 200);
}

static void place_reply(struct request *request, int status, const struct place_view *view)
{
    struct rooms *rooms = request_rooms(request);
    if (view->state == PLACE_ADMITTED) {
        struct token_ask ask = { .sale_id = request->id, .buyer = request->who.name, .admission = ADMISSION_LINE };
        memcpy(request->place, view->id, sizeof request->place);
        request->ticket.done = place_token_done;
        gate_token(request->reactor->lane, &ask, &request->ticket);
        return;
    }
    struct json_out out;
    place_begin(request, &out, view->id, view->state);
    if (view->state == PLACE_WAITING) waiting_render(&out, view, places_heartbeat_ms(rooms->lines));
    place_end(request, &out, status);
}

/* Why nobody can stand in line for the sale now; PROBLEM_NONE where one can. */
static enum problem sale_state_problem(enum sale_state state)
{
    switch (state) {
    case SALE_UPCOMING:
        return PROBLEM_NOT_OPEN;
    case SALE_PAUSED:
        return PROBLEM_PAUSED;
    case SALE_SOLD_OUT:
        return PROBLEM_SOLD_OUT;
    case SALE_CLOSED:
        return PROBLEM_CLOSED;
    case SALE_RUNNING:
        break;
    }
    return PROBLEM_NONE;
}

/* False: has replied. */
static bool line_sale(struct request *request, struct sale *sale)
{
    struct gate *gate = request_rooms(request)->gate;
    if (gate_sale(gate, request->id, sale)) return true;
    reply_problem(request, gate_sale_is_past(gate, request->id) ? PROBLEM_CLOSED : PROBLEM_NO_SUCH_SALE, NULL);
    return false;
}

void line_post(struct request *request)
{
    struct rooms *rooms = request_rooms(request);
    struct sale sale;
    struct line_terms terms;
    if (!body_none(request) || !line_sale(request, &sale)) return;
    enum problem problem = sale_state_problem(sale_state_at(&sale, gate_now_ms(rooms->gate)));
    if (problem == PROBLEM_NONE && !sale_line(rooms, &sale, &terms)) problem = PROBLEM_NO_LINE;
    if (problem != PROBLEM_NONE) {
        reply_problem(request, problem, NULL);
        return;
    }
    struct place_ask ask = place_ask_of(request, sale.counts.available);
    struct place_view view;
    switch (place_take(rooms->lines, &ask, &terms, mono_ns(), &view)) {
    case LINE_WAITING:
    case LINE_ADMITTED:
        place_reply(request, 201, &view);
        break;
    case LINE_CLOSED:
        reply_problem(request, PROBLEM_NOT_READY, NULL);
        break;
    default:
        reply_problem(request, PROBLEM_BUSY, NULL);
        break;
    }
}

void place_get(struct request *request)
{
    struct sale sale;
    struct place_view view;
    if (!line_sale(request, &sale)) return;
    struct place_ask ask = place_ask_of(request, sale.counts.available);
    if (place_look(request_rooms(request)->lines, request->ids[1], &ask, mono_ns(), &view)) {
        place_reply(request, 200, &view);
    } else {
        reply_problem(request, PROBLEM_NO_SUCH_PLACE, NULL);
    }
}

void place_delete(struct request *request)
{
    if (!body_none(request)) return;
    struct place_ask ask = place_ask_of(request, 0);
    if (place_leave(request_rooms(request)->lines, request->ids[1], &ask)) {
        reply_raw(request, &(struct http_head){ .status = 204 }, (struct slice){ "", 0 });
    } else {
        reply_problem(request, PROBLEM_NO_SUCH_PLACE, NULL);
    }
}
