/* What a container may have is not what its machine has. */
#include "base/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static char folder[64];

static void put(const char *name, const char *text)
{
    char path[256];
    for (const char *at = strchr(name, '/'); at != NULL; at = strchr(at + 1, '/')) {
        snprintf(path, sizeof path, "%s/%.*s", folder, (int)(at - name), name);
        mkdir(path, 0700);
    }
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static uint64_t asked(const char *membership)
{
    char path[128];
    put("membership", membership);
    snprintf(path, sizeof path, "%s/membership", folder);
    return memory_group_max(path, folder);
}

static int folder_make(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/stampede-memory-XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int folder_drop(void **state)
{
    (void)state;
    static const char *const names[] = { "a/b/memory.max",
                                         "a/memory.max",
                                         "memory.max",
                                         "memory/x/y/memory.limit_in_bytes",
                                         "memory/memory.limit_in_bytes",
                                         "membership",
                                         "a/b",
                                         "a",
                                         "memory/x/y",
                                         "memory/x",
                                         "memory",
                                         "" };
    char path[256];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        remove(path);
    }
    return 0;
}

static void the_least_limit_around_us_counts(void **state)
{
    (void)state;
    assert_true(asked("0::/a/b\n") == UINT64_MAX);
    put("a/b/memory.max", "max\n");
    assert_true(asked("0::/a/b\n") == UINT64_MAX);
    put("a/memory.max", "5000\n");
    assert_int_equal(asked("0::/a/b\n"), 5000);
    put("a/b/memory.max", "4000\n");
    assert_int_equal(asked("0::/a/b\n"), 4000);
    assert_true(asked("0::/\n") == UINT64_MAX);
    put("memory.max", "3000\n");
    assert_int_equal(asked("0::/\n"), 3000);
    assert_int_equal(asked("0::/not/to/be/seen\n"), 3000);
    assert_int_equal(asked("1:cpu:/a\n0::/a/b\n"), 3000);
    assert_true(asked("1:cpu:/a\n") == UINT64_MAX);
}

static void the_first_version_counts_too(void **state)
{
    (void)state;
    put("memory/x/y/memory.limit_in_bytes", "9223372036854771712\n");
    assert_true(asked("4:memory:/x/y\n") > UINT64_C(1) << 60);
    put("memory/memory.limit_in_bytes", "7000\n");
    assert_int_equal(asked("4:memory:/x/y\n"), 7000);
    put("memory/x/y/memory.limit_in_bytes", "6000\n");
    assert_int_equal(asked("9:name=systemd:/\n4:memory:/x/y\n0::/\n"), 6000);
}

static void rubbish_is_no_limit(void **state)
{
    (void)state;
    put("memory.max", "");
    static const char *const rows[] = { "", "\n", ":", "0:", "0::", "::/a", "0::/../../..\n", "memory" };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) assert_true(asked(rows[i]) == UINT64_MAX);
    assert_true(memory_group_max("/nowhere/at/all", folder) == UINT64_MAX);
    char line[2000];
    memset(line, 'a', sizeof line);
    memcpy(line, "0::/", 4);
    line[sizeof line - 1] = '\0';
    assert_true(asked(line) == UINT64_MAX);
}

static void the_machine_has_some_and_we_take_less(void **state)
{
    (void)state;
    assert_true(memory_machine() > memory_resident());
    assert_true(memory_resident() > 0 && memory_machine() < UINT64_C(1) << 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_least_limit_around_us_counts, folder_make, folder_drop),
        cmocka_unit_test_setup_teardown(the_first_version_counts_too, folder_make, folder_drop),
        cmocka_unit_test_setup_teardown(rubbish_is_no_limit, folder_make, folder_drop),
        cmocka_unit_test(the_machine_has_some_and_we_take_less),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
