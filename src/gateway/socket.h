/* socket: what we ask of the system beside libuv, so that nobody is lost when the server stops.
 *
 * Closing a listener resets those who wait at it to be taken, and closing a connection resets whoever has just written to
 * it. Both may have sent a request by then, which no balancer can send to another server: it might have been done. */
#ifndef STAMPEDE_GATEWAY_SOCKET_H
#define STAMPEDE_GATEWAY_SOCKET_H

#include <stdbool.h>
#include <uv.h>

/* Lets no new connection begin at a listener; those that have begun are completed and can be taken. The system of whoever
 * comes now tries again after a second, and meets a closed port. Where ours will not, nothing changes. */
void socket_hush(const uv_tcp_t *listener);
/* Whether there are connections at a listener that have not been taken. */
bool socket_has_peers(const uv_tcp_t *listener);
/* Whether the peer has sent what has not been read. */
bool socket_has_bytes(const uv_tcp_t *tcp);

#endif
