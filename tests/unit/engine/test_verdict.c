#include "stage.h"

#include <string.h>

static void every_verdict_has_a_word_of_its_own(void **state)
{
    (void)state;
    for (int a = 0; a < VERDICT_COUNT; a++) {
        assert_true(strlen(verdict_word((enum verdict)a)) > 0);
        for (int b = 0; b < a; b++) assert_string_not_equal(verdict_word((enum verdict)a), verdict_word((enum verdict)b));
    }
}

/* They are the stable codes of the API. */
static void words_are_those_of_the_api(void **state)
{
    (void)state;
    static const struct {
        enum verdict verdict;
        const char *word;
    } rows[] = {
        { VERDICT_NO_SUCH_SALE, "NO_SUCH_SALE" },
        { VERDICT_NO_SUCH_ORDER, "NO_SUCH_ORDER" },
        { VERDICT_CLOSED, "CLOSED" },
        { VERDICT_NOT_OPEN, "NOT_OPEN" },
        { VERDICT_PAUSED, "PAUSED" },
        { VERDICT_OVER_LIMIT, "OVER_LIMIT" },
        { VERDICT_ALREADY_WON, "ALREADY_WON" },
        { VERDICT_TOO_MANY_RETURNS, "TOO_MANY_RETURNS" },
        { VERDICT_SOLD_OUT, "SOLD_OUT" },
        { VERDICT_KEY_REUSED, "KEY_REUSED" },
        { VERDICT_NAME_TAKEN, "NAME_TAKEN" },
        { VERDICT_SALE_OPEN, "SALE_OPEN" },
        { VERDICT_NOT_AVAILABLE, "NOT_AVAILABLE" },
        { VERDICT_BAD_INPUT, "BAD_INPUT" },
        { VERDICT_BUSY, "BUSY" },
        { VERDICT_LINE_TIMEOUT, "LINE_TIMEOUT" },
        { VERDICT_BLOCKED, "BLOCKED" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_string_equal(verdict_word(rows[i].verdict), rows[i].word);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_verdict_has_a_word_of_its_own),
        cmocka_unit_test(words_are_those_of_the_api),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
