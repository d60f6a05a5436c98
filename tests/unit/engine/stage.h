/* stage: an engine with nothing behind it, for scripts of grabs and changes.
 *
 * Each stage_*() asks for a decision and applies it when it was made, as the gate does, after seeing that replay would have
 * no objection to it. */
#ifndef TESTS_UNIT_ENGINE_STAGE_H
#define TESTS_UNIT_ENGINE_STAGE_H

#include "engine/engine.h"
#include "tests/unit/base/dice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* The same asker, at a time. */
#define ASKER_AT(who, at_ms) (&(struct asker){ .name = (who)->name, .admin = (who)->admin, .now_ms = (at_ms) })

struct engine *stage_open(uint32_t orders_max);

/* "shoes", no price, one unit a grab, one grab a buyer, open from 0 on, for ever, paid at once, login. */
struct sale_terms stage_terms(void);
void stage_rename(struct sale_terms *terms, const char *name);

enum verdict stage_create(struct engine *engine, const char *seller, const struct sale_terms *terms, uint32_t stock,
                          uint64_t now_ms);
uint64_t stage_sale(struct engine *engine, const struct sale_terms *terms, uint32_t stock); /* by "sam" at 0; its id */
enum verdict stage_change(struct engine *engine, uint64_t sale_id, const struct sale_terms *terms, uint64_t now_ms);
enum verdict stage_stock(struct engine *engine, uint64_t sale_id, int64_t add, uint64_t now_ms);
enum verdict stage_switch(struct engine *engine, uint64_t sale_id, enum decision_kind kind, uint64_t now_ms);
enum verdict stage_grab(struct engine *engine, const struct grab *grab, struct grab_answer *answer);
/* One unit for a buyer, no key. */
enum verdict stage_buy(struct engine *engine, uint64_t sale_id, const char *buyer, uint64_t now_ms);

enum verdict stage_token(struct engine *engine, const struct token_ask *ask, struct token_answer *answer);
/* The nonce of a token that the buyer asks for and gets. */
uint64_t stage_nonce(struct engine *engine, uint64_t sale_id, const char *buyer, uint64_t now_ms);

enum verdict stage_pay(struct engine *engine, const struct payment *payment, struct order *order);
enum verdict stage_cancel(struct engine *engine, const struct cancel *cancel, struct order *order);
/* The number of the order that expires, or 0. */
uint64_t stage_expire(struct engine *engine, uint64_t now_ms);
struct order stage_order(const struct engine *engine, uint64_t no); /* fails where there is none */

struct sale stage_look(const struct engine *engine, uint64_t sale_id); /* fails where there is none */

void assert_same_verdict(enum verdict got, enum verdict want, const char *what, size_t row);
void assert_same_terms(const struct sale_terms *got, const struct sale_terms *want);
void assert_same_sale(const struct sale *got, const struct sale *want);
void assert_same_order(const struct order *got, const struct order *want);

/* STAMPEDE_SEED, or a new seed; printed either way, so that a failing run can be had again. */
uint64_t stage_seed(const char *test);

#endif
