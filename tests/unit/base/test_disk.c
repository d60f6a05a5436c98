#include "base/disk.h"

#include "base/log.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[256];

/* A path in the test's folder; good until the fourth call after it. */
static const char *in_folder(const char *name)
{
    static char paths[4][512];
    static unsigned turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static int folder_open(void **state)
{
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/stampede-disk-XXXXXX", base != NULL ? base : "/tmp");
    return mkdtemp(folder) == NULL;
}

static void visit_remove(void *arg, const char *name)
{
    (void)arg;
    const char *path = in_folder(name);
    if (unlink(path) != 0) (void)rmdir(path);
}

static int folder_close(void **state)
{
    (void)state;
    if (disk_each(folder, visit_remove, NULL) != FAULT_NONE) return 1;
    return rmdir(folder);
}

static unsigned mode_of(const char *path)
{
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    return info.st_mode & 0777;
}

static void what_is_written_is_read_back_at_any_offset(void **state)
{
    (void)state;
    int fd;
    assert_int_equal(disk_create(in_folder("file"), &fd), FAULT_NONE);
    assert_int_equal(mode_of(in_folder("file")), 0600);
    static uint8_t data[100000], back[100000];
    for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)(i * 13);
    assert_int_equal(disk_write_at(fd, data, sizeof data, 5000), FAULT_NONE);
    assert_int_equal(disk_write_at(fd, data, 0, 0), FAULT_NONE);
    uint64_t size;
    assert_int_equal(disk_size(fd, &size), FAULT_NONE);
    assert_int_equal(size, 105000);

    size_t got;
    assert_int_equal(disk_read_at(fd, back, sizeof back, 5000, &got), FAULT_NONE);
    assert_int_equal(got, sizeof back);
    assert_memory_equal(back, data, sizeof data);
    assert_int_equal(disk_read_at(fd, back, sizeof back, 100000, &got), FAULT_NONE);
    assert_int_equal(got, 5000);
    assert_int_equal(disk_read_at(fd, back, sizeof back, 200000, &got), FAULT_NONE);
    assert_int_equal(got, 0);
    assert_int_equal(disk_sync(fd), FAULT_NONE);
    assert_int_equal(disk_sync_all(fd), FAULT_NONE);
    disk_close(fd);
}

static void creating_empties_and_opening_keeps(void **state)
{
    (void)state;
    const char *path = in_folder("kept");
    int fd;
    uint64_t size;
    assert_int_equal(disk_create(path, &fd), FAULT_NONE);
    assert_int_equal(disk_write_at(fd, "abc", 3, 0), FAULT_NONE);
    disk_close(fd);

    assert_int_equal(disk_open(path, false, &fd), FAULT_NONE);
    char back[4];
    size_t got;
    assert_int_equal(disk_read_at(fd, back, sizeof back, 0, &got), FAULT_NONE);
    assert_int_equal(got, 3);
    assert_memory_equal(back, "abc", 3);
    assert_int_equal(disk_write_at(fd, "x", 1, 0), FAULT_DISK);
    disk_close(fd);

    assert_int_equal(disk_open(path, true, &fd), FAULT_NONE);
    assert_int_equal(disk_write_at(fd, "x", 1, 0), FAULT_NONE);
    assert_int_equal(disk_size(fd, &size), FAULT_NONE);
    assert_int_equal(size, 3);
    disk_close(fd);

    assert_int_equal(disk_create(path, &fd), FAULT_NONE);
    assert_int_equal(disk_size(fd, &size), FAULT_NONE);
    assert_int_equal(size, 0);
    disk_close(fd);
}

/* A child must not keep our files, and with them our lock, open behind our back. */
static void descriptors_do_not_pass_to_other_programs(void **state)
{
    (void)state;
    int fds[3];
    long pid;
    assert_int_equal(disk_create(in_folder("cloexec"), &fds[0]), FAULT_NONE);
    assert_int_equal(disk_open(in_folder("cloexec"), false, &fds[1]), FAULT_NONE);
    assert_int_equal(disk_lock_folder(folder, &fds[2], &pid), FAULT_NONE);
    for (size_t i = 0; i < 3; i++) {
        assert_true(fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
        disk_close(fds[i]);
    }
}

static void a_folder_is_made_once_and_private(void **state)
{
    (void)state;
    assert_int_equal(disk_folder_make(in_folder("inner")), FAULT_NONE);
    assert_int_equal(mode_of(in_folder("inner")), 0700);
    assert_int_equal(disk_folder_make(in_folder("inner")), FAULT_NONE);
    assert_int_equal(disk_sync_folder(in_folder("inner")), FAULT_NONE);

    int fd;
    assert_int_equal(disk_create(in_folder("plain"), &fd), FAULT_NONE);
    disk_close(fd);
    assert_int_equal(disk_folder_make(in_folder("plain")), FAULT_DISK);
    assert_int_equal(disk_folder_make(in_folder("no/such/parent")), FAULT_DISK);
}

static void visit_count(void *arg, const char *name)
{
    int *counts = arg;
    counts[0]++;
    if (strcmp(name, "one") == 0) counts[1]++;
    if (strcmp(name, "two") == 0) counts[2]++;
}

static void renaming_and_removing_show_in_the_folder(void **state)
{
    (void)state;
    assert_int_equal(disk_folder_make(in_folder("list")), FAULT_NONE);
    int fd, counts[3] = { 0 };
    assert_int_equal(disk_create(in_folder("list/one"), &fd), FAULT_NONE);
    disk_close(fd);
    assert_int_equal(disk_each(in_folder("list"), visit_count, counts), FAULT_NONE);
    assert_int_equal(counts[0], 1);
    assert_int_equal(counts[1], 1);

    assert_int_equal(disk_rename(in_folder("list/one"), in_folder("list/two")), FAULT_NONE);
    memset(counts, 0, sizeof counts);
    assert_int_equal(disk_each(in_folder("list"), visit_count, counts), FAULT_NONE);
    assert_int_equal(counts[0], 1);
    assert_int_equal(counts[2], 1);

    assert_int_equal(disk_remove(in_folder("list/two")), FAULT_NONE);
    memset(counts, 0, sizeof counts);
    assert_int_equal(disk_each(in_folder("list"), visit_count, counts), FAULT_NONE);
    assert_int_equal(counts[0], 0);
}

static void what_is_not_there_is_a_fault(void **state)
{
    (void)state;
    int fd;
    uint64_t number;
    long pid;
    size_t got;
    char byte;
    assert_int_equal(disk_open(in_folder("none"), true, &fd), FAULT_DISK);
    assert_int_equal(disk_create(in_folder("none/file"), &fd), FAULT_DISK);
    assert_int_equal(disk_remove(in_folder("none")), FAULT_DISK);
    assert_int_equal(disk_rename(in_folder("none"), in_folder("other")), FAULT_DISK);
    assert_int_equal(disk_sync_folder(in_folder("none")), FAULT_DISK);
    assert_int_equal(disk_each(in_folder("none"), visit_count, NULL), FAULT_DISK);
    assert_int_equal(disk_space(in_folder("none"), &number), FAULT_DISK);
    assert_int_equal(disk_lock_folder(in_folder("none"), &fd, &pid), FAULT_DISK);
    assert_int_equal(disk_sync(-1), FAULT_DISK);
    assert_int_equal(disk_sync_all(-1), FAULT_DISK);
    assert_int_equal(disk_size(-1, &number), FAULT_DISK);
    assert_int_equal(disk_write_at(-1, "x", 1, 0), FAULT_DISK);
    assert_int_equal(disk_read_at(-1, &byte, 1, 0, &got), FAULT_DISK);
}

static void a_full_disk_is_told_apart(void **state)
{
    (void)state;
    int fd;
    assert_int_equal(disk_open("/dev/full", true, &fd), FAULT_NONE);
    assert_int_equal(disk_write_at(fd, "x", 1, 0), FAULT_SPACE);
    disk_close(fd);
}

/* The kernel writes up to the limit first and fails only then: a short write must be seen as what it is. */
static void a_write_cut_short_is_carried_on_until_it_fails(void **state)
{
    (void)state;
    struct rlimit before, small = { 10000, 10000 };
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small.rlim_max = before.rlim_max;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    int fd;
    static uint8_t data[20000];
    uint64_t size;
    assert_int_equal(disk_create(in_folder("cut"), &fd), FAULT_NONE);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    enum fault fault = disk_write_at(fd, data, sizeof data, 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(fault, FAULT_DISK);
    assert_int_equal(disk_size(fd, &size), FAULT_NONE);
    assert_int_equal(size, 10000);
    disk_close(fd);
}

static void free_space_is_plausible(void **state)
{
    (void)state;
    uint64_t bytes = 0;
    assert_int_equal(disk_space(folder, &bytes), FAULT_NONE);
    assert_true(bytes > 0 && bytes < UINT64_C(1) << 60);
}

/* A process of its own that locks the folder, says so, and lives until its input ends. */
static pid_t holder_start(int *to_holder)
{
    int up[2], down[2];
    assert_int_equal(pipe(up), 0);
    assert_int_equal(pipe(down), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int fd;
        long pid;
        close(up[0]);
        close(down[1]);
        char said = disk_lock_folder(folder, &fd, &pid) == FAULT_NONE ? 'y' : 'n';
        if (write(up[1], &said, 1) != 1) _exit(2);
        while (read(down[0], &said, 1) > 0) continue;
        _exit(0);
    }
    close(up[1]);
    close(down[0]);
    char heard;
    assert_int_equal(read(up[0], &heard, 1), 1);
    assert_int_equal(heard, 'y');
    close(up[0]);
    *to_holder = down[1];
    return child;
}

static void a_second_process_is_told_who_holds_the_folder(void **state)
{
    (void)state;
    int to_holder, fd;
    long pid = -1;
    pid_t holder = holder_start(&to_holder);
    assert_int_equal(disk_lock_folder(folder, &fd, &pid), FAULT_IN_USE);
    assert_int_equal(pid, holder);
    assert_int_equal(fd, -1);
    close(to_holder);
    assert_int_equal(waitpid(holder, NULL, 0), holder);

    assert_int_equal(disk_lock_folder(folder, &fd, &pid), FAULT_NONE);
    disk_close(fd);
}

static void the_lock_ends_with_a_killed_process(void **state)
{
    (void)state;
    int to_holder, fd;
    long pid;
    pid_t holder = holder_start(&to_holder);
    assert_int_equal(kill(holder, SIGKILL), 0);
    assert_int_equal(waitpid(holder, NULL, 0), holder);
    close(to_holder);
    assert_int_equal(disk_lock_folder(folder, &fd, &pid), FAULT_NONE);
    disk_close(fd);
}

static void the_number_of_an_earlier_holder_does_not_show_through(void **state)
{
    (void)state;
    int fd, other;
    long pid;
    assert_int_equal(disk_create(in_folder("lock"), &fd), FAULT_NONE);
    assert_int_equal(disk_write_at(fd, "1234567890\n", 11, 0), FAULT_NONE);
    disk_close(fd);
    assert_int_equal(disk_lock_folder(folder, &fd, &pid), FAULT_NONE);
    assert_int_equal(disk_lock_folder(folder, &other, &pid), FAULT_IN_USE);
    assert_int_equal(pid, getpid());
    disk_close(fd);
}

static void a_lock_file_full_of_rubbish_names_nobody(void **state)
{
    (void)state;
    int fd, other;
    long pid;
    static const char *const rubbish[] = { "", "12", "-5\n", "99999999999\n", "hello\n", "12 34\n" };
    assert_int_equal(disk_lock_folder(folder, &fd, &pid), FAULT_NONE);
    for (size_t i = 0; i < sizeof rubbish / sizeof rubbish[0]; i++) {
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(disk_write_at(fd, rubbish[i], strlen(rubbish[i]), 0), FAULT_NONE);
        assert_int_equal(disk_lock_folder(folder, &other, &pid), FAULT_IN_USE);
        assert_int_equal(pid, 0);
    }
    disk_close(fd);
    assert_int_equal(disk_lock_folder(folder, &fd, &pid), FAULT_NONE);
    disk_close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_back_at_any_offset),
        cmocka_unit_test(creating_empties_and_opening_keeps),
        cmocka_unit_test(descriptors_do_not_pass_to_other_programs),
        cmocka_unit_test(a_folder_is_made_once_and_private),
        cmocka_unit_test(renaming_and_removing_show_in_the_folder),
        cmocka_unit_test(what_is_not_there_is_a_fault),
        cmocka_unit_test(a_full_disk_is_told_apart),
        cmocka_unit_test(a_write_cut_short_is_carried_on_until_it_fails),
        cmocka_unit_test(free_space_is_plausible),
        cmocka_unit_test(a_second_process_is_told_who_holds_the_folder),
        cmocka_unit_test(the_lock_ends_with_a_killed_process),
        cmocka_unit_test(the_number_of_an_earlier_holder_does_not_show_through),
        cmocka_unit_test(a_lock_file_full_of_rubbish_names_nobody),
    };
    return cmocka_run_group_tests(tests, folder_open, folder_close);
}
