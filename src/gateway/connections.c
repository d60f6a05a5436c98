/* All connections of a reactor: which have been too long in their state, which goes when there is no room. */
#include "base/metrics.h"
#include "gateway/connection.h"
#include "gateway/live.h"
#include "gateway/socket.h"

/* Of a server that stops: how long one that a proxy has just opened may be silent. */
#define FRESH_MS 1000

/* What each state may take, and what is said when it took longer. */
static const struct {
    uint64_t ms_max;
    enum problem problem;
} patience[CONNECTION_STATES] = {
    [CONNECTION_IDLE] = { HTTP_IDLE_WAIT_MS_MAX, PROBLEM_NONE },
    [CONNECTION_HEAD] = { HTTP_HEAD_WAIT_MS_MAX, PROBLEM_REQUEST_TIMEOUT },
    [CONNECTION_BODY] = { HTTP_BODY_WAIT_MS_MAX, PROBLEM_REQUEST_TIMEOUT },
    [CONNECTION_WRITING] = { CONNECTION_WRITE_MS, PROBLEM_NONE },
    [CONNECTION_LINGERING] = { CONNECTION_LINGER_MS, PROBLEM_NONE },
};

void connections_expire(struct reactor *reactor)
{
    uint64_t now_ms = uv_now(&reactor->loop);
    for (enum connection_state state = 0; state < CONNECTION_STATES; state++) {
        if (patience[state].ms_max == 0) continue;
        struct connection *c;
        while ((c = reactor->lists[state].first) != NULL && now_ms - c->since_ms >= patience[state].ms_max) {
            if (state != CONNECTION_LINGERING && state != CONNECTION_IDLE) metrics_add(METRIC_TIMEOUTS, 1);
            if (patience[state].problem == PROBLEM_NONE) {
                connection_close(c);
            } else {
                connection_give_up(c, patience[state].problem);
            }
        }
    }
}

/* No descriptor was left to accept with, and the peer is still at the door: without this the loop would turn without rest.
 */
void connections_make_way(struct reactor *reactor)
{
    static const enum connection_state victims[] = { CONNECTION_LINGERING, CONNECTION_IDLE, CONNECTION_WATCHING,
                                                     CONNECTION_HEAD, CONNECTION_BODY };
    metrics_add(METRIC_CONNECTIONS_REFUSED, 1);
    for (size_t i = 0; i < sizeof victims / sizeof *victims; i++) {
        struct connection *oldest = reactor->lists[victims[i]].first;
        if (oldest == NULL) continue;
        connection_close(oldest);
        return;
    }
    uv_sleep(1);
}

/* A proxy has opened it for a request, which is on its way. */
static bool is_fresh(const struct connection *c)
{
    return c->proxied && uv_now(&c->reactor->loop) - c->since_ms < FRESH_MS;
}

void connections_close_idle(struct reactor *reactor)
{
    live_drain(reactor);
    for (struct connection *c = reactor->lists[CONNECTION_IDLE].first, *after; c != NULL; c = after) {
        after = c->after;
        if (!is_fresh(c) && !socket_has_bytes(&c->tcp)) connection_close(c);
    }
}
