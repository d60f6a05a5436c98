/* The scripts that decide inside Redis, as they are embedded. What they decide is tested where a Redis is: tests/e2e. */
#include "gate/scripts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void every_script_is_embedded_whole(void **state)
{
    (void)state;
    for (int i = 0; i < GATE_SCRIPT_COUNT; i++) {
        const struct redis_script *script = &gate_scripts[i];
        size_t len = strlen(script->text);
        assert_true(strlen(script->name) > 0 && len > 50);
        assert_int_equal(script->text[len - 1], '\n');
        assert_non_null(strstr(script->text, "return "));
    }
    assert_string_equal(gate_scripts[GATE_SCRIPT_GRAB].name, "grab");
    assert_string_equal(gate_scripts[GATE_SCRIPT_DUE].name, "due");
    assert_string_equal(gate_scripts[GATE_SCRIPT_REPORT].name, "report");
}

/* A script is told apart by its text alone: what was forgotten would be seen by no compiler. */
static void parts_and_bounds_are_filled_in(void **state)
{
    (void)state;
    for (int i = 0; i < GATE_SCRIPT_COUNT; i++) {
        const char *text = gate_scripts[i].text;
        assert_null(strchr(text, '@'));
        assert_null(strstr(text, "--"));
        for (const char *byte = text; *byte != '\0'; byte++) assert_true(*byte == '\n' || (*byte >= ' ' && *byte < 0x7f));
        if (i < GATE_SALE_SCRIPT_COUNT) assert_non_null(strstr(text, "NOT_LOADED"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_script_is_embedded_whole),
        cmocka_unit_test(parts_and_bounds_are_filled_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
