/* decision: what happened to a sale, once. The journal stores it, replay applies it, the clerk files it.
 *
 * seq is dense: 1, 2, 3 … over the life of the journal. The number of an order is the seq of its win, the nonce of a
 * purchase token the seq at which it was given.
 *
 * An order ends its hold once (P6): PAID, CANCELLED or EXPIRED. What a payment that comes too late leads to is a decision of
 * its own: RETAKEN takes the units of an expired order from what is available again, REFUND_DUE takes nothing and says that
 * the buyer's money has to go back. REFUND_DUE may name an order of a sale that memory has let go of.
 * Slices and pointers belong to whoever made the decision and live until the call that was given it returns. */
#ifndef STAMPEDE_ENGINE_DECISION_H
#define STAMPEDE_ENGINE_DECISION_H

#include "base/slice.h"
#include "engine/sale.h"

#include <stdint.h>

enum decision_kind {
    DECISION_SALE_CREATED = 1,
    DECISION_SALE_CHANGED = 2,
    DECISION_STOCK_ADDED = 3,
    DECISION_SALE_PAUSED = 4,
    DECISION_SALE_RESUMED = 5,
    DECISION_SALE_CLOSED = 6,
    DECISION_WON = 7,
    DECISION_TOKEN_GIVEN = 8,
    DECISION_PAID = 9,
    DECISION_CANCELLED = 10,
    DECISION_EXPIRED = 11,
    DECISION_RETAKEN = 12,
    DECISION_REFUND_DUE = 13,
};

/* Who cancelled. */
enum canceller { CANCELLER_NONE = 0, CANCELLER_BUYER = 1, CANCELLER_SELLER = 2, CANCELLER_ADMIN = 3 };
const char *canceller_word(enum canceller canceller); /* "buyer", "seller", "admin", empty for none */

struct decision {
    uint64_t seq;
    uint64_t at_ms;
    enum decision_kind kind;
    uint64_t sale_id;
    union {
        struct {
            struct slice seller;
            const struct sale_terms *terms;
            uint32_t stock;
        } created;
        const struct sale_terms *changed; /* all terms, as they are now */
        int64_t stock_added;              /* negative: withdrawn */
        struct {
            struct slice buyer;
            struct slice key; /* empty: none */
            uint32_t units;
            int64_t amount;       /* price x units at the moment of the win; -1: no price */
            uint64_t pay_by_ms;   /* 0: paid at once */
            uint64_t token_nonce; /* of the purchase token it spends; 0: none */
        } won;
        struct {
            struct slice buyer;
        } token_given; /* its nonce is seq */
        struct {
            uint64_t order_no;
            uint32_t units;      /* of the order: what comes back or changes hands */
            struct slice ref;    /* PAID, RETAKEN, REFUND_DUE: of the payment */
            struct slice reason; /* CANCELLED, empty from the buyer who gave none */
            enum canceller by;   /* CANCELLED */
        } ended;                 /* PAID, CANCELLED, EXPIRED, RETAKEN, REFUND_DUE */
    };
};

/* The win that made an order; its slices are the order's. */
struct decision decision_of_win(const struct order *order);

#endif
