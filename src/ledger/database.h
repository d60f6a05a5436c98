/* database: one connection and its prepared statements, whatever database it leads to. Inside this room only.
 *
 * Every statement is a row of the table in statements.c, prepared when first used and kept until the connection closes. The
 * pattern is statement_open(), bind, step, statement_close(): a statement left open would keep a reader's snapshot, and with
 * it the whole write-ahead log. What a database does in its own way is in the table of its driver. */
#ifndef STAMPEDE_LEDGER_DATABASE_H
#define STAMPEDE_LEDGER_DATABASE_H

#include "base/fault.h"
#include "base/slice.h"
#include "ledger/ledger.h"
#include "ledger/publications.h"

#include <stdbool.h>
#include <stdint.h>

struct notice;

enum statement {
    STATEMENT_BEGIN,
    STATEMENT_BEGIN_READ,
    STATEMENT_COMMIT,
    STATEMENT_POINT,
    STATEMENT_POINT_MOVE,
    STATEMENT_SALE_INSERT,
    STATEMENT_SALE_TERMS,
    STATEMENT_SALE_COUNTS,
    STATEMENT_SALE_LEFT,
    STATEMENT_SALE_LEFT_NOW,
    STATEMENT_SALE_NUMBERS,
    STATEMENT_SALE_PAUSED,
    STATEMENT_SALE_CLOSED,
    STATEMENT_ORDER_INSERT,
    STATEMENT_ORDER_INSERT_NTH,
    STATEMENT_ORDER_NTH,
    STATEMENT_ORDER_PAY,
    STATEMENT_ORDER_CANCEL,
    STATEMENT_ORDER_EXPIRE,
    STATEMENT_TOKEN_INSERT,
    STATEMENT_TOKEN_SPEND,
    STATEMENT_TOKEN,
    STATEMENT_SALE,
    STATEMENT_ORDER,
    STATEMENT_ORDER_BY_KEY,
    STATEMENT_ORDER_PLACE,
    STATEMENT_SALES_EACH,
    STATEMENT_SALES_NOT_OVER,
    STATEMENT_NAMES_EACH,
    STATEMENT_ORDERS_EACH,
    STATEMENT_ORDERS_EACH_OF,
    STATEMENT_SIZE,
    STATEMENT_SALES_UNEVEN,
    STATEMENT_SALES_MISCOUNTED,
    STATEMENT_OUTBOX_WRONG,
    STATEMENT_OUTBOX_TWICE,
    STATEMENT_EVENTS_WRONG,
    STATEMENT_SUBSCRIPTIONS_WRONG,
    STATEMENT_SALES_EVENTLESS,
    STATEMENT_ORDERS_SPAN,
    STATEMENT_ORDERS_NOT_OVER,
    STATEMENT_ORDERS_NOT_OVER_FEW,
    STATEMENT_TOKENS_NOT_OVER,
    STATEMENT_TOKENS_EACH,
    STATEMENT_SALES_LIST,
    STATEMENT_SALES_LIST_LIVE,
    STATEMENT_SALES_LIST_SELLER,
    STATEMENT_SALES_LIST_EVENT,
    STATEMENT_SALES_PAGE,
    STATEMENT_SALES_WON,
    STATEMENT_SALES_WON_ERA,
    STATEMENT_ORDERS_LAST,
    STATEMENT_ORDERS_FROM,
    STATEMENT_ORDERS_LIST,
    STATEMENT_ORDERS_LIST_BUYER,
    STATEMENT_ORDERS_LIST_BUYER_ERA,
    STATEMENT_ORDERS_LIST_SALE,
    STATEMENT_ORDERS_LIST_SELLER,
    STATEMENT_ORDERS_LIST_ENDED,
    STATEMENT_ORDERS_LIST_SALE_ENDED,
    STATEMENT_ORDERS_LIST_SELLER_ENDED,
    STATEMENT_USER_INSERT,
    STATEMENT_USER,
    STATEMENT_SELLS,
    STATEMENT_REVOKED_INSERT,
    STATEMENT_REVOKED_EACH,
    STATEMENT_REVOKED_DELETE,
    STATEMENT_HOOK,
    STATEMENT_HOOK_PUT,
    STATEMENT_HOOK_FAILED,
    STATEMENT_HOOK_DELETE,
    STATEMENT_HOOKS_EACH,
    STATEMENT_HOOKS_WORST,
    STATEMENT_HOOKS_CHANGED,
    STATEMENT_OUTBOX_MARK,
    STATEMENT_OUTBOX_TOLD,
    STATEMENT_OUTBOX_SALE,
    STATEMENT_OUTBOX_INSERT,
    STATEMENT_OUTBOX_INSERT_FIRST,
    STATEMENT_OUTBOX_CLOSINGS,
    STATEMENT_OUTBOX_FILE_CLOSINGS,
    STATEMENT_OUTBOX_FILE_OPENINGS,
    STATEMENT_EVENTS_TOLD,
    STATEMENT_OUTBOX_SELLER,
    STATEMENT_OUTBOX_DUE,
    STATEMENT_OUTBOX_STREAM,
    STATEMENT_OUTBOX_DELETE,
    STATEMENT_OUTBOX_FAILED,
    STATEMENT_OUTBOX_NEXT,
    STATEMENT_OUTBOX_STALE_SPAN,
    STATEMENT_OUTBOX_FAILED_SPAN,
    STATEMENT_OUTBOX_GIVE_UP,
    STATEMENT_OUTBOX_UNPARK,
    STATEMENT_OUTBOX_RETRY,
    STATEMENT_OUTBOX_RETRY_ALL,
    STATEMENT_OUTBOX_COUNTS,
    STATEMENT_OUTBOX_COUNTS_SELLER,
    STATEMENT_OUTBOX_LIST,
    STATEMENT_OUTBOX_PURGE,
    STATEMENT_OUTBOX_DROP,
    STATEMENT_OUTBOX_DROP_ALL,
    STATEMENT_OUTBOX_TESTS_DROP,
    STATEMENT_OUTBOX_TESTS,
    STATEMENT_EVENT_INSERT,
    STATEMENT_EVENT,
    STATEMENT_EVENT_CHANGE,
    STATEMENT_EVENT_COUNT,
    STATEMENT_EVENT_PART,
    STATEMENT_EVENTS_LIST,
    STATEMENT_EVENTS_LIST_SELLER,
    STATEMENT_SUBSCRIBED,
    STATEMENT_SUBSCRIBE,
    STATEMENT_PLACE_FILL,
    STATEMENT_UNSUBSCRIBE,
    STATEMENT_GOODS_OF_EVENT,
    STATEMENT_GOODS_OF_EVENT_NAME,
    STATEMENT_PUBLISHING,
    STATEMENT_PUBLISHING_SET,
    STATEMENT_PUBLISHING_TOLD,
    STATEMENT_PUBLICATION_INSERT,
    STATEMENT_PUBLICATION_DELETE,
    STATEMENT_PUBLICATIONS,
    STATEMENT_PUBLICATIONS_DROPPED,
    STATEMENT_PUBLICATIONS_OLDEST,
    STATEMENT_PUBLICATIONS_CLOSINGS,
    STATEMENT_PUBLICATIONS_FILE_CLOSINGS,
    STATEMENT_PUBLICATIONS_WRONG,
    STATEMENT_BUYER_LAST,
    STATEMENT_BUYER_NTHS,
    STATEMENT_WITHDRAWAL_INSERT,
    STATEMENT_WITHDRAWAL,
    STATEMENT_WITHDRAWALS_AFTER,
    STATEMENT_ORDERS_DUE,
    STATEMENT_ORDERS_NUMBER,
    STATEMENT_ERRAND_INSERT,
    STATEMENT_ERRANDS,
    STATEMENT_ERRANDS_OF,
    STATEMENT_ERRAND_DELETE,
    STATEMENT_AGREE,
    STATEMENT_AGREE_ANEW,
    STATEMENT_AGREED,
    STATEMENT_BUYERS_OVER,
    STATEMENT_FENCE,
    STATEMENT_FENCE_RAISE,
    STATEMENT_SHELF_MOVE,
    STATEMENT_SHELF_VERSION,
    STATEMENT_SALE_VERSION,
    STATEMENT_SALE_EPOCH,
    STATEMENT_SALE_ID_LAST,
    STATEMENT_SALES_LIVE_COUNT,
    STATEMENT_SALE_NAMED,
    STATEMENT_SHELVED,
    STATEMENT_SHELVED_NOT_OVER,
    STATEMENT_SHELVED_CHANGED,
    STATEMENT_REBUILD_ORDERS,
    STATEMENT_REBUILD_TOKENS,
    STATEMENT_REVOKED_AFTER,
    STATEMENT_REFUSAL,
    STATEMENT_REFUSAL_INSERT,
    STATEMENT_REFUSAL_DELETE,
    STATEMENT_REFUSALS_DELETE,
    STATEMENT_SALE_REFUSED,
    STATEMENT_COUNT
};
extern const char *const statement_sql[STATEMENT_COUNT]; /* as SQLite reads it */

/* A statement in use. The driver's own part follows it in memory. */
struct cursor {
    struct ledger *ledger;
    enum statement id;
};
/* CONFLICT: a constraint of the schema stands against it, which may be a row that is there already. */
enum step { STEP_ROW, STEP_DONE, STEP_CONFLICT, STEP_FAILED };

/* FILE: by the clerk. WRITE: by all others, a small one. READ: sees the same until its end. */
enum transaction { TRANSACTION_FILE, TRANSACTION_WRITE, TRANSACTION_READ };

struct ledger;

/* One database. Binding and reading cannot fail: a parameter or column that is not there is our mistake. */
struct driver {
    /* Connects, and makes or checks the schema. After a fault close is called as well. */
    enum fault (*open)(struct ledger *ledger, enum ledger_mode mode);
    void (*close)(struct ledger *ledger); /* rolls back what is open; cursors are freed before */
    const char *(*error)(struct ledger *ledger);
    /* Says in the log what failed and what the database calls it, and which fault that is. */
    enum fault (*fault)(struct ledger *ledger, const char *doing);

    enum fault (*begin)(struct ledger *ledger, enum transaction kind);
    enum fault (*commit)(struct ledger *ledger);
    void (*undo)(struct ledger *ledger);

    enum fault (*prepare)(struct ledger *ledger, enum statement id, struct cursor **out); /* *out may be prepared already */
    void (*release)(struct cursor *cursor);
    void (*bind_number)(struct cursor *cursor, int at, int64_t value);
    void (*bind_text)(struct cursor *cursor, int at, struct slice text);
    void (*bind_blob)(struct cursor *cursor, int at, struct slice bytes);
    enum step (*step)(struct cursor *cursor);
    void (*reset)(struct cursor *cursor);
    /* Where rows are better inserted many at a time: keeps what is bound, until flush or enough of them. Both answer for all
     * that were inserted now. NULL: there is nothing to gain. */
    enum step (*queue)(struct cursor *cursor);
    enum step (*flush)(struct cursor *cursor);
    size_t (*fit)(size_t count); /* how many go by one statement, all or none: the most that is not above count */
    int64_t (*number)(struct cursor *cursor, int column);
    struct slice (*bytes)(struct cursor *cursor, int column); /* data is NULL for SQL's NULL; until the next step */
    int64_t (*changes)(struct ledger *ledger);
    uint64_t (*last_id)(struct ledger *ledger);
    bool eras; /* orders_by_buyer is cut into eras of numbers, see schema.c */
};
extern const struct driver driver_sqlite, driver_mysql;

/* What the decisions of this transaction add up to for one sale, not yet written to its row. */
struct tally {
    uint64_t sale_id; /* 0: unused */
    int64_t offered, available, held, sold, orders_made, tokens_given;
    struct tally_numbers {
        int64_t holds_made, holds_paid, orders_cancelled, orders_expired, orders_refund_due;
        int64_t units_cancelled, units_expired, units_refund_due, units_returned;
    } numbers;
    bool there; /* whether it has a row, of which the rest is */
    int64_t available_before;
    uint64_t sold_out_ms; /* 0: not yet */
    uint64_t epoch;
    uint32_t grabs_per_buyer_max;
    int64_t tokens_left; /* to be given, as the row has it */
    bool refused;        /* something, in this epoch: see shared_take.c */
};
#define TALLIES 1024

/* What filing knows of a sale's hook, each at the sale's id modulo HOOKED_SALES. */
struct hooked_sale {
    uint64_t sale_id; /* 0: unused */
    bool hooked;
    uint64_t since_ms; /* what was decided before is not told */
    char seller[USERNAME_BYTES_MAX + 1];
    uint64_t transaction; /* in which available was read; other transactions may not have happened */
    int64_t available;
};
#define HOOKED_SALES 256

/* What filing knows of publishing, as of this transaction. */
struct publication_filing {
    bool on;
    enum publishing_state state;
    uint64_t waiting, waiting_max;
    uint64_t dropped; /* in this transaction, and not yet written */
};

struct ledger {
    const struct driver *driver;
    void *connection; /* the driver's own */
    struct cursor *statements[STATEMENT_COUNT];
    struct ledger_place place;
    const char *path; /* or URL, for the log */
    uint32_t patience_ms;
    bool hurried;           /* whoever has the row of a sale is not waited for */
    uint64_t busy_since_ms; /* monotonic, of the wait under way */
    /* Filing: the last decision filed in this transaction, and the sums per sale, each at its id modulo TALLIES. */
    bool filing;
    bool one_by_one; /* rows of this transaction are not queued */
    uint64_t seq;
    struct tally tallies[TALLIES];
    uint64_t transaction;   /* how many were begun */
    uint64_t hooks_version; /* that hooked was read at, and one more: 0 is before the first time */
    bool hooks_any;
    struct hooked_sale hooked[HOOKED_SALES];
    struct publication_filing publishing;
    char objection[64];        /* to the last row that cannot be */
    struct ledger_fence fence; /* of small transactions; its job is NULL where they need none */
};

/* Which fault a failure is: FAULT_DAMAGE for a malformed file, FAULT_TIMEOUT for what others lock, FAULT_SPACE for a full
 * disk, FAULT_UNSURE for a commit whose answer was lost, FAULT_LEDGER for all else. BEGIN waits for the lock of those who
 * write. */
enum fault ledger_begin(struct ledger *ledger, enum transaction kind) MUST_USE;
enum fault ledger_commit(struct ledger *ledger) MUST_USE;
void ledger_undo(struct ledger *ledger);        /* rolls back if a transaction is open */
int64_t ledger_changes(struct ledger *ledger);  /* rows that the last statement has found to change */
uint64_t ledger_last_id(struct ledger *ledger); /* given to the last row that was inserted */
const char *ledger_error(struct ledger *ledger);

/* A small write waits for the lock; the clerk lets it go first. Around ledger_user_add() and the like. */
void ledger_queue_enter(void);
void ledger_queue_leave(void);
void ledger_queue_yield(void); /* lets those in the queue go first, for a bounded time */

void ledger_lock_pause(void); /* between two tries for a lock */

enum fault statement_open(struct ledger *ledger, enum statement id, struct cursor **out) MUST_USE;
/* Ends the use of a statement. step is what its last one answered; STEP_ROW and STEP_DONE are no fault. */
enum fault statement_close(struct ledger *ledger, enum statement id, enum step step) MUST_USE;
enum step cursor_step(struct cursor *cursor) MUST_USE;
void cursor_reset(struct cursor *cursor);                        /* ends its use without a word, also after a conflict */
void bind_number(struct cursor *cursor, int at, uint64_t value); /* beyond 63 bits: as the same bits, signed */
void bind_signed(struct cursor *cursor, int at, int64_t value);
void bind_slice(struct cursor *cursor, int at, struct slice text); /* lives until statement_close() */
void bind_string(struct cursor *cursor, int at, const char *text);
void bind_blob(struct cursor *cursor, int at, struct slice bytes);
int64_t column_number(struct cursor *cursor, int column);
struct slice column_text(struct cursor *cursor, int column); /* until the next step; data is NULL for SQL's NULL */

/* file.c: inserts a row in the transaction under way, perhaps later and with others. *conflict tells a row that is there
 * already; where it is found later, the transaction fails. flush: they are all there when it returns. */
enum fault filing_insert(struct ledger *ledger, enum statement id, bool *conflict) MUST_USE;
enum fault filing_flush(struct ledger *ledger) MUST_USE;
enum fault filing_flush_one(struct ledger *ledger, enum statement id) MUST_USE;

/* outbox.c: what sellers with a hook are told, in the transaction that files it. begin: after the transaction has; file:
 * after the decision's own rows and sums. */
enum fault outbox_file_begin(struct ledger *ledger) MUST_USE;
enum fault outbox_file(struct ledger *ledger, const struct decision *decision) MUST_USE;
/* What happens by time alone within a span, by the statements of the outbox or by those of the publications. mark: *first is
 * false where another has written it. */
struct outbox_span;
enum fault moments_find(struct ledger *ledger, enum statement id, struct outbox_span span, bool *any) MUST_USE;
enum fault moments_mark(struct ledger *ledger, enum statement id, struct outbox_span span, bool *first) MUST_USE;
enum fault closings_file(struct ledger *ledger, enum statement id, struct outbox_span span) MUST_USE;
/* publications.c: what is published, in the same way; only while it is on. end: before the commit. */
enum fault publications_file_begin(struct ledger *ledger) MUST_USE;
enum fault publications_file(struct ledger *ledger, const struct notice *notice) MUST_USE;
enum fault publications_file_end(struct ledger *ledger) MUST_USE;
/* Around small transactions. begin: FAULT_FENCED where it is to be written as an owner that is none any more. end commits,
 * or rolls back for a fault, and answers the fault. */
enum fault small_begin(struct ledger *ledger) MUST_USE;
enum fault small_end(struct ledger *ledger, enum fault fault) MUST_USE;

/* Rows as values, in the order of SALE_COLUMNS, ORDER_COLUMNS and TOKEN_COLUMNS. False when a value
 * cannot be: damage, which has been logged. */
#define SALE_COLUMNS                                                                                                        \
    "id, seller, name, description, currency, price, units_per_grab_max, grabs_per_buyer_max, opens_ms, closes_ms, "        \
    "pay_within_s, admission, tokens_max, admit_max, line_rate_per_s, line_size, line_timeout_ms, line_name, "              \
    "late_payment, event_id, offered, available, held, sold, orders_made, tokens_given, paused, closed"
#define ORDER_COLUMNS                                                                                                       \
    "no, sale, buyer, units, amount, state, won_ms, pay_by_ms, key, token_nonce, payment_ref, ended_ms, canceller, reason"
/* What is known of a sale while decisions about it are filed: see struct tally. A sale without tokens_max never runs out. */
#define SALE_LEFT_COLUMNS                                                                                                   \
    "available, sold_out_ms, epoch, grabs_per_buyer_max,"                                                                   \
    " CASE WHEN tokens_max = 0 THEN 9223372036854775807 ELSE tokens_max - tokens_given END, refused_epoch"
#define SHELVED_COLUMNS SALE_COLUMNS ", version, epoch"
#define EVENT_COLUMNS "id, seller, name, description, opens_ms, created_ms, subscribers, told"
#define TOKEN_COLUMNS "nonce, sale, buyer, given_ms, spent"
#define HOOK_COLUMNS "seller, url, secret, secret_before, before_until_ms, since_ms, failed_ms, error"
#define NOTICE_COLUMNS                                                                                                      \
    "id, seller, kind, sale, order_no, event, at_ms, state, since_ms, next_ms, attempts, status, error, part"
bool row_sale(struct cursor *cursor, struct sale *out);
bool row_order(struct cursor *cursor, struct ledger_order *out);
bool row_token(struct cursor *cursor, struct ledger_token *out);
bool row_string(struct cursor *cursor, int column, char *out, size_t size);
bool row_u64(struct cursor *cursor, int column, uint64_t max, uint64_t *out);
bool row_u32(struct cursor *cursor, int column, uint32_t max, uint32_t *out);
void row_object(struct cursor *cursor, const char *what, int64_t number); /* logs which row, and keeps it */

#endif
