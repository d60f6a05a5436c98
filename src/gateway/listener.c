#include "gateway/listener.h"

#include "base/address.h"
#include "base/log.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Names are not looked up: an address that depends on a resolver is a surprise at start. */
static bool where_parse(const char *text, struct sockaddr_storage *out, socklen_t *len)
{
    struct address address;
    uint16_t port;
    if (!address_parse_port(&address, &port, slice_of(text))) return false;
    memset(out, 0, sizeof *out);
    if (address_is_v4(&address)) {
        struct sockaddr_in *v4 = (struct sockaddr_in *)out;
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
        memcpy(&v4->sin_addr, address.bytes + sizeof address.bytes - sizeof v4->sin_addr, sizeof v4->sin_addr);
        *len = sizeof *v4;
    } else {
        struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(port);
        memcpy(&v6->sin6_addr, address.bytes, sizeof v6->sin6_addr);
        *len = sizeof *v6;
    }
    return true;
}

static void where_print(const struct sockaddr_storage *where, char out[80])
{
    struct address address;
    char host[ADDRESS_TEXT_BYTES];
    bool known = address_from_sockaddr(&address, (const struct sockaddr *)where);
    assert(known);
    address_print(host, &address);
    bool v6 = where->ss_family == AF_INET6;
    in_port_t port = v6 ? ((const struct sockaddr_in6 *)where)->sin6_port : ((const struct sockaddr_in *)where)->sin_port;
    snprintf(out, 80, v6 ? "[%s]:%u" : "%s:%u", host, ntohs(port));
}

/* The system lets a socket join a port only if all on it have SO_REUSEPORT; setting it after the first has bound keeps that
 * first bind honest. */
static int socket_bind(const struct sockaddr_storage *address, socklen_t len, bool joins)
{
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    const int on = 1;
    bool fine = setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
                setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0;
    if (joins) fine = fine && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0;
    fine = fine && bind(fd, (const struct sockaddr *)address, len) == 0;
    if (!joins) fine = fine && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0;
    if (fine) return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

enum fault listener_open(const char *option, const char *address, uint32_t count, int *fds, char bound[80])
{
    struct sockaddr_storage where;
    socklen_t len;
    if (!where_parse(address, &where, &len)) {
        log_error("gateway", "%s = %s is not ADDR:PORT with a numeric address; write for example 127.0.0.1:20080", option,
                  address);
        return FAULT_CONFIG;
    }
    for (uint32_t i = 0; i < count; i++) {
        fds[i] = socket_bind(&where, len, i > 0);
        if (fds[i] < 0) {
            enum fault fault = errno == EADDRINUSE ? FAULT_IN_USE : FAULT_CONFIG;
            log_error("gateway", "cannot listen on %s: %s; choose another address with --%s", address, strerror(errno),
                      option);
            while (i-- > 0) close(fds[i]);
            return fault;
        }
        if (i == 0 && getsockname(fds[0], (struct sockaddr *)&where, &len) != 0) return FAULT_CONFIG;
    }
    where_print(&where, bound);
    return FAULT_NONE;
}
