/* Which doors stand open, and how their routes are found. */
#include "doors/doors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const struct route *found(const struct doors *open, enum http_method method, const char *path)
{
    struct route_tables doors;
    struct slice ids[ROUTE_IDS_MAX];
    char allow[64];
    doors_collect(open, &doors);
    return route_find(&doors, method, slice_of(path), ids, allow);
}

static void a_door_that_is_shut_has_no_routes(void **state)
{
    (void)state;
    static const struct doors shut = { .coupon = false };
    assert_non_null(found(&doors_all, HTTP_POST_, "/api/auth/logout"));
    assert_null(found(&shut, HTTP_POST_, "/api/auth/logout"));
    assert_non_null(found(&shut, HTTP_GET_, "/v1/sales"));
}

static void a_slash_at_the_end_is_nothing_to_a_door(void **state)
{
    (void)state;
    assert_ptr_equal(found(&doors_all, HTTP_POST_, "/api/auth/logout/"), found(&doors_all, HTTP_POST_, "/api/auth/logout"));
    assert_null(found(&doors_all, HTTP_POST_, "/api/auth/logout//"));
    assert_null(found(&doors_all, HTTP_GET_, "/v1/sales/"));
}

static void every_route_of_a_door_has_a_face_and_no_native_one_has(void **state)
{
    (void)state;
    struct route_tables doors;
    doors_collect(&doors_all, &doors);
    assert_true(doors.count > 0);
    for (size_t i = 0; i < doors.count; i++) {
        for (size_t k = 0; k < doors.tables[i].count; k++) assert_non_null(doors.tables[i].routes[k].face);
    }
    assert_null(found(&doors_all, HTTP_POST_, "/v1/sales/1/grabs")->face);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_door_that_is_shut_has_no_routes),
        cmocka_unit_test(a_slash_at_the_end_is_nothing_to_a_door),
        cmocka_unit_test(every_route_of_a_door_has_a_face_and_no_native_one_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
