#include "people/payment_keys.h"

#include "base/log.h"
#include "base/secret_file.h"
#include "base/text.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES_MAX 4096

struct secrets {
    struct signature_secret rows[PAYMENT_KEYS_MAX];
    size_t count;
};

struct payment_keys {
    char path[PATH_BYTES_MAX]; /* empty: they came from the environment, and stay */
    pthread_rwlock_t lock;     /* of secrets; written for the moment of a copy */
    struct secrets secrets;
};

/* NULL, or what is wrong with the line. Never what the line says: it is a secret. */
static const char *secrets_add(struct secrets *secrets, struct slice line)
{
    if (secrets->count == PAYMENT_KEYS_MAX) return "there are more than 8 secrets";
    if (!signature_secret_parse(line, &secrets->rows[secrets->count]))
        return "a secret is whsec_ and 24 to 64 bytes in base64";
    secrets->count++;
    return NULL;
}

static enum fault secrets_read(struct secrets *out, struct slice text, const char *where)
{
    const char *wrong = NULL;
    unsigned number = 0;
    *out = (struct secrets){ .count = 0 };
    for (size_t at = 0; at < text.len && wrong == NULL; number++) {
        const char *from = text.data + at;
        const char *newline = memchr(from, '\n', text.len - at);
        size_t len = newline != NULL ? (size_t)(newline - from) : text.len - at;
        struct slice line = text_trim((struct slice){ from, len });
        if (line.len > 0 && line.data[0] != '#') wrong = secrets_add(out, line);
        at += len + 1;
    }
    if (wrong == NULL && out->count > 0) return FAULT_NONE;
    if (wrong != NULL) {
        log_error("people", "payment secrets in %s cannot be used: line %u: %s", where, number, wrong);
    } else {
        log_error("people", "payment secrets in %s cannot be used: there is none", where);
    }
    OPENSSL_cleanse(out, sizeof(*out));
    return FAULT_CONFIG;
}

static size_t first_secret(char *out, size_t size)
{
    char secret[SIGNATURE_SECRET_TEXT_BYTES + 1];
    signature_secret_make(secret);
    int len = snprintf(
        out, size,
        "# Secrets that the payment provider signs with (Standard Webhooks), one a line; all of them count:\n"
        "# to rotate, add a line, send SIGHUP, tell the provider, and remove the old one when it is not used.\n"
        "%s\n",
        secret);
    OPENSSL_cleanse(secret, sizeof(secret));
    return (size_t)len;
}

static enum fault file_load(struct secrets *out, const struct secret_file *file)
{
    struct slice text;
    enum fault fault = secret_file_read(file, &text);
    if (fault != FAULT_NONE) return fault;
    fault = secrets_read(out, text, file->path);
    secret_file_release(text);
    return fault;
}

enum fault payment_keys_open(struct payment_keys **out, const char *path, struct slice env)
{
    *out = NULL;
    struct payment_keys *keys = calloc(1, sizeof(*keys));
    if (keys == NULL) return FAULT_MEMORY;
    pthread_rwlock_init(&keys->lock, NULL);
    enum fault fault = FAULT_NONE;
    if (env.len > 0) {
        fault = secrets_read(&keys->secrets, env, "the environment");
    } else {
        snprintf(keys->path, sizeof(keys->path), "%s", path);
        const struct secret_file file = {
            .room = "people", .path = keys->path, .what = "payment secrets", .first = first_secret
        };
        fault = file_load(&keys->secrets, &file);
    }
    if (fault != FAULT_NONE) {
        payment_keys_close(keys);
        return fault;
    }
    *out = keys;
    return FAULT_NONE;
}

void payment_keys_close(struct payment_keys *keys)
{
    if (keys == NULL) return;
    pthread_rwlock_destroy(&keys->lock);
    OPENSSL_cleanse(&keys->secrets, sizeof(keys->secrets));
    free(keys);
}

void payment_keys_reload(struct payment_keys *keys)
{
    struct secrets fresh;
    const struct secret_file file = { .room = "people", .path = keys->path, .what = "payment secrets" };
    if (keys->path[0] == '\0') return;
    if (file_load(&fresh, &file) != FAULT_NONE) {
        log_error("people", "the payment secrets stay as they were");
        return;
    }
    pthread_rwlock_wrlock(&keys->lock);
    keys->secrets = fresh;
    pthread_rwlock_unlock(&keys->lock);
    OPENSSL_cleanse(&fresh, sizeof(fresh));
}

bool payment_keys_fit(struct payment_keys *keys, const struct signed_message *message, struct slice header)
{
    pthread_rwlock_rdlock(&keys->lock);
    bool fits = signature_fits(keys->secrets.rows, keys->secrets.count, message, header);
    pthread_rwlock_unlock(&keys->lock);
    return fits;
}

/* No full stop is in what is signed here, and several in every payment: no signature of one. */
size_t payment_keys_fingerprints(struct payment_keys *keys, uint8_t out[PAYMENT_KEYS_MAX][PAYMENT_FINGERPRINT_BYTES])
{
    static const unsigned char label[] = "fingerprint of a payment secret";
    unsigned char mac[EVP_MAX_MD_SIZE] = { 0 };
    pthread_rwlock_rdlock(&keys->lock);
    size_t count = keys->secrets.count;
    for (size_t i = 0; i < count; i++) {
        const struct signature_secret *secret = &keys->secrets.rows[i];
        HMAC(EVP_sha256(), secret->bytes, secret->len, label, sizeof(label) - 1, mac, NULL);
        memcpy(out[i], mac, PAYMENT_FINGERPRINT_BYTES);
    }
    pthread_rwlock_unlock(&keys->lock);
    return count;
}
