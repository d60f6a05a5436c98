#include "base/region.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

/* Pages of this process that are in memory. */
static long resident_pages(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    assert_non_null(file);
    long size, resident;
    assert_int_equal(fscanf(file, "%ld %ld", &size, &resident), 2);
    fclose(file);
    return resident;
}

static void a_region_starts_zeroed_and_keeps_what_is_written(void **state)
{
    (void)state;
    struct region region;
    assert_int_equal(region_open(&region, 100001), FAULT_NONE);
    assert_true(region.size >= 100001);
    for (size_t i = 0; i < region.size; i++) assert_int_equal(region.base[i], 0);
    for (size_t i = 0; i < region.size; i++) region.base[i] = (uint8_t)(i * 31);
    for (size_t i = 0; i < region.size; i++) assert_int_equal(region.base[i], (uint8_t)(i * 31));
    region_close(&region);
    assert_null(region.base);
    assert_int_equal(region.size, 0);
}

static void a_region_begins_at_a_page(void **state)
{
    (void)state;
    struct region region;
    assert_int_equal(region_open(&region, 1), FAULT_NONE);
    assert_int_equal((uintptr_t)region.base % (uintptr_t)sysconf(_SC_PAGESIZE), 0);
    region_close(&region);
}

static void reserving_costs_no_memory_until_it_is_touched(void **state)
{
    (void)state;
    long before = resident_pages();
    struct region region;
    assert_int_equal(region_open(&region, (size_t)16 << 30), FAULT_NONE);
    region.base[0] = 1;
    region.base[region.size - 1] = 1;
    /* Two touched places may cost a huge page each, never the whole. */
    assert_true(resident_pages() - before < (16 << 20) / 4096);
    region_close(&region);
}

/* Pages from the first on, out of so many, that are in memory. */
static long pages_there(const struct region *region, long page, long count)
{
    unsigned char there[256];
    assert_in_range(count, 1, sizeof there);
    assert_int_equal(mincore(region->base, (size_t)(count * page), there), 0);
    long first = 0;
    while (first < count && there[first] & 1) first++;
    return first;
}

static void what_is_populated_is_in_memory_zeroed_and_no_more_than_that(void **state)
{
    (void)state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct region region;
    assert_int_equal(region_open(&region, 256 * page), FAULT_NONE);
    /* A system that knows nothing of it says so, and then pages come when they are touched. */
#ifdef MADV_POPULATE_WRITE
    bool known = madvise(region.base + 255 * page, page, MADV_POPULATE_WRITE) == 0;
#else
    bool known = false;
#endif
    assert_int_equal(pages_there(&region, (long)page, 256), 0);
    region_populate(&region, 1, 64 * page - 1);
    assert_int_equal(pages_there(&region, (long)page, 256), known ? 64 : 0);
    for (size_t i = 0; i < 64 * page; i++) assert_int_equal(region.base[i], 0);

    region.base[200 * page] = 1;
    region_populate(&region, 100 * page, SIZE_MAX); /* as far as there is any */
    region_populate(&region, region.size, region.size + page);
    assert_int_equal(region.base[200 * page], 1);
    region_close(&region);
}

static void what_is_made_ready_is_the_whole_region_and_keeps_what_was_written(void **state)
{
    (void)state;
    const size_t part = (size_t)2 << 20, page = (size_t)sysconf(_SC_PAGESIZE);
    struct region region;
    assert_int_equal(region_open(&region, 5 * part / 2), FAULT_NONE);
    region.base[part + 7] = 42;
    size_t before = 0, ready;
    uint32_t parts = 0;
    while ((ready = region_make_ready(&region, parts)) > 0) {
        assert_true(ready > before && ready - before <= part);
        before = ready;
        parts++;
    }
    for (size_t i = 0; i < region.size; i++) assert_int_equal(region.base[i], i == part + 7 ? 42 : 0);
    assert_int_equal(region_make_ready(&region, UINT32_MAX), 0);
    bool known = region_populate(&region, 0, page);
    if (known) assert_in_range(parts, 3, 4); /* as it begins */
    assert_int_equal(before, known ? region.size : 0);
    region_close(&region);

    assert_int_equal(region_open(&region, 5 * part / 2), FAULT_NONE);
    for (uint32_t i = 0; i < 4; i++) (void)region_make_ready(&region, i);
    assert_int_equal(pages_there(&region, (long)page, 256), known ? 256 : 0);
    region_close(&region);
}

static void closing_twice_is_harmless(void **state)
{
    (void)state;
    struct region region;
    assert_int_equal(region_open(&region, 4096), FAULT_NONE);
    region_close(&region);
    region_close(&region);
    assert_null(region.base);
}

static void more_than_the_address_space_is_a_fault_of_memory(void **state)
{
    (void)state;
    struct region region;
    assert_int_equal(region_open(&region, (size_t)1 << 62), FAULT_MEMORY);
    assert_null(region.base);
    region_close(&region);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_region_starts_zeroed_and_keeps_what_is_written),
        cmocka_unit_test(a_region_begins_at_a_page),
        cmocka_unit_test(reserving_costs_no_memory_until_it_is_touched),
        cmocka_unit_test(what_is_populated_is_in_memory_zeroed_and_no_more_than_that),
        cmocka_unit_test(what_is_made_ready_is_the_whole_region_and_keeps_what_was_written),
        cmocka_unit_test(closing_twice_is_harmless),
        cmocka_unit_test(more_than_the_address_space_is_a_fault_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
