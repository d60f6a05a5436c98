/* What in the ledger contradicts the rest of the ledger: for the audit, of rows that no decision of the journal tells. */
#include "ledger/sqlite.h"

enum fault ledger_each_contradiction(struct ledger *ledger, void (*visit)(void *arg, const char *text), void *arg)
{
    static const enum statement questions[] = { STATEMENT_OUTBOX_WRONG, STATEMENT_OUTBOX_TWICE, STATEMENT_EVENTS_WRONG,
                                                STATEMENT_SUBSCRIPTIONS_WRONG, STATEMENT_SALES_EVENTLESS };
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
        sqlite3_stmt *s;
        enum fault fault = statement_open(ledger, questions[i], &s);
        if (fault != FAULT_NONE) return fault;
        int rc;
        while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
            const char *text = (const char *)sqlite3_column_text(s, 0);
            visit(arg, text != NULL ? text : "a row that cannot be read");
        }
        fault = statement_close(ledger, questions[i], rc);
        if (fault != FAULT_NONE) return fault;
    }
    return FAULT_NONE;
}
