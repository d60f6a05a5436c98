#include "wire/signature.h"

#include "base/text.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The vector that the libraries of Standard Webhooks are tested with. */
#define SECRET "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#define SIGNATURE "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
static const struct signed_message vector = {
    .id = SLICE("msg_p5jXN8AQM9LWM0D4loKWxJek"),
    .timestamp_s = 1614265330,
    .body = SLICE("{\"test\": 2432232314}"),
};

static struct signature_secret secret_of(const char *text)
{
    struct signature_secret secret;
    assert_true(signature_secret_parse(slice_of(text), &secret));
    return secret;
}

static bool fits(struct slice header)
{
    struct signature_secret secret = secret_of(SECRET);
    return signature_fits(&secret, 1, &vector, header);
}

static void the_published_vector_is_made_and_taken(void **state)
{
    (void)state;
    struct signature_secret secret = secret_of(SECRET);
    char text[SIGNATURE_TEXT_BYTES + 1];
    assert_int_equal(secret.len, 24);
    signature_make(&secret, &vector, text);
    assert_string_equal(text, SIGNATURE);
    assert_true(fits(SLICE(SIGNATURE)));
}

/* Against the one-shot HMAC of OpenSSL over the whole text in one piece. */
static void parts_are_joined_by_full_stops(void **state)
{
    (void)state;
    uint8_t key[64], mac[32];
    for (size_t i = 0; i < sizeof(key); i++) key[i] = (uint8_t)(255 - 3 * i);
    for (size_t key_len = SIGNATURE_SECRET_BYTES_MIN; key_len <= sizeof(key); key_len++) {
        struct signature_secret secret = { .len = (uint8_t)key_len };
        memcpy(secret.bytes, key, key_len);
        char body[200], whole[400], text[SIGNATURE_TEXT_BYTES + 1], want[SIGNATURE_TEXT_BYTES + 1] = "v1,";
        memset(body, (int)key_len, key_len);
        int head = snprintf(whole, sizeof(whole), "id-%zu.%zu.", key_len, key_len * 1000003);
        memcpy(whole + head, body, key_len);
        unsigned mac_len = 0;
        assert_non_null(
            HMAC(EVP_sha256(), key, (int)key_len, (unsigned char *)whole, (size_t)head + key_len, mac, &mac_len));
        EVP_EncodeBlock((unsigned char *)want + 3, mac, (int)mac_len);
        char id[20];
        snprintf(id, sizeof(id), "id-%zu", key_len);
        struct signed_message message = { slice_of(id), key_len * 1000003, { body, key_len } };
        signature_make(&secret, &message, text);
        assert_string_equal(text, want);
    }
}

static void anything_else_than_what_was_signed_does_not_fit(void **state)
{
    (void)state;
    struct signature_secret secret = secret_of(SECRET);
    char body[64];
    for (size_t i = 0; i < vector.body.len; i++) {
        struct signed_message other = vector;
        memcpy(body, vector.body.data, vector.body.len);
        body[i] ^= 1;
        other.body.data = body;
        assert_false(signature_fits(&secret, 1, &other, SLICE(SIGNATURE)));
    }
    struct signed_message other = vector;
    other.timestamp_s++;
    assert_false(signature_fits(&secret, 1, &other, SLICE(SIGNATURE)));
    other = vector;
    other.id = SLICE("msg_p5jXN8AQM9LWM0D4loKWxJel");
    assert_false(signature_fits(&secret, 1, &other, SLICE(SIGNATURE)));
    other = vector;
    other.body.len--;
    assert_false(signature_fits(&secret, 1, &other, SLICE(SIGNATURE)));
}

static void every_byte_of_a_signature_counts(void **state)
{
    (void)state;
    char text[] = SIGNATURE;
    for (size_t i = 0; i < sizeof(text) - 1; i++) {
        text[i] ^= 1;
        assert_false(fits(slice_of(text)));
        text[i] ^= 1;
    }
    for (size_t len = 0; len < sizeof(text) - 1; len++) assert_false(fits((struct slice){ text, len }));
    assert_true(fits(slice_of(text)));
}

static void a_header_is_searched_for_one_that_fits(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        bool want;
    } rows[] = {
        { SIGNATURE, true },
        { SIGNATURE " " SIGNATURE, true },
        { "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= " SIGNATURE, true },
        { SIGNATURE " v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", true },
        { "v1a,gX8z " SIGNATURE " v2,zzz", true },
        { "  " SIGNATURE "  ", true },
        { "v1, " SIGNATURE, true },
        { "", false },
        { " ", false },
        { "v1,", false },
        { "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", false },
        { "V1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", false },
        { "v2,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", false },
        { "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", false },
        { "v1,g0hM9SsE-OTPJTGt_tmIKtSyZlE3uFJELVlNIOLJ1OE=", false }, /* another spelling of the same bytes */
        { "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE", false },
        { "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OF=", false },
        { SIGNATURE "," SIGNATURE, false },
        { "v1=g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", false },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        if (fits(slice_of(rows[i].header)) != rows[i].want) fail_msg("row %zu: %s", i, rows[i].header);
    }
}

static void any_of_several_secrets_will_do(void **state)
{
    (void)state;
    struct signature_secret secrets[3] = { secret_of("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
                                           secret_of("whsec_BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB"), secret_of(SECRET) };
    assert_true(signature_fits(secrets, 3, &vector, SLICE(SIGNATURE)));
    assert_false(signature_fits(secrets, 2, &vector, SLICE(SIGNATURE)));
    assert_false(signature_fits(secrets, 0, &vector, SLICE(SIGNATURE)));
}

static void secrets_are_read_strictly(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t want; /* bytes; 0: refused */
    } rows[] = {
        { SECRET, 24 },
        { "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwAA==", 25 },
        { "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwAA", 25 },
        { "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwAAA=", 26 },
        { "whsec_////////////////////////////////////////////////////////////////////////////////////+w==", 64 },
        { "", 0 },
        { "whsec_", 0 },
        { "whsec", 0 },
        { "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", 0 },
        { "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa==", 0 }, /* 22 bytes */
        { "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwA", 0 },
        { "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwAB==", 0 }, /* bits left over */
        { "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwAA=", 0 },
        { "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS=", 0 },
        { "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw====", 0 },
        { "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa_-", 0 }, /* the alphabet of addresses */
        { "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS w", 0 },
        { "WHSEC_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", 0 },
        { "whsec_////////////////////////////////////////////////////////////////////////////////////////", 0 },
        { "whsec_///////////////////////////////////////////////////////////////////////////////////////////", 0 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct signature_secret secret = { .len = 99 };
        bool good = signature_secret_parse(slice_of(rows[i].text), &secret);
        if (good != (rows[i].want > 0) || secret.len != rows[i].want) fail_msg("row %zu: %s", i, rows[i].text);
    }
}

static void new_secrets_are_good_and_differ(void **state)
{
    (void)state;
    char one[SIGNATURE_SECRET_TEXT_BYTES + 1], two[SIGNATURE_SECRET_TEXT_BYTES + 1];
    signature_secret_make(one);
    signature_secret_make(two);
    assert_string_not_equal(one, two);
    assert_int_equal(secret_of(one).len, 32);
    assert_int_equal(secret_of(two).len, 32);
}

static void an_id_has_no_full_stop_and_is_printable(void **state)
{
    (void)state;
    char longest[SIGNATURE_ID_BYTES_MAX + 1];
    memset(longest, 'x', sizeof(longest));
    assert_true(signature_id_good(SLICE("msg_p5jXN8AQM9LWM0D4loKWxJek")));
    assert_true(signature_id_good((struct slice){ longest, SIGNATURE_ID_BYTES_MAX }));
    assert_false(signature_id_good((struct slice){ longest, SIGNATURE_ID_BYTES_MAX + 1 }));
    assert_false(signature_id_good(SLICE("")));
    assert_false(signature_id_good(SLICE("a.1")));
    assert_false(signature_id_good(SLICE("a b")));
    assert_false(signature_id_good(SLICE("a\tb")));
    assert_false(signature_id_good(SLICE("caf\xc3\xa9")));
}

static void the_tolerance_counts_both_ways_and_to_the_second(void **state)
{
    (void)state;
    static const struct {
        uint64_t at, now;
        uint32_t tolerance;
        enum signature_age want;
    } rows[] = {
        { 1000, 1000, 0, SIGNATURE_TIMELY },
        { 999, 1000, 0, SIGNATURE_TOO_OLD },
        { 1001, 1000, 0, SIGNATURE_TOO_NEW },
        { 700, 1000, 300, SIGNATURE_TIMELY },
        { 699, 1000, 300, SIGNATURE_TOO_OLD },
        { 1300, 1000, 300, SIGNATURE_TIMELY },
        { 1301, 1000, 300, SIGNATURE_TOO_NEW },
        { 0, 1700000000, 300, SIGNATURE_TOO_OLD },
        { UINT64_MAX, 1700000000, 300, SIGNATURE_TOO_NEW },
        { UINT64_MAX, UINT64_MAX - 1, 300, SIGNATURE_TIMELY },
        { 1700000000000, 1700000000, 300, SIGNATURE_TOO_NEW }, /* milliseconds by mistake */
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        assert_int_equal(signature_age(rows[i].at, rows[i].now, rows[i].tolerance), rows[i].want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_vector_is_made_and_taken),
        cmocka_unit_test(parts_are_joined_by_full_stops),
        cmocka_unit_test(anything_else_than_what_was_signed_does_not_fit),
        cmocka_unit_test(every_byte_of_a_signature_counts),
        cmocka_unit_test(a_header_is_searched_for_one_that_fits),
        cmocka_unit_test(any_of_several_secrets_will_do),
        cmocka_unit_test(secrets_are_read_strictly),
        cmocka_unit_test(new_secrets_are_good_and_differ),
        cmocka_unit_test(an_id_has_no_full_stop_and_is_printable),
        cmocka_unit_test(the_tolerance_counts_both_ways_and_to_the_second),
    };
    return cmocka_run_group_tests_name("signature", tests, NULL, NULL);
}
