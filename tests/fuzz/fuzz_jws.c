/* Tokens of a provider, in ways chosen by the first byte. 'T': the rest is a token as a stranger would send it. 'E', 'R':
 * the rest is the signature of a token that is good but for it; nobody has the private key, so nobody makes one. Otherwise
 * the rest is a header, a newline and a payload, which get a right signature: what is then good must hold what a login
 * needs, and must be bad in the eyes of every other algorithm and with any other signature. */
#include "base/text.h"
#include "wire/jws.h"

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <stdio.h>
#include <stdlib.h>

#define MUST(condition)                                                                                                     \
    do {                                                                                                                    \
        if (!(condition)) abort();                                                                                          \
    } while (0)

#define NOW UINT64_C(1700000000)
#define PAYLOAD "{\"iss\":\"https://id\",\"aud\":\"shop\",\"sub\":\"ann\",\"exp\":1700000600}"
#define SIGNATURE_BYTES 64
#define ALGS 3

static const struct jws_rules rules = {
    .issuer = "https://id",
    .audience = "shop",
    .subject_claim = "who.name",
    .role_claim = "groups",
    .roles_count = 2,
    .roles = { { "admins", 6 }, { "sellers", 7 } },
    .leeway_s = 30,
};
static const struct jws_rules plain_rules = {
    .issuer = "https://id", .audience = "shop", .subject_claim = "sub", .role_claim = ""
};

static struct jws_verifier *verifiers[ALGS];
static EVP_PKEY *named, *nameless;
static EVP_MD_CTX *signing;

static EVP_PKEY *ed25519_of(uint8_t byte)
{
    uint8_t raw[32];
    memset(raw, byte, sizeof(raw));
    EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, raw, sizeof(raw));
    MUST(key != NULL);
    return key;
}

static void ed25519_text(EVP_PKEY *key, char out[64])
{
    uint8_t raw[32];
    size_t len = sizeof(raw);
    MUST(EVP_PKEY_get_raw_public_key(key, raw, &len) == 1 && len == sizeof(raw));
    out[base64url_encode(out, raw, len)] = '\0';
}

static void verifier_make(enum jws_alg alg, struct slice text)
{
    struct jwks *keys;
    char objection[256];
    MUST(jwks_open(&keys, text, alg, objection) == FAULT_NONE);
    MUST(jws_verifier_open(&verifiers[alg], keys) == FAULT_NONE);
    jwks_release(keys);
}

/* A key whose private half is forgotten at once. */
static void stranger_make(enum jws_alg alg, EVP_PKEY *key)
{
    BIO *bio = BIO_new(BIO_s_mem());
    char *text;
    MUST(key != NULL && bio != NULL && PEM_write_bio_PUBKEY(bio, key) == 1);
    long len = BIO_get_mem_data(bio, &text);
    verifier_make(alg, (struct slice){ text, (size_t)len });
    BIO_free(bio);
    EVP_PKEY_free(key);
}

static void set_up(void)
{
    char one[64], other[64], text[512];
    named = ed25519_of(1);
    nameless = ed25519_of(2);
    ed25519_text(named, one);
    ed25519_text(nameless, other);
    snprintf(text, sizeof(text),
             "{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"k1\",\"x\":\"%s\"},"
             "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"%s\"}]}",
             one, other);
    verifier_make(JWS_EDDSA, slice_of(text));
    stranger_make(JWS_RS256, EVP_RSA_gen(2048));
    stranger_make(JWS_ES256, EVP_EC_gen("P-256"));
    signing = EVP_MD_CTX_new();
    MUST(signing != NULL);
}

static void claims_check(const struct jws_claims *claims, bool good)
{
    struct slice subject = slice_of(claims->subject);
    MUST(subject.len > 0 && subject.len <= BUYER_BYTES_MAX && utf8_valid(subject) && !text_has_control(subject));
    MUST(claims->role >= -1 && claims->role < (int)rules.roles_count && claims->token_id != 0);
    MUST(claims->not_before_s <= NOW + rules.leeway_s && claims->issued_s <= NOW + rules.leeway_s);
    MUST(good == (claims->expires_s + rules.leeway_s > NOW));
}

static void stranger_check(struct slice token)
{
    struct jws_claims claims = { .role = -1 };
    MUST(jws_check(verifiers[JWS_RS256], token, &rules, NOW, &claims) == JWS_BAD);
    MUST(jws_check(verifiers[JWS_ES256], token, &rules, NOW, &claims) == JWS_BAD);
}

static void forged_check(enum jws_alg alg, const uint8_t *signature, size_t len)
{
    char token[EXTERNAL_TOKEN_BYTES_MAX + 1], header[64];
    struct jws_claims claims = { .role = -1 };
    if (len > 1100) return;
    snprintf(header, sizeof(header), "{\"alg\":\"%s\"}", jws_alg_word(alg));
    size_t at = base64url_encode(token, (const uint8_t *)header, strlen(header));
    token[at++] = '.';
    at += base64url_encode(token + at, (const uint8_t *)PAYLOAD, sizeof(PAYLOAD) - 1);
    token[at++] = '.';
    at += base64url_encode(token + at, signature, len);
    MUST(jws_check(verifiers[alg], (struct slice){ token, at }, &plain_rules, NOW, &claims) == JWS_BAD);
}

static void signed_check(EVP_PKEY *key, struct slice header, struct slice payload)
{
    char token[EXTERNAL_TOKEN_BYTES_MAX + 256];
    uint8_t signature[SIGNATURE_BYTES];
    size_t signature_len = sizeof(signature);
    struct jws_claims claims = { .role = -1 }, again = { .role = -1 };

    size_t at = base64url_encode(token, (const uint8_t *)header.data, header.len);
    token[at++] = '.';
    at += base64url_encode(token + at, (const uint8_t *)payload.data, payload.len);
    MUST(EVP_MD_CTX_reset(signing) == 1 && EVP_DigestSignInit(signing, NULL, NULL, NULL, key) == 1);
    MUST(EVP_DigestSign(signing, signature, &signature_len, (const uint8_t *)token, at) == 1);
    token[at++] = '.';
    size_t signature_at = at;
    at += base64url_encode(token + at, signature, signature_len);

    struct slice whole = { token, at };
    stranger_check(whole);
    enum jws_check check = jws_check(verifiers[JWS_EDDSA], whole, &rules, NOW, &claims);
    if (check == JWS_BAD) return;
    claims_check(&claims, check == JWS_GOOD);
    MUST(memmem(header.data, header.len, "alg", 3) != NULL || memchr(header.data, '\\', header.len) != NULL);
    MUST(jws_check(verifiers[JWS_EDDSA], whole, &rules, NOW, &again) == check && again.token_id == claims.token_id);
    token[signature_at] = token[signature_at] == 'A' ? 'B' : 'A';
    MUST(jws_check(verifiers[JWS_EDDSA], whole, &rules, NOW, &again) == JWS_BAD);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (signing == NULL) set_up();
    if (size == 0) return 0;
    struct slice rest = { (const char *)data + 1, size - 1 };
    if (data[0] == 'E' || data[0] == 'R') {
        forged_check(data[0] == 'E' ? JWS_ES256 : JWS_RS256, data + 1, rest.len);
        return 0;
    }
    if (data[0] == 'T') {
        struct jws_claims claims = { .role = -1 };
        stranger_check(rest);
        enum jws_check check = jws_check(verifiers[JWS_EDDSA], rest, &rules, NOW, &claims);
        if (check != JWS_BAD) claims_check(&claims, check == JWS_GOOD);
        return 0;
    }
    const char *newline = memchr(rest.data, '\n', rest.len);
    if (newline == NULL || rest.len > EXTERNAL_TOKEN_BYTES_MAX / 4 * 3) return 0;
    struct slice header = { rest.data, (size_t)(newline - rest.data) };
    struct slice payload = { newline + 1, rest.len - header.len - 1 };
    signed_check(data[0] == 'N' ? nameless : named, header, payload);
    return 0;
}
