#include "wire/json_in.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

struct form {
    char name[9];
    char note[17];
    int64_t units;
    int64_t any;
    uint64_t at;
};

static const struct json_field fields[] = {
    { "name", JSON_TEXT, false, false, 1, 8, .offset = offsetof(struct form, name) },
    { "note", JSON_LINES, false, true, 0, 16, .offset = offsetof(struct form, note) },
    { "units", JSON_INTEGER, false, false, 1, 1000000000, .offset = offsetof(struct form, units) },
    { "any", JSON_INTEGER, false, true, INT64_MIN, INT64_MAX, .offset = offsetof(struct form, any) },
    { "at", JSON_TIME, false, true, 0, 0, .offset = offsetof(struct form, at) },
};
#define FIELDS (sizeof(fields) / sizeof(fields[0]))

/* An exact copy of the body on the heap: a reader that steps beyond is seen by the sanitizer. */
static bool read(const char *body, size_t len, struct form *form, struct json_found *found)
{
    char *copy = malloc(len > 0 ? len : 1);
    assert_non_null(copy);
    memcpy(copy, body, len);
    memset(form, 0, sizeof(*form));
    found->objection[0] = '\0';
    bool good = json_read((struct slice){ copy, len }, fields, FIELDS, form, found);
    free(copy);
    assert_int_equal(good, found->objection[0] == '\0');
    return good;
}

static void good_bodies_fill_the_target(void **state)
{
    (void)state;
    struct form form;
    struct json_found found;

    assert_true(read("", 0, &form, &found));
    assert_int_equal(found.given | found.nulled, 0);
    assert_true(read("{}", 2, &form, &found));
    assert_int_equal(found.given | found.nulled, 0);

    const char *body = " {\"name\":\"\\u4e2d\\\"/\",\"note\":\"a\\n\\tb\",\"units\":1000000000,\"any\":-9223372036854775808,"
                       "\"at\":\"1970-01-01T00:00:01.5Z\"}\n";
    assert_true(read(body, strlen(body), &form, &found));
    assert_int_equal(found.given, 31);
    assert_int_equal(found.nulled, 0);
    assert_string_equal(form.name, "\xe4\xb8\xad\"/");
    assert_string_equal(form.note, "a\n\tb");
    assert_int_equal(form.units, 1000000000);
    assert_true(form.any == INT64_MIN);
    assert_int_equal(form.at, 1500);

    body = "{\"note\":null,\"any\":null,\"at\":null,\"name\":\"12345678\"}";
    assert_true(read(body, strlen(body), &form, &found));
    assert_int_equal(found.given, 1);
    assert_int_equal(found.nulled, 2 | 8 | 16);
    assert_string_equal(form.name, "12345678");
}

#define RANGE "units must be an integer from 1 to 1000000000"
#define ANY "any must be an integer from -9223372036854775808 to 9223372036854775807"
#define TIME "at must be a time such as 2026-01-31T12:00:00.000Z"

static const struct {
    const char *body, *objection;
} bad[] = {
    /* Numbers. */
    { "{\"units\":0}", RANGE },
    { "{\"units\":-0}", RANGE },
    { "{\"units\":-1}", RANGE },
    { "{\"units\":1000000001}", RANGE },
    { "{\"units\":2147483647}", RANGE },
    { "{\"units\":2147483648}", RANGE },
    { "{\"units\":2147483649}", RANGE },
    { "{\"units\":4294967295}", RANGE },
    { "{\"units\":4294967296}", RANGE },
    { "{\"units\":4294967297}", RANGE },
    { "{\"units\":9223372036854775807}", RANGE },
    { "{\"units\":9223372036854775808}", RANGE },
    { "{\"units\":-9223372036854775809}", RANGE },
    { "{\"units\":18446744073709551615}", RANGE },
    { "{\"units\":18446744073709551616}", RANGE },
    { "{\"units\":18446744073709551617}", RANGE },
    { "{\"units\":99999999999999999999}", RANGE },
    { "{\"any\":9223372036854775808}", ANY },
    { "{\"any\":-9223372036854775809}", ANY },
    { "{\"other\":9223372036854775808}", "a number is too large at byte 28" },
    { "{\"units\":1e999}", "a number is too large at byte 14" },
    { "{\"units\":5.0}", RANGE },
    { "{\"units\":0.5}", RANGE },
    { "{\"units\":1e3}", RANGE },
    { "{\"units\":1E0}", RANGE },
    { "{\"units\":\"5\"}", RANGE },
    { "{\"units\":true}", RANGE },
    { "{\"units\":null}", RANGE },
    { "{\"units\":[1]}", RANGE },
    { "{\"units\":{}}", RANGE },
    { "{\"units\":\"\"}", RANGE },
    { "{\"any\":5.0}", ANY },
    { "{\"any\":1e3}", ANY },
    { "{\"any\":\"5\"}", ANY },
    { "{\"any\":false}", ANY },
    { "{\"any\":[]}", ANY },
    { "{\"units\":+5}", "the body is not valid JSON: invalid syntax at byte 10" },
    { "{\"units\":0x5}", "the body is not valid JSON: invalid syntax at byte " },
    { "{\"units\":05}", "the body is not valid JSON: invalid syntax at byte " },
    { "{\"units\":5.}", "the body is not valid JSON: invalid syntax at byte " },
    { "{\"units\":}", "the body is not valid JSON: invalid syntax at byte " },
    { "{\"units\":NaN}", "the body is not valid JSON: invalid syntax at byte " },
    { "{\"units\":Infinity}", "the body is not valid JSON: invalid syntax at byte " },
    /* Texts and times. */
    { "{\"name\":\"\"}", "name must be a string of 1 to 8 bytes" },
    { "{\"name\":\"123456789\"}", "name must be a string of 1 to 8 bytes" },
    { "{\"name\":\"\\u4e2d\\u4e2d\\u4e2d\"}", "name must be a string of 1 to 8 bytes" },
    { "{\"name\":5}", "name must be a string of 1 to 8 bytes" },
    { "{\"name\":null}", "name must be a string of 1 to 8 bytes" },
    { "{\"name\":\"a\\nb\"}", "name must not have control characters" },
    { "{\"name\":\"a\\tb\"}", "name must not have control characters" },
    { "{\"name\":\"a\\u007f\"}", "name must not have control characters" },
    { "{\"note\":\"a\\rb\"}", "note must not have control characters" },
    { "{\"note\":\"a\\u001bb\"}", "note must not have control characters" },
    { "{\"note\":\"12345678901234567\"}", "note must be a string of 0 to 16 bytes" },
    { "{\"name\":\"a\\u0000b\"}", "the body is not valid JSON: a NUL character at byte " },
    { "{\"name\":\"a\nb\"}", "the body is not valid JSON: invalid syntax at byte " },
    { "{\"name\":\"\\ud800\"}", "the body is not valid JSON: invalid syntax at byte " },
    { "{\"name\":\"\xff\"}", "the body is not valid JSON: invalid UTF-8 at byte " },
    { "{\"name\":\"\xc0\xaf\"}", "the body is not valid JSON: invalid UTF-8 at byte " },
    { "{\"name\":\"\xed\xa0\x80\"}", "the body is not valid JSON: invalid UTF-8 at byte " },
    { "{\"at\":\"tomorrow\"}", TIME },
    { "{\"at\":\"2026-02-30T00:00:00Z\"}", TIME },
    { "{\"at\":1700000000}", TIME },
    { "{\"at\":\"\"}", TIME },
    /* Shapes. */
    { "{\"foo\":1}", "unknown field \"foo\"" },
    { "{\"Units\":1}", "unknown field \"Units\"" },
    { "{\"unit\":1,\"units\":0}", "unknown field \"unit\"" },
    { "{\"\":1}", "unknown field \"\"" },
    { "{\"units\":1,\"units\":1}", "duplicate field \"units\"" },
    { "{\"units\":1,\"name\":\"a\",\"unit\\u0073\":2}", "duplicate field at byte " },
    { "{\"x\":1,\"x\":2}", "duplicate field at byte " },
    { "{\"x\":{\"units\":1,\"units\":2}}", "duplicate field \"units\"" },
    { "[]", "the body must be a JSON object" },
    { "[{\"units\":1}]", "the body must be a JSON object" },
    { "5", "the body must be a JSON object" },
    { "\"units\"", "the body must be a JSON object" },
    { "null", "the body must be a JSON object" },
    { " ", "the body is not valid JSON: it ends too early at byte " },
    { "{", "the body is not valid JSON: it ends too early at byte 1" },
    { "{\"units\":1", "the body is not valid JSON: it ends too early at byte " },
    { "{\"units\":1}}", "the body is not valid JSON: something follows the value at byte 12" },
    { "{} {}", "the body is not valid JSON: something follows the value at byte " },
    { "{\"units\":1,}", "the body is not valid JSON: invalid syntax at byte " },
    { "{'units':1}", "the body is not valid JSON: invalid syntax at byte " },
    { "{units:1}", "the body is not valid JSON: invalid syntax at byte " },
    { "{\"units\":1} // no", "the body is not valid JSON: something follows the value at byte " },
    { "units=1", "the body is not valid JSON: invalid syntax at byte " },
    { "\xef\xbb\xbf{}", "the body is not valid JSON: invalid syntax at byte " },
};

static void bad_bodies_are_refused_with_a_sentence_that_names_the_field(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct form form;
        struct json_found found;
        bool good = read(bad[i].body, strlen(bad[i].body), &form, &found);
        /* A row that ends with a space leaves the number open. */
        size_t len = strlen(bad[i].objection);
        bool open = bad[i].objection[len - 1] == ' ';
        if (good ||
            (open ? strncmp(found.objection, bad[i].objection, len) != 0 : strcmp(found.objection, bad[i].objection) != 0))
            fail_msg("%s gave %s", bad[i].body, good ? "no objection" : found.objection);
    }
}

/* Bodies without white space may take the short way; a space before them makes them take the long one. */
static const char *const plain[] = {
    "{\"units\":1}",
    "{\"units\":1000000000,\"name\":\"abc\"}",
    "{\"any\":0}",
    "{\"any\":-1}",
    "{\"any\":-0}",
    "{\"any\":999999999999999999}",
    "{\"any\":-999999999999999999}",
    "{\"any\":1000000000000000000}",
    "{\"any\":9223372036854775807}",
    "{\"any\":null}",
    "{\"name\":\"\xe4\xb8\xad\"}",
    "{\"name\":\"12345678\"}",
    "{\"name\":\"\\u0061\"}",
    "{\"note\":\"\"}",
    "{\"note\":\"a\\nb\"}",
    "{\"at\":\"2026-01-31T12:00:00.000Z\"}",
    "{\"at\":\"2026-01-31T12:00:00+01:00\",\"units\":7,\"any\":8,\"name\":\"n\",\"note\":\"o\"}",
};

static void the_short_way_and_the_long_way_agree(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
        struct form shorter, longer;
        struct json_found found_shorter, found_longer;
        char spaced[256];
        int len = snprintf(spaced, sizeof(spaced), " %s", plain[i]);
        assert_true(read(spaced + 1, (size_t)len - 1, &shorter, &found_shorter));
        assert_true(read(spaced, (size_t)len, &longer, &found_longer));
        assert_int_equal(found_shorter.given, found_longer.given);
        assert_int_equal(found_shorter.nulled, found_longer.nulled);
        assert_memory_equal(&shorter, &longer, sizeof(shorter));
    }
}

static void a_nul_byte_in_the_body_is_refused(void **state)
{
    (void)state;
    static const char body[] = "{\"units\":1}\0";
    struct form form;
    struct json_found found;
    assert_false(read(body, sizeof(body) - 1, &form, &found));
    assert_false(read("\0", 1, &form, &found));
}

static void required_fields_are_missed_by_name_also_in_an_empty_body(void **state)
{
    (void)state;
    static const struct json_field required[] = {
        { "name", JSON_TEXT, true, false, 1, 8, .offset = 0 },
        { "code", JSON_TEXT, true, false, 3, 3, .offset = 9 },
    };
    char target[16];
    struct json_found found;

    assert_false(json_read(SLICE(""), required, 2, target, &found));
    assert_string_equal(found.objection, "name is missing");
    assert_false(json_read(SLICE("{\"name\":\"a\"}"), required, 2, target, &found));
    assert_string_equal(found.objection, "code is missing");
    assert_false(json_read(SLICE("{\"name\":\"a\",\"code\":\"ab\"}"), required, 2, target, &found));
    assert_string_equal(found.objection, "code must be a string of 3 bytes");
    assert_true(json_read(SLICE("{\"name\":\"a\",\"code\":\"abc\"}"), required, 2, target, &found));
    assert_int_equal(found.given, 3);
}

struct queue_form {
    char name[9];
    int64_t rate, size;
    char note[5];
};

static const struct json_field queue_members[] = {
    { "rate", JSON_INTEGER, true, false, 1, 100, .offset = offsetof(struct queue_form, rate) },
    { "size", JSON_INTEGER, true, false, 1, 100, .offset = offsetof(struct queue_form, size) },
    { "note", JSON_TEXT, false, true, 0, 4, .offset = offsetof(struct queue_form, note) },
};
static const struct json_field queue_fields[] = {
    { "queue", JSON_EITHER, false, true, 1, 8, offsetof(struct queue_form, name), queue_members, 3 },
};

static void a_field_may_be_a_text_or_an_object_of_its_own(void **state)
{
    (void)state;
    static const struct {
        const char *body, *name, *objection;
        int64_t rate, size;
    } script[] = {
        { "{\"queue\":\"hall\"}", "hall", NULL, 0, 0 },
        { "{\"queue\":{\"rate\":5,\"size\":6}}", "", NULL, 5, 6 },
        { " { \"queue\" : { \"size\" : 6 , \"rate\" : 5 , \"note\" : null } } ", "", NULL, 5, 6 },
        { "{\"queue\":null}", "", NULL, 0, 0 },
        { "{}", "", NULL, 0, 0 },
        { "{\"queue\":\"\"}", NULL, "queue must be a string of 1 to 8 bytes", 0, 0 },
        { "{\"queue\":\"ninebytes\"}", NULL, "queue must be a string of 1 to 8 bytes", 0, 0 },
        { "{\"queue\":5}", NULL, "queue must be a name or an object", 0, 0 },
        { "{\"queue\":true}", NULL, "queue must be a name or an object", 0, 0 },
        { "{\"queue\":[]}", NULL, "queue must be a name or an object", 0, 0 },
        { "{\"queue\":{}}", NULL, "queue.rate is missing", 0, 0 },
        { "{\"queue\":{\"rate\":5}}", NULL, "queue.size is missing", 0, 0 },
        { "{\"queue\":{\"rate\":0,\"size\":6}}", NULL, "queue.rate must be an integer from 1 to 100", 0, 0 },
        { "{\"queue\":{\"rate\":5.0,\"size\":6}}", NULL, "queue.rate must be an integer from 1 to 100", 0, 0 },
        { "{\"queue\":{\"rate\":\"5\",\"size\":6}}", NULL, "queue.rate must be an integer from 1 to 100", 0, 0 },
        { "{\"queue\":{\"rate\":null,\"size\":6}}", NULL, "queue.rate must be an integer from 1 to 100", 0, 0 },
        { "{\"queue\":{\"rate\":5,\"size\":6,\"note\":\"12345\"}}", NULL, "queue.note must be a string of 0 to 4 bytes", 0,
          0 },
        { "{\"queue\":{\"rate\":5,\"size\":6,\"x\":1}}", NULL, "unknown field \"queue.x\"", 0, 0 },
        { "{\"queue\":{\"rate\":5,\"size\":6,\"queue\":{}}}", NULL, "unknown field \"queue.queue\"", 0, 0 },
        { "{\"queue\":{\"rate\":5,\"size\":99999999999999999999}}", NULL, "queue.size must be an integer from 1 to 100", 0,
          0 },
        { "{\"rate\":5}", NULL, "unknown field \"rate\"", 0, 0 },
    };
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++) {
        struct queue_form form = { 0 };
        struct json_found found;
        bool good = json_read(slice_of(script[i].body), queue_fields, 1, &form, &found);
        if (script[i].objection != NULL) {
            assert_false(good);
            assert_string_equal(found.objection, script[i].objection);
            continue;
        }
        assert_true(good);
        assert_string_equal(form.name, script[i].name);
        assert_int_equal(form.rate, script[i].rate);
        assert_int_equal(form.size, script[i].size);
    }
}

static void a_member_given_twice_is_refused(void **state)
{
    (void)state;
    struct queue_form form = { 0 };
    struct json_found found;
    assert_false(json_read(SLICE("{\"queue\":{\"rate\":5,\"size\":6,\"rate\":7}}"), queue_fields, 1, &form, &found));
    assert_non_null(strstr(found.objection, "duplicate field"));
}

static void deep_and_long_bodies_do_no_harm(void **state)
{
    (void)state;
    static char body[65536];
    static const char *const openings[] = { "[", "{\"a\":", "{\"units\":[", "[{\"a\":" };
    struct form form;
    struct json_found found;

    for (size_t i = 0; i < sizeof(openings) / sizeof(openings[0]); i++) {
        size_t len = strlen(openings[i]);
        for (size_t at = 0; at + len <= sizeof(body); at += len) memcpy(body + at, openings[i], len);
        assert_false(read(body, sizeof(body) / len * len, &form, &found));
        assert_non_null(strstr(found.objection, "nested too deeply"));
    }

    /* A long unknown name is cut between two characters, and what is said stays valid. */
    memset(body, 'x', 200);
    memcpy(body, "{\"", 2);
    for (size_t at = 3; at < 180; at += 3) memcpy(body + at, "\xe4\xb8\xad", 3);
    memcpy(body + 183, "\":1}", 4);
    assert_false(read(body, 187, &form, &found));
    assert_non_null(strstr(found.objection, "\xe4\xb8\xad...\""));
    assert_int_equal(strlen(found.objection), strlen("unknown field \"\"") + 64 + 3);
}

static void flags_are_true_or_false(void **state)
{
    (void)state;
    static const struct json_field flag = { .name = "rotate", .kind = JSON_FLAG };
    struct json_found found;
    bool value = false;
    assert_true(json_read(SLICE("{\"rotate\":true}"), &flag, 1, &value, &found));
    assert_true(value);
    assert_true(json_read(SLICE("{\"rotate\":false}"), &flag, 1, &value, &found));
    assert_false(value);
    assert_int_equal(found.given, 1);
    static const char *const wrong[] = { "1", "0", "\"true\"", "null", "[]", "True" };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char body[64];
        int len = snprintf(body, sizeof(body), "{\"rotate\":%s}", wrong[i]);
        assert_false(json_read((struct slice){ body, (size_t)len }, &flag, 1, &value, &found));
    }
    assert_false(json_read(SLICE("{\"rotate\":1}"), &flag, 1, &value, &found));
    assert_string_equal(found.objection, "rotate must be true or false");
}

static void a_name_may_be_given_as_a_number(void **state)
{
    (void)state;
    static const struct json_field name = { .name = "goods", .kind = JSON_NAME, .required = true, .min = 1, .max = 24 };
    static const struct {
        const char *value, *want; /* NULL: refused */
    } script[] = {
        { "\"phone\"", "phone" },
        { "\"12\"", "12" },
        { "12", "12" },
        { "0", "0" },
        { "999999999999999999", "999999999999999999" },
        { "9223372036854775807", "9223372036854775807" },
        { "9223372036854775808", NULL },
        { "-1", NULL },
        { "1.0", NULL },
        { "1e3", NULL },
        { "012", NULL },
        { "\"\"", NULL },
        { "null", NULL },
        { "true", NULL },
        { "{}", NULL },
        { "\"1234567890123456789012345\"", NULL },
    };
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++) {
        static const char *const forms[] = { "{\"goods\":%s}",
                                             " { \"goods\" : %s } " }; /* the short way, and the long one */
        for (size_t form = 0; form < 2; form++) {
            char body[64], text[32] = "untouched";
            struct json_found found;
            int len = snprintf(body, sizeof(body), forms[form], script[i].value);
            bool good = json_read((struct slice){ body, (size_t)len }, &name, 1, text, &found);
            assert_int_equal(good, script[i].want != NULL);
            if (good) assert_string_equal(text, script[i].want);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_may_be_given_as_a_number),
        cmocka_unit_test(flags_are_true_or_false),
        cmocka_unit_test(good_bodies_fill_the_target),
        cmocka_unit_test(bad_bodies_are_refused_with_a_sentence_that_names_the_field),
        cmocka_unit_test(the_short_way_and_the_long_way_agree),
        cmocka_unit_test(a_nul_byte_in_the_body_is_refused),
        cmocka_unit_test(required_fields_are_missed_by_name_also_in_an_empty_body),
        cmocka_unit_test(a_field_may_be_a_text_or_an_object_of_its_own),
        cmocka_unit_test(a_member_given_twice_is_refused),
        cmocka_unit_test(deep_and_long_bodies_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
