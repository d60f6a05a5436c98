#include "people/resp_accounts.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/secret_file.h"
#include "base/text.h"
#include "people/people.h"

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
    struct ledger_place place;
    char provider[BUYER_BYTES_MAX + 1]; /* what its buyers' names have before their first colon; empty: there is none */
    pthread_mutex_t lock;               /* of the rows */
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

static const char *name_objection(const struct resp_accounts *accounts, struct slice name)
{
    if (name.len > RESP_ACCOUNT_BYTES_MAX) return "an account has at most 24 bytes";
    if (name_is_kept(name)) return "claim, key and cut are no names for an account";
    if (name.len > 0 && slice_is(name, accounts->provider)) return "buyers of identity_issuer are called like the account";
    return people_username_objection(name);
}

/* NULL, or what is wrong with the line. Never what the line says: it holds a secret. */
static const char *entries_add(const struct resp_accounts *accounts, struct entries *entries, struct slice line)
{
    size_t name_len = 0;
    while (name_len < line.len && line.data[name_len] != ' ' && line.data[name_len] != '\t') name_len++;
    struct slice name = { line.data, name_len };
    struct slice password = text_trim((struct slice){ line.data + name_len, line.len - name_len });
    const char *objection = name_objection(accounts, name);
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

static enum fault entries_read(const struct resp_accounts *accounts, struct entries *out, struct slice text)
{
    const char *where = accounts->path;
    const char *wrong = NULL;
    unsigned number = 0;
    out->count = 0;
    for (size_t at = 0; at < text.len && wrong == NULL; number++) {
        const char *from = text.data + at;
        const char *newline = memchr(from, '\n', text.len - at);
        size_t len = newline != NULL ? (size_t)(newline - from) : text.len - at;
        struct slice line = text_trim((struct slice){ from, len });
        if (line.len > 0 && line.data[0] != '#') wrong = entries_add(accounts, out, line);
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

/* FAULT_NONE: nobody can register the name any more. */
static enum fault name_keep(struct ledger *ledger, struct slice name)
{
    struct ledger_user user = { .role = ROLE_SELLER };
    memcpy(user.username, name.data, name.len);
    bool taken, found = false;
    enum fault fault = ledger_user_add(ledger, &user, wall_ms(), &taken);
    if (fault == FAULT_NONE && taken) fault = ledger_user(ledger, name, &user, &found);
    if (found && user.password_hash[0] != '\0')
        log_warn("people", "RESP account %.*s has the name of a user: they manage each other's sales", (int)name.len,
                 name.data);
    OPENSSL_cleanse(&user, sizeof user);
    return fault;
}

static enum fault names_keep(const struct resp_accounts *accounts, const struct entries *entries)
{
    struct ledger *ledger;
    enum fault fault = ledger_open(&ledger, &accounts->place, LEDGER_WRITER);
    if (fault != FAULT_NONE) return fault;
    for (size_t i = 0; i < entries->count && fault == FAULT_NONE; i++) fault = name_keep(ledger, entries->rows[i].name);
    ledger_close(ledger);
    return fault;
}

/* Buyers of an account that the file names no more are called so, too. */
static enum fault provider_check(const struct resp_accounts *accounts)
{
    if (accounts->provider[0] == '\0') return FAULT_NONE;
    struct ledger *ledger;
    struct ledger_user user;
    bool found = false;
    enum fault fault = ledger_open(&ledger, &accounts->place, LEDGER_READER);
    if (fault != FAULT_NONE) return fault;
    fault = ledger_user(ledger, slice_of(accounts->provider), &user, &found);
    ledger_close(ledger);
    if (fault == FAULT_NONE && found && user.password_hash[0] == '\0') {
        log_error("people", "identity_issuer begins like the names of buyers of the RESP account %s", accounts->provider);
        fault = FAULT_CONFIG;
    }
    return fault;
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

/* Names point into text, which is released after use, also after a fault. */
static enum fault file_read(const struct resp_accounts *accounts, struct entries *entries, struct slice *text)
{
    const struct secret_file file = { .room = "people", .path = accounts->path, .what = "passwords of RESP accounts" };
    enum fault fault = secret_file_read(&file, text);
    return fault != FAULT_NONE ? fault : entries_read(accounts, entries, *text);
}

static void file_forget(struct entries *entries, struct slice text)
{
    OPENSSL_cleanse(entries, sizeof *entries);
    secret_file_release(text);
}

static enum fault file_load(struct resp_accounts *accounts)
{
    struct slice text = { NULL, 0 };
    struct entries entries;
    enum fault fault = file_read(accounts, &entries, &text);
    if (fault == FAULT_NONE) fault = names_keep(accounts, &entries);
    if (fault == FAULT_NONE) {
        pthread_mutex_lock(&accounts->lock);
        bool taken = entries_take(accounts, &entries);
        pthread_mutex_unlock(&accounts->lock);
        if (!taken) {
            log_error("people", "more than 64 RESP accounts have been named since the start: restart to take others");
            fault = FAULT_SPACE;
        }
    }
    file_forget(&entries, text);
    return fault;
}

static struct resp_accounts *accounts_make(const struct resp_accounts_options *options)
{
    struct resp_accounts *accounts = calloc(1, sizeof *accounts);
    if (accounts == NULL) return NULL;
    pthread_mutex_init(&accounts->lock, NULL);
    snprintf(accounts->path, sizeof accounts->path, "%s", options->path);
    size_t provider_len = strcspn(options->issuer, ":");
    if (provider_len < sizeof accounts->provider) memcpy(accounts->provider, options->issuer, provider_len);
    return accounts;
}

enum fault resp_accounts_try(const struct resp_accounts_options *options)
{
    struct slice text = { NULL, 0 };
    struct entries entries;
    if (options->path[0] == '\0') return FAULT_NONE;
    struct resp_accounts *accounts = accounts_make(options);
    if (accounts == NULL) return FAULT_MEMORY;
    enum fault fault = file_read(accounts, &entries, &text);
    file_forget(&entries, text);
    resp_accounts_close(accounts);
    return fault;
}

enum fault resp_accounts_open(struct resp_accounts **out, const struct resp_accounts_options *options)
{
    *out = NULL;
    struct resp_accounts *accounts = accounts_make(options);
    if (accounts == NULL) return FAULT_MEMORY;
    accounts->place = *options->ledger;
    enum fault fault = FAULT_NONE;
    if (options->path[0] != '\0') {
        fault = file_load(accounts);
    } else {
        const struct entries alone = { .rows = { { .name = slice_of(account_alone) } }, .count = 1 };
        entries_take(accounts, &alone);
    }
    if (fault == FAULT_NONE) fault = provider_check(accounts);
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
