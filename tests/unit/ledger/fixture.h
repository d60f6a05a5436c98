/* fixture: a ledger in a folder of its own, and decisions filed into it. */
#ifndef STAMPEDE_TESTS_LEDGER_FIXTURE_H
#define STAMPEDE_TESTS_LEDGER_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ledger/ledger.h"

struct fixture {
    char folder[64];
    char path[128];
    struct ledger *ledger;
    uint64_t seq, sale_id;
};

int fixture_setup(void **state);
int fixture_teardown(void **state);
void fixture_reopen(struct fixture *f);

/* SQL run by a connection of its own, as an operator would. */
void outside(const struct fixture *f, const char *sql);
int64_t outside_number(const struct fixture *f, const char *sql);

/* One transaction of one decision each. They answer the id or number it got. */
struct sale_terms terms_named(const char *name);
uint64_t sale_file(struct fixture *f, const char *seller, const struct sale_terms *terms, uint32_t stock);
uint64_t win_file(struct fixture *f, uint64_t sale_id, const char *buyer, const char *key, uint32_t units);
struct decision win_of(uint64_t seq, uint64_t sale_id, const char *buyer, const char *key, uint32_t units);
/* A win that is held until pay_by_ms; what ends it, by a decision of its own. */
uint64_t hold_file(struct fixture *f, uint64_t sale_id, const char *buyer, uint32_t units, uint64_t pay_by_ms);
struct decision end_of(const struct fixture *f, enum decision_kind kind, uint64_t sale_id, uint64_t order_no,
                       uint32_t units);
enum fault decisions_try(struct fixture *f, const struct decision *decisions, size_t count);
void decision_must(struct fixture *f, const struct decision *decision);

#endif
