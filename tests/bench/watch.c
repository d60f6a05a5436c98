/* watch: many connections that watch one sale, and read all they get.
 *
 *   watch PORT SALE TOKEN COUNT
 *
 * Prints "ready" when each has had its first event. Ended by SIGTERM, it prints how many events came and how many
 * connections were cut off. It is a program of its own, and short of work, because whoever watches a real sale does so on a
 * machine of their own. */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_BYTES 65536
#define READY_AT_ONCE 64

struct watcher {
    int fd;
    bool heard;
};

static volatile sig_atomic_t ended;

static void on_end(int signal_no)
{
    (void)signal_no;
    ended = 1;
}

static int watcher_open(uint16_t port, const char *request)
{
    const struct sockaddr_in to = { .sin_family = AF_INET,
                                    .sin_port = htons(port),
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&to, sizeof to) != 0 ||
        write(fd, request, strlen(request)) != (ssize_t)strlen(request)) {
        perror("watch: cannot connect");
        exit(1);
    }
    return fd;
}

static uint64_t events_in(const char *text, size_t len)
{
    static const char begin[] = "data: ";
    uint64_t count = 0;
    for (const char *at = text; (at = memmem(at, len - (size_t)(at - text), begin, sizeof begin - 1)) != NULL; at++) count++;
    return count;
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "write: watch PORT SALE TOKEN COUNT\n");
        return 2;
    }
    uint64_t count = strtoull(argv[4], NULL, 10), events = 0, lost = 0, heard = 0;
    struct watcher *watchers = calloc(count, sizeof *watchers);
    if (watchers == NULL) return 1;
    char request[4096];
    snprintf(request, sizeof request,
             "GET /v1/sales/%s/live HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", argv[2], argv[3]);
    sigaction(SIGTERM, &(struct sigaction){ .sa_handler = on_end }, NULL);
    int ears = epoll_create1(0);
    for (uint64_t i = 0; i < count; i++) {
        watchers[i].fd = watcher_open((uint16_t)strtoul(argv[1], NULL, 10), request);
        struct epoll_event wanted = { .events = EPOLLIN, .data.ptr = &watchers[i] };
        if (epoll_ctl(ears, EPOLL_CTL_ADD, watchers[i].fd, &wanted) != 0) {
            perror("watch");
            return 1;
        }
    }
    while (!ended) {
        static char text[READ_BYTES];
        struct epoll_event ready[READY_AT_ONCE];
        int ready_count = epoll_wait(ears, ready, READY_AT_ONCE, 200);
        for (int i = 0; i < ready_count; i++) {
            struct watcher *watcher = ready[i].data.ptr;
            ssize_t got = read(watcher->fd, text, sizeof text);
            uint64_t more = got > 0 ? events_in(text, (size_t)got) : 0;
            events += more;
            if (got <= 0) {
                lost++;
                close(watcher->fd);
            } else if (more > 0 && !watcher->heard) {
                watcher->heard = true;
                if (++heard == count) puts("ready");
                fflush(stdout);
            }
        }
        if (lost > 0 && heard < count) break;
    }
    printf("%" PRIu64 " %" PRIu64 "\n", events, lost);
    return 0;
}
