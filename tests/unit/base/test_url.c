/* Where a database is, and what is refused as that. */
#include "base/url.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void parts_are_found(void **state)
{
    (void)state;
    static const struct {
        const char *text, *scheme, *user, *host, *path, *query;
        uint16_t port;
    } script[] = {
        { "mysql://shop@db.internal:3307/stampede", "mysql", "shop", "db.internal", "stampede", "", 3307 },
        { "mariadb://shop@db/stampede", "mariadb", "shop", "db", "stampede", "", 0 },
        { "mysql://a@b@[::1]:5/x", "mysql", "a@b", "::1", "x", "", 5 },
        { "mysql://s@[fe80::1]/x?socket=/a/b", "mysql", "s", "fe80::1", "x", "socket=/a/b", 0 },
        { "mysql://s@/x?socket=/run/s&more=1", "mysql", "s", "", "x", "socket=/run/s&more=1", 0 },
        { "redis://127.0.0.1:6379", "redis", "", "127.0.0.1", "", "", 6379 },
    };
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++) {
        struct url url;
        char mistake[URL_MISTAKE_BYTES];
        assert_true(url_read(&url, slice_of(script[i].text), mistake));
        assert_true(slice_is(url.scheme, script[i].scheme) && slice_is(url.user, script[i].user));
        assert_true(slice_is(url.host, script[i].host) && slice_is(url.path, script[i].path));
        assert_true(slice_is(url.query, script[i].query));
        assert_int_equal(url.port, script[i].port);
    }
}

static void what_is_no_url_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
    } script[] = {
        { "", "it is a URL" },
        { "db.internal", "it is a URL" },
        { "mysql://shop:secret@db/x", "has a password" },
        { "mysql://shop:@db/x", "has a password" },
        { "mysql://shop@db:/x", "port" },
        { "mysql://shop@db:0/x", "port" },
        { "mysql://shop@db:65536/x", "port" },
        { "mysql://shop@db:33o6/x", "port" },
        { "mysql://shop@[::1/x", "has no ]" },
        { "mysql://shop@[::1]3306/x", "after the ]" },
    };
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++) {
        struct url url;
        char mistake[URL_MISTAKE_BYTES] = "";
        assert_false(url_read(&url, slice_of(script[i].text), mistake));
        assert_non_null(strstr(mistake, script[i].why));
        assert_null(strstr(mistake, "secret"));
    }
}

static void a_key_of_the_query_is_found(void **state)
{
    (void)state;
    struct url url;
    char mistake[URL_MISTAKE_BYTES];
    assert_true(url_read(&url, SLICE("mysql://s@h/x?a=1&socket=/b&c"), mistake));
    assert_true(slice_is(url_query(&url, "socket"), "/b"));
    assert_true(slice_is(url_query(&url, "a"), "1"));
    assert_int_equal(url_query(&url, "c").len, 0);
    assert_int_equal(url_query(&url, "d").len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_found),
        cmocka_unit_test(what_is_no_url_is_refused),
        cmocka_unit_test(a_key_of_the_query_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
