/* Places in the line of a sale, for pages and clients that poll rather than wait. */
#include "base/clock.h"
#include "gateway/request.h"
#include "gateway/resources.h"
#include "guard/places.h"

static struct place_ask place_ask_of(const struct request *request, const struct sale *sale)
{
    return (struct place_ask){ .sale_id = request->id,
                               .buyer = request->who.name,
                               .grabs_max = sale->terms.grabs_per_buyer_max,
                               .available = sale->counts.available };
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

static void place_stand(struct request *request);

/* The token of the place is spent, or another look was first and has one that may be. Who asked for a place gets another, at
 * the end of the line. */
static void place_over(struct request *request)
{
    const struct place_ask ask = { .sale_id = request->id, .buyer = request->who.name };
    (void)place_leave(request_rooms(request)->lines, slice_of(request->place), &ask);
    if (request->http.method == HTTP_POST_) {
        place_stand(request);
    } else {
        reply_problem(request, PROBLEM_NO_SUCH_PLACE, PLACE_USED_DETAIL);
    }
}

/* A place that was let in is worth one purchase token, the same however often it is looked at. */
static void place_token_done(struct gate_ticket *ticket)
{
    struct request *request = REQUEST_OF(ticket, ticket);
    const struct place_ask ask = { .sale_id = request->id, .buyer = request->who.name };
    if (ticket->verdict == VERDICT_TOKEN_INVALID) {
        place_over(request);
        return;
    }
    if (ticket->verdict == VERDICT_ALREADY_WON) {
        grab_already(request, &ticket->token.order);
        return;
    }
    if (ticket->verdict != VERDICT_DONE && ticket->verdict != VERDICT_REPEATED) {
        reply_verdict(request, ticket->verdict);
        return;
    }
    uint64_t nonce = ticket->token.nonce;
    if (!place_bind(request_rooms(request)->lines, slice_of(request->place), &ask, nonce)) {
        place_over(request);
        return;
    }
    struct json_out out;
    place_begin(request, &out, request->place, PLACE_ADMITTED);
    token_render(request, &out, nonce);
    place_end(request, &out, 200);
}

static void place_reply(struct request *request, int status, const struct place_view *view)
{
    struct rooms *rooms = request_rooms(request);
    if (view->state == PLACE_ADMITTED) {
        struct token_ask ask = {
            .sale_id = request->id, .buyer = request->who.name, .admission = ADMISSION_LINE, .nonce = view->nonce
        };
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

/* False: has replied. */
static bool sale_found(struct request *request, struct sale *sale)
{
    struct gate *gate = request_rooms(request)->gate;
    if (gate_sale(gate, request->id, sale)) return true;
    reply_problem(request, gate_sale_is_past(gate, request->id) ? PROBLEM_CLOSED : PROBLEM_NO_SUCH_SALE, NULL);
    return false;
}

static void place_stand(struct request *request)
{
    struct rooms *rooms = request_rooms(request);
    struct sale sale;
    struct line_terms terms;
    if (!sale_found(request, &sale)) return;
    if (!sale_line(rooms, &sale, &terms)) {
        request->retry_s = LINE_GONE_RETRY_S;
        reply_problem(request, PROBLEM_BUSY, LINE_GONE_DETAIL);
        return;
    }
    struct place_ask ask = place_ask_of(request, &sale);
    struct place_view view;
    switch (place_take(rooms->lines, &ask, &terms, mono_ns(), &view)) {
    case LINE_WAITING:
    case LINE_ADMITTED:
        place_reply(request, 201, &view);
        break;
    case LINE_CLOSED:
        reply_problem(request, PROBLEM_NOT_READY, NULL);
        break;
    case LINE_TWICE:
        reply_problem(request, PROBLEM_BUSY, LINE_TWICE_DETAIL);
        break;
    default:
        guard_refused(rooms->guard, GUARD_LINE, &request->visit);
        reply_problem(request, PROBLEM_BUSY, LINE_FULL_DETAIL);
        break;
    }
}

/* Who could win now, were it his turn, gets his place. */
static void place_probed(struct gate_ticket *ticket)
{
    struct request *request = REQUEST_OF(ticket, ticket);
    if (ticket->verdict == VERDICT_ALREADY_WON) {
        grab_already(request, &ticket->grab.order);
    } else if (ticket->verdict != VERDICT_BUSY) {
        reply_verdict(request, ticket->verdict);
    } else {
        place_stand(request);
    }
}

/* The gate is asked as if for a grab of one unit that is turned away: what is no win is told at once, in the order of a
 * grab, and nobody who has won all he may takes a slot from others. */
void line_post(struct request *request)
{
    struct sale sale;
    if (!body_none(request) || !sale_found(request, &sale)) return;
    if (sale.terms.admission != ADMISSION_LINE) {
        reply_problem(request, PROBLEM_NO_LINE, NULL);
        return;
    }
    struct grab grab = { .sale_id = request->id, .buyer = request->who.name, .units = 1, .turned_away = true };
    request->ticket.done = place_probed;
    gate_grab(request->reactor->lane, &grab, &request->ticket);
}

void place_get(struct request *request)
{
    struct sale sale;
    struct place_view view;
    if (!sale_found(request, &sale)) return;
    struct place_ask ask = place_ask_of(request, &sale);
    if (place_look(request_rooms(request)->lines, request->ids[1], &ask, mono_ns(), &view)) {
        place_reply(request, 200, &view);
    } else {
        reply_problem(request, PROBLEM_NO_SUCH_PLACE, NULL);
    }
}

void place_delete(struct request *request)
{
    if (!body_none(request)) return;
    const struct place_ask ask = { .sale_id = request->id, .buyer = request->who.name };
    if (place_leave(request_rooms(request)->lines, request->ids[1], &ask)) {
        reply_raw(request, &(struct http_head){ .status = 204 }, (struct slice){ "", 0 });
    } else {
        reply_problem(request, PROBLEM_NO_SUCH_PLACE, NULL);
    }
}
