/* The route table as a client meets it. */
#include "gateway/routes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

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
        struct slice id = { "", 0 };
        char allow[64];
        const struct route *route = route_find(script[i].method, slice_of(script[i].path), &id, allow);
        if (script[i].route == NULL) {
            assert_null(route);
            assert_string_equal(allow, script[i].allow);
            continue;
        }
        assert_non_null(route);
        assert_string_equal(route->path, script[i].route);
        assert_true(slice_is(id, script[i].id));
    }
}

static void the_grab_is_for_whom_the_sale_admits(void **state)
{
    (void)state;
    struct slice id;
    char allow[64];
    const struct route *route = route_find(HTTP_POST_, SLICE("/v1/sales/1/grabs"), &id, allow);
    assert_int_equal(route->who, WHO_ADMITTED);
    route = route_find(HTTP_POST_, SLICE("/v1/sales/1/stock"), &id, allow);
    assert_int_equal(route->who, WHO_SELLER | WHO_ADMIN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_find_their_route_and_their_id),
        cmocka_unit_test(the_grab_is_for_whom_the_sale_admits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
