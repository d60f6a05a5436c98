/* What others ask the keeper for: no sale keeps another from being built. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "gate/keeper/inside.h"

#include <unistd.h>

#define SILENT_MS 600 /* longer than a turn waits for a second one */
#define HERE ((struct ledger *)1)

static struct keeper keeper;
static struct {
    uint64_t silent, away; /* sales; 0: none */
    bool away_all;
    uint64_t ledger_lost_by;
    struct ledger *ledger;
    uint64_t tried[16];
    bool anyway[16];
    int count;
} world;

/* These take the places of those in src. */

bool sale_rebuild(struct keeper *asked, uint64_t sale_id, bool anyway)
{
    assert_ptr_equal(asked, &keeper);
    world.tried[world.count] = sale_id;
    world.anyway[world.count++] = anyway;
    if (sale_id == world.silent) usleep(SILENT_MS * 1000);
    if (sale_id == world.ledger_lost_by) world.ledger = NULL;
    return sale_id != world.silent && sale_id != world.ledger_lost_by;
}

bool sale_is_away(struct keeper *asked, uint64_t sale_id)
{
    assert_ptr_equal(asked, &keeper);
    return world.away_all || sale_id == world.away;
}

bool keeper_stopping(struct keeper *asked)
{
    assert_ptr_equal(asked, &keeper);
    return false;
}

struct ledger *keeper_ledger(struct keeper *asked)
{
    assert_ptr_equal(asked, &keeper);
    return world.ledger;
}

static int world_make(void **state)
{
    (void)state;
    memset(&world, 0, sizeof world);
    memset(&keeper, 0, sizeof keeper);
    world.ledger = HERE;
    keeper.hasty = true; /* there is no loop to be woken */
    return pthread_mutex_init(&keeper.lock, NULL);
}

static int world_end(void **state)
{
    (void)state;
    return pthread_mutex_destroy(&keeper.lock);
}

/* Which sales a turn has tried, in their order; 0 ends them. */
static void turn_tries(const uint64_t *want)
{
    int at = 0;
    world.count = 0;
    rebuilds_do(&keeper);
    for (; want[at] != 0; at++) {
        assert_true(at < world.count);
        assert_int_equal(world.tried[at], want[at]);
    }
    assert_int_equal(world.count, at);
}
#define TRIES(...) ((const uint64_t[]){ __VA_ARGS__, 0 })

static void asked_often_it_is_done_once(void **state)
{
    (void)state;
    keeper_rebuild(&keeper, 1);
    keeper_mend(&keeper, 2);
    keeper_rebuild(&keeper, 1);
    keeper_rebuild(&keeper, 2);
    turn_tries(TRIES(1, 2));
    assert_true(!world.anyway[0] && world.anyway[1]);
    turn_tries(TRIES(0));
    keeper.mended[0].at_ms += 3600 * 1000; /* however long this machine stands still */
    keeper_mend(&keeper, 2);               /* refusals come in crowds */
    turn_tries(TRIES(2));
    assert_false(world.anyway[0]);
}

/* The last mend may have been before what it says: nobody asks for that again. */
static void a_mend_that_comes_soon_after_another_is_done_later(void **state)
{
    (void)state;
    keeper_mend(&keeper, 2);
    turn_tries(TRIES(2));
    struct mended *mended = keeper.mended[0].sale_id == 2 ? &keeper.mended[0] : &keeper.mended[1];
    mended->at_ms += 3600 * 1000; /* however long this machine stands still */
    keeper_mend(&keeper, 2);
    keeper_mend(&keeper, 2);
    turn_tries(TRIES(2));
    assert_false(world.anyway[0]);
    turn_tries(TRIES(0));
    mended->at_ms = 0;
    turn_tries(TRIES(2));
    assert_true(world.anyway[0]);
    turn_tries(TRIES(0));
}

static void a_mend_that_waits_is_not_forgotten_for_others(void **state)
{
    (void)state;
    bool mended = false;
    keeper_mend(&keeper, 1);
    turn_tries(TRIES(1));
    keeper_mend(&keeper, 1);
    turn_tries(TRIES(1));
    for (uint64_t sale_id = 2; sale_id < 3 + KEEPER_MENDED; sale_id++) {
        world.count = 0;
        keeper_mend(&keeper, sale_id);
        rebuilds_do(&keeper);
        for (int i = 0; i < world.count; i++) mended = mended || (world.tried[i] == 1 && world.anyway[i]);
    }
    assert_true(mended);
}

/* The one that does not answer is asked for all the time, and yet is not the first again. */
static void those_behind_one_that_does_not_answer_are_built_in_the_next_turn(void **state)
{
    (void)state;
    world.silent = 1;
    keeper_rebuild(&keeper, 1);
    keeper_rebuild(&keeper, 2);
    keeper_mend(&keeper, 3);
    turn_tries(TRIES(1));
    keeper_rebuild(&keeper, 1);
    turn_tries(TRIES(2, 3, 1));
    assert_true(!world.anyway[0] && world.anyway[1]);
    turn_tries(TRIES(0));
}

/* What came to nothing because Redis fell silent just then is not taken for done, nor for done a moment ago. */
static void a_mend_that_was_waited_for_in_vain_is_tried_again(void **state)
{
    (void)state;
    world.silent = 1;
    keeper_mend(&keeper, 1);
    keeper_rebuild(&keeper, 2);
    turn_tries(TRIES(1));
    world.silent = 0;
    turn_tries(TRIES(2, 1));
    assert_true(world.anyway[1]);
    turn_tries(TRIES(0));
}

static void mends_of_one_that_is_away_leave_room_for_others(void **state)
{
    (void)state;
    world.away_all = true;
    for (uint64_t sale_id = 1; sale_id <= KEEPER_ASKS_MAX; sale_id++) keeper_mend(&keeper, sale_id);
    turn_tries(TRIES(0));
    keeper_rebuild(&keeper, KEEPER_ASKS_MAX + 1);
    assert_int_equal(keeper.rebuilds.count, KEEPER_ASKS_MAX / 2 + 1);
}

static void one_whose_redis_is_away_costs_the_others_nothing(void **state)
{
    (void)state;
    world.away = 1;
    keeper_mend(&keeper, 1);
    keeper_rebuild(&keeper, 2);
    turn_tries(TRIES(2));
    world.away = 0;
    turn_tries(TRIES(1)); /* nobody else knows that it is to be mended */
    assert_true(world.anyway[0]);
    world.away = 1;
    keeper_rebuild(&keeper, 1);
    turn_tries(TRIES(0));
    world.away = 0;
    turn_tries(TRIES(0)); /* that it is not there whoever needs it finds again */
}

static void those_that_the_ledger_did_not_live_for_wait_for_it(void **state)
{
    (void)state;
    world.ledger_lost_by = 1;
    keeper_rebuild(&keeper, 1);
    keeper_rebuild(&keeper, 2);
    keeper_mend(&keeper, 3);
    turn_tries(TRIES(1));
    turn_tries(TRIES(0));
    keeper_mend(&keeper, 2);
    world.ledger = HERE;
    turn_tries(TRIES(2, 3));
    assert_true(world.anyway[0] && world.anyway[1]);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, world_make, world_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(asked_often_it_is_done_once),
        CASE(a_mend_that_comes_soon_after_another_is_done_later),
        CASE(a_mend_that_waits_is_not_forgotten_for_others),
        CASE(those_behind_one_that_does_not_answer_are_built_in_the_next_turn),
        CASE(a_mend_that_was_waited_for_in_vain_is_tried_again),
        CASE(mends_of_one_that_is_away_leave_room_for_others),
        CASE(one_whose_redis_is_away_costs_the_others_nothing),
        CASE(those_that_the_ledger_did_not_live_for_wait_for_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
