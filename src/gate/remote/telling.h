/* telling: sales, orders and errands as the arguments of scripts. Whoever tells the gate something tells it in these words,
 * on whatever thread: an errand that two nodes tell is told once because both give it the same id or version.
 *
 * A telling copies what it is given into the caller's memory; the slices point there. */
#ifndef STAMPEDE_GATE_REMOTE_TELLING_H
#define STAMPEDE_GATE_REMOTE_TELLING_H

#include "gate/scripts.h"
#include "ledger/shared.h"
#include "redis/redis.h"

struct telling {
    struct slice *argv; /* as a script takes them after the epoch */
    uint32_t argc, argc_max;
    char *text;
    size_t used, size;
};
void telling_init(struct telling *telling, struct slice *argv, uint32_t argc_max, char *text, size_t size);
void telling_text(struct telling *telling, struct slice text);
void telling_number(struct telling *telling, uint64_t number);
void telling_signed(struct telling *telling, int64_t number);

/* "load begin". t_ms: the time of the last decision, as far as anybody knows; 0: nobody does. */
struct telling_load {
    const struct ledger_shelved *sale;
    uint64_t t_ms;
    uint32_t log_max;
};
#define TELLING_LOAD_ARGS 21
void telling_load_begin(struct telling *telling, const struct telling_load *load);
/* One item of "load chunk". */
#define TELLING_ORDER_ARGS 11
#define TELLING_TOKEN_ARGS 3
#define TELLING_ITEM_BYTES 512
void telling_order(struct telling *telling, const struct ledger_order *order);
void telling_token(struct telling *telling, const struct ledger_token *token);

/* An errand needs its order or its sale as the ledger has it by now. */
struct errand_facts {
    bool found; /* false: the ledger has neither; there is nothing to tell */
    struct ledger_order order;
    struct ledger_shelved sale;
};
enum fault errand_facts_read(struct ledger *ledger, const struct ledger_errand *errand, struct errand_facts *out) MUST_USE;

/* The name under which an errand is known to the scripts: the same on every node. */
void telling_errand_name(struct telling *telling, uint64_t errand_id);
/* The script that does an errand, and its arguments; to be run with the errand's epoch. Ends of holds come in crowds and are
 * told together (keeper/errand.c). */
#define ERRAND_ARGS_MAX 16
#define ERRAND_TEXT_BYTES 1024
enum gate_script_name errand_tell(const struct ledger_errand *errand, const struct errand_facts *facts,
                                  struct telling *telling);

/* What the answer means for an errand. */
enum errand_end {
    ERRAND_DONE,  /* the gate has it, or was built from a ledger that had it: ledger_errands_done() */
    ERRAND_LATER, /* the gate is not there, is being built, or is of another server: again, once the keeper has seen to it */
    ERRAND_EARLY, /* the gate has not heard of what came before: again, once it was told of that */
    ERRAND_OPPOSED, /* the gate has something else than the ledger: it is to be built anew */
};
enum errand_end errand_judge(const struct ledger_errand *errand, const struct errand_facts *facts,
                             const struct redis_reply *reply);

#endif
