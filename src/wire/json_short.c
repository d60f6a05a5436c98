#include "wire/json_short.h"

#include "base/text.h"

/* Enough for every bound a field has, and never too much for int64_t. */
#define DIGITS_MAX 18

struct cursor {
    const char *at, *end;
};

static bool eat(struct cursor *cursor, char byte)
{
    if (cursor->at == cursor->end || *cursor->at != byte) return false;
    cursor->at++;
    return true;
}

/* Text between quotes that stands for itself. DEL is left to the long way, which knows who minds it. */
static bool eat_text(struct cursor *cursor, struct slice *out)
{
    if (!eat(cursor, '"')) return false;
    const char *from = cursor->at;
    bool ascii = true;
    while (cursor->at < cursor->end && *cursor->at != '"') {
        unsigned char byte = (unsigned char)*cursor->at++;
        if (byte < 0x20 || byte == 0x7f || byte == '\\') return false;
        if (byte >= 0x80) ascii = false;
    }
    *out = (struct slice){ from, (size_t)(cursor->at - from) };
    return eat(cursor, '"') && (ascii || utf8_valid(*out));
}

static bool eat_integer(struct cursor *cursor, int64_t *out)
{
    bool negative = eat(cursor, '-');
    const char *from = cursor->at;
    int64_t value = 0;
    while (cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9') {
        if (cursor->at - from == DIGITS_MAX) return false;
        value = value * 10 + (*cursor->at++ - '0');
    }
    *out = negative ? -value : value;
    return cursor->at > from && (*from != '0' || cursor->at == from + 1);
}

static bool eat_value(struct cursor *cursor, const struct json_field *field, char *target)
{
    if (field->kind == JSON_EITHER || field->kind == JSON_FLAG) return false; /* rare: the long way reads it */
    int64_t number;
    if (field->kind == JSON_INTEGER) {
        if (!eat_integer(cursor, &number) || number < field->min || number > field->max) return false;
        memcpy(target, &number, sizeof(number));
        return true;
    }
    if (field->kind == JSON_NAME && cursor->at < cursor->end && *cursor->at != '"') {
        if (!eat_integer(cursor, &number) || number < 0 || field->max < DIGITS_MAX) return false;
        target[text_from_u64(target, (uint64_t)number)] = '\0';
        return true;
    }

    struct slice text;
    if (!eat_text(cursor, &text)) return false;
    if (field->kind == JSON_TIME) {
        uint64_t ms;
        if (!time_from_text(text, &ms)) return false;
        memcpy(target, &ms, sizeof(ms));
        return true;
    }
    if (text.len < (uint64_t)field->min || text.len > (uint64_t)field->max) return false;
    memcpy(target, text.data, text.len);
    target[text.len] = '\0';
    return true;
}

static bool eat_member(struct cursor *cursor, const struct json_field *fields, size_t count, void *target,
                       struct json_found *found)
{
    struct slice name;
    if (!eat_text(cursor, &name) || !eat(cursor, ':')) return false;
    for (size_t i = 0; i < count; i++) {
        if (!slice_is(name, fields[i].name)) continue;
        /* A second one of the same name is the long way's to refuse, and so is null. */
        if ((found->given & UINT32_C(1) << i) != 0) return false;
        found->given |= UINT32_C(1) << i;
        return eat_value(cursor, &fields[i], (char *)target + fields[i].offset);
    }
    return false;
}

bool json_short_read(struct slice body, const struct json_field *fields, size_t count, void *target,
                     struct json_found *found)
{
    struct cursor cursor = { body.data, body.data + body.len };

    found->given = found->nulled = 0;
    if (!eat(&cursor, '{')) return false;
    if (!eat(&cursor, '}')) {
        do {
            if (!eat_member(&cursor, fields, count, target, found)) return false;
        } while (eat(&cursor, ','));
        if (!eat(&cursor, '}')) return false;
    }
    if (cursor.at != cursor.end) return false;
    for (size_t i = 0; i < count; i++)
        if (fields[i].required && (found->given & UINT32_C(1) << i) == 0) return false;
    return true;
}
