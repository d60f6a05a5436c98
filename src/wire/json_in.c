#include "wire/json_in.h"

#include "base/text.h"
#include "wire/json_short.h"

/* jansson has a JSON_INTEGER of its own. It is renamed while its header is read; its macros that mention it, such as
 * json_is_integer(), are not used here, because they would mean ours. */
#define JSON_INTEGER JANSSON_INTEGER
#include <jansson.h>
#undef JSON_INTEGER

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

/* How much of an unknown name is said back. */
#define NAME_SHOWN_MAX 64

struct reading {
    struct slice body;
    const struct json_field *fields;
    size_t count;
    void *target;
    struct json_found *found;
    const struct json_field *within; /* the field whose members these are; NULL for the body itself */
};

/* What stands before the name of a field when it is spoken of. */
static const char *prefix(const struct reading *reading)
{
    return reading->within == NULL ? "" : reading->within->name;
}

static const char *dot(const struct reading *reading)
{
    return reading->within == NULL ? "" : ".";
}

/* Always false, so that objecting and refusing are one line. */
__attribute__((format(printf, 2, 3))) static bool object(const struct reading *reading, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(reading->found->objection, sizeof(reading->found->objection), format, arguments);
    va_end(arguments);
    return false;
}

static const char *syntax_objection(enum json_error_code code)
{
    switch (code) {
    case json_error_premature_end_of_input:
        return "it ends too early";
    case json_error_end_of_input_expected:
        return "something follows the value";
    case json_error_invalid_utf8:
        return "invalid UTF-8";
    case json_error_null_character:
    case json_error_null_byte_in_key:
        return "a NUL character";
    case json_error_stack_overflow:
        return "nested too deeply";
    default:
        return "invalid syntax";
    }
}

/* The field whose quoted name ends where jansson stopped, or NULL. */
static const struct json_field *field_before(const struct reading *reading, size_t position)
{
    const char *body = reading->body.data;

    if (position > reading->body.len) return NULL;
    for (size_t i = 0; i < reading->count; i++) {
        const char *name = reading->fields[i].name;
        size_t len = strlen(name);
        if (position < len + 2 || body[position - 1] != '"' || body[position - len - 2] != '"') continue;
        if (memcmp(body + position - len - 1, name, len) == 0) return &reading->fields[i];
    }
    return NULL;
}

static bool object_to_range(const struct reading *reading, const struct json_field *field)
{
    return object(reading, "%s%s%s must be an integer from %" PRId64 " to %" PRId64, prefix(reading), dot(reading),
                  field->name, field->min, field->max);
}

/* Objects to the first field whose number is beyond 64 bits. */
static void object_to_large(const struct reading *reading, const json_t *root, bool *said)
{
    for (size_t i = 0; i < reading->count && !*said; i++) {
        const struct json_field *field = &reading->fields[i];
        const json_t *value = json_object_get(root, field->name);
        double number = json_real_value(value);
        if (field->kind == JSON_INTEGER && (number >= 0x1p63 || number <= -0x1p63)) {
            object_to_range(reading, field);
            *said = true;
        }
        const struct reading members = { reading->body,   field->members, field->members_count,
                                         reading->target, reading->found, field };
        if (field->kind == JSON_EITHER) object_to_large(&members, value, said);
    }
}

/* jansson gives up at a number beyond 64 bits without saying whose it is. Read again with every number as a real, the body
 * has a value for it that is out of every range, and the field can be named. */
static bool object_to_overflow(const struct reading *reading, size_t position)
{
    size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL;
    json_error_t error;
    json_t *root = json_loadb(reading->body.data, reading->body.len, flags, &error);
    bool said = false;
    object_to_large(reading, root, &said);
    json_decref(root);
    return said ? false : object(reading, "a number is too large at byte %zu", position);
}

static bool object_to_syntax(const struct reading *reading, const json_error_t *error)
{
    enum json_error_code code = json_error_code(error);
    size_t position = error->position > 0 ? (size_t)error->position : 0;

    if (code == json_error_duplicate_key) {
        const struct json_field *field = field_before(reading, position);
        if (field != NULL) return object(reading, "duplicate field \"%s\"", field->name);
        return object(reading, "duplicate field at byte %zu", position);
    }
    if (code == json_error_numeric_overflow) return object_to_overflow(reading, position);
    return object(reading, "the body is not valid JSON: %s at byte %zu", syntax_objection(code), position);
}

static bool object_to_unknown(const struct reading *reading, const char *key)
{
    size_t len = strlen(key);
    size_t shown = len;
    if (len > NAME_SHOWN_MAX) {
        /* Cut between characters, not within one. */
        for (shown = NAME_SHOWN_MAX; ((unsigned char)key[shown] & 0xc0) == 0x80;) shown--;
    }
    return object(reading, "unknown field \"%s%s%.*s%s\"", prefix(reading), dot(reading), (int)shown, key,
                  shown < len ? "..." : "");
}

static bool control_allowed(char byte, enum json_kind kind)
{
    return kind == JSON_LINES && (byte == '\n' || byte == '\t');
}

static bool read_string(const struct reading *reading, const struct json_field *field, const json_t *value)
{
    size_t len = json_string_length(value);

    if (json_typeof(value) != JSON_STRING || len < (uint64_t)field->min || len > (uint64_t)field->max) {
        if (field->min == field->max)
            return object(reading, "%s%s%s must be a string of %" PRId64 " bytes", prefix(reading), dot(reading),
                          field->name, field->min);
        return object(reading, "%s%s%s must be a string of %" PRId64 " to %" PRId64 " bytes", prefix(reading), dot(reading),
                      field->name, field->min, field->max);
    }
    const char *text = json_string_value(value);
    for (size_t i = 0; i < len; i++) {
        bool control = (unsigned char)text[i] < 0x20 || text[i] == 0x7f;
        if (control && !control_allowed(text[i], field->kind))
            return object(reading, "%s%s%s must not have control characters", prefix(reading), dot(reading), field->name);
    }
    memcpy((char *)reading->target + field->offset, text, len + 1);
    return true;
}

static bool read_integer(const struct reading *reading, const struct json_field *field, const json_t *value)
{
    int64_t number = json_integer_value(value);

    if (json_typeof(value) != JANSSON_INTEGER || number < field->min || number > field->max)
        return object_to_range(reading, field);
    memcpy((char *)reading->target + field->offset, &number, sizeof(number));
    return true;
}

static bool read_time(const struct reading *reading, const struct json_field *field, const json_t *value)
{
    uint64_t ms;

    if (json_typeof(value) != JSON_STRING ||
        !time_from_text((struct slice){ json_string_value(value), json_string_length(value) }, &ms))
        return object(reading, "%s%s%s must be a time such as 2026-01-31T12:00:00.000Z", prefix(reading), dot(reading),
                      field->name);
    memcpy((char *)reading->target + field->offset, &ms, sizeof(ms));
    return true;
}

static bool read_flag(const struct reading *reading, const struct json_field *field, const json_t *value)
{
    bool flag = json_typeof(value) == JSON_TRUE;
    if (!flag && json_typeof(value) != JSON_FALSE)
        return object(reading, "%s%s%s must be true or false", prefix(reading), dot(reading), field->name);
    memcpy((char *)reading->target + field->offset, &flag, sizeof(flag));
    return true;
}

static bool read_name(const struct reading *reading, const struct json_field *field, const json_t *value)
{
    int64_t number = json_integer_value(value);
    if (json_typeof(value) == JSON_STRING) return read_string(reading, field, value);
    if (json_typeof(value) != JANSSON_INTEGER || number < 0)
        return object(reading, "%s%s%s must be a name or a number from 0 on", prefix(reading), dot(reading), field->name);
    assert(field->max >= 20);
    char *target = (char *)reading->target + field->offset;
    target[text_from_u64(target, (uint64_t)number)] = '\0';
    return true;
}

static bool read_either(const struct reading *reading, const struct json_field *field, const json_t *value);

static bool read_value(const struct reading *reading, const struct json_field *field, const json_t *value)
{
    switch (field->kind) {
    case JSON_TEXT:
    case JSON_LINES:
        return read_string(reading, field, value);
    case JSON_INTEGER:
        return read_integer(reading, field, value);
    case JSON_TIME:
        return read_time(reading, field, value);
    case JSON_FLAG:
        return read_flag(reading, field, value);
    case JSON_NAME:
        return read_name(reading, field, value);
    case JSON_EITHER:
        return read_either(reading, field, value);
    }
    assert(false && "a kind that is not in the table");
    return false;
}

static bool all_known(const struct reading *reading, const json_t *root)
{
    json_t *object_read = (json_t *)root; /* jansson walks an object without changing it, and does not say so */
    for (void *at = json_object_iter(object_read); at != NULL; at = json_object_iter_next(object_read, at)) {
        const char *key = json_object_iter_key(at);
        size_t i = 0;
        while (i < reading->count && strcmp(reading->fields[i].name, key) != 0) i++;
        if (i == reading->count) return object_to_unknown(reading, key);
    }
    return true;
}

/* root is NULL for an empty body. */
static bool read_fields(const struct reading *reading, const json_t *root)
{
    for (size_t i = 0; i < reading->count; i++) {
        const struct json_field *field = &reading->fields[i];
        const json_t *value = json_object_get(root, field->name);

        if (value == NULL) {
            if (field->required) return object(reading, "%s%s%s is missing", prefix(reading), dot(reading), field->name);
        } else if (field->nullable && json_typeof(value) == JSON_NULL) {
            reading->found->nulled |= UINT32_C(1) << i;
        } else {
            if (!read_value(reading, field, value)) return false;
            reading->found->given |= UINT32_C(1) << i;
        }
    }
    return true;
}

static bool read_either(const struct reading *reading, const struct json_field *field, const json_t *value)
{
    if (json_typeof(value) == JSON_STRING) return read_string(reading, field, value);
    if (json_typeof(value) != JSON_OBJECT) return object(reading, "%s must be a name or an object", field->name);

    struct json_found within = { 0 };
    const struct reading members = { reading->body, field->members, field->members_count, reading->target, &within, field };
    if (all_known(&members, value) && read_fields(&members, value)) return true;
    memcpy(reading->found->objection, within.objection, sizeof(within.objection));
    return false;
}

bool json_read(struct slice body, const struct json_field *fields, size_t count, void *target, struct json_found *found)
{
    const struct reading reading = { body, fields, count, target, found, NULL };

    assert(count <= 32);
    if (json_short_read(body, fields, count, target, found)) return true;
    found->given = found->nulled = 0;
    if (body.len == 0) return read_fields(&reading, NULL);

    json_error_t error;
    json_t *root = json_loadb(body.data, body.len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (root == NULL) return object_to_syntax(&reading, &error);

    bool good;
    if (json_typeof(root) != JSON_OBJECT)
        good = object(&reading, "the body must be a JSON object");
    else
        good = all_known(&reading, root) && read_fields(&reading, root);
    json_decref(root);
    return good;
}
