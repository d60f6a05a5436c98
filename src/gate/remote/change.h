/* change: what goes to the ledger first, on a thread that may wait, and to the gate after it; or is asked of one of them
 * alone. Inside this room only.
 *
 *   change_open -> change_file (a thread of the crew) -> change_call (a script, on the lane) -> change_tell -> change_close
 *
 * Of what is rare: one is made for each, and given back at its end. It may go on after its ticket has been answered, to tell
 * the ledger that the gate has been told. */
#ifndef STAMPEDE_GATE_REMOTE_CHANGE_H
#define STAMPEDE_GATE_REMOTE_CHANGE_H

#include "gate/remote/remote.h"
#include "gate/remote/telling.h"

#define CHANGE_NUMBERS 3
#define CHANGE_ARGV_MAX (GATE_KEYS + 24)

struct change {
    struct redis_call call; /* first */
    struct crew_job job;
    struct remote_lane *lane;
    struct gate_ticket *ticket; /* NULL: answered */
    bool of_order;              /* the ticket is told the order, else the sale */
    uint64_t until_ms;          /* monotonic */
    struct change *next;

    enum fault (*work)(struct change *change, struct ledger *ledger); /* on a thread of the crew */
    void (*filed)(struct change *change);                             /* on the lane, after it */
    void (*again)(struct change *change);                             /* on the lane, in a moment */
    enum fault fault;                                                 /* of work */
    bool begun;                                                       /* work was done, or may have been */
    bool unknown;                                                     /* Redis did not answer a take: it may have given it */
    bool repeatable;                                                  /* work that is called twice is done once */

    /* What is asked. Slices point to the texts below. */
    uint64_t sale_id, order_no, number;
    struct payment payment;
    struct cancel cancel;
    struct asker asker;
    enum decision_kind kind;
    uint32_t mask;
    int64_t add;
    struct sale_terms terms;
    char name[USERNAME_BYTES_MAX + BUYER_BYTES_MAX + 1], reason[CANCEL_REASON_BYTES_MAX + 1], ref[PAYMENT_REF_BYTES_MAX + 1];

    /* What came of it. */
    enum verdict verdict;
    struct order order;
    uint64_t ended_ms; /* of the order; 0: it has not */
    struct ledger_shelved shelved;
    struct ledger_errand errand;
    enum errand_end told; /* what came of that */
    uint64_t counts_ms;   /* monotonic: when the gate's counts were asked for */
    struct decision retake;
    bool refund; /* it may not be taken again */
    struct ledger_take take;
    char entry[FLIGHT_ENTRY_BYTES];

    uint64_t epoch; /* for the script */
    char keys[GATE_KEYS][FLIGHT_KEY_BYTES];
    char numbers[CHANGE_NUMBERS][24];
    struct slice argv[CHANGE_ARGV_MAX];
    char text[ERRAND_TEXT_BYTES];
};

struct change *change_open(struct remote_lane *lane, struct gate_ticket *ticket); /* NULL: BUSY was told */
void change_close(struct change *change);
/* Copies a text into its place; one that does not fit is cut, and the ledger finds it wrong. */
struct slice change_text(char *out, size_t size, struct slice text);
/* Answers the ticket, if nobody has; the change goes on. */
void change_tell(struct change *change, enum verdict verdict);
void change_end(struct change *change, enum verdict verdict); /* tells and closes */
/* Hands it to the crew; filed() is called when work is done, whatever came of it: see fault. */
void change_file(struct change *change, enum fault (*work)(struct change *change, struct ledger *ledger),
                 void (*filed)(struct change *change));
/* The same for work that only reads, by a crew of its own: it waits for no lock, nor behind those who do. */
void change_read(struct change *change, enum fault (*work)(struct change *change, struct ledger *ledger),
                 void (*filed)(struct change *change));
/* What is told where the ledger did not answer: UNKNOWN where something may have been written. */
enum verdict change_failed(const struct change *change);
/* Goes on in a moment, or ends with what is known if its time is over. */
void change_wait(struct change *change, void (*again)(struct change *change));
/* The text of a number among the arguments of a script. */
struct slice change_number(struct change *change, uint32_t at, int64_t value);
/* A script: its keys, the epoch, and count more arguments that stand in argv from GATE_KEYS + 1 on. */
void change_call(struct change *change, enum gate_script_name script, uint32_t count,
                 void (*done)(struct redis_call *call, const struct redis_reply *reply));
/* Words that mean that the sale is to be looked at: the keeper does, and the change waits for it. False: it is another. */
bool change_later(struct change *change, struct slice word, void (*again)(struct change *change));

/* The answer of the script that takes. False: there is none, and the take may have been made all the same. */
bool change_answer(struct change *change, const struct redis_reply *reply, struct script_answer *out);
/* Deletes an entry of the stream that is filed, then closes. */
void change_clear(struct change *change);
/* After ledger_takes() of what the gate has given: told where it is filed, asked for again() where the gate has been built
 * from a ledger that did not have it, undone where the ledger refused it. */
void change_taken(struct change *change, void (*again)(struct change *change), void (*undo)(struct change *change));
/* Tells the gate what the ledger has: the change's errand, if there is one. Then answers with its verdict, of a sale with
 * the counts that the gate has by then, and tells the ledger that the gate knows. An errand that cannot be done now is the
 * keeper's. */
void change_errand(struct change *change);

/* search.c: looks in Redis for the change's order, which the ledger does not have. then() finds DONE with the order and its
 * sale_id, or NO_SUCH_ORDER; that with a fault says that nobody knows. */
bool search_is_possible(const struct change *change); /* by its number; any thread */
enum fault search_open(struct remote_lane *lane) MUST_USE;
void search_close(struct remote_lane *lane);
void search_for(struct change *change, void (*then)(struct change *change));

#endif
