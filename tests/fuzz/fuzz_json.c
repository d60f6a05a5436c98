/* Any body against a table with every kind of field. What is taken is within its bounds and survives being written and read
 * again; what is refused gets a sentence that is itself fit to be sent. With a space before it a body means the same but
 * must take the long way, so both ways have to come to the same end. */
#include "base/text.h"
#include "wire/json_in.h"
#include "wire/json_out.h"

#include <stddef.h>
#include <stdlib.h>

#define MUST(condition)                                                                                                     \
    do {                                                                                                                    \
        if (!(condition)) abort();                                                                                          \
    } while (0)

struct form {
    char name[33];
    char note[65];
    int64_t units;
    int64_t any;
    uint64_t at;
    char line[17]; /* the name, or empty and the two below */
    int64_t rate;
    char label[9];
};

static const struct json_field members[] = {
    { "rate", JSON_INTEGER, true, false, 1, 1000, .offset = offsetof(struct form, rate) },
    { "label", JSON_TEXT, false, true, 0, 8, .offset = offsetof(struct form, label) },
};

static const struct json_field fields[] = {
    { "name", JSON_TEXT, true, false, 1, 32, .offset = offsetof(struct form, name) },
    { "note", JSON_LINES, false, true, 0, 64, .offset = offsetof(struct form, note) },
    { "units", JSON_INTEGER, false, false, 1, 1000000000, .offset = offsetof(struct form, units) },
    { "any", JSON_INTEGER, false, true, INT64_MIN, INT64_MAX, .offset = offsetof(struct form, any) },
    { "at", JSON_TIME, false, true, 0, 0, .offset = offsetof(struct form, at) },
    { "line", JSON_EITHER, false, true, 1, 16, offsetof(struct form, line), members, 2 },
};
#define FIELDS (sizeof(fields) / sizeof(fields[0]))

static void line_write(const struct form *form, struct json_out *json)
{
    json_key(json, "line");
    if (form->line[0] != '\0') {
        json_text(json, form->line);
        return;
    }
    json_object(json);
    json_key(json, "rate"), json_i64(json, form->rate);
    json_key(json, "label"), json_text(json, form->label);
    json_object_end(json);
}

static size_t form_write(const struct form *form, const struct json_found *found, char *out, size_t size)
{
    struct json_out json;
    json_out_init(&json, out, size);
    json_object(&json);
    if (found->given & 1) json_key(&json, "name"), json_text(&json, form->name);
    if (found->given & 2) json_key(&json, "note"), json_text(&json, form->note);
    if (found->given & 4) json_key(&json, "units"), json_i64(&json, form->units);
    if (found->given & 8) json_key(&json, "any"), json_i64(&json, form->any);
    if (found->given & 16) json_key(&json, "at"), json_time(&json, form->at);
    if (found->given & 32) line_write(form, &json);
    if (found->nulled & 2) json_key(&json, "note"), json_null(&json);
    if (found->nulled & 8) json_key(&json, "any"), json_null(&json);
    if (found->nulled & 16) json_key(&json, "at"), json_null(&json);
    if (found->nulled & 32) json_key(&json, "line"), json_null(&json);
    json_object_end(&json);
    MUST(!json.overflow);
    return json.len;
}

static void form_same(const struct form *a, const struct json_found *found_a, const struct form *b,
                      const struct json_found *found_b)
{
    MUST(found_a->given == found_b->given && found_a->nulled == found_b->nulled);
    MUST(strcmp(a->name, b->name) == 0 && strcmp(a->note, b->note) == 0);
    MUST(a->units == b->units && a->any == b->any && a->at == b->at);
    MUST(strcmp(a->line, b->line) == 0 && a->rate == b->rate && strcmp(a->label, b->label) == 0);
}

static void both_ways(const uint8_t *data, size_t size)
{
    struct form shorter = { .units = 1 }, longer = { .units = 1 };
    struct json_found found_shorter, found_longer;
    char *spaced = malloc(size + 1);
    MUST(spaced != NULL);
    spaced[0] = ' ';
    memcpy(spaced + 1, data, size);
    bool short_way = json_read((struct slice){ (const char *)data, size }, fields, FIELDS, &shorter, &found_shorter);
    bool long_way = json_read((struct slice){ spaced, size + 1 }, fields, FIELDS, &longer, &found_longer);
    MUST(short_way == long_way);
    if (short_way) form_same(&shorter, &found_shorter, &longer, &found_longer);
    free(spaced);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct form form = { .units = 1 }, again = { .units = 1 };
    struct json_found found, found_again;

    if (size == 0) return 0;
    both_ways(data, size);
    if (!json_read((struct slice){ (const char *)data, size }, fields, FIELDS, &form, &found)) {
        MUST(found.objection[0] != '\0' && utf8_valid(slice_of(found.objection)));
        return 0;
    }
    MUST((found.given & 1) != 0 && (found.given & found.nulled) == 0 && (found.nulled & ~58u) == 0);
    MUST(strlen(form.name) >= 1 && utf8_valid(slice_of(form.name)) && !text_has_control(slice_of(form.name)));
    MUST(utf8_valid(slice_of(form.note)) && form.units >= 1 && form.units <= 1000000000);
    MUST(utf8_valid(slice_of(form.line)) && utf8_valid(slice_of(form.label)) && !text_has_control(slice_of(form.label)));
    if (found.given & 32) MUST(form.line[0] != '\0' || (form.rate >= 1 && form.rate <= 1000)); /* one of the two */

    char text[2048];
    size_t len = form_write(&form, &found, text, sizeof(text));
    MUST(json_read((struct slice){ text, len }, fields, FIELDS, &again, &found_again));
    form_same(&form, &found, &again, &found_again);
    return 0;
}
