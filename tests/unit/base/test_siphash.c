#include "base/siphash.h"

#include "tests/unit/base/dice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>

static const uint8_t paper_key[16] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };

/* Published with the algorithm: key 00..0f, input 00, 01, 02, … of each length. */
static void the_published_vectors_hold(void **state)
{
    (void)state;
    static const uint64_t want[] = {
        0x726fdb47dd0e0e31, 0x74f839c593dc67fd, 0x0d6c8009d9a94f5a, 0x85676696d7fb7e2d,
        0xcf2794e0277187b7, 0x18765564cd99a68d, 0xcbc9466e58fee3ce, 0xab0200f58b01d137,
        0x93f5f5799a932462, 0x9e0082df0ba9e4b0, 0x7a5dbbc594ddb9f3, 0xf4b32f46226bada7,
        0x751e8fbc860ee5fb, 0x14ea5627c0843d90, 0xf723ca908e7af2ee, 0xa129ca6149be45e5,
    };
    uint8_t input[16];
    for (size_t i = 0; i < sizeof input; i++) input[i] = (uint8_t)i;
    for (size_t len = 0; len < sizeof want / sizeof want[0]; len++) {
        assert_true(siphash(paper_key, input, len) == want[len]);
    }
}

static uint64_t openssl_says(EVP_MAC *mac, unsigned word_rounds, unsigned end_rounds, const uint8_t *input, size_t len)
{
    size_t size = 8, wrote = 0;
    uint8_t out[8];
    OSSL_PARAM params[] = { OSSL_PARAM_construct_size_t(OSSL_MAC_PARAM_SIZE, &size),
                            OSSL_PARAM_construct_uint(OSSL_MAC_PARAM_C_ROUNDS, &word_rounds),
                            OSSL_PARAM_construct_uint(OSSL_MAC_PARAM_D_ROUNDS, &end_rounds), OSSL_PARAM_construct_end() };
    EVP_MAC_CTX *context = EVP_MAC_CTX_new(mac);
    assert_non_null(context);
    assert_int_equal(EVP_MAC_init(context, paper_key, sizeof paper_key, params), 1);
    assert_int_equal(EVP_MAC_update(context, input, len), 1);
    assert_int_equal(EVP_MAC_final(context, out, &wrote, sizeof out), 1);
    EVP_MAC_CTX_free(context);
    assert_int_equal(wrote, sizeof out);
    uint64_t hash = 0;
    for (size_t i = 0; i < sizeof out; i++) hash |= (uint64_t)out[i] << (8 * i);
    return hash;
}

static void both_kinds_are_those_of_openssl(void **state)
{
    (void)state;
    EVP_MAC *mac = EVP_MAC_fetch(NULL, "SIPHASH", NULL);
    assert_non_null(mac);
    uint8_t input[200];
    for (size_t i = 0; i < sizeof input; i++) input[i] = (uint8_t)(i * 101 + 3);
    for (size_t len = 0; len <= sizeof input; len++) {
        assert_true(siphash(paper_key, input, len) == openssl_says(mac, 2, 4, input, len));
        assert_true(siphash_of_table(paper_key, input, len) == openssl_says(mac, 1, 3, input, len));
    }
    EVP_MAC_free(mac);
}

static void the_place_of_the_input_does_not_matter(void **state)
{
    (void)state;
    uint8_t memory[80];
    for (size_t len = 0; len <= 64; len++) {
        uint64_t first = 0;
        for (size_t shift = 0; shift < 8; shift++) {
            for (size_t i = 0; i < len; i++) memory[shift + i] = (uint8_t)(i * 7);
            uint64_t hash = siphash(paper_key, memory + shift, len);
            if (shift == 0) first = hash;
            assert_true(hash == first);
        }
    }
}

/* Any bit turned, of key or input, turns about half of the hash. */
static void every_bit_of_key_and_input_counts(void **state)
{
    (void)state;
    uint8_t text[24], key[16];
    memcpy(key, paper_key, sizeof key);
    for (size_t i = 0; i < sizeof text; i++) text[i] = (uint8_t)(i * 37);
    uint64_t before = siphash(key, text, sizeof text);
    for (size_t bit = 0; bit < sizeof text * 8; bit++) {
        text[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_in_range(__builtin_popcountll(before ^ siphash(key, text, sizeof text)), 10, 54);
        text[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (size_t bit = 0; bit < sizeof key * 8; bit++) {
        key[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_in_range(__builtin_popcountll(before ^ siphash(key, text, sizeof text)), 10, 54);
        key[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

/* Names of buyers are as alike as names can be; buckets are taken from the low bits. Chi squared over 1,024 buckets has mean
 * 1,023 and deviation 45; the bounds are more than six deviations away. */
static void buyers_spread_evenly_over_buckets(void **state)
{
    (void)state;
    enum { BUCKETS = 1024, NAMES = 200000 };
    for (uint64_t seed = 1; seed <= 5; seed++) {
        uint64_t dice = seed;
        uint8_t key[16];
        for (size_t i = 0; i < sizeof key; i++) key[i] = (uint8_t)dice_roll(&dice);
        static uint32_t counts[BUCKETS];
        memset(counts, 0, sizeof counts);
        for (int i = 0; i < NAMES; i++) {
            char name[24];
            int len = snprintf(name, sizeof name, "buyer-%010d", i);
            counts[siphash(key, name, (size_t)len) % BUCKETS]++;
        }
        double expected = (double)NAMES / BUCKETS, chi = 0;
        for (int b = 0; b < BUCKETS; b++) chi += (counts[b] - expected) * (counts[b] - expected) / expected;
        assert_true(chi > 730 && chi < 1320);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_vectors_hold),
        cmocka_unit_test(both_kinds_are_those_of_openssl),
        cmocka_unit_test(the_place_of_the_input_does_not_matter),
        cmocka_unit_test(every_bit_of_key_and_input_counts),
        cmocka_unit_test(buyers_spread_evenly_over_buckets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
