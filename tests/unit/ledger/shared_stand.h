/* shared_stand: a ledger that two nodes have open, each by a connection of its own. STAMPEDE_TEST_LEDGER names a MySQL
 * database, which is emptied for each test; without it there is a new SQLite file. */
#ifndef STAMPEDE_TESTS_LEDGER_SHARED_STAND_H
#define STAMPEDE_TESTS_LEDGER_SHARED_STAND_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ledger/shared.h"

struct stand {
    char folder[64], path[128];
    struct ledger_place place;
    struct ledger *a, *b; /* two nodes */
    uint64_t no;          /* the last number that was made */
    struct sale sale;     /* of the last change */
    struct ledger_errand errand;
};

int stand_setup(void **state);
int stand_teardown(void **state);
struct ledger *stand_connect(const struct stand *stand);

/* A sale of ann's with two units a grab at most, open from 1000 to 9000. */
struct sale_terms stand_terms(const char *name, uint32_t grabs, uint32_t pay_within_s);
uint64_t stand_sale(struct stand *stand, const struct sale_terms *terms, uint32_t stock);
enum verdict stand_change(struct stand *stand, const struct ledger_change *change);
uint64_t stand_epoch(struct stand *stand, uint64_t sale_id); /* raises it */

/* A win with a number of its own, at 2000; to be paid by 3000 where held. */
struct ledger_take stand_win(struct stand *stand, uint64_t sale_id, const char *buyer, uint64_t epoch);
struct ledger_take stand_hold(struct stand *stand, uint64_t sale_id, const char *buyer, uint64_t epoch);
/* Files one, and answers what became of it. */
enum take_result stand_file(struct ledger *ledger, struct ledger_take *take);

struct sale stand_read(struct stand *stand, uint64_t sale_id);
struct ledger_order stand_order(struct stand *stand, uint64_t no);
#define assert_counts(sale, a, h, s)                                                                                        \
    do {                                                                                                                    \
        assert_int_equal((sale).counts.available, a);                                                                       \
        assert_int_equal((sale).counts.held, h);                                                                            \
        assert_int_equal((sale).counts.sold, s);                                                                            \
    } while (0)
/* What an audit asks of the sums: nothing is uneven, miscounted or contradictory. */
void stand_adds_up(struct stand *stand);

#endif
