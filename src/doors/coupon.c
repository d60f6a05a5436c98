/* The coupon door: users, logins and coupons under /api, as a university course has published them. Every answer with a body
 * has errMsg, empty where all is well. */
#include "doors/doors.h"
#include "gateway/request.h"
#include "gateway/resources.h"

static void message_reply(struct request *request, int status, const char *message)
{
    struct json_out out;
    json_object(reply_json(request, &out));
    json_key(&out, "errMsg");
    json_text(&out, message);
    json_object_end(&out);
    reply_send(request, status, &out);
}

/* What its clients know in their own words; the rest in ours, which they show as they come. */
static void problem_reply(struct request *request, enum problem problem, const char *detail)
{
    switch (problem) {
    case PROBLEM_NOT_LOGGED_IN:
        message_reply(request, 401, "Not Authorized.");
        return;
    case PROBLEM_TOKEN_EXPIRED:
        message_reply(request, 401, "Authorization has expired.");
        return;
    default:
        message_reply(request, problem_status(problem), detail != NULL ? detail : problem_detail(problem));
        return;
    }
}

static void logged_out_reply(struct request *request)
{
    message_reply(request, 200, "log out.");
}

static const struct face face = { .token_bare = true, .problem = problem_reply, .logged_out = logged_out_reply };

static const struct route routes[] = {
    { HTTP_POST_, "/api/auth/logout", WHO_USER, RATE_WRITE, logout_begin, &face },
};

const struct route_table coupon_door = { routes, sizeof routes / sizeof *routes };
