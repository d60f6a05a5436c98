#include "stage.h"

#include "engine/names.h"

static const uint8_t hash_key[16] = "0123456789abcde";

static void a_name_belongs_to_one_sale_until_it_is_dropped(void **state)
{
    (void)state;
    struct names names;
    assert_int_equal(names_open(&names, 10, hash_key), FAULT_NONE);
    uint64_t shoes = names_hash(&names, SLICE("sam"), SLICE("shoes"));
    assert_int_equal(names_sale(&names, shoes), 0);
    names_put(&names, shoes, 5);
    assert_int_equal(names_sale(&names, shoes), 5);
    names_drop(&names, names_hash(&names, SLICE("sue"), SLICE("shoes")));
    assert_int_equal(names_sale(&names, shoes), 5);
    names_drop(&names, shoes);
    assert_int_equal(names_sale(&names, shoes), 0);
    names_close(&names);
}

static void where_the_seller_ends_matters(void **state)
{
    (void)state;
    struct names names;
    assert_int_equal(names_open(&names, 10, hash_key), FAULT_NONE);
    assert_int_not_equal(names_hash(&names, SLICE("ab"), SLICE("c")), names_hash(&names, SLICE("a"), SLICE("bc")));
    assert_int_not_equal(names_hash(&names, SLICE("a"), SLICE("b")), names_hash(&names, SLICE("b"), SLICE("a")));
    names_close(&names);
}

/* Hashes that agree in the half the table is built on. */
static void names_that_share_half_a_hash_are_told_apart(void **state)
{
    (void)state;
    struct names names;
    assert_int_equal(names_open(&names, 10, hash_key), FAULT_NONE);
    for (uint64_t i = 1; i <= 10; i++) names_put(&names, i << 32 | 42, i);
    for (uint64_t i = 1; i <= 10; i++) assert_int_equal(names_sale(&names, i << 32 | 42), i);
    names_drop(&names, UINT64_C(5) << 32 | 42);
    for (uint64_t i = 1; i <= 10; i++) assert_int_equal(names_sale(&names, i << 32 | 42), i == 5 ? 0 : i);
    names_close(&names);
}

static void room_is_counted(void **state)
{
    (void)state;
    struct names names;
    assert_int_equal(names_open(&names, 2, hash_key), FAULT_NONE);
    names_put(&names, 1, 1);
    assert_true(names_have_room(&names));
    names_put(&names, 2, 2);
    assert_false(names_have_room(&names));
    names_drop(&names, 1);
    assert_true(names_have_room(&names));
    names_close(&names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_belongs_to_one_sale_until_it_is_dropped),
        cmocka_unit_test(where_the_seller_ends_matters),
        cmocka_unit_test(names_that_share_half_a_hash_are_told_apart),
        cmocka_unit_test(room_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
