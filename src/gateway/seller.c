/* What a seller may do with a sale. Ownership is part of the look-up in the engine: someone else's sale does not exist. */
#include "base/text.h"
#include "gateway/request.h"
#include "gateway/resources.h"

#include <stdlib.h>

struct sale_body {
    struct sale_terms terms;
    int64_t stock;
    int64_t price, units, grabs, pay_within_s; /* wide, until their bounds are checked */
    int64_t tokens_max, admit_max, line_rate_per_s, line_size, line_timeout_ms;
    char admission[16], late_payment[16], event[24];
};

#define FIELD(member) .offset = offsetof(struct sale_body, member)

static const struct json_field line_fields[] = {
    { .name = "rate_per_s", .kind = JSON_INTEGER, .required = true, .min = 1, .max = LINE_RATE_MAX, FIELD(line_rate_per_s) },
    { .name = "size", .kind = JSON_INTEGER, .required = true, .min = 1, .max = LINE_SIZE_MAX, FIELD(line_size) },
    { .name = "timeout_ms",
      .kind = JSON_INTEGER,
      .required = true,
      .min = 1,
      .max = LINE_TIMEOUT_MS_MAX,
      FIELD(line_timeout_ms) },
};

/* The rows stand in the order of the TERM_ bits, so that what was given is a mask of terms. */
static const struct json_field sale_fields[] = {
    { .name = "name", .kind = JSON_TEXT, .min = 1, .max = SALE_NAME_BYTES_MAX, FIELD(terms.name) },
    { .name = "description",
      .kind = JSON_LINES,
      .nullable = true,
      .max = SALE_DESCRIPTION_BYTES_MAX,
      FIELD(terms.description) },
    { .name = "price", .kind = JSON_INTEGER, .nullable = true, .max = PRICE_MAX, FIELD(price) },
    { .name = "currency",
      .kind = JSON_TEXT,
      .nullable = true,
      .min = CURRENCY_BYTES,
      .max = CURRENCY_BYTES,
      FIELD(terms.currency) },
    { .name = "units_per_grab_max", .kind = JSON_INTEGER, .min = 1, .max = UNITS_PER_GRAB_MAX, FIELD(units) },
    { .name = "grabs_per_buyer_max", .kind = JSON_INTEGER, .min = 1, .max = GRABS_PER_BUYER_MAX, FIELD(grabs) },
    { .name = "opens_at", .kind = JSON_TIME, FIELD(terms.opens_ms) },
    { .name = "closes_at", .kind = JSON_TIME, .nullable = true, FIELD(terms.closes_ms) },
    { .name = "pay_within_s",
      .kind = JSON_INTEGER,
      .nullable = true,
      .min = 1,
      .max = PAY_WITHIN_S_MAX,
      FIELD(pay_within_s) },
    { .name = "admission", .kind = JSON_TEXT, .min = 1, .max = 15, FIELD(admission) },
    { .name = "tokens_max", .kind = JSON_INTEGER, .nullable = true, .min = 1, .max = TOKENS_MAX, FIELD(tokens_max) },
    { .name = "admit_max", .kind = JSON_INTEGER, .nullable = true, .min = 1, .max = ADMIT_MAX, FIELD(admit_max) },
    { .name = "line",
      .kind = JSON_EITHER,
      .nullable = true,
      .min = 1,
      .max = LINE_NAME_BYTES_MAX,
      FIELD(terms.line_name),
      .members = line_fields,
      .members_count = sizeof line_fields / sizeof *line_fields },
    { .name = "late_payment", .kind = JSON_TEXT, .min = 1, .max = 15, FIELD(late_payment) },
    { .name = "event", .kind = JSON_TEXT, .nullable = true, .min = 1, .max = 20, FIELD(event) },
    { .name = "stock", .kind = JSON_INTEGER, .min = 1, .max = STOCK_MAX, FIELD(stock) },
};
#define PATCH_FIELDS 15 /* all but stock */
#define GIVEN_STOCK (1u << PATCH_FIELDS)
_Static_assert(TERM_NAME == 1 && TERM_EVENT == 1 << (PATCH_FIELDS - 1), "the rows follow the bits");

static const char *currency_objection(const char *currency)
{
    for (const char *c = currency; *c != '\0'; c++) {
        if (*c < 'A' || *c > 'Z') return "currency must be three capital letters, such as EUR";
    }
    return NULL;
}

static bool admission_read(const char *word, enum admission *out)
{
    for (enum admission admission = 0; admission <= ADMISSION_LAST; admission++) {
        if (strcmp(word, admission_word(admission)) != 0) continue;
        *out = admission;
        return true;
    }
    return false;
}

static bool late_payment_read(const char *word, enum late_payment *out)
{
    for (enum late_payment late = 0; late <= LATE_PAYMENT_LAST; late++) {
        if (strcmp(word, late_payment_word(late)) != 0) continue;
        *out = late;
        return true;
    }
    return false;
}

/* Reads the body over the defaults. False: has replied. */
static bool sale_body_read(struct request *request, size_t count, struct sale_body *body, struct json_found *found)
{
    *body = (struct sale_body){ .price = -1, .units = 1, .grabs = 1, .terms.admission = ADMISSION_LOGIN };
    if (!body_read(request, sale_fields, count, body, found)) return false;
    body->terms.price = body->price;
    body->terms.units_per_grab_max = (uint32_t)body->units;
    body->terms.grabs_per_buyer_max = (uint32_t)body->grabs;
    body->terms.pay_within_s = (uint32_t)body->pay_within_s;
    body->terms.tokens_max = (uint32_t)body->tokens_max;
    body->terms.admit_max = (uint32_t)body->admit_max;
    body->terms.line_rate_per_s = (uint32_t)body->line_rate_per_s;
    body->terms.line_size = (uint32_t)body->line_size;
    body->terms.line_timeout_ms = (uint32_t)body->line_timeout_ms;
    const char *objection = currency_objection(body->terms.currency);
    if (found->given & TERM_ADMISSION && !admission_read(body->admission, &body->terms.admission))
        objection = "admission must be open, login, token or line";
    if (found->given & TERM_LATE_PAYMENT && !late_payment_read(body->late_payment, &body->terms.late_payment))
        objection = "late_payment must be retake or refund";
    if (found->given & TERM_EVENT && (!text_to_u64(slice_of(body->event), &body->terms.event_id) ||
                                      body->terms.event_id == 0 || body->terms.event_id > INT64_MAX))
        objection = "event must be the id of an event";
    struct line_terms declared;
    if (body->terms.line_name[0] != '\0' &&
        !lines_declared(request_rooms(request)->lines, slice_of(body->terms.line_name), &declared))
        objection = "line must be {rate_per_s,size,timeout_ms} or the name of a line that is declared in the configuration";
    if (objection == NULL) return true;
    reply_problem(request, PROBLEM_BAD_INPUT, objection);
    return false;
}

static void changed(struct gate_ticket *ticket, int status)
{
    struct request *request = REQUEST_OF(ticket, ticket);
    if (ticket->verdict == VERDICT_BAD_INPUT) {
        reply_problem(request, PROBLEM_BAD_INPUT, sale_terms_objection(&ticket->sale.terms));
        return;
    }
    if (ticket->verdict == VERDICT_NO_SUCH_SALE && gate_sale_is_past(request_rooms(request)->gate, request->id))
        ticket->verdict = VERDICT_CLOSED;
    if (ticket->verdict != VERDICT_DONE) {
        reply_verdict(request, ticket->verdict);
        return;
    }
    const struct face *face = request->face;
    if (face != NULL) {
        face->created(request, &ticket->sale);
        return;
    }
    struct json_out out;
    render_sale(reply_json(request, &out), &ticket->sale, gate_now_ms(request_rooms(request)->gate));
    reply_send(request, 200 + status, &out);
}

static void create_done(struct gate_ticket *ticket)
{
    changed(ticket, 1);
}

static void change_done(struct gate_ticket *ticket)
{
    changed(ticket, 0);
}

/* A new sale, or a change of one, that waits until its event has been looked up. */
struct sale_draft {
    uint32_t stock; /* 0: a change */
    struct sale_change change;
};

static void draft_go(struct request *request, const struct sale_draft *draft)
{
    struct asker asker = request_asker(request);
    request->ticket.done = draft->stock > 0 ? create_done : change_done;
    if (draft->stock > 0) {
        gate_create(request->reactor->lane, &asker, &draft->change.terms, draft->stock, &request->ticket);
    } else {
        gate_change(request->reactor->lane, &asker, request->id, &draft->change, &request->ticket);
    }
}

static void event_run(struct query *query, struct ledger *ledger)
{
    query->fault = ledger_event(ledger, query->id, &query->event, &query->found);
    query->found = query->found && strcmp(query->event.seller, query->seller) == 0;
}

static void event_checked(struct crew_job *job)
{
    struct request *request = REQUEST_OF(job, query.job);
    struct sale_draft draft = *request->draft; /* the request may be gone before the gate has read it */
    if (job->late || request->query.fault != FAULT_NONE) {
        reply_problem(request, PROBLEM_BUSY, NULL);
    } else if (!request->query.found) {
        reply_problem(request, PROBLEM_NO_SUCH_EVENT, NULL);
    } else {
        draft_go(request, &draft);
    }
}

/* Most sales have no event, and wait for nothing. */
static void draft_check(struct request *request, const struct sale_draft *draft, struct slice seller)
{
    struct query *query = &request->query;
    if (draft->change.terms.event_id == 0) {
        draft_go(request, draft);
        return;
    }
    request->draft = malloc(sizeof *draft);
    if (request->draft == NULL) {
        reply_problem(request, PROBLEM_BUSY, NULL);
        return;
    }
    *request->draft = *draft;
    query->id = draft->change.terms.event_id;
    query->seq_wait = 0;
    memcpy(query->seller, seller.data, seller.len);
    query->seller[seller.len] = '\0';
    request_query(request, event_run, event_checked);
}

void sale_begin(struct request *request, const struct sale_terms *terms, uint32_t stock)
{
    const char *objection = sale_terms_objection(terms);
    if (objection != NULL) {
        reply_problem(request, PROBLEM_BAD_INPUT, objection);
        return;
    }
    const struct sale_draft draft = { .stock = stock, .change.terms = *terms };
    draft_check(request, &draft, request->who.name);
}

void sales_post(struct request *request)
{
    struct sale_body body;
    struct json_found found;
    if (!sale_body_read(request, sizeof sale_fields / sizeof *sale_fields, &body, &found)) return;
    if (!(found.given & TERM_OPENS)) body.terms.opens_ms = gate_now_ms(request_rooms(request)->gate);
    const char *objection = NULL;
    if (!(found.given & GIVEN_STOCK)) objection = "stock is missing: an integer from 1 to 1000000000";
    if (!(found.given & TERM_NAME)) objection = "name is missing: a text of 1 to 128 bytes";
    if (objection != NULL) {
        reply_problem(request, PROBLEM_BAD_INPUT, objection);
        return;
    }
    sale_begin(request, &body.terms, (uint32_t)body.stock);
}

/* An event is its seller's: an admin who changes a sale for one is asked for an event of that seller. */
void sale_patch(struct request *request)
{
    struct sale_body body;
    struct json_found found;
    struct sale sale;
    if (!sale_body_read(request, PATCH_FIELDS, &body, &found)) return;
    struct sale_draft draft = { .stock = 0, .change = { .mask = found.given | found.nulled, .terms = body.terms } };
    bool theirs = request->who.role == ROLE_ADMIN && draft.change.mask & TERM_EVENT &&
                  gate_sale(request_rooms(request)->gate, request->id, &sale);
    draft_check(request, &draft, theirs ? slice_of(sale.seller) : request->who.name);
}

/* When the last unit is withdrawn nobody in line need wait for it. */
static void stock_done(struct gate_ticket *ticket)
{
    struct request *request = REQUEST_OF(ticket, ticket);
    if (ticket->verdict == VERDICT_DONE && ticket->sale.counts.available == 0)
        line_sold_out(request_rooms(request)->lines, request->id);
    changed(ticket, 0);
}

void stock_post(struct request *request)
{
    static const struct json_field fields[] = {
        { .name = "add", .kind = JSON_INTEGER, .required = true, .min = -(int64_t)STOCK_MAX, .max = STOCK_MAX },
    };
    int64_t add = 0;
    struct json_found found;
    if (!body_read(request, fields, 1, &add, &found)) return;
    if (add == 0) {
        reply_problem(request, PROBLEM_BAD_INPUT, "add must be an integer other than 0: positive adds, negative withdraws");
        return;
    }
    struct asker asker = request_asker(request);
    request->ticket.done = stock_done;
    gate_stock(request->reactor->lane, &asker, request->id, add, &request->ticket);
}

/* Whoever stands in line for a sale that stops is told at once. */
static void stop_done(struct gate_ticket *ticket)
{
    struct request *request = REQUEST_OF(ticket, ticket);
    if (ticket->verdict == VERDICT_DONE) line_closed(request_rooms(request)->lines, request->id);
    changed(ticket, 0);
}

static void sale_switch(struct request *request, enum decision_kind kind)
{
    if (!body_none(request)) return;
    struct asker asker = request_asker(request);
    request->ticket.done = kind == DECISION_SALE_RESUMED ? change_done : stop_done;
    gate_switch(request->reactor->lane, &asker, request->id, kind, &request->ticket);
}

void pause_post(struct request *request)
{
    sale_switch(request, DECISION_SALE_PAUSED);
}

void resume_post(struct request *request)
{
    sale_switch(request, DECISION_SALE_RESUMED);
}

void close_post(struct request *request)
{
    sale_switch(request, DECISION_SALE_CLOSED);
}
