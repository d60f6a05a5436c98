/* signature: messages signed in the form of Standard Webhooks, for payments that reach us and webhooks that leave us.
 *
 * Signed is "ID.TIMESTAMP.BODY", with HMAC-SHA256; the header webhook-signature has one or more "v1,BASE64" separated by
 * spaces, webhook-id the id, webhook-timestamp whole seconds since 1970. A secret is text: "whsec_" and base64 of its bytes.
 * Secrets rotate by being several: a message is good when any of its signatures fits any of our secrets. */
#ifndef STAMPEDE_WIRE_SIGNATURE_H
#define STAMPEDE_WIRE_SIGNATURE_H

#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIGNATURE_SECRET_BYTES_MIN 24
#define SIGNATURE_SECRET_BYTES_MAX 64
#define SIGNATURE_SECRET_TEXT_BYTES (6 + 88) /* "whsec_" and the base64 of the longest */
#define SIGNATURE_TEXT_BYTES (3 + 44)        /* "v1," and 44 characters */
#define SIGNATURE_ID_BYTES_MAX 128

struct signature_secret {
    uint8_t bytes[SIGNATURE_SECRET_BYTES_MAX];
    uint8_t len;
};

struct signed_message {
    struct slice id;
    uint64_t timestamp_s;
    struct slice body;
};

/* "whsec_…" as bytes; false: not that, or too short or long. The padding of the base64 may be left out. */
bool signature_secret_parse(struct slice text, struct signature_secret *out);
/* A new secret of 32 random bytes as text, NUL-terminated. */
void signature_secret_make(char out[SIGNATURE_SECRET_TEXT_BYTES + 1]);
/* What may stand for an id: 1 to SIGNATURE_ID_BYTES_MAX printable bytes of ASCII, and no full stop, which would let a signed
 * message be read as another one by moving the border between its parts. */
bool signature_id_good(struct slice id);

/* "v1,…", NUL-terminated. Any thread. */
void signature_make(const struct signature_secret *secret, const struct signed_message *message,
                    char out[SIGNATURE_TEXT_BYTES + 1]);
/* header: the text of webhook-signature. Whether any of it fits any secret; what is not a "v1," in the form that
 * signature_make() writes is passed over. Compares in constant time. Any thread. */
bool signature_fits(const struct signature_secret *secrets, size_t count, const struct signed_message *message,
                    struct slice header);

enum signature_age { SIGNATURE_TIMELY, SIGNATURE_TOO_OLD, SIGNATURE_TOO_NEW };
/* Timely: within tolerance_s of now_s either way. */
enum signature_age signature_age(uint64_t timestamp_s, uint64_t now_s, uint32_t tolerance_s);

#endif
