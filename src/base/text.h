/* text: strict numbers, encodings and times. Every function says no to what it does not wholly understand. */
#ifndef STAMPEDE_BASE_TEXT_H
#define STAMPEDE_BASE_TEXT_H

#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Digits only: no sign, no space, no leading zero but "0" itself. */
bool text_to_u64(struct slice text, uint64_t *out);
size_t text_digits(uint64_t value);                 /* how many it has */
size_t text_from_u64(char out[20], uint64_t value); /* length; no NUL */

bool utf8_valid(struct slice text);        /* no surrogates, no overlong forms */
size_t utf8_chars(struct slice text);      /* of valid UTF-8 */
bool text_has_control(struct slice text);  /* a byte below 0x20, or 0x7f */
bool text_is_printable(struct slice text); /* valid UTF-8 without a control character */
struct slice text_trim(struct slice text); /* without the spaces, tabs and carriage returns at its ends */

size_t hex_encode(char *out, const uint8_t *data, size_t len);       /* 2 x len bytes */
bool hex_decode(uint8_t *out, struct slice text);                    /* text.len / 2 bytes; lower or upper case */
size_t base64url_encode(char *out, const uint8_t *data, size_t len); /* no padding; 4/3 x len + 2 bytes at most */
/* What is refused may already have written to out, never beyond out_max. */
bool base64url_decode(uint8_t *out, size_t out_max, struct slice text, size_t *len); /* no padding; canonical tail bits */

#define TIME_TEXT_BYTES 24 /* 2026-01-31T12:00:00.000Z */
void time_to_text(char out[TIME_TEXT_BYTES + 1], uint64_t ms);
/* RFC 3339 with Z or an offset, 0 to 9 digits of fraction (beyond milliseconds cut off), no leap second; instants of the
 * years 1970 to 9999 in UTC. Implemented, as time_to_text() is, in time_text.c. */
bool time_from_text(struct slice text, uint64_t *ms);

#endif
