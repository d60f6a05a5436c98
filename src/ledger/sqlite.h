/* sqlite: the driver for a file of SQLite in WAL mode. Inside this room only, and for its tests. */
#ifndef STAMPEDE_LEDGER_SQLITE_H
#define STAMPEDE_LEDGER_SQLITE_H

#include "ledger/database.h"

#include <sqlite3.h>

struct sqlite_cursor {
    struct cursor cursor;
    sqlite3_stmt *statement;
};

static inline sqlite3 *sqlite_of(const struct ledger *ledger)
{
    return ledger->connection;
}

static inline sqlite3_stmt *sqlite_statement(const struct cursor *cursor)
{
    return ((const struct sqlite_cursor *)cursor)->statement;
}

enum fault sqlite_fault(struct ledger *ledger, int rc, const char *doing) MUST_USE;
enum fault sqlite_run(struct ledger *ledger, const char *sql) MUST_USE; /* SQL without parameters */
void sqlite_undo(struct ledger *ledger);

#endif
