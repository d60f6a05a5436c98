/* Webhooks for their sellers: where they are told what happened, and what could not be told. A seller has one; an admin
 * names the seller, or means their own. What changes something writes to the ledger and waits for the disk, on a crew of its
 * own. */
#include "base/text.h"
#include "courier/courier.h"
#include "courier/destination.h"
#include "courier/message.h"
#include "gateway/request.h"
#include "gateway/resources.h"
#include "people/resp_accounts.h"

#include <openssl/crypto.h>

/* How long messages are signed with the secret of before, too, once another was asked for. */
#define ROTATION_MS (24 * UINT64_C(3600000))
#define SECRET_END_BYTES 4

/* Whose webhook it is about, into the query; or has replied why not. */
static bool owner_take(struct request *request)
{
    struct query *query = &request->query;
    if (!query_text(request, "seller", query->seller, sizeof query->seller)) return false;
    struct slice own = request->who.name;
    if (request->who.role != ROLE_ADMIN && query->seller[0] != '\0' && !slice_is(own, query->seller)) {
        reply_problem(request, PROBLEM_FORBIDDEN, "Only admins may name another seller.");
        return false;
    }
    if (query->seller[0] == '\0') {
        memcpy(query->seller, own.data, own.len);
        query->seller[own.len] = '\0';
    }
    query->now_ms = gate_now_ms(request_rooms(request)->gate);
    query->seq_wait = 0; /* the clerk has no part in this */
    return true;
}

/* Whether the job ended well and found what it was about, or has replied why not. */
static bool job_done(struct request *request, enum problem missing)
{
    if (!write_ended(request)) return false;
    bool found = request->query.found; /* the request is gone after the reply */
    if (!found) reply_problem(request, missing, NULL);
    return found;
}

static void hook_render(struct json_out *out, const struct query *query)
{
    const struct hook *hook = &query->hook;
    size_t len = strlen(hook->secret);
    json_object(out);
    json_key(out, "seller");
    json_text(out, hook->seller);
    json_key(out, "url");
    json_text(out, hook->url);
    json_key(out, "secret");
    if (query->fresh) {
        json_text(out, hook->secret);
    } else {
        json_null(out);
    }
    json_key(out, "secret_ends");
    json_text(out, hook->secret + (len > SECRET_END_BYTES ? len - SECRET_END_BYTES : 0));
    json_time_or_null(out, "rotates_until", query->now_ms < hook->before_until_ms ? hook->before_until_ms : 0);
    json_key(out, "since");
    json_time(out, hook->since_ms);
    json_key(out, "pending");
    json_u64(out, query->notices.pending);
    json_key(out, "failed");
    json_u64(out, query->notices.failed);
    json_time_or_null(out, "last_failure_at", hook->failed_ms);
    json_key(out, "last_failure");
    if (hook->failed_ms != 0) {
        json_text(out, hook->error);
    } else {
        json_null(out);
    }
    json_object_end(out);
}

static void hook_done(struct crew_job *job)
{
    struct request *request = REQUEST_OF(job, query.job);
    struct hook *hook = &request->query.hook;
    if (job_done(request, PROBLEM_NO_SUCH_WEBHOOK)) {
        struct json_out out;
        hook_render(reply_json(request, &out), &request->query);
        OPENSSL_cleanse(hook->secret, sizeof hook->secret);
        OPENSSL_cleanse(hook->secret_before, sizeof hook->secret_before);
        reply_send(request, 200, &out);
    }
}

static void show_run(struct query *query, struct ledger *ledger)
{
    query->fresh = false;
    query->fault = ledger_hook(ledger, slice_of(query->seller), &query->hook, &query->found);
    if (query->fault == FAULT_NONE && query->found)
        query->fault = ledger_outbox_counts(ledger, slice_of(query->seller), &query->notices);
}

void webhook_get(struct request *request)
{
    if (owner_take(request)) request_work(request, request_rooms(request)->lists, show_run, hook_done);
}

static void health_visit(void *arg, const struct hook_health *health)
{
    struct query *query = arg;
    struct json_out *out = &query->list_out;
    json_object(out);
    json_key(out, "seller");
    json_text(out, health->seller);
    json_key(out, "url");
    json_text(out, health->url);
    json_key(out, "since");
    json_time(out, health->since_ms);
    json_key(out, "pending");
    json_u64(out, health->pending);
    json_key(out, "failed");
    json_u64(out, health->failed);
    json_time_or_null(out, "last_failure_at", health->failed_ms);
    json_key(out, "last_failure");
    if (health->failed_ms != 0) {
        json_text(out, health->error);
    } else {
        json_null(out);
    }
    json_object_end(out);
}

static void webhooks_run(struct query *query, struct ledger *ledger)
{
    query->fault = query_list_begin(query);
    if (query->fault == FAULT_NONE) query->fault = ledger_hooks_worst(ledger, query->limit, health_visit, query);
    if (query->fault == FAULT_NONE) query_list_end(query);
}

void webhooks_get(struct request *request)
{
    if (query_page(request)) list_ask_primary(request, webhooks_run);
}

static void put_run(struct query *query, struct ledger *ledger)
{
    char url[HOOK_URL_BYTES_MAX + 1], secret[SIGNATURE_SECRET_TEXT_BYTES + 1];
    memcpy(url, query->hook.url, sizeof url);
    signature_secret_make(secret);
    const struct hook_put put = {
        .seller = slice_of(query->seller),
        .url = slice_of(url),
        .secret = slice_of(secret),
        .rotate = query->rotate,
        .now_ms = query->now_ms,
        .before_until_ms = query->now_ms + ROTATION_MS,
    };
    query->fault = ledger_hook_put(ledger, &put, &query->hook, &query->fresh);
    OPENSSL_cleanse(secret, sizeof secret);
    if (query->fault == FAULT_NONE) query->fault = ledger_outbox_counts(ledger, slice_of(query->seller), &query->notices);
    query->found = query->fault == FAULT_NONE;
    courier_wake(query->rooms->courier);
}

static void put_go(struct request *request)
{
    request->query.seq_wait = 0;
    request_work(request, request_rooms(request)->writes, put_run, hook_done);
}

/* The account of a backend may have the name of a customer, whom the ledger does not know for a seller. */
static void owner_run(struct query *query, struct ledger *ledger)
{
    query->found = resp_accounts_have(query->rooms->resp_accounts, slice_of(query->seller));
    if (!query->found) query->fault = ledger_sells(ledger, slice_of(query->seller), &query->found);
}

static void owner_checked(struct crew_job *job)
{
    struct request *request = REQUEST_OF(job, query.job);
    if (job->late || request->query.fault != FAULT_NONE) {
        reply_problem(request, PROBLEM_BUSY, NULL);
    } else if (!request->query.found) {
        reply_problem(request, PROBLEM_NO_SUCH_WEBHOOK, "Nobody of this name sells here: check seller.");
    } else {
        put_go(request);
    }
}

/* Whoever is logged in sells. A name that an admin gives must be that of one who does: under any other the webhook, and its
 * secret, would wait for whoever registers it. A sale that was made a moment ago counts. */
static void put_begin(struct request *request)
{
    if (slice_is(request->who.name, request->query.seller)) {
        put_go(request);
        return;
    }
    request->query.seq_wait = gate_seq_decided(request_rooms(request)->gate);
    request_query(request, owner_run, owner_checked);
}

void webhook_put(struct request *request)
{
    struct hook_body {
        char url[HOOK_URL_BYTES_MAX + 1];
        bool rotate;
    } body = { .rotate = false };
    static const struct json_field fields[] = {
        { .name = "url", .kind = JSON_TEXT, .required = true, .min = 1, .max = HOOK_URL_BYTES_MAX },
        { .name = "rotate", .kind = JSON_FLAG, .offset = offsetof(struct hook_body, rotate) },
    };
    struct json_found found;
    if (!owner_take(request) || !body_read(request, fields, sizeof fields / sizeof *fields, &body, &found)) return;
    const char *objection = destination_objection(slice_of(body.url));
    if (objection != NULL) {
        reply_problem(request, PROBLEM_BAD_INPUT, objection);
        return;
    }
    memcpy(request->query.hook.url, body.url, sizeof body.url);
    request->query.rotate = body.rotate;
    put_begin(request);
}

static void delete_run(struct query *query, struct ledger *ledger)
{
    query->fault = ledger_hook_delete(ledger, slice_of(query->seller), &query->found);
    courier_wake(query->rooms->courier);
}

static void delete_done(struct crew_job *job)
{
    struct request *request = REQUEST_OF(job, query.job);
    if (job_done(request, PROBLEM_NO_SUCH_WEBHOOK))
        reply_raw(request, &(struct http_head){ .status = 204 }, (struct slice){ "", 0 });
}

void webhook_delete(struct request *request)
{
    if (body_none(request) && owner_take(request))
        request_work(request, request_rooms(request)->writes, delete_run, delete_done);
}

static void test_run(struct query *query, struct ledger *ledger)
{
    query->fault = ledger_hook(ledger, slice_of(query->seller), &query->hook, &query->found);
    if (query->fault == FAULT_NONE && query->found)
        query->fault = ledger_outbox_test(ledger, slice_of(query->seller), query->now_ms, &query->id);
    courier_wake(query->rooms->courier);
}

static void webhook_id_render(struct json_out *out, struct rooms *rooms, uint64_t id)
{
    char text[MESSAGE_ID_BYTES_MAX];
    message_id(text, gate_uuid(rooms->gate), id);
    json_key(out, "webhook_id");
    json_text(out, text);
}

static void test_done(struct crew_job *job)
{
    struct request *request = REQUEST_OF(job, query.job);
    if (!job_done(request, PROBLEM_NO_SUCH_WEBHOOK)) return;
    if (request->query.id == 0) {
        reply_problem(request, PROBLEM_TOO_MANY_TESTS, NULL);
        return;
    }
    struct json_out out;
    json_object(reply_json(request, &out));
    json_key(&out, "id");
    json_id(&out, request->query.id);
    webhook_id_render(&out, request_rooms(request), request->query.id);
    json_object_end(&out);
    reply_send(request, 202, &out);
}

void webhook_test_post(struct request *request)
{
    if (body_none(request) && owner_take(request))
        request_work(request, request_rooms(request)->writes, test_run, test_done);
}

static void notice_visit(void *arg, const struct notice *notice)
{
    struct query *query = arg;
    struct json_out *out = &query->list_out;
    json_object(out);
    json_key(out, "id");
    json_id(out, notice->id);
    webhook_id_render(out, query->rooms, notice->id);
    json_key(out, "type");
    json_text(out, notice_kind_word(notice->kind));
    json_id_or_null(out, "order", notice->order_no);
    json_id_or_null(out, "sale", notice->sale_id);
    json_id_or_null(out, "event", notice->event_id);
    json_key(out, "at");
    json_time(out, notice->at_ms);
    json_key(out, "state");
    json_text(out, notice->state == NOTICE_PENDING ? "pending" : "failed");
    json_key(out, "attempts");
    json_u64(out, notice->attempts);
    bool waits = notice->state == NOTICE_PENDING && notice->next_ms != NOTICE_PARKED;
    json_time_or_null(out, "next_at", waits ? notice->next_ms : 0);
    json_key(out, "status");
    if (notice->status != 0) {
        json_u64(out, notice->status);
    } else {
        json_null(out);
    }
    json_key(out, "error");
    if (notice->error[0] != '\0') {
        json_text(out, notice->error);
    } else {
        json_null(out);
    }
    json_object_end(out);
    query->list_count++;
    query->list_last = notice->id;
}

static void deliveries_run(struct query *query, struct ledger *ledger)
{
    const struct outbox_query ask = {
        .seller = slice_of(query->seller),
        .state = query->state < 0 ? NOTICE_FAILED : (enum notice_state)query->state,
        .after = query->after,
        .limit = query->limit,
    };
    query->fault = query_list_begin(query);
    if (query->fault == FAULT_NONE) query->fault = ledger_outbox_list(ledger, &ask, notice_visit, query);
    if (query->fault == FAULT_NONE) query_list_end(query);
}

void deliveries_get(struct request *request)
{
    static const char *const states[] = { [NOTICE_PENDING] = "pending", [NOTICE_FAILED] = "failed", NULL };
    if (owner_take(request) && query_page(request) && query_choice(request, "state", states, &request->query.state))
        list_ask_primary(request, deliveries_run);
}

/* What is done to the failed deliveries of a seller: to one, or to all of them for id 0, a part at a time, because other
 * sellers write too. */

static void part_end(struct query *query, uint64_t some)
{
    query->notices_changed += some;
    query->found = query->id == 0 || some > 0;
    query->job.again = query->fault == FAULT_NONE && query->id == 0 && some == OUTBOX_AT_ONCE;
}

static void retry_run(struct query *query, struct ledger *ledger)
{
    uint64_t some = 0;
    query->fault = ledger_outbox_retry(ledger, slice_of(query->seller), query->id, query->now_ms, &some);
    part_end(query, some);
    courier_wake(query->rooms->courier);
}

static void drop_run(struct query *query, struct ledger *ledger)
{
    uint64_t some = 0;
    query->fault = ledger_outbox_drop(ledger, slice_of(query->seller), query->id, &some);
    part_end(query, some);
}

static void failed_reply(struct crew_job *job, const char *word, int status)
{
    struct request *request = REQUEST_OF(job, query.job);
    if (!job_done(request, PROBLEM_NO_SUCH_DELIVERY)) return;
    struct json_out out;
    json_object(reply_json(request, &out));
    json_key(&out, word);
    json_u64(&out, request->query.notices_changed);
    json_object_end(&out);
    reply_send(request, status, &out);
}

static void retry_done(struct crew_job *job)
{
    failed_reply(job, "retried", 202);
}

static void drop_done(struct crew_job *job)
{
    failed_reply(job, "dropped", 200);
}

static void retry_ask(struct request *request, uint64_t id)
{
    if (!body_none(request) || !owner_take(request)) return;
    request->query.id = id;
    request->query.notices_changed = 0;
    request_work(request, request_rooms(request)->writes, retry_run, retry_done);
}

static void drop_ask(struct request *request, uint64_t id)
{
    if (!body_none(request) || !owner_take(request)) return;
    request->query.id = id;
    request->query.notices_changed = 0;
    request_work(request, request_rooms(request)->writes, drop_run, drop_done);
}

/* The one in the path, or has replied that there is none. */
static bool delivery_named(struct request *request)
{
    bool good = request->id != 0 && request->id <= INT64_MAX;
    if (!good) reply_problem(request, PROBLEM_NO_SUCH_DELIVERY, NULL);
    return good;
}

void deliveries_retry_post(struct request *request)
{
    retry_ask(request, 0);
}

void delivery_retry_post(struct request *request)
{
    if (delivery_named(request)) retry_ask(request, request->id);
}

void deliveries_delete(struct request *request)
{
    drop_ask(request, 0);
}

void delivery_delete(struct request *request)
{
    if (delivery_named(request)) drop_ask(request, request->id);
}
