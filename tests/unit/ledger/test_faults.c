/* Every write and every sync of a filing fails once, alone or with all that follow. Whatever SQLite answers, a new
 * connection that goes on from the point files everything exactly once (P4). */
#include "fixture.h"

#include <errno.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static int calls;      /* writes and syncs since armed */
static int fail_from;  /* the first that fails; 0: none */
static int fail_until; /* the last that fails */
static int fail_errno;

static bool fails(void)
{
    if (fail_from == 0) return false;
    calls++;
    if (calls < fail_from || calls > fail_until) return false;
    errno = fail_errno;
    return true;
}

/* These take the place of the C library's in this program, also for SQLite. */
ssize_t pwrite64(int fd, const void *data, size_t len, off64_t offset)
{
    return fails() ? -1 : syscall(SYS_pwrite64, fd, data, len, offset);
}

ssize_t write(int fd, const void *data, size_t len)
{
    return fd > 2 && fails() ? -1 : syscall(SYS_write, fd, data, len);
}

int fdatasync(int fd)
{
    return fails() ? -1 : (int)syscall(SYS_fdatasync, fd);
}

int fsync(int fd)
{
    return fails() ? -1 : (int)syscall(SYS_fsync, fd);
}

enum { WINS = 200 };

static enum fault wins_try(struct fixture *f)
{
    struct decision wins[WINS];
    char buyers[WINS][32];
    for (int i = 0; i < WINS; i++) {
        snprintf(buyers[i], sizeof(buyers[i]), "buyer %d", i);
        wins[i] = win_of((uint64_t)i + 2, 1, buyers[i], "key", 1);
    }
    return decisions_try(f, wins, WINS);
}

/* False once a filing passes with no call left to fail. */
static bool round_pass(int from, int until, int error)
{
    void *state;
    assert_int_equal(fixture_setup(&state), 0);
    struct fixture *f = state;
    struct sale_terms terms = terms_named("lamp");
    sale_file(f, "sam", &terms, 1000);

    calls = 0;
    fail_errno = error;
    fail_until = until;
    fail_from = from;
    enum fault fault = wins_try(f);
    bool fired = calls >= from;
    fail_from = 0;
    if (!fired) assert_int_equal(fault, FAULT_NONE);

    fixture_reopen(f);
    struct ledger_point point;
    assert_int_equal(ledger_point(f->ledger, &point), FAULT_NONE);
    assert_true(point.seq == 1 || point.seq == WINS + 1);
    if (fault == FAULT_NONE) assert_int_equal(point.seq, WINS + 1);
    if (point.seq == 1) assert_int_equal(wins_try(f), FAULT_NONE);
    assert_int_equal(outside_number(f, "SELECT count(*) FROM orders"), WINS);
    assert_int_equal(outside_number(f, "SELECT count(DISTINCT buyer) FROM orders"), WINS);
    assert_int_equal(outside_number(f, "SELECT sold FROM sales"), WINS);
    assert_int_equal(outside_number(f, "SELECT seq FROM point"), WINS + 1);
    assert_int_equal(outside_number(f, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"), 0);
    fixture_teardown(&state);
    return fired;
}

static void rounds_pass(bool stays, int error)
{
    int at = 1;
    while (round_pass(at, stays ? INT32_MAX : at, error)) at++;
    assert_true(at > 10); /* the calls were ours to fail */
}

static void a_single_failed_write_or_sync_loses_and_doubles_nothing(void **state)
{
    (void)state;
    rounds_pass(false, EIO);
}

static void a_disk_that_is_full_from_some_moment_on_loses_and_doubles_nothing(void **state)
{
    (void)state;
    rounds_pass(true, ENOSPC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_single_failed_write_or_sync_loses_and_doubles_nothing),
        cmocka_unit_test(a_disk_that_is_full_from_some_moment_on_loses_and_doubles_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
