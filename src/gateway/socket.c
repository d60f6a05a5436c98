#include "gateway/socket.h"

#include <linux/filter.h>
#include <poll.h>
#include <sys/socket.h>

/* Where the flags of TCP stand in its header, which is where the system lets a filter of a TCP socket begin. */
#define FLAGS_AT 13
#define FLAG_SYN 0x02
#define FLAG_ACK 0x10
#define WHOLE UINT32_MAX

void socket_hush(const uv_tcp_t *listener)
{
    static struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, FLAGS_AT),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, FLAG_SYN | FLAG_ACK),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FLAG_SYN, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 0),
        BPF_STMT(BPF_RET | BPF_K, WHOLE),
    };
    const struct sock_fprog no_syn = { .len = sizeof steps / sizeof *steps, .filter = steps };
    uv_os_fd_t fd;
    if (uv_fileno((const uv_handle_t *)listener, &fd) != 0) return;
    (void)setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &no_syn, sizeof no_syn);
}

bool socket_has_peers(const uv_tcp_t *listener)
{
    struct pollfd look = { .events = POLLIN };
    return uv_fileno((const uv_handle_t *)listener, &look.fd) == 0 && poll(&look, 1, 0) > 0;
}

bool socket_has_bytes(const uv_tcp_t *tcp)
{
    char byte;
    uv_os_fd_t fd;
    return uv_fileno((const uv_handle_t *)tcp, &fd) == 0 && recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}
