/* Opening: the file, its mode, its version, and files that are no ledger. */
#include "fixture.h"
#include "ledger/schema.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void only_its_owner_may_read_the_file(void **state)
{
    struct fixture *f = *state;
    struct sale_terms terms = terms_named("lamp");
    sale_file(f, "sam", &terms, 1);
    static const char *const ends[] = { "", "-wal", "-shm" };
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        char path[160];
        struct stat about;
        snprintf(path, sizeof(path), "%s%s", f->path, ends[i]);
        assert_int_equal(stat(path, &about), 0);
        assert_int_equal(about.st_mode & 0777, 0600);
    }
}

static void the_file_is_in_wal_mode(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(outside_number(f, "SELECT count(*) FROM pragma_journal_mode() WHERE journal_mode = 'wal'"), 1);
}

static void another_version_is_refused_and_untouched(void **state)
{
    struct fixture *f = *state;
    ledger_close(f->ledger);
    static const enum ledger_mode modes[] = { LEDGER_OWNER, LEDGER_WRITER, LEDGER_READER };
    for (int way = -1; way <= 1; way += 2) {
        outside(f, way < 0 ? "UPDATE meta SET version = version - 1" : "UPDATE meta SET version = version + 2");
        for (int i = 0; i < 3; i++) {
            struct ledger *ledger = (struct ledger *)1;
            assert_int_equal(ledger_open(&ledger, LEDGER_FILE(f->path), modes[i]), FAULT_LEDGER);
            assert_null(ledger);
        }
        assert_int_equal(outside_number(f, "SELECT version FROM meta"), SCHEMA_VERSION + way);
    }
    outside(f, "UPDATE meta SET version = version - 1");
    assert_int_equal(ledger_open(&f->ledger, LEDGER_FILE(f->path), LEDGER_OWNER), FAULT_NONE);
}

static void only_the_owner_makes_a_ledger(void **state)
{
    struct fixture *f = *state;
    char path[sizeof(f->path)];
    snprintf(path, sizeof(path), "%s/other.db", f->folder);
    struct ledger *ledger;
    assert_int_equal(ledger_open(&ledger, LEDGER_FILE(path), LEDGER_WRITER), FAULT_LEDGER);
    assert_int_equal(ledger_open(&ledger, LEDGER_FILE(path), LEDGER_READER), FAULT_LEDGER);
    assert_int_not_equal(access(path, F_OK), 0);
    snprintf(path, sizeof(path), "%s/no such folder/other.db", f->folder);
    assert_int_equal(ledger_open(&ledger, LEDGER_FILE(path), LEDGER_OWNER), FAULT_DISK);
}

static void a_file_of_something_else_is_refused(void **state)
{
    struct fixture *f = *state;
    char path[sizeof(f->path)];
    snprintf(path, sizeof(path), "%s/other.db", f->folder);
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    for (int i = 0; i < 100; i++) assert_int_equal(write(fd, "this is a letter, and no database at all; ", 42), 42);
    close(fd);
    struct ledger *ledger;
    assert_int_equal(ledger_open(&ledger, LEDGER_FILE(path), LEDGER_OWNER), FAULT_DAMAGE);
    assert_int_equal(ledger_open(&ledger, LEDGER_FILE(path), LEDGER_READER), FAULT_DAMAGE);
    unlink(path);

    struct fixture other = *f;
    snprintf(other.path, sizeof(other.path), "%s", path);
    outside(&other, "CREATE TABLE recipes (name TEXT)");
    assert_int_equal(ledger_open(&ledger, LEDGER_FILE(path), LEDGER_OWNER), FAULT_LEDGER);
    assert_int_equal(outside_number(&other, "SELECT count(*) FROM sqlite_schema"), 1);
    unlink(path);
}

static void a_reader_cannot_write(void **state)
{
    struct fixture *f = *state;
    struct ledger *reader;
    assert_int_equal(ledger_open(&reader, LEDGER_FILE(f->path), LEDGER_READER), FAULT_NONE);
    assert_int_equal(ledger_revoke(reader, 1, 1), FAULT_LEDGER);
    ledger_close(reader);
    assert_int_equal(outside_number(f, "SELECT count(*) FROM revoked"), 0);
}

/* stampede admin create may run while a server starts. */
static void processes_that_open_a_new_ledger_at_once_all_succeed(void **state)
{
    struct fixture *f = *state;
    char path[sizeof(f->path)];
    snprintf(path, sizeof(path), "%s/fresh.db", f->folder);
    enum { PROCESSES = 6 };
    for (int i = 0; i < PROCESSES; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child > 0) continue;
        struct ledger *ledger;
        struct ledger_user user = { .role = ROLE_CUSTOMER, .username = { (char)('a' + i) }, .password_hash = "h" };
        bool taken;
        if (ledger_open(&ledger, LEDGER_FILE(path), LEDGER_OWNER) != FAULT_NONE) _exit(1);
        if (ledger_user_add(ledger, &user, 1, &taken) != FAULT_NONE || taken) _exit(2);
        ledger_close(ledger);
        _exit(0);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        assert_true(wait(&status) > 0);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    struct fixture fresh = *f;
    snprintf(fresh.path, sizeof(fresh.path), "%s", path);
    assert_int_equal(outside_number(&fresh, "SELECT count(*) FROM users"), PROCESSES);
    unlink(path);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(only_its_owner_may_read_the_file),
        CASE(the_file_is_in_wal_mode),
        CASE(another_version_is_refused_and_untouched),
        CASE(only_the_owner_makes_a_ledger),
        CASE(a_file_of_something_else_is_refused),
        CASE(a_reader_cannot_write),
        CASE(processes_that_open_a_new_ledger_at_once_all_succeed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
