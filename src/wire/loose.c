#include "wire/loose.h"

#include "base/text.h"
#include "wire/http.h"
#include "wire/loose_take.h"

#include <assert.h>

/* By CR LF, as browsers send what was typed on several lines; a line feed alone is kept. */
static bool line_ends(struct slice text, size_t at)
{
    return text.data[at] == '\r' && at + 1 < text.len && text.data[at + 1] == '\n';
}

void loose_take_text(const struct json_field *field, struct slice text, uint32_t bit, char *target,
                     struct loose_found *found)
{
    bool fits = text.len >= (uint64_t)field->min && text.len <= (uint64_t)field->max;
    for (size_t i = 0; fits && i < text.len; i++) {
        bool control = (unsigned char)text.data[i] < 0x20 || text.data[i] == 0x7f;
        bool line = text.data[i] == '\n' || text.data[i] == '\t' || line_ends(text, i);
        fits = !control || (field->kind == JSON_LINES && line);
    }
    *(fits ? &found->given : &found->beyond) |= bit;
    if (!fits) return;
    for (size_t i = 0; i < text.len; i++) {
        if (!line_ends(text, i)) *target++ = text.data[i];
    }
    *target = '\0';
}

void loose_take_integer(const struct json_field *field, int64_t number, uint32_t bit, char *target,
                        struct loose_found *found)
{
    bool fits = number >= field->min && number <= field->max;
    *(fits ? &found->given : &found->beyond) |= bit;
    if (fits) memcpy(target, &number, sizeof(number));
}

/* Digits with or without a minus. What has more digits than int64_t holds is as far away as that goes. */
static bool integer_read(struct slice text, int64_t *out)
{
    bool negative = text.len > 0 && text.data[0] == '-';
    struct slice digits = { text.data + negative, text.len - negative };
    uint64_t value = 0;
    for (size_t i = 0; i < digits.len; i++) {
        if (digits.data[i] < '0' || digits.data[i] > '9') return false;
    }
    if (digits.len == 0) return false;
    if (!text_to_u64(digits, &value) || value > INT64_MAX) value = INT64_MAX;
    *out = negative ? -(int64_t)value : (int64_t)value;
    return true;
}

bool loose_form_read(struct slice body, const struct json_field *fields, size_t count, void *target,
                     struct loose_found *found)
{
    char value[HTTP_BODY_BYTES_MAX + 1];
    assert(count <= 32);
    *found = (struct loose_found){ .given = 0 };
    for (size_t i = 0; i < count; i++) {
        const struct json_field *field = &fields[i];
        char *at = (char *)target + field->offset;
        bool bad;
        if (!http_query_get(body, field->name, value, sizeof(value), &bad)) continue;
        if (bad) return false;
        int64_t number;
        if (field->kind != JSON_INTEGER) {
            loose_take_text(field, slice_of(value), UINT32_C(1) << i, at, found);
        } else if (integer_read(slice_of(value), &number)) {
            loose_take_integer(field, number, UINT32_C(1) << i, at, found);
        } else {
            return false;
        }
    }
    return true;
}
