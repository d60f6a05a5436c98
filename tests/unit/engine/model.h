/* model: the rules of a sale, written as plainly as they can be said: lists, searched from end to end.
 *
 * It knows nothing of how the engine does it, and is only ever asked what the answer should have been. */
#ifndef TESTS_UNIT_ENGINE_MODEL_H
#define TESTS_UNIT_ENGINE_MODEL_H

#include "engine/engine.h"

#define MODEL_SALES_MAX 64
#define MODEL_ORDERS_MAX 4096
#define MODEL_NAMES_MAX 65536
#define MODEL_TOKENS_MAX 32768
#define MODEL_PAST_MAX 64

struct model_name {
    char seller[USERNAME_BYTES_MAX + 1];
    char name[SALE_NAME_BYTES_MAX + 1];
    uint64_t sale_id;
};

/* A token, from the day it was given to that of its sale's end. */
struct model_token {
    uint64_t nonce, sale_id;
    char buyer[BUYER_BYTES_MAX + 1];
    bool spent;
};

struct model {
    struct sale sales[MODEL_SALES_MAX];
    uint32_t sales_count;
    struct order orders[MODEL_ORDERS_MAX];
    char refs[MODEL_ORDERS_MAX][PAYMENT_REF_BYTES_MAX + 1]; /* of the payment taken for each, or empty */
    uint32_t orders_count, orders_max;
    /* Some orders of sales that were let go of. */
    struct order past[MODEL_PAST_MAX];
    char past_refs[MODEL_PAST_MAX][PAYMENT_REF_BYTES_MAX + 1];
    uint32_t past_count;
    struct model_token tokens[MODEL_TOKENS_MAX];
    uint32_t tokens_count;
    struct model_name names[MODEL_NAMES_MAX];
    uint32_t names_count;
    uint64_t seq, sale_id_last, floor_ms;
};

struct sale *model_sale(struct model *model, uint64_t id); /* or NULL */
const struct order *model_order(const struct model *model, uint64_t no);
const char *model_ref(const struct model *model, uint64_t no); /* of an order that is there */
uint32_t model_held(const struct model *model);                /* orders */
/* Held and paid orders of a buyer. */
uint32_t model_grabs(const struct model *model, uint64_t sale_id, const char *buyer);

/* Each makes the change where the verdict is WON or DONE. */
enum verdict model_grab(struct model *model, const struct grab *grab, const struct order **order);
enum verdict model_token(struct model *model, const struct token_ask *ask, uint64_t *nonce, const struct order **order);
uint32_t model_tokens_unspent(const struct model *model);
/* What a payment leads to; kind where it is DONE. order as it then is. */
enum verdict model_pay(struct model *model, const struct payment *payment, enum decision_kind *kind,
                       const struct order **order);
enum verdict model_pay_past(struct model *model, const struct payment *payment, const struct order **order);
enum verdict model_cancel(struct model *model, const struct cancel *cancel, const struct order **order);
/* Whether this hold may expire now; then it has. */
bool model_expire(struct model *model, uint64_t no, uint64_t now_ms);
/* The earliest time that any hold is to be paid by; UINT64_MAX where there is none. */
uint64_t model_due_ms(const struct model *model);
enum verdict model_create(struct model *model, const char *seller, const struct sale_terms *terms, uint32_t stock,
                          uint64_t now_ms);
enum verdict model_change(struct model *model, const char *asker, uint64_t id, const struct sale_terms *terms,
                          uint64_t now_ms);
enum verdict model_stock(struct model *model, const char *asker, uint64_t id, int64_t add, uint64_t now_ms);
enum verdict model_switch(struct model *model, const char *asker, uint64_t id, enum decision_kind kind, uint64_t now_ms);
bool model_forget(struct model *model, uint64_t id, uint64_t now_ms); /* whether it may be */

#endif
