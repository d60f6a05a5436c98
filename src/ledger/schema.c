#include "ledger/schema.h"

#include "base/log.h"
#include "ledger/sqlite.h"

#include <stdbool.h>
#include <stdint.h>

#define ORDERS_BY_BUYER_OF_NODES                                                                                            \
    "CREATE INDEX IF NOT EXISTS orders_by_buyer_of_nodes ON orders (buyer) WHERE no >= " TEXT_OF(ORDERS_OF_NODES)

/* Names compare as bytes (SQLite's BINARY): Ann is not ann. Times are milliseconds since 1970; 0 means none in closes_ms,
 * pay_within_s, pay_by_ms, ended_ms, tokens_max, admit_max, the numbers of a line, event_id and token_nonce, -1 means none
 * in price and amount. The CHECK of sales is P1, held once more by the database.
 *
 * An index ends with the number of its row by itself, so orders_by_sale serves (sale, no) and orders_by_buyer (era, buyer,
 * no) without storing the number twice. over_ms is when a sale is closed: at once, at closes_ms, or never.
 *
 * Buyers come in no order. In one index of all buyers nearly every order of a transaction would change a page of its own,
 * and filing would slow down as the ledger grows; within an era of numbers the pages that change are few and stay in the
 * cache. Who asks for a buyer's orders asks era by era, the newest first. Numbers that nodes make would be of an era each:
 * they have one index of all buyers, which is made where an earlier release has not.
 *
 * nth tells a buyer's orders that count apart where several nodes file them: at most one has each nth, and nth is at most
 * grabs_per_buyer_max. It is NULL where the order does not count, and where one engine has decided all: its orders need no
 * second guard, and stay out of its index.
 *
 * Orders that gave their units back are few among those that are paid: orders_ended finds them. It says state > 1, not IN
 * (2, 3, 4), for which SQLite would build a table at every update. */
static const char *const schema[] = {
    "CREATE TABLE meta (one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER NOT NULL) STRICT",

    "CREATE TABLE point ("
    " one INTEGER PRIMARY KEY CHECK (one = 1),"
    " seq INTEGER NOT NULL,"
    " digest INTEGER NOT NULL,"
    " at_ms INTEGER NOT NULL,"
    " sale_id_last INTEGER NOT NULL,"
    " uuid BLOB NOT NULL CHECK (length(uuid) = 16)) STRICT",

    "CREATE TABLE sales ("
    " id INTEGER PRIMARY KEY,"
    " seller TEXT NOT NULL,"
    " name TEXT NOT NULL,"
    " description TEXT NOT NULL,"
    " currency TEXT NOT NULL,"
    " price INTEGER NOT NULL,"
    " units_per_grab_max INTEGER NOT NULL,"
    " grabs_per_buyer_max INTEGER NOT NULL,"
    " opens_ms INTEGER NOT NULL,"
    " closes_ms INTEGER NOT NULL,"
    " pay_within_s INTEGER NOT NULL,"
    " admission INTEGER NOT NULL,"
    " tokens_max INTEGER NOT NULL,"
    " admit_max INTEGER NOT NULL,"
    " line_rate_per_s INTEGER NOT NULL,"
    " line_size INTEGER NOT NULL,"
    " line_timeout_ms INTEGER NOT NULL,"
    " line_name TEXT NOT NULL,"
    " late_payment INTEGER NOT NULL,"
    " event_id INTEGER NOT NULL,"
    " offered INTEGER NOT NULL,"
    " available INTEGER NOT NULL,"
    " held INTEGER NOT NULL,"
    " sold INTEGER NOT NULL,"
    " orders_made INTEGER NOT NULL,"
    " tokens_given INTEGER NOT NULL,"
    " paused INTEGER NOT NULL,"
    " closed INTEGER NOT NULL,"
    " holds_made INTEGER NOT NULL DEFAULT 0," /* from here on: what numbers.c counts */
    " holds_paid INTEGER NOT NULL DEFAULT 0,"
    " orders_cancelled INTEGER NOT NULL DEFAULT 0,"
    " orders_expired INTEGER NOT NULL DEFAULT 0,"
    " orders_refund_due INTEGER NOT NULL DEFAULT 0,"
    " units_cancelled INTEGER NOT NULL DEFAULT 0,"
    " units_expired INTEGER NOT NULL DEFAULT 0,"
    " units_refund_due INTEGER NOT NULL DEFAULT 0,"
    " units_returned INTEGER NOT NULL DEFAULT 0,"
    " sold_out_ms INTEGER NOT NULL DEFAULT 0,"
    " version INTEGER NOT NULL DEFAULT 0,"
    " epoch INTEGER NOT NULL DEFAULT 0,"
    " refused_epoch INTEGER NOT NULL DEFAULT 0," /* of the last refusal */
    " over_ms INTEGER GENERATED ALWAYS AS"
    "  (CASE WHEN closed THEN 0 WHEN closes_ms = 0 THEN 9223372036854775807 ELSE closes_ms END) VIRTUAL,"
    " UNIQUE (seller, name),"
    " CHECK (available >= 0 AND held >= 0 AND sold >= 0 AND available + held + sold = offered)) STRICT",
    "CREATE INDEX sales_by_seller ON sales (seller)",
    "CREATE INDEX sales_by_end ON sales (over_ms)",
    "CREATE INDEX sales_holding ON sales (id) WHERE held > 0",
    "CREATE INDEX sales_by_event ON sales (event_id) WHERE event_id > 0",
    "CREATE INDEX sales_by_version ON sales (version)",

    "CREATE TABLE orders ("
    " no INTEGER PRIMARY KEY,"
    " sale INTEGER NOT NULL,"
    " buyer TEXT NOT NULL,"
    " units INTEGER NOT NULL,"
    " amount INTEGER NOT NULL,"
    " state INTEGER NOT NULL,"
    " won_ms INTEGER NOT NULL,"
    " pay_by_ms INTEGER NOT NULL,"
    " key TEXT NOT NULL,"
    " token_nonce INTEGER NOT NULL,"
    " payment_ref TEXT NOT NULL,"
    " ended_ms INTEGER NOT NULL,"
    " canceller INTEGER NOT NULL,"
    " reason TEXT NOT NULL,"
    " nth INTEGER,"
    " era INTEGER GENERATED ALWAYS AS (no >> " TEXT_OF(ORDERS_ERA_BITS) ") VIRTUAL) STRICT",
    "CREATE INDEX orders_by_buyer ON orders (era, buyer)",
    "CREATE INDEX orders_by_sale ON orders (sale)",
    "CREATE INDEX orders_ended ON orders (state, sale) WHERE state > 1",
    "CREATE UNIQUE INDEX orders_by_key ON orders (sale, buyer, key) WHERE key <> ''",
    "CREATE UNIQUE INDEX orders_by_nth ON orders (sale, buyer, nth) WHERE nth IS NOT NULL",

    "CREATE TABLE tokens ("
    " nonce INTEGER PRIMARY KEY,"
    " sale INTEGER NOT NULL,"
    " buyer TEXT NOT NULL,"
    " given_ms INTEGER NOT NULL,"
    " spent INTEGER NOT NULL) STRICT", /* by the order of this number; 0: not spent */
    "CREATE INDEX tokens_not_spent ON tokens (sale) WHERE spent = 0",

    "CREATE TABLE users ("
    " username TEXT PRIMARY KEY,"
    " role INTEGER NOT NULL,"
    " password_hash TEXT NOT NULL,"
    " created_ms INTEGER NOT NULL) STRICT, WITHOUT ROWID",

    "CREATE TABLE revoked ("
    " id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " token_id INTEGER NOT NULL UNIQUE,"
    " expires_ms INTEGER NOT NULL) STRICT",

    "CREATE TABLE hooks ("
    " seller TEXT PRIMARY KEY,"
    " url TEXT NOT NULL,"
    " secret TEXT NOT NULL,"
    " secret_before TEXT NOT NULL," /* empty: none */
    " before_until_ms INTEGER NOT NULL,"
    " since_ms INTEGER NOT NULL,"
    " failed_ms INTEGER NOT NULL,"
    " error TEXT NOT NULL) STRICT, WITHOUT ROWID",

    /* An id is never given twice, also not after the last row is gone: receivers tell repetitions by it. stream is what the
     * notice is about, see stream_of() in outbox.c. */
    "CREATE TABLE outbox ("
    " id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " seller TEXT NOT NULL,"
    " kind INTEGER NOT NULL,"
    " stream INTEGER NOT NULL,"
    " sale INTEGER NOT NULL,"
    " order_no INTEGER NOT NULL,"
    " event INTEGER NOT NULL,"
    " at_ms INTEGER NOT NULL,"
    " state INTEGER NOT NULL,"
    " since_ms INTEGER NOT NULL,"
    " next_ms INTEGER NOT NULL,"
    " attempts INTEGER NOT NULL,"
    " status INTEGER NOT NULL,"
    " error TEXT NOT NULL,"
    " part INTEGER NOT NULL DEFAULT 0) STRICT",
    "CREATE INDEX outbox_due ON outbox (state, seller, next_ms)",
    "CREATE INDEX outbox_by_seller ON outbox (seller, state)",
    "CREATE INDEX outbox_tests ON outbox (seller, state) WHERE kind = 11",
    "CREATE INDEX outbox_by_stream ON outbox (stream, state)",

    /* How many notices a seller has in each state, so that nobody reads them to know it; kept by the database itself,
     * whatever touches them. */
    "CREATE TABLE outbox_counts ("
    " seller TEXT PRIMARY KEY,"
    " pending INTEGER NOT NULL CHECK (pending >= 0),"
    " failed INTEGER NOT NULL CHECK (failed >= 0)) STRICT, WITHOUT ROWID",
    "CREATE TRIGGER outbox_counted AFTER INSERT ON outbox BEGIN"
    " INSERT INTO outbox_counts VALUES (new.seller, new.state = 0, new.state = 1) ON CONFLICT (seller) DO UPDATE SET"
    "  pending = pending + (new.state = 0), failed = failed + (new.state = 1);"
    " END",
    "CREATE TRIGGER outbox_recounted AFTER UPDATE OF state ON outbox WHEN new.state <> old.state BEGIN"
    " UPDATE outbox_counts SET pending = pending + (new.state = 0) - (old.state = 0),"
    "  failed = failed + (new.state = 1) - (old.state = 1) WHERE seller = new.seller;"
    " END",
    "CREATE TRIGGER outbox_uncounted AFTER DELETE ON outbox BEGIN"
    " UPDATE outbox_counts SET pending = pending - (old.state = 0), failed = failed - (old.state = 1)"
    "  WHERE seller = old.seller;"
    " END",

    "CREATE TABLE outbox_mark ("
    " one INTEGER PRIMARY KEY CHECK (one = 1),"
    " hooks_version INTEGER NOT NULL,"
    " told_ms INTEGER NOT NULL) STRICT",

    /* told: its seller's webhook has been given the news, or had no need of it; nothing changes about it after. */
    "CREATE TABLE events ("
    " id INTEGER PRIMARY KEY,"
    " seller TEXT NOT NULL,"
    " name TEXT NOT NULL,"
    " description TEXT NOT NULL,"
    " opens_ms INTEGER NOT NULL,"
    " created_ms INTEGER NOT NULL,"
    " subscribers INTEGER NOT NULL,"
    " told INTEGER NOT NULL) STRICT",
    "CREATE INDEX events_by_seller ON events (seller)",
    "CREATE INDEX events_by_name ON events (name)",
    "CREATE INDEX events_not_told ON events (opens_ms) WHERE told = 0",

    /* place: from 0, without a gap. */
    "CREATE TABLE subscriptions ("
    " event INTEGER NOT NULL,"
    " buyer TEXT NOT NULL,"
    " place INTEGER NOT NULL,"
    " PRIMARY KEY (event, buyer)) STRICT, WITHOUT ROWID",
    "CREATE UNIQUE INDEX subscriptions_by_place ON subscriptions (event, place)",

    /* What waits to be published, and whether anything is. As in the outbox, an id is never given twice. */
    "CREATE TABLE publications ("
    " id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " kind INTEGER NOT NULL,"
    " sale INTEGER NOT NULL,"
    " order_no INTEGER NOT NULL,"
    " at_ms INTEGER NOT NULL) STRICT",
    "CREATE TABLE publishing ("
    " one INTEGER PRIMARY KEY CHECK (one = 1),"
    " name TEXT NOT NULL," /* empty: it was never on */
    " state INTEGER NOT NULL,"
    " waiting_max INTEGER NOT NULL,"
    " told_ms INTEGER NOT NULL,"
    " dropped INTEGER NOT NULL) STRICT",

    "INSERT INTO publishing VALUES (1, '', 0, 0, 0, 0)",
    /* What several nodes need of one ledger: see shared.h. */
    "CREATE TABLE withdrawals ("
    " no INTEGER PRIMARY KEY,"
    " sale INTEGER NOT NULL,"
    " units INTEGER NOT NULL,"
    " at_ms INTEGER NOT NULL) STRICT",
    "CREATE TABLE refusals (no INTEGER PRIMARY KEY, sale INTEGER NOT NULL) STRICT",
    "CREATE INDEX refusals_by_sale ON refusals (sale)",
    "CREATE TABLE errands ("
    " id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " kind INTEGER NOT NULL,"
    " sale INTEGER NOT NULL,"
    " epoch INTEGER NOT NULL,"
    " order_no INTEGER NOT NULL,"
    " units INTEGER NOT NULL,"
    " made_ms INTEGER NOT NULL) STRICT",
    "CREATE TABLE agreed (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID",
    "CREATE TABLE fences (job TEXT PRIMARY KEY, number INTEGER NOT NULL) STRICT, WITHOUT ROWID",
    "CREATE TABLE shelf (one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER NOT NULL) STRICT",

    "INSERT INTO shelf VALUES (1, 0)",
    "INSERT INTO outbox_mark VALUES (1, 0, 0)",
    "INSERT INTO point VALUES (1, 0, 0, 0, 0, zeroblob(16))",
    "INSERT INTO meta VALUES (1, " TEXT_OF(SCHEMA_VERSION) ")",
};

/* First number of the first row; *found is false where there is no row. Not from the table of statements: these run once,
 * and before the tables they name are known to be there. */
static enum fault number_ask(struct ledger *ledger, const char *sql, int64_t *number, bool *found)
{
    sqlite3_stmt *statement = NULL;
    int rc = sqlite3_prepare_v2(sqlite_of(ledger), sql, -1, &statement, NULL);
    if (rc != SQLITE_OK) return sqlite_fault(ledger, rc, "reading the schema");

    rc = sqlite3_step(statement);
    *found = rc == SQLITE_ROW;
    if (*found) *number = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    if (rc != SQLITE_ROW && rc != SQLITE_DONE) return sqlite_fault(ledger, rc, "reading the schema");
    return FAULT_NONE;
}

static enum fault tables_count(struct ledger *ledger, int64_t *all, int64_t *meta)
{
    bool found;
    enum fault fault = number_ask(ledger, "SELECT count(*) FROM sqlite_schema", all, &found);
    if (fault != FAULT_NONE) return fault;
    return number_ask(ledger, "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'meta'", meta, &found);
}

static enum fault version_check(struct ledger *ledger)
{
    int64_t version = 0;
    bool found = false;
    enum fault fault = number_ask(ledger, "SELECT version FROM meta", &version, &found);
    if (fault != FAULT_NONE) return fault;
    if (found && version == SCHEMA_VERSION) return FAULT_NONE;

    if (!found || version < 1) {
        log_error("ledger", "%s has no schema version: it is not a ledger, or a damaged one", ledger->path);
        return FAULT_DAMAGE;
    }
    log_error("ledger", "%s has schema version %lld, this program knows %d: it was written by %s release", ledger->path,
              (long long)version, SCHEMA_VERSION, version > SCHEMA_VERSION ? "a newer" : "an older");
    return FAULT_LEDGER;
}

enum fault schema_check(struct ledger *ledger)
{
    int64_t all = 0, meta = 0;
    enum fault fault = tables_count(ledger, &all, &meta);
    if (fault != FAULT_NONE) return fault;
    if (meta == 0) {
        log_error("ledger", "%s is not a ledger: it has no schema version", ledger->path);
        return FAULT_LEDGER;
    }
    return version_check(ledger);
}

static enum fault tables_create(struct ledger *ledger)
{
    for (size_t i = 0; i < sizeof(schema) / sizeof(schema[0]); i++) {
        enum fault fault = sqlite_run(ledger, schema[i]);
        if (fault != FAULT_NONE) return fault;
    }
    return FAULT_NONE;
}

enum fault schema_make(struct ledger *ledger)
{
    /* The write lock first: of two that come at once, the second finds the tables made. */
    enum fault fault = sqlite_run(ledger, "BEGIN IMMEDIATE");
    if (fault != FAULT_NONE) return fault;

    int64_t all = 0, meta = 0;
    fault = tables_count(ledger, &all, &meta);
    if (fault == FAULT_NONE && all > 0 && meta == 0) {
        log_error("ledger", "%s is a database of something else: it has tables, but no schema version", ledger->path);
        fault = FAULT_LEDGER;
    } else if (fault == FAULT_NONE) {
        fault = meta == 0 ? tables_create(ledger) : version_check(ledger);
    }
    if (fault == FAULT_NONE) fault = sqlite_run(ledger, ORDERS_BY_BUYER_OF_NODES);
    if (fault == FAULT_NONE) fault = sqlite_run(ledger, "COMMIT");
    if (fault != FAULT_NONE) sqlite_undo(ledger);
    return fault;
}
