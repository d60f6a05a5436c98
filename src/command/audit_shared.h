/* audit_shared: the audit of a ledger that several nodes file into. */
#ifndef STAMPEDE_COMMAND_AUDIT_SHARED_H
#define STAMPEDE_COMMAND_AUDIT_SHARED_H

#include "command/command.h"

struct ledger;

/* The exit code; what was found is on standard output. */
int audit_shared(struct ledger *ledger);

#endif
