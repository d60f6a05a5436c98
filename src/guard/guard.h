/* guard: who may reach the gate. An ordered list of cheap checks, all in memory; each is a row with its answer and its
 * metric.
 *
 * guard_enter() is called once for a request that a row of the route table gives a class to, after it is known who asks;
 * guard_leave() once when it is answered. Any reactor thread; no lock, no allocation, no clock of its own. */
#ifndef STAMPEDE_GUARD_GUARD_H
#define STAMPEDE_GUARD_GUARD_H

#include "guard/allowance.h"
#include "guard/blocks.h"
#include "guard/breaker.h"
#include "guard/logins.h"
#include "guard/peers.h"
#include "guard/proxies.h"
#include "guard/shed.h"
#include "wire/problem.h"

struct guard_options {
    struct slice proxies; /* addresses and networks whose X-Forwarded-For counts, separated by commas */
    struct slice limits;  /* name=value of allowance_rows, separated by commas; the rest keeps its default */
    uint32_t connections_max;
    uint64_t memory_bytes_max;
    struct breaker_numbers breaker;
};

struct guard {
    struct networks proxies;
    struct allowance *allowance;
    struct logins *logins;
    struct peers *peers;
    struct breaker breakers[RATE_CLASSES];
    struct shed shed;
};

/* FAULT_CONFIG: mistake is a sentence that names the option. */
enum fault guard_open(struct guard **out, const struct guard_options *options, char mistake[256]) MUST_USE;
void guard_close(struct guard *guard);
/* New limits as the option has them; what is wrong with them is in mistake and changes nothing. Main thread. */
bool guard_set_limits(struct guard *guard, struct slice limits, char mistake[256]);
/* New limits as a whole, valid. */
void guard_change_limits(struct guard *guard, const struct allowance_terms *terms);

/* A request on its way through. */
struct guard_visit {
    enum rate_class class;
    struct blocks_reader *blocks; /* of this thread */
    struct address client;
    struct slice user; /* empty: nobody is logged in */
    uint64_t entered_ns;
    bool inside; /* guard_leave() is owed */
    struct breaker_pass pass;
    struct allowance_answer allowance; /* what is left, for the RateLimit headers */
};

/* PROBLEM_NONE: go on. Else *retry_s is when to come again, 0 where coming again is of no use. */
enum problem guard_enter(struct guard *guard, struct guard_visit *visit, uint32_t *retry_s);
/* status: of the answer; 0 when nobody was there to read it. */
void guard_leave(struct guard *guard, struct guard_visit *visit, int status, uint64_t now_ns);

/* Whether the visitor has come to be on the block list meanwhile. */
bool guard_is_blocked(const struct guard_visit *visit);

/* The name of check n for the metrics, NULL beyond the last. */
const char *guard_check_name(uint32_t n);

#endif
