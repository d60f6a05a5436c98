#include "gateway/listener.h"

#include "base/log.h"
#include "base/text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ADDR:PORT to a socket address; names are not looked up: an address that depends on a resolver is a surprise at start. */
static bool address_parse(const char *text, struct sockaddr_storage *out, socklen_t *len)
{
    const char *colon = strrchr(text, ':');
    uint64_t port;
    if (colon == NULL || !text_to_u64(slice_of(colon + 1), &port) || port > 65535) return false;
    char host[64];
    size_t host_len = (size_t)(colon - text);
    if (host_len >= sizeof host) return false;
    memcpy(host, text, host_len);
    host[host_len] = '\0';

    memset(out, 0, sizeof *out);
    struct sockaddr_in *v4 = (struct sockaddr_in *)out;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
    if (host_len > 2 && host[0] == '[' && host[host_len - 1] == ']') {
        host[host_len - 1] = '\0';
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons((uint16_t)port);
        *len = sizeof *v6;
        return inet_pton(AF_INET6, host + 1, &v6->sin6_addr) == 1;
    }
    v4->sin_family = AF_INET;
    v4->sin_port = htons((uint16_t)port);
    *len = sizeof *v4;
    return inet_pton(AF_INET, host, &v4->sin_addr) == 1;
}

static void address_print(const struct sockaddr_storage *address, char out[80])
{
    char host[INET6_ADDRSTRLEN];
    if (address->ss_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
        inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host);
        snprintf(out, 80, "[%s]:%u", host, ntohs(v6->sin6_port));
    } else {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
        inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host);
        snprintf(out, 80, "%s:%u", host, ntohs(v4->sin_port));
    }
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

enum fault listener_open(const char *address, uint32_t count, int *fds, char bound[80])
{
    struct sockaddr_storage where;
    socklen_t len;
    if (!address_parse(address, &where, &len)) {
        log_error("gateway", "http = %s is not ADDR:PORT with a numeric address; write for example 127.0.0.1:20080",
                  address);
        return FAULT_CONFIG;
    }
    for (uint32_t i = 0; i < count; i++) {
        fds[i] = socket_bind(&where, len, i > 0);
        if (fds[i] < 0) {
            enum fault fault = errno == EADDRINUSE ? FAULT_IN_USE : FAULT_CONFIG;
            log_error("gateway", "cannot listen on %s: %s; choose another address with --http", address, strerror(errno));
            while (i-- > 0) close(fds[i]);
            return fault;
        }
        if (i == 0 && getsockname(fds[0], (struct sockaddr *)&where, &len) != 0) return FAULT_CONFIG;
    }
    address_print(&where, bound);
    return FAULT_NONE;
}
