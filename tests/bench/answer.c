/* answer: a server that gives every command the same reply and does nothing else: no server can be asked faster.
 *
 *   answer REPLY
 *
 * Prints its port on loopback, and runs until it is ended. A command is a '*' that arrives, so no word may have one. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_BYTES 65536
#define COMMANDS_MAX (READ_BYTES / 16) /* no command that is counted here is shorter */
#define READY_AT_ONCE 64

static void need(bool good, const char *what)
{
    if (good) return;
    perror(what);
    exit(1);
}

static int listen_open(void)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t at_len = sizeof at;
    const int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    need(fd >= 0 && bind(fd, (const struct sockaddr *)&at, sizeof at) == 0 && listen(fd, 1024) == 0 &&
             setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0 &&
             getsockname(fd, (struct sockaddr *)&at, &at_len) == 0,
         "answer: cannot listen");
    printf("%u\n", ntohs(at.sin_port));
    fflush(stdout);
    return fd;
}

/* False: the other side has gone. A reply that does not fit the socket is waited for: nobody asks without reading here. */
static bool serve(int fd, const char *replies, size_t reply_len)
{
    static char bytes[READ_BYTES];
    ssize_t got = read(fd, bytes, sizeof bytes);
    if (got <= 0) return got < 0 && errno == EINTR;
    size_t commands = 0;
    for (ssize_t i = 0; i < got; i++) commands += bytes[i] == '*';
    if (commands > COMMANDS_MAX) commands = COMMANDS_MAX;
    for (size_t sent = 0, len = commands * reply_len; sent < len;) {
        ssize_t put = write(fd, replies + sent, len - sent);
        if (put < 0 && errno != EINTR) return false;
        if (put > 0) sent += (size_t)put;
    }
    return true;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: answer REPLY\n");
        return 2;
    }
    size_t reply_len = strlen(argv[1]);
    char *replies = malloc(COMMANDS_MAX * reply_len + 1);
    need(replies != NULL, "answer: no memory");
    for (size_t i = 0; i < COMMANDS_MAX; i++) memcpy(replies + i * reply_len, argv[1], reply_len);

    int listener = listen_open(), poll = epoll_create1(0);
    struct epoll_event event = { .events = EPOLLIN, .data.fd = listener };
    need(poll >= 0 && epoll_ctl(poll, EPOLL_CTL_ADD, listener, &event) == 0, "answer: cannot poll");
    for (;;) {
        struct epoll_event ready[READY_AT_ONCE];
        int count = epoll_wait(poll, ready, READY_AT_ONCE, -1);
        for (int i = 0; i < count; i++) {
            int fd = ready[i].data.fd;
            if (fd != listener) {
                if (!serve(fd, replies, reply_len)) close(fd);
                continue;
            }
            event.data.fd = accept(listener, NULL, NULL);
            if (event.data.fd >= 0) need(epoll_ctl(poll, EPOLL_CTL_ADD, event.data.fd, &event) == 0, "answer: cannot poll");
        }
    }
}
