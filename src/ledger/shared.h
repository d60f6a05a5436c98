/* shared: a ledger that several nodes write to at once, each what its own gate has decided.
 *
 * There is no journal here, and no point: a decision is filed by whoever made it, or by whoever finds it in a sale's stream.
 * The row of the sale is locked first, and has the last word: on its stock, its epoch, and by unique keys on who has won
 * what. A win that it refuses was no win.
 *
 * Takes go gate, then ledger; releases go ledger, then gate, and leave an errand in the same transaction: what the gate has
 * still to be told, by this node at once or by any node later. A sale's epoch is raised before its gate is rebuilt from
 * here: what was decided under an older epoch and not filed has not happened. */
#ifndef STAMPEDE_LEDGER_SHARED_H
#define STAMPEDE_LEDGER_SHARED_H

#include "engine/engine.h"
#include "ledger/ledger.h"

/* What became of a decision that takes: a win, a token given, stock withdrawn, an order taken again. */
enum take_result {
    TAKE_FILED,
    TAKE_FILED_BEFORE, /* by its number: there is the order as it is by now */
    TAKE_STALE,        /* the sale has another epoch: ask the gate again, with the same number */
    TAKE_REPEATED,     /* the buyer's Idempotency-Key has won before: there is that order */
    TAKE_ALREADY_WON,  /* the buyer has as many orders as the sale allows: there is one of them */
    TAKE_SOLD_OUT,     /* fewer are available than it takes */
    TAKE_REFUSED,      /* its token is spent or another's, or none are left to be given; its order is not as it should be, or
                          something else has its number; there is no such sale; or it was refused before, in this epoch */
};
const char *take_result_text(enum take_result result); /* for the log, after a colon */
#define LEDGER_TAKES_MAX 512                           /* at a time */
struct ledger_take {
    struct decision decision; /* WON, TOKEN_GIVEN, STOCK_ADDED (below 0) or RETAKEN. seq: a number made by the node, of the
                                 order, the token (its nonce) or the withdrawal */
    uint64_t epoch;
    bool again; /* the gate has told it before, so that most likely it is filed */
    enum take_result result;
    struct order there; /* also where an order is REFUSED and there */
};
/* One transaction for all. Those of a sale are filed in the order they come in, a token before the win that spends it; what
 * comes again is looked up behind the others. A fault: nothing is known of any of them; file them again. The counts of the
 * sales after it are not read back: the gate's are fresher. */
enum fault ledger_takes(struct ledger *ledger, struct ledger_take *takes, size_t count) MUST_USE;
/* The same where others may keep the rows of these sales: they are asked for some times within some milliseconds, and waited
 * for by nobody. FAULT_TIMEOUT: they were not to be had. (A file has one lock for all, which is waited for.) */
enum fault ledger_takes_now(struct ledger *ledger, struct ledger_take *takes, size_t count) MUST_USE;

/* Gives the job to whoever asks, by the next number: see struct ledger_fence. */
enum fault ledger_fence_raise(struct ledger *ledger, struct ledger_fence *fence) MUST_USE; /* fills number */

/* What a gate has still to be told. id rises within a sale. epoch: of the sale as the row was written; a gate with a higher
 * one was built from a ledger that had it. */
enum errand_kind {
    ERRAND_PAID = 1,      /* order_no is paid */
    ERRAND_CANCELLED = 2, /* order_no gave its units back */
    ERRAND_EXPIRED = 3,
    ERRAND_STOCK = 4,  /* units were added */
    ERRAND_SALE = 5,   /* terms, paused or closed have changed: read the sale */
    ERRAND_REFUND = 6, /* order_no has ended before it was paid: its money goes back */
};
struct ledger_errand {
    uint64_t id;
    enum errand_kind kind;
    uint64_t sale_id, epoch, order_no;
    uint32_t units;
    uint64_t made_ms;
};
/* Those made before made_before_ms whose ids are above id_after, by id, at most max. */
struct ledger_errand_page {
    uint64_t id_after, made_before_ms;
    uint32_t max;
};
enum fault ledger_errands(struct ledger *ledger, const struct ledger_errand_page *page,
                          void (*visit)(void *arg, const struct ledger_errand *errand), void *arg) MUST_USE;
enum fault ledger_errands_done(struct ledger *ledger, const uint64_t *ids, size_t count) MUST_USE;

/* Orders after their win. The verdicts are those of engine_decide_payment() and engine_decide_cancel(), *order as they fill
 * it. An expired order whose payment is to take it again asks the gate for the units first: where retake is given and its
 * kind comes back as DECISION_RETAKEN, nothing is written, and the caller files that decision with ledger_takes() once the
 * gate has given them; else it calls again with retake NULL, and the order is due a refund. *errand is what was left for the
 * gate; its id is 0 where nothing was. No time is before the win's: nodes' clocks differ. */
struct ledger_payment {
    struct payment payment;
    struct decision *retake; /* NULL: it may not be taken again. Its kind is 0 where it is not to be; its ref is payment's */
};
enum fault ledger_pay(struct ledger *ledger, const struct ledger_payment *ask, enum verdict *verdict, struct order *order,
                      struct ledger_errand *errand) MUST_USE;
enum fault ledger_cancel(struct ledger *ledger, const struct cancel *cancel, enum verdict *verdict, struct order *order,
                         struct ledger_errand *errand) MUST_USE;
/* Ends those of a sale that are held and were to be paid by now_ms, at most max or LEDGER_TAKES_MAX of them; errands are
 * left for them. */
struct ledger_expiry {
    uint64_t sale_id, now_ms;
    uint32_t max;
};
enum fault ledger_expire(struct ledger *ledger, const struct ledger_fence *fence, const struct ledger_expiry *expiry,
                         uint32_t *expired) MUST_USE;

/* A seller's changes: verdicts as engine_decide_create(), _change(), _stock() (add > 0 only: withdrawing is a take) and
 * _switch(); TOO_MANY_SALES. *sale as it now is, or its terms for BAD_INPUT. */
struct ledger_change {
    struct asker asker;
    uint64_t asked_mono_ms; /* when asker.now_ms was read: time goes on while the row is waited for. 0: it stands still */
    uint64_t sale_id;
    enum decision_kind kind; /* SALE_CREATED, SALE_CHANGED, STOCK_ADDED, SALE_PAUSED, SALE_RESUMED, SALE_CLOSED */
    uint32_t mask;           /* SALE_CHANGED: of TERM_ bits */
    const struct sale_terms *terms;
    int64_t add;                   /* STOCK_ADDED; SALE_CREATED: the stock */
    uint32_t sales_per_seller_max; /* SALE_CREATED; 0: no limit */
};
/* No errand is left for a new sale: it has no gate. */
enum fault ledger_change(struct ledger *ledger, const struct ledger_change *change, enum verdict *verdict, struct sale *sale,
                         struct ledger_errand *errand) MUST_USE;

/* Sales as nodes know them. version rises with every ledger_change() of any sale and every new epoch, and not with what is
 * taken and released; epoch with every rebuild of its gate. Versions are seen in their order: none comes below one that was
 * seen before. */
struct ledger_shelved {
    struct sale sale;
    uint64_t version, epoch;
};
/* Those changed after this version, in the order of their versions, also those that are over by now; with version 0 all that
 * are not over at now_ms, or hold something. */
enum fault ledger_each_changed_sale(struct ledger *ledger, uint64_t version_after, uint64_t now_ms,
                                    void (*visit)(void *arg, const struct ledger_shelved *sale), void *arg) MUST_USE;
enum fault ledger_shelved(struct ledger *ledger, uint64_t sale_id, struct ledger_shelved *out, bool *found) MUST_USE;
enum fault ledger_sale_id_last(struct ledger *ledger, uint64_t *id) MUST_USE;

/* A gate's rebuild: raises the sale's epoch (0: there is no such sale), then walks what the gate needs in one snapshot: the
 * sale as it is under the new epoch, all its orders by number (nth: 0 where it does not count), its tokens that are not
 * spent, the errands that were left for its gate: what they tell is in the snapshot, whatever their epoch; and what was
 * withdrawn by numbers above withdrawn_after: who did not hear so may ask for it once more. Visitors do not use this ledger;
 * errand and withdrawal may be NULL. The first epoch of a sale gives an nth to orders that one engine has decided. */
enum fault ledger_epoch_raise(struct ledger *ledger, const struct ledger_fence *fence, uint64_t sale_id,
                              uint64_t *epoch) MUST_USE;
struct ledger_rebuild {
    enum fault (*sale)(void *arg, const struct ledger_shelved *sale);
    enum fault (*order)(void *arg, const struct ledger_order *order, uint32_t nth);
    enum fault (*token)(void *arg, const struct ledger_token *token);
    enum fault (*errand)(void *arg, const struct ledger_errand *errand);
    enum fault (*withdrawal)(void *arg, uint64_t number, uint32_t units);
    void *arg;
    uint64_t withdrawn_after;
};
enum fault ledger_rebuild(struct ledger *ledger, uint64_t sale_id, const struct ledger_rebuild *visit) MUST_USE;

/* Buyers who have more orders that count than their sale allows: there are none. For the audit. */
enum fault ledger_each_over_limit(struct ledger *ledger,
                                  void (*visit)(void *arg, uint64_t sale_id, uint64_t orders, uint64_t max),
                                  void *arg) MUST_USE;

/* Logouts that other nodes have taken: rows after this one; *last moves to the newest. */
enum fault ledger_each_revoked_after(struct ledger *ledger, uint64_t *last,
                                     void (*visit)(void *arg, uint64_t token_id, uint64_t expires_ms), void *arg) MUST_USE;

#endif
