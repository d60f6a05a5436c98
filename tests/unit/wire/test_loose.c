/* Bodies of other servers' clients: what is taken, what is told to be beyond, what is no body. */
#include "wire/loose.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

struct target {
    char name[9];
    char text[9];
    int64_t number;
};

static const struct json_field fields[] = {
    { .name = "name", .kind = JSON_TEXT, .min = 1, .max = 8, .offset = offsetof(struct target, name) },
    { .name = "text", .kind = JSON_LINES, .max = 8, .offset = offsetof(struct target, text) },
    { .name = "number", .kind = JSON_INTEGER, .min = 1, .max = 100, .offset = offsetof(struct target, number) },
};
enum { NAME = 1, TEXT = 2, NUMBER = 4 };

struct row {
    const char *body;
    bool good;
    uint32_t given, beyond;
};

static const struct row json_rows[] = {
    { "{}", true, 0, 0 },
    { "{\"name\":\"ann\",\"text\":\"a\\nb\",\"number\":100}", true, NAME | TEXT | NUMBER, 0 },
    { "{\"text\":\"a\\r\\nb\"}", true, TEXT, 0 },
    { "{\"text\":\"a\\rb\"}", true, 0, TEXT },
    { "{\"text\":\"a\\r\"}", true, 0, TEXT },
    { "{\"name\":\"a\\r\\nb\"}", true, 0, NAME },
    { " { \"number\" : 1 , \"other\" : [1,{}] } ", true, NUMBER, 0 },
    { "{\"name\":null,\"number\":null}", true, 0, 0 },
    { "{\"name\":\"\",\"text\":\"\"}", true, TEXT, NAME },
    { "{\"name\":\"123456789\"}", true, 0, NAME },
    { "{\"name\":\"a\\nb\"}", true, 0, NAME },
    { "{\"number\":0}", true, 0, NUMBER },
    { "{\"number\":-100}", true, 0, NUMBER },
    { "{\"number\":9223372036854775807}", true, 0, NUMBER },
    { "{\"number\":9223372036854775808}", false, 0, 0 },
    { "{\"number\":1.0}", false, 0, 0 },
    { "{\"number\":\"1\"}", false, 0, 0 },
    { "{\"name\":1}", false, 0, 0 },
    { "{\"name\":\"a\",\"name\":\"b\"}", false, 0, 0 },
    { "{\"name\":\"\\u0000\"}", false, 0, 0 },
    { "{\"name\":\"\xff\"}", false, 0, 0 },
    { "{\"name\":\"a\"", false, 0, 0 },
    { "{} {}", false, 0, 0 },
    { "[]", false, 0, 0 },
    { "", false, 0, 0 },
};

static const struct row form_rows[] = {
    { "", true, 0, 0 },
    { "name=ann&text=a%0Ab&number=100&other=%00", true, NAME | TEXT | NUMBER, 0 },
    { "name=&text=", true, TEXT, NAME },
    { "name=123456789", true, 0, NAME },
    { "name=a%0Ab", true, 0, NAME },
    { "number=0", true, 0, NUMBER },
    { "number=-100", true, 0, NUMBER },
    { "number=99999999999999999999999", true, 0, NUMBER },
    { "number=-99999999999999999999999", true, 0, NUMBER },
    { "number=", false, 0, 0 },
    { "number=-", false, 0, 0 },
    { "number=1.0", false, 0, 0 },
    { "number=many", false, 0, 0 },
    { "name=%zz", false, 0, 0 },
    { "name=%ff", false, 0, 0 },
    { "name=a&name=b", false, 0, 0 },
};

static void rows_read(const struct row *rows, size_t count,
                      bool (*read)(struct slice, const struct json_field *, size_t, void *, struct loose_found *))
{
    for (size_t i = 0; i < count; i++) {
        /* Exactly as long as it is, so that a step beyond is seen by the sanitizer. */
        size_t len = strlen(rows[i].body);
        char *body = malloc(len > 0 ? len : 1);
        assert_non_null(body);
        memcpy(body, rows[i].body, len);
        struct target target = { .name = "before" };
        struct loose_found found;
        bool good = read((struct slice){ body, len }, fields, 3, &target, &found);
        if (good != rows[i].good || (good && (found.given != rows[i].given || found.beyond != rows[i].beyond)))
            fail_msg("[%s]: good %d given %u beyond %u", rows[i].body, good, found.given, found.beyond);
        if (good && !(found.given & NAME)) assert_string_equal(target.name, "before");
        if (good && found.given & NAME) assert_string_equal(target.name, "ann");
        if (good && found.given == (NAME | TEXT | NUMBER)) assert_int_equal(target.number, 100);
        if (good && found.given & TEXT && target.text[0] != '\0') assert_string_equal(target.text, "a\nb");
        free(body);
    }
}

static void json_is_read_with_other_manners(void **state)
{
    (void)state;
    rows_read(json_rows, sizeof(json_rows) / sizeof(json_rows[0]), loose_json_read);
}

static void a_form_is_read_like_json(void **state)
{
    (void)state;
    rows_read(form_rows, sizeof(form_rows) / sizeof(form_rows[0]), loose_form_read);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(json_is_read_with_other_manners),
                                        cmocka_unit_test(a_form_is_read_like_json) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
