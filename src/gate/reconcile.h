/* reconcile: holds what Redis has of each sale against the ledger, while nodes serve or while none does.
 *
 * What is on its way from one to the other is no difference: only what is found several times, some time apart, is told. */
#ifndef STAMPEDE_GATE_RECONCILE_H
#define STAMPEDE_GATE_RECONCILE_H

#include "gate/gate.h"

struct reconcile {
    bool repair; /* sales that differ are built anew, as the ledger has them */
    void (*tell)(void *arg, const char *line);
    void *arg;
    /* What was found. */
    uint64_t sales, differing, differences, repaired;
};
/* The gate is of several machines, opened and not started. FAULT_LEDGER, FAULT_TIMEOUT: not all could be read. Only one
 * repairs at a time: FAULT_IN_USE where another does, FAULT_FENCED where it was taken for dead and another does now. */
enum fault gate_reconcile(struct gate *gate, struct reconcile *reconcile) MUST_USE;

#endif
