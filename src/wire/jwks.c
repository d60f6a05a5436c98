#include "wire/jwks.h"

#include "base/log.h"
#include "base/text.h"
#include "wire/jwks_json.h"

#include <assert.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>

#define OBJECTION_BYTES 256

static const char *const alg_words[] = { [JWS_RS256] = "RS256", [JWS_ES256] = "ES256", [JWS_EDDSA] = "EdDSA" };
#define ALGS (sizeof(alg_words) / sizeof(alg_words[0]))

const char *jws_alg_word(enum jws_alg alg)
{
    return alg_words[alg];
}

bool jws_alg_of(struct slice word, enum jws_alg *out)
{
    for (enum jws_alg alg = 0; alg < ALGS; alg++) {
        if (!slice_is(word, alg_words[alg])) continue;
        *out = alg;
        return true;
    }
    return false;
}

static bool point_is_good(EVP_PKEY *key)
{
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new(key, NULL);
    bool good = context != NULL && EVP_PKEY_public_check(context) == 1;
    EVP_PKEY_CTX_free(context);
    return good;
}

/* NULL, or why the key is not for this algorithm. */
static const char *key_objection(EVP_PKEY *key, enum jws_alg alg)
{
    char group[32];
    size_t len;
    if (key == NULL) return "it cannot be understood";
    int kind = EVP_PKEY_get_base_id(key), bits = EVP_PKEY_get_bits(key);
    switch (alg) {
    case JWS_RS256:
        if (kind != EVP_PKEY_RSA) return "it is not an RSA key";
        return bits < JWKS_RSA_BITS_MIN   ? "an RSA key has at least 2048 bits"
               : bits > JWKS_RSA_BITS_MAX ? "an RSA key has at most 8192 bits"
                                          : NULL;
    case JWS_ES256:
        if (kind != EVP_PKEY_EC) return "it is not an EC key";
        if (EVP_PKEY_get_group_name(key, group, sizeof(group), &len) != 1) return "its curve is not P-256";
        if (strcmp(group, "prime256v1") != 0) return "its curve is not P-256";
        return point_is_good(key) ? NULL : "its point is not on the curve";
    case JWS_EDDSA:
        return kind == EVP_PKEY_ED25519 ? NULL : "it is not an Ed25519 key";
    }
    return "its algorithm is unknown";
}

bool jwks_add(struct jwks *keys, EVP_PKEY *key, struct slice kid, const char *where, char objection[256])
{
    const char *skip = key_objection(key, keys->alg);
    size_t nameless = 0;
    if (skip == NULL && kid.len > JWKS_KID_BYTES_MAX) skip = "its kid is too long";
    if (skip != NULL) {
        log_info("identity", "%s is skipped: %s", where, skip);
        EVP_PKEY_free(key);
        ERR_clear_error();
        return true;
    }
    const char *wrong = keys->count == JWKS_KEYS_MAX ? "there are more than 16 keys" : NULL;
    for (size_t i = 0; i < keys->count; i++) {
        if (keys->keys[i].kid[0] == '\0')
            nameless++;
        else if (slice_is(kid, keys->keys[i].kid))
            wrong = "two keys have the same kid";
    }
    if (kid.len == 0 && nameless == JWKS_NAMELESS_MAX) wrong = "there are more than 4 keys without a kid";
    if (wrong != NULL) {
        snprintf(objection, OBJECTION_BYTES, "%s: %s", where, wrong);
        EVP_PKEY_free(key);
        return false;
    }
    struct jwks_key *row = &keys->keys[keys->count++];
    memcpy(row->kid, kid.data, kid.len);
    row->kid[kid.len] = '\0';
    row->public = key;
    return true;
}

static EVP_PKEY *certificate_key(const unsigned char *der, long len)
{
    X509 *certificate = d2i_X509(NULL, &der, len);
    EVP_PKEY *key = certificate != NULL ? X509_get_pubkey(certificate) : NULL;
    X509_free(certificate);
    return key;
}

/* One block between BEGIN and END. Issuers of a certificate follow it in a chain: their keys sign no tokens. */
static bool block_add(struct jwks *keys, const char *name, struct slice der, unsigned number, char objection[256])
{
    const unsigned char *at = (const unsigned char *)der.data;
    long len = (long)der.len;
    char where[64];
    snprintf(where, sizeof(where), "PEM block %u", number);
    if (strcmp(name, PEM_STRING_PUBLIC) == 0) return jwks_add(keys, d2i_PUBKEY(NULL, &at, len), SLICE(""), where, objection);
    if (strcmp(name, PEM_STRING_RSA_PUBLIC) == 0)
        return jwks_add(keys, d2i_PublicKey(EVP_PKEY_RSA, NULL, &at, len), SLICE(""), where, objection);
    if (strcmp(name, PEM_STRING_X509) == 0)
        return number > 1 || jwks_add(keys, certificate_key(at, len), SLICE(""), where, objection);
    log_warn("identity", "%s is skipped: %.40s is neither a public key nor a certificate", where, name);
    return true;
}

static bool pem_read(struct jwks *keys, struct slice text, char objection[256])
{
    BIO *bio = BIO_new_mem_buf(text.data, (int)text.len);
    char *name, *header;
    unsigned char *der;
    long len;
    bool good = bio != NULL;
    for (unsigned number = 1; good && PEM_read_bio(bio, &name, &header, &der, &len) == 1; number++) {
        good = block_add(keys, name, (struct slice){ (const char *)der, (size_t)len }, number, objection);
        OPENSSL_free(name);
        OPENSSL_free(header);
        OPENSSL_free(der);
    }
    /* The end of the text is an error too, to be told from a block that is cut or spoilt. */
    if (good && ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE) {
        snprintf(objection, OBJECTION_BYTES, "a PEM block is cut or spoilt");
        good = false;
    }
    BIO_free(bio);
    ERR_clear_error();
    return good;
}

enum fault jwks_open(struct jwks **out, struct slice text, enum jws_alg alg, char objection[256])
{
    static const char blanks[] = " \t\r\n";
    *out = NULL;
    struct jwks *keys = calloc(1, sizeof(*keys));
    if (keys == NULL) return FAULT_MEMORY;
    keys->alg = alg;
    atomic_init(&keys->holders, 1);
    ERR_clear_error();

    struct slice from = text;
    while (from.len > 0 && memchr(blanks, from.data[0], sizeof(blanks) - 1) != NULL)
        from = (struct slice){ from.data + 1, from.len - 1 };
    bool good = from.len > 0 && from.data[0] == '{' ? jwks_json_read(keys, text, objection)
                                                    : pem_read(keys, text, objection);
    if (good && keys->count == 0) {
        snprintf(objection, OBJECTION_BYTES, "there is no key for %s", alg_words[alg]);
        good = false;
    }
    if (!good) {
        jwks_release(keys);
        return FAULT_CONFIG;
    }
    *out = keys;
    return FAULT_NONE;
}

void jwks_hold(struct jwks *keys)
{
    uint32_t before = atomic_fetch_add_explicit(&keys->holders, 1, memory_order_relaxed);
    assert(before > 0);
}

void jwks_release(struct jwks *keys)
{
    if (keys == NULL) return;
    uint32_t before = atomic_fetch_sub_explicit(&keys->holders, 1, memory_order_acq_rel);
    assert(before > 0);
    if (before > 1) return;
    for (size_t i = 0; i < keys->count; i++) EVP_PKEY_free(keys->keys[i].public);
    free(keys);
}
