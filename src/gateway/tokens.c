/* Purchase tokens: who has one may grab in a sale with admission token. */
#include "gateway/request.h"
#include "gateway/resources.h"

void token_render(struct request *request, struct json_out *out, uint64_t nonce)
{
    uint64_t now_ms = gate_now_ms(request_rooms(request)->gate);
    const struct token_claim claim = {
        .sale_id = request->id,
        .buyer = request->who.name,
        .nonce = nonce,
        .expires_ms = now_ms + request->reactor->server->options.token_purchase_ttl_s * UINT64_C(1000),
    };
    char text[PURCHASE_TOKEN_BYTES_MAX];
    size_t len = token_make(request->reactor->tokens, &claim, text);
    json_key(out, "token");
    json_string(out, (struct slice){ text, len });
    json_key(out, "expires_at");
    json_time(out, claim.expires_ms);
}

static void token_given(struct request *request, uint64_t nonce)
{
    struct json_out out;
    json_object(reply_json(request, &out));
    token_render(request, &out, nonce);
    json_key(&out, "now");
    json_time(&out, gate_now_ms(request_rooms(request)->gate));
    json_object_end(&out);
    reply_send(request, 201, &out);
}

static void token_done(struct gate_ticket *ticket)
{
    struct request *request = REQUEST_OF(ticket, ticket);
    enum verdict verdict = ticket->verdict;
    if (verdict == VERDICT_NO_SUCH_SALE && gate_sale_is_past(request_rooms(request)->gate, request->id))
        verdict = VERDICT_CLOSED;
    if (verdict == VERDICT_DONE || verdict == VERDICT_REPEATED) {
        token_given(request, ticket->token.nonce);
    } else if (verdict == VERDICT_ALREADY_WON) {
        grab_already(request, &ticket->token.order);
    } else {
        reply_verdict(request, verdict);
    }
}

void tokens_post(struct request *request)
{
    if (!body_none(request)) return;
    struct token_ask ask = { .sale_id = request->id, .buyer = request->who.name, .admission = ADMISSION_TOKEN };
    request->ticket.done = token_done;
    gate_token(request->reactor->lane, &ask, &request->ticket);
}
