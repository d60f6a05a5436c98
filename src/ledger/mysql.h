/* mysql: the driver for MySQL 8 and MariaDB, by libmariadb. Inside this room only.
 *
 * Who writes takes the lock of one row first, in the order of asking, as SQLite's writers take the lock of its file: so that
 * the rules of filing and of the outbox hold without a word about databases. Clerks share it, all others take it alone.
 *
 * A connection that was lost is made anew when the next statement outside a transaction begins, and a question that met the
 * loss is asked once more. What was to be written is not: nobody knows whether it was. Whoever may write looks with every
 * connection whether the server keeps what it commits, for it may be another than before. */
#ifndef STAMPEDE_LEDGER_MYSQL_H
#define STAMPEDE_LEDGER_MYSQL_H

#include "ledger/database.h"
#include "ledger/watch.h"

#include <mysql.h>

#define MYSQL_PARAMETERS_MAX 32
#define MYSQL_POSITIONS_MAX 64

struct mysql_connection {
    MYSQL handle;
    bool connected;
    bool mariadb;
    bool in_transaction;
    bool rolled_back; /* or maybe: by a deadlock, a wait for a lock or the end of the connection, before it was asked for */
    bool bounded;     /* the server ends it when it is silent in a transaction */
    enum ledger_mode mode;
    uint32_t generation; /* of the connection: statements of one before are prepared anew */
    uint64_t changes, last_id;
    unsigned error; /* of the last failure, with its text: the handle forgets it */
    char error_text[MYSQL_ERRMSG_SIZE];
    struct watch_line line;
};

static inline struct mysql_connection *mysql_of(const struct ledger *ledger)
{
    return ledger->connection;
}

extern const char *const statement_mysql[STATEMENT_COUNT]; /* where it is not as SQLite reads it */

/* mysql_text.c: SQLite's words as MySQL's: numbered parameters become positions, and hints what MySQL calls them. False if
 * it does not fit. numbers[i]: which parameter position i is. */
struct mysql_text {
    char sql[8192];
    uint8_t numbers[MYSQL_POSITIONS_MAX];
    unsigned positions;
};
bool mysql_translate(struct mysql_text *out, const char *sql);

/* mysql_wait.c: between begin and end this thread waits for MySQL for so long in all, however many packets that takes; 0:
 * for each of them as the library was told. Where whom is given, which is a name for the log, a longer wait is said. */
void mysql_patience_begin(uint32_t ms, const char *whom);
void mysql_patience_end(void);
void mysql_patience_endless(bool endless); /* between a begin of 0 and its end: whether an answer may take any time */
bool mysql_patience_is_over(void);
int mysql_wait(my_socket fd, my_bool is_read, int library_ms); /* for the library, in place of its own */
void mysql_wait_under_tls(my_socket fd); /* once, of a connection with TLS: else nobody would ask it in time */

/* mysql.c */
enum fault mysql_ready(struct ledger *ledger) MUST_USE; /* connected, and not lost as far as can be seen */
enum fault mysql_connect_again(struct ledger *ledger) MUST_USE;
bool mysql_lost(unsigned error);     /* the connection is gone */
bool mysql_may_pass(unsigned error); /* a deadlock or a wait for a lock: the same once more may succeed */
void mysql_note(struct ledger *ledger, unsigned error, const char *text);
/* *wrong: the setting that lets it lose what it has committed; NULL: none. */
enum fault mysql_safety(struct ledger *ledger, const char **wrong) MUST_USE;
void mysql_safety_say(const struct ledger *ledger, const char *wrong);
enum fault mysql_fault_say(struct ledger *ledger, const char *doing) MUST_USE;
enum fault mysql_run(struct ledger *ledger, const char *sql) MUST_USE; /* without parameters and rows */
/* The first row's first columns as numbers; *found is false where there is none. */
enum fault mysql_ask(struct ledger *ledger, const char *sql, int64_t *numbers, unsigned count, bool *found) MUST_USE;

/* mysql_cursor.c */
enum fault mysql_prepare_statement(struct ledger *ledger, enum statement id, struct cursor **out) MUST_USE;
void mysql_release(struct cursor *cursor);
void mysql_bind_number(struct cursor *cursor, int at, int64_t value);
void mysql_bind_text(struct cursor *cursor, int at, struct slice text);
void mysql_bind_blob(struct cursor *cursor, int at, struct slice bytes);
enum step mysql_step(struct cursor *cursor);
void mysql_reset(struct cursor *cursor);
int64_t mysql_number(struct cursor *cursor, int column);
struct slice mysql_bytes(struct cursor *cursor, int column);

/* mysql_rows.c */
enum step mysql_queue(struct cursor *cursor);
enum step mysql_flush(struct cursor *cursor);
size_t mysql_fit(size_t count);
void mysql_rows_forget(struct ledger *ledger); /* what is queued: its transaction is rolled back */

/* mysql_whole.c: whether all that these statements make is there; else the log says what is not, and FAULT_LEDGER. */
enum fault mysql_whole_check(struct ledger *ledger, const char *const *statements, size_t count) MUST_USE;

/* mysql_schema.c */
#define MYSQL_SCHEMA_VERSION 1
/* At a start: makes the tables or changes those of an older release, one server at a time. FAULT_TIMEOUT when another has
 * been at it for a minute; FAULT_LEDGER when a change was interrupted, and as below. */
enum fault mysql_schema_make(struct ledger *ledger) MUST_USE;
/* Whenever else a ledger is opened. FAULT_LEDGER when there is none here, or one of an older release, or of a newer one that
 * this program may not work with; a change of tables that it may work with is no reason. */
enum fault mysql_schema_check(struct ledger *ledger) MUST_USE;

#endif
