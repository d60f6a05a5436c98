/* The route table as a client meets it. */
#include "gateway/routes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const struct route_tables no_doors = { .count = 0 };

static void paths_find_their_route_and_their_id(void **state)
{
    (void)state;
    static const struct {
        enum http_method method;
        const char *path, *route, *id, *allow;
    } script[] = {
        { HTTP_POST_, "/v1/sales/7/grabs", "/v1/sales/{sale}/grabs", "7", "" },
        { HTTP_GET_, "/v1/sales/7", "/v1/sales/{sale}", "7", "" },
        { HTTP_HEAD_, "/v1/sales/7", "/v1/sales/{sale}", "7", "" },
        { HTTP_GET_, "/v1/sales", "/v1/sales", "", "" },
        { HTTP_GET_, "/v1/orders/a%20b", "/v1/orders/{order}", "a%20b", "" },
        { HTTP_POST_, "/v1/orders/9/cancel", "/v1/orders/{order}/cancel", "9", "" },
        { HTTP_GET_, "/v1/orders/9/cancel", NULL, "", "POST" },
        { HTTP_POST_, "/v1/payments", "/v1/payments", "", "" },
        { HTTP_DELETE_, "/v1/blocks/ip%2010.0.0.0%2F8", "/v1/blocks/{entry}", "ip%2010.0.0.0%2F8", "" },
        { HTTP_DELETE_, "/v1/blocks/ip%2010.0.0.0/8", NULL, "", "" },
        { HTTP_DELETE_, "/v1/blocks", NULL, "", "GET, HEAD, POST" },
        { HTTP_DELETE_, "/v1/sales/7", NULL, "", "GET, HEAD, PATCH" },
        { HTTP_GET_, "/v1/login", NULL, "", "POST" },
        { HTTP_GET_, "/v1/sales/", NULL, "", "" },
        { HTTP_GET_, "/v1/sales//grabs", NULL, "", "" },
        { HTTP_POST_, "/v1/sales/7/grabs/", NULL, "", "" },
        { HTTP_POST_, "/v1/sales/7/8/grabs", NULL, "", "" },
        { HTTP_GET_, "/V1/sales", NULL, "", "" },
        { HTTP_GET_, "/", NULL, "", "" },
        { HTTP_GET_, "", NULL, "", "" },
        { HTTP_GET_, "/healthzz", NULL, "", "" },
        { HTTP_GET_, "/health", NULL, "", "" },
    };
    for (size_t i = 0; i < sizeof script / sizeof *script; i++) {
        struct slice ids[ROUTE_IDS_MAX];
        char allow[64];
        const struct route *route = route_find(&no_doors, script[i].method, slice_of(script[i].path), ids, allow);
        if (script[i].route == NULL) {
            assert_null(route);
            assert_string_equal(allow, script[i].allow);
            continue;
        }
        assert_non_null(route);
        assert_string_equal(route->path, script[i].route);
        assert_true(slice_is(ids[0], script[i].id));
        assert_true(slice_is(ids[1], ""));
    }
}

static void a_path_may_have_two_ids(void **state)
{
    (void)state;
    static const struct {
        const char *path, *first, *second;
    } script[] = {
        { "/v1/sales/7/line/0af", "7", "0af" },  { "/v1/sales/x/line/line", "x", "line" },
        { "/v1/sales/7/line/", NULL, NULL },     { "/v1/sales/7/line", NULL, NULL },
        { "/v1/sales//line/0af", NULL, NULL },   { "/v1/sales/7/line/0af/", NULL, NULL },
        { "/v1/sales/7/line/0/af", NULL, NULL }, { "/v1/sales/7/8/line/0af", NULL, NULL },
        { "/v1/sales/7/lines/0af", NULL, NULL }, { "", NULL, NULL },
    };
    for (size_t i = 0; i < sizeof script / sizeof *script; i++) {
        struct slice ids[ROUTE_IDS_MAX];
        bool matches = route_path_matches("/v1/sales/{sale}/line/{place}", slice_of(script[i].path), ids);
        assert_int_equal(matches, script[i].first != NULL);
        if (!matches) continue;
        assert_true(slice_is(ids[0], script[i].first));
        assert_true(slice_is(ids[1], script[i].second));
    }
    /* What another pattern left behind does not stay. */
    struct slice ids[ROUTE_IDS_MAX];
    assert_true(route_path_matches("/a/{x}/{y}", SLICE("/a/1/2"), ids));
    assert_true(route_path_matches("/a/{x}", SLICE("/a/1"), ids));
    assert_true(slice_is(ids[1], ""));
}

static void the_grab_is_for_whom_the_sale_admits(void **state)
{
    (void)state;
    struct slice ids[ROUTE_IDS_MAX];
    char allow[64];
    const struct route *route = route_find(&no_doors, HTTP_POST_, SLICE("/v1/sales/1/grabs"), ids, allow);
    assert_int_equal(route->who, WHO_ADMITTED);
    route = route_find(&no_doors, HTTP_POST_, SLICE("/v1/sales/1/stock"), ids, allow);
    assert_int_equal(route->who, WHO_SELLER | WHO_ADMIN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_find_their_route_and_their_id),
        cmocka_unit_test(a_path_may_have_two_ids),
        cmocka_unit_test(the_grab_is_for_whom_the_sale_admits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
