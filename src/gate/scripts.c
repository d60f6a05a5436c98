#include "gate/scripts.h"

#include "bounds.h"
#include "engine/decision.h"
#include "engine/sale.h"

/* The scripts know these by their numbers. */
_Static_assert(GATE_ADMISSION_OPEN == ADMISSION_OPEN && GATE_ADMISSION_TOKEN == ADMISSION_TOKEN, "who may grab");
_Static_assert(GATE_ADMISSION_LAST == ADMISSION_LAST && ADMISSION_LOGIN < ADMISSION_TOKEN, "tokens are of the last ones");
_Static_assert(GATE_LATE_PAYMENT_RETAKE == LATE_PAYMENT_RETAKE && GATE_LATE_PAYMENT_LAST == LATE_PAYMENT_LAST, "late money");
_Static_assert(ORDER_HELD == 0 && ORDER_PAID == 1 && ORDER_CANCELLED == 2 && ORDER_EXPIRED == 3 && ORDER_REFUND_DUE == 4,
               "the states of an order line");
_Static_assert(BUYER_BYTES_MAX >= PAYMENT_REF_BYTES_MAX && GATE_ID_BYTES_MAX <= PAYMENT_REF_BYTES_MAX,
               "undo is given a buyer or a payment; an order line holds a payment or an id");

#define SCRIPT_TEXT(upper, lower) extern const char lua_##lower[];
GATE_SALE_SCRIPTS(SCRIPT_TEXT)
GATE_NODE_SCRIPTS(SCRIPT_TEXT)
#undef SCRIPT_TEXT

#define SCRIPT_ROW(upper, lower) [GATE_SCRIPT_##upper] = { #lower, lua_##lower },
const struct redis_script gate_scripts[GATE_SCRIPT_COUNT] = { GATE_SALE_SCRIPTS(SCRIPT_ROW) GATE_NODE_SCRIPTS(SCRIPT_ROW) };
#undef SCRIPT_ROW
