#include "wire/jwt.h"

#include "base/log.h"
#include "base/text.h"
#include "wire/json_out.h"
#include "wire/jwt_claims.h"

#include <assert.h>
#include <inttypes.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>

#define KEY_BYTES_MAX 128
#define MAC_BYTES 32
#define MAC_TEXT_BYTES 43 /* MAC_BYTES in base64url */
#define PAYLOAD_BYTES_MAX (TOKEN_BYTES_MAX / 4 * 3)
#define HEADER_BYTES_MAX (JWT_KID_BYTES_MAX + 40)
#define HEADER_TEXT_BYTES_MAX (HEADER_BYTES_MAX / 3 * 4 + 4)
/* Clocks of two machines differ a little; a token from the other one is not from the future for that. */
#define LEEWAY_S 5

struct jwt_key {
    char kid[JWT_KID_BYTES_MAX + 1];
    uint8_t bytes[KEY_BYTES_MAX];
    size_t bytes_len;
    char header[HEADER_TEXT_BYTES_MAX]; /* as jwt_make() writes it, in base64url, with the dot */
    size_t header_len;
};

struct jwt_ring {
    size_t count;
    struct jwt_key keys[JWT_KEYS_MAX];
};

struct jwt_mac {
    const struct jwt_ring *ring;
    EVP_MAC_CTX *contexts[JWT_KEYS_MAX]; /* keyed once; a restart without a key costs a fourth of a fresh one */
};

static void key_write_header(struct jwt_key *key)
{
    char text[HEADER_BYTES_MAX];
    struct json_out json;

    json_out_init(&json, text, sizeof(text));
    json_object(&json);
    json_key(&json, "alg");
    json_text(&json, "HS256");
    json_key(&json, "typ");
    json_text(&json, "JWT");
    json_key(&json, "kid");
    json_text(&json, key->kid);
    json_object_end(&json);
    assert(!json.overflow);
    key->header_len = base64url_encode(key->header, (const uint8_t *)text, json.len);
    key->header[key->header_len++] = '.';
}

static bool kid_good(struct slice kid)
{
    for (size_t i = 0; i < kid.len; i++) {
        char byte = kid.data[i];
        bool letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
        if (!letter && !(byte >= '0' && byte <= '9') && byte != '-' && byte != '_' && byte != '.') return false;
    }
    return kid.len > 0 && kid.len <= JWT_KID_BYTES_MAX;
}

static struct jwt_key *ring_find(struct jwt_ring *ring, struct slice kid)
{
    for (size_t i = 0; i < ring->count; i++)
        if (slice_is(kid, ring->keys[i].kid)) return &ring->keys[i];
    return NULL;
}

/* NULL, or what is wrong with the line. Never what the line says: it is a secret. */
static const char *ring_add(struct jwt_ring *ring, struct slice line)
{
    const char *space = memchr(line.data, ' ', line.len);
    if (space == NULL) return "expected a name, a space and the key in hexadecimal";
    struct slice kid = { line.data, (size_t)(space - line.data) };
    struct slice hex = { space + 1, line.len - kid.len - 1 };

    if (!kid_good(kid)) return "a key's name has 1 to 32 letters, digits, dots, dashes or underscores";
    if (ring_find(ring, kid) != NULL) return "a key of this name is there already";
    if (ring->count == JWT_KEYS_MAX) return "too many keys";
    if (hex.len < JWT_KEY_BYTES_MIN * 2) return "a key has at least 32 bytes, which is 64 hexadecimal digits";
    if (hex.len > KEY_BYTES_MAX * 2) return "a key has at most 128 bytes, which is 256 hexadecimal digits";

    struct jwt_key *key = &ring->keys[ring->count];
    if (!hex_decode(key->bytes, hex)) return "the key is not an even number of hexadecimal digits";
    key->bytes_len = hex.len / 2;
    memcpy(key->kid, kid.data, kid.len);
    key_write_header(key);
    ring->count++;
    return NULL;
}

enum fault jwt_ring_open(struct jwt_ring **out, struct slice text, char objection[256])
{
    struct jwt_ring *ring = calloc(1, sizeof(*ring));
    const char *wrong = NULL;
    unsigned number = 0;

    *out = NULL;
    if (ring == NULL) return FAULT_MEMORY;
    for (size_t at = 0; at < text.len && wrong == NULL; number++) {
        const char *from = text.data + at;
        const char *newline = memchr(from, '\n', text.len - at);
        size_t len = newline != NULL ? (size_t)(newline - from) : text.len - at;
        struct slice line = text_trim((struct slice){ from, len });
        if (line.len > 0 && line.data[0] != '#') wrong = ring_add(ring, line);
        at += len + 1;
    }
    if (wrong != NULL) {
        snprintf(objection, 256, "line %u: %s", number, wrong);
    } else if (ring->count == 0) {
        wrong = "there is no key";
        snprintf(objection, 256, "%s", wrong);
    }
    if (wrong != NULL) {
        jwt_ring_close(ring);
        return FAULT_CONFIG;
    }
    *out = ring;
    return FAULT_NONE;
}

void jwt_ring_close(struct jwt_ring *ring)
{
    if (ring == NULL) return;
    OPENSSL_cleanse(ring, sizeof(*ring));
    free(ring);
}

size_t jwt_ring_count(const struct jwt_ring *ring)
{
    return ring->count;
}

/* HMAC-SHA256 of the label: a pseudo-random function of the key. */
enum fault jwt_ring_derive(const struct jwt_ring *ring, size_t n, struct slice label, uint8_t out[JWT_DERIVED_BYTES])
{
    assert(n < ring->count);
    char digest[] = "SHA256";
    const struct jwt_key *key = &ring->keys[n];
    size_t len = 0;
    unsigned char *made = EVP_Q_mac(NULL, "HMAC", NULL, digest, NULL, key->bytes, key->bytes_len,
                                    (const unsigned char *)label.data, label.len, out, JWT_DERIVED_BYTES, &len);
    if (made != NULL && len == JWT_DERIVED_BYTES) return FAULT_NONE;
    log_error("jwt", "OpenSSL gives no HMAC-SHA256");
    return FAULT_MEMORY;
}

enum fault jwt_mac_open(struct jwt_mac **out, const struct jwt_ring *ring)
{
    char digest[] = "SHA256";
    const OSSL_PARAM params[] = { OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0), OSSL_PARAM_END };
    EVP_MAC *hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    struct jwt_mac *mac = calloc(1, sizeof(*mac));

    *out = NULL;
    if (hmac == NULL || mac == NULL) goto fail;
    mac->ring = ring;
    for (size_t i = 0; i < ring->count; i++) {
        mac->contexts[i] = EVP_MAC_CTX_new(hmac);
        if (mac->contexts[i] == NULL) goto fail;
        if (EVP_MAC_init(mac->contexts[i], ring->keys[i].bytes, ring->keys[i].bytes_len, params) != 1) goto fail;
    }
    EVP_MAC_free(hmac);
    *out = mac;
    return FAULT_NONE;

fail:
    log_error("jwt", "OpenSSL gives no HMAC-SHA256");
    EVP_MAC_free(hmac);
    jwt_mac_close(mac);
    return FAULT_MEMORY;
}

void jwt_mac_close(struct jwt_mac *mac)
{
    if (mac == NULL) return;
    for (size_t i = 0; i < JWT_KEYS_MAX; i++) EVP_MAC_CTX_free(mac->contexts[i]);
    free(mac);
}

static bool mac_compute(struct jwt_mac *mac, size_t key, struct slice text, uint8_t out[MAC_BYTES])
{
    EVP_MAC_CTX *context = mac->contexts[key];
    size_t len = 0;

    return EVP_MAC_init(context, NULL, 0, NULL) == 1 &&
           EVP_MAC_update(context, (const unsigned char *)text.data, text.len) == 1 &&
           EVP_MAC_final(context, out, &len, MAC_BYTES) == 1 && len == MAC_BYTES;
}

/* The pieces between the values of a payload, in the order and spelling jwt_make() writes them. */
#define PAYLOAD_SUBJECT "{\"iss\":\"" JWT_ISSUER "\",\"aud\":\"" JWT_AUDIENCE "\",\"sub\":\""

static size_t payload_write(const struct jwt_claims *claims, char *out, size_t size)
{
    struct json_out json;
    char token_id[16];
    uint8_t bytes[8];

    for (size_t i = 0; i < 8; i++) bytes[i] = (uint8_t)(claims->token_id >> (56 - 8 * i));
    struct slice id = { token_id, hex_encode(token_id, bytes, sizeof(bytes)) };
    json_out_init(&json, out, size);
    json_object(&json);
    json_key(&json, "iss");
    json_text(&json, JWT_ISSUER);
    json_key(&json, "aud");
    json_text(&json, JWT_AUDIENCE);
    json_key(&json, "sub");
    json_text(&json, claims->subject);
    json_key(&json, "role");
    json_text(&json, claims->role);
    json_key(&json, "iat");
    json_u64(&json, claims->issued_s);
    json_key(&json, "nbf");
    json_u64(&json, claims->not_before_s);
    json_key(&json, "exp");
    json_u64(&json, claims->expires_s);
    json_key(&json, "jti");
    json_string(&json, id);
    if (claims->kind[0] != '\0') {
        json_key(&json, "username");
        json_text(&json, claims->subject);
        json_key(&json, "kind");
        json_text(&json, claims->kind);
    }
    json_object_end(&json);
    return json.overflow ? 0 : json.len;
}

size_t jwt_make(struct jwt_mac *mac, const struct jwt_claims *claims, char *out, size_t size)
{
    const struct jwt_key *key = &mac->ring->keys[0];
    char payload[PAYLOAD_BYTES_MAX];
    uint8_t signature[MAC_BYTES];

    size_t payload_len = payload_write(claims, payload, sizeof(payload));
    size_t payload_text_len = (payload_len * 4 + 2) / 3;
    size_t need = key->header_len + payload_text_len + 1 + MAC_TEXT_BYTES;
    if (payload_len == 0 || need > size || need > TOKEN_BYTES_MAX) return 0;

    memcpy(out, key->header, key->header_len);
    size_t len = key->header_len + base64url_encode(out + key->header_len, (const uint8_t *)payload, payload_len);
    bool signed_well = mac_compute(mac, 0, (struct slice){ out, len }, signature);
    assert(signed_well);
    out[len++] = '.';
    len += base64url_encode(out + len, signature, sizeof(signature));
    assert(len == need);
    return len;
}

/* A reader of the short way: each step eats what it expects, or the whole way is given up for the long one. */
struct cursor {
    const char *at, *end;
};

static bool eat(struct cursor *cursor, struct slice expected)
{
    if ((size_t)(cursor->end - cursor->at) < expected.len) return false;
    if (memcmp(cursor->at, expected.data, expected.len) != 0) return false;
    cursor->at += expected.len;
    return true;
}

/* A string up to its closing quote, without escapes and control characters. */
static bool eat_string(struct cursor *cursor, char *out, size_t max)
{
    const char *from = cursor->at;
    bool ascii = true;
    while (cursor->at < cursor->end && *cursor->at != '"') {
        unsigned char byte = (unsigned char)*cursor->at++;
        if (byte < 0x20 || byte == 0x7f || byte == '\\') return false;
        if (byte >= 0x80) ascii = false;
    }
    size_t len = (size_t)(cursor->at - from);
    if (len == 0 || len > max || !(ascii || utf8_valid((struct slice){ from, len }))) return false;
    memcpy(out, from, len);
    out[len] = '\0';
    return true;
}

static bool eat_number(struct cursor *cursor, uint64_t *out)
{
    const char *from = cursor->at;
    uint64_t value = 0;
    while (cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9') {
        if (cursor->at - from == 18) return false;
        value = value * 10 + (uint64_t)(*cursor->at++ - '0');
    }
    *out = value;
    return cursor->at > from && (*from != '0' || cursor->at == from + 1);
}

static bool eat_token_id(struct cursor *cursor, uint64_t *out)
{
    uint64_t value = 0;
    if (cursor->end - cursor->at < 16) return false;
    for (size_t i = 0; i < 16; i++) {
        char byte = *cursor->at++;
        bool letter = byte >= 'a' && byte <= 'f';
        if (!letter && !(byte >= '0' && byte <= '9')) return false;
        value = value << 4 | (uint64_t)(letter ? byte - 'a' + 10 : byte - '0');
    }
    *out = value;
    return true;
}

/* What the tokens of doors have more. Their username is the subject again, of which one is enough. */
static bool eat_kind(struct cursor *cursor, struct jwt_claims *out)
{
    char username[sizeof(out->subject)];
    out->kind[0] = '\0';
    if (eat(cursor, SLICE("\"}"))) return true;
    return eat(cursor, SLICE("\",\"username\":\"")) && eat_string(cursor, username, sizeof(username) - 1) &&
           strcmp(username, out->subject) == 0 && eat(cursor, SLICE("\",\"kind\":\"")) &&
           eat_string(cursor, out->kind, sizeof(out->kind) - 1) && eat(cursor, SLICE("\"}"));
}

static bool payload_read_short(struct slice payload, struct jwt_claims *out)
{
    struct cursor cursor = { payload.data, payload.data + payload.len };

    return eat(&cursor, SLICE(PAYLOAD_SUBJECT)) && eat_string(&cursor, out->subject, sizeof(out->subject) - 1) &&
           eat(&cursor, SLICE("\",\"role\":\"")) && eat_string(&cursor, out->role, sizeof(out->role) - 1) &&
           eat(&cursor, SLICE("\",\"iat\":")) && eat_number(&cursor, &out->issued_s) && eat(&cursor, SLICE(",\"nbf\":")) &&
           eat_number(&cursor, &out->not_before_s) && eat(&cursor, SLICE(",\"exp\":")) &&
           eat_number(&cursor, &out->expires_s) && eat(&cursor, SLICE(",\"jti\":\"")) &&
           eat_token_id(&cursor, &out->token_id) && eat_kind(&cursor, out) && cursor.at == cursor.end;
}

/* Which key the header names, or the ring's count. A header spelt as jwt_make() spells it is found by its bytes. */
static size_t key_of_header(const struct jwt_ring *ring, struct slice token, size_t header_len)
{
    for (size_t i = 0; i < ring->count; i++) {
        const struct jwt_key *key = &ring->keys[i];
        if (key->header_len == header_len + 1 && memcmp(key->header, token.data, header_len) == 0) return i;
    }
    uint8_t text[PAYLOAD_BYTES_MAX];
    char kid[JWT_KID_BYTES_MAX + 1];
    size_t len;
    if (!base64url_decode(text, sizeof(text), (struct slice){ token.data, header_len }, &len)) return ring->count;
    if (!jwt_header_read((struct slice){ (const char *)text, len }, kid)) return ring->count;
    for (size_t i = 0; i < ring->count; i++)
        if (strcmp(ring->keys[i].kid, kid) == 0) return i;
    return ring->count;
}

bool jwt_begins_like_ours(const struct jwt_mac *mac, struct slice token)
{
    for (size_t i = 0; i < mac->ring->count; i++) {
        const struct jwt_key *key = &mac->ring->keys[i];
        if (token.len >= key->header_len && memcmp(key->header, token.data, key->header_len) == 0) return true;
    }
    return false;
}

enum jwt_check jwt_check(struct jwt_mac *mac, struct slice token, uint64_t now_s, struct jwt_claims *out)
{
    uint8_t given[MAC_BYTES], right[MAC_BYTES], payload[PAYLOAD_BYTES_MAX];
    size_t len;

    if (token.len > TOKEN_BYTES_MAX || token.len < MAC_TEXT_BYTES + 3) return JWT_BAD;
    size_t signed_len = token.len - MAC_TEXT_BYTES - 1;
    const char *dot = memchr(token.data, '.', signed_len);
    if (dot == NULL || token.data[signed_len] != '.') return JWT_BAD;
    size_t key = key_of_header(mac->ring, token, (size_t)(dot - token.data));
    if (key == mac->ring->count) return JWT_BAD;

    struct slice signature = { token.data + signed_len + 1, MAC_TEXT_BYTES };
    if (!base64url_decode(given, sizeof(given), signature, &len) || len != MAC_BYTES) return JWT_BAD;
    if (!mac_compute(mac, key, (struct slice){ token.data, signed_len }, right)) return JWT_BAD;
    if (CRYPTO_memcmp(given, right, MAC_BYTES) != 0) return JWT_BAD;

    struct slice encoded = { dot + 1, signed_len - (size_t)(dot + 1 - token.data) };
    if (!base64url_decode(payload, sizeof(payload), encoded, &len)) return JWT_BAD;
    struct slice text = { (const char *)payload, len };
    if (!payload_read_short(text, out) && !jwt_claims_read(text, out)) return JWT_BAD;
    if (out->not_before_s > now_s + LEEWAY_S || out->issued_s > now_s + LEEWAY_S) return JWT_BAD;
    return out->expires_s > now_s ? JWT_GOOD : JWT_EXPIRED;
}
