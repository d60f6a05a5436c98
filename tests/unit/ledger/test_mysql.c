/* What can be known of MySQL without one: where it is, and the statements in its words. */
#include "ledger/mysql.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void a_place_is_read_from_its_url(void **state)
{
    (void)state;
    struct ledger_place place;
    char mistake[LEDGER_MISTAKE_BYTES];
    assert_true(ledger_place_read(&place, SLICE("mysql://shop@db/stampede"), mistake));
    assert_null(place.path);
    assert_string_equal(place.user, "shop");
    assert_string_equal(place.host, "db");
    assert_string_equal(place.database, "stampede");
    assert_int_equal(place.port, 3306);
    assert_true(ledger_place_read(&place, SLICE("mariadb://shop@/stampede?socket=/run/s"), mistake));
    assert_string_equal(place.socket, "/run/s");
}

static void a_url_that_leads_nowhere_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *url, *why;
    } script[] = {
        { "postgres://shop@db/stampede", "begins with mysql://" },
        { "mysql://db/stampede", "names no user" },
        { "mysql://shop@db", "names no database" },
        { "mysql://shop@db/", "names no database" },
        { "mysql://shop@db/a/b", "names no database" },
        { "mysql://shop@/stampede", "names no host" },
        { "mysql://shop@db/stampede?sockt=/run/s", "socket=PATH" },
        { "mysql://shop@db/stampede?socket=", "socket=PATH" },
        { "mysql://shop@db/stampede?socket=/run/s", "a host and a socket" },
        { "mysql://shop@db/stampede?socket=/a&tls=1", "socket=PATH" },
        { "mysql://shop:pw@db/stampede", "has a password" },
    };
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++) {
        struct ledger_place place;
        char mistake[LEDGER_MISTAKE_BYTES] = "";
        assert_false(ledger_place_read(&place, slice_of(script[i].url), mistake));
        assert_non_null(strstr(mistake, script[i].why));
    }
}

static void parameters_become_positions(void **state)
{
    (void)state;
    static struct mysql_text text;
    assert_true(mysql_translate(&text, "SELECT ?2, '?1', ?10 FROM t AS o INDEXED BY t_i CROSS JOIN u ON key = ?2"));
    assert_string_equal(text.sql, "SELECT ?, '?1', ? FROM t AS o FORCE INDEX (t_i) STRAIGHT_JOIN u ON `key` = ?");
    assert_int_equal(text.positions, 3);
    assert_int_equal(text.numbers[0], 2);
    assert_int_equal(text.numbers[1], 10);
    assert_int_equal(text.numbers[2], 2);
    assert_true(mysql_translate(&text, "DELETE FROM keys WHERE keyed = 'key' AND monkey = ?1"));
    assert_string_equal(text.sql, "DELETE FROM keys WHERE keyed = 'key' AND monkey = ?");
}

/* Also one that is added later must fit, and use no word of SQLite's that MySQL does not know. */
static void every_statement_has_a_text_for_mysql(void **state)
{
    (void)state;
    static const char *const words[] = { "INDEXED BY", "NOT INDEXED", "ON CONFLICT", "BEGIN IMMEDIATE", "CROSS JOIN" };
    static struct mysql_text text;
    for (int id = STATEMENT_COMMIT + 1; id < STATEMENT_COUNT; id++) {
        assert_true(mysql_translate(&text, statement_mysql[id] != NULL ? statement_mysql[id] : statement_sql[id]));
        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
            if (strstr(text.sql, words[i]) != NULL) fail_msg("statement %d: %s", id, words[i]);
        }
        for (unsigned i = 0; i < text.positions; i++)
            assert_true(text.numbers[i] >= 1 && text.numbers[i] <= MYSQL_PARAMETERS_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_place_is_read_from_its_url),
        cmocka_unit_test(a_url_that_leads_nowhere_is_refused),
        cmocka_unit_test(parameters_become_positions),
        cmocka_unit_test(every_statement_has_a_text_for_mysql),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
