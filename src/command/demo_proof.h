/* demo_proof: whether what the crowd was told, what the server tells and what the ledger has are the same. Each thing that
 * was looked at is a line on standard output. */
#ifndef STAMPEDE_COMMAND_DEMO_PROOF_H
#define STAMPEDE_COMMAND_DEMO_PROOF_H

#include "command/demo_crowd.h"
#include "command/demo_shop.h"

/* While the server runs: the crowd has gone, and others may still come and buy. */
bool demo_prove(struct demo_shop *shop, const struct crowd *crowd);
/* Once it has stopped: the whole journal against the whole ledger. */
bool demo_audit(const struct demo_shop *shop);

#endif
