/* Any text as a file of keys; the first byte chooses the algorithm. What is taken is of that algorithm, strong enough, and
 * as few and as well named as the header promises; what is refused is so with a sentence. The same text always means the
 * same. */
#include "base/log.h"
#include "base/text.h"
#include "wire/json_out.h"
#include "wire/jws.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <stdlib.h>

#define MUST(condition)                                                                                                     \
    do {                                                                                                                    \
        if (!(condition)) abort();                                                                                          \
    } while (0)

#define NOW UINT64_C(1700000000)

static void key_check(const struct jwks *keys, const struct jwks_key *key)
{
    static const int kinds[] = { [JWS_RS256] = EVP_PKEY_RSA, [JWS_ES256] = EVP_PKEY_EC, [JWS_EDDSA] = EVP_PKEY_ED25519 };
    int bits = EVP_PKEY_get_bits(key->public);
    MUST(EVP_PKEY_get_base_id(key->public) == kinds[keys->alg]);
    MUST(keys->alg != JWS_RS256 || (bits >= JWKS_RSA_BITS_MIN && bits <= JWKS_RSA_BITS_MAX));
    MUST(utf8_valid(slice_of(key->kid)));
}

static void keys_check(const struct jwks *keys, enum jws_alg alg)
{
    size_t nameless = 0;
    MUST(keys->alg == alg && keys->count > 0 && keys->count <= JWKS_KEYS_MAX);
    for (size_t i = 0; i < keys->count; i++) {
        key_check(keys, &keys->keys[i]);
        nameless += keys->keys[i].kid[0] == '\0';
        for (size_t j = 0; j < i; j++)
            MUST(keys->keys[i].kid[0] == '\0' || strcmp(keys->keys[i].kid, keys->keys[j].kid) != 0);
    }
    MUST(nameless <= JWKS_NAMELESS_MAX);
}

/* With every key a signature of nothing but zeros, which must be wrong and must leave nothing behind. */
static void zeros_check(struct jwks *keys)
{
    static const struct jws_rules rules = { .issuer = "i", .audience = "a", .subject_claim = "sub", .role_claim = "" };
    static const uint8_t zeros[JWKS_RSA_BITS_MAX / 8];
    static const size_t lengths[] = { [JWS_RS256] = 256, [JWS_ES256] = 64, [JWS_EDDSA] = 64 };
    char token[EXTERNAL_TOKEN_BYTES_MAX], header[64];
    struct jws_verifier *verifier;
    struct jws_claims claims;

    struct json_out out;
    json_out_init(&out, header, sizeof(header));
    json_object(&out);
    json_key(&out, "alg");
    json_text(&out, jws_alg_word(keys->alg));
    json_object_end(&out);
    size_t at = base64url_encode(token, (const uint8_t *)header, out.len);
    token[at++] = '.';
    at += base64url_encode(token + at, (const uint8_t *)"{}", 2);
    token[at++] = '.';
    at += base64url_encode(token + at, zeros, lengths[keys->alg]);
    MUST(jws_verifier_open(&verifier, keys) == FAULT_NONE);
    MUST(jws_check(verifier, (struct slice){ token, at }, &rules, NOW, &claims) == JWS_BAD);
    jws_verifier_close(verifier);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct jwks *keys, *again;
    char objection[256] = "", objection_again[256] = "";

    log_set_level(LOG_ERROR);
    if (size == 0) return 0;
    enum jws_alg alg = (enum jws_alg)(data[0] % 3);
    struct slice text = { (const char *)data + 1, size - 1 };
    enum fault fault = jwks_open(&keys, text, alg, objection);
    MUST(jwks_open(&again, text, alg, objection_again) == fault && strcmp(objection, objection_again) == 0);
    if (fault == FAULT_NONE) {
        MUST(again->count == keys->count);
        keys_check(keys, alg);
        zeros_check(keys);
    } else {
        MUST(fault == FAULT_CONFIG && keys == NULL && again == NULL && objection[0] != '\0');
    }
    MUST(ERR_peek_error() == 0);
    jwks_release(keys);
    jwks_release(again);
    return 0;
}
