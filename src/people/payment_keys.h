/* payment_keys: the secrets that the payment provider signs with, from the environment or from a file that only its owner
 * may read. One "whsec_…" a line; all of them count, so that they can be replaced without losing a payment. */
#ifndef STAMPEDE_PEOPLE_PAYMENT_KEYS_H
#define STAMPEDE_PEOPLE_PAYMENT_KEYS_H

#include "base/fault.h"
#include "wire/signature.h"

#define PAYMENT_KEYS_MAX 8

struct payment_keys;

/* env not empty: the secrets are those, and no file is looked at. Else path; a missing file is made with one random secret.
 * FAULT_CONFIG has been logged, with the number of the line and never what it says. */
enum fault payment_keys_open(struct payment_keys **out, const char *path, struct slice env) MUST_USE;
void payment_keys_close(struct payment_keys *keys); /* NULL is fine */
/* SIGHUP: reads the file again. What cannot be used is logged and changes nothing. Main thread. */
void payment_keys_reload(struct payment_keys *keys);
/* Whether the message was signed with one of them. Any thread. */
bool payment_keys_fit(struct payment_keys *keys, const struct signed_message *message, struct slice header);
/* Of each secret something that tells nothing of it and is the same on every node that has it; how many. Any thread. */
#define PAYMENT_FINGERPRINT_BYTES 16
size_t payment_keys_fingerprints(struct payment_keys *keys, uint8_t out[PAYMENT_KEYS_MAX][PAYMENT_FINGERPRINT_BYTES]);

#endif
