#include "wire/loose_take.h"

/* jansson has a JSON_INTEGER of its own: see json_in.c. */
#define JSON_INTEGER JANSSON_INTEGER
#include <jansson.h>
#undef JSON_INTEGER

#include <assert.h>

static bool members_take(const json_t *root, const struct json_field *fields, size_t count, void *target,
                         struct loose_found *found)
{
    for (size_t i = 0; i < count; i++) {
        const struct json_field *field = &fields[i];
        const json_t *value = json_object_get(root, field->name);
        char *at = (char *)target + field->offset;
        uint32_t bit = UINT32_C(1) << i;
        if (value == NULL || json_typeof(value) == JSON_NULL) continue;
        bool whole = field->kind == JSON_INTEGER;
        if (json_typeof(value) != (whole ? JANSSON_INTEGER : JSON_STRING)) return false;
        if (whole) {
            loose_take_integer(field, json_integer_value(value), bit, at, found);
        } else {
            loose_take_text(field, (struct slice){ json_string_value(value), json_string_length(value) }, bit, at, found);
        }
    }
    return true;
}

bool loose_json_read(struct slice body, const struct json_field *fields, size_t count, void *target,
                     struct loose_found *found)
{
    assert(count <= 32);
    *found = (struct loose_found){ .given = 0 };
    json_error_t error;
    json_t *root = json_loadb(body.data, body.len, JSON_REJECT_DUPLICATES, &error);
    bool good = root != NULL && json_typeof(root) == JSON_OBJECT && members_take(root, fields, count, target, found);
    json_decref(root);
    return good;
}
