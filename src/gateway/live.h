/* live: people who watch a sale, by server-sent events.
 *
 * A watcher is a connection whose answer does not end: one event a second. The event of a sale is rendered once a second on
 * each reactor, and all its watchers there get the same bytes, a few of them at each tick so that no grab waits behind a
 * thousand writes. A watcher who does not read is cut off once LIVE_BEHIND_BYTES_MAX wait for it; one whose login has ended,
 * or who was blocked, within two seconds. On the reactor's thread only. */
#ifndef STAMPEDE_GATEWAY_LIVE_H
#define STAMPEDE_GATEWAY_LIVE_H

#include "base/fault.h"

struct connection;
struct live;
struct reactor;

/* What may wait for a watcher here, beside the event on its way, and what the system is asked to hold for it: a few seconds
 * of events, so that one who does not read is found out soon. */
#define LIVE_BEHIND_BYTES_MAX 2048
#define LIVE_SOCKET_BYTES 2048
/* When a client is to come again that has lost us. */
#define LIVE_RETRY_MS 2000

enum fault live_open(struct live **out) MUST_USE;
void live_close(struct live *live); /* when its connections are closed */
/* Often: sends what is due. */
void live_tick(struct reactor *reactor);
/* Its connection closes. */
void live_leave(struct connection *connection);
/* Tells everyone that the server stops, and ends their streams. */
void live_drain(struct reactor *reactor);

#endif
