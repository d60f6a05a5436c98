/* Tokens of somebody else: what is taken, and everything that must not be (P8). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/wire/provider.h"
#include "wire/jws.h"

#include <openssl/hmac.h>

#define NOW 1000000
#define CLAIMS_HEAD "{\"iss\":\"https://id.example\",\"aud\":\"shop\",\"sub\":\"ann\""
#define CLAIMS CLAIMS_HEAD ",\"exp\":1000060}"

static EVP_PKEY *keys[3], *strangers[3]; /* by algorithm */
static const char *const headers[] = {
    "{\"alg\":\"RS256\",\"typ\":\"JWT\",\"kid\":\"k1\"}",
    "{\"alg\":\"ES256\",\"typ\":\"JWT\",\"kid\":\"k1\"}",
    "{\"alg\":\"EdDSA\",\"typ\":\"JWT\",\"kid\":\"k1\"}",
};
static const struct jws_rules rules = {
    .issuer = "https://id.example",
    .audience = "shop",
    .subject_claim = "sub",
    .role_claim = "groups",
    .roles = { { "owners", 6 }, { "staff", 5 } },
    .roles_count = 2,
    .leeway_s = 10,
};
static struct jws_verifier *verifiers[3]; /* a JWKS with the kid k1 */
static char token[PROVIDER_TEXT_BYTES], text[2 * PROVIDER_TEXT_BYTES];
static struct jws_claims claims;

static struct jws_verifier *verifier_of(const char *given, enum jws_alg alg)
{
    struct jwks *set;
    struct jws_verifier *verifier;
    char objection[256];
    assert_int_equal(jwks_open(&set, slice_of(given), alg, objection), FAULT_NONE);
    assert_int_equal(jws_verifier_open(&verifier, set), FAULT_NONE);
    jwks_release(set); /* the verifier holds it */
    return verifier;
}

static int keys_make(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        EVP_PKEY **to = i == 0 ? keys : strangers;
        to[JWS_RS256] = provider_rsa(2048);
        to[JWS_ES256] = provider_ec("P-256");
        to[JWS_EDDSA] = provider_ed25519();
    }
    for (enum jws_alg alg = JWS_RS256; alg <= JWS_EDDSA; alg++) {
        provider_jwk(keys[alg], ",\"kid\":\"k1\"", text);
        verifiers[alg] = verifier_of(text, alg);
    }
    return 0;
}

static int keys_free(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        EVP_PKEY_free(keys[i]);
        EVP_PKEY_free(strangers[i]);
        jws_verifier_close(verifiers[i]);
    }
    return 0;
}

static enum jws_check check(struct jws_verifier *verifier)
{
    return jws_check(verifier, slice_of(token), &rules, NOW, &claims);
}

/* Signed well by the right key of the algorithm. */
static enum jws_check check_claims(enum jws_alg alg, const char *payload)
{
    provider_sign(keys[alg], headers[alg], payload, token);
    return check(verifiers[alg]);
}

static enum jws_check check_header(enum jws_alg alg, const char *header)
{
    provider_sign(keys[alg], header, CLAIMS, token);
    return check(verifiers[alg]);
}

static void a_good_token_of_each_algorithm_is_taken(void **state)
{
    (void)state;
    /* Often, because the numbers of an ES256 signature are now and then shorter. */
    for (int round = 0; round < 600; round++) {
        for (enum jws_alg alg = round < 20 ? JWS_RS256 : JWS_ES256; alg <= JWS_EDDSA; alg++) {
            assert_int_equal(check_claims(alg, CLAIMS), JWS_GOOD);
            assert_string_equal(claims.subject, "ann");
            assert_true(claims.expires_s == 1000060 && claims.token_id != 0 && claims.role == -1);
        }
    }
}

static void each_key_takes_its_own_algorithm_only(void **state)
{
    (void)state;
    for (enum jws_alg signer = JWS_RS256; signer <= JWS_EDDSA; signer++) {
        for (enum jws_alg header = JWS_RS256; header <= JWS_EDDSA; header++) {
            provider_sign(keys[signer], headers[header], CLAIMS, token);
            for (enum jws_alg alg = JWS_RS256; alg <= JWS_EDDSA; alg++)
                assert_int_equal(check(verifiers[alg]), signer == header && header == alg ? JWS_GOOD : JWS_BAD);
        }
        provider_sign(strangers[signer], headers[signer], CLAIMS, token);
        assert_int_equal(check(verifiers[signer]), JWS_BAD);
    }
}

static void headers_that_are_not_as_configured_are_refused(void **state)
{
    (void)state;
    static const char *const script[] = {
        "{\"alg\":\"none\",\"kid\":\"k1\"}",
        "{\"alg\":\"None\",\"kid\":\"k1\"}",
        "{\"alg\":\"HS256\",\"kid\":\"k1\"}",
        "{\"alg\":\"RS384\",\"kid\":\"k1\"}",
        "{\"alg\":\"RS512\",\"kid\":\"k1\"}",
        "{\"alg\":\"PS256\",\"kid\":\"k1\"}",
        "{\"alg\":\"rs256\",\"kid\":\"k1\"}",
        "{\"alg\":\"RS256 \",\"kid\":\"k1\"}",
        "{\"alg\":\"RS256\\u0000\",\"kid\":\"k1\"}",
        "{\"alg\":[\"RS256\"],\"kid\":\"k1\"}",
        "{\"alg\":null,\"kid\":\"k1\"}",
        "{\"alg\":\"\",\"kid\":\"k1\"}",
        "{\"kid\":\"k1\"}",
        "{\"alg\":\"RS256\",\"alg\":\"RS256\",\"kid\":\"k1\"}",
        "{\"alg\":\"none\",\"alg\":\"RS256\",\"kid\":\"k1\"}",
        "{\"alg\":\"RS256\",\"kid\":\"k2\"}",
        "{\"alg\":\"RS256\",\"kid\":\"\"}",
        "{\"alg\":\"RS256\",\"kid\":null}",
        "{\"alg\":\"RS256\",\"kid\":1}",
        "{\"alg\":\"RS256\",\"kid\":\"k1\",\"kid\":\"k1\"}",
        "{\"alg\":\"RS256\",\"kid\":\"../../../dev/null\"}",
        "{\"alg\":\"RS256\",\"kid\":\"k1\",\"crit\":[\"exp\"]}",
        "{\"alg\":\"RS256\",\"kid\":\"k1\",\"crit\":[]}",
        "{\"alg\":\"RS256\",\"kid\":\"k1\",\"b64\":false,\"crit\":[\"b64\"]}",
        "{\"alg\":\"RS256\",\"kid\":\"k1\",\"typ\":\"logout+jwt\"}",
        "{\"alg\":\"RS256\",\"kid\":\"k1\",\"typ\":5}",
        "[]",
        "",
        "{",
        "{\"alg\":\"RS256\",\"kid\":\"k1\"}{}",
        "{\"alg\":\"RS256\",\"kid\":\"k1\",\"x\":\"\xff\"}",
    };
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++)
        if (check_header(JWS_RS256, script[i]) != JWS_BAD) fail_msg("taken: %s", script[i]);

    static const char *const good[] = {
        "{\"alg\":\"RS256\"}",
        "{\"kid\":\"k1\",\"alg\":\"RS256\",\"typ\":\"at+jwt\"}",
        "{\"alg\":\"RS256\",\"kid\":\"k1\",\"typ\":\"jwt\",\"x5t\":\"abc\"}",
        /* A key that comes with the token is nobody's key: it is not looked at. */
        "{\"alg\":\"RS256\",\"kid\":\"k1\",\"jku\":\"http://evil.example\",\"jwk\":{\"kty\":\"oct\",\"k\":\"AAAA\"}}",
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        if (check_header(JWS_RS256, good[i]) != JWS_GOOD) fail_msg("refused: %s", good[i]);
}

static void a_public_key_is_never_taken_for_a_secret(void **state)
{
    (void)state;
    static const char *const algs[] = { "HS256", "RS256" };
    char pem[PROVIDER_TEXT_BYTES], header[64];
    provider_pem(keys[JWS_RS256], false, pem);
    struct jws_verifier *verifier = verifier_of(pem, JWS_RS256);
    for (size_t i = 0; i < 2; i++) {
        snprintf(header, sizeof(header), "{\"alg\":\"%s\",\"typ\":\"JWT\"}", algs[i]);
        size_t len = base64url_encode(token, (const uint8_t *)header, strlen(header));
        token[len++] = '.';
        len += base64url_encode(token + len, (const uint8_t *)CLAIMS, strlen(CLAIMS));
        uint8_t mac[32];
        unsigned mac_len = sizeof(mac);
        MUST(HMAC(EVP_sha256(), pem, (int)strlen(pem), (const uint8_t *)token, len, mac, &mac_len) != NULL);
        token[len++] = '.';
        token[len + base64url_encode(token + len, mac, sizeof(mac))] = '\0';
        assert_int_equal(check(verifier), JWS_BAD);
    }
    jws_verifier_close(verifier);
}

static void signatures_that_are_not_whole_are_refused(void **state)
{
    (void)state;
    char good[PROVIDER_TEXT_BYTES];
    for (enum jws_alg alg = JWS_RS256; alg <= JWS_EDDSA; alg++) {
        assert_int_equal(check_claims(alg, CLAIMS), JWS_GOOD);
        memcpy(good, token, sizeof(good));
        size_t whole = strlen(good), signed_len = (size_t)(strrchr(good, '.') - good);
        for (size_t len = 0; len < whole; len++) {
            memcpy(token, good, len);
            token[len] = '\0';
            assert_int_equal(check(verifiers[alg]), JWS_BAD);
        }
        static const char *const ends[] = { "=", "A", "AA", "AAAA", ".", ".AAAA", " ", "\n" };
        for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
            snprintf(token, sizeof(token), "%.*s%s", (int)whole, good, ends[i]);
            assert_int_equal(check(verifiers[alg]), JWS_BAD);
        }
        for (size_t at = 0; at < whole; at++) {
            memcpy(token, good, whole + 1);
            token[at] = token[at] == 'A' ? 'B' : 'A';
            assert_int_equal(check(verifiers[alg]), JWS_BAD);
        }
        /* A signature of zeros: of the right length, and of none. */
        size_t zeros = whole - signed_len - 1;
        memcpy(token, good, signed_len + 1);
        memset(token + signed_len + 1, 'A', zeros);
        token[whole] = '\0';
        assert_int_equal(check(verifiers[alg]), JWS_BAD);
    }
}

static void an_es256_signature_in_der_is_refused(void **state)
{
    (void)state;
    assert_int_equal(check_claims(JWS_ES256, CLAIMS), JWS_GOOD);
    size_t signed_len = (size_t)(strrchr(token, '.') - token), len = 128;
    uint8_t der[128];
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    MUST(EVP_DigestSignInit_ex(context, NULL, "SHA256", NULL, NULL, keys[JWS_ES256], NULL) == 1);
    MUST(EVP_DigestSign(context, der, &len, (const uint8_t *)token, signed_len) == 1);
    EVP_MD_CTX_free(context);
    token[signed_len + 1 + base64url_encode(token + signed_len + 1, der, len)] = '\0';
    assert_int_equal(check(verifiers[JWS_ES256]), JWS_BAD);
}

/* Anybody can turn (r, s) into (r, n - s), which is as good. A logout must hold for both. */
static void the_other_signature_of_a_token_has_the_same_id(void **state)
{
    (void)state;
    assert_int_equal(check_claims(JWS_ES256, CLAIMS), JWS_GOOD);
    uint64_t id = claims.token_id;
    char *text_of_signature = strrchr(token, '.') + 1;
    uint8_t raw[64];
    size_t len;
    MUST(base64url_decode(raw, sizeof(raw), slice_of(text_of_signature), &len) && len == 64);
    BIGNUM *n = NULL, *s = BN_bin2bn(raw + 32, 32, NULL);
    MUST(BN_hex2bn(&n, "FFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551") > 0);
    MUST(BN_sub(s, n, s) == 1 && BN_bn2binpad(s, raw + 32, 32) == 32);
    BN_free(n);
    BN_free(s);
    text_of_signature[base64url_encode(text_of_signature, raw, 64)] = '\0';
    assert_int_equal(check(verifiers[JWS_ES256]), JWS_GOOD);
    assert_true(claims.token_id == id);

    assert_int_equal(check_claims(JWS_ES256, CLAIMS_HEAD ",\"exp\":1000061}"), JWS_GOOD);
    assert_true(claims.token_id != id);
}

static void another_digest_is_refused(void **state)
{
    (void)state;
    provider_sign_with(keys[JWS_RS256], "SHA512", headers[JWS_RS256], CLAIMS, token);
    assert_int_equal(check(verifiers[JWS_RS256]), JWS_BAD);
    provider_sign_with(keys[JWS_ES256], "SHA384", headers[JWS_ES256], CLAIMS, token);
    assert_int_equal(check(verifiers[JWS_ES256]), JWS_BAD);
}

static void claims_are_judged_one_by_one(void **state)
{
    (void)state;
#define WHO "\"iss\":\"https://id.example\",\"aud\":\"shop\",\"sub\":\"ann\""
#define END ",\"exp\":1000060}"
#define SIXTY_FOUR "1234567890123456789012345678901234567890123456789012345678901234"
    static const struct {
        const char *payload;
        enum jws_check want;
    } script[] = {
        { CLAIMS, JWS_GOOD },
        { "{" WHO ",\"exp\":999991}", JWS_GOOD }, /* within the leeway */
        { "{" WHO ",\"exp\":999990}", JWS_EXPIRED },
        { "{" WHO ",\"exp\":0}", JWS_EXPIRED },
        { "{" WHO ",\"exp\":253402300799}", JWS_GOOD },
        { "{" WHO ",\"exp\":253402300800}", JWS_GOOD },
        { "{" WHO ",\"exp\":9223372036854775807}", JWS_GOOD },
        { "{" WHO ",\"exp\":18446744073709551616}", JWS_GOOD },
        { "{" WHO ",\"exp\":1e308}", JWS_GOOD },
        { "{" WHO ",\"exp\":1e309}", JWS_BAD }, /* not finite */
        { "{" WHO ",\"exp\":NaN}", JWS_BAD },
        { "{" WHO ",\"exp\":999991.0}", JWS_GOOD },
        { "{" WHO ",\"exp\":999990.9}", JWS_EXPIRED },
        { "{" WHO ",\"exp\":-0.5}", JWS_BAD },
        { "{" WHO ",\"exp\":true}", JWS_BAD },
        { "{" WHO ",\"exp\":-1}", JWS_BAD },
        { "{" WHO ",\"exp\":\"1000060\"}", JWS_BAD },
        { "{" WHO ",\"exp\":1000060.5}", JWS_GOOD },
        { "{" WHO ",\"exp\":null}", JWS_BAD },
        { "{" WHO "}", JWS_BAD },
        { "{" WHO ",\"exp\":1000060,\"exp\":1000060}", JWS_BAD },
        { "{" WHO ",\"nbf\":1000010" END, JWS_GOOD },
        { "{" WHO ",\"nbf\":1000011" END, JWS_BAD },
        { "{" WHO ",\"nbf\":1000009.5" END, JWS_GOOD },
        { "{" WHO ",\"nbf\":1000010.1" END, JWS_BAD },
        { "{" WHO ",\"nbf\":1e300" END, JWS_BAD },
        { "{" WHO ",\"nbf\":\"0\"" END, JWS_BAD },
        { "{" WHO ",\"nbf\":-1" END, JWS_BAD },
        { "{" WHO ",\"iat\":1000010" END, JWS_GOOD },
        { "{" WHO ",\"iat\":1000011" END, JWS_BAD },
        { "{" WHO ",\"iat\":999999.25" END, JWS_GOOD },
        { "{" WHO ",\"iat\":1000010.5" END, JWS_BAD },
        { "{" WHO ",\"iat\":1e30" END, JWS_BAD },
        { "{" WHO ",\"sub\":\"bob\"" END, JWS_BAD }, /* twice */
        { "{" WHO ",\"more\":{\"a\":1,\"a\":2}" END, JWS_BAD },
        { "{\"aud\":\"shop\",\"sub\":\"ann\"" END, JWS_BAD },
        { "{\"iss\":\"https://id.example/\",\"aud\":\"shop\",\"sub\":\"ann\"" END, JWS_BAD },
        { "{\"iss\":\"HTTPS://id.example\",\"aud\":\"shop\",\"sub\":\"ann\"" END, JWS_BAD },
        { "{\"iss\":[\"https://id.example\"],\"aud\":\"shop\",\"sub\":\"ann\"" END, JWS_BAD },
        { "{\"iss\":\"stampede\",\"aud\":\"shop\",\"sub\":\"ann\"" END, JWS_BAD },
        { "{\"iss\":\"https://id.example\",\"sub\":\"ann\"" END, JWS_BAD },
        { "{\"iss\":\"https://id.example\",\"aud\":\"other\",\"sub\":\"ann\"" END, JWS_BAD },
        { "{\"iss\":\"https://id.example\",\"aud\":\"shop2\",\"sub\":\"ann\"" END, JWS_BAD },
        { "{\"iss\":\"https://id.example\",\"aud\":[],\"sub\":\"ann\"" END, JWS_BAD },
        { "{\"iss\":\"https://id.example\",\"aud\":[\"other\"],\"sub\":\"ann\"" END, JWS_BAD },
        { "{\"iss\":\"https://id.example\",\"aud\":[[\"shop\"]],\"sub\":\"ann\"" END, JWS_BAD },
        { "{\"iss\":\"https://id.example\",\"aud\":{\"shop\":\"shop\"},\"sub\":\"ann\"" END, JWS_BAD },
        { "{\"iss\":\"https://id.example\",\"aud\":[\"other\",\"shop\"],\"sub\":\"ann\"" END, JWS_GOOD },
        { "{\"iss\":\"https://id.example\",\"aud\":\"shop\"" END, JWS_BAD },
        { "{\"iss\":\"https://id.example\",\"aud\":\"shop\",\"sub\":\"\"" END, JWS_BAD },
        { "{\"iss\":\"https://id.example\",\"aud\":\"shop\",\"sub\":5" END, JWS_BAD },
        { "{\"iss\":\"https://id.example\",\"aud\":\"shop\",\"sub\":\"a\\nb\"" END, JWS_BAD },
        { "{\"iss\":\"https://id.example\",\"aud\":\"shop\",\"sub\":\"a\\u0000b\"" END, JWS_BAD },
        { "{\"iss\":\"https://id.example\",\"aud\":\"shop\",\"sub\":\"\\ud800\"" END, JWS_BAD },
        { "{\"iss\":\"https://id.example\",\"aud\":\"shop\",\"sub\":\"\xff\"" END, JWS_BAD },
        { "{\"iss\":\"https://id.example\",\"aud\":\"shop\",\"sub\":\"" SIXTY_FOUR "\"" END, JWS_GOOD },
        { "{\"iss\":\"https://id.example\",\"aud\":\"shop\",\"sub\":\"" SIXTY_FOUR "5\"" END, JWS_BAD },
        { "", JWS_BAD },
        { "[]", JWS_BAD },
        { CLAIMS "{}", JWS_BAD },
    };
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++)
        if (check_claims(JWS_EDDSA, script[i].payload) != script[i].want) fail_msg("wrong: %s", script[i].payload);
}

static void the_role_claim_is_a_text_or_a_list_and_the_greatest_counts(void **state)
{
    (void)state;
    static const struct {
        const char *claim, *name;
        int want;
    } script[] = {
        { "\"groups\":\"staff\"", "groups", 1 },
        { "\"groups\":\"owners\"", "groups", 0 },
        { "\"groups\":[\"x\",\"staff\",\"owners\"]", "groups", 0 },
        { "\"groups\":[\"x\",5,null,[\"owners\"],\"staff\"]", "groups", 1 },
        { "\"groups\":[]", "groups", -1 },
        { "\"groups\":\"Staff\"", "groups", -1 },
        { "\"groups\":\"staff owners\"", "groups", -1 },
        { "\"groups\":{\"staff\":\"staff\"}", "groups", -1 },
        { "\"groups\":true", "groups", -1 },
        { "\"other\":\"owners\"", "groups", -1 },
        { "\"groups\":\"owners\"", "", -1 },
        { "\"a\":{\"b\":{\"c\":[\"staff\"]}}", "a.b.c", 1 },
        { "\"a\":{\"b\":{\"c\":[\"staff\"]}}", "a.b", -1 },
        { "\"a\":{\"b\":5}", "a.b.c", -1 },
        { "\"a\":{\"b\":\"owners\"},\"a.b\":\"staff\"", "a.b", 1 },
        { "\"https://x.example/roles\":[\"owners\"]", "https://x.example/roles", 0 },
    };
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++) {
        struct jws_rules mine = rules;
        mine.role_claim = script[i].name;
        snprintf(text, sizeof(text), CLAIMS_HEAD ",%s" END, script[i].claim);
        provider_sign(keys[JWS_EDDSA], headers[JWS_EDDSA], text, token);
        assert_int_equal(jws_check(verifiers[JWS_EDDSA], slice_of(token), &mine, NOW, &claims), JWS_GOOD);
        assert_int_equal(claims.role, script[i].want);
    }
}

static void another_claim_may_say_who_it_is(void **state)
{
    (void)state;
    struct jws_rules mine = rules;
    mine.subject_claim = "user.id";
    provider_sign(keys[JWS_EDDSA], headers[JWS_EDDSA], CLAIMS_HEAD ",\"user\":{\"id\":\"u-7\"}" END, token);
    assert_int_equal(jws_check(verifiers[JWS_EDDSA], slice_of(token), &mine, NOW, &claims), JWS_GOOD);
    assert_string_equal(claims.subject, "u-7");
    provider_sign(keys[JWS_EDDSA], headers[JWS_EDDSA], CLAIMS, token);
    assert_int_equal(jws_check(verifiers[JWS_EDDSA], slice_of(token), &mine, NOW, &claims), JWS_BAD);
}

static void a_token_has_at_most_4_kb(void **state)
{
    (void)state;
    size_t longest = 0, shortest_refused = SIZE_MAX;
    for (int pad = 2700; pad < 3100; pad++) {
        snprintf(text, sizeof(text), CLAIMS_HEAD ",\"pad\":\"%0*d\"" END, pad, 1);
        size_t len = provider_sign(keys[JWS_EDDSA], headers[JWS_EDDSA], text, token);
        bool taken = check(verifiers[JWS_EDDSA]) == JWS_GOOD;
        assert_int_equal(taken, len <= EXTERNAL_TOKEN_BYTES_MAX);
        if (taken) longest = len;
        if (!taken && len < shortest_refused) shortest_refused = len;
    }
    assert_true(longest >= EXTERNAL_TOKEN_BYTES_MAX - 2 && shortest_refused <= EXTERNAL_TOKEN_BYTES_MAX + 2);
    snprintf(text, sizeof(text), CLAIMS_HEAD ",\"pad\":\"%08000d\"" END, 1);
    provider_sign(keys[JWS_EDDSA], headers[JWS_EDDSA], text, token);
    assert_int_equal(check(verifiers[JWS_EDDSA]), JWS_BAD);
}

/* Which key is asked: each set has the keys of the row, in order; the token is signed by one of them and names a kid or
 * none. */
static void the_kid_chooses_among_the_keys(void **state)
{
    (void)state;
    EVP_PKEY *pair[] = { keys[JWS_ES256], strangers[JWS_ES256] };
    static const struct {
        const char *kids[2]; /* NULL: that key is not in the set */
        int signer;
        const char *kid; /* NULL: the token has none */
        enum jws_check want;
    } script[] = {
        { { "a", "b" }, 0, "a", JWS_GOOD },   { { "a", "b" }, 1, "b", JWS_GOOD }, { { "a", "b" }, 0, "b", JWS_BAD },
        { { "a", "b" }, 1, "a", JWS_BAD },    { { "a", "b" }, 0, "c", JWS_BAD },  { { "a", "b" }, 0, NULL, JWS_BAD },
        { { "a", NULL }, 0, NULL, JWS_GOOD }, { { "a", NULL }, 1, "a", JWS_BAD }, { { "a", NULL }, 0, "b", JWS_BAD },
        { { "", "" }, 0, NULL, JWS_GOOD },    { { "", "" }, 1, NULL, JWS_GOOD },  { { "", "" }, 1, "x", JWS_GOOD },
        { { "", "b" }, 0, "x", JWS_GOOD },    { { "", "b" }, 1, "x", JWS_BAD },   { { "", "b" }, 0, "b", JWS_BAD },
        { { "", "b" }, 1, NULL, JWS_BAD },
    };
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++) {
        size_t len = (size_t)snprintf(text, sizeof(text), "{\"keys\":[");
        for (size_t j = 0; j < 2 && script[i].kids[j] != NULL; j++) {
            char one[PROVIDER_TEXT_BYTES], more[32] = "";
            if (script[i].kids[j][0] != '\0') snprintf(more, sizeof(more), ",\"kid\":\"%s\"", script[i].kids[j]);
            provider_jwk(pair[j], more, one);
            len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", j > 0 ? "," : "", one);
        }
        snprintf(text + len, sizeof(text) - len, "]}");
        struct jws_verifier *verifier = verifier_of(text, JWS_ES256);
        char header[64] = "{\"alg\":\"ES256\"}";
        if (script[i].kid != NULL) snprintf(header, sizeof(header), "{\"alg\":\"ES256\",\"kid\":\"%s\"}", script[i].kid);
        provider_sign(pair[script[i].signer], header, CLAIMS, token);
        if (check(verifier) != script[i].want) fail_msg("row %zu", i);
        jws_verifier_close(verifier);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_token_of_each_algorithm_is_taken),
        cmocka_unit_test(each_key_takes_its_own_algorithm_only),
        cmocka_unit_test(headers_that_are_not_as_configured_are_refused),
        cmocka_unit_test(a_public_key_is_never_taken_for_a_secret),
        cmocka_unit_test(signatures_that_are_not_whole_are_refused),
        cmocka_unit_test(an_es256_signature_in_der_is_refused),
        cmocka_unit_test(the_other_signature_of_a_token_has_the_same_id),
        cmocka_unit_test(another_digest_is_refused),
        cmocka_unit_test(claims_are_judged_one_by_one),
        cmocka_unit_test(the_role_claim_is_a_text_or_a_list_and_the_greatest_counts),
        cmocka_unit_test(another_claim_may_say_who_it_is),
        cmocka_unit_test(a_token_has_at_most_4_kb),
        cmocka_unit_test(the_kid_chooses_among_the_keys),
    };
    return cmocka_run_group_tests(tests, keys_make, keys_free);
}
