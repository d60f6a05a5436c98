/* Nobody who has come to a listener is lost when it closes, and nobody new comes. */
#include "gateway/socket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

struct place {
    uv_loop_t loop;
    uv_tcp_t listener;
    int fd;
    struct sockaddr_storage address;
    socklen_t address_len;
};

static void place_open(struct place *place, const char *host)
{
    bool v6 = strchr(host, ':') != NULL;
    struct sockaddr_storage where;
    if (v6) {
        uv_ip6_addr(host, 0, (struct sockaddr_in6 *)&where);
    } else {
        uv_ip4_addr(host, 0, (struct sockaddr_in *)&where);
    }
    assert_int_equal(uv_loop_init(&place->loop), 0);
    assert_int_equal(uv_tcp_init(&place->loop, &place->listener), 0);
    assert_int_equal(uv_tcp_bind(&place->listener, (struct sockaddr *)&where, 0), 0);
    assert_int_equal(uv_fileno((uv_handle_t *)&place->listener, &place->fd), 0);
    assert_int_equal(listen(place->fd, 16), 0);
    place->address_len = sizeof place->address;
    assert_int_equal(getsockname(place->fd, (struct sockaddr *)&place->address, &place->address_len), 0);
}

static void place_close(struct place *place)
{
    if (!uv_is_closing((uv_handle_t *)&place->listener)) uv_close((uv_handle_t *)&place->listener, NULL);
    uv_run(&place->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&place->loop), 0);
}

/* A client that has begun to connect. */
static int client(const struct place *place)
{
    int fd = socket(place->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
    assert_true(fd >= 0);
    if (connect(fd, (const struct sockaddr *)&place->address, place->address_len) != 0) assert_int_equal(errno, EINPROGRESS);
    return fd;
}

/* What became of it in that time: 0 connected, EINPROGRESS not yet, or why not. */
static int outcome(int fd, int ms)
{
    struct pollfd look = { .fd = fd, .events = POLLOUT };
    if (poll(&look, 1, ms) == 0) return EINPROGRESS;
    int error;
    socklen_t len = sizeof error;
    assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len), 0);
    return error;
}

static void who_has_come_is_taken_and_nobody_new_comes(const char *host)
{
    struct place place;
    place_open(&place, host);
    int before = client(&place);
    assert_int_equal(outcome(before, 10000), 0);
    assert_int_equal(write(before, "first", 5), 5);
    socket_hush(&place.listener);
    int after = client(&place);
    assert_int_equal(outcome(after, 200), EINPROGRESS);

    int taken = accept(place.fd, NULL, NULL);
    assert_true(taken >= 0);
    assert_int_equal(accept(place.fd, NULL, NULL), -1);
    char bytes[16];
    assert_int_equal(read(taken, bytes, sizeof bytes), 5);
    /* The filter came along with it and minds nothing that belongs to a connection. */
    assert_int_equal(write(before, "second", 6), 6);
    assert_int_equal(read(taken, bytes, sizeof bytes), 6);
    assert_int_equal(write(taken, "answer", 6), 6);
    close(taken);
    place_close(&place);
    assert_int_equal(outcome(after, 10000), ECONNREFUSED);
    close(before);
    close(after);
}

static void a_listener_is_hushed(void **state)
{
    (void)state;
    who_has_come_is_taken_and_nobody_new_comes("127.0.0.1");
}

static void a_listener_of_ipv6_is_hushed(void **state)
{
    (void)state;
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in6 loopback;
    uv_ip6_addr("::1", 0, &loopback);
    bool there = fd >= 0 && bind(fd, (struct sockaddr *)&loopback, sizeof loopback) == 0;
    if (fd >= 0) close(fd);
    if (there) who_has_come_is_taken_and_nobody_new_comes("::1"); /* else no listener has such an address here */
}

static void bytes_that_have_come_are_seen_and_stay(void **state)
{
    (void)state;
    struct place place;
    place_open(&place, "127.0.0.1");
    int peer = client(&place);
    assert_int_equal(outcome(peer, 10000), 0);
    int fd = accept(place.fd, NULL, NULL);
    uv_tcp_t tcp;
    assert_int_equal(uv_tcp_init(&place.loop, &tcp), 0);
    assert_int_equal(uv_tcp_open(&tcp, fd), 0);
    assert_false(socket_has_bytes(&tcp));
    assert_int_equal(write(peer, "x", 1), 1);
    struct pollfd look = { .fd = fd, .events = POLLIN };
    assert_int_equal(poll(&look, 1, 10000), 1);
    assert_true(socket_has_bytes(&tcp));
    assert_true(socket_has_bytes(&tcp));
    char bytes[16];
    assert_int_equal(read(fd, bytes, sizeof bytes), 1);
    assert_false(socket_has_bytes(&tcp));
    close(peer);
    assert_int_equal(poll(&look, 1, 10000), 1);
    assert_false(socket_has_bytes(&tcp)); /* an end is no request */
    uv_close((uv_handle_t *)&tcp, NULL);
    place_close(&place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_listener_is_hushed),
        cmocka_unit_test(a_listener_of_ipv6_is_hushed),
        cmocka_unit_test(bytes_that_have_come_are_seen_and_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
