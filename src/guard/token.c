#include "guard/token.h"

#include "base/log.h"
#include "base/text.h"

#include <assert.h>
#include <endian.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#define TOKEN_VERSION 1
#define MAC_BYTES 32
#define TAG_BYTES 4
enum {
    TOKEN_AT_VERSION = 0,
    TOKEN_AT_TAG = 1,
    TOKEN_AT_EXPIRES = TOKEN_AT_TAG + TAG_BYTES,
    TOKEN_AT_NONCE = TOKEN_AT_EXPIRES + 8,
    TOKEN_AT_MAC = TOKEN_AT_NONCE + 8,
    TOKEN_RAW_BYTES = TOKEN_AT_MAC + MAC_BYTES,
};
#define TOKEN_TEXT_BYTES ((TOKEN_RAW_BYTES * 4 + 2) / 3)
_Static_assert(TOKEN_TEXT_BYTES <= PURCHASE_TOKEN_BYTES_MAX, "a token is within its limit");

/* Contexts are keyed once; a tag names the key without telling anything of it. */
struct token_mac {
    size_t count;
    EVP_MAC_CTX *contexts[JWT_KEYS_MAX];
    uint8_t tags[JWT_KEYS_MAX][TAG_BYTES];
};

static enum fault key_open(struct token_mac *mac, EVP_MAC *hmac, const struct jwt_ring *ring, size_t n)
{
    char digest[] = "SHA256";
    const OSSL_PARAM params[] = { OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0), OSSL_PARAM_END };
    uint8_t key[JWT_DERIVED_BYTES], tag[JWT_DERIVED_BYTES];
    enum fault fault = jwt_ring_derive(ring, n, SLICE("stampede purchase token"), key);
    if (fault == FAULT_NONE) fault = jwt_ring_derive(ring, n, SLICE("stampede purchase token tag"), tag);
    if (fault == FAULT_NONE) {
        memcpy(mac->tags[n], tag, TAG_BYTES);
        mac->contexts[n] = EVP_MAC_CTX_new(hmac);
        bool keyed = mac->contexts[n] != NULL && EVP_MAC_init(mac->contexts[n], key, sizeof key, params) == 1;
        fault = keyed ? FAULT_NONE : FAULT_MEMORY;
    }
    OPENSSL_cleanse(key, sizeof key);
    return fault;
}

enum fault token_mac_open(struct token_mac **out, const struct jwt_ring *ring)
{
    *out = NULL;
    EVP_MAC *hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    struct token_mac *mac = calloc(1, sizeof *mac);
    enum fault fault = hmac == NULL || mac == NULL ? FAULT_MEMORY : FAULT_NONE;
    for (size_t n = 0; fault == FAULT_NONE && n < jwt_ring_count(ring); n++) {
        fault = key_open(mac, hmac, ring, n);
        mac->count = n + 1;
    }
    EVP_MAC_free(hmac);
    if (fault != FAULT_NONE) {
        log_error("guard", "cannot make contexts to sign purchase tokens");
        token_mac_close(mac);
        return fault;
    }
    *out = mac;
    return FAULT_NONE;
}

void token_mac_close(struct token_mac *mac)
{
    if (mac == NULL) return;
    for (size_t n = 0; n < mac->count; n++) EVP_MAC_CTX_free(mac->contexts[n]);
    free(mac);
}

static void number_put(uint8_t *at, uint64_t value)
{
    value = htole64(value);
    memcpy(at, &value, sizeof value);
}

static uint64_t number_get(const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return le64toh(value);
}

/* All but the buyer has a fixed length and the buyer comes last, so no two claims have the same bytes. */
static bool mac_compute(struct token_mac *mac, size_t n, const uint8_t *raw, const struct token_claim *claim,
                        uint8_t out[MAC_BYTES])
{
    uint8_t bytes[TOKEN_AT_MAC + 8 + BUYER_BYTES_MAX];
    size_t len = 0;
    memcpy(bytes, raw, TOKEN_AT_MAC);
    number_put(bytes + TOKEN_AT_MAC, claim->sale_id);
    memcpy(bytes + TOKEN_AT_MAC + 8, claim->buyer.data, claim->buyer.len);
    return EVP_MAC_init(mac->contexts[n], NULL, 0, NULL) == 1 &&
           EVP_MAC_update(mac->contexts[n], bytes, TOKEN_AT_MAC + 8 + claim->buyer.len) == 1 &&
           EVP_MAC_final(mac->contexts[n], out, &len, MAC_BYTES) == 1 && len == MAC_BYTES;
}

size_t token_make(struct token_mac *mac, const struct token_claim *claim, char out[PURCHASE_TOKEN_BYTES_MAX])
{
    assert(claim->nonce != 0 && claim->buyer.len > 0 && claim->buyer.len <= BUYER_BYTES_MAX);
    uint8_t raw[TOKEN_RAW_BYTES] = { [TOKEN_AT_VERSION] = TOKEN_VERSION };
    memcpy(raw + TOKEN_AT_TAG, mac->tags[0], TAG_BYTES);
    number_put(raw + TOKEN_AT_EXPIRES, claim->expires_ms);
    number_put(raw + TOKEN_AT_NONCE, claim->nonce);
    bool signed_well = mac_compute(mac, 0, raw, claim, raw + TOKEN_AT_MAC);
    assert(signed_well);
    size_t len = base64url_encode(out, raw, sizeof raw);
    assert(len == TOKEN_TEXT_BYTES);
    return len;
}

bool token_verify(struct token_mac *mac, struct slice text, uint64_t now_ms, struct token_claim *claim)
{
    uint8_t raw[TOKEN_RAW_BYTES], right[MAC_BYTES];
    size_t len;
    if (claim->buyer.len == 0 || claim->buyer.len > BUYER_BYTES_MAX || text.len != TOKEN_TEXT_BYTES) return false;
    if (!base64url_decode(raw, sizeof raw, text, &len) || len != sizeof raw) return false;
    if (raw[TOKEN_AT_VERSION] != TOKEN_VERSION) return false;

    bool good = false;
    for (size_t n = 0; n < mac->count && !good; n++) {
        if (memcmp(raw + TOKEN_AT_TAG, mac->tags[n], TAG_BYTES) != 0) continue;
        good = mac_compute(mac, n, raw, claim, right) && CRYPTO_memcmp(raw + TOKEN_AT_MAC, right, MAC_BYTES) == 0;
    }
    uint64_t expires_ms = number_get(raw + TOKEN_AT_EXPIRES), nonce = number_get(raw + TOKEN_AT_NONCE);
    if (!good || nonce == 0 || now_ms >= expires_ms) return false;
    claim->nonce = nonce;
    claim->expires_ms = expires_ms;
    return true;
}
