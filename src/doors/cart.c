/* The cart door: PUT /shop/cart/add, behind the line of the sale. Every answer is an envelope: code, data, msg; code 0 is
 * won. */
#include "base/text.h"
#include "doors/doors.h"
#include "doors/goods.h"
#include "gateway/request.h"
#include "gateway/resources.h"

#include <assert.h>

static void envelope_reply(struct request *request, int status, uint32_t code, const char *msg)
{
    struct json_out out;
    json_object(reply_json(request, &out));
    json_key(&out, "code");
    json_u64(&out, code);
    json_key(&out, "data");
    json_null(&out);
    json_key(&out, "msg");
    json_text(&out, msg);
    json_object_end(&out);
    reply_send(request, status, &out);
}

/* The words its clients know. What became of the sale is an answer like any other, so its status is 200; the rest has the
 * status that the native interface gives it, also as the code. */
static const struct {
    enum problem problem;
    int status;
    uint32_t code;
    const char *msg;
} words[] = {
    { PROBLEM_SOLD_OUT, 200, 1001, "no stock" },
    { PROBLEM_ALREADY_WON, 200, 1002, "already bought" },
    { PROBLEM_LINE_TIMEOUT, 200, 1003, "request timeout" },
    { PROBLEM_CLOSED, 200, 1004, "sale closed" },
    { PROBLEM_NOT_OPEN, 200, 1005, "not open yet" },
    { PROBLEM_PAUSED, 200, 1006, "sale paused" },
    { PROBLEM_BAD_INPUT, 400, 400, "bad request" },
    { PROBLEM_NOT_LOGGED_IN, 401, 401, "need login" },
    { PROBLEM_TOKEN_EXPIRED, 401, 401, "need login" },
    { PROBLEM_BLOCKED, 403, 403, "blocked" },
    { PROBLEM_NO_SUCH_SALE, 404, 404, "no such goods" },
    { PROBLEM_NO_SUCH_EVENT, 404, 404, "no such event" },
    { PROBLEM_RATE_LIMITED, 429, 429, "too many requests" },
    { PROBLEM_BUSY, 503, 503, "busy" },
};

static void problem_reply(struct request *request, enum problem problem, const char *detail)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (words[i].problem != problem) continue;
        envelope_reply(request, words[i].status, words[i].code, words[i].msg);
        return;
    }
    int status = problem_status(problem);
    envelope_reply(request, status, (uint32_t)status, detail != NULL ? detail : problem_detail(problem));
}

static void won_reply(struct request *request, const struct order *order)
{
    (void)order;
    envelope_reply(request, 200, 0, "ok");
}

static void already_reply(struct request *request, const struct order *order)
{
    (void)order;
    problem_reply(request, PROBLEM_ALREADY_WON, NULL);
}

/* A sale that asks for no login knows no buyers, so that nobody could be told that they have it already: not sold here. */
static void cart_go(struct request *request)
{
    struct board_notice notice;
    char key[IDEMPOTENCY_KEY_BYTES_MAX + 1];
    uint64_t sale_id = request->id;
    const struct gate_stranger stranger = { .sale_id = sale_id };
    if (request_meets(request, &stranger, cart_go)) return;
    memcpy(key, request->key, sizeof key);
    bool known = gate_sale_notice(request_rooms(request)->gate, sale_id, &notice);
    if (known && notice.admission == ADMISSION_OPEN) {
        reply_problem(request, PROBLEM_NO_SUCH_SALE, NULL);
        return;
    }
    const struct grab_ask ask = { .units = 1, .key = slice_of(key), .token = { NULL, 0 } };
    grab_begin(request, &ask);
}

/* What is asked stands where the answer will: names in sale and event, the event's id in after, both 0 where there is none.
 * A sale given by its id is in id, and after is its own event, whose name is to be the one that was given. */
static void goods_run(struct query *query, struct ledger *ledger)
{
    if (query->id != 0) {
        struct event event;
        query->fault = ledger_event(ledger, query->after, &event, &query->found);
        query->found = query->found && strcmp(event.name, query->event.name) == 0;
        return;
    }
    const struct ledger_goods goods = { .event_id = query->after,
                                        .event = slice_of(query->event.name),
                                        .name = slice_of(query->sale.terms.name),
                                        .now_ms = query->now_ms };
    query->fault = ledger_goods(ledger, &goods, &query->id, &query->found);
}

static void goods_done(struct crew_job *job)
{
    struct request *request = REQUEST_OF(job, query.job);
    const struct query *query = &request->query;
    struct goods goods;
    uint64_t sale_id = query->id;
    memcpy(goods.name, query->sale.terms.name, sizeof goods.name);
    memcpy(goods.event, query->event.name, sizeof goods.event);
    if (job->late || query->fault != FAULT_NONE) {
        reply_problem(request, PROBLEM_BUSY, NULL);
    } else if (!query->found) {
        goods_forget(&goods);
        reply_problem(request, PROBLEM_NO_SUCH_SALE, NULL);
    } else {
        goods_remember(&goods, reactor_now_ms(request->reactor), sale_id);
        request->id = sale_id;
        cart_go(request);
    }
}
_Static_assert(sizeof(((struct goods *)0)->name) == sizeof(((struct sale_terms *)0)->name) &&
                   sizeof(((struct goods *)0)->event) == sizeof(((struct event *)0)->name),
               "names fit where they are asked for");

/* A name that is all digits is an id. */
static bool id_read(const char *text, uint64_t *id)
{
    *id = 0;
    for (const char *c = text; *c != '\0'; c++) {
        if (*c < '0' || *c > '9') return false;
    }
    if (!text_to_u64(slice_of(text), id)) *id = UINT64_MAX; /* nobody's */
    return true;
}

static void cart_put(struct request *request);

/* Both ids are looked at in memory; a name is asked for in the ledger, once the sales that were made until now are in it. */
static void goods_ask(struct request *request, const struct goods *goods)
{
    struct gate *gate = request_rooms(request)->gate;
    struct query *query = &request->query;
    struct sale sale;
    uint64_t sale_id, event_id;
    bool by_id = id_read(goods->name, &sale_id), event_by_id = id_read(goods->event, &event_id);
    const struct gate_stranger stranger = { .sale_id = sale_id };
    if (by_id && sale_id != 0 && request_meets(request, &stranger, cart_put)) return;
    if (by_id && !gate_sale(gate, sale_id, &sale)) {
        reply_problem(request, gate_sale_is_past(gate, sale_id) ? PROBLEM_CLOSED : PROBLEM_NO_SUCH_SALE, NULL);
    } else if (by_id && (sale.terms.event_id == 0 || (event_by_id && sale.terms.event_id != event_id))) {
        reply_problem(request, PROBLEM_BAD_INPUT, NULL); /* not of this event */
    } else if (by_id && event_by_id) {
        goods_remember(goods, reactor_now_ms(request->reactor), sale_id);
        request->id = sale_id;
        cart_go(request);
    } else {
        query->id = by_id ? sale_id : 0;
        query->after = by_id ? sale.terms.event_id : event_id;
        query->now_ms = gate_now_ms(gate);
        query->seq_wait = gate_seq_decided(gate);
        memcpy(query->sale.terms.name, goods->name, sizeof goods->name);
        memcpy(query->event.name, goods->event, sizeof goods->event);
        request_query(request, goods_run, goods_done);
    }
}

/* What is an object is read as JSON whatever it calls itself, as at the coupon door: clients forget to say so. */
static bool goods_read(struct request *request, struct goods *goods)
{
    static const struct json_field fields[] = {
        { .name = "goods_id",
          .kind = JSON_NAME,
          .required = true,
          .min = 1,
          .max = SALE_NAME_BYTES_MAX,
          .offset = offsetof(struct goods, name) },
        { .name = "event_id",
          .kind = JSON_NAME,
          .required = true,
          .min = 1,
          .max = EVENT_NAME_BYTES_MAX,
          .offset = offsetof(struct goods, event) },
    };
    struct json_found found;
    bool reads = json_read(request->http.body, fields, 2, goods, &found);
    if (!reads) reply_problem(request, PROBLEM_BAD_INPUT, found.objection);
    return reads;
}

static void cart_put(struct request *request)
{
    struct goods goods;
    struct slice key;
    uint64_t sale_id;
    if (!goods_read(request, &goods) || !grab_key(request, &key)) return;
    memcpy(request->key, key.data, key.len); /* the head is gone once the ledger has been asked */
    request->key[key.len] = '\0';
    if (goods_recall(&goods, reactor_now_ms(request->reactor), &sale_id)) {
        request->id = sale_id;
        cart_go(request);
    } else {
        goods_ask(request, &goods);
    }
}

static const struct face face = { .problem = problem_reply, .won = won_reply, .already = already_reply };

static const struct route routes[] = {
    { HTTP_PUT_, "/shop/cart/add", WHO_CUSTOMER, RATE_GRAB, cart_put, &face },
};

const struct route_table cart_door = { routes, sizeof routes / sizeof *routes, "/shop", &face };
