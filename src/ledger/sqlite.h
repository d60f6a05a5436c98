/* sqlite: one connection and its prepared statements. Inside this room only.
 *
 * Every statement is a row of the table in statements.c, prepared when first used and kept until the connection closes. The
 * pattern is statement_open(), bind, step, statement_close(): a statement left open would keep a reader's snapshot, and with
 * it the whole write-ahead log. */
#ifndef STAMPEDE_LEDGER_SQLITE_H
#define STAMPEDE_LEDGER_SQLITE_H

#include "base/fault.h"
#include "base/slice.h"
#include "ledger/ledger.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

enum statement {
    STATEMENT_BEGIN,
    STATEMENT_BEGIN_READ,
    STATEMENT_COMMIT,
    STATEMENT_POINT,
    STATEMENT_POINT_MOVE,
    STATEMENT_SALE_INSERT,
    STATEMENT_SALE_TERMS,
    STATEMENT_SALE_COUNTS,
    STATEMENT_SALE_PAUSED,
    STATEMENT_SALE_CLOSED,
    STATEMENT_ORDER_INSERT,
    STATEMENT_ORDER_PAY,
    STATEMENT_ORDER_CANCEL,
    STATEMENT_ORDER_EXPIRE,
    STATEMENT_TOKEN_INSERT,
    STATEMENT_TOKEN_SPEND,
    STATEMENT_TOKEN,
    STATEMENT_SALE,
    STATEMENT_ORDER,
    STATEMENT_ORDER_BY_KEY,
    STATEMENT_SALES_EACH,
    STATEMENT_SALES_NOT_OVER,
    STATEMENT_NAMES_EACH,
    STATEMENT_ORDERS_EACH,
    STATEMENT_ORDERS_EACH_OF,
    STATEMENT_SIZE,
    STATEMENT_SALES_UNEVEN,
    STATEMENT_ORDERS_SPAN,
    STATEMENT_ORDERS_NOT_OVER,
    STATEMENT_ORDERS_NOT_OVER_FEW,
    STATEMENT_TOKENS_NOT_OVER,
    STATEMENT_TOKENS_EACH,
    STATEMENT_SALES_LIST,
    STATEMENT_SALES_LIST_LIVE,
    STATEMENT_SALES_LIST_SELLER,
    STATEMENT_SALES_LIST_EVENT,
    STATEMENT_ORDERS_LAST,
    STATEMENT_ORDERS_FROM,
    STATEMENT_ORDERS_LIST,
    STATEMENT_ORDERS_LIST_BUYER,
    STATEMENT_ORDERS_LIST_SALE,
    STATEMENT_ORDERS_LIST_SELLER,
    STATEMENT_ORDERS_LIST_ENDED,
    STATEMENT_ORDERS_LIST_SALE_ENDED,
    STATEMENT_ORDERS_LIST_SELLER_ENDED,
    STATEMENT_USER_INSERT,
    STATEMENT_USER,
    STATEMENT_REVOKED_INSERT,
    STATEMENT_REVOKED_EACH,
    STATEMENT_REVOKED_DELETE,
    STATEMENT_COUNT
};
extern const char *const statement_sql[STATEMENT_COUNT];

/* What the decisions of this transaction add up to for one sale, not yet written to its row. */
struct tally {
    uint64_t sale_id; /* 0: unused */
    int64_t offered, available, held, sold, orders_made, tokens_given;
};
#define TALLIES 1024

struct ledger {
    sqlite3 *db;
    sqlite3_stmt *statements[STATEMENT_COUNT];
    char *path;
    uint32_t patience_ms;
    uint64_t busy_since_ms; /* monotonic, of the wait under way */
    /* Filing: the last decision filed in this transaction, and the sums per sale, each at its id modulo TALLIES. */
    bool filing;
    uint64_t seq;
    struct tally tallies[TALLIES];
};

/* Says in the log what failed and what SQLite calls it, and which fault that is: FAULT_DAMAGE for a malformed file,
 * FAULT_TIMEOUT for one that others lock, FAULT_SPACE for a full disk, FAULT_LEDGER for all else. Also called for a step of
 * a statement that is still open. */
enum fault ledger_fault(struct ledger *ledger, int rc, const char *doing) MUST_USE;
enum fault ledger_run(struct ledger *ledger, const char *sql) MUST_USE; /* SQL without parameters */
void ledger_undo(struct ledger *ledger);                                /* rolls back if a transaction is open */

/* A small write waits for the lock; the clerk lets it go first. Around ledger_user_add() and the like. */
void ledger_queue_enter(void);
void ledger_queue_leave(void);
void ledger_queue_yield(void); /* lets those in the queue go first, for a bounded time */

enum fault statement_open(struct ledger *ledger, enum statement id, sqlite3_stmt **out) MUST_USE;
/* Ends the use of a statement. rc is what its last step answered; SQLITE_ROW and SQLITE_DONE are no fault. */
enum fault statement_close(struct ledger *ledger, enum statement id, int rc) MUST_USE;
void bind_number(sqlite3_stmt *statement, int at, uint64_t value); /* beyond 63 bits: as the same bits, signed */
void bind_signed(sqlite3_stmt *statement, int at, int64_t value);
void bind_slice(sqlite3_stmt *statement, int at, struct slice text); /* lives until statement_close() */
void bind_string(sqlite3_stmt *statement, int at, const char *text);

/* Rows as values, in the order of SALE_COLUMNS, ORDER_COLUMNS and TOKEN_COLUMNS. False when a value
 * cannot be: damage, which has been logged. */
#define SALE_COLUMNS                                                                                                        \
    "id, seller, name, description, currency, price, units_per_grab_max, grabs_per_buyer_max, opens_ms, closes_ms, "        \
    "pay_within_s, admission, tokens_max, admit_max, line_rate_per_s, line_size, line_timeout_ms, line_name, "              \
    "late_payment, event_id, offered, available, held, sold, orders_made, tokens_given, paused, closed"
#define ORDER_COLUMNS                                                                                                       \
    "no, sale, buyer, units, amount, state, won_ms, pay_by_ms, key, token_nonce, payment_ref, ended_ms, canceller, reason"
#define TOKEN_COLUMNS "nonce, sale, buyer, given_ms, spent"
bool row_sale(sqlite3_stmt *statement, struct sale *out);
bool row_order(sqlite3_stmt *statement, struct ledger_order *out);
bool row_token(sqlite3_stmt *statement, struct ledger_token *out);
bool row_string(sqlite3_stmt *statement, int column, char *out, size_t size);

#endif
