#include "gateway/request.h"

#include "base/clock.h"
#include "base/text.h"
#include "gateway/resources.h"

#include <assert.h>
#include <stdlib.h>
#include <strings.h>

static struct request *request_acquire(struct connection *connection)
{
    struct reactor *reactor = connection->reactor;
    struct request *request = reactor->requests_free;
    if (request != NULL) {
        reactor->requests_free = request->free_next;
    } else {
        request = malloc(sizeof *request);
        if (request == NULL) return NULL;
    }
    reactor->requests++;
    request->connection = connection;
    request->reactor = reactor;
    request->parked = false;
    request->visit.inside = false;
    request->visit.allowance.limited = false;
    request->retry_s = 0;
    request->who.role = ROLE_NONE;
    request->who.name = (struct slice){ request->who.name_bytes, 0 };
    return request;
}

void request_end(struct request *request)
{
    struct connection *connection = request->connection;
    struct reactor *reactor = request->reactor;
    request->free_next = reactor->requests_free;
    reactor->requests_free = request;
    reactor->requests--;
    connection->request = NULL;
    connection_answered(connection);
}

void request_leave(struct request *request)
{
    line_leave(request_rooms(request)->lines, &request->waiter);
    request->parked = false;
    if (request->entered) admission_settle(request_rooms(request)->admissions, request->id, VERDICT_BUSY);
    guard_leave(request_rooms(request)->guard, &request->visit, 0, mono_ns());
    request_end(request);
}

bool request_guarded(struct request *request)
{
    struct guard *guard = request_rooms(request)->guard;
    struct guard_visit *visit = &request->visit;
    visit->class = request->route->class;
    visit->blocks = request->reactor->blocks;
    /* Also where the sale takes no notice of the login: who is blocked stays blocked. */
    visit->user = request->who.role == ROLE_NONE ? (struct slice){ "", 0 } : slice_of(request->who.name_bytes);
    visit->entered_ns = mono_ns();
    enum problem problem = guard_enter(guard, visit, &request->retry_s);
    if (problem == PROBLEM_NONE) return true;
    reply_problem(request, problem, NULL);
    return false;
}

/* "Bearer TOKEN", the word in any case. */
static bool bearer_token(struct slice authorization, struct slice *token)
{
    if (authorization.len < 8 || strncasecmp(authorization.data, "Bearer ", 7) != 0) return false;
    *token = (struct slice){ authorization.data + 7, authorization.len - 7 };
    return true;
}

/* Fills who; PROBLEM_NONE, or why the token given is no good. No token is nobody. */
static enum problem request_identify(struct request *request)
{
    struct slice token;
    if (request->http.authorization.len == 0) return PROBLEM_NOT_LOGGED_IN;
    if (!bearer_token(request->http.authorization, &token)) return PROBLEM_NOT_LOGGED_IN;
    switch (people_check(request_rooms(request)->people, token, wall_ms(), &request->who)) {
    case TOKEN_GOOD:
        return PROBLEM_NONE;
    case TOKEN_EXPIRED:
        request->who.role = ROLE_NONE;
        return PROBLEM_TOKEN_EXPIRED;
    case TOKEN_BAD:
        break;
    }
    request->who.role = ROLE_NONE;
    return PROBLEM_NOT_LOGGED_IN;
}

static unsigned role_bit(enum role role)
{
    switch (role) {
    case ROLE_CUSTOMER:
        return WHO_CUSTOMER;
    case ROLE_SELLER:
        return WHO_SELLER;
    case ROLE_ADMIN:
        return WHO_ADMIN;
    case ROLE_NONE:
        break;
    }
    return 0;
}

static void request_dispatch(struct request *request)
{
    char allow[64];
    request->route = route_find(request->http.method, request->http.path, request->ids, allow);
    if (request->route == NULL && allow[0] != '\0') {
        char extra[96];
        int len = snprintf(extra, sizeof extra, "Allow: %s\r\n", allow);
        struct json_out out;
        reply_problem_begin(request, &out, PROBLEM_METHOD_NOT_ALLOWED, NULL);
        json_object_end(&out);
        reply_raw(request,
                  &(struct http_head){
                      .status = 405, .content_type = SLICE("application/problem+json"), .extra = { extra, (size_t)len } },
                  (struct slice){ out.data, out.len });
        return;
    }
    if (request->route == NULL) {
        reply_problem(request, PROBLEM_NO_SUCH_ROUTE, NULL);
        return;
    }
    if (!text_to_u64(request->ids[0], &request->id)) request->id = 0;

    unsigned who = request->route->who;
    request->token_problem = who & WHO_ANYONE ? PROBLEM_NOT_LOGGED_IN : request_identify(request);
    if (!(who & (WHO_ANYONE | WHO_ADMITTED))) {
        if (request->token_problem != PROBLEM_NONE) {
            reply_problem(request, request->token_problem, NULL);
            return;
        }
        if (!(who & role_bit(request->who.role))) {
            reply_problem(request, PROBLEM_FORBIDDEN, NULL);
            return;
        }
    }
    /* A grab is looked at first, so that bad input is told before anything else. */
    bool looks = request->route->class != RATE_CLASSES && !(who & WHO_ADMITTED);
    if (looks && !request_guarded(request)) return;
    request->route->handler(request);
}

void request_begin(struct connection *connection, const struct http_request *http)
{
    struct request *request = request_acquire(connection);
    if (request == NULL) {
        connection_refuse(connection, PROBLEM_BUSY);
        return;
    }
    request->http = *http;
    request->visit.client = proxies_client(&request_rooms(request)->guard->proxies, &connection->peer, http->forwarded_for);
    connection->request = request;
    request_dispatch(request);
}

void request_work(struct request *request, struct crew *crew, void (*run)(struct query *query, struct ledger *ledger),
                  void (*done)(struct crew_job *job))
{
    struct query *query = &request->query;
    query->run = run;
    query->rooms = request_rooms(request);
    query->fault = FAULT_NONE;
    query->found = false;
    query->list = NULL;
    query->job = (struct crew_job){ .work = query_work, .done = done, .mailbox = request->reactor->mailbox };
    if (!crew_ask(crew, &query->job)) reply_problem(request, PROBLEM_BUSY, NULL);
}

void request_query(struct request *request, void (*run)(struct query *query, struct ledger *ledger),
                   void (*done)(struct crew_job *job))
{
    const struct rooms *rooms = request_rooms(request);
    request_work(request, request->query.seq_wait != 0 ? rooms->lists : rooms->lookups, run, done);
}
