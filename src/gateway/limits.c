/* The limits of the guard, for admins; they count from the next request on and until the next start. */
#include "gateway/request.h"
#include "gateway/resources.h"

static void limits_reply(struct request *request, const struct limit_terms *terms)
{
    struct json_out out;
    allowance_render(reply_json(request, &out), terms);
    reply_send(request, 200, &out);
}

void limits_get(struct request *request)
{
    struct limit_terms terms;
    allowance_read(request_rooms(request)->guard->allowance, &terms);
    limits_reply(request, &terms);
}

void limits_put(struct request *request)
{
    struct guard *guard = request_rooms(request)->guard;
    struct limit_terms terms, now;
    struct json_field fields[LIMIT_ROWS];
    struct json_found found;
    allowance_fields(fields);
    if (!body_read(request, fields, LIMIT_ROWS, &terms, &found)) return;
    guard_change_limits(guard, &terms, found.given, &now);
    limits_reply(request, &now);
}
