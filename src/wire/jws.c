#include "wire/jws.h"

#include "base/log.h"
#include "base/text.h"
#include "wire/jws_claims.h"

#include <assert.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <stdlib.h>

#define HASH_BYTES 32
#define HEADER_BYTES_MAX 1024
#define PAYLOAD_BYTES_MAX (EXTERNAL_TOKEN_BYTES_MAX / 4 * 3)
#define SIGNATURE_BYTES_MAX (JWKS_RSA_BITS_MAX / 8)
#define NUMBER_BYTES 32                            /* of P-256 */
#define DER_BYTES_MAX (2 + 2 * (3 + NUMBER_BYTES)) /* a sequence of two such numbers, each perhaps with a zero before it */

struct jws_verifier {
    struct jwks *keys;
    EVP_MD *sha256;
    EVP_MD_CTX *digest;
    EVP_MD_CTX *whole;                     /* EdDSA signs the text itself; a context cannot serve both */
    EVP_PKEY_CTX *contexts[JWKS_KEYS_MAX]; /* set up at a key's first use; not used with EdDSA */
};

enum fault jws_verifier_open(struct jws_verifier **out, struct jwks *keys)
{
    *out = NULL;
    struct jws_verifier *verifier = calloc(1, sizeof(*verifier));
    if (verifier == NULL) return FAULT_MEMORY;
    jwks_hold(keys);
    verifier->keys = keys;
    verifier->sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    verifier->digest = EVP_MD_CTX_new();
    verifier->whole = EVP_MD_CTX_new();
    if (verifier->sha256 == NULL || verifier->digest == NULL || verifier->whole == NULL) {
        log_error("identity", "OpenSSL gives no SHA-256");
        jws_verifier_close(verifier);
        return FAULT_MEMORY;
    }
    *out = verifier;
    return FAULT_NONE;
}

void jws_verifier_close(struct jws_verifier *verifier)
{
    if (verifier == NULL) return;
    for (size_t i = 0; i < JWKS_KEYS_MAX; i++) EVP_PKEY_CTX_free(verifier->contexts[i]);
    EVP_MD_CTX_free(verifier->digest);
    EVP_MD_CTX_free(verifier->whole);
    EVP_MD_free(verifier->sha256);
    jwks_release(verifier->keys);
    free(verifier);
}

/* A number of DER is signed and as short as can be. */
static size_t der_number(uint8_t *out, const uint8_t raw[NUMBER_BYTES])
{
    size_t skip = 0;
    while (skip < NUMBER_BYTES - 1 && raw[skip] == 0) skip++;
    size_t zero = raw[skip] >> 7, len = NUMBER_BYTES - skip + zero;
    out[0] = 2;
    out[1] = (uint8_t)len;
    out[2] = 0;
    memcpy(out + 2 + zero, raw + skip, NUMBER_BYTES - skip);
    return 2 + len;
}

/* A token carries r and s as 64 plain bytes, OpenSSL wants them in DER. */
static size_t der_signature(uint8_t out[DER_BYTES_MAX], const uint8_t raw[2 * NUMBER_BYTES])
{
    size_t len = der_number(out + 2, raw);
    len += der_number(out + 2 + len, raw + NUMBER_BYTES);
    out[0] = 0x30;
    out[1] = (uint8_t)len;
    assert(len + 2 <= DER_BYTES_MAX);
    return len + 2;
}

static EVP_PKEY_CTX *context_of(struct jws_verifier *verifier, size_t key)
{
    if (verifier->contexts[key] != NULL) return verifier->contexts[key];
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new(verifier->keys->keys[key].public, NULL);
    bool good = context != NULL && EVP_PKEY_verify_init(context) == 1;
    if (good && verifier->keys->alg == JWS_RS256) good = EVP_PKEY_CTX_set_rsa_padding(context, RSA_PKCS1_PADDING) == 1;
    good = good && EVP_PKEY_CTX_set_signature_md(context, verifier->sha256) == 1;
    if (!good) {
        EVP_PKEY_CTX_free(context);
        return NULL;
    }
    verifier->contexts[key] = context;
    return context;
}

/* What was signed, and with what. */
struct signed_text {
    struct slice text;
    uint8_t hash[HASH_BYTES];
    uint8_t signature[SIGNATURE_BYTES_MAX];
    size_t signature_len;
};

static bool verify_with(struct jws_verifier *verifier, size_t key, const struct signed_text *given)
{
    EVP_PKEY *public = verifier->keys->keys[key].public;
    const uint8_t *signature = given->signature;
    size_t len = given->signature_len;
    uint8_t der[DER_BYTES_MAX];
    switch (verifier->keys->alg) {
    case JWS_RS256:
        if (len != (size_t)EVP_PKEY_get_size(public)) return false;
        break;
    case JWS_ES256:
        if (len != 2 * NUMBER_BYTES) return false;
        len = der_signature(der, signature);
        signature = der;
        break;
    case JWS_EDDSA:
        EVP_MD_CTX_reset(verifier->whole);
        return len == 64 && EVP_DigestVerifyInit(verifier->whole, NULL, NULL, NULL, public) == 1 &&
               EVP_DigestVerify(verifier->whole, signature, len, (const unsigned char *)given->text.data, given->text.len) ==
                   1;
    }
    EVP_PKEY_CTX *context = context_of(verifier, key);
    return context != NULL && EVP_PKEY_verify(context, signature, len, given->hash, HASH_BYTES) == 1;
}

/* The key of the name, or else any of the few that have none; without a name also the only one there is. */
static bool verify(struct jws_verifier *verifier, const char *kid, const struct signed_text *given)
{
    const struct jwks *keys = verifier->keys;
    bool good = false;
    for (size_t i = 0; i < keys->count && kid[0] != '\0'; i++) {
        if (strcmp(keys->keys[i].kid, kid) == 0) return verify_with(verifier, i, given);
    }
    for (size_t i = 0; i < keys->count && !good; i++) {
        bool only = keys->count == 1 && kid[0] == '\0';
        if (only || keys->keys[i].kid[0] == '\0') good = verify_with(verifier, i, given);
    }
    return good;
}

static bool hash_text(struct jws_verifier *verifier, struct slice text, uint8_t out[HASH_BYTES])
{
    unsigned len = 0;
    return EVP_DigestInit_ex2(verifier->digest, verifier->sha256, NULL) == 1 &&
           EVP_DigestUpdate(verifier->digest, text.data, text.len) == 1 &&
           EVP_DigestFinal_ex(verifier->digest, out, &len) == 1 && len == HASH_BYTES;
}

static uint64_t token_id_of(const uint8_t hash[HASH_BYTES])
{
    uint64_t id = 0;
    for (size_t i = 0; i < 8; i++) id = id << 8 | hash[i];
    return id != 0 ? id : 1;
}

/* The three parts, without the two dots. */
struct parts {
    struct slice header, payload, signature;
};

static bool parts_split(struct slice token, struct parts *out)
{
    const char *end = token.data + token.len;
    const char *first = memchr(token.data, '.', token.len);
    if (first == NULL) return false;
    const char *second = memchr(first + 1, '.', (size_t)(end - first - 1));
    if (second == NULL) return false;
    out->header = (struct slice){ token.data, (size_t)(first - token.data) };
    out->payload = (struct slice){ first + 1, (size_t)(second - first - 1) };
    out->signature = (struct slice){ second + 1, (size_t)(end - second - 1) };
    return true;
}

enum jws_check jws_check(struct jws_verifier *verifier, struct slice token, const struct jws_rules *rules, uint64_t now_s,
                         struct jws_claims *out)
{
    uint8_t header[HEADER_BYTES_MAX], payload[PAYLOAD_BYTES_MAX];
    char kid[JWKS_KID_BYTES_MAX + 1];
    struct signed_text given;
    struct parts parts;
    size_t len;

    if (token.len > EXTERNAL_TOKEN_BYTES_MAX || !parts_split(token, &parts)) return JWS_BAD;
    if (!base64url_decode(header, sizeof(header), parts.header, &len)) return JWS_BAD;
    if (!jws_header_read((struct slice){ (const char *)header, len }, verifier->keys->alg, kid)) return JWS_BAD;
    if (!base64url_decode(given.signature, sizeof(given.signature), parts.signature, &given.signature_len)) return JWS_BAD;

    given.text = (struct slice){ token.data, parts.header.len + 1 + parts.payload.len };
    bool good = hash_text(verifier, given.text, given.hash) && verify(verifier, kid, &given);
    /* A wrong signature leaves its errors behind, and TLS on this thread would take them for its own. */
    ERR_clear_error();
    if (!good) return JWS_BAD;

    if (!base64url_decode(payload, sizeof(payload), parts.payload, &len)) return JWS_BAD;
    if (!jws_claims_read((struct slice){ (const char *)payload, len }, rules, out)) return JWS_BAD;
    out->token_id = token_id_of(given.hash);
    uint64_t latest_s = now_s + rules->leeway_s;
    if (out->not_before_s > latest_s || out->issued_s > latest_s) return JWS_BAD;
    return out->expires_s + rules->leeway_s > now_s ? JWS_GOOD : JWS_EXPIRED;
}
