#include "ledger/sqlite.h"

#include "base/clock.h"
#include "base/disk.h"
#include "base/log.h"
#include "ledger/schema.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_MS_DEFAULT 5000
#define LOCK_POLL_US 500
#define YIELD_MS_MAX 100

enum fault ledger_fault(struct ledger *ledger, int rc, const char *doing)
{
    log_error("ledger", "%s: %s failed: %s (%s, %d)", ledger->path, doing, sqlite3_errmsg(ledger->db), sqlite3_errstr(rc),
              rc);
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

enum fault ledger_run(struct ledger *ledger, const char *sql)
{
    int rc = sqlite3_exec(ledger->db, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? FAULT_NONE : ledger_fault(ledger, rc, sql);
}

void ledger_undo(struct ledger *ledger)
{
    if (sqlite3_get_autocommit(ledger->db) != 0) return;
    int rc = sqlite3_exec(ledger->db, "ROLLBACK", NULL, NULL, NULL);
    if (rc != SQLITE_OK) log_error("ledger", "%s: rollback failed: %s", ledger->path, sqlite3_errmsg(ledger->db));
}

/* SQLite gives the write lock to whoever happens to ask while it is free. A clerk that drains a backlog asks again within
 * microseconds of each commit, so a login or logout could starve beside it: those who write little are counted here, and the
 * clerk waits a moment while there are any. */
static _Atomic uint32_t queue_count;

void ledger_queue_enter(void)
{
    atomic_fetch_add(&queue_count, 1);
}

void ledger_queue_leave(void)
{
    atomic_fetch_sub(&queue_count, 1);
}

static void lock_pause(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = LOCK_POLL_US * 1000L }, NULL);
}

void ledger_queue_yield(void)
{
    for (uint64_t until_ms = mono_ms() + YIELD_MS_MAX; atomic_load(&queue_count) > 0 && mono_ms() < until_ms;) lock_pause();
}

/* SQLite's own busy handler sleeps up to 100 ms between two tries: much longer than the gap the clerk leaves. */
static int on_busy(void *arg, int tries)
{
    struct ledger *ledger = arg;
    if (tries == 0) ledger->busy_since_ms = mono_ms();
    if (mono_ms() - ledger->busy_since_ms >= ledger->patience_ms) return 0;
    lock_pause();
    return 1;
}

void ledger_set_patience(struct ledger *ledger, uint32_t wait_ms_max)
{
    ledger->patience_ms = wait_ms_max;
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
        rc = sqlite3_exec(ledger->db, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
        if ((rc & 0xff) != SQLITE_BUSY) break;
        rc = SQLITE_BUSY;
        lock_pause();
    }
    return rc == SQLITE_OK ? FAULT_NONE : ledger_fault(ledger, rc, "entering WAL mode");
}

static enum fault connection_open(struct ledger *ledger, enum ledger_mode mode)
{
    int rc = sqlite3_open_v2(ledger->path, &ledger->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
                             NULL);
    if (rc != SQLITE_OK) return ledger_fault(ledger, rc, "opening");
    sqlite3_busy_handler(ledger->db, on_busy, ledger);

    enum fault fault = FAULT_NONE;
    if (mode == LEDGER_OWNER) fault = wal_enter(ledger);
    /* synchronous=FULL: a commit that has returned is on the disk (P3, P4). The log is cut back after a burst. */
    if (fault == FAULT_NONE)
        fault = ledger_run(ledger, "PRAGMA synchronous = FULL; PRAGMA foreign_keys = OFF; PRAGMA trusted_schema = OFF;"
                                   "PRAGMA wal_autocheckpoint = 8000; PRAGMA journal_size_limit = 67108864;"
                                   "PRAGMA temp_store = MEMORY");
    if (fault == FAULT_NONE)
        fault = ledger_run(ledger, mode == LEDGER_READER ? "PRAGMA cache_size = -8192; PRAGMA query_only = ON"
                                                         : "PRAGMA cache_size = -32768");
    if (fault == FAULT_NONE) fault = mode == LEDGER_OWNER ? schema_make(ledger) : schema_check(ledger);
    return fault;
}

enum fault ledger_open(struct ledger **out, const char *path, enum ledger_mode mode)
{
    *out = NULL;
    if (mode == LEDGER_OWNER) {
        enum fault made = file_make(path);
        if (made != FAULT_NONE) return made;
    }
    struct ledger *ledger = calloc(1, sizeof(*ledger));
    if (ledger == NULL) return FAULT_MEMORY;
    ledger->patience_ms = PATIENCE_MS_DEFAULT;
    ledger->path = strdup(path);
    enum fault fault = ledger->path == NULL ? FAULT_MEMORY : connection_open(ledger, mode);
    if (fault != FAULT_NONE) {
        ledger_close(ledger);
        return fault;
    }
    *out = ledger;
    return FAULT_NONE;
}

void ledger_close(struct ledger *ledger)
{
    if (ledger == NULL) return;
    for (int i = 0; i < STATEMENT_COUNT; i++) sqlite3_finalize(ledger->statements[i]);
    int rc = sqlite3_close(ledger->db); /* rolls back what is open */
    assert(rc == SQLITE_OK);
    free(ledger->path);
    free(ledger);
}

enum fault statement_open(struct ledger *ledger, enum statement id, sqlite3_stmt **out)
{
    if (ledger->statements[id] == NULL) {
        int rc = sqlite3_prepare_v3(ledger->db, statement_sql[id], -1, SQLITE_PREPARE_PERSISTENT, &ledger->statements[id],
                                    NULL);
        if (rc != SQLITE_OK) return ledger_fault(ledger, rc, statement_sql[id]);
    }
    *out = ledger->statements[id];
    return FAULT_NONE;
}

enum fault statement_close(struct ledger *ledger, enum statement id, int rc)
{
    enum fault fault = FAULT_NONE;
    if (rc != SQLITE_ROW && rc != SQLITE_DONE) fault = ledger_fault(ledger, rc, statement_sql[id]);
    sqlite3_reset(ledger->statements[id]); /* answers the fault of the last step once more */
    return fault;
}

/* A bind fails only for a parameter that is not there: our mistake. */
static void bind_must(int rc)
{
    assert(rc == SQLITE_OK);
}

void bind_number(sqlite3_stmt *statement, int at, uint64_t value)
{
    bind_must(sqlite3_bind_int64(statement, at, (int64_t)value));
}

void bind_signed(sqlite3_stmt *statement, int at, int64_t value)
{
    bind_must(sqlite3_bind_int64(statement, at, value));
}

void bind_slice(sqlite3_stmt *statement, int at, struct slice text)
{
    /* NULL would be bound as SQL's NULL, which equals nothing. */
    bind_must(sqlite3_bind_text(statement, at, text.data == NULL ? "" : text.data, (int)text.len, SQLITE_STATIC));
}

void bind_string(sqlite3_stmt *statement, int at, const char *text)
{
    bind_slice(statement, at, slice_of(text));
}
