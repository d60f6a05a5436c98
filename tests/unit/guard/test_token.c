/* Purchase tokens: nobody makes one, changes one, or uses someone else's. */
#include "guard/token.h"

#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define KEY_A "a 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n"
#define KEY_B "b f00102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n"
#define KEY_A_ANEW "a e00102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n"

struct signer {
    struct jwt_ring *ring;
    struct token_mac *mac;
};

static struct signer signer_of(const char *keys)
{
    struct signer signer;
    char objection[256];
    assert_int_equal(jwt_ring_open(&signer.ring, slice_of(keys), objection), FAULT_NONE);
    assert_int_equal(token_mac_open(&signer.mac, signer.ring), FAULT_NONE);
    return signer;
}

static void signer_close(struct signer *signer)
{
    token_mac_close(signer->mac);
    jwt_ring_close(signer->ring);
}

static const struct token_claim ann = { .sale_id = 7, .buyer = { "ann", 3 }, .nonce = 42, .expires_ms = 1000 };

/* The nonce of a token that is good for the sale and buyer of claim at now_ms, or 0. From memory of just its length. */
static uint64_t verified(const struct signer *signer, struct slice text, struct token_claim claim, uint64_t now_ms)
{
    char *copy = malloc(text.len > 0 ? text.len : 1);
    assert_non_null(copy);
    if (text.len > 0) memcpy(copy, text.data, text.len);
    claim.nonce = claim.expires_ms = 0;
    bool good = token_verify(signer->mac, (struct slice){ copy, text.len }, now_ms, &claim);
    free(copy);
    assert_int_equal(good, claim.nonce != 0);
    if (good) assert_int_equal(claim.expires_ms, 1000);
    return claim.nonce;
}

static void a_token_is_good_for_its_sale_its_buyer_and_its_time(void **state)
{
    (void)state;
    struct signer signer = signer_of(KEY_A);
    char text[PURCHASE_TOKEN_BYTES_MAX];
    struct slice token = { text, token_make(signer.mac, &ann, text) };
    assert_true(token.len > 40 && token.len <= PURCHASE_TOKEN_BYTES_MAX);
    assert_int_equal(verified(&signer, token, ann, 0), 42);
    assert_int_equal(verified(&signer, token, ann, 999), 42);
    assert_int_equal(verified(&signer, token, ann, 1000), 0);
    assert_int_equal(verified(&signer, token, ann, UINT64_MAX), 0);

    struct token_claim other = ann;
    other.sale_id = 8;
    assert_int_equal(verified(&signer, token, other, 0), 0);
    static const char *const buyers[] = { "ana", "Ann", "an", "anna", "ann ", "", "\a" };
    for (size_t i = 0; i < sizeof buyers / sizeof buyers[0]; i++) {
        other = ann;
        other.buyer = slice_of(buyers[i]);
        assert_int_equal(verified(&signer, token, other, 0), 0);
    }
    other = ann;
    static const char long_name[BUYER_BYTES_MAX + 1] = { [0 ... BUYER_BYTES_MAX] = 'x' };
    other.buyer = (struct slice){ long_name, BUYER_BYTES_MAX + 1 };
    assert_int_equal(verified(&signer, token, other, 0), 0);
    signer_close(&signer);
}

static void every_change_of_a_letter_spoils_it(void **state)
{
    (void)state;
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=+/. \n";
    struct signer signer = signer_of(KEY_A);
    char text[PURCHASE_TOKEN_BYTES_MAX];
    size_t len = token_make(signer.mac, &ann, text);
    for (size_t at = 0; at < len; at++) {
        for (size_t i = 0; i < sizeof letters; i++) {
            char was = text[at];
            if (was == letters[i]) continue;
            text[at] = letters[i];
            assert_int_equal(verified(&signer, (struct slice){ text, len }, ann, 0), 0);
            text[at] = was;
        }
    }
    assert_int_equal(verified(&signer, (struct slice){ text, len }, ann, 0), 42);
    signer_close(&signer);
}

static void cut_padded_and_stitched_tokens_are_refused(void **state)
{
    (void)state;
    struct signer signer = signer_of(KEY_A);
    char text[2 * PURCHASE_TOKEN_BYTES_MAX], other_text[PURCHASE_TOKEN_BYTES_MAX];
    size_t len = token_make(signer.mac, &ann, text);
    struct token_claim bob = ann;
    bob.buyer = SLICE("bob");
    bob.nonce = 43;
    assert_int_equal(token_make(signer.mac, &bob, other_text), len);
    for (size_t cut = 0; cut < len; cut++) {
        assert_int_equal(verified(&signer, (struct slice){ text, cut }, ann, 0), 0);
        assert_int_equal(verified(&signer, (struct slice){ text + cut + 1, len - cut - 1 }, ann, 0), 0);
        char stitched[PURCHASE_TOKEN_BYTES_MAX];
        memcpy(stitched, text, cut);
        memcpy(stitched + cut, other_text + cut, len - cut);
        struct slice whole = { stitched, len };
        if (memcmp(stitched, other_text, len) != 0) assert_int_equal(verified(&signer, whole, bob, 0), 0);
        assert_int_equal(verified(&signer, whole, ann, 0), 0);
    }
    memcpy(text + len, "====", 4);
    for (size_t more = 1; more <= 4; more++)
        assert_int_equal(verified(&signer, (struct slice){ text, len + more }, ann, 0), 0);
    memcpy(text + len, text, len);
    assert_int_equal(verified(&signer, (struct slice){ text, 2 * len }, ann, 0), 0);
    signer_close(&signer);
}

static void keys_rotate_and_old_tokens_live_as_long_as_their_key(void **state)
{
    (void)state;
    struct signer old = signer_of(KEY_A), both = signer_of(KEY_B KEY_A), fresh = signer_of(KEY_B);
    struct signer same_name = signer_of(KEY_A_ANEW);
    char text[PURCHASE_TOKEN_BYTES_MAX], new_text[PURCHASE_TOKEN_BYTES_MAX];
    struct slice token = { text, token_make(old.mac, &ann, text) };
    struct slice new_token = { new_text, token_make(both.mac, &ann, new_text) };
    assert_int_equal(verified(&both, token, ann, 0), 42);
    assert_int_equal(verified(&both, new_token, ann, 0), 42);
    assert_int_equal(verified(&fresh, new_token, ann, 0), 42);
    assert_int_equal(verified(&fresh, token, ann, 0), 0);
    assert_int_equal(verified(&old, new_token, ann, 0), 0);
    assert_int_equal(verified(&same_name, token, ann, 0), 0);
    signer_close(&old);
    signer_close(&both);
    signer_close(&fresh);
    signer_close(&same_name);
}

static void other_thread_and_process_agree(void **state)
{
    (void)state;
    struct signer one = signer_of(KEY_A), two = signer_of(KEY_A);
    char text[PURCHASE_TOKEN_BYTES_MAX], again[PURCHASE_TOKEN_BYTES_MAX];
    struct token_claim claim = ann;
    static const char long_name[BUYER_BYTES_MAX] = { [0 ... BUYER_BYTES_MAX - 1] = 'y' };
    claim.buyer = (struct slice){ long_name, sizeof long_name };
    size_t len = token_make(one.mac, &claim, text);
    assert_int_equal(token_make(two.mac, &claim, again), len);
    assert_memory_equal(text, again, len);
    assert_int_equal(verified(&two, (struct slice){ text, len }, claim, 0), 42);
    signer_close(&one);
    signer_close(&two);
}

/* A login's signature and a token's are made with keys that have nothing to do with each other. */
static void a_login_is_no_token_and_a_token_no_login(void **state)
{
    (void)state;
    struct signer signer = signer_of(KEY_A);
    struct jwt_mac *logins;
    assert_int_equal(jwt_mac_open(&logins, signer.ring), FAULT_NONE);
    char text[PURCHASE_TOKEN_BYTES_MAX], login[TOKEN_BYTES_MAX];
    size_t len = token_make(signer.mac, &ann, text);
    struct jwt_claims claims = { .subject = "ann", .role = "customer", .token_id = 42, .expires_s = 1000 }, out;
    size_t login_len = jwt_make(logins, &claims, login, sizeof login);
    assert_true(login_len > 0);
    assert_int_equal(verified(&signer, (struct slice){ login, login_len }, ann, 0), 0);
    assert_int_equal(jwt_check(logins, (struct slice){ text, len }, 0, &out), JWT_BAD);

    uint8_t one[JWT_DERIVED_BYTES], two[JWT_DERIVED_BYTES];
    assert_int_equal(jwt_ring_derive(signer.ring, 0, SLICE("one"), one), FAULT_NONE);
    assert_int_equal(jwt_ring_derive(signer.ring, 0, SLICE("two"), two), FAULT_NONE);
    assert_int_not_equal(memcmp(one, two, sizeof one), 0);
    jwt_mac_close(logins);
    signer_close(&signer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_is_good_for_its_sale_its_buyer_and_its_time),
        cmocka_unit_test(every_change_of_a_letter_spoils_it),
        cmocka_unit_test(cut_padded_and_stitched_tokens_are_refused),
        cmocka_unit_test(keys_rotate_and_old_tokens_live_as_long_as_their_key),
        cmocka_unit_test(other_thread_and_process_agree),
        cmocka_unit_test(a_login_is_no_token_and_a_token_no_login),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
