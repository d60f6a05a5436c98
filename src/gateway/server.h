/* server: the gateway as a whole: listening sockets, reactors, the query crew.
 *
 * Open binds, so that a taken port is an error before anything is promised; start begins to answer; drain lets what is under
 * way end. Called from the main thread only. */
#ifndef STAMPEDE_GATEWAY_SERVER_H
#define STAMPEDE_GATEWAY_SERVER_H

#include "base/crew.h"
#include "base/fault.h"
#include "clerk/clerk.h"
#include "gate/gate.h"
#include "gateway/routes.h"
#include "guard/admission.h"
#include "guard/guard.h"
#include "guard/line.h"
#include "people/people.h"

#include <openssl/types.h>
#include <stdatomic.h>

struct blocks;
struct counts;
struct payment_keys;
struct courier;
struct publisher;
struct reactor;
struct resp_accounts;

/* The rooms a request may reach. */
struct rooms {
    struct gate *gate;
    struct people *people;
    struct clerk *clerk;
    struct guard *guard;
    struct lines *lines;
    struct blocks *blocks;
    struct payment_keys *payment_keys;
    struct courier *courier;
    struct publisher *publisher; /* NULL: nothing is published */
    struct resp_accounts *resp_accounts;
    struct crew *lists;                  /* the gateway's own: pages of the ledger, which may wait for the clerk */
    struct crew *lookups;                /* the gateway's own: single rows, which never wait */
    struct crew *writes;                 /* the gateway's own: rows that are no decisions, written to the ledger */
    struct admission_counts *admissions; /* the gateway's own: grabs past the guard, by sale */
    struct counts *counts;               /* the gateway's own: how grabs were answered */
    uint64_t counts_since_ms;
};

/* Where questions are asked; what they point to outlives the server. */
struct query_places {
    const struct ledger_place *ledger;
    const struct ledger_place *replica; /* for those that may read there; NULL: none */
};

struct server_options {
    const char *http;               /* ADDR:PORT, port 0 picks a free one */
    const char *resp;               /* the same for the Redis protocol; "off": none */
    const char *tls_cert, *tls_key; /* empty: no TLS */
    struct query_places places;
    uint32_t reactors;
    uint32_t connections_max;
    uint32_t query_threads;
    uint32_t drain_ms_max;
    uint32_t token_purchase_ttl_s;
    uint32_t payment_tolerance_s;
    bool demo_payments; /* buyers may play the payment provider */
    bool seckill;       /* the ticket door is open */
    struct route_tables doors;
};

struct server {
    struct server_options options;
    struct rooms rooms;
    struct reactor *reactors[REACTORS_MAX];
    uint32_t reactor_count;
    _Atomic(SSL_CTX *) tls; /* NULL: no TLS */
    SSL_CTX *tls_before;    /* of the last reload: a reactor may still be taking it up */
    char address[80];       /* HOST:PORT as bound */
    char resp_address[80];  /* empty: off */
    uint64_t started_ms;    /* mono_ms() */
    _Atomic bool draining;
    _Atomic uint64_t luck_sale; /* the sale that /luck means; 0: none */
    _Atomic uint32_t connections, refusals;
    _Atomic uint64_t resp_peers; /* ever */
    uint64_t give_back_ms;       /* reactor 0's: not before then again */
    uint64_t report_ms;          /* the same for what other nodes are told */
    uint64_t mark_seq, mark_ms;  /* of whoever weighs: a decision, and when it was the last one */
    uint32_t refusals_max;       /* connections that are turned away and hear why, beside connections_max, at once */
};

enum fault server_open(struct server **out, const struct server_options *options, const struct rooms *rooms) MUST_USE;
enum fault server_start(struct server *server) MUST_USE;
/* Any reactor's, at every tick: how far behind everything is, for shedding. */
void server_weigh(struct server *server);
/* Warns of every sale whose line is declared by a name that the configuration does not have (any more). */
void server_check_lines(struct server *server);
/* The first reactor's, at every tick. */
void server_housekeep(struct server *server);
/* Reads certificate and key again, for new connections; what is wrong with them is logged and changes nothing. */
void server_reload_tls(struct server *server);
/* Says that it is about to stop, and with each answer that its connection ends. How long this is to go on before it is
 * drained: where a proxy has been heard lately for half of drain_ms_max, HTTP_LEAVE_MS_MAX at most, so that whatever proxies
 * send until they have noticed is answered; else not at all. */
uint32_t server_take_leave(struct server *server);
/* Stops accepting, answers what is under way, at most for what is left of drain_ms_max; joins the reactors. */
void server_drain(struct server *server);
void server_close(struct server *server);

#endif
