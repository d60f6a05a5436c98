#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "people/people.h"

#include <string.h>

static void usernames_are_taken_or_refused_with_a_reason(void **state)
{
    (void)state;
    static const struct {
        struct slice name;
        bool good;
    } script[] = {
        { SLICE("a"), true },
        { SLICE("ann"), true },
        { SLICE("12345"), true },
        { SLICE("ann@example.org"), true },
        { SLICE("\xe5\xbc\xa0\xe4\xbc\x9f"), true },
        { SLICE("J\xc3\xbcrgen-2_3.x"), true },
        { SLICE("\xf0\x9f\x90\x82"), true },
        { SLICE("..."), true },
        { SLICE(".."), false },
        { SLICE("."), false },
        { SLICE(""), false },
        { SLICE("ann b"), false },
        { SLICE(" ann"), false },
        { SLICE("x' OR 'a'='a"), false },
        { SLICE("a\"b"), false },
        { SLICE("a`b"), false },
        { SLICE("a\\b"), false },
        { SLICE("a/b"), false },
        { SLICE("key:1"), false },
        { SLICE("a\tb"), false },
        { SLICE("a\0b"), false },
        { SLICE("a\x7f"), false },
        { SLICE("a\xc2\xa0"
                "b"),
          false },                           /* no-break space */
        { SLICE("ann\xe2\x80\x8b"), false }, /* zero-width space */
        { SLICE("\xe2\x80\xaennA"), false }, /* right-to-left override */
        { SLICE("a\xe3\x80\x80"
                "b"),
          false }, /* ideographic space */
        { SLICE("a\xc2\x85"
                "b"),
          false }, /* next line */
        { SLICE("a\xff"), false },
        { SLICE("a\xc0\xaf"), false },    /* overlong slash */
        { SLICE("\xed\xa0\x80"), false }, /* surrogate */
    };
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++) {
        const char *objection = people_username_objection(script[i].name);
        if ((objection == NULL) != script[i].good) fail_msg("row %zu: %s", i, objection == NULL ? "taken" : objection);
    }
    char name[66];
    memset(name, 'x', sizeof(name));
    assert_null(people_username_objection((struct slice){ name, 64 }));
    assert_non_null(people_username_objection((struct slice){ name, 65 }));
}

static void passwords_have_8_to_128_characters(void **state)
{
    (void)state;
    char text[600];
    memset(text, 'x', sizeof(text));
    static const struct {
        size_t len;
        bool good;
    } script[] = { { 0, false }, { 7, false }, { 8, true }, { 128, true }, { 129, false } };
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++)
        assert_int_equal(people_password_objection((struct slice){ text, script[i].len }) == NULL, script[i].good);

    /* Characters, not bytes: 128 of four bytes each fit, seven do not reach. */
    for (int i = 0; i < 129; i++) memcpy(text + 4 * i, "\xf0\x9f\x90\x82", 4);
    assert_non_null(people_password_objection((struct slice){ text, 4 * 7 }));
    assert_null(people_password_objection((struct slice){ text, 4 * 8 }));
    assert_null(people_password_objection((struct slice){ text, 4 * 128 }));
    assert_non_null(people_password_objection((struct slice){ text, 4 * 129 }));
    assert_non_null(people_password_objection(SLICE("good\0secret")));
    assert_non_null(people_password_objection(SLICE("12345678\xff")));
    assert_null(people_password_objection(SLICE("' OR '1'='1")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(usernames_are_taken_or_refused_with_a_reason),
        cmocka_unit_test(passwords_have_8_to_128_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
