#include "doors/body.h"

#include "gateway/request.h"

#include <strings.h>

static bool content_is_form(struct slice type)
{
    static const char form[] = "application/x-www-form-urlencoded";
    return type.len >= sizeof form - 1 && strncasecmp(type.data, form, sizeof form - 1) == 0;
}

bool door_body_read(const struct request *request, const struct json_field *fields, size_t count, void *target,
                    struct loose_found *found)
{
    struct slice body = request->http.body;
    size_t at = 0;
    while (at < body.len && strchr(" \t\r\n", body.data[at]) != NULL && body.data[at] != '\0') at++;
    if (at < body.len && body.data[at] == '{') return loose_json_read(body, fields, count, target, found);
    return content_is_form(request->http.content_type) && loose_form_read(body, fields, count, target, found);
}
