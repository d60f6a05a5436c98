/* Which keys get in, from PEM and from JSON, and which never do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/wire/provider.h"
#include "wire/jwks.h"

#include <openssl/x509.h>

static EVP_PKEY *rsa, *rsa_small, *ec, *ec_384, *ed25519;
static char text[4 * PROVIDER_TEXT_BYTES], one[PROVIDER_TEXT_BYTES];
static char objection[256];

static int keys_make(void **state)
{
    (void)state;
    rsa = provider_rsa(2048);
    rsa_small = provider_rsa(1024);
    ec = provider_ec("P-256");
    ec_384 = provider_ec("P-384");
    ed25519 = provider_ed25519();
    return 0;
}

static int keys_free(void **state)
{
    (void)state;
    EVP_PKEY_free(rsa);
    EVP_PKEY_free(rsa_small);
    EVP_PKEY_free(ec);
    EVP_PKEY_free(ec_384);
    EVP_PKEY_free(ed25519);
    return 0;
}

/* How many keys the text has for the algorithm; 0 if it is refused. */
static size_t count_of(const char *given, enum jws_alg alg)
{
    struct jwks *keys;
    objection[0] = '\0';
    enum fault fault = jwks_open(&keys, slice_of(given), alg, objection);
    if (fault != FAULT_NONE) {
        assert_null(keys);
        assert_int_equal(fault, FAULT_CONFIG);
        assert_true(objection[0] != '\0');
        return 0;
    }
    size_t count = keys->count;
    for (size_t i = 0; i < count; i++) assert_non_null(keys->keys[i].public);
    jwks_release(keys);
    return count;
}

static void a_pem_key_is_taken_for_its_own_algorithm_only(void **state)
{
    (void)state;
    const struct {
        EVP_PKEY *key;
        size_t want[3];
    } script[] = {
        { rsa, { 1, 0, 0 } },    { rsa_small, { 0, 0, 0 } }, { ec, { 0, 1, 0 } },
        { ec_384, { 0, 0, 0 } }, { ed25519, { 0, 0, 1 } },
    };
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++) {
        provider_pem(script[i].key, false, one);
        for (enum jws_alg alg = JWS_RS256; alg <= JWS_EDDSA; alg++)
            assert_int_equal(count_of(one, alg), script[i].want[alg]);
    }
}

static void a_private_key_alone_is_no_key(void **state)
{
    (void)state;
    provider_pem(rsa, true, one);
    assert_int_equal(count_of(one, JWS_RS256), 0);
}

static void several_pem_keys_are_taken_up_to_four(void **state)
{
    (void)state;
    provider_pem(ec, false, one);
    text[0] = '\0';
    for (size_t i = 1; i <= 5; i++) {
        memcpy(text + strlen(text), one, strlen(one) + 1);
        assert_int_equal(count_of(text, JWS_ES256), i <= 4 ? i : 0);
    }
}

static void a_pem_text_cut_anywhere_gives_no_key(void **state)
{
    (void)state;
    provider_pem(rsa, false, one);
    size_t whole = strlen(one);
    for (size_t len = 0; len < whole - 1; len += 7) {
        memcpy(text, one, len);
        text[len] = '\0';
        assert_int_equal(count_of(text, JWS_RS256), 0);
    }
    assert_int_equal(count_of(one, JWS_RS256), 1);
}

static void certificate_pem(EVP_PKEY *key, char *out)
{
    X509 *certificate = X509_new();
    MUST(X509_set_version(certificate, 2) == 1 && X509_set_pubkey(certificate, key) == 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    MUST(X509_sign(certificate, key, EVP_sha256()) > 0);
    BIO *bio = BIO_new(BIO_s_mem());
    MUST(PEM_write_bio_X509(bio, certificate) == 1);
    int len = BIO_read(bio, out, PROVIDER_TEXT_BYTES - 1);
    out[len] = '\0';
    BIO_free(bio);
    X509_free(certificate);
}

static void a_certificate_counts_and_its_chain_does_not(void **state)
{
    (void)state;
    EVP_PKEY *issuer = provider_rsa(2048);
    certificate_pem(rsa, text);
    certificate_pem(issuer, text + strlen(text));
    struct jwks *keys;
    assert_int_equal(jwks_open(&keys, slice_of(text), JWS_RS256, objection), FAULT_NONE);
    assert_int_equal(keys->count, 1);
    assert_int_equal(EVP_PKEY_eq(keys->keys[0].public, rsa), 1);
    jwks_release(keys);
    EVP_PKEY_free(issuer);
}

static void a_jwks_gives_the_keys_of_the_algorithm_with_their_kid(void **state)
{
    (void)state;
    EVP_PKEY *const all[] = { rsa, ec, ed25519 };
    static const char *const kids[] = { "r", "e", "o" };
    size_t len = (size_t)snprintf(text, sizeof(text), "  {\"keys\":[{\"kty\":\"oct\",\"k\":\"c2VjcmV0\"},5,null,{}");
    for (size_t i = 0; i < 3; i++) {
        char more[32];
        snprintf(more, sizeof(more), ",\"kid\":\"%s\"", kids[i]);
        provider_jwk(all[i], more, one);
        len += (size_t)snprintf(text + len, sizeof(text) - len, ",%s", one);
    }
    snprintf(text + len, sizeof(text) - len, "],\"more\":true}\n");
    for (enum jws_alg alg = JWS_RS256; alg <= JWS_EDDSA; alg++) {
        struct jwks *keys;
        assert_int_equal(jwks_open(&keys, slice_of(text), alg, objection), FAULT_NONE);
        assert_int_equal(keys->count, 1);
        assert_string_equal(keys->keys[0].kid, kids[alg]);
        assert_int_equal(EVP_PKEY_eq(keys->keys[0].public, all[alg]), 1);
        jwks_release(keys);
    }
}

static void members_of_an_entry_decide_whether_it_counts(void **state)
{
    (void)state;
    static const struct {
        const char *more;
        size_t want;
    } script[] = {
        { "", 1 },
        { ",\"kid\":\"a\",\"use\":\"sig\",\"alg\":\"ES256\",\"key_ops\":[\"verify\"]", 1 },
        { ",\"x5t\":\"abc\",\"unknown\":{}", 1 },
        { ",\"d\":\"AAAA\"", 1 },
        { ",\"use\":\"enc\"", 0 },
        { ",\"use\":5", 0 },
        { ",\"alg\":\"ES384\"", 0 },
        { ",\"alg\":\"HS256\"", 0 },
        { ",\"alg\":null", 0 },
        { ",\"key_ops\":[\"sign\"]", 0 },
        { ",\"key_ops\":\"verify\"", 0 },
        { ",\"kid\":7", 0 },
        { ",\"kid\":\"\"", 0 },
        { ",\"kty\":\"EC\"", 0 }, /* twice */
    };
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++) {
        provider_jwk(ec, script[i].more, one);
        snprintf(text, sizeof(text), "{\"keys\":[%s]}", one);
        assert_int_equal(count_of(text, JWS_ES256), script[i].want);
        assert_int_equal(count_of(one, JWS_ES256), script[i].want); /* one JWK without a list */
    }
    char kid[JWKS_KID_BYTES_MAX + 16];
    for (size_t len = JWKS_KID_BYTES_MAX; len <= JWKS_KID_BYTES_MAX + 1; len++) {
        snprintf(kid, sizeof(kid), ",\"kid\":\"%0*d\"", (int)len, 1);
        provider_jwk(ec, kid, one);
        assert_int_equal(count_of(one, JWS_ES256), len <= JWKS_KID_BYTES_MAX);
    }
}

static void numbers_that_are_no_key_are_skipped(void **state)
{
    (void)state;
    static const struct {
        enum jws_alg alg;
        const char *text;
    } script[] = {
        { JWS_RS256, "{\"kty\":\"RSA\"}" },
        { JWS_RS256, "{\"kty\":\"RSA\",\"n\":\"\",\"e\":\"AQAB\"}" },
        { JWS_RS256, "{\"kty\":\"RSA\",\"n\":5,\"e\":\"AQAB\"}" },
        { JWS_RS256, "{\"kty\":\"RSA\",\"n\":\"AAAA\",\"e\":\"AQAB\"}" },
        { JWS_RS256, "{\"kty\":\"RSA\",\"n\":\"_____w\",\"e\":\"AQAB\"}" },
        { JWS_ES256, "{\"kty\":\"EC\",\"crv\":\"P-256\"}" },
        { JWS_ES256, "{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"AAAA\",\"y\":\"AAAA\"}" },
        { JWS_ES256, "{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\","
                     "\"y\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"}" },
        { JWS_ES256, "{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE\","
                     "\"y\":\"AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE\"}" },
        { JWS_EDDSA, "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"AAAA\"}" },
        { JWS_EDDSA, "{\"kty\":\"OKP\",\"crv\":\"X25519\",\"x\":\"AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE\"}" },
        { JWS_EDDSA, "{\"kty\":\"OKP\",\"crv\":\"Ed448\",\"x\":\"AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE\"}" },
    };
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++)
        assert_int_equal(count_of(script[i].text, script[i].alg), 0);

    /* A good modulus with an exponent that proves nothing, or is even. */
    char n[1024];
    provider_number(rsa, OSSL_PKEY_PARAM_RSA_N, 0, n);
    static const char *const exponents[] = { "AQ", "AA", "Ag", "", "AQABAQABAQABAQAB" };
    for (size_t i = 0; i < sizeof(exponents) / sizeof(exponents[0]); i++) {
        snprintf(text, sizeof(text), "{\"kty\":\"RSA\",\"n\":\"%s\",\"e\":\"%s\"}", n, exponents[i]);
        assert_int_equal(count_of(text, JWS_RS256), 0);
    }
    snprintf(text, sizeof(text), "{\"kty\":\"RSA\",\"n\":\"%s\",\"e\":\"AQAB\"}", n);
    assert_int_equal(count_of(text, JWS_RS256), 1);
    provider_jwk(rsa_small, "", one);
    assert_int_equal(count_of(one, JWS_RS256), 0);
}

static void two_keys_of_one_kid_and_too_many_keys_are_refused(void **state)
{
    (void)state;
    for (int same = 0; same < 2; same++) {
        for (size_t count = 1; count <= JWKS_KEYS_MAX + 1; count++) {
            size_t len = (size_t)snprintf(text, sizeof(text), "{\"keys\":[");
            for (size_t i = 0; i < count; i++) {
                char more[32];
                snprintf(more, sizeof(more), ",\"kid\":\"k%zu\"", same ? i / 2 : i);
                provider_jwk(ed25519, more, one);
                len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", i > 0 ? "," : "", one);
            }
            snprintf(text + len, sizeof(text) - len, "]}");
            size_t most = same ? 1 : JWKS_KEYS_MAX;
            assert_int_equal(count_of(text, JWS_EDDSA), count <= most ? count : 0);
        }
    }
}

static void a_jwks_cut_anywhere_gives_no_key(void **state)
{
    (void)state;
    provider_jwk(ec, ",\"kid\":\"a\"", one);
    snprintf(text, sizeof(text), "{\"keys\":[%s]}", one);
    for (size_t len = strlen(text) - 1; len > 0; len--) {
        text[len] = '\0';
        assert_int_equal(count_of(text, JWS_ES256), 0);
    }
}

static void rubbish_is_refused(void **state)
{
    (void)state;
    static const char *const script[] = {
        "",
        " \n",
        "hello",
        "{}",
        "[]",
        "{\"keys\":{}}",
        "{\"keys\":null}",
        "{\"keys\":[]}",
        "{\"keys\":[],\"keys\":[]}",
        "{\"keys\":[]} x",
        "-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----\n",
        "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    };
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++) assert_int_equal(count_of(script[i], JWS_RS256), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pem_key_is_taken_for_its_own_algorithm_only),
        cmocka_unit_test(a_private_key_alone_is_no_key),
        cmocka_unit_test(several_pem_keys_are_taken_up_to_four),
        cmocka_unit_test(a_pem_text_cut_anywhere_gives_no_key),
        cmocka_unit_test(a_certificate_counts_and_its_chain_does_not),
        cmocka_unit_test(a_jwks_gives_the_keys_of_the_algorithm_with_their_kid),
        cmocka_unit_test(members_of_an_entry_decide_whether_it_counts),
        cmocka_unit_test(numbers_that_are_no_key_are_skipped),
        cmocka_unit_test(two_keys_of_one_kid_and_too_many_keys_are_refused),
        cmocka_unit_test(a_jwks_cut_anywhere_gives_no_key),
        cmocka_unit_test(rubbish_is_refused),
    };
    return cmocka_run_group_tests(tests, keys_make, keys_free);
}
