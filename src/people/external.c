#include "people/external.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "base/siphash.h"
#include "people/remembered.h"
#include "people/revoked.h"
#include "wire/jws.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FILE_BYTES_MAX 262144
#define LOOK_PAUSE_MS 1000
#define TEXT_BYTES 512
/* A file written this lately may be written again within the same reading of the file system's clock. */
#define SETTLED_S 2

_Static_assert(PEOPLE_LEEWAY_S_MAX *UINT64_C(1000) < REVOKED_MARGIN_MS, "a logout outlives its token, leeway and all");

struct external {
    char issuer[TEXT_BYTES], audience[TEXT_BYTES], key_path[TEXT_BYTES];
    char subject_claim[TEXT_BYTES], role_claim[TEXT_BYTES], roles_text[TEXT_BYTES];
    struct jws_rules rules;
    enum role roles[JWS_ROLES_MAX]; /* what each of rules.roles means */
    enum jws_alg alg;
    uint8_t hash_keys[2][16];

    _Atomic uint64_t version;  /* of keys; a desk that has an older one comes for the new */
    pthread_mutex_t keys_lock; /* a pointer is copied under it, once per thread and change */
    struct jwks *keys;

    pthread_mutex_t look_lock; /* one look at a time */
    struct stat seen;          /* the file as it was when it was last read and had settled */
    uint64_t content_hash;     /* of the last content that was read, good or not */

    pthread_t watcher;
    bool watching, stopping; /* stopping: under watch_lock */
    pthread_mutex_t watch_lock;
    pthread_cond_t watch_wake;
};

struct external_desk {
    struct external *external;
    struct jws_verifier *verifier;
    uint64_t version;
    struct remembered *remembered;
};

/* Options. */

static bool copy_option(char out[TEXT_BYTES], const char *value)
{
    size_t len = value != NULL ? strlen(value) : 0;
    if (len >= TEXT_BYTES) return false;
    if (len > 0) memcpy(out, value, len);
    out[len] = '\0';
    return true;
}

/* One "value=role" into its place: the greater role first, because the first that a token has is the one it gets. */
static bool role_add(struct external *external, struct slice row)
{
    const char *equals = memrchr(row.data, '=', row.len);
    if (equals == NULL || equals == row.data || external->rules.roles_count == JWS_ROLES_MAX) return false;
    struct slice value = { row.data, (size_t)(equals - row.data) };
    struct slice word = { equals + 1, row.len - value.len - 1 };
    enum role role = ROLE_CUSTOMER;
    while (role <= ROLE_ADMIN && !slice_is(word, role_word(role))) role++;
    if (role > ROLE_ADMIN) return false;

    size_t at = external->rules.roles_count++;
    while (at > 0 && external->roles[at - 1] < role) {
        external->roles[at] = external->roles[at - 1];
        external->rules.roles[at] = external->rules.roles[at - 1];
        at--;
    }
    external->roles[at] = role;
    external->rules.roles[at] = value;
    return true;
}

static bool roles_read(struct external *external)
{
    const char *at = external->roles_text;
    while (*at != '\0') {
        at += strspn(at, " ");
        size_t len = strcspn(at, ",");
        struct slice row = { at, len };
        while (row.len > 0 && row.data[row.len - 1] == ' ') row.len--;
        if (!role_add(external, row)) return false;
        at += len + (at[len] == ',');
    }
    return true;
}

/* Buyers without a login are called by these words and a colon (engine/buyer.h), and so are those of the RESP account that
 * is always there: nobody else may be. Other accounts are looked at in resp_accounts.c. */
static bool issuer_is_taken(const char *issuer)
{
    static const char *const words[] = { "key", "cut", "claim", "default" };
    size_t len = strcspn(issuer, ":");
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strlen(words[i]) == len && memcmp(issuer, words[i], len) == 0) return true;
    }
    return false;
}

static const char *options_objection(struct external *external, const struct people_external *options)
{
    bool fits = copy_option(external->issuer, options->issuer) && copy_option(external->audience, options->audience) &&
                copy_option(external->key_path, options->key_path) &&
                copy_option(external->role_claim, options->role_claim) &&
                copy_option(external->subject_claim, options->subject_claim) &&
                copy_option(external->roles_text, options->roles);
    if (!fits) return "an option is too long";
    if (external->issuer[0] == '\0') return "identity_issuer is empty: say whose tokens are taken";
    if (external->audience[0] == '\0') return "identity_audience is empty: say for whom the tokens must be";
    if (external->subject_claim[0] == '\0') return "identity_subject_claim is empty";
    if (strlen(external->issuer) + 2 > BUYER_BYTES_MAX)
        return "identity_issuer is too long: issuer:subject has 64 bytes at most";
    if (issuer_is_taken(external->issuer)) return "identity_issuer begins like the names of other buyers";
    if (options->alg == NULL || !jws_alg_of(slice_of(options->alg), &external->alg))
        return "identity_alg is one of these words: RS256 ES256 EdDSA";
    if (options->leeway_s > PEOPLE_LEEWAY_S_MAX) return "identity_leeway_s is too large";
    if (!roles_read(external)) return "identity_roles is a list such as staff=seller,owners=admin, of 8 at most";
    external->rules.issuer = external->issuer;
    external->rules.audience = external->audience;
    external->rules.subject_claim = external->subject_claim;
    external->rules.role_claim = external->role_claim;
    external->rules.leeway_s = options->leeway_s;
    return NULL;
}

const char *people_external_objection(const struct people_external *options)
{
    if (options->key_path[0] == '\0') return NULL;
    struct external *scratch = calloc(1, sizeof(*scratch));
    const char *objection = scratch != NULL ? options_objection(scratch, options) : "out of memory";
    free(scratch);
    return objection;
}

/* The file. */

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static const char *file_objection(const struct stat *about)
{
    if (!S_ISREG(about->st_mode)) return "it is not a file";
    if (about->st_size > FILE_BYTES_MAX) return "it is too large for a file of keys";
    if ((about->st_mode & S_IWOTH) != 0) return "anybody may write to it, and so add a key (chmod o-w)";
    return NULL;
}

/* All of it, in malloc's memory, or NULL with *why said. */
static char *file_read(const char *path, struct stat *about, size_t *len, const char **why)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char *text = NULL;
    *why = NULL;
    *len = 0;
    if (fd < 0 || fstat(fd, about) != 0) {
        *why = strerror(errno);
    } else if ((*why = file_objection(about)) == NULL) {
        text = malloc(FILE_BYTES_MAX);
        ssize_t got = 1;
        while (text != NULL && got > 0 && *len < FILE_BYTES_MAX) {
            got = read(fd, text + *len, FILE_BYTES_MAX - *len);
            if (got > 0) *len += (size_t)got;
        }
        if (text == NULL || got < 0) *why = strerror(errno);
    }
    if (fd >= 0) close(fd);
    if (*why == NULL) return text;
    free(text);
    return NULL;
}

static void keys_publish(struct external *external, struct jwks *keys)
{
    pthread_mutex_lock(&external->keys_lock);
    struct jwks *old = external->keys;
    external->keys = keys;
    atomic_fetch_add_explicit(&external->version, 1, memory_order_release);
    pthread_mutex_unlock(&external->keys_lock);
    jwks_release(old); /* threads that still check with them hold them */
}

/* Reads the file and publishes what it has, if that is new. Under look_lock. */
static enum fault keys_read(struct external *external, bool *changed)
{
    struct stat about = { 0 };
    const char *why;
    size_t len;
    char objection[256] = "";
    struct jwks *keys = NULL;
    *changed = false;

    char *text = file_read(external->key_path, &about, &len, &why);
    uint64_t content = text != NULL ? siphash(external->hash_keys[0], text, len)
                                    : siphash(external->hash_keys[0], why, strlen(why));
    bool settled = time(NULL) - about.st_mtim.tv_sec > SETTLED_S;
    external->seen = text != NULL && settled ? about : (struct stat){ 0 };
    bool news = content != external->content_hash;
    external->content_hash = content;
    enum fault fault = FAULT_NONE;
    if (text == NULL) {
        fault = FAULT_CONFIG;
    } else if (news) {
        why = objection;
        fault = jwks_open(&keys, (struct slice){ text, len }, external->alg, objection);
    }
    free(text);
    if (fault != FAULT_NONE && news)
        log_error("identity", "%s cannot be used: %s%s", external->key_path, why,
                  external->keys != NULL ? "; the keys before it still count" : "");
    if (keys == NULL) return fault;
    log_info("identity", "%zu %s of %s read from %s", keys->count, keys->count == 1 ? "key" : "keys", external->issuer,
             external->key_path);
    keys_publish(external, keys);
    *changed = true;
    return FAULT_NONE;
}

/* Once a second: most of the time nothing but one stat(). */
static bool keys_glance(struct external *external, bool whatever)
{
    struct stat about;
    bool changed = false;
    pthread_mutex_lock(&external->look_lock);
    bool same = !whatever && stat(external->key_path, &about) == 0 && same_file(&about, &external->seen);
    if (!same && keys_read(external, &changed) != FAULT_NONE) changed = false;
    pthread_mutex_unlock(&external->look_lock);
    return changed;
}

bool external_look(struct external *external)
{
    return keys_glance(external, true);
}

static void *watch(void *arg)
{
    struct external *external = arg;
    pthread_mutex_lock(&external->watch_lock);
    while (!external->stopping) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += LOOK_PAUSE_MS / 1000;
        if (pthread_cond_timedwait(&external->watch_wake, &external->watch_lock, &until) != ETIMEDOUT) continue;
        pthread_mutex_unlock(&external->watch_lock);
        keys_glance(external, false);
        pthread_mutex_lock(&external->watch_lock);
    }
    pthread_mutex_unlock(&external->watch_lock);
    return NULL;
}

enum fault external_open(struct external **out, const struct people_external *options)
{
    *out = NULL;
    struct external *external = calloc(1, sizeof(*external));
    if (external == NULL) return FAULT_MEMORY;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&external->watch_wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&external->watch_lock, NULL);
    pthread_mutex_init(&external->look_lock, NULL);
    pthread_mutex_init(&external->keys_lock, NULL);
    random_bytes(external->hash_keys, sizeof(external->hash_keys));

    enum fault fault = FAULT_NONE;
    const char *objection = options_objection(external, options);
    if (objection != NULL) {
        log_error("identity", "%s", objection);
        fault = FAULT_CONFIG;
    }
    bool changed;
    if (fault == FAULT_NONE) fault = keys_read(external, &changed);
    if (fault == FAULT_NONE) {
        external->watching = pthread_create(&external->watcher, NULL, watch, external) == 0;
        if (!external->watching) fault = FAULT_MEMORY;
    }
    if (fault != FAULT_NONE) {
        external_close(external);
        return fault;
    }
    *out = external;
    return FAULT_NONE;
}

void external_close(struct external *external)
{
    if (external == NULL) return;
    if (external->watching) {
        pthread_mutex_lock(&external->watch_lock);
        external->stopping = true;
        pthread_cond_signal(&external->watch_wake);
        pthread_mutex_unlock(&external->watch_lock);
        pthread_join(external->watcher, NULL);
    }
    jwks_release(external->keys);
    pthread_cond_destroy(&external->watch_wake);
    pthread_mutex_destroy(&external->watch_lock);
    pthread_mutex_destroy(&external->look_lock);
    pthread_mutex_destroy(&external->keys_lock);
    free(external);
}

enum fault people_external_try(const struct people_external *options)
{
    struct external *external = NULL;
    if (options->key_path[0] == '\0') return FAULT_NONE;
    enum fault fault = external_open(&external, options);
    external_close(external);
    return fault;
}

/* A thread's desk. */

enum fault external_desk_open(struct external_desk **out, struct external *external)
{
    *out = NULL;
    struct external_desk *desk = calloc(1, sizeof(*desk));
    if (desk == NULL) return FAULT_MEMORY;
    desk->external = external;
    enum fault fault = remembered_open(&desk->remembered, external->hash_keys);
    if (fault != FAULT_NONE) {
        external_desk_close(desk);
        return fault;
    }
    *out = desk;
    return FAULT_NONE;
}

void external_desk_close(struct external_desk *desk)
{
    if (desk == NULL) return;
    jws_verifier_close(desk->verifier);
    remembered_close(desk->remembered);
    free(desk);
}

/* Makes the desk work with the keys that count now; false only when there is no memory for it. */
static bool desk_refresh(struct external_desk *desk)
{
    struct external *external = desk->external;
    uint64_t version = atomic_load_explicit(&external->version, memory_order_acquire);
    if (version == desk->version) return desk->verifier != NULL;
    pthread_mutex_lock(&external->keys_lock);
    struct jwks *keys = external->keys;
    jwks_hold(keys);
    desk->version = atomic_load_explicit(&external->version, memory_order_relaxed);
    pthread_mutex_unlock(&external->keys_lock);
    jws_verifier_close(desk->verifier);
    enum fault fault = jws_verifier_open(&desk->verifier, keys);
    jwks_release(keys);
    if (fault != FAULT_NONE) desk->version = 0;
    return fault == FAULT_NONE;
}

static enum token_check check_time(const struct external *external, uint64_t expires_ms, uint64_t now_ms)
{
    return expires_ms + external->rules.leeway_s * UINT64_C(1000) > now_ms ? TOKEN_GOOD : TOKEN_EXPIRED;
}

static void identity_set(struct identity *out, const struct remembered_token *token)
{
    memcpy(out->name_bytes, token->name, token->name_len);
    out->name_bytes[token->name_len] = '\0';
    out->name = (struct slice){ out->name_bytes, token->name_len };
    out->role = (enum role)token->role;
    out->token_id = token->token_id;
    out->expires_ms = token->expires_ms;
}

bool external_recall(struct external_desk *desk, struct slice token, uint64_t now_ms, enum token_check *check,
                     struct identity *out)
{
    uint64_t version = atomic_load_explicit(&desk->external->version, memory_order_acquire);
    if (token.len > EXTERNAL_TOKEN_BYTES_MAX) return false;
    const struct remembered_token *known = remembered_find(desk->remembered, token, version);
    if (known == NULL) return false;
    *check = check_time(desk->external, known->expires_ms, now_ms);
    if (*check == TOKEN_GOOD) identity_set(out, known);
    return true;
}

enum token_check external_check(struct external_desk *desk, struct slice token, uint64_t now_ms, struct identity *out)
{
    const struct external *external = desk->external;
    struct jws_claims claims;
    if (!desk_refresh(desk)) return TOKEN_BAD;
    enum jws_check check = jws_check(desk->verifier, token, &external->rules, now_ms / 1000, &claims);
    if (check != JWS_GOOD) return check == JWS_EXPIRED ? TOKEN_EXPIRED : TOKEN_BAD;

    struct remembered_token fresh = { .token_id = claims.token_id,
                                      .expires_ms = claims.expires_s * 1000,
                                      .version = desk->version };
    fresh.role = (uint8_t)(claims.role >= 0 ? external->roles[claims.role] : ROLE_CUSTOMER);
    char name[BUYER_BYTES_MAX + 1];
    int len = snprintf(name, sizeof(name), "%s:%s", external->issuer, claims.subject);
    if (len < 0 || (size_t)len > BUYER_BYTES_MAX) return TOKEN_BAD;
    memcpy(fresh.name, name, (size_t)len);
    fresh.name_len = (uint8_t)len;
    identity_set(out, &fresh);
    remembered_put(desk->remembered, token, &fresh, now_ms);
    return TOKEN_GOOD;
}
