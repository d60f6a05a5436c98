/* The writer's output is read back by jansson, which knows nothing of it. jansson.h and json_out.h cannot meet in one file:
 * the reading half is json_back.c. */
#include "json_back.h"

#include "wire/json_out.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static void values_and_commas_come_out_right(void **state)
{
    (void)state;
    char data[1024];
    struct json_out out;

    json_out_init(&out, data, sizeof(data));
    json_object(&out);
    json_key(&out, "empty");
    json_object(&out);
    json_object_end(&out);
    json_key(&out, "list");
    json_array(&out);
    json_u64(&out, 0);
    json_u64(&out, UINT64_MAX);
    json_i64(&out, INT64_MIN);
    json_i64(&out, INT64_MAX);
    json_i64(&out, -1);
    json_array(&out);
    json_array_end(&out);
    json_object(&out);
    json_key(&out, "a");
    json_null(&out);
    json_object_end(&out);
    json_bool(&out, true);
    json_bool(&out, false);
    json_array_end(&out);
    json_key(&out, "time");
    json_time(&out, 0);
    json_key(&out, "id");
    json_id(&out, 18446744073709551615u);
    json_key(&out, "text");
    json_text(&out, "a\"b\\c/d\n\r\t\b\f\x01\x1f\x7f");
    json_key(&out, "none");
    json_string(&out, (struct slice){ NULL, 0 });
    json_object_end(&out);

    static const char want[] =
        "{\"empty\":{},\"list\":[0,18446744073709551615,-9223372036854775808,9223372036854775807,-1,[],{\"a\":null},"
        "true,false],"
        "\"time\":\"1970-01-01T00:00:00.000Z\",\"id\":\"18446744073709551615\","
        "\"text\":\"a\\\"b\\\\c/d\\n\\r\\t\\b\\f\\u0001\\u001f\x7f\",\"none\":\"\"}";
    assert_false(out.overflow);
    assert_int_equal(out.len, sizeof(want) - 1);
    assert_memory_equal(data, want, out.len);
}

/* Random characters of one to four bytes, every special one among them. */
static size_t random_text(char *out, size_t max)
{
    static const char *const pieces[] = { "\"", "\\", "\n",   "\x01",     "\x1f",         " ",
                                          "a",  "/",  "\x7f", "\xc3\xa9", "\xe4\xb8\xad", "\xf0\x9f\x98\x80" };
    size_t len = 0;
    size_t want = (size_t)rand() % max;
    while (len + 4 < want) {
        const char *piece = pieces[(size_t)rand() % (sizeof(pieces) / sizeof(pieces[0]))];
        if (rand() % 4 != 0) piece = &"plain text run"[rand() % 14];
        size_t piece_len = strlen(piece) < 4 ? strlen(piece) : 4;
        memcpy(out + len, piece, piece_len);
        len += piece_len;
    }
    return len;
}

static void random_strings_are_read_back_as_they_were(void **state)
{
    (void)state;
    srand(20260131);
    for (int round = 0; round < 20000; round++) {
        char text[200], data[2048];
        size_t len = random_text(text, sizeof(text));
        struct json_out out;
        json_out_init(&out, data, sizeof(data));
        json_object(&out);
        json_key(&out, "k");
        json_string(&out, (struct slice){ text, len });
        json_object_end(&out);
        assert_false(out.overflow);
        json_back_same((struct slice){ data, out.len }, "k", (struct slice){ text, len });
    }
}

/* Every byte that must be escaped, at every place of a word, next to every other. */
static void escapes_are_found_at_every_offset(void **state)
{
    (void)state;
    for (int byte = 1; byte < 0x80; byte++) {
        for (size_t at = 0; at < 24; at++) {
            char text[24], data[256];
            memset(text, byte == 'x' ? 'y' : 'x', sizeof(text));
            text[at] = (char)byte;
            struct json_out out;
            json_out_init(&out, data, sizeof(data));
            json_object(&out);
            json_key(&out, "k");
            json_string(&out, (struct slice){ text, sizeof(text) });
            json_object_end(&out);
            json_back_same((struct slice){ data, out.len }, "k", (struct slice){ text, sizeof(text) });
        }
    }
}

static void write_sample(struct json_out *out)
{
    json_object(out);
    json_key(out, "name");
    json_text(out, "a \"quoted\" thing");
    json_key(out, "n");
    json_u64(out, 1234567);
    json_object_end(out);
}

static void what_does_not_fit_sets_overflow_and_never_writes_beyond(void **state)
{
    (void)state;
    char whole[128];
    struct json_out out;
    json_out_init(&out, whole, sizeof(whole));
    write_sample(&out);
    size_t need = out.len;

    for (size_t size = 0; size <= need; size++) {
        char *data = malloc(size + 1);
        assert_non_null(data);
        data[size] = 'Z';
        json_out_init(&out, data, size);
        write_sample(&out);
        assert_int_equal(out.overflow, size < need);
        assert_true(out.len <= size);
        assert_memory_equal(data, whole, out.len);
        assert_int_equal(data[size], 'Z');
        free(data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_and_commas_come_out_right),
        cmocka_unit_test(random_strings_are_read_back_as_they_were),
        cmocka_unit_test(escapes_are_found_at_every_offset),
        cmocka_unit_test(what_does_not_fit_sets_overflow_and_never_writes_beyond),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
