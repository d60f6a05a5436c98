/* The table of embedded files, as the build made it. */
#include "gateway/pages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void every_file_is_found_by_its_name_and_nothing_else_is(void **state)
{
    (void)state;
    assert_true(page_files_count > 5);
    for (size_t i = 0; i < page_files_count; i++) {
        const struct page_file *file = &page_files[i];
        assert_ptr_equal(page_file_find(slice_of(file->name)), file);
        assert_null(page_file_find((struct slice){ file->name, strlen(file->name) - 1 }));
        char longer[256];
        snprintf(longer, sizeof longer, "%sx", file->name);
        assert_null(page_file_find(slice_of(longer)));
        assert_true(file->gzip_len < file->len);
        assert_true(file->tag[0] == '"' && file->tag[strlen(file->tag) - 1] == '"');
    }
    assert_null(page_file_find(SLICE("")));
    assert_null(page_file_find(SLICE("/assets/")));
}

static void every_document_that_is_served_is_there(void **state)
{
    (void)state;
    static const char *const sites[] = { "store/index.html", "console/index.html" };
    static const char *const refusals[] = { "refused/slow/index.html", "refused/busy/index.html",
                                            "refused/blocked/index.html" };
    for (size_t i = 0; i < sizeof sites / sizeof *sites; i++) {
        assert_non_null(page_file_find(slice_of(sites[i])));
        assert_string_equal(page_file_find(slice_of(sites[i]))->style, "");
    }
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        assert_non_null(page_file_find(slice_of(refusals[i])));
        assert_memory_equal(page_file_find(slice_of(refusals[i]))->style, "sha256-", 7);
    }
}

static const struct route *found(const struct pages *on, enum http_method method, const char *path)
{
    struct route_tables tables = { .count = 0 };
    struct slice ids[ROUTE_IDS_MAX];
    char allow[64];
    pages_collect(on, &tables);
    assert_null(route_face(&tables, slice_of(path)));
    return route_find(&tables, method, slice_of(path), ids, allow);
}

static void what_is_off_has_no_routes(void **state)
{
    (void)state;
    static const struct pages off = { .site = false }, site = { .site = true };
    assert_null(found(&off, HTTP_GET_, "/"));
    assert_null(found(&off, HTTP_GET_, "/assets/x"));
    assert_null(found(&off, HTTP_POST_, "/v1/orders/1/demo_payment"));
    assert_non_null(found(&site, HTTP_GET_, "/"));
    assert_non_null(found(&site, HTTP_GET_, "/console/sales/7"));
    assert_non_null(found(&site, HTTP_GET_, "/console/"));
    assert_null(found(&site, HTTP_POST_, "/v1/orders/1/demo_payment"));
    assert_int_equal(found(&pages_all, HTTP_POST_, "/v1/orders/1/demo_payment")->who, WHO_CUSTOMER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_file_is_found_by_its_name_and_nothing_else_is),
        cmocka_unit_test(every_document_that_is_served_is_there),
        cmocka_unit_test(what_is_off_has_no_routes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
