#include "wire/signature.h"

#include "base/random.h"
#include "base/text.h"

#include <assert.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <string.h>

#define SECRET_PREFIX "whsec_"
#define SECRET_PREFIX_BYTES (sizeof(SECRET_PREFIX) - 1)
#define SECRET_NEW_BYTES 32
#define SIGNATURE_PREFIX "v1,"
#define SIGNATURE_PREFIX_BYTES (sizeof(SIGNATURE_PREFIX) - 1)
#define MAC_BYTES 32
#define PADDING_BYTES_MAX 2

/* The other alphabet of base64, with or without padding, by way of the one that base/text.h reads strictly. */
static bool base64_decode(struct slice text, uint8_t *out, size_t out_max, size_t *len)
{
    char url[SIGNATURE_SECRET_TEXT_BYTES];
    size_t digits = text.len;
    while (digits > 0 && text.len - digits < PADDING_BYTES_MAX && text.data[digits - 1] == '=') digits--;
    if (digits > sizeof(url) || (digits < text.len && text.len % 4 != 0)) return false;
    for (size_t i = 0; i < digits; i++) {
        char digit = text.data[i];
        if (digit == '-' || digit == '_') return false;
        url[i] = digit == '+' ? '-' : digit == '/' ? '_' : digit;
    }
    bool good = base64url_decode(out, out_max, (struct slice){ url, digits }, len);
    OPENSSL_cleanse(url, sizeof(url));
    return good;
}

bool signature_secret_parse(struct slice text, struct signature_secret *out)
{
    size_t len = 0;
    *out = (struct signature_secret){ .len = 0 };
    if (text.len < SECRET_PREFIX_BYTES || memcmp(text.data, SECRET_PREFIX, SECRET_PREFIX_BYTES) != 0) return false;
    struct slice base64 = { text.data + SECRET_PREFIX_BYTES, text.len - SECRET_PREFIX_BYTES };
    if (base64_decode(base64, out->bytes, sizeof(out->bytes), &len) && len >= SIGNATURE_SECRET_BYTES_MIN) {
        out->len = (uint8_t)len;
        return true;
    }
    OPENSSL_cleanse(out, sizeof(*out));
    return false;
}

void signature_secret_make(char out[SIGNATURE_SECRET_TEXT_BYTES + 1])
{
    uint8_t bytes[SECRET_NEW_BYTES];
    random_bytes(bytes, sizeof(bytes));
    memcpy(out, SECRET_PREFIX, SECRET_PREFIX_BYTES);
    EVP_EncodeBlock((unsigned char *)out + SECRET_PREFIX_BYTES, bytes, sizeof(bytes)); /* ends it with a NUL */
    OPENSSL_cleanse(bytes, sizeof(bytes));
}

bool signature_id_good(struct slice id)
{
    for (size_t i = 0; i < id.len; i++) {
        if (id.data[i] <= ' ' || id.data[i] > '~' || id.data[i] == '.') return false;
    }
    return id.len > 0 && id.len <= SIGNATURE_ID_BYTES_MAX;
}

static bool update(EVP_MAC_CTX *context, struct slice part)
{
    return EVP_MAC_update(context, (const unsigned char *)part.data, part.len) == 1;
}

static bool message_mac(const struct signature_secret *secret, const struct signed_message *message, uint8_t out[MAC_BYTES])
{
    char digest[] = "SHA256", digits[20];
    const OSSL_PARAM params[] = { OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0), OSSL_PARAM_END };
    struct slice timestamp = { digits, text_from_u64(digits, message->timestamp_s) };
    size_t len = 0;
    EVP_MAC *hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    EVP_MAC_CTX *context = hmac != NULL ? EVP_MAC_CTX_new(hmac) : NULL;
    bool made = context != NULL && EVP_MAC_init(context, secret->bytes, secret->len, params) == 1 &&
                update(context, message->id) && update(context, SLICE(".")) && update(context, timestamp) &&
                update(context, SLICE(".")) && update(context, message->body) &&
                EVP_MAC_final(context, out, &len, MAC_BYTES) == 1 && len == MAC_BYTES;
    EVP_MAC_CTX_free(context);
    EVP_MAC_free(hmac);
    return made;
}

void signature_make(const struct signature_secret *secret, const struct signed_message *message,
                    char out[SIGNATURE_TEXT_BYTES + 1])
{
    uint8_t mac[MAC_BYTES];
    bool made = message_mac(secret, message, mac);
    assert(made); /* OpenSSL without SHA-256 or without memory: nothing here works then */
    memcpy(out, SIGNATURE_PREFIX, SIGNATURE_PREFIX_BYTES);
    EVP_EncodeBlock((unsigned char *)out + SIGNATURE_PREFIX_BYTES, mac, sizeof(mac));
}

/* Whether one of the words of header is exactly text. */
static bool header_has(struct slice header, const char text[SIGNATURE_TEXT_BYTES])
{
    bool found = false;
    for (size_t at = 0; at < header.len;) {
        const char *from = header.data + at;
        const char *space = memchr(from, ' ', header.len - at);
        size_t len = space != NULL ? (size_t)(space - from) : header.len - at;
        if (len == SIGNATURE_TEXT_BYTES && CRYPTO_memcmp(from, text, SIGNATURE_TEXT_BYTES) == 0) found = true;
        at += len + 1;
    }
    return found;
}

bool signature_fits(const struct signature_secret *secrets, size_t count, const struct signed_message *message,
                    struct slice header)
{
    char text[SIGNATURE_TEXT_BYTES + 1];
    if (header.len < SIGNATURE_TEXT_BYTES) return false; /* nothing in it can fit: spares us the work */
    for (size_t i = 0; i < count; i++) {
        signature_make(&secrets[i], message, text);
        if (header_has(header, text)) return true;
    }
    return false;
}

enum signature_age signature_age(uint64_t timestamp_s, uint64_t now_s, uint32_t tolerance_s)
{
    if (timestamp_s < now_s && now_s - timestamp_s > tolerance_s) return SIGNATURE_TOO_OLD;
    if (timestamp_s > now_s && timestamp_s - now_s > tolerance_s) return SIGNATURE_TOO_NEW;
    return SIGNATURE_TIMELY;
}
