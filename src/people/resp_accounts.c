#include "people/resp_accounts.h"

#include "base/log.h"
#include "base/text.h"
#include "people/people.h"
#include "people/secret_file.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES_MAX 4096

/* The one account where there is no file. */
static const char account_alone[] = "default";

struct resp_accounts {
    char path[PATH_BYTES_MAX]; /* empty: no passwords */
    pthread_mutex_t lock;      /* of the rows */
    struct resp_account rows[RESP_ACCOUNTS_MAX];
    size_t count;
};

/* One line of the file. */
struct entry {
    struct slice name;
    uint8_t digest[SHA256_DIGEST_LENGTH];
};

struct entries {
    struct entry rows[RESP_ACCOUNTS_MAX];
    size_t count;
};

static struct resp_account *account_find(struct resp_accounts *accounts, struct slice name)
{
    for (size_t i = 0; i < accounts->count; i++) {
        if (slice_is(name, accounts->rows[i].name)) return &accounts->rows[i];
    }
    return NULL;
}

/* Buyers are called ACCOUNT:USER, and sales that ask for no login make up names that begin like this. */
static bool name_is_kept(struct slice name)
{
    return slice_is(name, "claim") || slice_is(name, "key") || slice_is(name, "cut");
}

static const char *name_objection(struct slice name)
{
    if (name.len > RESP_ACCOUNT_BYTES_MAX) return "an account has at most 24 bytes";
    if (name_is_kept(name)) return "claim, key and cut are no names for an account";
    return people_username_objection(name);
}

/* NULL, or what is wrong with the line. Never what the line says: it holds a secret. */
static const char *entries_add(struct entries *entries, struct slice line)
{
    size_t name_len = 0;
    while (name_len < line.len && line.data[name_len] != ' ' && line.data[name_len] != '\t') name_len++;
    struct slice name = { line.data, name_len };
    struct slice password = text_trim((struct slice){ line.data + name_len, line.len - name_len });
    const char *objection = name_objection(name);
    if (objection != NULL) return objection;
    if (password.len < RESP_PASSWORD_BYTES_MIN || password.len > RESP_PASSWORD_BYTES_MAX)
        return "a line is an account, a space and a password of 16 to 256 bytes";
    if (memchr(password.data, ' ', password.len) != NULL) return "a password has no spaces";
    for (size_t i = 0; i < entries->count; i++) {
        if (slice_equal(entries->rows[i].name, name)) return "the account has a line already";
    }
    if (entries->count == RESP_ACCOUNTS_MAX) return "there are more than 64 accounts";
    struct entry *entry = &entries->rows[entries->count++];
    entry->name = name;
    SHA256((const unsigned char *)password.data, password.len, entry->digest);
    return NULL;
}

static enum fault entries_read(struct entries *out, struct slice text, const char *where)
{
    const char *wrong = NULL;
    unsigned number = 0;
    out->count = 0;
    for (size_t at = 0; at < text.len && wrong == NULL; number++) {
        const char *from = text.data + at;
        const char *newline = memchr(from, '\n', text.len - at);
        size_t len = newline != NULL ? (size_t)(newline - from) : text.len - at;
        struct slice line = text_trim((struct slice){ from, len });
        if (line.len > 0 && line.data[0] != '#') wrong = entries_add(out, line);
        at += len + 1;
    }
    if (wrong == NULL && out->count > 0) return FAULT_NONE;
    if (wrong != NULL) {
        log_error("people", "RESP accounts in %s cannot be used: line %u: %s", where, number, wrong);
    } else {
        log_error("people", "RESP accounts in %s cannot be used: there is none; write lines of ACCOUNT PASSWORD", where);
    }
    return FAULT_CONFIG;
}

/* Under the lock. False: more names than there are rows. */
static bool entries_take(struct resp_accounts *accounts, const struct entries *entries)
{
    size_t fresh = 0;
    for (size_t i = 0; i < entries->count; i++) fresh += account_find(accounts, entries->rows[i].name) == NULL;
    if (fresh > RESP_ACCOUNTS_MAX - accounts->count) return false;
    for (size_t i = 0; i < accounts->count; i++) atomic_store(&accounts->rows[i].gone, true);
    for (size_t i = 0; i < entries->count; i++) {
        struct slice name = entries->rows[i].name;
        struct resp_account *account = account_find(accounts, name);
        if (account == NULL) {
            account = &accounts->rows[accounts->count++];
            memcpy(account->name, name.data, name.len);
            account->name_len = (uint8_t)name.len;
        }
        memcpy(account->digest, entries->rows[i].digest, sizeof account->digest);
        atomic_store(&account->gone, false);
    }
    return true;
}

static enum fault file_load(struct resp_accounts *accounts)
{
    const struct secret_file file = { .path = accounts->path, .what = "passwords of RESP accounts" };
    struct slice text;
    enum fault fault = secret_file_read(&file, &text);
    if (fault != FAULT_NONE) return fault;
    struct entries entries;
    fault = entries_read(&entries, text, accounts->path);
    if (fault == FAULT_NONE) {
        pthread_mutex_lock(&accounts->lock);
        bool taken = entries_take(accounts, &entries);
        pthread_mutex_unlock(&accounts->lock);
        if (!taken) {
            log_error("people", "more than 64 RESP accounts have been named since the start: restart to take others");
            fault = FAULT_SPACE;
        }
    }
    OPENSSL_cleanse(&entries, sizeof entries);
    secret_file_release(text);
    return fault;
}

enum fault resp_accounts_open(struct resp_accounts **out, const char *path)
{
    *out = NULL;
    struct resp_accounts *accounts = calloc(1, sizeof *accounts);
    if (accounts == NULL) return FAULT_MEMORY;
    pthread_mutex_init(&accounts->lock, NULL);
    snprintf(accounts->path, sizeof accounts->path, "%s", path);
    enum fault fault = FAULT_NONE;
    if (path[0] != '\0') {
        fault = file_load(accounts);
    } else {
        const struct entries alone = { .rows = { { .name = slice_of(account_alone) } }, .count = 1 };
        entries_take(accounts, &alone);
    }
    if (fault != FAULT_NONE) {
        resp_accounts_close(accounts);
        return fault;
    }
    *out = accounts;
    return FAULT_NONE;
}

void resp_accounts_close(struct resp_accounts *accounts)
{
    if (accounts == NULL) return;
    pthread_mutex_destroy(&accounts->lock);
    OPENSSL_cleanse(accounts, sizeof *accounts);
    free(accounts);
}

void resp_accounts_reload(struct resp_accounts *accounts)
{
    if (accounts->path[0] == '\0') return;
    if (file_load(accounts) != FAULT_NONE) log_error("people", "the RESP accounts stay as they were");
}

const struct resp_account *resp_accounts_unasked(const struct resp_accounts *accounts)
{
    return accounts->path[0] == '\0' ? &accounts->rows[0] : NULL;
}

const struct resp_account *resp_accounts_check(struct resp_accounts *accounts, struct slice name, struct slice password)
{
    static const uint8_t nobody[SHA256_DIGEST_LENGTH];
    if (accounts->path[0] == '\0') return slice_is(name, accounts->rows[0].name) ? &accounts->rows[0] : NULL;
    uint8_t digest[SHA256_DIGEST_LENGTH];
    SHA256((const unsigned char *)password.data, password.len, digest);
    pthread_mutex_lock(&accounts->lock);
    const struct resp_account *account = account_find(accounts, name);
    if (account != NULL && atomic_load(&account->gone)) account = NULL;
    if (CRYPTO_memcmp(digest, account != NULL ? account->digest : nobody, sizeof digest) != 0) account = NULL;
    pthread_mutex_unlock(&accounts->lock);
    OPENSSL_cleanse(digest, sizeof digest);
    return account;
}

bool resp_accounts_have(struct resp_accounts *accounts, struct slice name)
{
    if (slice_is(name, account_alone)) return true; /* it comes back as soon as there is no file */
    if (accounts == NULL) return false;
    pthread_mutex_lock(&accounts->lock);
    bool have = account_find(accounts, name) != NULL;
    pthread_mutex_unlock(&accounts->lock);
    return have;
}
