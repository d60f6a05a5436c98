/* The coupon door: users, logins and coupons under /api, as a university course has published them. Here: its routes, its
 * users and their logins. */
#include "doors/coupon.h"

#include "base/text.h"
#include "doors/body.h"
#include "doors/doors.h"
#include "gateway/request.h"
#include "gateway/resources.h"

#include <openssl/crypto.h>

#define NAME_CHARS_MAX 20
#define KIND_BYTES_MAX 256
#define MISMATCHED "Password mismatched."
#define INSERT_FAILED "Insert user failed. Maybe user name duplicates."

void coupon_message(struct request *request, int status, const char *message)
{
    struct json_out out;
    json_object(reply_json(request, &out));
    json_key(&out, "errMsg");
    json_text(&out, message);
    json_object_end(&out);
    reply_send(request, status, &out);
}

void coupon_nothing(struct request *request)
{
    reply_raw(request, &(struct http_head){ .status = 204 }, (struct slice){ "", 0 });
}

/* What its clients know is said in their words; the rest in ours, which they show as they come. */
void coupon_problem(struct request *request, enum problem problem, const char *detail)
{
    switch (problem) {
    case PROBLEM_NOT_LOGGED_IN:
        coupon_message(request, 401, "Not Authorized.");
        return;
    case PROBLEM_TOKEN_EXPIRED:
        coupon_message(request, 401, "Authorization has expired.");
        return;
    default:
        coupon_message(request, problem_status(problem), detail != NULL ? detail : problem_detail(problem));
        return;
    }
}

struct person {
    char username[USERNAME_BYTES_MAX + 1];
    char password[PASSWORD_CHARS_MAX * 4 + 1];
    char kind[KIND_BYTES_MAX + 1];
};

static const struct json_field person_fields[] = {
    { .name = "username", .kind = JSON_TEXT, .max = USERNAME_BYTES_MAX, .offset = offsetof(struct person, username) },
    { .name = "password", .kind = JSON_TEXT, .max = PASSWORD_CHARS_MAX * 4, .offset = offsetof(struct person, password) },
    { .name = "kind", .kind = JSON_TEXT, .max = KIND_BYTES_MAX, .offset = offsetof(struct person, kind) },
};
enum { FIELD_USERNAME = 1 << 0, FIELD_PASSWORD = 1 << 1, FIELD_KIND = 1 << 2 };
#define LOGIN_FIELDS 2 /* the first ones */

/* saler is how they spell it. */
static const char *kind_word(enum role role)
{
    return role == ROLE_SELLER ? "saler" : role_word(role);
}

/* Those that anybody may register as. */
static enum role kind_role(const char *kind)
{
    for (enum role role = ROLE_CUSTOMER; role <= ROLE_SELLER; role++) {
        if (strcmp(kind, kind_word(role)) == 0) return role;
    }
    return ROLE_NONE;
}

/* The first that applies, in the order they are published in; NULL: none. What is too long has not been read, but is there.
 */
static const char *person_objection(const struct person *person, const struct loose_found *found, char unexpected[])
{
    if (person->username[0] == '\0' && !(found->beyond & FIELD_USERNAME)) return "User name too short.";
    if (person->password[0] == '\0' && !(found->beyond & FIELD_PASSWORD)) return "Password too short.";
    if (person->kind[0] == '\0' && !(found->beyond & FIELD_KIND)) return "Empty field of kind.";
    if (kind_role(person->kind) == ROLE_NONE) {
        snprintf(unexpected, KIND_BYTES_MAX + 64, "Unexpected value of kind, %s", person->kind);
        return unexpected;
    }
    struct slice username = slice_of(person->username);
    bool fits = found->beyond == 0 && people_username_objection(username) == NULL && utf8_chars(username) <= NAME_CHARS_MAX;
    return fits ? NULL : INSERT_FAILED;
}

static void person_post(struct request *request)
{
    struct person person = { .username = "" };
    struct loose_found found;
    char unexpected[KIND_BYTES_MAX + 64];
    bool reads = door_body_read(request, person_fields, sizeof person_fields / sizeof *person_fields, &person, &found);
    const char *objection = reads ? person_objection(&person, &found, unexpected) : COUPON_BAD_BODY;
    if (objection != NULL) {
        coupon_message(request, 400, objection);
    } else {
        register_begin(request, person.username, person.password, kind_role(person.kind));
    }
    OPENSSL_cleanse(person.password, sizeof person.password);
}

static void registered_reply(struct request *request, const struct people_request *people)
{
    (void)people;
    coupon_message(request, 201, "");
}

static void register_problem(struct request *request, enum problem problem, const char *detail)
{
    if (problem == PROBLEM_USERNAME_TAKEN) {
        coupon_message(request, 400, INSERT_FAILED);
    } else {
        coupon_problem(request, problem, detail);
    }
}

/* extra: whole header lines. */
static void login_reply(struct request *request, const struct http_head *head, const char *kind, const char *message)
{
    struct json_out out;
    json_object(reply_json(request, &out));
    json_key(&out, "kind");
    json_text(&out, kind);
    json_key(&out, "errMsg");
    json_text(&out, message);
    json_object_end(&out);
    reply_raw(request, head, (struct slice){ out.data, out.len });
}

static void login_refuse(struct request *request, int status, const char *message)
{
    const struct http_head head = { .status = status, .content_type = SLICE("application/json") };
    login_reply(request, &head, "", message);
}

/* A name that nobody has and a password that is wrong hear the same, and neither hears a role. */
static void login_problem(struct request *request, enum problem problem, const char *detail)
{
    if (problem == PROBLEM_BAD_LOGIN) {
        login_refuse(request, 401, MISMATCHED);
    } else {
        login_refuse(request, problem_status(problem), detail != NULL ? detail : problem_detail(problem));
    }
}

static void logged_in_reply(struct request *request, const struct people_request *people)
{
    char extra[TOKEN_BYTES_MAX + 32];
    int len = snprintf(extra, sizeof extra, "Authorization: %s\r\n", people->token);
    const struct http_head head = { .status = 200,
                                    .content_type = SLICE("application/json"),
                                    .extra = { extra, (size_t)len } };
    login_reply(request, &head, kind_word(people->role), "");
}

static void auth_post(struct request *request)
{
    struct person person = { .username = "" };
    struct loose_found found;
    if (!door_body_read(request, person_fields, LOGIN_FIELDS, &person, &found)) {
        login_refuse(request, 400, COUPON_BAD_BODY);
    } else if (person.username[0] == '\0' || person.password[0] == '\0') {
        login_refuse(request, 401, MISMATCHED); /* nobody is called so */
    } else {
        login_begin(request, person.username, person.password, kind_word);
    }
    OPENSSL_cleanse(person.password, sizeof person.password);
}

static void logged_out_reply(struct request *request)
{
    coupon_message(request, 200, "log out.");
}

static const struct face register_face = { .token_bare = true, .problem = register_problem, .registered = registered_reply };
static const struct face login_face = { .token_bare = true, .problem = login_problem, .logged_in = logged_in_reply };
static const struct face logout_face = { .token_bare = true, .problem = coupon_problem, .logged_out = logged_out_reply };
static const struct face plain_face = { .token_bare = true, .problem = coupon_problem };

static const struct route routes[] = {
    { HTTP_PATCH_, "/api/users/{seller}/coupons/{coupon}", WHO_CUSTOMER, RATE_GRAB, coupon_grab, &coupon_grab_face },
    { HTTP_GET_, "/api/users/{name}/coupons", WHO_USER, RATE_QUERY, coupon_list, &coupon_list_face },
    { HTTP_POST_, "/api/users/{seller}/coupons", WHO_SELLER, RATE_WRITE, coupon_create, &coupon_create_face },
    { HTTP_POST_, "/api/users", WHO_ANYONE, RATE_REGISTER, person_post, &register_face },
    { HTTP_POST_, "/api/auth", WHO_ANYONE, RATE_LOGIN, auth_post, &login_face },
    { HTTP_POST_, "/api/auth/logout", WHO_USER, RATE_WRITE, logout_begin, &logout_face },
};

const struct route_table coupon_door = { routes, sizeof routes / sizeof *routes, "/api", &plain_face };
