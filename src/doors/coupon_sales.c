/* Coupons are sales: amount is how many there are, stock the face value, which is the price; one for each customer. They are
 * named by seller and name, and those of two sellers have nothing to do with each other. */
#include "base/text.h"
#include "doors/body.h"
#include "doors/coupon.h"
#include "gateway/request.h"
#include "gateway/resources.h"

#include <openssl/crypto.h>
#include <stdlib.h>

#define PAGE_ROWS 20
#define CREATE_FAILED "Create failed. Maybe (username,coupon name) duplicates"

/* What stands for {name} in the path into out. False: nobody and nothing can be called so. */
static bool name_read(struct slice segment, char *out, size_t size)
{
    size_t len;
    return http_segment_decode(segment, out, size, &len) && len > 0 && memchr(out, 0, len) == NULL &&
           utf8_valid((struct slice){ out, len });
}

struct coupon_body {
    char name[SALE_NAME_BYTES_MAX + 1];
    char description[SALE_DESCRIPTION_BYTES_MAX + 1];
    int64_t amount, stock;
};

static const struct json_field coupon_fields[] = {
    { .name = "name",
      .kind = JSON_TEXT,
      .min = 1,
      .max = SALE_NAME_BYTES_MAX,
      .offset = offsetof(struct coupon_body, name) },
    { .name = "amount", .kind = JSON_INTEGER, .min = 1, .max = STOCK_MAX, .offset = offsetof(struct coupon_body, amount) },
    { .name = "stock", .kind = JSON_INTEGER, .max = PRICE_MAX, .offset = offsetof(struct coupon_body, stock) },
    { .name = "description",
      .kind = JSON_LINES,
      .max = SALE_DESCRIPTION_BYTES_MAX,
      .offset = offsetof(struct coupon_body, description) },
};
enum { FIELD_NAME = 1 << 0, FIELD_AMOUNT = 1 << 1 };

void coupon_create(struct request *request)
{
    char seller[USERNAME_BYTES_MAX + 1];
    if (!name_read(request->ids[0], seller, sizeof seller) || !slice_is(request->who.name, seller)) {
        coupon_message(request, 401, "Cannot create coupons for other users.");
        return;
    }
    struct coupon_body body = { .stock = 0 };
    struct loose_found found;
    if (!door_body_read(request, coupon_fields, sizeof coupon_fields / sizeof *coupon_fields, &body, &found)) {
        coupon_message(request, 400, COUPON_BAD_BODY);
        return;
    }
    if (found.beyond != 0 || !(found.given & FIELD_NAME) || !(found.given & FIELD_AMOUNT)) {
        coupon_message(request, 400, CREATE_FAILED);
        return;
    }
    struct sale_terms terms = {
        .price = body.stock,
        .units_per_grab_max = 1,
        .grabs_per_buyer_max = 1,
        .opens_ms = gate_now_ms(request_rooms(request)->gate),
        .admission = ADMISSION_LOGIN,
    };
    memcpy(terms.name, body.name, sizeof terms.name);
    memcpy(terms.description, body.description, sizeof terms.description);
    sale_begin(request, &terms, (uint32_t)body.amount);
}

static void created_reply(struct request *request, const struct sale *sale)
{
    (void)sale;
    coupon_message(request, 201, "");
}

static void create_problem(struct request *request, enum problem problem, const char *detail)
{
    switch (problem) {
    case PROBLEM_FORBIDDEN:
        coupon_message(request, 401, "Only sellers can create coupons.");
        return;
    case PROBLEM_NAME_TAKEN:
    case PROBLEM_BAD_INPUT:
        coupon_message(request, 400, CREATE_FAILED);
        return;
    case PROBLEM_TOO_MANY_SALES:
        coupon_message(request, 400, problem_detail(problem));
        return;
    default:
        coupon_problem(request, problem, detail);
        return;
    }
}

/* A sale that asks for no login knows no buyers: one customer would get as many as they ask for, and their list would have
 * none of them. So it is no coupon. */
static bool sale_knows_buyers(struct request *request)
{
    struct board_notice notice;
    return !gate_sale_notice(request_rooms(request)->gate, request->id, &notice) || notice.admission != ADMISSION_OPEN;
}

/* By its names, in memory: nobody asks the database who sells what. */
void coupon_grab(struct request *request)
{
    char seller[USERNAME_BYTES_MAX + 1], name[SALE_NAME_BYTES_MAX + 1];
    bool named = name_read(request->ids[0], seller, sizeof seller) && name_read(request->ids[1], name, sizeof name);
    const struct gate_stranger stranger = { .seller = slice_of(seller), .name = slice_of(name) };
    if (named && request_meets(request, &stranger, coupon_grab)) return;
    request->id = named ? gate_sale_by_name(request_rooms(request)->gate, slice_of(seller), slice_of(name)) : 0;
    if (request->id == 0 || !sale_knows_buyers(request)) {
        coupon_nothing(request);
        return;
    }
    const struct grab_ask ask = { .units = 1, .key = SLICE(""), .token = { NULL, 0 } };
    grab_begin(request, &ask);
}

static void won_reply(struct request *request, const struct order *order)
{
    (void)order;
    coupon_message(request, 201, "");
}

static void already_reply(struct request *request, const struct order *order)
{
    (void)order;
    coupon_nothing(request);
}

static void grab_problem(struct request *request, enum problem problem, const char *detail)
{
    switch (problem) {
    case PROBLEM_FORBIDDEN:
        coupon_message(request, 401, "Sellers aren't allowed to get coupons.");
        return;
    case PROBLEM_NO_SUCH_SALE:
    case PROBLEM_SOLD_OUT:
    case PROBLEM_CLOSED:
    case PROBLEM_NOT_OPEN:
    case PROBLEM_PAUSED:
        coupon_nothing(request);
        return;
    default:
        coupon_problem(request, problem, detail);
        return;
    }
}

/* What a list turned out to be. */
enum listing { LISTING_UNKNOWN, LISTING_OTHERS, LISTING_SELLER, LISTING_CUSTOMER };

static void coupon_begin(struct query *query, const struct sale *sale)
{
    struct json_out *out = &query->list_out;
    json_object(out);
    json_key(out, "name");
    json_text(out, sale->terms.name);
    json_key(out, "stock");
    json_i64(out, sale->terms.price > 0 ? sale->terms.price : 0);
    json_key(out, "description");
    json_text(out, sale->terms.description);
    query->list_count++;
}

static void won_visit(void *arg, const struct sale *sale)
{
    struct query *query = arg;
    coupon_begin(query, sale);
    json_object_end(&query->list_out);
}

/* How many are left stands on the board, as of this moment; the ledger may be a little behind. Where the gate is not here,
 * it has what buyers were told, and the board is the one behind. */
static void offered_visit(void *arg, const struct sale *sale)
{
    struct query *query = arg;
    struct board_notice notice;
    const struct gate *gate = query->rooms->gate;
    bool known = gate_is_here(gate) && gate_sale_notice(gate, sale->id, &notice);
    coupon_begin(query, sale);
    json_key(&query->list_out, "amount");
    json_u64(&query->list_out, sale->counts.offered);
    json_key(&query->list_out, "left");
    json_u64(&query->list_out, known ? notice.available : sale->counts.available);
    json_object_end(&query->list_out);
}

/* Whose list it is, where the login does not say so already. One who comes from the operator's own provider has no row among
 * the users, but may have sales. */
static enum fault listing_find(struct query *query, struct ledger *ledger)
{
    struct ledger_user user;
    bool found;
    enum fault fault = ledger_user(ledger, slice_of(query->seller), &user, &found);
    if (fault == FAULT_NONE && found) query->state = user.role == ROLE_CUSTOMER ? LISTING_OTHERS : LISTING_SELLER;
    if (fault == FAULT_NONE && !found) query->state = LISTING_UNKNOWN;
    OPENSSL_cleanse(&user, sizeof user);
    return fault;
}

static void list_run(struct query *query, struct ledger *ledger)
{
    if (query->state == LISTING_UNKNOWN) query->fault = listing_find(query, ledger);
    if (query->fault != FAULT_NONE || query->state == LISTING_OTHERS) return;
    query->fault = query_room(query, (size_t)PAGE_ROWS * QUERY_ITEM_BYTES_MAX + 256);
    if (query->fault != FAULT_NONE) return;
    query->list_count = 0;
    json_object(&query->list_out);
    json_key(&query->list_out, "errMsg");
    json_text(&query->list_out, "");
    json_key(&query->list_out, "data");
    json_array(&query->list_out);
    const struct ledger_page page = { .name = slice_of(query->seller), .skip = query->after, .limit = PAGE_ROWS };
    query->fault = query->state == LISTING_CUSTOMER ? ledger_sales_won(ledger, &page, won_visit, query)
                                                    : ledger_sales_of(ledger, &page, offered_visit, query);
    json_array_end(&query->list_out);
    json_object_end(&query->list_out);
}

static void list_refuse(struct request *request, int status, const char *message)
{
    struct json_out out;
    json_object(reply_json(request, &out));
    json_key(&out, "errMsg");
    json_text(&out, message);
    json_key(&out, "data");
    json_array(&out);
    json_array_end(&out);
    json_object_end(&out);
    reply_send(request, status, &out);
}

static void list_done(struct crew_job *job)
{
    struct request *request = REQUEST_OF(job, query.job);
    struct query *query = &request->query;
    char *list = query->list; /* the request is gone after the reply */
    if (job->late || query->fault != FAULT_NONE) {
        reply_problem(request, PROBLEM_BUSY, NULL);
    } else if (query->state == LISTING_OTHERS) {
        list_refuse(request, 401, "Cannot check other customer.");
    } else if (query->state == LISTING_UNKNOWN && query->list_count == 0) {
        list_refuse(request, 400, "Record not found.");
    } else if (query->list_count == 0) {
        coupon_nothing(request);
    } else {
        const struct http_head head = { .status = 200, .content_type = SLICE("application/json") };
        reply_raw(request, &head, (struct slice){ query->list_out.data, query->list_out.len });
    }
    free(list);
}

/* Rows before the page: 0 for the first, and for all below it. False: it is no number. */
static bool page_read(struct slice query, uint64_t *skip)
{
    char text[64];
    bool bad;
    *skip = 0;
    if (!http_query_get(query, "page", text, sizeof text, &bad)) return true;
    bool negative = text[0] == '-';
    const char *digits = text + negative;
    uint64_t page;
    if (bad || digits[0] == '\0' || digits[strspn(digits, "0123456789")] != '\0') return false;
    digits += strspn(digits, "0");
    if (digits[0] == '\0') return true;
    if (!text_to_u64(slice_of(digits), &page) || page > INT64_MAX / PAGE_ROWS) page = INT64_MAX / PAGE_ROWS;
    if (!negative && page > 1) *skip = (page - 1) * PAGE_ROWS;
    return true;
}

void coupon_list(struct request *request)
{
    struct query *query = &request->query;
    struct gate *gate = request_rooms(request)->gate;
    if (!page_read(request->http.query, &query->after)) {
        list_refuse(request, 400, "Wrong format of page.");
        return;
    }
    if (!name_read(request->ids[0], query->seller, sizeof query->seller)) {
        list_refuse(request, 400, "Record not found.");
        return;
    }
    bool own = slice_is(request->who.name, query->seller);
    query->state = !own ? LISTING_UNKNOWN : request->who.role == ROLE_CUSTOMER ? LISTING_CUSTOMER : LISTING_SELLER;
    query->seq_wait = gate_seq_decided(gate); /* nobody misses what they have just got */
    request_query(request, list_run, list_done);
}

const struct face coupon_create_face = { .token_bare = true, .problem = create_problem, .created = created_reply };
const struct face coupon_grab_face = {
    .token_bare = true, .problem = grab_problem, .won = won_reply, .already = already_reply
};
const struct face coupon_list_face = { .token_bare = true, .problem = coupon_problem };
