/* The tables of the ledger in MySQL, and how one version becomes the next.
 *
 * They are those of schema.c, and so are the names of indexes, which the statements force. Where SQLite has an index of some
 * rows only, here a column that is NULL for the others is indexed: their entries stand side by side at its beginning, and
 * cost little. Numbers of orders may be far apart here: orders_by_buyer has no eras.
 *
 * Changing tables is no transaction in MySQL: meta says which change is under way, and a change that was interrupted is for
 * people to mend.
 *
 * Nodes of the release before go on beside the first of a new one, while it changes the tables and after it, and each opens
 * the ledger anew as a routine. So meta says, too, from which version on a program may work with the tables as they are, and
 * says so before the first of them is changed. */
#include "ledger/mysql.h"

#include "base/log.h"

#include <stdio.h>
#include <string.h>

/* The lock of whoever makes or changes tables. It is asked for again and again: the library would take one long wait for a
 * server that hangs. */
#define LOCK_NAME "concat('stampede.', left(sha2(database(), 256), 32))"
#define LOCK_TRIES 30
#define LOCK_TRY_S 2
#define STATEMENT_BYTES_MAX 4096

/* Names compare byte for byte, and a space at the end counts: how that is called differs. */
#define COLLATION "utf8mb4_COLLATION"
#define TABLE_END ") ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE " COLLATION

static const char *const version_1[] = {
    "CREATE TABLE point ("
    " one TINYINT PRIMARY KEY CHECK (one = 1), seq BIGINT NOT NULL, digest BIGINT NOT NULL, at_ms BIGINT NOT NULL,"
    " sale_id_last BIGINT NOT NULL, uuid BINARY(16) NOT NULL" TABLE_END,

    "CREATE TABLE sales ("
    " id BIGINT PRIMARY KEY,"
    " seller VARCHAR(64) NOT NULL,"
    " name VARCHAR(128) NOT NULL,"
    " description VARCHAR(2000) NOT NULL,"
    " currency VARCHAR(3) NOT NULL,"
    " price BIGINT NOT NULL,"
    " units_per_grab_max BIGINT NOT NULL,"
    " grabs_per_buyer_max BIGINT NOT NULL,"
    " opens_ms BIGINT NOT NULL,"
    " closes_ms BIGINT NOT NULL,"
    " pay_within_s BIGINT NOT NULL,"
    " admission INT NOT NULL,"
    " tokens_max BIGINT NOT NULL,"
    " admit_max BIGINT NOT NULL,"
    " line_rate_per_s BIGINT NOT NULL,"
    " line_size BIGINT NOT NULL,"
    " line_timeout_ms BIGINT NOT NULL,"
    " line_name VARCHAR(32) NOT NULL,"
    " late_payment INT NOT NULL,"
    " event_id BIGINT NOT NULL,"
    " offered BIGINT NOT NULL,"
    " available BIGINT NOT NULL,"
    " held BIGINT NOT NULL,"
    " sold BIGINT NOT NULL,"
    " orders_made BIGINT NOT NULL,"
    " tokens_given BIGINT NOT NULL,"
    " paused TINYINT NOT NULL,"
    " closed TINYINT NOT NULL,"
    " holds_made BIGINT NOT NULL DEFAULT 0,"
    " holds_paid BIGINT NOT NULL DEFAULT 0,"
    " orders_cancelled BIGINT NOT NULL DEFAULT 0,"
    " orders_expired BIGINT NOT NULL DEFAULT 0,"
    " orders_refund_due BIGINT NOT NULL DEFAULT 0,"
    " units_cancelled BIGINT NOT NULL DEFAULT 0,"
    " units_expired BIGINT NOT NULL DEFAULT 0,"
    " units_refund_due BIGINT NOT NULL DEFAULT 0,"
    " units_returned BIGINT NOT NULL DEFAULT 0,"
    " sold_out_ms BIGINT NOT NULL DEFAULT 0,"
    " version BIGINT NOT NULL DEFAULT 0,"
    " epoch BIGINT NOT NULL DEFAULT 0,"
    " refused_epoch BIGINT NOT NULL DEFAULT 0,"
    " over_ms BIGINT GENERATED ALWAYS AS (CASE WHEN closed <> 0 THEN 0 WHEN closes_ms = 0 THEN 9223372036854775807"
    "  ELSE closes_ms END) VIRTUAL,"
    " UNIQUE KEY sales_by_name (seller, name),"
    " KEY sales_by_seller (seller),"
    " KEY sales_by_end (over_ms),"
    " KEY sales_holding (held),"
    " KEY sales_by_event (event_id),"
    " KEY sales_by_version (version),"
    " CHECK (available >= 0 AND held >= 0 AND sold >= 0 AND available + held + sold = offered)" TABLE_END,

    "CREATE TABLE orders ("
    " no BIGINT PRIMARY KEY,"
    " sale BIGINT NOT NULL,"
    " buyer VARCHAR(64) NOT NULL,"
    " units BIGINT NOT NULL,"
    " amount BIGINT NOT NULL,"
    " state TINYINT NOT NULL,"
    " won_ms BIGINT NOT NULL,"
    " pay_by_ms BIGINT NOT NULL,"
    " `key` VARCHAR(64) NOT NULL,"
    " token_nonce BIGINT NOT NULL,"
    " payment_ref VARCHAR(64) NOT NULL,"
    " ended_ms BIGINT NOT NULL,"
    " canceller TINYINT NOT NULL,"
    " reason VARCHAR(200) NOT NULL,"
    " nth BIGINT,"
    /* With its length in it, the key of a buyer is no other's: see KEYED in statements_mysql.c. */
    " keyed VARCHAR(160) GENERATED ALWAYS AS"
    "  (CASE WHEN `key` = '' THEN NULL ELSE concat(sale, ' ', length(`key`), ' ', `key`, buyer) END) VIRTUAL,"
    " ended TINYINT GENERATED ALWAYS AS (CASE WHEN state > 1 THEN state ELSE NULL END) VIRTUAL,"
    /* nth in as many digits as it can have: the last comes last. See COUNTED in statements_mysql.c. */
    " counted VARCHAR(128) GENERATED ALWAYS AS (CASE WHEN nth IS NULL THEN NULL"
    "  ELSE concat(sale, ' ', length(buyer), ' ', buyer, ' ', lpad(nth, 7, '0')) END) VIRTUAL,"
    " sale_held BIGINT GENERATED ALWAYS AS (CASE WHEN state = 0 AND nth IS NOT NULL THEN sale ELSE NULL END) VIRTUAL,"
    " UNIQUE KEY orders_by_nth (counted),"
    " KEY orders_held (sale_held, pay_by_ms),"
    " KEY orders_by_buyer (buyer),"
    " KEY orders_by_sale (sale),"
    " KEY orders_ended (ended, sale),"
    " UNIQUE KEY orders_by_key (keyed)" TABLE_END,

    "CREATE TABLE tokens ("
    " nonce BIGINT PRIMARY KEY,"
    " sale BIGINT NOT NULL,"
    " buyer VARCHAR(64) NOT NULL,"
    " given_ms BIGINT NOT NULL,"
    " spent BIGINT NOT NULL,"
    " sale_not_spent BIGINT GENERATED ALWAYS AS (CASE WHEN spent = 0 THEN sale ELSE NULL END) VIRTUAL,"
    " KEY tokens_not_spent (sale_not_spent)" TABLE_END,

    "CREATE TABLE users (username VARCHAR(64) PRIMARY KEY, role TINYINT NOT NULL, password_hash VARCHAR(160) NOT NULL,"
    " created_ms BIGINT NOT NULL" TABLE_END,

    "CREATE TABLE revoked (id BIGINT PRIMARY KEY AUTO_INCREMENT, token_id BIGINT NOT NULL UNIQUE,"
    " expires_ms BIGINT NOT NULL" TABLE_END,

    "CREATE TABLE hooks ("
    " seller VARCHAR(64) PRIMARY KEY,"
    " url VARCHAR(500) NOT NULL,"
    " secret VARCHAR(94) NOT NULL,"
    " secret_before VARCHAR(94) NOT NULL,"
    " before_until_ms BIGINT NOT NULL,"
    " since_ms BIGINT NOT NULL,"
    " failed_ms BIGINT NOT NULL,"
    " error VARCHAR(160) NOT NULL" TABLE_END,

    "CREATE TABLE outbox ("
    " id BIGINT PRIMARY KEY AUTO_INCREMENT,"
    " seller VARCHAR(64) NOT NULL,"
    " kind TINYINT NOT NULL,"
    " stream BIGINT NOT NULL,"
    " sale BIGINT NOT NULL,"
    " order_no BIGINT NOT NULL,"
    " event BIGINT NOT NULL,"
    " at_ms BIGINT NOT NULL,"
    " state TINYINT NOT NULL,"
    " since_ms BIGINT NOT NULL,"
    " next_ms BIGINT NOT NULL,"
    " attempts BIGINT NOT NULL,"
    " status BIGINT NOT NULL,"
    " error VARCHAR(160) NOT NULL,"
    " part BIGINT NOT NULL DEFAULT 0,"
    " tested VARCHAR(64) GENERATED ALWAYS AS (CASE WHEN kind = 11 THEN seller ELSE NULL END) VIRTUAL,"
    " KEY outbox_due (state, seller, next_ms),"
    " KEY outbox_by_seller (seller, state),"
    " KEY outbox_tests (tested, state),"
    " KEY outbox_by_stream (stream, state)" TABLE_END,

    "CREATE TABLE outbox_counts ("
    " seller VARCHAR(64) PRIMARY KEY,"
    " pending BIGINT NOT NULL CHECK (pending >= 0),"
    " failed BIGINT NOT NULL CHECK (failed >= 0)" TABLE_END,
    "CREATE TRIGGER outbox_counted AFTER INSERT ON outbox FOR EACH ROW"
    " INSERT INTO outbox_counts (seller, pending, failed) VALUES (new.seller, new.state = 0, new.state = 1)"
    "  ON DUPLICATE KEY UPDATE pending = pending + (new.state = 0), failed = failed + (new.state = 1)",
    "CREATE TRIGGER outbox_recounted AFTER UPDATE ON outbox FOR EACH ROW"
    " UPDATE outbox_counts SET pending = pending + (new.state = 0) - (old.state = 0),"
    "  failed = failed + (new.state = 1) - (old.state = 1) WHERE seller = new.seller AND new.state <> old.state",
    "CREATE TRIGGER outbox_uncounted AFTER DELETE ON outbox FOR EACH ROW"
    " UPDATE outbox_counts SET pending = pending - (old.state = 0), failed = failed - (old.state = 1)"
    "  WHERE seller = old.seller",

    "CREATE TABLE outbox_mark ("
    " one TINYINT PRIMARY KEY CHECK (one = 1), hooks_version BIGINT NOT NULL, told_ms BIGINT NOT NULL" TABLE_END,

    "CREATE TABLE events ("
    " id BIGINT PRIMARY KEY AUTO_INCREMENT,"
    " seller VARCHAR(64) NOT NULL,"
    " name VARCHAR(128) NOT NULL,"
    " description VARCHAR(2000) NOT NULL,"
    " opens_ms BIGINT NOT NULL,"
    " created_ms BIGINT NOT NULL,"
    " subscribers BIGINT NOT NULL,"
    " told TINYINT NOT NULL,"
    " KEY events_by_seller (seller),"
    " KEY events_by_name (name),"
    " KEY events_not_told (told, opens_ms)" TABLE_END,

    "CREATE TABLE subscriptions ("
    " event BIGINT NOT NULL,"
    " buyer VARCHAR(64) NOT NULL,"
    " place BIGINT NOT NULL,"
    " PRIMARY KEY (event, buyer),"
    " UNIQUE KEY subscriptions_by_place (event, place)" TABLE_END,

    "CREATE TABLE publications ("
    " id BIGINT PRIMARY KEY AUTO_INCREMENT,"
    " kind TINYINT NOT NULL,"
    " sale BIGINT NOT NULL,"
    " order_no BIGINT NOT NULL,"
    " at_ms BIGINT NOT NULL" TABLE_END,
    "CREATE TABLE publishing ("
    " one TINYINT PRIMARY KEY CHECK (one = 1),"
    " name VARCHAR(16) NOT NULL,"
    " state TINYINT NOT NULL,"
    " waiting_max BIGINT NOT NULL,"
    " told_ms BIGINT NOT NULL,"
    " dropped BIGINT NOT NULL" TABLE_END,

    "INSERT INTO publishing VALUES (1, '', 0, 0, 0, 0)",
    "CREATE TABLE withdrawals ("
    " no BIGINT PRIMARY KEY,"
    " sale BIGINT NOT NULL,"
    " units BIGINT NOT NULL,"
    " at_ms BIGINT NOT NULL" TABLE_END,
    "CREATE TABLE refusals (no BIGINT PRIMARY KEY, sale BIGINT NOT NULL, KEY refusals_by_sale (sale)" TABLE_END,
    "CREATE TABLE errands ("
    " id BIGINT PRIMARY KEY AUTO_INCREMENT,"
    " kind TINYINT NOT NULL,"
    " sale BIGINT NOT NULL,"
    " epoch BIGINT NOT NULL,"
    " order_no BIGINT NOT NULL,"
    " units BIGINT NOT NULL,"
    " made_ms BIGINT NOT NULL" TABLE_END,
    "CREATE TABLE agreed (name VARCHAR(32) PRIMARY KEY, value VARCHAR(64) NOT NULL" TABLE_END,
    "CREATE TABLE fences (job VARCHAR(32) PRIMARY KEY, number BIGINT NOT NULL" TABLE_END,
    "CREATE TABLE shelf (one TINYINT PRIMARY KEY CHECK (one = 1), version BIGINT NOT NULL" TABLE_END,

    "INSERT INTO shelf VALUES (1, 0)",
    "INSERT INTO outbox_mark VALUES (1, 0, 0)",
    "INSERT INTO point VALUES (1, 0, 0, 0, 0, x'00000000000000000000000000000000')",
};

/* Row N leads from version N to N + 1; what a release has made is never changed here. A program of version works_from or
 * later may work with the tables after each statement of it: what it asks for keeps its name and its meaning, and a column
 * that it does not know has a default. */
static const struct migration {
    const char *const *statements;
    size_t count;
    int works_from;
} migrations[] = {
    { version_1, sizeof(version_1) / sizeof(version_1[0]), 1 },
};
_Static_assert(sizeof(migrations) / sizeof(migrations[0]) == MYSQL_SCHEMA_VERSION, "each version has its row");

static enum fault statement_run(struct ledger *ledger, const char *sql)
{
    char text[STATEMENT_BYTES_MAX];
    const char *word = mysql_of(ledger)->mariadb ? "utf8mb4_nopad_bin" : "utf8mb4_0900_bin";
    const char *at = strstr(sql, COLLATION);
    if (at == NULL) return mysql_run(ledger, sql);
    int len = snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - sql), sql, word, at + strlen(COLLATION));
    return len < (int)sizeof(text) ? mysql_run(ledger, text) : FAULT_CONFIG;
}

/* What there is: tables at all, meta among them, and what meta says. */
struct standing {
    int64_t tables, meta;
    bool row;
    int64_t version, changing, works_from;
    bool in_hand; /* another server has the lock of those who make or change tables */
};

static enum fault standing_read(struct ledger *ledger, struct standing *out)
{
    bool found;
    int64_t numbers[4] = { 0, 0, 0, 0 };
    *out = (struct standing){ .row = false };
    enum fault fault = mysql_ask(ledger,
                                 "SELECT count(*), coalesce(sum(table_name = 'meta'), 0) FROM information_schema.tables"
                                 " WHERE table_schema = database() AND table_name <> 'rights'",
                                 numbers, 2, &found);
    out->tables = numbers[0];
    out->meta = numbers[1];
    if (fault != FAULT_NONE || out->meta == 0) return fault;
    fault = mysql_ask(ledger,
                      "SELECT version, changing, works_from, coalesce(is_used_lock(" LOCK_NAME ") <> connection_id(), 0)"
                      " FROM meta",
                      numbers, 4, &out->row);
    if (!out->row) return fault;
    out->version = numbers[0];
    out->changing = numbers[1];
    out->works_from = numbers[2];
    out->in_hand = numbers[3] == 1;
    return fault;
}

static bool is_beyond_us(const struct standing *found)
{
    return found->works_from > MYSQL_SCHEMA_VERSION;
}

/* Also while a newer release changes them. */
static bool may_work(const struct standing *found)
{
    return found->row && found->version >= MYSQL_SCHEMA_VERSION && !is_beyond_us(found);
}

/* Says why, and what to do. */
static enum fault refuse(struct ledger *ledger, const struct standing *found)
{
    if (found->meta == 0) {
        log_error("ledger", "%s is not a ledger: it has no table meta", ledger->path);
    } else if (is_beyond_us(found)) {
        log_error("ledger",
                  "%s has a schema for programs that know version %lld or later, this program knows %d: it was written by a "
                  "newer release; start that one",
                  ledger->path, (long long)found->works_from, MYSQL_SCHEMA_VERSION);
    } else if (found->changing != 0 && found->in_hand) {
        log_error("ledger", "%s: another server is making or changing the tables; wait for it, and start again",
                  ledger->path);
    } else if (!found->row || (found->changing != 0 && found->version == 0)) {
        log_error("ledger",
                  "%s was being made when that was interrupted, and nothing is filed in it yet: drop its tables or the "
                  "database, make it anew, and start again",
                  ledger->path);
    } else if (found->changing != 0) {
        log_error("ledger",
                  "%s was being changed from schema version %lld to the next when that was interrupted: stop all its "
                  "servers, put back the copy of the database made before, and start again",
                  ledger->path, (long long)found->version);
    } else {
        log_error("ledger",
                  "%s has schema version %lld, this program knows %d: it was written by an older release; start the server "
                  "once, which changes it",
                  ledger->path, (long long)found->version, MYSQL_SCHEMA_VERSION);
    }
    return FAULT_LEDGER;
}

/* Whoever runs goes on while a newer release changes the tables, and after that was interrupted, too, which a start says. */
enum fault mysql_schema_check(struct ledger *ledger)
{
    struct standing found;
    enum fault fault = standing_read(ledger, &found);
    if (fault != FAULT_NONE) return fault;
    return may_work(&found) ? FAULT_NONE : refuse(ledger, &found);
}

static enum fault tables_check(struct ledger *ledger)
{
    enum fault fault = FAULT_NONE;
    for (const struct migration *it = migrations; it < migrations + MYSQL_SCHEMA_VERSION && fault == FAULT_NONE; it++)
        fault = mysql_whole_check(ledger, it->statements, it->count);
    return fault;
}

/* At a start, by one that has nothing to make or to change. A newer schema is no reason to stay away: the release before may
 * start again in the midst of an upgrade, or after an upgrade that was taken back. */
static enum fault start_with(struct ledger *ledger, const struct standing *found)
{
    if (!may_work(found) || found->changing != 0) return refuse(ledger, found);
    if (found->version == MYSQL_SCHEMA_VERSION) return tables_check(ledger);
    log_info("ledger", "%s has schema version %lld, of a newer release; this program knows %d, and may work with it",
             ledger->path, (long long)found->version, MYSQL_SCHEMA_VERSION);
    return FAULT_NONE;
}

/* What a user may not do is found before there are tables that would be half made. */
static enum fault rights_try(struct ledger *ledger)
{
    static const char *const trial[] = {
        "CREATE TABLE IF NOT EXISTS rights (n INT PRIMARY KEY) ENGINE = InnoDB",
        "DROP TRIGGER IF EXISTS rights_tried",
        "CREATE TRIGGER rights_tried AFTER INSERT ON rights FOR EACH ROW SET @rights_tried = 1",
        "INSERT IGNORE INTO rights VALUES (1)",
        "UPDATE rights SET n = 2",
        "DELETE FROM rights",
        "DROP TABLE rights",
    };
    for (size_t i = 0; i < sizeof(trial) / sizeof(trial[0]); i++) {
        enum fault fault = mysql_run(ledger, trial[i]);
        if (fault != FAULT_NONE) return fault;
    }
    return FAULT_NONE;
}

static enum fault meta_make(struct ledger *ledger)
{
    enum fault fault = rights_try(ledger);
    if (fault != FAULT_NONE) return fault;
    fault = statement_run(ledger,
                          "CREATE TABLE meta (one TINYINT PRIMARY KEY CHECK (one = 1),"
                          " version BIGINT NOT NULL, changing TINYINT NOT NULL, works_from BIGINT NOT NULL" TABLE_END);
    return fault != FAULT_NONE ? fault : mysql_run(ledger, "INSERT INTO meta VALUES (1, 0, 0, 0)");
}

/* Who gives up in the midst of a change leaves it interrupted, and that is worse than any wait: for a large table, which
 * takes minutes, or for those who read it at length, as an export does. What waits for them in vain has changed nothing. */
static enum fault change_run(struct ledger *ledger, const char *sql)
{
    enum fault fault;
    mysql_patience_endless(true);
    do fault = statement_run(ledger, sql);
    while (fault == FAULT_TIMEOUT && mysql_of(ledger)->connected && mysql_may_pass(mysql_of(ledger)->error));
    mysql_patience_endless(false);
    return fault;
}

static enum fault migrate(struct ledger *ledger, const struct migration *migration)
{
    char sql[96];
    snprintf(sql, sizeof(sql), "UPDATE meta SET changing = 1, works_from = greatest(works_from, %d)", migration->works_from);
    enum fault fault = change_run(ledger, sql);
    for (size_t i = 0; i < migration->count && fault == FAULT_NONE; i++)
        fault = change_run(ledger, migration->statements[i]);
    return fault != FAULT_NONE ? fault : change_run(ledger, "UPDATE meta SET version = version + 1, changing = 0");
}

static enum fault migrations_run(struct ledger *ledger)
{
    struct standing found;
    enum fault fault = standing_read(ledger, &found);
    if (fault == FAULT_NONE && found.meta == 0 && found.tables > 0) {
        log_error("ledger", "%s is a database of something else: it has tables, but no table meta; name an empty one",
                  ledger->path);
        return FAULT_LEDGER;
    }
    if (fault == FAULT_NONE && found.meta == 0) {
        fault = meta_make(ledger);
        if (fault == FAULT_NONE) fault = standing_read(ledger, &found);
    }
    if (fault != FAULT_NONE) return fault;
    if (found.row && found.changing == 0 && found.version >= 0 && found.version < MYSQL_SCHEMA_VERSION) {
        if (found.version > 0)
            log_warn("ledger",
                     "%s: changing the tables, which may take minutes; a server that is killed meanwhile leaves them half "
                     "changed",
                     ledger->path);
        for (int64_t version = found.version; version < MYSQL_SCHEMA_VERSION && fault == FAULT_NONE; version++)
            fault = migrate(ledger, &migrations[version]);
        if (fault == FAULT_NONE) fault = standing_read(ledger, &found);
    }
    return fault != FAULT_NONE ? fault : start_with(ledger, &found);
}

static enum fault lock_take(struct ledger *ledger, int64_t *locked)
{
    char sql[128];
    bool found;
    *locked = 0;
    snprintf(sql, sizeof(sql), "SELECT get_lock(" LOCK_NAME ", %d)", LOCK_TRY_S);
    for (int tries = 0; tries < LOCK_TRIES; tries++) {
        enum fault fault = mysql_ask(ledger, sql, locked, 1, &found);
        if (fault != FAULT_NONE || *locked == 1) return fault;
        if (tries == 0)
            log_info("ledger", "%s: another server is making or changing the tables: waiting for it", ledger->path);
    }
    return FAULT_NONE;
}

/* Of two servers that start at once, the second waits for the first and finds the tables made. So does one that starts while
 * a newer release changes them: only the lock tells a change under way from one that was interrupted. */
enum fault mysql_schema_make(struct ledger *ledger)
{
    int64_t locked;
    bool found;
    struct standing standing;
    enum fault fault = standing_read(ledger, &standing);
    if (fault != FAULT_NONE) return fault;
    if (is_beyond_us(&standing) || (may_work(&standing) && standing.changing == 0)) return start_with(ledger, &standing);
    fault = lock_take(ledger, &locked);
    if (fault == FAULT_NONE && locked != 1) {
        log_error("ledger",
                  "%s: another server has been making or changing the tables for a minute; wait for it, and start again",
                  ledger->path);
        return FAULT_TIMEOUT;
    }
    if (fault != FAULT_NONE) return fault;
    fault = migrations_run(ledger);
    enum fault released = mysql_ask(ledger, "SELECT release_lock(" LOCK_NAME ")", &locked, 1, &found);
    return fault != FAULT_NONE ? fault : released;
}
