/* verdict: the expected answers of a decision. They go to the buyer; they are never logged as errors.
 *
 * The word is the stable code of the API. The gateway gives each its HTTP status, the RESP front its error word. */
#ifndef STAMPEDE_ENGINE_VERDICT_H
#define STAMPEDE_ENGINE_VERDICT_H

#define VERDICTS(ROW)                                                                                                       \
    ROW(WON)      /* a grab took stock */                                                                                   \
    ROW(DONE)     /* a seller's change was made */                                                                          \
    ROW(REPEATED) /* the same Idempotency-Key won before: its order is the answer */                                        \
    ROW(NO_SUCH_SALE)                                                                                                       \
    ROW(NO_SUCH_ORDER)                                                                                                      \
    ROW(CLOSED)                                                                                                             \
    ROW(NOT_OPEN)                                                                                                           \
    ROW(PAUSED)                                                                                                             \
    ROW(NOT_PAUSED) /* resume of a sale that runs */                                                                        \
    ROW(TOKEN_REQUIRED)                                                                                                     \
    ROW(TOKEN_INVALID) /* forged, someone else's, of another sale, expired or spent */                                      \
    ROW(OVER_LIMIT)                                                                                                         \
    ROW(ALREADY_WON)                                                                                                        \
    ROW(TOO_MANY_RETURNS) /* the buyer has given back as many orders of the sale as one may */                              \
    ROW(SOLD_OUT)                                                                                                           \
    ROW(NO_TOKENS_LEFT)   /* as many were handed out as the sale allows */                                                  \
    ROW(NO_TOKENS_NEEDED) /* the sale admits without one */                                                                 \
    ROW(KEY_REUSED)                                                                                                         \
    ROW(NOT_HELD)        /* paid, cancelled or expired already: nothing to cancel */                                        \
    ROW(AMOUNT_MISMATCH) /* the payment is not of the order's amount */                                                     \
    ROW(ALREADY_PAID)    /* by another payment, or at once */                                                               \
    ROW(NAME_TAKEN)                                                                                                         \
    ROW(TOO_MANY_SALES) /* the seller has as many upcoming or running as one may */                                         \
    ROW(SALE_OPEN)      /* may not change while the sale is open */                                                         \
    ROW(NOT_AVAILABLE)  /* more withdrawn than is available */                                                              \
    ROW(BAD_INPUT)      /* terms that contradict each other once merged */                                                  \
    ROW(BUSY)           /* a pool, the journal batch or the disk has no room */                                             \
    ROW(LINE_TIMEOUT)   /* the guard's, never the engine's: waited too long in line */                                      \
    ROW(BLOCKED)        /* the guard's, never the engine's: put on the block list while in line */                          \
    ROW(UNKNOWN)        /* the disk failed under a decision already made: it may or may not have happened (P10) */

#define VERDICT_ENUM(name) VERDICT_##name,
enum verdict { VERDICTS(VERDICT_ENUM) VERDICT_COUNT };
#undef VERDICT_ENUM

/* The word of a verdict, as in the API. Never NULL. */
const char *verdict_word(enum verdict verdict);

#endif
