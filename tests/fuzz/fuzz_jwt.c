/* Two ways in, chosen by the first byte. 'T': the rest is a token as a stranger would send it. Otherwise the rest is a
 * payload that gets our own header and a right signature; with a space after it the payload means the same but must take the
 * long way, so both ways have to come to the same end. */
#include "base/text.h"
#include "wire/jwt.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>

#define MUST(condition)                                                                                                     \
    do {                                                                                                                    \
        if (!(condition)) abort();                                                                                          \
    } while (0)

#define NOW UINT64_C(1700000000)
#define HEADER "{\"alg\":\"HS256\",\"typ\":\"JWT\",\"kid\":\"k1\"}"

static const char key_bytes[32] = "0123456789abcdef0123456789abcde";

static struct jwt_mac *mac;

static void set_up(void)
{
    char line[3 + 64], objection[256];
    struct jwt_ring *ring;
    memcpy(line, "k1 ", 3);
    hex_encode(line + 3, (const uint8_t *)key_bytes, sizeof(key_bytes));
    MUST(jwt_ring_open(&ring, (struct slice){ line, sizeof(line) }, objection) == FAULT_NONE);
    MUST(jwt_mac_open(&mac, ring) == FAULT_NONE);
}

static enum jwt_check check_signed(const uint8_t *payload, size_t len, struct jwt_claims *claims)
{
    char token[2048];
    unsigned char signature[32];
    unsigned signature_len = 0;
    size_t at = base64url_encode(token, (const uint8_t *)HEADER, sizeof(HEADER) - 1);
    token[at++] = '.';
    at += base64url_encode(token + at, payload, len);
    HMAC(EVP_sha256(), key_bytes, sizeof(key_bytes), (const unsigned char *)token, at, signature, &signature_len);
    token[at++] = '.';
    at += base64url_encode(token + at, signature, signature_len);
    return jwt_check(mac, (struct slice){ token, at }, NOW, claims);
}

static void claims_check(const struct jwt_claims *claims)
{
    struct slice subject = slice_of(claims->subject);
    MUST(subject.len > 0 && subject.len <= BUYER_BYTES_MAX && utf8_valid(subject) && !text_has_control(subject));
    MUST(claims->role[0] != '\0' && claims->not_before_s <= NOW + 5);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct jwt_claims shorter = { 0 }, longer = { 0 };

    if (mac == NULL) set_up();
    if (size == 0) return 0;
    if (data[0] == 'T') {
        struct slice token = { (const char *)data + 1, size - 1 };
        if (jwt_check(mac, token, NOW, &shorter) != JWT_BAD) claims_check(&shorter);
        return 0;
    }
    /* So short that the token is within its limit also with the space. */
    if (size > 600) return 0;
    uint8_t payload[600];
    memcpy(payload, data + 1, size - 1);
    payload[size - 1] = ' ';
    enum jwt_check short_way = check_signed(payload, size - 1, &shorter);
    enum jwt_check long_way = check_signed(payload, size, &longer);
    MUST(short_way == long_way);
    if (short_way == JWT_BAD) return 0;
    claims_check(&shorter);
    MUST(strcmp(shorter.subject, longer.subject) == 0 && strcmp(shorter.role, longer.role) == 0);
    MUST(shorter.token_id == longer.token_id && shorter.issued_s == longer.issued_s);
    MUST(shorter.not_before_s == longer.not_before_s && shorter.expires_s == longer.expires_s);
    return 0;
}
