/* engine: decides who gets what. Pure: no I/O, no clock, no malloc after open.
 *
 * Two halves. engine_decide_*() read and answer a verdict; on VERDICT_WON or VERDICT_DONE they have filled a complete
 * decision. engine_apply() writes that decision and cannot fail; replay calls engine_apply() alone. The caller holds one
 * lock around decide, apply and the append to the journal (gate/local/local.c); only engine_refuse_early(),
 * engine_refuse_token_early() and engine_notice() may be called without it. A decision's time is the
 * caller's, or that of the decision before it where the caller read the clock a little too early: times in the journal never
 * go back (P12).
 *
 * Invariants:
 *   E1  available + held + sold = offered for every sale, after every apply (P1).
 *   E2  a buyer's held and paid orders in a sale never exceed grabs_per_buyer_max as it was when they won (P2).
 *   E3  order numbers and sequence numbers only rise.
 *   E4  the digest after seq n depends only on the decisions up to n and the states they led to (P5).
 *   E5  a purchase token is spent by one win at most, and only by its buyer's in its sale.
 *   E6  a hold ends once: what comes back is what was held (P6).
 *
 * Memory is reserved at open and touched as it is used, but for what is made ready for a crowd: about 90 bytes for an order
 * with a 16-byte buyer, 8 more while it is held and 8 where it was paid later, 50 for a purchase token that is not spent. */
#ifndef STAMPEDE_ENGINE_ENGINE_H
#define STAMPEDE_ENGINE_ENGINE_H

#include "base/fault.h"
#include "base/slice.h"
#include "engine/board.h"
#include "engine/decision.h"
#include "engine/sale.h"
#include "engine/verdict.h"

#include <stdbool.h>
#include <stdint.h>

struct engine;

/* Reserves the memory for orders_max orders of open sales, and as many purchase tokens not spent. hash_key: 16 random bytes
 * for the tables keyed by names. */
enum fault engine_open(struct engine **out, uint32_t orders_max, const uint8_t hash_key[16]) MUST_USE;
void engine_close(struct engine *engine);

/* A grab as it reaches the gate. buyer empty: an open sale's next claim number names the buyer.
 *
 * The guard has checked the signature, the buyer, the sale and the expiry of a purchase token: token_nonce is that of a good
 * one. 0 means that there is none, or, with token_brought, that what was brought is no good. */
struct grab {
    uint64_t sale_id;
    struct slice buyer;
    struct slice key; /* Idempotency-Key, empty: none */
    uint32_t units;
    uint64_t now_ms;
    uint64_t token_nonce;
    bool token_brought;
    bool turned_away; /* the guard lets it take nothing: BUSY where it would have won */
    bool trusted;     /* a backend grabs for the buyer, and has admitted them: tokens are not asked for */
    bool won_first;   /* ALREADY_WON is looked at before the window and the limit per grab */
    uint64_t hash;    /* engine_hash_grab()'s, of this engine alone; 0: it is made where it is needed */
};

/* A grab is hashed first, once, without the lock and from any thread; of many that are decided together, each. Where their
 * buyers are looked for lies anywhere in memory, and all of it comes nearer at once: the bucket of each, then the order that
 * stands there, then, under the lock, the name in it. Changes no verdict. */
void engine_hash_grab(const struct engine *engine, struct grab *grab);
void engine_expect_order(const struct engine *engine, const struct grab *grab);
void engine_expect_name(const struct engine *engine, const struct grab *grab);

/* The answer to a grab. order is filled for WON, REPEATED and ALREADY_WON (an order of the buyer's that
 * counts: held or paid). */
struct grab_answer {
    enum verdict verdict;
    uint32_t available;  /* after the decision */
    uint32_t grabs_left; /* for WON: how often the buyer may win again in the sale */
    struct order order;
};

/* Without the lock, from any thread: a refusal, when the sale is running, the buyer certainly holds nothing in it and the
 * full decision would say the same: SOLD_OUT when nothing is left at all, TOKEN_REQUIRED or TOKEN_INVALID when the guard has
 * found no good token, SOLD_OUT or BUSY for one turned away. VERDICT_DONE when only the full decision can tell. */
enum verdict engine_refuse_early(const struct engine *engine, const struct grab *grab);

/* Without the lock, from any thread: what stands on the board outside a sale. False where the sale is not in memory. */
bool engine_notice(const struct engine *engine, uint64_t sale_id, struct board_notice *out);

/* First that applies: BAD_INPUT (no units, a text too long or with a NUL in it), NO_SUCH_SALE, REPEATED / KEY_REUSED
 * (same key, other units), CLOSED, NOT_OPEN, PAUSED, TOKEN_REQUIRED, TOKEN_INVALID, OVER_LIMIT, ALREADY_WON,
 * TOO_MANY_RETURNS (RETURNS_PER_BUYER_MAX orders of the buyer's were cancelled or have expired; one taken again counts no
 * more), SOLD_OUT, BUSY (no memory for another order, or turned away), WON. Replay believes a win whatever was given back.
 *
 * A sale with admission token wants a token that was given to this buyer and not spent. One with admission line takes it
 * from those who have one; whether the others have stood in line is the guard's to know. A win spends the token it brought;
 * sales that ask for none look at none.
 *
 * A grab without a buyer, in a sale with admission open, gets one: "claim:" and its number, or with a key "key:" and
 * the key, so that a repeat finds its order ("cut:", the key cut to fit and its hash, where it is longer than 60 bytes).
 * In a sale with admission login it is BUSY: the admission has just changed, and whoever asks again will know.
 *
 * A name that looks like one of those is BAD_INPUT there. The slices of *out point into *answer. */
enum verdict engine_decide_grab(const struct engine *engine, const struct grab *grab, struct decision *out,
                                struct grab_answer *answer);

/* Who asks for a purchase token, and on the word of whom: admission is ADMISSION_TOKEN for a buyer who asks for it, or
 * ADMISSION_LINE for one whom the line has let through. */
struct token_ask {
    uint64_t sale_id;
    struct slice buyer;
    enum admission admission;
    uint64_t nonce; /* of the one that was given on the same word before; 0: none was */
    uint64_t now_ms;
};

/* nonce for DONE and REPEATED, order for ALREADY_WON. */
struct token_answer {
    enum verdict verdict;
    uint64_t nonce;
    struct order order;
};

/* Without the lock, from any thread: SOLD_OUT as engine_refuse_early(), else DONE. */
enum verdict engine_refuse_token_early(const struct engine *engine, const struct token_ask *ask);

/* First that applies: BAD_INPUT (no buyer or one that is too long), NO_SUCH_SALE, CLOSED, NO_TOKENS_NEEDED (the sale has
 * another admission), ALREADY_WON (as often as the sale allows: a token would be of no use to them, and one less for
 * others), SOLD_OUT (nothing is left), TOKEN_INVALID (ask->nonce is given, and spent), REPEATED (the buyer has one that is
 * not spent: the same nonce), NO_TOKENS_LEFT, BUSY (no memory for another), DONE. So a buyer takes at most one token more of
 * tokens_max than they win. */
enum verdict engine_decide_token(const struct engine *engine, const struct token_ask *ask, struct decision *out,
                                 struct token_answer *answer);

/* A payment that succeeded, as the provider tells it. */
struct payment {
    uint64_t order_no;
    struct slice ref; /* 1 to PAYMENT_REF_BYTES_MAX bytes: the payment's own name; an order has one at most */
    int64_t amount;   /* -1: none, as of an order without a price, which takes 0 too */
    uint64_t now_ms;
};
/* First that applies: BAD_INPUT (a ref that cannot be kept), NO_SUCH_ORDER (not in memory), AMOUNT_MISMATCH, REPEATED (this
 * ref has been taken for it before: paid or refund due), ALREADY_PAID (another has, or it was paid at once), DONE with PAID
 * while it is held, also a moment after pay_by_ms; with RETAKEN where it has expired, the sale's late_payment says so, the
 * sale is not closed, the units are available and the buyer is below their limit; else with REFUND_DUE. order is filled from
 * AMOUNT_MISMATCH on: as it was, or for DONE as the decision leaves it. */
enum verdict engine_decide_payment(const struct engine *engine, const struct payment *payment, struct decision *out,
                                   struct order *order);
/* The same for an order that memory has let go of, as the ledger has it, with the ref it was paid or is due a refund by:
 * DONE is always REFUND_DUE, and BUSY comes before it where too many refunds are known that are not filed. The sale is not
 * in memory, or NO_SUCH_ORDER: ask engine_decide_payment(). */
enum verdict engine_decide_past_payment(const struct engine *engine, const struct payment *payment, struct slice ref_taken,
                                        struct decision *out, struct order *order);

/* The ledger has filed every decision up to this one: refunds that it knows need not be remembered much longer. */
void engine_filed(struct engine *engine, uint64_t seq);

/* Who cancels. name is the buyer's or the seller's, by how they are logged in; admins may always. reason: at most
 * CANCEL_REASON_BYTES_MAX bytes, not empty from sellers and admins. */
struct cancel {
    uint64_t order_no;
    enum canceller by;
    struct slice name;
    struct slice reason;
    uint64_t now_ms;
};
/* BAD_INPUT, NO_SUCH_ORDER (not in memory, or not theirs: P8), NOT_HELD, DONE. order as above. */
enum verdict engine_decide_cancel(const struct engine *engine, const struct cancel *cancel, struct decision *out,
                                  struct order *order);

/* The next hold whose pay_by_ms is not after now_ms, as its EXPIRED decision. Deadlines stand in a heap of hints, whose
 * entries for holds that ended otherwise are dropped here, and there may be as many as there were wins: so it looks at no
 * more than *hints_left of them, and takes those it has looked at from that number. False with some left: nothing is due;
 * with none left: ask again. The heap is no part of the state that decisions lead to. */
bool engine_decide_expiry(struct engine *engine, uint64_t now_ms, uint32_t *hints_left, struct decision *out);

/* Who asks for a seller's change, and when. A sale of someone else does not exist for a seller: NO_SUCH_SALE (P8). */
struct asker {
    struct slice name;
    bool admin;
    uint64_t now_ms;
};

/* A new sale of the asker: BAD_INPUT (sale_terms_objection() says why; or stock or seller beyond bounds.h), NAME_TAKEN, BUSY
 * (too many open sales) or DONE; out->sale_id is the id it gets. */
enum verdict engine_decide_create(const struct engine *engine, const struct asker *seller, const struct sale_terms *terms,
                                  uint32_t stock, struct decision *out);
/* terms are the whole terms after the change. BAD_INPUT as for a new sale; CLOSED once closed; SALE_OPEN when the sale
 * has opened and anything but name, description, closes_ms (later, or removed), tokens_max (more, or removed),
 * pay_within_s and the line differs; NAME_TAKEN. */
enum verdict engine_decide_change(const struct engine *engine, const struct asker *asker, uint64_t sale_id,
                                  const struct sale_terms *terms, struct decision *out);
/* NOT_AVAILABLE: withdraws more than is available, or offers more than STOCK_MAX. CLOSED once closed. */
enum verdict engine_decide_stock(const struct engine *engine, const struct asker *asker, uint64_t sale_id, int64_t add,
                                 struct decision *out);
/* kind is DECISION_SALE_PAUSED (PAUSED if it is), _RESUMED (NOT_PAUSED if not) or _CLOSED; CLOSED once closed. */
enum verdict engine_decide_switch(const struct engine *engine, const struct asker *asker, uint64_t sale_id,
                                  enum decision_kind kind, struct decision *out);

/* Writes a decision. decision->seq must be engine_seq() + 1. An impossible decision is an assertion. */
void engine_apply(struct engine *engine, const struct decision *decision);
/* The same for the win of a grab that this engine has just decided: what it was hashed to need not be made again. */
void engine_apply_grab(struct engine *engine, const struct decision *decision, const struct grab *grab);

/* Replay of bytes from a disk must not trust them: says why a decision cannot follow the present state, or NULL, after
 * which engine_apply() takes it whatever it is.
 *
 * Letting go of sales (engine_forget) leaves no record. So where a decision needs the place of a sale that was over by
 * then, or the memory of its orders, apply lets go of that sale first, as the server had. */
const char *engine_objection(const struct engine *engine, const struct decision *decision);

/* Start-up from the ledger: put what was filed (sales before their orders; the name of every sale, also of closed ones),
 * then set the point it was filed at. Sales must be there that were not over at that point's time, not at the time of
 * the start: decisions after the point may still speak of them. All their orders must be there, for check holds
 * the counts of every sale against them. FAULT_DAMAGE where the ledger contradicts itself: objection says how.
 * FAULT_SPACE where it has more than fits, which has been logged. */
enum fault engine_load_sale(struct engine *engine, const struct sale *sale) MUST_USE;
enum fault engine_load_name(struct engine *engine, struct slice seller, struct slice name, uint64_t sale_id) MUST_USE;
enum fault engine_load_order(struct engine *engine, const struct order *order, struct slice payment_ref) MUST_USE;
enum fault engine_load_token(struct engine *engine, uint64_t sale_id, struct slice buyer, uint64_t nonce) MUST_USE;
enum fault engine_load_check(struct engine *engine) MUST_USE;
#define ENGINE_OBJECTION_BYTES 200
const char *engine_load_objection(const struct engine *engine); /* empty: none */
void engine_load_point(struct engine *engine, uint64_t seq, uint64_t digest, uint64_t sale_id_last, uint64_t at_ms);

uint64_t engine_seq(const struct engine *engine);    /* of the last decision applied */
uint64_t engine_digest(const struct engine *engine); /* E4 */
/* How the digest goes on from here: replay goes through batches of either version, which say so; what is new is folded, as
 * it is unless told otherwise. */
enum digest_kind { DIGEST_SIPHASH = 1, DIGEST_FOLD = 2 };
void engine_digest_by(struct engine *engine, enum digest_kind kind);
uint64_t engine_time(const struct engine *engine); /* at_ms of the last decision applied */

/* Copies out; false where memory does not have it (the ledger may). */
bool engine_sale(const struct engine *engine, uint64_t sale_id, struct sale *out);
bool engine_order(const struct engine *engine, uint64_t order_no, struct order *out);
/* The last decision about a sale in memory or its orders; 0 where memory does not have it, or loaded it and no more. */
uint64_t engine_sale_seq(const struct engine *engine, uint64_t sale_id);
/* The sale of a seller by name, 0 if none; closed ones count. */
uint64_t engine_sale_by_name(const struct engine *engine, struct slice seller, struct slice name);
/* Without the lock, from any thread: moves whenever a name stops meaning the sale it meant. */
uint64_t engine_names_version(const struct engine *engine);

/* Walks what is in memory, for the audit and for housekeeping. Stops when visit returns false. */
void engine_each_sale(const struct engine *engine, bool (*visit)(void *arg, const struct sale *sale), void *arg);
void engine_each_order(const struct engine *engine, bool (*visit)(void *arg, const struct order *order), void *arg);
/* The purchase token of a buyer that is not spent, or 0. */
uint64_t engine_token(const struct engine *engine, uint64_t sale_id, struct slice buyer);

/* Lets go of a sale closed at now_ms with nothing held, once the ledger can answer for it. From the first call on neither
 * the sale nor its orders are found here; its memory comes back at most orders_max orders or tokens a call, so that the lock
 * is held shortly. True when none of it is left, false when there is more to do or the sale is not over. Its name stays
 * taken. */
bool engine_forget(struct engine *engine, uint64_t sale_id, uint32_t orders_max, uint64_t now_ms);

/* By any thread, without the lock, whoever else uses the engine: memory for one part after the other of what a crowd touches
 * all over, before it comes. False: that was all. Changes no verdict. */
bool engine_make_ready(struct engine *engine, uint32_t part);
/* The same for orders that are about to be made, so many beyond those that there are: how far their memory reaches, under
 * the lock; then, without it, one part of it after the other. */
struct engine_reach {
    uint32_t orders, texts[2];
};
struct engine_reach engine_reach(const struct engine *engine, uint32_t orders);
bool engine_make_orders_ready(struct engine *engine, const struct engine_reach *reach);

struct engine_usage {
    uint32_t sales, orders, orders_max, tokens;
    uint32_t hints; /* of deadlines, also of holds that have ended */
    uint64_t bytes; /* of memory touched for them, reserved memory not counted */
};
void engine_usage(const struct engine *engine, struct engine_usage *out);

#endif
