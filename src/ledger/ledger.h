/* ledger: the record people query, and the checkpoint of the journal. SQLite in WAL mode, synchronous=FULL; or MySQL.
 *
 * A struct ledger is one connection and belongs to one thread at a time. Only the clerk files decisions; people writes users
 * and revocations. All SQL of the project is in this room. Strings handed to visitors live until the visitor returns. */
#ifndef STAMPEDE_LEDGER_LEDGER_H
#define STAMPEDE_LEDGER_LEDGER_H

#include "base/fault.h"
#include "base/slice.h"
#include "engine/decision.h"
#include "engine/sale.h"
#include "ledger/place.h"

#include <stdbool.h>
#include <stdint.h>

struct ledger;

enum ledger_mode { LEDGER_OWNER, LEDGER_WRITER, LEDGER_READER };

/* OWNER, at a start, makes the file and the schema, or checks the version; WRITER and READER find them made; a
 * READER also where nothing can be written, unless SQLite has a log to recover there. In MySQL they work on while a newer
 * release changes tables. The path of a place must outlive the ledger, nothing else of it. */
enum fault ledger_open(struct ledger **out, const struct ledger_place *place, enum ledger_mode mode) MUST_USE;
void ledger_close(struct ledger *ledger);
/* After FAULT_DAMAGE: which row cannot be; empty where it was not a row. */
const char *ledger_objection(const struct ledger *ledger);
/* How long a write waits while someone else writes; 5 s unless told. Then it is FAULT_LEDGER. */
void ledger_set_patience(struct ledger *ledger, uint32_t wait_ms_max);

/* How far the journal has been filed, and which journal it is. */
struct ledger_point {
    uint64_t seq;
    uint64_t digest;
    uint64_t at_ms; /* time of that decision */
    uint64_t sale_id_last;
    uint8_t uuid[16];
};
enum fault ledger_point(struct ledger *ledger, struct ledger_point *out) MUST_USE;
/* Whether the ledger has never belonged to a journal. */
bool ledger_point_is_new(const struct ledger_point *point);
/* A new ledger belongs to this journal from here on, of which nothing is filed yet. */
enum fault ledger_point_begin(struct ledger *ledger, const uint8_t uuid[16]) MUST_USE;

/* Filing: begin, file each decision, commit with the point it reached. The point moves in the same transaction, and only
 * from the value it had at begin (P4). Decisions come without a gap after the point; a row that is there already must be
 * equal: else FAULT_DAMAGE. So is the end of an order that is not in the state it ends: a hold ends once (P6). After a fault
 * of ledger_file() roll back. A commit that failed has been rolled back, or its outcome is unknown: open a new connection
 * and read the point. */
enum fault ledger_file_begin(struct ledger *ledger, struct ledger_point *point) MUST_USE;
enum fault ledger_file(struct ledger *ledger, const struct decision *decision) MUST_USE;
enum fault ledger_file_commit(struct ledger *ledger, const struct ledger_point *from,
                              const struct ledger_point *to) MUST_USE;
void ledger_file_rollback(struct ledger *ledger);

/* A purchase token as it was given. */
struct ledger_token {
    uint64_t nonce;
    uint64_t sale_id;
    char buyer[BUYER_BYTES_MAX + 1];
    uint64_t given_ms;
    uint64_t spent; /* by the order of this number; 0: not spent */
};

/* An order with all that was filed about it. */
struct ledger_order {
    struct order order;
    char payment_ref[PAYMENT_REF_BYTES_MAX + 1]; /* of the payment taken for it; empty: none */
    uint64_t ended_ms;                           /* when its state last changed after the win; 0: never */
    enum canceller canceller;
    char reason[CANCEL_REASON_BYTES_MAX + 1];
};

/* Start-up. Sales that are not over at now_ms, or that hold something; the orders of those; both in order of number. Their
 * tokens that are not spent, and the names of all, in no order. */
enum fault ledger_each_open_sale(struct ledger *ledger, uint64_t now_ms,
                                 enum fault (*visit)(void *arg, const struct sale *sale), void *arg) MUST_USE;
enum fault ledger_each_open_order(struct ledger *ledger, uint64_t now_ms,
                                  enum fault (*visit)(void *arg, const struct ledger_order *order), void *arg) MUST_USE;
enum fault ledger_each_open_token(struct ledger *ledger, uint64_t now_ms,
                                  enum fault (*visit)(void *arg, const struct ledger_token *token), void *arg) MUST_USE;
enum fault ledger_each_name(struct ledger *ledger,
                            enum fault (*visit)(void *arg, struct slice seller, struct slice name, uint64_t sale_id),
                            void *arg) MUST_USE;
/* Everything, in order of number, for the audit. */
enum fault ledger_each_sale(struct ledger *ledger, enum fault (*visit)(void *arg, const struct sale *sale),
                            void *arg) MUST_USE;
enum fault ledger_each_order(struct ledger *ledger, enum fault (*visit)(void *arg, const struct ledger_order *order),
                             void *arg) MUST_USE;
enum fault ledger_each_token(struct ledger *ledger, enum fault (*visit)(void *arg, const struct ledger_token *token),
                             void *arg) MUST_USE;
/* Sales whose counts held and sold are not what their orders, held and paid, add up to: these are handed to visit. */
enum fault ledger_each_uneven_sale(struct ledger *ledger,
                                   enum fault (*visit)(void *arg, uint64_t id, uint64_t held, uint64_t sold),
                                   void *arg) MUST_USE;
/* Sales whose numbers (struct ledger_numbers) are not what their orders add up to. */
enum fault ledger_each_miscounted_sale(struct ledger *ledger, void (*visit)(void *arg, uint64_t id), void *arg) MUST_USE;

/* Notices that tell of what did not happen or is not there, and events whose subscribers are not those counted: a line of
 * text for each. */
enum fault ledger_each_contradiction(struct ledger *ledger, void (*visit)(void *arg, const char *text), void *arg) MUST_USE;

/* Export. All that is read until the end is as it was at the beginning, whatever is filed meanwhile; the write-ahead log
 * grows by that, so end it soon. size: rows there are. */
struct ledger_size {
    uint64_t sales, orders;
};
enum fault ledger_snapshot_begin(struct ledger *ledger, struct ledger_size *size) MUST_USE;
void ledger_snapshot_end(struct ledger *ledger);
enum fault ledger_each_order_of(struct ledger *ledger, uint64_t sale_id,
                                enum fault (*visit)(void *arg, const struct ledger_order *order), void *arg) MUST_USE;

/* Questions. FAULT_NONE with *found false where there is none. */
enum fault ledger_sale(struct ledger *ledger, uint64_t id, struct sale *out, bool *found) MUST_USE;
enum fault ledger_order(struct ledger *ledger, uint64_t no, struct ledger_order *out, bool *found) MUST_USE;
enum fault ledger_token(struct ledger *ledger, uint64_t nonce, struct ledger_token *out, bool *found) MUST_USE;
/* What became of a sale's orders, as counted when they were filed. By state: orders and their units; a retaken order is
 * paid, and one that is due a refund is neither cancelled nor expired any more. */
struct ledger_numbers {
    uint64_t orders[ORDER_STATE_LAST + 1];
    uint64_t units[ORDER_STATE_LAST + 1];
    uint64_t holds_made, holds_paid;
    uint64_t units_returned; /* ever, by cancelling and expiry */
    uint64_t sold_out_ms;    /* when the last unit was first taken by a buyer; 0: never */
};
enum fault ledger_numbers(struct ledger *ledger, uint64_t sale_id, struct ledger_numbers *out, bool *found) MUST_USE;
/* The scope of an Idempotency-Key. */
struct ledger_key {
    uint64_t sale_id;
    struct slice buyer, key;
};
enum fault ledger_order_by_key(struct ledger *ledger, const struct ledger_key *key, struct order *out, bool *found) MUST_USE;
/* Which of its sale's orders it is, from 1, whatever has become of those before. */
enum fault ledger_order_place(struct ledger *ledger, uint64_t sale_id, uint64_t no, uint64_t *place) MUST_USE;

/* Newest first; after: id or number to go on below, 0 to begin. Empty slices and negative states do not filter. */
struct ledger_sales_query {
    struct slice seller;
    uint64_t event_id; /* sales of this event only; 0: all */
    int state;         /* enum sale_state or -1 */
    uint64_t now_ms;
    uint64_t after;
    uint32_t limit;
};
enum fault ledger_sales(struct ledger *ledger, const struct ledger_sales_query *query,
                        void (*visit)(void *arg, const struct sale *sale), void *arg) MUST_USE;
struct ledger_orders_query {
    struct slice buyer;  /* own orders only */
    struct slice seller; /* orders of this seller's sales only */
    uint64_t sale_id;    /* 0: all */
    int state;           /* enum order_state or -1 */
    uint64_t from_ms;    /* won at this time or later; 0: since ever */
    uint64_t to_ms;      /* won before this time; 0: until now */
    uint64_t after;
    uint32_t limit;
};
enum fault ledger_orders(struct ledger *ledger, const struct ledger_orders_query *query,
                         void (*visit)(void *arg, const struct order *order), void *arg) MUST_USE;

/* Pages by number, the oldest first: what comes new does not move the others. */
struct ledger_page {
    struct slice name; /* whose */
    uint64_t skip;
    uint32_t limit;
};
enum fault ledger_sales_of(struct ledger *ledger, const struct ledger_page *page,
                           void (*visit)(void *arg, const struct sale *sale), void *arg) MUST_USE;
/* The sales that a buyer has won in, once for each order that counts. */
enum fault ledger_sales_won(struct ledger *ledger, const struct ledger_page *page,
                            void (*visit)(void *arg, const struct sale *sale), void *arg) MUST_USE;

/* Who may write as the single owner of a job: the number it got with the lock. A higher one has been given since: the write
 * is refused with FAULT_FENCED, and the job stops. Once a number has been given, nothing is written by a lower one. */
struct ledger_fence {
    const char *job; /* up to 32 bytes; outlives its use */
    uint64_t number;
};
/* From now on the small transactions of this connection (outbox.h, publications.h) are written as the owner of a job. With
 * the job NULL, as at first: as anybody. */
void ledger_set_fence(struct ledger *ledger, const struct ledger_fence *fence);

/* Users and logouts: synchronous, durable when they return. */
enum role { ROLE_NONE = 0, ROLE_CUSTOMER = 1, ROLE_SELLER = 2, ROLE_ADMIN = 3 };
const char *role_word(enum role role);
struct ledger_user {
    char username[USERNAME_BYTES_MAX + 1];
    enum role role;
    char password_hash[160]; /* argon2 encoded; empty: the name is only kept, nobody logs in by it */
};
/* taken: there is such a user, or there are sales of that name: whoever got it would be their seller. */
enum fault ledger_user_add(struct ledger *ledger, const struct ledger_user *user, uint64_t now_ms, bool *taken) MUST_USE;
enum fault ledger_user(struct ledger *ledger, struct slice username, struct ledger_user *out, bool *found) MUST_USE;
/* Whether this is the name of one who sells: a user who is a seller or an admin, or whoever has a sale or an event, because
 * sellers of an identity provider are no users here. */
enum fault ledger_sells(struct ledger *ledger, struct slice name, bool *sells) MUST_USE;
enum fault ledger_revoke(struct ledger *ledger, uint64_t token_id, uint64_t expires_ms) MUST_USE;
enum fault ledger_each_revoked(struct ledger *ledger, uint64_t now_ms,
                               enum fault (*visit)(void *arg, uint64_t token_id, uint64_t expires_ms), void *arg) MUST_USE;
enum fault ledger_forget_revoked(struct ledger *ledger, uint64_t now_ms) MUST_USE; /* those expired */

#endif
