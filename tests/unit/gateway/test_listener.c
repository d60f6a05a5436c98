/* Listening sockets: honest about a taken port, and able to share their own. */
#include "gateway/listener.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static void fds_close(int *fds, int count)
{
    for (int i = 0; i < count; i++) close(fds[i]);
}

static void several_sockets_share_one_port(void **state)
{
    (void)state;
    int fds[4];
    char bound[80];
    assert_int_equal(listener_open("http", "127.0.0.1:0", 4, fds, bound), FAULT_NONE);
    assert_memory_equal(bound, "127.0.0.1:", 10);
    assert_string_not_equal(bound, "127.0.0.1:0");
    for (int i = 0; i < 4; i++) assert_int_equal(listen(fds[i], 16), 0);
    fds_close(fds, 4);
}

/* Even the sockets of another server of our own kind, which share a port among themselves, do not let us in. */
static void a_taken_port_is_refused(void **state)
{
    (void)state;
    int mine[2], theirs[2];
    char bound[80], again[80];
    assert_int_equal(listener_open("http", "127.0.0.1:0", 2, mine, bound), FAULT_NONE);
    assert_int_equal(listen(mine[0], 16) | listen(mine[1], 16), 0);
    assert_int_equal(listener_open("http", bound, 2, theirs, again), FAULT_IN_USE);
    fds_close(mine, 2);
    assert_int_equal(listener_open("http", bound, 2, theirs, again), FAULT_NONE);
    assert_string_equal(bound, again);
    fds_close(theirs, 2);
}

static void addresses_that_are_none_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = { "",
                                         "127.0.0.1",
                                         ":80",
                                         "127.0.0.1:",
                                         "127.0.0.1:65536",
                                         "127.0.0.1:-1",
                                         "127.0.0.1:8x",
                                         "example.org:80",
                                         "[::1:80",
                                         "300.0.0.1:80",
                                         "127.0.0.1:0080" };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int fd;
        char bound[80];
        assert_int_equal(listener_open("http", wrong[i], 1, &fd, bound), FAULT_CONFIG);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_sockets_share_one_port),
        cmocka_unit_test(a_taken_port_is_refused),
        cmocka_unit_test(addresses_that_are_none_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
