/* guard: who may reach the gate. An ordered list of cheap checks, all in memory; each is a row of one table (guard.c) with
 * its name, its answer, its metric and its log line.
 *
 * A request meets them in two parts. guard_arrive() is called before anything else is done for it, as soon as its route is
 * known: what is refused later, for a forged login or for bad input, has been paid for by its address. guard_enter() is
 * called once it is known who asks, guard_leave() when it is answered. The checks that stand elsewhere, because only a
 * connection, a login or a sale can tell, report to guard_refused(). Any reactor thread; no lock, no allocation, no clock of
 * its own. */
#ifndef STAMPEDE_GUARD_GUARD_H
#define STAMPEDE_GUARD_GUARD_H

#include "guard/allowance.h"
#include "guard/blocks.h"
#include "guard/breaker.h"
#include "guard/logins.h"
#include "guard/peers.h"
#include "guard/proxies.h"
#include "guard/recall.h"
#include "guard/shed.h"
#include "wire/problem.h"

#include <pthread.h>
#include <stdatomic.h>

/* In the order in which a request meets them, which is part of the API: a buyer hears only of the first that refuses. */
enum guard_check {
    GUARD_CONNECTIONS, /* connections_per_ip */
    GUARD_BLOCKED_ADDRESS,
    GUARD_RATE_IP,
    GUARD_RATE_GLOBAL,
    GUARD_BLOCKED_USER,
    GUARD_RATE_USER,
    GUARD_SHED,
    GUARD_BREAKER,
    GUARD_LOGIN, /* too many tries */
    GUARD_TOKEN, /* a purchase token is missing or no good */
    GUARD_ADMIT, /* admit_max */
    GUARD_LINE,  /* full, waited too long, or told while waiting that nothing is left */
    GUARD_CHECKS,
};

struct guard_options {
    struct networks proxies; /* whose X-Forwarded-For counts */
    struct limit_terms limits;
    uint32_t connections_max;
    uint64_t memory_bytes_max;
    struct breaker_numbers breaker;
};

struct guard {
    struct networks proxies;
    struct allowance *allowance;
    struct exchange *exchange; /* NULL: limits are of this process alone */
    struct logins *logins;
    struct peers *peers;
    struct breaker breakers[RATE_CLASSES];
    struct shed shed;
    uint32_t connections_held;             /* that the server can hold at once */
    pthread_mutex_t limits_lock;           /* of changes: each builds upon the one before */
    _Atomic uint64_t said_s[GUARD_CHECKS]; /* when each check last had a line in the log, and 1 */
};

enum fault guard_open(struct guard **out, const struct guard_options *options) MUST_USE;
/* What one user and one address may send, and tries to log in, are shared with other nodes from here on; before the first
 * request. The allowance and the logins of the options are filled in; the secret is that of all nodes. */
struct exchange_options;
enum fault guard_share(struct guard *guard, const struct exchange_options *options, const uint8_t secret[16]) MUST_USE;
struct guard_sharing {
    bool shared;           /* else the rest means nothing */
    bool answers;          /* Redis does, in time; else the limits of this node alone hold */
    uint64_t told, untold; /* times that a user, an address or a login was told to the others, or could not be */
};
void guard_sharing(const struct guard *guard, struct guard_sharing *out); /* any thread */
void guard_close(struct guard *guard);
/* Takes those rows of terms whose bits are set in given, each valid; the others stay as they are, also where several change
 * limits at once. *now is what counts then. Any thread. */
#define LIMITS_ALL ((UINT32_C(1) << LIMIT_ROWS) - 1)
void guard_change_limits(struct guard *guard, const struct limit_terms *terms, uint32_t given, struct limit_terms *now);

/* Once the server knows how many connections it can hold, which may be fewer than connections_max: no address has more than
 * half of them, whatever connections_per_ip says, unless that is 0. */
void guard_hold(struct guard *guard, uint32_t connections_held);

/* A request on its way through. */
struct guard_visit {
    enum rate_class class;        /* RATE_CLASSES: only the block list is asked */
    struct blocks_reader *blocks; /* of this thread */
    struct address client;
    struct slice user;         /* empty: nobody is logged in, or it is not known yet */
    uint64_t user_hash;        /* for the block list */
    const char *method, *path; /* for the log: of the route, not of the request */
    uint64_t entered_ns;
    bool heartbeat; /* of one who waits in line: passes an open breaker, and is not judged */
    bool inside;    /* guard_leave() is owed */
    struct breaker_pass pass;
    struct recall *recall;   /* of this thread */
    struct slice login;      /* as it was given; empty: none, or the route takes no notice of it */
    uint64_t limits_version; /* at the arrival */
    struct allowance_ask ask;
    struct allowance_answer allowance; /* what is left, for the RateLimit headers */
};

/* A connection from this address; before a byte of it is read. False: it has as many as it may. A proxy has many clients and
 * is not counted. *counted: peers_leave() is owed. */
bool guard_greet(struct guard *guard, const struct address *peer, uint64_t now_ns, bool *counted);
/* The checks of an address: whether it is blocked, its rate and that of everyone. Sets the visit up for guard_enter().
 * Answers as that does. */
enum problem guard_arrive(struct guard *guard, struct guard_visit *visit, uint32_t *retry_s);
/* Between the two: refuses one whose login was refused for its user's rate a moment ago, before it is verified again. */
enum problem guard_recall(struct guard *guard, struct guard_visit *visit, uint32_t *retry_s);
/* It is known who asks, by a name that stays; guard_enter() follows. Memory is asked for what that will read: in a large
 * crowd no two users have anything of it in common, so it is in no cache, and is waited for once instead of at each check.
 */
void guard_know(struct guard *guard, struct guard_visit *visit, struct slice user);
/* PROBLEM_NONE: go on. Else *retry_s is when to come again, 0 where coming again is of no use. */
enum problem guard_enter(struct guard *guard, struct guard_visit *visit, uint32_t *retry_s);
/* status: of the answer; 0 when nobody was there to read it. */
void guard_leave(struct guard *guard, struct guard_visit *visit, int status, uint64_t now_ns);

/* One who left to wait on purpose (guard_leave() with status 0) goes on; entered_ns is now. Whoever has waited is not
 * refused any more: where the breaker lets it in it is judged from now on, else not at all. */
void guard_return(struct guard *guard, struct guard_visit *visit);

/* Whether the visitor has come to be on the block list meanwhile; that is counted. */
bool guard_is_blocked(struct guard *guard, const struct guard_visit *visit);
/* A check refused: counts it and says so in the log, every time at level debug, else once in a while. Of the visit only
 * client, user, method, path and entered_ns are read. */
void guard_refused(struct guard *guard, enum guard_check check, const struct guard_visit *visit);

/* The name of check n for the metrics, NULL beyond the last. */
const char *guard_check_name(uint32_t n);

#endif
