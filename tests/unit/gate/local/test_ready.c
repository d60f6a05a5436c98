/* Memory for a crowd: there before it comes, and not where nobody comes or little is to be had. */
#include "stand.h"

#include "base/region.h"

#include <stdio.h>
#include <unistd.h>

static uint64_t create(struct stand *stand, uint32_t stock)
{
    static uint32_t made;
    struct told told = stand_told(stand);
    struct sale_terms phone = { .price = 100,
                                .units_per_grab_max = 1,
                                .grabs_per_buyer_max = 1,
                                .admission = ADMISSION_LOGIN,
                                .opens_ms = gate_now_ms(stand->gate) };
    snprintf(phone.name, sizeof phone.name, "phone %u", ++made);
    gate_create(stand->lane, &(struct asker){ .name = SLICE("sam") }, &phone, stock, &told.ticket);
    stand_await(stand, &told);
    assert_int_equal(told.ticket.verdict, VERDICT_DONE);
    return told.ticket.sale.id;
}

static uint64_t memory_of(struct stand *stand)
{
    struct gate_status status;
    gate_status(stand->gate, &status);
    return status.usage.bytes;
}

enum { ORDERS = 1 << 20, CROWD = ORDERS / 1024, INDEX_BYTES = 4 * ORDERS, ORDER_BYTES_MIN = 64 + 16 };

/* Within five seconds. A system that has it only when it is touched has it never. */
static bool memory_reaches(struct stand *stand, uint64_t bytes)
{
    for (int i = 0; i < 500 && memory_of(stand) < bytes; i++) usleep(10000);
    return memory_of(stand) >= bytes;
}

static bool memory_comes(struct stand *stand, uint64_t before)
{
    return memory_reaches(stand, before + INDEX_BYTES);
}

static bool memory_can_come(void)
{
    struct region region;
    assert_int_equal(region_open(&region, 4096), FAULT_NONE);
    bool can = region_populate(&region, 0, 4096);
    region_close(&region);
    return can;
}

static bool memory_stays_away(struct stand *stand, uint64_t before)
{
    usleep(100000);
    return memory_of(stand) < before + INDEX_BYTES / 4;
}

static void memory_is_made_ready_for_a_crowd_and_not_for_a_few(void **state)
{
    struct stand *stand = *state;
    stand->orders_max = ORDERS;
    stand_open(stand, true);
    uint64_t before = memory_of(stand);
    uint64_t sale = create(stand, CROWD - 1);
    assert_true(memory_stays_away(stand, before));

    struct told more = stand_told(stand);
    gate_stock(stand->lane, &(struct asker){ .name = SLICE("sam") }, sale, 1, &more.ticket);
    stand_await(stand, &more);
    assert_int_equal(memory_comes(stand, before), memory_can_come());
    assert_int_equal(stand_grab(stand, sale, "ann", "").ticket.verdict, VERDICT_WON);
    assert_int_equal(stand_grab(stand, sale, "ann", "").ticket.verdict, VERDICT_ALREADY_WON);
    stand_close(stand);

    stand_open(stand, true); /* one less is left */
    assert_true(memory_stays_away(stand, before));
    stand_close(stand);
}

static void memory_is_made_ready_by_a_restart_too_and_nobody_waits_for_it(void **state)
{
    struct stand *stand = *state;
    stand->orders_max = ORDERS;
    stand_open(stand, true);
    uint64_t before = memory_of(stand);
    uint64_t sale = create(stand, CROWD);
    stand_close(stand); /* at once */
    stand_open(stand, true);
    assert_int_equal(memory_comes(stand, before), memory_can_come());

    struct told closed = stand_told(stand);
    gate_switch(stand->lane, &(struct asker){ .name = SLICE("sam") }, sale, DECISION_SALE_CLOSED, &closed.ticket);
    stand_await(stand, &closed);
    stand_close(stand);
    stand_open(stand, true); /* for one that is over there is no crowd */
    assert_true(memory_stays_away(stand, before));
    stand_close(stand);
}

/* As many orders as the largest sale may make, whenever it is made; and no more than a bound where it has more units than
 * anybody will ever buy. */
static void each_crowd_has_memory_for_its_orders(void **state)
{
    struct stand *stand = *state;
    stand->orders_max = ORDERS;
    stand_open(stand, true);
    uint64_t before = memory_of(stand);
    create(stand, 100000);
    assert_int_equal(memory_reaches(stand, before + INDEX_BYTES + 100000 * ORDER_BYTES_MIN), memory_can_come());
    usleep(100000);
    uint64_t ordinary = memory_of(stand);
    create(stand, 300000);
    assert_int_equal(memory_reaches(stand, ordinary + 200000 * ORDER_BYTES_MIN), memory_can_come());
    create(stand, 1000000000);
    assert_int_equal(memory_reaches(stand, ordinary + 400000 * ORDER_BYTES_MIN), memory_can_come());
    usleep(100000);
    assert_true(memory_of(stand) < before + INDEX_BYTES + ORDERS * ORDER_BYTES_MIN);
    stand_close(stand);
}

/* P9: what is never given back must not be what turns people away. */
static void memory_is_not_made_ready_where_there_is_little(void **state)
{
    struct stand *stand = *state;
    stand->orders_max = ORDERS;
    stand->memory_bytes_max = 1 << 20; /* which the test alone has */
    stand_open(stand, true);
    uint64_t before = memory_of(stand);
    uint64_t sale = create(stand, CROWD);
    assert_true(memory_stays_away(stand, before));
    assert_int_equal(stand_grab(stand, sale, "ann", "").ticket.verdict, VERDICT_WON);
    stand_close(stand);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(memory_is_made_ready_for_a_crowd_and_not_for_a_few, stand_begin, stand_end),
        cmocka_unit_test_setup_teardown(memory_is_made_ready_by_a_restart_too_and_nobody_waits_for_it, stand_begin,
                                        stand_end),
        cmocka_unit_test_setup_teardown(each_crowd_has_memory_for_its_orders, stand_begin, stand_end),
        cmocka_unit_test_setup_teardown(memory_is_not_made_ready_where_there_is_little, stand_begin, stand_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
