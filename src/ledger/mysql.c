/* The connection to MySQL: its session, transactions, and what its errors mean. */
#include "ledger/mysql.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

#include <assert.h>
#include <errmsg.h>
#include <mysqld_error.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONNECT_S_MAX 5
#define WRITE_S_MAX 10
#define READ_S_MAX 30
#define READ_S_MAX_WATCHED 10
#define REACH_S_MAX 10 /* to connect and to get to know the server, in all */
#define ASKED_MAX 8    /* columns of mysql_ask() */
#define DOING_BYTES_MAX 300
#define LOCK_NOWAIT_MYSQL 3572     /* what MySQL says where MariaDB says that a wait is over */
#define SILENT_TOO_LONG_MYSQL 4031 /* what MySQL says before it ends a connection for that */

/* Reading what others have committed is what the rules of filing need: who changes a row holds its lock. The rest makes
 * MySQL refuse what it would otherwise mend in silence. */
static const char session[] =
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO,NO_ZERO_DATE,"
    "NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT', autocommit = 1, lock_wait_timeout = 5, net_write_timeout = 600";

bool mysql_lost(unsigned error)
{
    return error == CR_SERVER_GONE_ERROR || error == CR_SERVER_LOST || error == CR_SERVER_LOST_EXTENDED ||
           error == CR_SSL_CONNECTION_ERROR || error == ER_SERVER_SHUTDOWN || error == ER_CONNECTION_KILLED ||
           error == CR_CONNECTION_ERROR || error == CR_CONN_HOST_ERROR || error == ER_NORMAL_SHUTDOWN ||
           error == ER_UNKNOWN_STMT_HANDLER || error == SILENT_TOO_LONG_MYSQL;
}

bool mysql_may_pass(unsigned error)
{
    return error == ER_LOCK_DEADLOCK || error == ER_LOCK_WAIT_TIMEOUT || error == LOCK_NOWAIT_MYSQL;
}

void mysql_note(struct ledger *ledger, unsigned error, const char *text)
{
    struct mysql_connection *connection = mysql_of(ledger);
    connection->error = error;
    snprintf(connection->error_text, sizeof(connection->error_text), "%s", text);
    if (mysql_lost(error)) {
        connection->connected = false;
        ledger_watch_doubt(ledger->place.watch);
    }
    /* After a wait for a lock only where the server has innodb_rollback_on_timeout; but nobody goes on after one. */
    if (mysql_lost(error) || mysql_may_pass(error)) connection->rolled_back = true;
}

static void handle_note(struct ledger *ledger)
{
    MYSQL *handle = &mysql_of(ledger)->handle;
    unsigned error = mysql_errno(handle);
    bool late = (error == CR_SERVER_LOST || error == CR_SSL_CONNECTION_ERROR) && mysql_patience_is_over();
    mysql_note(ledger, late ? CR_SERVER_LOST : error, late ? "it has not answered in time" : mysql_error(handle));
}

#define RIGHTS_ADVICE "; give its user GRANT ALL ON the database, or the rights that docs/operations.md names"

/* What whoever reads of it can do. */
static const char *advice(unsigned error)
{
    static const struct {
        unsigned error;
        const char *text;
    } advices[] = {
        { ER_ACCESS_DENIED_ERROR, "; check the user in the URL, and ledger_password_file or STAMPEDE_LEDGER_PASSWORD" },
        { ER_DBACCESS_DENIED_ERROR, RIGHTS_ADVICE },
        { ER_TABLEACCESS_DENIED_ERROR, RIGHTS_ADVICE },
        { ER_BAD_DB_ERROR, "; make it with CREATE DATABASE, or name another in the URL" },
        { ER_BAD_FIELD_ERROR, "; its tables are of an early build: CHANGELOG.md says how to change them" },
        { ER_CON_COUNT_ERROR, "; raise max_connections on the server" },
        { ER_OPTION_PREVENTS_STATEMENT, "; name one in the URL that may be written, the master of its replicas" },
        { ER_BINLOG_CREATE_ROUTINE_NEED_SUPER, "; set log_bin_trust_function_creators = 1 on the server" },
        { CR_UNKNOWN_HOST, "; check the host in the URL" },
        { CR_CONNECTION_ERROR, "; check that a server runs there, and the host and the port in the URL" },
        { CR_CONN_HOST_ERROR, "; check that a server runs there, and the host and the port in the URL" },
        { CR_SSL_CONNECTION_ERROR,
          "; see that the server offers TLS and that its certificate fits ledger_tls_ca and the host" },
        { CR_SERVER_LOST, "; check that the server there is well, and that it is MySQL or MariaDB" },
    };
    for (size_t i = 0; i < sizeof(advices) / sizeof(advices[0]); i++) {
        if (advices[i].error == error) return advices[i].text;
    }
    return "";
}

enum fault mysql_fault_say(struct ledger *ledger, const char *doing)
{
    const struct mysql_connection *connection = mysql_of(ledger);
    char sentence[LEDGER_SENTENCE_BYTES];
    /* Of one that is away the watch has said it; each who asks would say it again. */
    if (!ledger->place.quiet && ledger_watch_health(ledger->place.watch) < LEDGER_GONE) {
        snprintf(sentence, sizeof(sentence), "%s: %.*s failed: %s (%u)%s", ledger->path, DOING_BYTES_MAX, doing,
                 connection->error_text, connection->error, advice(connection->error));
        ledger_watch_say(ledger->place.watch, sentence);
    }
    switch (connection->error) {
    case ER_LOCK_DEADLOCK:
    case ER_LOCK_WAIT_TIMEOUT:
    case LOCK_NOWAIT_MYSQL:
        return FAULT_TIMEOUT;
    case ER_DISK_FULL:
    case ER_RECORD_FILE_FULL:
        return FAULT_SPACE;
    case ER_NOT_KEYFILE:
    case ER_CRASHED_ON_USAGE:
    case ER_INDEX_CORRUPT:
        return FAULT_DAMAGE;
    default:
        return FAULT_LEDGER;
    }
}

enum fault mysql_run(struct ledger *ledger, const char *sql)
{
    if (mysql_real_query(&mysql_of(ledger)->handle, sql, (unsigned long)strlen(sql)) == 0) return FAULT_NONE;
    handle_note(ledger);
    return mysql_fault_say(ledger, sql);
}

enum fault mysql_ask(struct ledger *ledger, const char *sql, int64_t *numbers, unsigned count, bool *found)
{
    MYSQL *handle = &mysql_of(ledger)->handle;
    assert(count <= ASKED_MAX);
    *found = false;
    MYSQL_RES *result = NULL;
    if (mysql_real_query(handle, sql, (unsigned long)strlen(sql)) == 0) result = mysql_store_result(handle);
    if (result == NULL) {
        handle_note(ledger);
        return mysql_fault_say(ledger, sql);
    }
    MYSQL_ROW row = mysql_fetch_row(result);
    *found = row != NULL;
    for (unsigned i = 0; row != NULL && i < count; i++) {
        uint64_t number = 0;
        bool good = row[i] != NULL && text_to_u64(slice_of(row[i]), &number);
        numbers[i] = good ? (int64_t)number : -1;
    }
    mysql_free_result(result);
    return FAULT_NONE;
}

/* TLS is as safe as what it is checked against: "required" hides what is said from those who only listen. */
static void tls_choose(MYSQL *handle, const struct ledger_place *place)
{
    my_bool enforce = place->tls != PLACE_TLS_OFF, verify = place->tls == PLACE_TLS_VERIFY;
    mysql_optionsv(handle, MYSQL_OPT_SSL_ENFORCE, &enforce);
    mysql_optionsv(handle, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &verify);
    if (place->tls_ca[0] != '\0') mysql_optionsv(handle, MYSQL_OPT_SSL_CA, place->tls_ca);
}

static unsigned answer_s_max(const struct ledger_place *place)
{
    if (place->answer_s_max != 0) return place->answer_s_max;
    return place->watch != NULL ? READ_S_MAX_WATCHED : READ_S_MAX;
}

static void options_choose(MYSQL *handle, const struct ledger_place *place)
{
    unsigned read_s = answer_s_max(place);
    unsigned connect_s = read_s < CONNECT_S_MAX ? read_s : CONNECT_S_MAX,
             write_s = read_s < WRITE_S_MAX ? read_s : WRITE_S_MAX;
    my_bool found = 1, no = 0;
    mysql_optionsv(handle, MYSQL_OPT_CONNECT_TIMEOUT, &connect_s);
    mysql_optionsv(handle, MYSQL_OPT_WRITE_TIMEOUT, &write_s);
    if (!place->patient) mysql_optionsv(handle, MYSQL_OPT_READ_TIMEOUT, &read_s);
    mysql_optionsv(handle, MARIADB_OPT_IO_WAIT, (void *)mysql_wait);
    mysql_optionsv(handle, MYSQL_OPT_RECONNECT, &no); /* behind our back it would lose a transaction */
    mysql_optionsv(handle, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    mysql_optionsv(handle, MARIADB_OPT_FOUND_ROWS, &found);
    mysql_optionsv(handle, MYSQL_OPT_CONNECT_ATTR_ADD, "program_name", "stampede");
    if (place->tls != PLACE_TLS_OFF) tls_choose(handle, place);
}

/* A wait for a lock ends after a second, and is begun again until patience does. */
static enum fault session_begin(struct ledger *ledger)
{
    enum fault fault = mysql_run(ledger, session);
    if (fault == FAULT_NONE) fault = mysql_run(ledger, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
    if (fault == FAULT_NONE) fault = mysql_run(ledger, "SET SESSION innodb_lock_wait_timeout = 1");
    if (fault == FAULT_NONE)
        fault = mysql_run(ledger, mysql_of(ledger)->mariadb ? "SET SESSION max_recursive_iterations = 4294967295"
                                                            : "SET SESSION cte_max_recursion_depth = 4294967295");
    return fault;
}

/* Whoever waits for a database that does not answer keeps somebody waiting who could be told so. The watch has said it. */
static bool is_silent(struct ledger *ledger)
{
    if (ledger_watch_health(ledger->place.watch) != LEDGER_SILENT) return false;
    snprintf(mysql_of(ledger)->error_text, MYSQL_ERRMSG_SIZE, "the database does not answer");
    mysql_of(ledger)->error = CR_SERVER_GONE_ERROR;
    return true;
}

/* A database that may forget what it said it had committed would make every order's confirmation a guess. */
enum fault mysql_safety(struct ledger *ledger, const char **wrong)
{
    int64_t values[3] = { -1, -1, -1 };
    bool found;
    enum fault fault = mysql_ask(ledger, "SELECT @@innodb_flush_log_at_trx_commit, @@log_bin, @@sync_binlog", values, 3,
                                 &found);
    bool flushed = values[0] == 1, logged = values[1] == 0 || values[2] == 1;
    *wrong = fault == FAULT_NONE && !flushed  ? "innodb_flush_log_at_trx_commit"
             : fault == FAULT_NONE && !logged ? "sync_binlog"
                                              : NULL;
    return fault;
}

void mysql_safety_say(const struct ledger *ledger, const char *wrong)
{
    char sentence[LEDGER_SENTENCE_BYTES];
    snprintf(sentence, sizeof(sentence),
             "%s may lose what it has committed: set %s = 1 on the server, or ledger_unsafe = on here to run all the same",
             ledger->path, wrong);
    ledger_watch_say(ledger->place.watch, sentence);
}

/* Each time: behind the same name another server may answer, that took over from the one before. */
static enum fault safety_check(struct ledger *ledger)
{
    const struct ledger_place *place = &ledger->place;
    enum ledger_mode mode = mysql_of(ledger)->mode;
    const char *wrong;
    if (mode == LEDGER_READER || (place->unsafe && mode != LEDGER_OWNER)) return FAULT_NONE;
    enum fault fault = mysql_safety(ledger, &wrong);
    if (fault != FAULT_NONE || wrong == NULL) return fault;
    if (place->unsafe) {
        log_warn("ledger", "%s: %s is not 1: a crash of its machine may lose orders; ledger_unsafe allows it", ledger->path,
                 wrong);
        return FAULT_NONE;
    }
    if (!place->quiet && ledger_watch_health(place->watch) < LEDGER_UNSAFE) mysql_safety_say(ledger, wrong);
    ledger_watch_doubt(place->watch);
    return place->watch != NULL ? FAULT_TIMEOUT : FAULT_CONFIG; /* of one that is watched better is hoped for */
}

/* The library asks for TLS, and goes on without where the server has none. */
static enum fault tls_check(struct ledger *ledger)
{
    char sentence[LEDGER_SENTENCE_BYTES];
    if (ledger->place.tls == PLACE_TLS_OFF || mysql_get_ssl_cipher(&mysql_of(ledger)->handle) != NULL) return FAULT_NONE;
    snprintf(sentence, sizeof(sentence),
             "%s does not offer TLS, which ledger_tls asks for: set it up on the server, or ledger_tls = off here",
             ledger->path);
    if (!ledger->place.quiet) ledger_watch_say(ledger->place.watch, sentence);
    return FAULT_CONFIG;
}

static enum fault connect_now(struct ledger *ledger)
{
    struct mysql_connection *connection = mysql_of(ledger);
    const struct ledger_place *place = &ledger->place;
    ledger_watch_line_out(place->watch, &connection->line);
    mysql_close(&connection->handle);
    mysql_init(&connection->handle);
    connection->connected = false;
    connection->in_transaction = connection->rolled_back = connection->bounded = false;
    connection->generation++;
    options_choose(&connection->handle, place);
    const char *host = place->host[0] != '\0' ? place->host : NULL;
    const char *socket = place->socket[0] != '\0' ? place->socket : NULL;
    if (mysql_real_connect(&connection->handle, host, place->user, place->password, place->database, place->port, socket,
                           CLIENT_FOUND_ROWS) == NULL) {
        handle_note(ledger);
        enum fault fault = mysql_fault_say(ledger, "connecting");
        return place->watch != NULL && mysql_lost(connection->error) ? FAULT_TIMEOUT : fault; /* asked for nothing yet */
    }
    enum fault fault = tls_check(ledger);
    if (fault != FAULT_NONE) return fault;
    if (mysql_get_ssl_cipher(&connection->handle) != NULL) mysql_wait_under_tls(mysql_get_socket(&connection->handle));
    ledger_watch_line_in(place->watch, &connection->line, (int)mysql_get_socket(&connection->handle));
    connection->mariadb = mariadb_connection(&connection->handle) != 0;
    fault = session_begin(ledger);
    if (fault == FAULT_NONE) fault = safety_check(ledger);
    connection->connected = fault == FAULT_NONE;
    return fault;
}

static uint32_t reach_ms_max(const struct ledger_place *place)
{
    unsigned seconds = answer_s_max(place);
    return 1000 * (seconds < REACH_S_MAX ? seconds : REACH_S_MAX);
}

/* Of one that is watched the watch says how it is. */
static const char *waiting_name(const struct ledger *ledger)
{
    return ledger->place.watch == NULL && !ledger->place.quiet ? ledger->path : NULL;
}

enum fault mysql_connect_again(struct ledger *ledger)
{
    if (is_silent(ledger)) return FAULT_TIMEOUT;
    mysql_patience_begin(reach_ms_max(&ledger->place), waiting_name(ledger));
    enum fault fault = connect_now(ledger);
    mysql_patience_end();
    return fault;
}

/* A server that went away has closed its end: then there is something to read where nobody has spoken. */
static bool line_is_quiet(MYSQL *handle)
{
    struct pollfd line = { .fd = (int)mysql_get_socket(handle), .events = POLLIN };
    return line.fd >= 0 && poll(&line, 1, 0) == 0;
}

/* What follows in a transaction that is not there any more would be done without one. */
static enum fault transaction_check(struct ledger *ledger)
{
    if (!mysql_of(ledger)->rolled_back) return FAULT_NONE;
    mysql_note(ledger, CR_SERVER_LOST, "the transaction was rolled back before");
    return mysql_fault_say(ledger, "going on");
}

enum fault mysql_ready(struct ledger *ledger)
{
    struct mysql_connection *connection = mysql_of(ledger);
    if (connection->in_transaction) return transaction_check(ledger);
    if (connection->connected && !is_silent(ledger) && line_is_quiet(&connection->handle)) return FAULT_NONE;
    return mysql_connect_again(ledger);
}

static pthread_once_t library_once = PTHREAD_ONCE_INIT;
static void library_begin(void)
{
    int rc = mysql_library_init(0, NULL, NULL);
    assert(rc == 0);
}

static enum fault mysql_open(struct ledger *ledger, enum ledger_mode mode)
{
    pthread_once(&library_once, library_begin);
    struct mysql_connection *connection = calloc(1, sizeof(*connection));
    if (connection == NULL) return FAULT_MEMORY;
    ledger->connection = connection;
    mysql_init(&connection->handle);
    connection->mode = mode;
    enum fault fault = mysql_connect_again(ledger);
    if (fault != FAULT_NONE) return fault;
    /* A start may wait for another that makes the tables, or make them. */
    mysql_patience_begin(mode == LEDGER_OWNER ? 0 : reach_ms_max(&ledger->place), waiting_name(ledger));
    fault = mode == LEDGER_OWNER ? mysql_schema_make(ledger) : mysql_schema_check(ledger);
    mysql_patience_end();
    return fault;
}

static void mysql_end(struct ledger *ledger)
{
    if (mysql_of(ledger) == NULL) return;
    ledger_watch_line_out(ledger->place.watch, &mysql_of(ledger)->line);
    mysql_close(&mysql_of(ledger)->handle);
    free(ledger->connection);
}

static const char *mysql_error_text(struct ledger *ledger)
{
    return mysql_of(ledger)->error_text;
}

/* A node that is frozen or cut off in a transaction keeps its locks for as long as the server keeps its connection, which is
 * for hours: the others could sell nothing. So the server ends one that has said nothing for a moment in the midst of
 * writing. MySQL knows no such bound but one for every silence: there a connection that rests is ended, too, and is made
 * anew when somebody has something to say. Who reads a snapshot holds no locks, and may take its time between two questions.
 */
static enum fault silence_bound(struct ledger *ledger, enum transaction kind)
{
    static const char *const bounds[2][2] = {
        { "SET SESSION wait_timeout = DEFAULT", "SET SESSION wait_timeout = 10" },
        { "SET SESSION idle_transaction_timeout = DEFAULT", "SET SESSION idle_transaction_timeout = 3" },
    };
    struct mysql_connection *connection = mysql_of(ledger);
    bool bounded = kind != TRANSACTION_READ;
    if (connection->bounded == bounded) return FAULT_NONE;
    enum fault fault = mysql_run(ledger, bounds[connection->mariadb][bounded]);
    if (fault == FAULT_NONE) connection->bounded = bounded;
    return fault;
}

static enum fault transaction_start(struct ledger *ledger, enum transaction kind)
{
    enum fault fault = mysql_run(ledger, kind == TRANSACTION_READ ? "START TRANSACTION WITH CONSISTENT SNAPSHOT"
                                                                  : "START TRANSACTION");
    if (fault != FAULT_NONE) return fault;
    mysql_of(ledger)->in_transaction = true;
    mysql_of(ledger)->rolled_back = false;
    return FAULT_NONE;
}

/* The lock of those who write, see mysql.h. Whoever waited in vain has nothing to undo. */
static enum fault writers_lock(struct ledger *ledger, enum transaction kind)
{
    const char *sql = kind == TRANSACTION_FILE ? "SELECT hooks_version FROM outbox_mark LOCK IN SHARE MODE"
                                               : "SELECT hooks_version FROM outbox_mark FOR UPDATE";
    uint64_t until_ms = mono_ms() + ledger->patience_ms;
    MYSQL *handle = &mysql_of(ledger)->handle;
    for (;;) {
        MYSQL_RES *result = NULL;
        if (mysql_real_query(handle, sql, (unsigned long)strlen(sql)) == 0) result = mysql_store_result(handle);
        if (result != NULL) {
            mysql_free_result(result);
            return FAULT_NONE;
        }
        handle_note(ledger);
        bool again = mysql_may_pass(mysql_of(ledger)->error) && mono_ms() < until_ms;
        if (!again) return mysql_fault_say(ledger, sql);
        /* A lock without its transaction would keep nobody out. */
        enum fault fault = transaction_start(ledger, kind);
        if (fault != FAULT_NONE) return fault;
    }
}

/* The watch has found it so on a connection that stands: by hand, or by whatever stands between here and there. */
static bool is_unsafe(struct ledger *ledger)
{
    if (ledger_watch_health(ledger->place.watch) != LEDGER_UNSAFE) return false;
    snprintf(mysql_of(ledger)->error_text, MYSQL_ERRMSG_SIZE, "the database may lose what it has committed");
    return true;
}

static enum fault mysql_begin(struct ledger *ledger, enum transaction kind)
{
    if (kind != TRANSACTION_READ && is_unsafe(ledger)) return FAULT_TIMEOUT;
    enum fault fault = mysql_ready(ledger);
    if (fault == FAULT_NONE) fault = silence_bound(ledger, kind);
    /* One who reads much sees what was there at the beginning, however long it takes. */
    if (fault == FAULT_NONE && kind == TRANSACTION_READ)
        fault = mysql_run(ledger, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ");
    if (fault == FAULT_NONE) fault = transaction_start(ledger, kind);
    if (fault != FAULT_NONE) return fault;
    if (kind != TRANSACTION_READ) fault = writers_lock(ledger, kind);
    if (fault != FAULT_NONE) ledger_undo(ledger);
    return fault;
}

static enum fault mysql_commit_now(struct ledger *ledger)
{
    struct mysql_connection *connection = mysql_of(ledger);
    enum fault fault = transaction_check(ledger);
    if (fault != FAULT_NONE) return fault;
    fault = mysql_run(ledger, "COMMIT");
    if (fault == FAULT_NONE) connection->in_transaction = false;
    return fault != FAULT_NONE && mysql_lost(connection->error) ? FAULT_UNSURE : fault;
}

static void mysql_undo(struct ledger *ledger)
{
    struct mysql_connection *connection = mysql_of(ledger);
    if (!connection->in_transaction) return;
    connection->in_transaction = connection->rolled_back = false;
    mysql_rows_forget(ledger);
    if (connection->connected && mysql_run(ledger, "ROLLBACK") != FAULT_NONE)
        connection->connected = false; /* the end of it rolls back, too */
}

static int64_t mysql_changes(struct ledger *ledger)
{
    return (int64_t)mysql_of(ledger)->changes;
}

static uint64_t mysql_last_id(struct ledger *ledger)
{
    return mysql_of(ledger)->last_id;
}

const struct driver driver_mysql = {
    .open = mysql_open,
    .close = mysql_end,
    .error = mysql_error_text,
    .fault = mysql_fault_say,
    .begin = mysql_begin,
    .commit = mysql_commit_now,
    .undo = mysql_undo,
    .prepare = mysql_prepare_statement,
    .release = mysql_release,
    .bind_number = mysql_bind_number,
    .bind_text = mysql_bind_text,
    .bind_blob = mysql_bind_blob,
    .step = mysql_step,
    .queue = mysql_queue,
    .flush = mysql_flush,
    .fit = mysql_fit,
    .reset = mysql_reset,
    .number = mysql_number,
    .bytes = mysql_bytes,
    .changes = mysql_changes,
    .last_id = mysql_last_id,
};
