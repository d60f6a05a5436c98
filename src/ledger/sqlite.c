/* SQLite: a file in WAL mode, synchronous=FULL. */
#include "ledger/sqlite.h"

#include "base/clock.h"
#include "base/disk.h"
#include "base/log.h"
#include "ledger/schema.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define URI_BYTES_MAX 4096

enum fault sqlite_fault(struct ledger *ledger, int rc, const char *doing)
{
    sqlite3 *db = sqlite_of(ledger);
    log_error("ledger", "%s: %s failed: %s (%s, %d)", ledger->path, doing, sqlite3_errmsg(db), sqlite3_errstr(rc), rc);
    int primary = rc & 0xff;
    switch (primary) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return FAULT_DAMAGE;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return FAULT_TIMEOUT;
    case SQLITE_FULL:
        return FAULT_SPACE;
    default:
        return FAULT_LEDGER;
    }
}

enum fault sqlite_run(struct ledger *ledger, const char *sql)
{
    int rc = sqlite3_exec(sqlite_of(ledger), sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? FAULT_NONE : sqlite_fault(ledger, rc, sql);
}

void sqlite_undo(struct ledger *ledger)
{
    if (sqlite3_get_autocommit(sqlite_of(ledger)) != 0) return;
    int rc = sqlite3_exec(sqlite_of(ledger), "ROLLBACK", NULL, NULL, NULL);
    if (rc != SQLITE_OK) log_error("ledger", "%s: rollback failed: %s", ledger->path, sqlite3_errmsg(sqlite_of(ledger)));
}

/* SQLite's own busy handler sleeps up to 100 ms between two tries: much longer than the gap the clerk leaves. */
static int on_busy(void *arg, int tries)
{
    struct ledger *ledger = arg;
    if (tries == 0) ledger->busy_since_ms = mono_ms();
    if (mono_ms() - ledger->busy_since_ms >= ledger->patience_ms) return 0;
    ledger_lock_pause();
    return 1;
}

/* SQLite would make the file readable for all. The log and its index get the mode of the file from SQLite. Never opens a
 * file that is there: closing it again would drop the locks other connections of this process have on it. */
static enum fault file_make(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST) return FAULT_NONE;
    if (fd < 0) {
        log_error("ledger", "cannot make %s: %s", path, strerror(errno));
        return FAULT_DISK;
    }
    close(fd);
    char *folder = strdup(path);
    if (folder == NULL) return FAULT_MEMORY;
    enum fault fault = disk_sync_folder(dirname(folder));
    free(folder);
    return fault;
}

/* Turning a new file into WAL mode takes a lock for which SQLite does not call the busy handler. */
static enum fault wal_enter(struct ledger *ledger)
{
    int rc = SQLITE_BUSY;
    for (uint64_t until_ms = mono_ms() + ledger->patience_ms; rc == SQLITE_BUSY && mono_ms() < until_ms;) {
        rc = sqlite3_exec(sqlite_of(ledger), "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
        if ((rc & 0xff) != SQLITE_BUSY) break;
        rc = SQLITE_BUSY;
        ledger_lock_pause();
    }
    return rc == SQLITE_OK ? FAULT_NONE : sqlite_fault(ledger, rc, "entering WAL mode");
}

static bool folder_is_writable(const char *path)
{
    char *folder = strdup(path);
    bool writable = folder != NULL && access(dirname(folder), W_OK) == 0;
    free(folder);
    return writable;
}

static off_t size_of(const char *path, const char *ending)
{
    char name[URI_BYTES_MAX];
    struct stat about;
    int len = snprintf(name, sizeof(name), "%s%s", path, ending);
    return len < (int)sizeof(name) && stat(name, &about) == 0 ? about.st_size : -1;
}

/* Where nobody can write, SQLite cannot make the index of its log, and opens a file in WAL mode only when told that it does
 * not change. That is right where there is no log, or nothing in it; one with an index may be in use by somebody else. */
static bool file_is_still(const char *path)
{
    off_t log = size_of(path, "-wal");
    return log < 0 || (log == 0 && size_of(path, "-shm") < 0);
}

static bool uri_make(char out[URI_BYTES_MAX], const char *path)
{
    size_t len = (size_t)snprintf(out, URI_BYTES_MAX, "file:%s", path[0] == '/' ? "//" : "");
    for (const char *at = path; *at != '\0'; at++) {
        if (len + sizeof("%00?immutable=1") > URI_BYTES_MAX) return false;
        bool special = strchr("?#%", *at) != NULL;
        len += (size_t)snprintf(out + len, URI_BYTES_MAX - len, special ? "%%%02X" : "%c", (unsigned char)*at);
    }
    snprintf(out + len, URI_BYTES_MAX - len, "?immutable=1");
    return true;
}

/* Where the file or its folder cannot be written. Of a log that has to be recovered first SQLite says next to nothing. */
static enum fault still_open(struct ledger *ledger)
{
    char uri[URI_BYTES_MAX];
    sqlite3 *db;
    bool still = file_is_still(ledger->path) && uri_make(uri, ledger->path);
    int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE | (still ? SQLITE_OPEN_URI : 0);
    int rc = sqlite3_open_v2(still ? uri : ledger->path, &db, flags, NULL);
    ledger->connection = db;
    if (rc == SQLITE_OK) rc = sqlite3_exec(db, "SELECT 1 FROM sqlite_schema LIMIT 1", NULL, NULL, NULL);
    int primary = rc & 0xff;
    if (still || rc == SQLITE_OK || primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB)
        return rc == SQLITE_OK ? FAULT_NONE : sqlite_fault(ledger, rc, "opening");
    log_error("ledger",
              "%s has a log, %s-wal, that has to be recovered, and nothing can be written there: copy the data folder "
              "to where it can be written",
              ledger->path, ledger->path);
    return FAULT_LEDGER;
}

static enum fault writable_open(struct ledger *ledger)
{
    sqlite3 *db;
    int rc = sqlite3_open_v2(ledger->path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
    ledger->connection = db; /* also after a fault, to say which */
    return rc == SQLITE_OK ? FAULT_NONE : sqlite_fault(ledger, rc, "opening");
}

static enum fault settings_run(struct ledger *ledger, const char *sql)
{
    int rc = sqlite3_exec(sqlite_of(ledger), sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? FAULT_NONE : sqlite_fault(ledger, rc, "setting up the connection");
}

static enum fault sqlite_open(struct ledger *ledger, enum ledger_mode mode)
{
    if (mode == LEDGER_OWNER) {
        enum fault made = file_make(ledger->path);
        if (made != FAULT_NONE) return made;
    }
    bool still = mode == LEDGER_READER && access(ledger->path, R_OK) == 0 &&
                 (access(ledger->path, W_OK) != 0 || !folder_is_writable(ledger->path));
    enum fault fault = still ? still_open(ledger) : writable_open(ledger);
    if (fault != FAULT_NONE) return fault;
    sqlite3_busy_handler(sqlite_of(ledger), on_busy, ledger);

    if (mode == LEDGER_OWNER) fault = wal_enter(ledger);
    /* synchronous=FULL: a commit that has returned is on the disk (P3, P4). The log is cut back after a burst. */
    if (fault == FAULT_NONE)
        fault = settings_run(ledger, "PRAGMA synchronous = FULL; PRAGMA foreign_keys = OFF; PRAGMA trusted_schema = OFF;"
                                     "PRAGMA wal_autocheckpoint = 8000; PRAGMA journal_size_limit = 67108864;"
                                     "PRAGMA temp_store = MEMORY");
    if (fault == FAULT_NONE)
        fault = settings_run(ledger, mode == LEDGER_READER ? "PRAGMA cache_size = -8192; PRAGMA query_only = ON"
                                                           : "PRAGMA cache_size = -32768");
    if (fault == FAULT_NONE) fault = mode == LEDGER_OWNER ? schema_make(ledger) : schema_check(ledger);
    return fault;
}

static void sqlite_close(struct ledger *ledger)
{
    int rc = sqlite3_close(sqlite_of(ledger)); /* rolls back what is open */
    assert(rc == SQLITE_OK);
}

static const char *sqlite_error(struct ledger *ledger)
{
    return sqlite3_errmsg(sqlite_of(ledger));
}

static enum fault sqlite_fault_last(struct ledger *ledger, const char *doing)
{
    return sqlite_fault(ledger, sqlite3_extended_errcode(sqlite_of(ledger)), doing);
}

static enum fault sqlite_begin(struct ledger *ledger, enum transaction kind)
{
    struct cursor *s;
    enum statement id = kind == TRANSACTION_READ ? STATEMENT_BEGIN_READ : STATEMENT_BEGIN;
    enum fault fault = statement_open(ledger, id, &s);
    return fault != FAULT_NONE ? fault : statement_close(ledger, id, cursor_step(s));
}

static enum fault sqlite_commit(struct ledger *ledger)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_COMMIT, &s);
    return fault != FAULT_NONE ? fault : statement_close(ledger, STATEMENT_COMMIT, cursor_step(s));
}

static enum fault sqlite_prepare(struct ledger *ledger, enum statement id, struct cursor **out)
{
    if (*out != NULL) return FAULT_NONE;
    struct sqlite_cursor *made = malloc(sizeof(*made));
    if (made == NULL) return FAULT_MEMORY;
    made->cursor = (struct cursor){ .ledger = ledger, .id = id };
    int rc = sqlite3_prepare_v3(sqlite_of(ledger), statement_sql[id], -1, SQLITE_PREPARE_PERSISTENT, &made->statement, NULL);
    if (rc != SQLITE_OK) {
        free(made);
        return sqlite_fault(ledger, rc, statement_sql[id]);
    }
    *out = &made->cursor;
    return FAULT_NONE;
}

static void sqlite_release(struct cursor *cursor)
{
    sqlite3_finalize(sqlite_statement(cursor));
    free(cursor);
}

static enum step sqlite_step(struct cursor *cursor)
{
    int rc = sqlite3_step(sqlite_statement(cursor));
    if (rc == SQLITE_ROW) return STEP_ROW;
    if (rc == SQLITE_DONE) return STEP_DONE;
    return (rc & 0xff) == SQLITE_CONSTRAINT ? STEP_CONFLICT : STEP_FAILED;
}

static void sqlite_reset(struct cursor *cursor)
{
    sqlite3_reset(sqlite_statement(cursor)); /* answers the fault of the last step once more */
}

static void sqlite_bind_number(struct cursor *cursor, int at, int64_t value)
{
    int rc = sqlite3_bind_int64(sqlite_statement(cursor), at, value);
    assert(rc == SQLITE_OK);
}

static void sqlite_bind_text(struct cursor *cursor, int at, struct slice text)
{
    int rc = sqlite3_bind_text(sqlite_statement(cursor), at, text.data, (int)text.len, SQLITE_STATIC);
    assert(rc == SQLITE_OK);
}

static void sqlite_bind_blob(struct cursor *cursor, int at, struct slice bytes)
{
    int rc = sqlite3_bind_blob(sqlite_statement(cursor), at, bytes.data, (int)bytes.len, SQLITE_STATIC);
    assert(rc == SQLITE_OK);
}

static int64_t sqlite_number(struct cursor *cursor, int column)
{
    return sqlite3_column_int64(sqlite_statement(cursor), column);
}

static struct slice sqlite_bytes(struct cursor *cursor, int column)
{
    sqlite3_stmt *s = sqlite_statement(cursor);
    const char *data = sqlite3_column_blob(s, column);
    size_t len = (size_t)sqlite3_column_bytes(s, column);
    if (data == NULL && sqlite3_column_type(s, column) != SQLITE_NULL) data = ""; /* as SQLite answers for no bytes */
    return (struct slice){ data, len };
}

static int64_t sqlite_changes(struct ledger *ledger)
{
    return sqlite3_changes(sqlite_of(ledger));
}

static uint64_t sqlite_last_id(struct ledger *ledger)
{
    return (uint64_t)sqlite3_last_insert_rowid(sqlite_of(ledger));
}

const struct driver driver_sqlite = {
    .open = sqlite_open,
    .close = sqlite_close,
    .error = sqlite_error,
    .fault = sqlite_fault_last,
    .begin = sqlite_begin,
    .commit = sqlite_commit,
    .undo = sqlite_undo,
    .prepare = sqlite_prepare,
    .release = sqlite_release,
    .bind_number = sqlite_bind_number,
    .bind_text = sqlite_bind_text,
    .bind_blob = sqlite_bind_blob,
    .step = sqlite_step,
    .reset = sqlite_reset,
    .number = sqlite_number,
    .bytes = sqlite_bytes,
    .changes = sqlite_changes,
    .last_id = sqlite_last_id,
    .eras = true,
};
