/* What goods and event mean is remembered for a while, by both texts together, and asked for anew then. */
#include "doors/goods.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static void what_was_found_is_known_for_a_while(void **state)
{
    (void)state;
    static const struct goods phone = { "phone", "spring" }, other = { "phone", "autumn" }, swapped = { "spring", "phone" };
    uint64_t sale_id = 0;
    assert_false(goods_recall(&phone, 1000, &sale_id));
    goods_remember(&phone, 1000, 7);
    assert_true(goods_recall(&phone, 1000 + GOODS_MS - 1, &sale_id));
    assert_int_equal(sale_id, 7);
    assert_false(goods_recall(&other, 1000, &sale_id));
    assert_false(goods_recall(&swapped, 1000, &sale_id));
    /* One asks anew, the others go on meanwhile. */
    assert_false(goods_recall(&phone, 1000 + GOODS_MS, &sale_id));
    assert_true(goods_recall(&phone, 1000 + GOODS_MS, &sale_id));
    /* What nobody has asked for in a long time is not known at all. */
    assert_false(goods_recall(&phone, 100000, &sale_id));
    assert_false(goods_recall(&phone, 100000, &sale_id));
    goods_remember(&phone, 100000, 8);
    goods_forget(&other);
    assert_true(goods_recall(&phone, 100000, &sale_id));
    assert_int_equal(sale_id, 8);
    goods_forget(&phone);
    assert_false(goods_recall(&phone, 100000, &sale_id));
}

static void more_than_there_is_room_for_never_answers_wrongly(void **state)
{
    (void)state;
    unsigned known = 0;
    for (int round = 0; round < 2; round++) {
        for (unsigned i = 1; i <= 1000; i++) {
            struct goods goods = { .event = "e" };
            uint64_t sale_id = 0;
            snprintf(goods.name, sizeof goods.name, "goods %u", i);
            if (round == 0) {
                goods_remember(&goods, 5, i);
            } else if (goods_recall(&goods, 5, &sale_id)) {
                assert_int_equal(sale_id, i);
                known++;
            }
        }
    }
    assert_true(known > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_found_is_known_for_a_while),
        cmocka_unit_test(more_than_there_is_room_for_never_answers_wrongly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
