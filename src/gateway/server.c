#include "gateway/server.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "bounds.h"
#include "courier/courier.h"
#include "gateway/counts.h"
#include "gateway/listener.h"
#include "gateway/query.h"
#include "gateway/reactor.h"
#include "gateway/resources.h"
#include "gateway/tls.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>
#include <time.h>

/* Descriptors for journal, clerk, passwords, logs and what writes to the ledger, for each event loop, and for each reader of
 * the ledger. The courier takes three for each of its messages under way, and a sixteenth of all at most. */
#define DESCRIPTORS_OWN 40
#define DESCRIPTORS_OF_COURIER (3 * COURIER_IN_FLIGHT_MAX)
#define DESCRIPTORS_SHARE_OF_COURIER 16
#define DESCRIPTORS_A_REACTOR 9
#define DESCRIPTORS_A_READER 4
/* Peers above the limit that may hear 503 at a time; the rest are closed without a word. */
#define REFUSALS_MAX 64
/* How often memory is given back while it is short. */
#define MEMORY_PAUSE_MS 1000

/* As many connections as there can be descriptors: running out of them is met at our own limit, with an answer. */
static enum fault connections_plan(struct server *server)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return FAULT_CONFIG;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0) return FAULT_CONFIG;
    uint64_t own = DESCRIPTORS_OWN + DESCRIPTORS_A_REACTOR * (uint64_t)server->options.reactors +
                   DESCRIPTORS_A_READER * (uint64_t)server->options.query_threads + limit.rlim_cur / 32;
    uint64_t couriers = limit.rlim_cur / DESCRIPTORS_SHARE_OF_COURIER;
    own += couriers < DESCRIPTORS_OF_COURIER ? couriers : DESCRIPTORS_OF_COURIER;
    if (limit.rlim_cur < own + 16) {
        log_error("gateway", "%llu file descriptors are too few: %llu are needed beside connections (raise ulimit -n)",
                  (unsigned long long)limit.rlim_cur, (unsigned long long)own);
        return FAULT_CONFIG;
    }
    uint64_t left = limit.rlim_cur - own;
    server->refusals_max = left / 8 < REFUSALS_MAX ? (uint32_t)(left / 8) : REFUSALS_MAX;
    left -= server->refusals_max;
    if (server->options.connections_max <= left) return FAULT_NONE;
    log_info("gateway", "connections_max %u is more than %llu file descriptors allow: holding at most %llu (ulimit -n)",
             server->options.connections_max, (unsigned long long)limit.rlim_cur, (unsigned long long)left);
    server->options.connections_max = (uint32_t)left;
    return FAULT_NONE;
}

static enum fault server_listen(struct server *server)
{
    int fds[REACTORS_MAX], resp_fds[REACTORS_MAX];
    uint32_t reactors = server->options.reactors;
    bool resp_off = strcmp(server->options.resp, "off") == 0;
    for (uint32_t i = 0; i < reactors; i++) resp_fds[i] = -1;
    enum fault fault = listener_open("http", server->options.http, reactors, fds, server->address);
    if (fault == FAULT_NONE && !resp_off)
        fault = listener_open("resp", server->options.resp, reactors, resp_fds, server->resp_address);
    for (uint32_t i = 0; fault == FAULT_NONE && i < reactors; i++) {
        fault = reactor_open(&server->reactors[i], server, fds[i], resp_fds[i]);
        if (fault == FAULT_NONE) server->reactor_count++;
    }
    return fault;
}

enum fault server_open(struct server **out, const struct server_options *options, const struct rooms *rooms)
{
    struct server *server = calloc(1, sizeof *server);
    if (server == NULL) return FAULT_MEMORY;
    server->options = *options;
    server->rooms = *rooms;
    server->started_ms = mono_ms();
    enum fault fault = connections_plan(server);
    if (fault == FAULT_NONE) guard_hold(rooms->guard, server->options.connections_max);
    SSL_CTX *tls = NULL;
    if (fault == FAULT_NONE && options->tls_cert[0] != '\0')
        fault = tls_context_open(&tls, options->tls_cert, options->tls_key);
    atomic_init(&server->tls, tls);
    if (fault == FAULT_NONE) fault = admission_open(&server->rooms.admissions);
    if (fault == FAULT_NONE) fault = counts_open(&server->rooms.counts, options->reactors);
    server->rooms.counts_since_ms = gate_now_ms(rooms->gate);
    if (fault == FAULT_NONE)
        fault = queries_open(&server->rooms.lists, "list", &server->options.places, options->query_threads);
    if (fault == FAULT_NONE) fault = queries_open(&server->rooms.lookups, "lookup", &server->options.places, 1);
    if (fault == FAULT_NONE) fault = writes_open(&server->rooms.writes, &server->options.places);
    if (fault == FAULT_NONE) fault = server_listen(server);
    if (fault != FAULT_NONE) {
        server_close(server);
        return fault;
    }
    *out = server;
    return FAULT_NONE;
}

/* A gate that is elsewhere has been reached once before; now every reactor finds its way there. Where one does not, the
 * server is there all the same, and says that it is not ready. */
static void gate_reach(struct gate *gate)
{
    enum { REACH_MS = 3000 };
    struct gate_status status;
    uint64_t until_ms = mono_ms() + REACH_MS;
    for (gate_status(gate, &status); status.shared && !status.redis_up && mono_ms() < until_ms; gate_status(gate, &status))
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

enum fault server_start(struct server *server)
{
    for (uint32_t i = 0; i < server->reactor_count; i++) {
        enum fault fault = reactor_start(server->reactors[i]);
        if (fault == FAULT_NONE) continue;
        log_error("gateway", "cannot begin to listen on %s", server->address);
        for (uint32_t k = 0; k < i; k++) reactor_stop(server->reactors[k]);
        for (uint32_t k = 0; k < i; k++) reactor_join(server->reactors[k]);
        return fault;
    }
    gate_reach(server->rooms.gate);
    return FAULT_NONE;
}

/* Those parked on purpose are not under way. */
static uint64_t requests_under_way(struct server *server)
{
    struct lines_status lines;
    uint64_t requests = 0;
    lines_status(server->rooms.lines, &lines);
    for (uint32_t i = 0; i < server->reactor_count; i++) requests += atomic_load(&server->reactors[i]->requests);
    return requests > lines.parked ? requests - lines.parked : 0;
}

/* Time since the oldest decision that may not be durable yet was the newest. */
static uint64_t commit_age_ms(struct server *server, const struct gate_status *gate, uint64_t now_ms)
{
    if (gate->seq_durable >= server->mark_seq) {
        server->mark_seq = gate->seq_decided;
        server->mark_ms = now_ms;
    }
    return gate->seq_durable >= gate->seq_decided ? 0 : now_ms - server->mark_ms;
}

void server_weigh(struct server *server)
{
    uint64_t now_ms = mono_ms();
    struct guard *guard = server->rooms.guard;
    if (!shed_turn(&guard->shed, now_ms)) return;
    struct gate_status gate;
    struct clerk_status clerk;
    gate_status(server->rooms.gate, &gate);
    clerk_status(server->rooms.clerk, &clerk);
    const struct shed_load load = {
        .commit_lag = gate.seq_decided - gate.seq_durable,
        .commit_age_ms = commit_age_ms(server, &gate, now_ms),
        .clerk_lag = gate.seq_durable > clerk.seq_filed ? gate.seq_durable - clerk.seq_filed : 0,
        .requests = requests_under_way(server),
        .memory_bytes = memory_resident(),
    };
    shed_weigh(&guard->shed, &load, now_ms);
}

/* A sale ends by its time without a word from anybody, and stock may go in ways that no grab sees: who waits is told at the
 * next tick, all at once. */
static void lines_look(struct server *server)
{
    uint64_t sale_ids[LINES_MAX];
    struct gate *gate = server->rooms.gate;
    struct lines *lines = server->rooms.lines;
    uint32_t count = lines_busy(lines, sale_ids);
    uint64_t now_ms = count > 0 ? gate_now_ms(gate) : 0;
    for (uint32_t i = 0; i < count; i++) {
        struct board_notice notice;
        bool known = gate_sale_notice(gate, sale_ids[i], &notice);
        bool over = !known || notice.closed || notice.paused || (notice.closes_ms != 0 && now_ms >= notice.closes_ms);
        if (over) {
            line_closed(lines, sale_ids[i]);
        } else if (notice.available == 0) {
            line_sold_out(lines, sale_ids[i]);
        }
    }
}

static void line_check(const struct sale *sale, void *arg)
{
    struct server *server = arg;
    struct line_terms terms;
    if (sale->terms.admission != ADMISSION_LINE || sale_is_closed(sale, gate_now_ms(server->rooms.gate))) return;
    if (sale_line(&server->rooms, sale, &terms)) return;
    log_warn("gateway",
             "sale %llu of %s wants line %s, which is not declared: its buyers are told BUSY; declare line.%s.rate and send "
             "SIGHUP, or PATCH the sale's line",
             (unsigned long long)sale->id, sale->seller, sale->terms.line_name, sale->terms.line_name);
}

void server_check_lines(struct server *server)
{
    gate_sales_each(server->rooms.gate, line_check, server);
}

/* What the allocator keeps of a crowd that has gone would keep the next one out. */
static void memory_look(struct server *server)
{
    uint64_t now_ms = mono_ms();
    if (!shed_memory_short(&server->rooms.guard->shed) || now_ms < server->give_back_ms) return;
    memory_give_back();
    server->give_back_ms = now_ms + MEMORY_PAUSE_MS;
}

void server_housekeep(struct server *server)
{
    lines_look(server);
    memory_look(server);
    nodes_report(server);
    struct clerk_status clerk;
    clerk_status(server->rooms.clerk, &clerk);
    gate_housekeep(server->rooms.gate, clerk.seq_filed);
}

/* Connections hold a reference of their own. The context before stays for one more reload, which no accept outlasts. */
void server_reload_tls(struct server *server)
{
    SSL_CTX *fresh;
    if (server->tls == NULL) return;
    if (tls_context_open(&fresh, server->options.tls_cert, server->options.tls_key) != FAULT_NONE) {
        log_error("tls", "the certificate and its key stay as they were");
        return;
    }
    if (server->tls_before != NULL) tls_context_close(server->tls_before);
    server->tls_before = atomic_exchange(&server->tls, fresh);
}

/* 0: nobody is there who would send elsewhere. A proxy that was silent for so long has no connection to us any more. */
static uint32_t leave_ms(struct server *server)
{
    uint64_t now_ms = uv_hrtime() / 1000000; /* as uv_now() */
    bool proxied = false;
    for (uint32_t i = 0; i < server->reactor_count; i++) {
        uint64_t heard_ms = atomic_load(&server->reactors[i]->proxied_ms);
        proxied = proxied || (heard_ms > 0 && now_ms < heard_ms + HTTP_IDLE_WAIT_MS_MAX);
    }
    uint32_t half_ms = server->options.drain_ms_max / 2;
    return !proxied ? 0 : half_ms < HTTP_LEAVE_MS_MAX ? half_ms : HTTP_LEAVE_MS_MAX;
}

uint32_t server_take_leave(struct server *server)
{
    atomic_store(&server->draining, true);
    uint32_t ms = leave_ms(server);
    server->options.drain_ms_max -= ms;
    return ms;
}

void server_drain(struct server *server)
{
    atomic_store(&server->draining, true);
    for (uint32_t i = 0; i < server->reactor_count; i++) reactor_stop(server->reactors[i]);
    for (uint32_t i = 0; i < server->reactor_count; i++) reactor_join(server->reactors[i]);
}

void server_close(struct server *server)
{
    if (server->rooms.lists != NULL) crew_close(server->rooms.lists);
    if (server->rooms.lookups != NULL) crew_close(server->rooms.lookups);
    if (server->rooms.writes != NULL) crew_close(server->rooms.writes);
    for (uint32_t i = 0; i < server->reactor_count; i++) reactor_close(server->reactors[i]);
    if (server->tls_before != NULL) tls_context_close(server->tls_before);
    if (server->tls != NULL) tls_context_close(server->tls);
    admission_close(server->rooms.admissions);
    counts_close(server->rooms.counts);
    free(server);
}
