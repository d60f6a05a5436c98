/* schema: the tables of the ledger, and the version they are of. Inside this room only. */
#ifndef STAMPEDE_LEDGER_SCHEMA_H
#define STAMPEDE_LEDGER_SCHEMA_H

#include "base/fault.h"

struct ledger;

#define SCHEMA_VERSION 4
#define ORDERS_ERA_BITS 16 /* order numbers that differ only in these bits are of one era */

/* Makes the tables in an empty database, in one transaction, or checks the version of those that are there. Two processes
 * may do so at the same time. */
enum fault schema_make(struct ledger *ledger) MUST_USE;
/* FAULT_LEDGER when there is no ledger here, or one of another version than this program knows. */
enum fault schema_check(struct ledger *ledger) MUST_USE;

#endif
