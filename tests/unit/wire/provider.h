/* provider: somebody else's identity provider: keys of its own, tokens of any shape signed with them. For the tests of jwks,
 * jws and of the people room; everything fails the test that called it. */
#ifndef STAMPEDE_TESTS_PROVIDER_H
#define STAMPEDE_TESTS_PROVIDER_H

#include "base/slice.h"
#include "base/text.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROVIDER_TEXT_BYTES 16384

#define MUST(condition)                                                                                                     \
    do {                                                                                                                    \
        if (!(condition)) fail_msg("%s", #condition);                                                                       \
    } while (0)

static inline EVP_PKEY *provider_rsa(unsigned bits)
{
    EVP_PKEY *key = EVP_RSA_gen(bits);
    MUST(key != NULL);
    return key;
}

static inline EVP_PKEY *provider_ec(const char *curve)
{
    EVP_PKEY *key = EVP_EC_gen(curve);
    MUST(key != NULL);
    return key;
}

static inline EVP_PKEY *provider_ed25519(void)
{
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    MUST(key != NULL);
    return key;
}

/* PEM of the public half, or of the private one. */
static inline void provider_pem(EVP_PKEY *key, bool private, char out[PROVIDER_TEXT_BYTES])
{
    BIO *bio = BIO_new(BIO_s_mem());
    if (private)
        MUST(PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) == 1);
    else
        MUST(PEM_write_bio_PUBKEY(bio, key) == 1);
    int len = BIO_read(bio, out, PROVIDER_TEXT_BYTES - 1);
    MUST(len > 0);
    out[len] = '\0';
    BIO_free(bio);
}

static inline void provider_number(EVP_PKEY *key, const char *name, size_t bytes, char *out)
{
    BIGNUM *number = NULL;
    uint8_t raw[2048];
    MUST(EVP_PKEY_get_bn_param(key, name, &number) == 1);
    int len = bytes > 0 ? BN_bn2binpad(number, raw, (int)bytes) : BN_bn2bin(number, raw);
    MUST(len > 0);
    out[base64url_encode(out, raw, (size_t)len)] = '\0';
    BN_free(number);
}

/* One JWK; more is what stands behind its members, beginning with a comma. */
static inline void provider_jwk(EVP_PKEY *key, const char *more, char out[PROVIDER_TEXT_BYTES])
{
    char a[4096], b[4096];
    switch (EVP_PKEY_get_base_id(key)) {
    case EVP_PKEY_RSA:
        provider_number(key, OSSL_PKEY_PARAM_RSA_N, 0, a);
        provider_number(key, OSSL_PKEY_PARAM_RSA_E, 0, b);
        snprintf(out, PROVIDER_TEXT_BYTES, "{\"kty\":\"RSA\",\"n\":\"%s\",\"e\":\"%s\"%s}", a, b, more);
        return;
    case EVP_PKEY_EC:
        provider_number(key, OSSL_PKEY_PARAM_EC_PUB_X, 32, a);
        provider_number(key, OSSL_PKEY_PARAM_EC_PUB_Y, 32, b);
        snprintf(out, PROVIDER_TEXT_BYTES, "{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"%s\",\"y\":\"%s\"%s}", a, b, more);
        return;
    default: {
        uint8_t raw[32];
        size_t len = sizeof(raw);
        MUST(EVP_PKEY_get_raw_public_key(key, raw, &len) == 1);
        a[base64url_encode(a, raw, len)] = '\0';
        snprintf(out, PROVIDER_TEXT_BYTES, "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"%s\"%s}", a, more);
    }
    }
}

/* r and s out of DER, as a token carries them. */
static inline size_t provider_raw_signature(const uint8_t *der, size_t len, uint8_t out[64])
{
    ECDSA_SIG *pair = d2i_ECDSA_SIG(NULL, &der, (long)len);
    MUST(pair != NULL);
    MUST(BN_bn2binpad(ECDSA_SIG_get0_r(pair), out, 32) == 32 && BN_bn2binpad(ECDSA_SIG_get0_s(pair), out + 32, 32) == 32);
    ECDSA_SIG_free(pair);
    return 64;
}

/* Signs as the key can, whatever the header claims. digest: SHA256, or another for RSA and EC. Length of the token. */
static inline size_t provider_sign_with(EVP_PKEY *key, const char *digest, const char *header, const char *payload,
                                        char out[PROVIDER_TEXT_BYTES])
{
    uint8_t signature[2048], raw[64];
    size_t len = base64url_encode(out, (const uint8_t *)header, strlen(header)), signature_len = sizeof(signature);
    out[len++] = '.';
    len += base64url_encode(out + len, (const uint8_t *)payload, strlen(payload));
    int kind = EVP_PKEY_get_base_id(key);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    MUST(EVP_DigestSignInit_ex(context, NULL, kind == EVP_PKEY_ED25519 ? NULL : digest, NULL, NULL, key, NULL) == 1);
    MUST(EVP_DigestSign(context, signature, &signature_len, (const uint8_t *)out, len) == 1);
    EVP_MD_CTX_free(context);
    const uint8_t *bytes = signature;
    if (kind == EVP_PKEY_EC) {
        signature_len = provider_raw_signature(signature, signature_len, raw);
        bytes = raw;
    }
    out[len++] = '.';
    len += base64url_encode(out + len, bytes, signature_len);
    out[len] = '\0';
    return len;
}

static inline size_t provider_sign(EVP_PKEY *key, const char *header, const char *payload, char out[PROVIDER_TEXT_BYTES])
{
    return provider_sign_with(key, "SHA256", header, payload, out);
}

#endif
