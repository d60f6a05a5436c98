#include "command/demo_call.h"

#include "wire/loose.h"

#include <stddef.h>
#include <stdio.h>

static size_t answer_take(char *data, size_t size, size_t count, void *arg)
{
    struct call *call = arg;
    size_t len = size * count;
    if (len > sizeof call->answer - call->answer_len) return 0; /* ends the request */
    memcpy(call->answer + call->answer_len, data, len);
    call->answer_len += len;
    return len;
}

bool call_open(struct call *call)
{
    call->headers = NULL;
    call->answer_len = 0;
    call->curl = curl_easy_init();
    return call->curl != NULL;
}

void call_close(struct call *call)
{
    if (call->curl != NULL) curl_easy_cleanup(call->curl);
    curl_slist_free_all(call->headers);
    *call = (struct call){ .curl = NULL };
}

static bool header_add(struct call *call, const char *name, const char *value)
{
    char line[TOKEN_BYTES_MAX + 64];
    snprintf(line, sizeof line, "%s%s", name, value);
    struct curl_slist *longer = curl_slist_append(call->headers, line);
    if (longer != NULL) call->headers = longer;
    return longer != NULL;
}

bool call_prepare(struct call *call, const struct call_ask *ask)
{
    bool post = ask->body.data != NULL, good = true;
    if (ask->body.len > sizeof call->body) return false;
    curl_easy_reset(call->curl); /* connections stay */
    curl_slist_free_all(call->headers);
    call->headers = NULL;
    call->answer_len = 0;
    snprintf(call->url, sizeof call->url, "%s%s", ask->base, ask->path);
    if (ask->token != NULL) good = header_add(call, "Authorization: Bearer ", ask->token);
    if (good && ask->key != NULL) good = header_add(call, "Idempotency-Key: ", ask->key);
    if (good && post) good = header_add(call, "Content-Type: application/json", "");
    if (!good) return false;

    curl_easy_setopt(call->curl, CURLOPT_URL, call->url);
    curl_easy_setopt(call->curl, CURLOPT_PROXY, "");
    curl_easy_setopt(call->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(call->curl, CURLOPT_TIMEOUT_MS, (long)CALL_WAIT_MS_MAX);
    curl_easy_setopt(call->curl, CURLOPT_WRITEFUNCTION, answer_take);
    curl_easy_setopt(call->curl, CURLOPT_WRITEDATA, call);
    curl_easy_setopt(call->curl, CURLOPT_PRIVATE, call);
    curl_easy_setopt(call->curl, CURLOPT_HTTPHEADER, call->headers);
    if (post) {
        memcpy(call->body, ask->body.data, ask->body.len);
        curl_easy_setopt(call->curl, CURLOPT_POSTFIELDSIZE, (long)ask->body.len);
        curl_easy_setopt(call->curl, CURLOPT_POSTFIELDS, call->body);
    }
    return true;
}

long call_status(const struct call *call, CURLcode result)
{
    long status = 0;
    if (result == CURLE_OK) curl_easy_getinfo(call->curl, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

long call_make(struct call *call, const struct call_ask *ask)
{
    return call_prepare(call, ask) ? call_status(call, curl_easy_perform(call->curl)) : 0;
}

static struct slice answer_of(const struct call *call)
{
    return (struct slice){ call->answer, call->answer_len };
}

bool call_read_sale(const struct call *call, struct call_sale *out)
{
    static const struct json_field fields[] = {
        { "id", JSON_TEXT, .min = 1, .max = 20, .offset = offsetof(struct call_sale, id) },
        { "offered", JSON_INTEGER, .max = STOCK_MAX, .offset = offsetof(struct call_sale, offered) },
        { "available", JSON_INTEGER, .max = STOCK_MAX, .offset = offsetof(struct call_sale, available) },
        { "held", JSON_INTEGER, .max = STOCK_MAX, .offset = offsetof(struct call_sale, held) },
        { "sold", JSON_INTEGER, .max = STOCK_MAX, .offset = offsetof(struct call_sale, sold) },
    };
    struct loose_found found;
    *out = (struct call_sale){ .id = "" };
    return loose_json_read(answer_of(call), fields, 5, out, &found) && found.given == 0x1f;
}

/* An order as the interface promises it: one field more or less is no order. */
static const struct json_field order_fields[] = {
    { "no", JSON_TEXT, true, .min = 1, .max = 20, .offset = offsetof(struct call_order, no) },
    { "sale", JSON_TEXT, true, .min = 1, .max = 20, .offset = offsetof(struct call_order, sale) },
    { "buyer", JSON_TEXT, true, .min = 1, .max = BUYER_BYTES_MAX, .offset = offsetof(struct call_order, buyer) },
    { "units", JSON_INTEGER, true, .min = 1, .max = UNITS_PER_GRAB_MAX, .offset = offsetof(struct call_order, units) },
    { "amount", JSON_INTEGER, true, true, .max = AMOUNT_MAX, .offset = offsetof(struct call_order, amount) },
    { "state", JSON_TEXT, true, .min = 1, .max = 15, .offset = offsetof(struct call_order, state) },
    { "won_at", JSON_TIME, true, .offset = offsetof(struct call_order, won_ms) },
    { "pay_by", JSON_TIME, true, true, .offset = offsetof(struct call_order, pay_by_ms) },
};
#define ORDER_FIELDS (sizeof order_fields / sizeof *order_fields)

bool call_read_order(const struct call *call, struct call_order *out)
{
    struct json_found found;
    *out = (struct call_order){ .no = "" };
    return json_read(answer_of(call), order_fields, ORDER_FIELDS, out, &found);
}

bool call_read_win(const struct call *call, struct call_order *out)
{
    static const struct json_field fields[] = {
        { "order", JSON_EITHER, true, .max = 0, .members = order_fields, .members_count = ORDER_FIELDS },
        { "now", JSON_TIME, true, .offset = offsetof(struct call_order, now_ms) },
    };
    struct json_found found;
    *out = (struct call_order){ .no = "" };
    return json_read(answer_of(call), fields, 2, out, &found) && out->no[0] != '\0';
}

void call_read_code(const struct call *call, char out[CALL_CODE_BYTES_MAX + 1])
{
    static const struct json_field field = { "code", JSON_TEXT, .min = 1, .max = CALL_CODE_BYTES_MAX };
    struct loose_found found;
    out[0] = '\0';
    if (!loose_json_read(answer_of(call), &field, 1, out, &found)) out[0] = '\0';
}

bool call_read_token(const struct call *call, char out[TOKEN_BYTES_MAX + 1])
{
    static const struct json_field field = { "token", JSON_TEXT, .min = 1, .max = TOKEN_BYTES_MAX };
    struct loose_found found;
    return loose_json_read(answer_of(call), &field, 1, out, &found) && found.given == 1;
}
