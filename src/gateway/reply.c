#include "base/clock.h"
#include "base/metrics.h"
#include "base/text.h"
#include "gateway/request.h"

#include <assert.h>

/* Header lines beside those every answer has. The longest that a handler brings is one with a token, or what keeps a page to
 * itself. */
struct header_lines {
    char data[TOKEN_BYTES_MAX + 512];
    size_t len;
};

static void lines_add(struct header_lines *lines, struct slice text)
{
    if (text.len == 0) return;
    assert(text.len <= sizeof lines->data - lines->len);
    memcpy(lines->data + lines->len, text.data, text.len);
    lines->len += text.len;
}

static void lines_add_number(struct header_lines *lines, uint64_t number)
{
    char digits[20];
    lines_add(lines, (struct slice){ digits, text_from_u64(digits, number) });
}

static void lines_add_allow(struct header_lines *lines, const char *allow)
{
    lines_add(lines, SLICE("Allow: "));
    lines_add(lines, slice_of(allow));
    lines_add(lines, SLICE("\r\n"));
}

static void lines_add_retry(struct header_lines *lines, int status, uint32_t retry_s)
{
    if (status == 401) lines_add(lines, SLICE("WWW-Authenticate: Bearer\r\n"));
    if (status != 503 && status != 429) return;
    lines_add(lines, SLICE("Retry-After: "));
    lines_add_number(lines, retry_s > 0 ? retry_s : 1);
    lines_add(lines, SLICE("\r\n"));
}

static void lines_add_rate(struct header_lines *lines, const struct allowance_answer *left)
{
    if (!left->limited) return;
    lines_add(lines, SLICE("RateLimit: limit="));
    lines_add_number(lines, left->limit.burst);
    lines_add(lines, SLICE(", remaining="));
    lines_add_number(lines, left->rate.remaining);
    lines_add(lines, SLICE(", reset="));
    lines_add_number(lines, (left->rate.reset_ms + 999) / 1000);
    lines_add(lines, SLICE("\r\n"));
}

/* Appends to what the connection has collected. An answer larger than the room left is written out first. */
static void answer_append(struct reactor *reactor, const struct http_head *head, struct slice body, bool head_only)
{
    char *at = reactor->out + reactor->out_len;
    size_t room = sizeof reactor->out - reactor->out_len;
    size_t len = http_head_write(at, room, head);
    assert(len > 0 && (head_only || body.len <= room - len));
    if (!head_only && body.len > 0) {
        memcpy(at + len, body.data, body.len);
        len += body.len;
    }
    reactor->out_len += len;
    metrics_add_labelled(METRIC_RESPONSES, (uint32_t)head->status / 100, 1);
}

/* What the breaker hears. While somebody keeps a row of the ledger, answers are late that are not of what is behind; most of
 * them may be, and others go through the same breaker. */
static int status_judged(struct request *request, int status)
{
    bool kept = gate_was_kept(request_rooms(request)->gate, request->visit.entered_ns / 1000000);
    return kept && status != 500 ? 0 : status;
}

void reply_raw(struct request *request, const struct http_head *head, struct slice body)
{
    struct connection *connection = request->connection;
    struct reactor *reactor = request->reactor;
    struct http_head whole = *head;
    whole.keep_alive = request->http.keep_alive && !atomic_load(&reactor->server->draining) && !head->endless;
    whole.content_length = body.len;
    struct header_lines lines;
    lines.len = 0;
    lines_add(&lines, head->extra);
    if (head->status == 405) lines_add_allow(&lines, request->allow);
    lines_add_retry(&lines, head->status, request->retry_s);
    lines_add_rate(&lines, &request->visit.allowance);
    if (request->http.http10 && whole.keep_alive) lines_add(&lines, SLICE("Connection: keep-alive\r\n"));
    whole.extra = (struct slice){ lines.data, lines.len };
    bool gone = connection->state == CONNECTION_CLOSING || connection->closed;
    if (request->visit.inside)
        guard_leave(request_rooms(request)->guard, &request->visit, gone ? 0 : status_judged(request, head->status),
                    mono_ns());
    if (!whole.keep_alive) connection->close_after = true;
    bool head_only = request->http.method == HTTP_HEAD_;
    if (gone) {
        request_end(request); /* nobody is there to read it */
        return;
    }
    bool fits = connection_make_room(connection, head_only ? 0 : body.len);
    if (connection->state != CONNECTION_CLOSING) {
        answer_append(reactor, &whole, fits ? body : (struct slice){ "", 0 }, head_only);
        if (!fits) connection_send_body(connection, body);
    }
    request_end(request);
}

struct json_out *reply_json(struct request *request, struct json_out *out)
{
    json_out_init(out, request->reactor->body, sizeof request->reactor->body);
    return out;
}

void reply_send(struct request *request, int status, struct json_out *out)
{
    assert(!out->overflow);
    reply_raw(request, &(struct http_head){ .status = status, .content_type = SLICE("application/json") },
              (struct slice){ out->data, out->len });
}

void reply_problem_begin(struct request *request, struct json_out *out, enum problem problem, const char *detail)
{
    problem_begin(reply_json(request, out), problem, detail);
}

void reply_problem_send(struct request *request, enum problem problem, struct json_out *out)
{
    json_object_end(out);
    assert(!out->overflow);
    request_count(request, problem);
    reply_raw(request,
              &(struct http_head){ .status = problem_status(problem), .content_type = SLICE("application/problem+json") },
              (struct slice){ out->data, out->len });
}

void reply_problem(struct request *request, enum problem problem, const char *detail)
{
    const struct face *face = request->face;
    if (face != NULL) {
        request_count(request, problem);
        face->problem(request, problem, detail);
        return;
    }
    struct json_out out;
    reply_problem_begin(request, &out, problem, detail);
    reply_problem_send(request, problem, &out);
}

static const enum problem verdict_problems[VERDICT_COUNT] = {
    [VERDICT_NO_SUCH_SALE] = PROBLEM_NO_SUCH_SALE,
    [VERDICT_NO_SUCH_ORDER] = PROBLEM_NO_SUCH_ORDER,
    [VERDICT_CLOSED] = PROBLEM_CLOSED,
    [VERDICT_NOT_OPEN] = PROBLEM_NOT_OPEN,
    [VERDICT_PAUSED] = PROBLEM_PAUSED,
    [VERDICT_NOT_PAUSED] = PROBLEM_NOT_PAUSED,
    [VERDICT_TOKEN_REQUIRED] = PROBLEM_TOKEN_REQUIRED,
    [VERDICT_TOKEN_INVALID] = PROBLEM_TOKEN_INVALID,
    [VERDICT_NO_TOKENS_LEFT] = PROBLEM_NO_TOKENS_LEFT,
    [VERDICT_NO_TOKENS_NEEDED] = PROBLEM_NO_TOKENS_NEEDED,
    [VERDICT_OVER_LIMIT] = PROBLEM_OVER_LIMIT,
    [VERDICT_ALREADY_WON] = PROBLEM_ALREADY_WON,
    [VERDICT_TOO_MANY_RETURNS] = PROBLEM_TOO_MANY_RETURNS,
    [VERDICT_SOLD_OUT] = PROBLEM_SOLD_OUT,
    [VERDICT_KEY_REUSED] = PROBLEM_KEY_REUSED,
    [VERDICT_NOT_HELD] = PROBLEM_NOT_HELD,
    [VERDICT_AMOUNT_MISMATCH] = PROBLEM_AMOUNT_MISMATCH,
    [VERDICT_ALREADY_PAID] = PROBLEM_ALREADY_PAID,
    [VERDICT_NAME_TAKEN] = PROBLEM_NAME_TAKEN,
    [VERDICT_TOO_MANY_SALES] = PROBLEM_TOO_MANY_SALES,
    [VERDICT_SALE_OPEN] = PROBLEM_SALE_OPEN,
    [VERDICT_NOT_AVAILABLE] = PROBLEM_NOT_AVAILABLE,
    [VERDICT_BAD_INPUT] = PROBLEM_BAD_INPUT,
    [VERDICT_BUSY] = PROBLEM_BUSY,
    [VERDICT_LINE_TIMEOUT] = PROBLEM_LINE_TIMEOUT,
    [VERDICT_BLOCKED] = PROBLEM_BLOCKED,
    [VERDICT_UNKNOWN] = PROBLEM_OUTCOME_UNKNOWN,
};

enum problem verdict_problem(enum verdict verdict)
{
    assert(verdict_problems[verdict] != PROBLEM_NONE);
    return verdict_problems[verdict];
}

void reply_verdict_detail(struct request *request, enum verdict verdict, const char *detail)
{
    reply_problem(request, verdict_problem(verdict), detail);
}

void reply_verdict(struct request *request, enum verdict verdict)
{
    reply_verdict_detail(request, verdict, NULL);
}

void reply_refusal(struct reactor *reactor, enum problem problem)
{
    struct json_out out;
    json_out_init(&out, reactor->body, sizeof reactor->body);
    problem_begin(&out, problem, NULL);
    json_object_end(&out);
    int status = problem_status(problem);
    struct header_lines lines;
    lines.len = 0;
    lines_add_retry(&lines, status, 0);
    const struct http_head head = { .status = status,
                                    .content_type = SLICE("application/problem+json"),
                                    .content_length = out.len,
                                    .extra = { lines.data, lines.len } };
    answer_append(reactor, &head, (struct slice){ out.data, out.len }, false);
}
