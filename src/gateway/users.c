#include "base/clock.h"
#include "base/metrics.h"
#include "gateway/request.h"
#include "gateway/resources.h"

#include <assert.h>
#include <openssl/crypto.h>

struct user_body {
    char username[USERNAME_BYTES_MAX + 1];
    char password[PASSWORD_CHARS_MAX * 4 + 1];
    char role[16];
};

static const struct json_field user_fields[] = {
    { .name = "username",
      .kind = JSON_TEXT,
      .required = true,
      .min = 1,
      .max = USERNAME_BYTES_MAX,
      .offset = offsetof(struct user_body, username) },
    { .name = "password",
      .kind = JSON_TEXT,
      .required = true,
      .min = 1,
      .max = PASSWORD_CHARS_MAX * 4,
      .offset = offsetof(struct user_body, password) },
    { .name = "role", .kind = JSON_TEXT, .required = true, .min = 1, .max = 15, .offset = offsetof(struct user_body, role) },
};
#define LOGIN_FIELDS 2 /* the first ones */

/* The answer where it is not a good one. False: it is, and the handler says which. */
static bool people_refused(struct request *request, enum people_result result)
{
    static const enum problem problems[] = {
        [PEOPLE_OK] = PROBLEM_NONE,   [PEOPLE_TAKEN] = PROBLEM_USERNAME_TAKEN, [PEOPLE_BAD_LOGIN] = PROBLEM_BAD_LOGIN,
        [PEOPLE_BUSY] = PROBLEM_BUSY, [PEOPLE_FAILED] = PROBLEM_FAILED,
    };
    if (problems[result] == PROBLEM_NONE) return false;
    reply_problem(request, problems[result], NULL);
    return true;
}

static void people_ask(struct request *request, const char *username, const char *password,
                       void (*done)(struct people_request *people))
{
    struct people_request *people = &request->people;
    size_t username_len = strlen(username), password_len = strlen(password);
    assert(username_len < sizeof people->username && password_len < sizeof people->password);
    people->done = done;
    people->people = request_rooms(request)->people;
    memcpy(people->username, username, username_len + 1);
    memcpy(people->password, password, password_len + 1);
}

/* The breaker judges what the work took, not the wait for a turn: a crowd that logs in at once is no failure, and being
 * turned away together would only make it longer. */
static void wait_excuse(struct request *request, const struct people_request *people)
{
    uint64_t now_ns = mono_ns(), worked_from_ns = request->visit.entered_ns + people->job.waited_ms * 1000000;
    request->visit.entered_ns = worked_from_ns < now_ns ? worked_from_ns : now_ns; /* milliseconds are rounded */
}

static void register_done(struct people_request *people)
{
    struct request *request = REQUEST_OF(people, people);
    wait_excuse(request, people);
    if (people_refused(request, people->result)) return;
    const struct face *face = request->face;
    if (face != NULL) {
        face->registered(request, people);
        return;
    }
    struct json_out out;
    json_object(reply_json(request, &out));
    json_key(&out, "username");
    json_text(&out, people->username);
    json_key(&out, "role");
    json_text(&out, role_word(people->role));
    json_object_end(&out);
    reply_send(request, 201, &out);
}

void register_begin(struct request *request, const char *username, const char *password, enum role role)
{
    people_ask(request, username, password, register_done);
    request->people.role = role;
    people_register(&request->people, request->reactor->mailbox);
}

void users_post(struct request *request)
{
    struct user_body body;
    struct json_found found;
    if (!body_read(request, user_fields, sizeof user_fields / sizeof *user_fields, &body, &found)) return;
    const char *objection = people_username_objection(slice_of(body.username));
    if (objection == NULL) objection = people_password_objection(slice_of(body.password));
    enum role role = strcmp(body.role, "customer") == 0 ? ROLE_CUSTOMER
                     : strcmp(body.role, "seller") == 0 ? ROLE_SELLER
                                                        : ROLE_NONE;
    if (objection == NULL && role == ROLE_NONE) objection = "role must be customer or seller";
    if (objection != NULL) {
        reply_problem(request, PROBLEM_BAD_INPUT, objection);
    } else {
        register_begin(request, body.username, body.password, role);
    }
    OPENSSL_cleanse(body.password, sizeof body.password);
}

/* Guessing is told apart from knowing, and from our being too busy to look. */
static void login_count(struct request *request, const struct people_request *people)
{
    struct logins *logins = request_rooms(request)->guard->logins;
    struct slice account = slice_of(people->username);
    if (people->result == PEOPLE_OK) {
        logins_succeeded(logins, account, &request->visit.client, mono_ms());
    } else if (people->result == PEOPLE_BAD_LOGIN) {
        logins_failed(logins, account, &request->visit.client, mono_ms());
    } else {
        logins_untried(logins, account, &request->visit.client, mono_ms());
    }
}

static void login_done(struct people_request *people)
{
    struct request *request = REQUEST_OF(people, people);
    wait_excuse(request, people);
    login_count(request, people);
    if (people_refused(request, people->result)) return;
    const struct face *face = request->face;
    if (face != NULL) {
        face->logged_in(request, people);
        return;
    }
    struct json_out out;
    json_object(reply_json(request, &out));
    json_key(&out, "token");
    json_text(&out, people->token);
    json_key(&out, "role");
    json_text(&out, role_word(people->role));
    json_key(&out, "expires_at");
    json_time(&out, people->expires_ms);
    json_object_end(&out);
    reply_send(request, 200, &out);
}

void login_begin(struct request *request, const char *username, const char *password, const char *(*kind)(enum role role))
{
    struct guard *guard = request_rooms(request)->guard;
    uint64_t retry_ms;
    if (!logins_may_try(guard->logins, slice_of(username), &request->visit.client, mono_ms(), &retry_ms)) {
        request->retry_s = (uint32_t)((retry_ms + 999) / 1000);
        guard_refused(guard, GUARD_LOGIN, &request->visit);
        reply_problem(request, PROBLEM_TOO_MANY_TRIES, NULL);
        return;
    }
    people_ask(request, username, password, login_done);
    request->people.kind = kind;
    people_login(&request->people, request->reactor->mailbox);
}

void login_post(struct request *request)
{
    struct user_body body = { .role = "" };
    struct json_found found;
    if (!body_read(request, user_fields, LOGIN_FIELDS, &body, &found)) return;
    login_begin(request, body.username, body.password, NULL);
    OPENSSL_cleanse(body.password, sizeof body.password);
}

static void logout_done(struct people_request *people)
{
    struct request *request = REQUEST_OF(people, people);
    if (people_refused(request, people->result)) return;
    const struct face *face = request->face;
    if (face != NULL) {
        face->logged_out(request);
        return;
    }
    reply_raw(request, &(struct http_head){ .status = 204 }, (struct slice){ "", 0 });
}

void logout_begin(struct request *request)
{
    struct people_request *people = &request->people;
    people->done = logout_done;
    people->people = request_rooms(request)->people;
    people->token_id = request->who.token_id;
    people->expires_ms = request->who.expires_ms;
    people_logout(people, request->reactor->mailbox);
}

void logout_post(struct request *request)
{
    if (body_none(request)) logout_begin(request);
}
