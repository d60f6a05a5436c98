#include "gateway/request.h"
#include "gateway/resources.h"

#include <strings.h>

/* application/json, with or without parameters. */
static bool content_is_json(struct slice type)
{
    static const char json[] = "application/json";
    if (type.len < sizeof json - 1 || strncasecmp(type.data, json, sizeof json - 1) != 0) return false;
    return type.len == sizeof json - 1 || type.data[sizeof json - 1] == ';' || type.data[sizeof json - 1] == ' ';
}

bool body_read(struct request *request, const struct json_field *fields, size_t count, void *target,
               struct json_found *found)
{
    struct slice body = request->http.body;
    if (body.len > 0 && !content_is_json(request->http.content_type)) {
        reply_problem(request, PROBLEM_UNSUPPORTED_MEDIA_TYPE, NULL);
        return false;
    }
    if (json_read(body, fields, count, target, found)) return true;
    reply_problem(request, PROBLEM_BAD_INPUT, found->objection);
    return false;
}

bool body_none(struct request *request)
{
    struct json_found found;
    return body_read(request, NULL, 0, NULL, &found);
}
