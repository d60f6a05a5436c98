#include "base/checksum.h"

#include "tests/unit/base/dice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Known answers, the last four from RFC 3720, appendix B.4. */
static void known_answers_hold_with_and_without_the_instruction(void **state)
{
    (void)state;
    uint8_t zeros[32] = { 0 }, ones[32], up[32], down[32];
    for (size_t i = 0; i < 32; i++) {
        ones[i] = 0xff;
        up[i] = (uint8_t)i;
        down[i] = (uint8_t)(31 - i);
    }
    const struct {
        const void *data;
        size_t len;
        uint32_t want;
    } rows[] = {
        { "", 0, 0 },
        { "a", 1, 0xc1d04330 },
        { "123456789", 9, 0xe3069283 },
        { zeros, 32, 0x8a9136aa },
        { ones, 32, 0x62a8ab43 },
        { up, 32, 0x46dd794e },
        { down, 32, 0x113fdb5c },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(crc32c(0, rows[i].data, rows[i].len), rows[i].want);
        assert_int_equal(crc32c_by_table(0, rows[i].data, rows[i].len), rows[i].want);
    }
}

static uint32_t crc_bit_by_bit(uint32_t seed, const uint8_t *data, size_t len)
{
    uint32_t crc = ~seed;
    for (size_t i = 0; i < len; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0x82f63b78) : 0);
    }
    return ~crc;
}

static void all_three_ways_agree_at_every_length_and_place(void **state)
{
    (void)state;
    uint64_t dice = 7;
    uint8_t data[400];
    for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)dice_roll(&dice);
    for (size_t shift = 0; shift < 16; shift++) {
        for (size_t len = 0; len <= 300; len++) {
            uint32_t seed = (uint32_t)dice_roll(&dice);
            uint32_t want = crc_bit_by_bit(seed, data + shift, len);
            assert_int_equal(crc32c(seed, data + shift, len), want);
            assert_int_equal(crc32c_by_table(seed, data + shift, len), want);
        }
    }
}

static void a_text_in_two_pieces_has_the_sum_of_the_whole(void **state)
{
    (void)state;
    uint64_t dice = 9;
    uint8_t data[200];
    for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)dice_roll(&dice);
    uint32_t whole = crc32c(0, data, sizeof data);
    for (size_t cut = 0; cut <= sizeof data; cut++) {
        assert_int_equal(crc32c(crc32c(0, data, cut), data + cut, sizeof data - cut), whole);
        assert_int_equal(crc32c_by_table(crc32c(0, data, cut), data + cut, sizeof data - cut), whole);
    }
}

static void every_single_flipped_bit_is_noticed(void **state)
{
    (void)state;
    uint8_t data[512] = { 1, 2, 3 };
    uint32_t before = crc32c(5, data, sizeof data);
    for (size_t bit = 0; bit < sizeof data * 8; bit++) {
        data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_not_equal(crc32c(5, data, sizeof data), before);
        data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers_hold_with_and_without_the_instruction),
        cmocka_unit_test(all_three_ways_agree_at_every_length_and_place),
        cmocka_unit_test(a_text_in_two_pieces_has_the_sum_of_the_whole),
        cmocka_unit_test(every_single_flipped_bit_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
