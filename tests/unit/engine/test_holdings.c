#include "stage.h"

#include "engine/holdings.h"

#include <stdio.h>
#include <string.h>

static const uint8_t hash_key[16] = "0123456789abcde";

struct won {
    uint64_t sale_id, no;
    const char *buyer, *key;
};

static void add(struct holdings *holdings, uint32_t *list, struct won won)
{
    struct holder holder = holder_of(holdings, won.sale_id, slice_of(won.buyer));
    struct holding_new order = {
        .no = won.no, .won_ms = won.no * 10, .key = slice_of(won.key), .units = 1, .state = ORDER_PAID
    };
    assert_true(holdings_have_room(holdings));
    holdings_add(holdings, &holder, &order, list);
}

static uint64_t number_in(const struct holdings *holdings, uint32_t cell)
{
    if (cell == 0) return 0;
    struct sale sale = { .id = 1, .terms = stage_terms() };
    struct order order;
    holdings_order(holdings, cell, &sale, &order);
    return order.no;
}

static uint64_t newest_of(const struct holdings *holdings, uint64_t sale_id, const char *buyer)
{
    struct holder holder = holder_of(holdings, sale_id, slice_of(buyer));
    return number_in(holdings, holdings_standing(holdings, &holder));
}

static uint32_t grabs_of(const struct holdings *holdings, uint64_t sale_id, const char *buyer)
{
    struct holder holder = holder_of(holdings, sale_id, slice_of(buyer));
    return holding_at(holdings, holdings_standing(holdings, &holder))->grabs;
}

/* A ledger gives orders as it likes; the one with the highest number stands for its buyer. */
static void the_newest_order_counts_all_in_any_order_of_arrival(void **state)
{
    (void)state;
    static const uint64_t arrivals[][3] = { { 1, 2, 3 }, { 1, 3, 2 }, { 2, 1, 3 }, { 2, 3, 1 }, { 3, 1, 2 }, { 3, 2, 1 } };
    for (size_t i = 0; i < 6; i++) {
        struct holdings holdings;
        uint32_t list = 0;
        assert_int_equal(holdings_open(&holdings, 10, hash_key), FAULT_NONE);
        for (size_t j = 0; j < 3; j++) add(&holdings, &list, (struct won){ 1, arrivals[i][j], "ann", "" });
        assert_int_equal(newest_of(&holdings, 1, "ann"), 3);
        assert_int_equal(grabs_of(&holdings, 1, "ann"), 3);
        while (list != 0) holdings_drop(&holdings, &list);
        assert_int_equal(newest_of(&holdings, 1, "ann"), 0);
        holdings_close(&holdings);
    }
}

static void a_buyer_is_known_by_sale_and_by_every_byte(void **state)
{
    (void)state;
    struct holdings holdings;
    uint32_t lists[3] = { 0 };
    assert_int_equal(holdings_open(&holdings, 10, hash_key), FAULT_NONE);
    add(&holdings, &lists[1], (struct won){ 1, 1, "ann", "" });
    add(&holdings, &lists[2], (struct won){ 2, 2, "ann", "" });
    add(&holdings, &lists[1], (struct won){ 1, 3, "Ann", "" });
    add(&holdings, &lists[1], (struct won){ 1, 4, "ann ", "" });
    assert_int_equal(newest_of(&holdings, 1, "ann"), 1);
    assert_int_equal(newest_of(&holdings, 2, "ann"), 2);
    assert_int_equal(newest_of(&holdings, 1, "Ann"), 3);
    assert_int_equal(newest_of(&holdings, 1, "ann "), 4);
    assert_int_equal(newest_of(&holdings, 2, "Ann"), 0);
    holdings_close(&holdings);
}

/* Texts of every length lie in cells of three sizes. */
static void texts_of_every_length_come_back(void **state)
{
    (void)state;
    struct holdings holdings;
    uint32_t list = 0;
    assert_int_equal(holdings_open(&holdings, 64, hash_key), FAULT_NONE);
    struct sale sale = { .id = 1, .terms = stage_terms() };
    for (int round = 0; round < 2; round++) {
        char text[65];
        memset(text, 'a' + round, 64);
        for (size_t len = 1; len <= 64; len++) {
            char buyer[65];
            memcpy(buyer, text, len);
            buyer[len] = '\0';
            add(&holdings, &list, (struct won){ 1, len, buyer, buyer });
        }
        for (size_t len = 1; len <= 64; len++) {
            struct order order;
            holdings_order(&holdings, holdings_by_no(&holdings, len), &sale, &order);
            assert_int_equal(strlen(order.buyer), len);
            assert_memory_equal(order.buyer, text, len);
            assert_string_equal(order.key, order.buyer);
            struct holder holder = holder_of(&holdings, 1, slice_of(order.buyer));
            assert_int_equal(number_in(&holdings, holdings_by_key(&holdings, &holder, slice_of(order.key))), len);
        }
        assert_false(holdings_have_room(&holdings));
        while (list != 0) holdings_drop(&holdings, &list);
        for (size_t len = 1; len <= 64; len++) assert_int_equal(holdings_by_no(&holdings, len), 0);
        for (int i = 0; i < TEXT_SIZES; i++) assert_int_equal(holdings.texts.sizes[i].used, 0);
    }
    holdings_close(&holdings);
}

static void numbers_beyond_32_bits_are_told_apart(void **state)
{
    (void)state;
    struct holdings holdings;
    uint32_t list = 0;
    assert_int_equal(holdings_open(&holdings, 10, hash_key), FAULT_NONE);
    uint64_t numbers[] = { 5, UINT64_C(1) << 32 | 5, UINT64_C(7) << 32 | 5, UINT64_MAX };
    for (size_t i = 0; i < 4; i++) add(&holdings, &list, (struct won){ 1, numbers[i], "ann", "" });
    for (size_t i = 0; i < 4; i++) assert_int_equal(number_in(&holdings, holdings_by_no(&holdings, numbers[i])), numbers[i]);
    assert_int_equal(holdings_by_no(&holdings, UINT64_C(2) << 32 | 5), 0);
    assert_int_equal(newest_of(&holdings, 1, "ann"), UINT64_MAX);
    holdings_close(&holdings);
}

/* Hashes only lead the way: buyers, sales and keys that share one are told apart by what they are. */
static void equal_hashes_mix_up_nobody(void **state)
{
    (void)state;
    struct holdings holdings;
    uint32_t lists[3] = { 0 };
    assert_int_equal(holdings_open(&holdings, 10, hash_key), FAULT_NONE);
    const struct holder holders[] = {
        { .hash = 7, .slot = 1, .buyer = SLICE("ann") },
        { .hash = 7, .slot = 1, .buyer = SLICE("bob") },
        { .hash = 7, .slot = 2, .buyer = SLICE("ann") },
    };
    for (uint64_t i = 0; i < 3; i++) {
        struct holding_new order = { .no = i + 1, .key = SLICE("k"), .units = 1 };
        holdings_add(&holdings, &holders[i], &order, &lists[holders[i].slot]);
    }
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(number_in(&holdings, holdings_standing(&holdings, &holders[i])), i + 1);
        assert_int_equal(number_in(&holdings, holdings_by_key(&holdings, &holders[i], SLICE("k"))), i + 1);
        assert_int_equal(holdings_by_key(&holdings, &holders[i], SLICE("l")), 0);
    }
    const struct holder stranger = { .hash = 7, .slot = 2, .buyer = SLICE("bob") };
    assert_int_equal(holdings_standing(&holdings, &stranger), 0);
    assert_int_equal(holdings_by_key(&holdings, &stranger, SLICE("k")), 0);
    holdings_drop(&holdings, &lists[2]);
    assert_int_equal(holdings_standing(&holdings, &holders[2]), 0);
    assert_int_equal(number_in(&holdings, holdings_standing(&holdings, &holders[0])), 1);
    holdings_close(&holdings);
}

static void who_let_go_of_all_holds_nothing(void **state)
{
    (void)state;
    struct holdings holdings;
    uint32_t list = 0;
    assert_int_equal(holdings_open(&holdings, 1000, hash_key), FAULT_NONE);
    for (uint64_t no = 1; no <= 1000; no++) {
        char buyer[16];
        snprintf(buyer, sizeof buyer, "b%u", (unsigned)no % 500);
        add(&holdings, &list, (struct won){ 1, no, buyer, "" });
    }
    for (uint32_t i = 0; i < 500; i++) {
        char buyer[16];
        snprintf(buyer, sizeof buyer, "b%u", i);
        struct holder holder = holder_of(&holdings, 1, slice_of(buyer));
        assert_true(holdings_may_hold(&holdings, &holder));
    }
    while (list != 0) holdings_drop(&holdings, &list);
    for (uint32_t i = 0; i < 500; i++) {
        char buyer[16];
        snprintf(buyer, sizeof buyer, "b%u", i);
        struct holder holder = holder_of(&holdings, 1, slice_of(buyer));
        assert_false(holdings_may_hold(&holdings, &holder));
    }
    holdings_close(&holdings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_order_counts_all_in_any_order_of_arrival),
        cmocka_unit_test(a_buyer_is_known_by_sale_and_by_every_byte),
        cmocka_unit_test(texts_of_every_length_come_back),
        cmocka_unit_test(numbers_beyond_32_bits_are_told_apart),
        cmocka_unit_test(equal_hashes_mix_up_nobody),
        cmocka_unit_test(who_let_go_of_all_holds_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
