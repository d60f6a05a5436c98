/* rules: what may be done with a sale or an order, told from their values alone.
 *
 * The engine asks them about what it has in memory, a ledger that several nodes share about the rows it has locked: the rule
 * is the same. */
#ifndef STAMPEDE_ENGINE_RULES_H
#define STAMPEDE_ENGINE_RULES_H

#include "engine/engine.h"

/* Someone else's sale does not exist for a seller (P8). */
bool asker_may_know(const struct asker *asker, const struct sale *sale);

/* A new sale, its name and the seller's other sales aside: BAD_INPUT, DONE. */
enum verdict sale_create_verdict(struct slice seller, const struct sale_terms *terms, int64_t stock);
/* terms are the whole terms after the change. BAD_INPUT, CLOSED, SALE_OPEN, DONE; whether a new name is free is not asked
 * here. A sale with orders has opened, whatever the time. */
enum verdict sale_change_verdict(const struct sale *sale, const struct sale_terms *terms, uint64_t now_ms);
/* CLOSED, NOT_AVAILABLE, DONE. */
enum verdict sale_stock_verdict(const struct sale *sale, int64_t add, uint64_t now_ms);
/* kind is DECISION_SALE_PAUSED, _RESUMED or _CLOSED. CLOSED, PAUSED, NOT_PAUSED, DONE. */
enum verdict sale_switch_verdict(const struct sale *sale, enum decision_kind kind, uint64_t now_ms);

bool payment_is_well_formed(const struct payment *payment);
/* Whether a payment has been taken for the order before, and whether it was this one. */
enum payment_before { PAYMENT_NONE_BEFORE, PAYMENT_SAME_BEFORE, PAYMENT_OTHER_BEFORE };
/* AMOUNT_MISMATCH, REPEATED, ALREADY_PAID, or DONE: it is to be taken. */
enum verdict payment_verdict(const struct payment *payment, const struct order *order, enum payment_before before);
/* What a payment that is to be taken leads to: PAID, RETAKEN or REFUND_DUE. grabs: how many orders of the buyer's count. */
enum decision_kind payment_kind(const struct order *order, const struct sale *sale, uint32_t grabs, uint64_t now_ms);

bool cancel_is_well_formed(const struct cancel *cancel);
/* NO_SUCH_ORDER (not theirs: P8), NOT_HELD, DONE. */
enum verdict cancel_verdict(const struct cancel *cancel, const struct order *order, const char *seller);

#endif
