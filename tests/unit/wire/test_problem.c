#include "json_back.h"

#include "wire/problem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void every_problem_is_a_json_object_with_its_five_members(void **state)
{
    (void)state;
    for (enum problem problem = PROBLEM_NONE + 1; problem < PROBLEM_COUNT; problem++) {
        char data[1024];
        struct json_out out;
        json_out_init(&out, data, sizeof(data));
        problem_begin(&out, problem, problem % 2 == 0 ? NULL : "a \"detail\"\n");
        json_key(&out, "order");
        json_id(&out, 7);
        json_object_end(&out);
        assert_false(out.overflow);

        struct slice text = { data, out.len };
        char type[64] = "urn:stampede:problem:";
        strncat(type, problem_code(problem), sizeof(type) - strlen(type) - 1);
        json_back_same(text, "type", slice_of(type));
        json_back_same(text, "code", slice_of(problem_code(problem)));
        json_back_same_number(text, "status", problem_status(problem));
        json_back_same(text, "order", SLICE("7"));
        if (problem % 2 != 0) json_back_same(text, "detail", SLICE("a \"detail\"\n"));
    }
}

static void titles_and_details_are_those_of_the_table(void **state)
{
    (void)state;
#define CHECK(code, status, title, detail)                                                                                  \
    {                                                                                                                       \
        char data[1024];                                                                                                    \
        struct json_out out;                                                                                                \
        json_out_init(&out, data, sizeof(data));                                                                            \
        problem_begin(&out, PROBLEM_##code, NULL);                                                                          \
        json_object_end(&out);                                                                                              \
        json_back_same((struct slice){ data, out.len }, "title", SLICE(title));                                             \
        json_back_same((struct slice){ data, out.len }, "detail", SLICE(detail));                                           \
        assert_int_equal(problem_status(PROBLEM_##code), status);                                                           \
        assert_string_equal(problem_code(PROBLEM_##code), #code);                                                           \
    }
    PROBLEMS(CHECK)
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_problem_is_a_json_object_with_its_five_members),
        cmocka_unit_test(titles_and_details_are_those_of_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
