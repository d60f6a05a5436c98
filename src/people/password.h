/* password: argon2id with the figures of promises.md. About 40 ms and 19 MiB a call: workers only. */
#ifndef STAMPEDE_PEOPLE_PASSWORD_H
#define STAMPEDE_PEOPLE_PASSWORD_H

#include <stdbool.h>

#define PASSWORD_HASH_BYTES 160

/* Encoded, with a salt of its own. False when the system has no memory for it; that has been logged. */
bool password_hash(const char *password, char out[PASSWORD_HASH_BYTES]);
bool password_matches(const char *hash, const char *password);

#endif
