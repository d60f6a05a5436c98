#include "people/password.h"

#include "base/log.h"
#include "base/random.h"

#include <argon2.h>
#include <stdint.h>
#include <string.h>

#define MEMORY_KIB 19456
#define PASSES 2
#define LANES 1
#define SALT_BYTES 16
#define HASH_BYTES 32

bool password_hash(const char *password, char out[PASSWORD_HASH_BYTES])
{
    uint8_t salt[SALT_BYTES];
    random_bytes(salt, sizeof(salt));
    int rc = argon2id_hash_encoded(PASSES, MEMORY_KIB, LANES, password, strlen(password), salt, sizeof(salt), HASH_BYTES,
                                   out, PASSWORD_HASH_BYTES);
    if (rc == ARGON2_OK) return true;
    log_error("people", "hashing a password failed: %s", argon2_error_message(rc));
    return false;
}

bool password_matches(const char *hash, const char *password)
{
    int rc = argon2id_verify(hash, password, strlen(password));
    if (rc != ARGON2_OK && rc != ARGON2_VERIFY_MISMATCH)
        log_error("people", "checking a password failed: %s", argon2_error_message(rc));
    return rc == ARGON2_OK;
}
