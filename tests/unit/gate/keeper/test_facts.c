/* Two places held against each other, line by line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gate/keeper/facts.h"

#include <stdio.h>
#include <string.h>

static char found[4096];

static void differ(void *arg, const char *line, bool in_one)
{
    size_t len = strlen(found);
    (void)arg;
    snprintf(found + len, sizeof found - len, "%c%s ", in_one ? '<' : '>', line);
}

static void what_only_one_has_is_told(void **state)
{
    (void)state;
    struct facts one = { .text = NULL }, two = { .text = NULL };
    static const char *const in_one[] = { "d", "a", "c", "a" }, *const in_two[] = { "e", "c", "b", "d", "c" };
    for (size_t i = 0; i < 4; i++) facts_add(&one, "%s", in_one[i]);
    for (size_t i = 0; i < 5; i++) facts_add(&two, "%s", in_two[i]);
    facts_sort(&one);
    facts_sort(&two);
    found[0] = '\0';
    facts_compare(&one, &two, differ, NULL);
    assert_string_equal(found, "<a >b >e ");
    assert_true(facts_has(&one, "c") && !facts_has(&one, "b") && !facts_has(&two, "") && !facts_has(&two, "f"));
    facts_free(&one);
    facts_free(&two);
}

static void nothing_differs_from_nothing(void **state)
{
    (void)state;
    struct facts none = { .text = NULL }, some = { .text = NULL };
    facts_add(&some, "x");
    facts_sort(&none);
    facts_sort(&some);
    found[0] = '\0';
    facts_compare(&none, &none, differ, NULL);
    assert_string_equal(found, "");
    facts_compare(&none, &some, differ, NULL);
    assert_string_equal(found, ">x ");
    assert_false(facts_has(&none, "x"));
    facts_free(&some);
}

static void many_are_kept_apart(void **state)
{
    (void)state;
    struct facts one = { .text = NULL }, two = { .text = NULL };
    for (unsigned i = 0; i < 20000; i++) {
        facts_add(&one, "order %u of a buyer", (i * 7919u) % 20000);
        if (i != 12345) facts_add(&two, "order %u of a buyer", i);
    }
    facts_sort(&one);
    facts_sort(&two);
    assert_true(!one.failed && one.count == 20000 && two.count == 19999);
    found[0] = '\0';
    facts_compare(&one, &two, differ, NULL);
    assert_string_equal(found, "<order 12345 of a buyer ");
    facts_free(&one);
    facts_free(&two);
}

/* A line that is too long is cut, not left out. */
static void a_long_line_still_differs(void **state)
{
    (void)state;
    struct facts one = { .text = NULL };
    char line[2 * FACT_BYTES];
    memset(line, 'x', sizeof line - 1);
    line[sizeof line - 1] = '\0';
    facts_add(&one, "%s", line);
    assert_int_equal(one.count, 1);
    assert_int_equal(strlen(facts_line(&one, 0)), FACT_BYTES - 1);
    facts_free(&one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_only_one_has_is_told),
        cmocka_unit_test(nothing_differs_from_nothing),
        cmocka_unit_test(many_are_kept_apart),
        cmocka_unit_test(a_long_line_still_differs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
