/* holdings: the orders of open sales in memory, found by number, by buyer and by Idempotency-Key.
 *
 * One cell of 64 bytes an order, and one cell of 16, 32 or 64 bytes for each of its texts. Only one order of a buyer stands
 * in the index by buyer, for all of theirs: it knows how many count and how many have ended, which is all a decision asks.
 * Of two, the one that counts (held or paid) goes before one that has ended, then the newer before the older; that is looked
 * at when an order comes and when one counts again. So whenever their number has just risen, the one that stands counts; a
 * buyer at their limit is one whose number has not fallen since: what is told as already won always counts.
 *
 * A sale's orders hang on a list, newest first, so that a sale that is over can be let go of piece by piece. Which purchase
 * token an order has spent, and by which payment it was paid, stands beside the cells, in memory that is touched only where
 * there is one. Of the payment's ref a keyed hash is kept: that another has the same has odds of one in 2^64.
 *
 * Under the engine's lock, but for holder_of(), holder_hashed(), holdings_expect(), holdings_expect_order() and
 * holdings_may_hold(). */
#ifndef STAMPEDE_ENGINE_HOLDINGS_H
#define STAMPEDE_ENGINE_HOLDINGS_H

#include "base/fault.h"
#include "base/index.h"
#include "base/pool.h"
#include "base/slice.h"
#include "engine/sale.h"
#include "engine/engine.h"
#include "engine/texts.h"

#include <stdbool.h>
#include <stdint.h>

struct holding {
    uint32_t buyer_link;
    uint32_t no_link;
    uint32_t key_link;
    uint32_t older;  /* the next order of the sale, 0 at the end */
    uint32_t no_low; /* also its hash in the index by number: dense numbers fill every bucket alike */
    uint32_t no_high;
    uint64_t won_ms;
    uint32_t buyer_hash;
    uint32_t key_hash;
    uint32_t buyer_cell;
    uint32_t key_cell; /* 0: no key */
    uint32_t units;    /* 0: the cell is free */
    uint32_t pay_within_s;
    uint32_t grabs : 20;  /* of the one that stands: the buyer's held and paid orders */
    uint32_t returns : 6; /* and those that have ended otherwise; RETURNS_COUNTED_MAX: that many or more */
    uint32_t state : 3;
    uint32_t token : 1; /* it has spent one */
    uint32_t ref : 1;   /* a payment was taken for it */
    uint32_t stands : 1;
    uint16_t slot;
    uint8_t buyer_len;
    uint8_t key_len;
};

_Static_assert(sizeof(struct holding) == 64, "an order is one cache line");
#define RETURNS_COUNTED_MAX 63u

_Static_assert(GRABS_PER_BUYER_MAX < 1u << 20, "grabs of a buyer fit their bits");
_Static_assert(RETURNS_PER_BUYER_MAX < RETURNS_COUNTED_MAX && RETURNS_COUNTED_MAX < 1u << 6, "so do their returns");
_Static_assert(ORDER_STATE_LAST < 1u << 3, "and the state of an order");
_Static_assert(SALES_OPEN_MAX <= UINT16_MAX + 1u, "a slot fits its bits");
_Static_assert(BUYER_BYTES_MAX <= TEXT_BYTES_MAX && IDEMPOTENCY_KEY_BYTES_MAX <= TEXT_BYTES_MAX, "a text fits a cell");

struct holdings {
    uint8_t hash_key[16];
    struct pool orders;
    struct texts texts;   /* buyers and keys */
    struct region nonces; /* uint64_t for each cell of orders; read only where the order has a token */
    uint32_t nonces_last; /* the highest cell that ever had one */
    struct region refs;   /* uint64_t for each cell: the hash of its payment's ref */
    uint32_t refs_last;
    struct index by_buyer, by_no, by_key;
};

enum fault holdings_open(struct holdings *holdings, uint32_t orders_max, const uint8_t hash_key[16]) MUST_USE;
void holdings_close(struct holdings *holdings);

/* A buyer in a sale, hashed once for everything that is asked about them. */
struct holder {
    uint64_t hash;
    uint32_t slot;
    struct slice buyer;
};
struct holder holder_of(const struct holdings *holdings, uint64_t sale_id, struct slice buyer); /* any thread */
/* The same where the hash may have been made before; 0: it has not. */
struct holder holder_hashed(const struct holdings *holdings, uint64_t sale_id, struct slice buyer, uint64_t hash);

/* Where they are looked for lies anywhere in memory: let it come nearer. Their bucket first; when that has come, the order
 * it begins with; then the name in that, where it may be theirs. Any thread, but for the last. */
void holdings_expect(const struct holdings *holdings, uint64_t hash);
void holdings_expect_order(const struct holdings *holdings, uint64_t hash);
void holdings_expect_name(const struct holdings *holdings, uint64_t hash);

/* Any thread: false means certainly no order of theirs was there before what the caller has acquired. */
bool holdings_may_hold(const struct holdings *holdings, const struct holder *holder);

/* Cells, or 0. */
uint32_t holdings_standing(const struct holdings *holdings, const struct holder *holder);
uint32_t holdings_by_key(const struct holdings *holdings, const struct holder *holder, struct slice key);
uint32_t holdings_by_no(const struct holdings *holdings, uint64_t no);

static inline struct holding *holding_at(const struct holdings *holdings, uint32_t cell)
{
    return pool_cell(&holdings->orders, cell);
}

static inline uint64_t holding_no(const struct holding *holding)
{
    return (uint64_t)holding->no_high << 32 | holding->no_low;
}

/* An order as it comes: won just now, or loaded from the ledger, in any order of numbers. */
struct holding_new {
    uint64_t no;
    uint64_t won_ms;
    struct slice key; /* empty: none */
    uint32_t units;
    uint32_t pay_within_s; /* 0: none */
    enum order_state state;
    uint64_t token_nonce; /* 0: none */
    uint64_t ref_hash;    /* of its payment; 0: none */
};

bool holdings_have_room(const struct holdings *holdings);
/* After holdings_have_room(). list: the head of the sale's list. Answers its cell. */
uint32_t holdings_add(struct holdings *holdings, const struct holder *holder, const struct holding_new *order,
                      uint32_t *list);

/* An order's life goes on: its new state, and the payment that led to it (ref_hash 0: none). */
void holdings_turn(struct holdings *holdings, uint32_t cell, enum order_state state, uint64_t ref_hash);
/* The ref of a payment for an order; never 0. */
uint64_t holdings_ref_hash(const struct holdings *holdings, uint64_t order_no, struct slice ref);
uint64_t holdings_ref(const struct holdings *holdings, uint32_t cell); /* of the payment taken for it; 0: none */
/* How many held and paid orders the buyer of this order has. */
uint32_t holdings_grabs(const struct holdings *holdings, uint32_t cell);
uint64_t holdings_pay_by_ms(const struct holdings *holdings, uint32_t cell); /* 0: none */

/* Lets go of the first of the list. */
void holdings_drop(struct holdings *holdings, uint32_t *list);

/* The order in a cell as a value. Its amount follows from the sale: a price never changes once a sale has opened. */
void holdings_order(const struct holdings *holdings, uint32_t cell, const struct sale *sale, struct order *out);

/* As region_make_ready(), of what every grab touches somewhere else: the index by buyer. False: that was all. */
bool holdings_make_ready(struct holdings *holdings, uint32_t part);
/* How far the memory of so many orders to come reaches, with names of up to 32 bytes; and as pool_make_ready(), of all of
 * it. */
struct engine_reach holdings_reach(const struct holdings *holdings, uint32_t orders);
bool holdings_make_orders_ready(struct holdings *holdings, const struct engine_reach *reach);
uint64_t holdings_bytes(const struct holdings *holdings); /* of memory asked for or touched */

#endif
