/* sale and order as plain values, shared by engine, journal, ledger and every wire. */
#ifndef STAMPEDE_ENGINE_SALE_H
#define STAMPEDE_ENGINE_SALE_H

#include "bounds.h"

#include <stdbool.h>
#include <stdint.h>

/* Who may grab. */
enum admission {
    ADMISSION_OPEN = 0, /* anyone; a buyer is named by the claim number */
    ADMISSION_LOGIN = 1,
    ADMISSION_TOKEN = 2, /* a customer with a purchase token, which a win spends */
    ADMISSION_LINE = 3,  /* a customer who has stood in the sale's line */
};
#define ADMISSION_LAST ADMISSION_LINE

/* What becomes of money that comes after its hold has expired. */
enum late_payment {
    LATE_PAYMENT_RETAKE = 0, /* take the units again while the sale is not closed, they are there and the buyer may; else
                                refund */
    LATE_PAYMENT_REFUND = 1,
};
#define LATE_PAYMENT_LAST LATE_PAYMENT_REFUND

/* What the seller sets. closes_ms, pay_within_s, tokens_max, admit_max, event_id: 0 means none. price: -1 means none. A line
 * is given by its three numbers or by the name of one declared in the configuration; neither means none. */
struct sale_terms {
    char name[SALE_NAME_BYTES_MAX + 1];
    char description[SALE_DESCRIPTION_BYTES_MAX + 1];
    char currency[CURRENCY_BYTES + 1]; /* empty: none */
    int64_t price;
    uint32_t units_per_grab_max;
    uint32_t grabs_per_buyer_max;
    uint64_t opens_ms;
    uint64_t closes_ms;
    uint32_t pay_within_s;
    enum admission admission;
    uint32_t tokens_max; /* purchase tokens ever handed out */
    uint32_t admit_max;  /* grabs that ever get past the guard */
    uint32_t line_rate_per_s, line_size, line_timeout_ms;
    char line_name[LINE_NAME_BYTES_MAX + 1];
    enum late_payment late_payment;
    uint64_t event_id; /* the event that the sale belongs to */
};

/* A bit for each field, or group of fields, that a seller may give. */
enum {
    TERM_NAME = 1 << 0,
    TERM_DESCRIPTION = 1 << 1,
    TERM_PRICE = 1 << 2,
    TERM_CURRENCY = 1 << 3,
    TERM_UNITS = 1 << 4,
    TERM_GRABS = 1 << 5,
    TERM_OPENS = 1 << 6,
    TERM_CLOSES = 1 << 7,
    TERM_PAY_WITHIN = 1 << 8,
    TERM_ADMISSION = 1 << 9,
    TERM_TOKENS = 1 << 10,
    TERM_ADMIT = 1 << 11,
    TERM_LINE = 1 << 12,
    TERM_LATE_PAYMENT = 1 << 13,
    TERM_EVENT = 1 << 14,
};
/* Takes the fields of the mask from one to the other. */
void sale_terms_merge(struct sale_terms *into, const struct sale_terms *from, uint32_t mask);
/* Why these terms cannot stand, alone or together, as a sentence that names the field; NULL when they can. */
const char *sale_terms_objection(const struct sale_terms *terms);
bool sale_terms_equal(const struct sale_terms *a, const struct sale_terms *b);
/* What units cost under these terms: -1 where there is no price. Terms without objection never overflow it. */
int64_t sale_amount(const struct sale_terms *terms, uint32_t units);
/* When what is won now is to be paid by: 0 where it is paid at once. */
uint64_t sale_pay_by_ms(const struct sale_terms *terms, uint64_t won_ms);

/* P1: available + held + sold = offered, at every point of the journal. */
struct sale_counts {
    uint32_t offered;
    uint32_t available;
    uint32_t held;
    uint32_t sold;
};
bool sale_counts_add_up(const struct sale_counts *counts);

struct sale {
    uint64_t id;
    char seller[USERNAME_BYTES_MAX + 1];
    struct sale_terms terms;
    struct sale_counts counts;
    uint64_t orders_made;  /* ever, never lowered: the next claim number less one */
    uint64_t tokens_given; /* ever, never lowered */
    bool paused;
    bool closed; /* by its seller; a sale past closes_ms is closed without a record */
};

enum sale_state { SALE_UPCOMING, SALE_RUNNING, SALE_PAUSED, SALE_SOLD_OUT, SALE_CLOSED };

/* By its seller or by its time. Time never goes back, so what is closed stays closed. */
bool sale_is_closed(const struct sale *sale, uint64_t now_ms);
/* The state people see, at a time. */
enum sale_state sale_state_at(const struct sale *sale, uint64_t now_ms);
/* "upcoming", "open", "paused", "sold_out", "closed". */
const char *sale_state_word(enum sale_state state);
const char *admission_word(enum admission admission);
const char *late_payment_word(enum late_payment late_payment); /* "retake", "refund" */

/*          ┌─ cancel ──► CANCELLED ─┐
 *   HELD ──┼─ expiry ──► EXPIRED ───┼─ late payment ──► REFUND_DUE
 *          │                │ late payment, retaken
 *          └─ payment ─► PAID ◄┘
 *
 * Held and paid orders count for the buyer's limit and in the sale's counts; the others have given their units back. */
enum order_state { ORDER_HELD = 0, ORDER_PAID = 1, ORDER_CANCELLED = 2, ORDER_EXPIRED = 3, ORDER_REFUND_DUE = 4 };
#define ORDER_STATE_LAST ORDER_REFUND_DUE
const char *order_state_word(enum order_state state);
bool order_state_counts(enum order_state state); /* held or paid */

/* An order. key is empty where the grab brought none; token_nonce 0 where it spent no purchase token. pay_by_ms: 0 means
 * none. */
struct order {
    uint64_t no;
    uint64_t sale_id;
    char buyer[BUYER_BYTES_MAX + 1];
    char key[IDEMPOTENCY_KEY_BYTES_MAX + 1];
    uint32_t units;
    int64_t amount; /* -1: the sale has no price */
    enum order_state state;
    uint64_t won_ms;
    uint64_t pay_by_ms;
    uint64_t token_nonce;
};

#endif
