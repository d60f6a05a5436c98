/* schema: the tables of the ledger, and the version they are of. Inside this room only. */
#ifndef STAMPEDE_LEDGER_SCHEMA_H
#define STAMPEDE_LEDGER_SCHEMA_H

#include "base/fault.h"

struct ledger;

/* For numbers in statements. */
#define TEXT_OF_(token) #token
#define TEXT_OF(macro) TEXT_OF_(macro)

#define SCHEMA_VERSION 4
#define ORDERS_ERA_BITS 16 /* order numbers that differ only in these bits are of one era */
/* Numbers from here on are made by nodes, of the time: they lie far apart, and have an index of their own instead. No engine
 * comes to so many decisions. */
#define ORDERS_OF_NODES 1099511627776

/* Makes the tables in an empty database, in one transaction, or checks the version of those that are there. Two processes
 * may do so at the same time. */
enum fault schema_make(struct ledger *ledger) MUST_USE;
/* FAULT_LEDGER when there is no ledger here, or one of another version than this program knows. */
enum fault schema_check(struct ledger *ledger) MUST_USE;

#endif
