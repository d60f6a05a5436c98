#include "wire/jwks_json.h"

#include "base/log.h"
#include "base/text.h"

#include <jansson.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <stdio.h>

#define NUMBER_BYTES_MAX (JWKS_RSA_BITS_MAX / 8 + 8)
#define EXPONENT_BYTES_MAX 8 /* a longer one is nobody's choice, and dear */
#define COORDINATE_BYTES 32

static struct slice member_text(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    if (!json_is_string(value)) return SLICE("");
    return (struct slice){ json_string_value(value), json_string_length(value) };
}

/* A member in base64url; 0 if it is not one. */
static size_t member_bytes(const json_t *object, const char *name, uint8_t *out, size_t max)
{
    size_t len;
    return base64url_decode(out, max, member_text(object, name), &len) ? len : 0;
}

static EVP_PKEY *key_build(const char *kind, OSSL_PARAM *params)
{
    EVP_PKEY *key = NULL;
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, kind, NULL);
    bool good = context != NULL && params != NULL && EVP_PKEY_fromdata_init(context) == 1;
    if (!good || EVP_PKEY_fromdata(context, &key, EVP_PKEY_PUBLIC_KEY, params) != 1) key = NULL;
    EVP_PKEY_CTX_free(context);
    return key;
}

static EVP_PKEY *rsa_build(const json_t *object)
{
    uint8_t modulus[NUMBER_BYTES_MAX], exponent[EXPONENT_BYTES_MAX];
    size_t modulus_len = member_bytes(object, "n", modulus, sizeof(modulus));
    size_t exponent_len = member_bytes(object, "e", exponent, sizeof(exponent));
    if (modulus_len == 0 || exponent_len == 0) return NULL;

    BIGNUM *n = BN_bin2bn(modulus, (int)modulus_len, NULL), *e = BN_bin2bn(exponent, (int)exponent_len, NULL);
    OSSL_PARAM_BLD *builder = OSSL_PARAM_BLD_new();
    OSSL_PARAM *params = NULL;
    EVP_PKEY *key = NULL;
    /* With an exponent of 1 every text would be its own signature. */
    bool good = n != NULL && e != NULL && builder != NULL && BN_is_odd(n) && BN_is_odd(e) && !BN_is_one(e);
    good = good && OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_N, n) == 1;
    good = good && OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_E, e) == 1;
    if (good) params = OSSL_PARAM_BLD_to_param(builder);
    if (good) key = key_build("RSA", params);
    OSSL_PARAM_free(params);
    OSSL_PARAM_BLD_free(builder);
    BN_free(n);
    BN_free(e);
    return key;
}

static EVP_PKEY *ec_build(const json_t *object)
{
    uint8_t point[1 + 2 * COORDINATE_BYTES] = { 4 }; /* uncompressed */
    char group[] = "prime256v1";
    if (!slice_is(member_text(object, "crv"), "P-256")) return NULL;
    if (member_bytes(object, "x", point + 1, COORDINATE_BYTES) != COORDINATE_BYTES) return NULL;
    if (member_bytes(object, "y", point + 1 + COORDINATE_BYTES, COORDINATE_BYTES) != COORDINATE_BYTES) return NULL;
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, group, 0),
        OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PUB_KEY, point, sizeof(point)),
        OSSL_PARAM_END,
    };
    return key_build("EC", params);
}

static EVP_PKEY *okp_build(const json_t *object)
{
    uint8_t point[COORDINATE_BYTES];
    if (!slice_is(member_text(object, "crv"), "Ed25519")) return NULL;
    if (member_bytes(object, "x", point, sizeof(point)) != sizeof(point)) return NULL;
    return EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, point, sizeof(point));
}

static const struct {
    const char *kind; /* kty */
    EVP_PKEY *(*build)(const json_t *object);
} kinds[] = {
    [JWS_RS256] = { "RSA", rsa_build },
    [JWS_ES256] = { "EC", ec_build },
    [JWS_EDDSA] = { "OKP", okp_build },
};

static bool may_verify(const json_t *operations)
{
    size_t i;
    const json_t *value;
    if (operations == NULL) return true;
    json_array_foreach(operations, i, value)
    {
        if (json_is_string(value) && strcmp(json_string_value(value), "verify") == 0) return true;
    }
    return false;
}

/* NULL, or why an entry is not one of the keys we look for. */
static const char *entry_objection(const json_t *entry, enum jws_alg alg)
{
    if (!json_is_object(entry)) return "it is not an object";
    if (!slice_is(member_text(entry, "kty"), kinds[alg].kind)) return "it is of another kind";
    if (json_object_get(entry, "use") != NULL && !slice_is(member_text(entry, "use"), "sig"))
        return "it is not for signatures";
    if (!may_verify(json_object_get(entry, "key_ops"))) return "it is not for verifying";
    if (json_object_get(entry, "alg") != NULL && !slice_is(member_text(entry, "alg"), jws_alg_word(alg)))
        return "it is for another algorithm";
    if (json_object_get(entry, "kid") != NULL && member_text(entry, "kid").len == 0) return "its kid is not a text";
    return NULL;
}

static bool entry_add(struct jwks *keys, const json_t *entry, size_t number, char objection[256])
{
    char where[32];
    snprintf(where, sizeof(where), "JWKS key %zu", number);
    const char *skip = entry_objection(entry, keys->alg);
    if (skip != NULL) {
        log_info("identity", "%s is skipped: %s", where, skip);
        return true;
    }
    if (json_object_get(entry, "d") != NULL) log_warn("identity", "%s has its private part beside it: remove that", where);
    EVP_PKEY *key = kinds[keys->alg].build(entry);
    return jwks_add(keys, key, member_text(entry, "kid"), where, objection);
}

bool jwks_json_read(struct jwks *keys, struct slice text, char objection[256])
{
    json_error_t error;
    json_t *root = json_loadb(text.data, text.len, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL) {
        snprintf(objection, 256, "line %d: %s", error.line, error.text);
        return false;
    }
    const json_t *list = json_object_get(root, "keys"), *entry;
    bool good = true;
    if (list == NULL && json_object_get(root, "kty") != NULL) {
        good = entry_add(keys, root, 1, objection);
    } else if (!json_is_array(list)) {
        snprintf(objection, 256, "there is no list \"keys\"");
        good = false;
    } else {
        size_t i;
        json_array_foreach(list, i, entry)
        {
            if (good) good = entry_add(keys, entry, i + 1, objection);
        }
    }
    json_decref(root);
    return good;
}
