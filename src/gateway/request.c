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
    request->counted = false;
    request->won = false;
    request->draft = NULL;
    request->met = request->looked = false;
    request->kept = NULL;
    request->allow[0] = '\0';
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
    if (request->draft != NULL) free(request->draft);
    if (request->kept != NULL) free(request->kept);
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

/* What the guard says of it goes out as the answer. */
static bool request_passes(struct request *request, enum problem problem)
{
    if (problem != PROBLEM_NONE) reply_problem(request, problem, NULL);
    return problem == PROBLEM_NONE;
}

/* The checks before it is known who asks, as of a route of this class. */
static enum problem request_arrives(struct request *request, enum rate_class class)
{
    struct guard_visit *visit = &request->visit;
    visit->class = class;
    visit->blocks = request->reactor->blocks;
    visit->recall = &request->reactor->recall;
    visit->heartbeat = request->route != NULL && request->route->who & WHO_IN_LINE;
    bool identifies = request->route != NULL && !(request->route->who & WHO_ANYONE);
    visit->login = identifies ? request->http.authorization : (struct slice){ "", 0 };
    visit->method = method_word(request->http.method);
    visit->path = request->route != NULL ? request->route->path : "(no route)";
    visit->entered_ns = mono_ns();
    struct guard *guard = request_rooms(request)->guard;
    enum problem problem = guard_arrive(guard, visit, &request->retry_s);
    return problem != PROBLEM_NONE ? problem : guard_recall(guard, visit, &request->retry_s);
}

bool request_guarded(struct request *request)
{
    return request_passes(request, guard_enter(request_rooms(request)->guard, &request->visit, &request->retry_s));
}

/* Nobody pays for bytes that a proxy passed on, for nobody can tell whose they are. */
static enum problem unreadable_problem(struct connection *connection)
{
    struct reactor *reactor = connection->reactor;
    struct guard *guard = reactor->server->rooms.guard;
    enum problem problem = connection->parser.problem;
    if (networks_have(&guard->proxies, &connection->peer)) return problem;
    struct guard_visit visit = { .class = RATE_QUERY,
                                 .blocks = reactor->blocks,
                                 .client = connection->peer,
                                 .method = "bytes",
                                 .path = "(no request)",
                                 .entered_ns = mono_ns() };
    uint32_t retry_s;
    enum problem first = guard_arrive(guard, &visit, &retry_s);
    return first != PROBLEM_NONE ? first : problem;
}

/* In the words of the door that was asked for, where the path of the message at data has come so far. */
static void message_refuse(struct connection *connection, const char *data, enum problem problem)
{
    struct http_span span = connection->parser.path;
    struct slice path = { span.len > 0 ? data + span.at : "", span.len };
    const struct face *face = route_face(&connection->reactor->server->options.doors, path);
    struct request *request = face != NULL ? request_acquire(connection) : NULL;
    if (request == NULL) {
        connection_refuse(connection, problem);
        return;
    }
    request->http = (struct http_request){ .method = connection->parser.method, .path = path, .keep_alive = false };
    request->route = NULL;
    request->face = face;
    connection->request = request;
    reply_problem(request, problem, NULL);
}

void request_unreadable(struct connection *connection, const char *data)
{
    message_refuse(connection, data, unreadable_problem(connection));
}

void request_late(struct connection *connection, enum problem problem)
{
    message_refuse(connection, connection->input, problem);
}

/* "Bearer TOKEN", the word in any case; at some doors TOKEN alone. */
bool request_token(const struct request *request, struct slice *token)
{
    struct slice authorization = request->http.authorization;
    const struct face *face = request->face;
    bool named = authorization.len >= 8 && strncasecmp(authorization.data, "Bearer ", 7) == 0;
    bool bare = !named && authorization.len > 0 && face != NULL && face->token_bare;
    size_t before = named ? 7 : 0;
    *token = (struct slice){ authorization.data + before, authorization.len - before };
    return named || bare;
}

/* Fills who; PROBLEM_NONE, or why the token given is no good. No token is nobody. */
static enum problem request_identify(struct request *request)
{
    struct slice token;
    if (!request_token(request, &token)) return PROBLEM_NOT_LOGGED_IN;
    switch (people_check(request_rooms(request)->people, token, gate_shop_ms(request_rooms(request)->gate), &request->who)) {
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

/* Whether the route is for this role. False: has replied. */
static bool request_entitled(struct request *request)
{
    unsigned who = request->route->who;
    if (who & (WHO_ANYONE | WHO_ADMITTED)) return true;
    enum problem problem = request->token_problem;
    if (problem == PROBLEM_NONE && !(who & role_bit(request->who.role))) problem = PROBLEM_FORBIDDEN;
    if (problem == PROBLEM_NONE) return true;
    /* A route that is not counted is so for those it is for. Others pay, or they could guess here for nothing. */
    enum problem first = request->route->class == RATE_CLASSES ? request_arrives(request, RATE_WRITE) : PROBLEM_NONE;
    reply_problem(request, first != PROBLEM_NONE ? first : problem, NULL);
    return false;
}

static void request_met(struct gate_ticket *ticket)
{
    struct request *request = REQUEST_OF(ticket, ticket);
    if (ticket->verdict == VERDICT_DONE) {
        request->meet_then(request);
    } else {
        reply_problem(request, PROBLEM_BUSY, NULL);
    }
}

/* The message lies where the next one will be read to; nothing of it is needed any more where it is gone. */
static bool request_keep(struct request *request)
{
    struct slice from = request->http.message;
    if (request->kept != NULL || from.len == 0) return true;
    request->kept = malloc(from.len + 1);
    if (request->kept == NULL) return false;
    http_request_move(&request->http, request->kept);
    for (int i = 0; i < ROUTE_IDS_MAX; i++) request->ids[i] = http_piece_moved(request->ids[i], from, request->kept);
    request->visit.login = http_piece_moved(request->visit.login, from, request->kept);
    return true;
}

bool request_meets(struct request *request, const struct gate_stranger *stranger, void (*then)(struct request *request))
{
    if (request->met || !gate_is_strange(request_rooms(request)->gate, stranger)) return false;
    request->met = true;
    if (!request_keep(request)) {
        reply_problem(request, PROBLEM_BUSY, NULL);
        return true;
    }
    request->meet_then = then;
    request->ticket.done = request_met;
    gate_meet(request->reactor->lane, stranger, &request->ticket);
    return true;
}

static void request_looked(struct gate_ticket *ticket)
{
    struct request *request = REQUEST_OF(ticket, ticket);
    request->meet_then(request); /* whatever was found, memory has it */
}

bool request_looks(struct request *request, void (*then)(struct request *request))
{
    if (request->looked || gate_is_here(request_rooms(request)->gate)) return false;
    request->looked = true;
    if (!request_keep(request)) return false;
    request->meet_then = then;
    request->ticket.done = request_looked;
    gate_look(request->reactor->lane, request->id, &request->ticket);
    return true;
}

/* Whether the handler waits until a sale of the path is known here. */
static bool route_meets(struct request *request)
{
    const struct gate_stranger stranger = { .sale_id = request->id };
    bool strange = request->id != 0 && request->refused == PROBLEM_NONE &&
                   gate_is_strange(request_rooms(request)->gate, &stranger);
    return strange && strstr(request->route->path, "{sale}") != NULL &&
           request_meets(request, &stranger, request->route->handler);
}

/* The address pays before anything is done for it: a flood of what will be refused is refused cheaply. */
static void request_dispatch(struct request *request)
{
    const struct route_tables *doors = &request->reactor->server->options.doors;
    const struct http_request *http = &request->http;
    const struct route *route = route_find(doors, http->method, http->path, request->ids, request->allow);
    request->route = route;
    request->face = route != NULL ? route->face : route_face(doors, http->path);
    if (route != NULL && route->who & WHO_BLOCKED) {
        route->handler(request);
        return;
    }
    request->refused = request_arrives(request, route != NULL ? route->class : RATE_QUERY);
    /* A grab tells bad input first, which is part of its order of problems and costs less than verifying a login. */
    bool tells = request->refused != PROBLEM_NONE && route != NULL && route->who & WHO_ADMITTED;
    if (!tells && !request_passes(request, request->refused)) return;
    if (route == NULL) {
        reply_problem(request, request->allow[0] != '\0' ? PROBLEM_METHOD_NOT_ALLOWED : PROBLEM_NO_SUCH_ROUTE, NULL);
        return;
    }
    if (!text_to_u64(request->ids[0], &request->id)) request->id = 0;
    request->token_problem = tells || route->who & WHO_ANYONE ? PROBLEM_NOT_LOGGED_IN : request_identify(request);
    if (!request_entitled(request)) return;
    /* Also where the sale takes no notice of the login: who is blocked stays blocked. */
    if (request->who.role != ROLE_NONE)
        guard_know(request_rooms(request)->guard, &request->visit, slice_of(request->who.name_bytes));
    /* A grab looks at its input and at the sale first, so that what is wrong with them is told before what is the user's. */
    if (!(route->who & WHO_ADMITTED) && !request_guarded(request)) return;
    if (!route_meets(request)) route->handler(request);
}

void request_begin(struct connection *connection, const struct http_request *http)
{
    struct request *request = request_acquire(connection);
    if (request == NULL) {
        connection_refuse(connection, PROBLEM_BUSY);
        return;
    }
    request->http = *http;
    char forwarded[HTTP_HEAD_BYTES_MAX];
    request->visit.client = proxies_client(&request_rooms(request)->guard->proxies, &connection->peer,
                                           http_forwarded_for(http, forwarded));
    connection->request = request;
    request_dispatch(request);
}

static void work_ask(struct request *request, struct crew *crew, void (*run)(struct query *query, struct ledger *ledger),
                     void (*done)(struct crew_job *job), bool replica)
{
    struct query *query = &request->query;
    if (request->kept == NULL) request->http.message.len = 0; /* the handler is about to return */
    query->run = run;
    query->replica = replica;
    query->rooms = request_rooms(request);
    query->fault = FAULT_NONE;
    query->found = false;
    query->list = NULL;
    query->job = (struct crew_job){ .work = query_work, .done = done, .mailbox = request->reactor->mailbox };
    if (!crew_ask(crew, &query->job)) reply_problem(request, PROBLEM_BUSY, NULL);
}

void request_work(struct request *request, struct crew *crew, void (*run)(struct query *query, struct ledger *ledger),
                  void (*done)(struct crew_job *job))
{
    work_ask(request, crew, run, done, false);
}

void request_read(struct request *request, void (*run)(struct query *query, struct ledger *ledger),
                  void (*done)(struct crew_job *job))
{
    work_ask(request, request_rooms(request)->lists, run, done, true);
}

void request_query(struct request *request, void (*run)(struct query *query, struct ledger *ledger),
                   void (*done)(struct crew_job *job))
{
    const struct rooms *rooms = request_rooms(request);
    request_work(request, request->query.seq_wait != 0 ? rooms->lists : rooms->lookups, run, done);
}
