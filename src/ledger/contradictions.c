/* What in the ledger contradicts the rest of the ledger: for the audit, of rows that no decision of the journal tells. */
#include "ledger/database.h"

#define LEDGER_LINE_BYTES 512

enum fault ledger_each_contradiction(struct ledger *ledger, void (*visit)(void *arg, const char *text), void *arg)
{
    static const enum statement questions[] = { STATEMENT_OUTBOX_WRONG,        STATEMENT_OUTBOX_TWICE,
                                                STATEMENT_PUBLICATIONS_WRONG,  STATEMENT_EVENTS_WRONG,
                                                STATEMENT_SUBSCRIPTIONS_WRONG, STATEMENT_SALES_EVENTLESS };
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
        struct cursor *s;
        enum fault fault = statement_open(ledger, questions[i], &s);
        if (fault != FAULT_NONE) return fault;
        enum step step;
        while ((step = cursor_step(s)) == STEP_ROW) {
            char text[LEDGER_LINE_BYTES];
            visit(arg, row_string(s, 0, text, sizeof text) ? text : "a row that cannot be read");
        }
        fault = statement_close(ledger, questions[i], step);
        if (fault != FAULT_NONE) return fault;
    }
    return FAULT_NONE;
}
