#include "people/people.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "people/external.h"
#include "people/keys.h"
#include "people/password.h"
#include "people/resp_accounts.h"
#include "people/revoked.h"
#include "wire/jwt.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define QUEUE_MAX 1024
#define QUEUE_WAIT_MS_MAX 30000
/* Those behind in the queue wait too while a worker waits for a locked ledger. */
#define LEDGER_WAIT_MS_MAX 2000
#define WORKER_NICE 5

/* Logins and registrations take turns at the passwords: a flood of one does not keep the other out. */
enum { LOGIN_QUEUE, REGISTER_QUEUE };
_Static_assert(REGISTER_QUEUE < CREW_QUEUES, "each kind has a queue of its own");

/* Contexts of one thread that checks tokens; made at its first check, ended with the room. */
struct checker {
    struct jwt_mac *mac;
    struct external_desk *external; /* NULL: no provider is configured */
    struct checker *next;
};

struct people {
    struct jwt_ring *ring;
    struct revoked revoked;
    struct external *external;        /* NULL: none */
    struct crew *crew;                /* passwords */
    struct crew *logouts;             /* never behind a password: a token stops working at once */
    const struct ledger_place *place; /* while workers start */
    uint32_t token_ttl_s;
    struct resp_accounts *accounts; /* NULL: none */
    uint64_t (*now_ms)(const void *arg);
    const void *now_arg;
    char dummy_hash[PASSWORD_HASH_BYTES]; /* what the password of an unknown user is compared with */
    pthread_key_t checker_key;
    bool has_checker_key;
    pthread_mutex_t checkers_lock;
    struct checker *checkers;
};

/* What a worker works with. */
struct desk {
    struct ledger *ledger;
    struct jwt_mac *mac;
};

static void desk_close(void *tools)
{
    struct desk *desk = tools;
    ledger_close(desk->ledger);
    jwt_mac_close(desk->mac);
    free(desk);
}

static void *desk_open(void *arg)
{
    const struct people *people = arg;
    struct desk *desk = calloc(1, sizeof(*desk));
    if (desk == NULL) return NULL;
    enum fault fault = ledger_open(&desk->ledger, people->place, LEDGER_WRITER);
    if (fault == FAULT_NONE) ledger_set_patience(desk->ledger, LEDGER_WAIT_MS_MAX);
    if (fault == FAULT_NONE) fault = jwt_mac_open(&desk->mac, people->ring);
    if (fault == FAULT_NONE) return desk;
    if (desk->ledger != NULL) ledger_close(desk->ledger);
    free(desk);
    return NULL;
}

static enum fault revocation_load(void *arg, uint64_t token_id, uint64_t expires_ms)
{
    struct people *people = arg;
    if (token_id == 0) return FAULT_DAMAGE;
    if (!revoked_reserve(&people->revoked, 0, 0)) {
        log_error("people", "the ledger has more logouts than fit in memory");
        return FAULT_SPACE;
    }
    revoked_put(&people->revoked, token_id, expires_ms);
    return FAULT_NONE;
}

static uint64_t people_now_ms(const struct people *people)
{
    return people->now_ms != NULL ? people->now_ms(people->now_arg) : wall_ms();
}

static uint64_t forgettable_ms(uint64_t now_ms)
{
    return now_ms > REVOKED_MARGIN_MS ? now_ms - REVOKED_MARGIN_MS : 0;
}

static enum fault revocations_load(struct people *people, const struct ledger_place *place)
{
    struct ledger *ledger;
    enum fault fault = ledger_open(&ledger, place, LEDGER_WRITER);
    if (fault != FAULT_NONE) return fault;
    uint64_t until_ms = forgettable_ms(people_now_ms(people));
    fault = ledger_forget_revoked(ledger, until_ms);
    if (fault == FAULT_NONE) fault = ledger_each_revoked(ledger, until_ms, revocation_load, people);
    ledger_close(ledger);
    return fault;
}

static enum fault crew_start(struct people *people, const struct people_options *options)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    struct crew_options crew = {
        .name = "password",
        .threads = options->threads > 0 ? options->threads : (uint32_t)(cores + 1) / 2,
        .queue_max = QUEUE_MAX,
        .wait_ms_max = QUEUE_WAIT_MS_MAX,
        .nice = WORKER_NICE,
        .tools_open = desk_open,
        .tools_close = desk_close,
        .arg = people,
    };
    people->place = options->ledger;
    enum fault fault = crew_open(&people->crew, &crew);
    crew.name = "logout";
    crew.threads = 1;
    if (fault == FAULT_NONE) fault = crew_open(&people->logouts, &crew);
    people->place = NULL;
    return fault;
}

enum fault people_open(struct people **out, const struct people_options *options)
{
    *out = NULL;
    struct people *people = calloc(1, sizeof(*people));
    if (people == NULL) return FAULT_MEMORY;
    people->token_ttl_s = options->token_ttl_s;
    people->accounts = options->accounts;
    people->now_ms = options->now_ms;
    people->now_arg = options->now_arg;
    pthread_mutex_init(&people->checkers_lock, NULL);
    enum fault fault = revoked_open(&people->revoked, REVOKED_SLOTS);
    if (fault != FAULT_NONE) {
        pthread_mutex_destroy(&people->checkers_lock);
        free(people);
        return fault;
    }
    people->has_checker_key = pthread_key_create(&people->checker_key, NULL) == 0;
    if (!people->has_checker_key) fault = FAULT_MEMORY;
    if (fault == FAULT_NONE) fault = keys_open(&people->ring, options->key_path, options->key_env);
    bool has_external = options->external.key_path != NULL && options->external.key_path[0] != '\0';
    if (fault == FAULT_NONE && has_external) fault = external_open(&people->external, &options->external);
    if (fault == FAULT_NONE && !password_hash("a password nobody has", people->dummy_hash)) fault = FAULT_MEMORY;
    if (fault == FAULT_NONE) fault = revocations_load(people, options->ledger);
    if (fault == FAULT_NONE) fault = crew_start(people, options);
    if (fault != FAULT_NONE) {
        people_close(people);
        return fault;
    }
    *out = people;
    return FAULT_NONE;
}

static void checker_end(struct checker *checker)
{
    jwt_mac_close(checker->mac);
    external_desk_close(checker->external);
    free(checker);
}

void people_close(struct people *people)
{
    if (people == NULL) return;
    if (people->crew != NULL) crew_close(people->crew);
    if (people->logouts != NULL) crew_close(people->logouts);
    while (people->checkers != NULL) {
        struct checker *checker = people->checkers;
        people->checkers = checker->next;
        checker_end(checker);
    }
    external_close(people->external);
    if (people->has_checker_key) pthread_key_delete(people->checker_key);
    if (people->ring != NULL) jwt_ring_close(people->ring);
    revoked_close(&people->revoked);
    pthread_mutex_destroy(&people->checkers_lock);
    free(people);
}

void people_reload(struct people *people)
{
    if (people->external != NULL) external_look(people->external);
}

const struct jwt_ring *people_ring(const struct people *people)
{
    return people->ring;
}

/* The first check of a thread. */
static struct checker *checker_make(struct people *people)
{
    struct checker *checker = calloc(1, sizeof(*checker));
    if (checker == NULL) return NULL;
    enum fault fault = jwt_mac_open(&checker->mac, people->ring);
    if (fault == FAULT_NONE && people->external != NULL) fault = external_desk_open(&checker->external, people->external);
    if (fault != FAULT_NONE || pthread_setspecific(people->checker_key, checker) != 0) {
        checker_end(checker);
        return NULL;
    }
    pthread_mutex_lock(&people->checkers_lock);
    checker->next = people->checkers;
    people->checkers = checker;
    pthread_mutex_unlock(&people->checkers_lock);
    return checker;
}

static enum role role_of(const char *word)
{
    for (enum role role = ROLE_CUSTOMER; role <= ROLE_ADMIN; role++) {
        if (strcmp(word, role_word(role)) == 0) return role;
    }
    return ROLE_NONE;
}

/* A token we made ourselves. */
static enum token_check our_check(struct checker *checker, struct slice token, uint64_t now_ms, struct identity *out)
{
    struct jwt_claims claims;
    enum jwt_check check = jwt_check(checker->mac, token, now_ms / 1000, &claims);
    if (check != JWT_GOOD) return check == JWT_EXPIRED ? TOKEN_EXPIRED : TOKEN_BAD;
    enum role role = role_of(claims.role);
    size_t len = strlen(claims.subject);
    if (role == ROLE_NONE || len == 0 || claims.token_id == 0) return TOKEN_BAD;

    memcpy(out->name_bytes, claims.subject, len + 1);
    out->name.len = len;
    out->role = role;
    out->token_id = claims.token_id;
    out->expires_ms = claims.expires_s * 1000;
    return TOKEN_GOOD;
}

/* Most tokens tell by their first bytes whose they are. Of the others, one that this thread knows is the provider's; then it
 * may be ours in a spelling we do not use, and last the provider's for the first time. */
static enum token_check any_check(struct checker *checker, struct slice token, uint64_t now_ms, struct identity *out)
{
    enum token_check check;
    if (checker->external == NULL || jwt_begins_like_ours(checker->mac, token))
        return our_check(checker, token, now_ms, out);
    if (external_recall(checker->external, token, now_ms, &check, out)) return check;
    check = our_check(checker, token, now_ms, out);
    return check == TOKEN_BAD ? external_check(checker->external, token, now_ms, out) : check;
}

static void identity_clear(struct identity *out)
{
    out->role = ROLE_NONE;
    out->name = (struct slice){ out->name_bytes, 0 };
    out->name_bytes[0] = '\0';
}

enum token_check people_check(struct people *people, struct slice token, uint64_t now_ms, struct identity *out)
{
    identity_clear(out);
    struct checker *checker = pthread_getspecific(people->checker_key);
    if (checker == NULL) checker = checker_make(people);
    if (checker == NULL) return TOKEN_BAD;

    enum token_check check = any_check(checker, token, now_ms, out);
    if (check == TOKEN_GOOD && revoked_has(&people->revoked, out->token_id)) check = TOKEN_BAD;
    if (check != TOKEN_GOOD) identity_clear(out);
    return check;
}

void people_stop(struct people *people)
{
    crew_stop(people->crew);
    crew_stop(people->logouts);
}

/* A worker's side of the requests. */

/* A ledger that is locked or full may work again in a moment; any other failure is ours to look at. */
static enum people_result failure(enum fault fault)
{
    return fault == FAULT_TIMEOUT || fault == FAULT_SPACE ? PEOPLE_BUSY : PEOPLE_FAILED;
}

static enum people_result user_make(struct ledger *ledger, const char *username, const char *password, enum role role)
{
    struct ledger_user user = { .role = role };
    size_t len = strlen(username);
    assert(len < sizeof(user.username));
    memcpy(user.username, username, len + 1);
    if (!password_hash(password, user.password_hash)) return PEOPLE_FAILED;
    bool taken;
    enum fault fault = ledger_user_add(ledger, &user, wall_ms(), &taken);
    if (fault != FAULT_NONE) return failure(fault);
    return taken ? PEOPLE_TAKEN : PEOPLE_OK;
}

static void register_work(struct crew_job *job, void *tools)
{
    struct people_request *request = (struct people_request *)job;
    struct desk *desk = tools;
    if (resp_accounts_have(request->people->accounts, slice_of(request->username))) {
        request->result = PEOPLE_TAKEN; /* they would be the seller of its sales */
        return;
    }
    request->result = user_make(desk->ledger, request->username, request->password, request->role);
}

static enum people_result token_make(struct people_request *request, struct desk *desk, enum role role)
{
    struct jwt_claims claims = { .issued_s = people_now_ms(request->people) / 1000 };
    size_t len = strlen(request->username);
    memcpy(claims.subject, request->username, len + 1);
    const char *word = role_word(role);
    memcpy(claims.role, word, strlen(word) + 1);
    claims.not_before_s = claims.issued_s;
    const char *kind = request->kind != NULL ? request->kind(role) : "";
    assert(strlen(kind) < sizeof(claims.kind));
    memcpy(claims.kind, kind, strlen(kind) + 1);
    uint32_t ttl_s = request->people->token_ttl_s;
    claims.expires_s = claims.issued_s + (request->kind != NULL && ttl_s > PEOPLE_DOOR_TTL_S ? PEOPLE_DOOR_TTL_S : ttl_s);
    while (claims.token_id == 0) random_bytes(&claims.token_id, sizeof(claims.token_id));

    size_t made = jwt_make(desk->mac, &claims, request->token, sizeof(request->token) - 1);
    if (made == 0) return PEOPLE_FAILED;
    request->token[made] = '\0';
    request->role = role;
    request->token_id = claims.token_id;
    request->expires_ms = claims.expires_s * 1000;
    return PEOPLE_OK;
}

static void login_work(struct crew_job *job, void *tools)
{
    struct people_request *request = (struct people_request *)job;
    struct desk *desk = tools;
    struct ledger_user user;
    bool found;
    enum fault fault = ledger_user(desk->ledger, slice_of(request->username), &user, &found);
    if (fault != FAULT_NONE) {
        request->result = failure(fault);
        return;
    }
    /* An unknown user costs as much as a known one: the time of the answer does not tell who is a user. A name that is only
     * kept has no password. */
    bool known = found && user.password_hash[0] != '\0';
    bool matches = password_matches(known ? user.password_hash : request->people->dummy_hash, request->password);
    request->result = known && matches ? token_make(request, desk, user.role) : PEOPLE_BAD_LOGIN;
    OPENSSL_cleanse(&user, sizeof(user));
}

static void logout_work(struct crew_job *job, void *tools)
{
    struct people_request *request = (struct people_request *)job;
    struct desk *desk = tools;
    struct revoked *revoked = &request->people->revoked;
    uint64_t now_ms = people_now_ms(request->people);
    if (revoked_purge(revoked, now_ms, mono_ms())) {
        if (ledger_forget_revoked(desk->ledger, forgettable_ms(now_ms)) != FAULT_NONE)
            log_warn("people", "expired logouts stay in the ledger until the next time");
    }
    if (!revoked_reserve(revoked, now_ms, mono_ms())) {
        request->result = PEOPLE_BUSY;
        return;
    }
    /* On disk before in memory before said: a logout that was answered holds after any crash. */
    enum fault fault = ledger_revoke(desk->ledger, request->token_id, request->expires_ms);
    if (fault != FAULT_NONE) {
        revoked_unreserve(revoked);
        request->result = failure(fault);
        return;
    }
    revoked_put(revoked, request->token_id, request->expires_ms);
    request->result = PEOPLE_OK;
}

void people_logged_out(struct people *people, uint64_t token_id, uint64_t expires_ms)
{
    struct revoked *revoked = &people->revoked;
    uint64_t now_ms = people_now_ms(people);
    if (token_id == 0 || expires_ms + REVOKED_MARGIN_MS <= now_ms || revoked_has(revoked, token_id)) return;
    revoked_purge(revoked, now_ms, mono_ms());
    if (revoked_reserve(revoked, now_ms, mono_ms())) {
        revoked_put(revoked, token_id, expires_ms);
    } else {
        log_error("people", "no room for a logout of another machine: the token counts here until it expires");
    }
}

static void request_done(struct crew_job *job)
{
    struct people_request *request = (struct people_request *)job;
    if (job->late) request->result = PEOPLE_BUSY;
    OPENSSL_cleanse(request->password, sizeof(request->password));
    request->done(request);
}

static void request_ask(struct people_request *request, struct crew *crew, uint32_t queue, struct crew_mailbox *mailbox,
                        void (*work)(struct crew_job *job, void *tools))
{
    assert(request->people != NULL && request->done != NULL);
    request->job = (struct crew_job){ .work = work, .done = request_done, .mailbox = mailbox, .queue = queue };
    request->token[0] = '\0';
    if (crew_ask(crew, &request->job)) return;
    request->result = PEOPLE_BUSY;
    request_done(&request->job);
}

void people_register(struct people_request *request, struct crew_mailbox *mailbox)
{
    assert(people_username_objection(slice_of(request->username)) == NULL);
    assert(request->password[0] != '\0');
    assert(request->role == ROLE_CUSTOMER || request->role == ROLE_SELLER);
    request_ask(request, request->people->crew, REGISTER_QUEUE, mailbox, register_work);
}

void people_login(struct people_request *request, struct crew_mailbox *mailbox)
{
    request_ask(request, request->people->crew, LOGIN_QUEUE, mailbox, login_work);
}

void people_logout(struct people_request *request, struct crew_mailbox *mailbox)
{
    assert(request->token_id != 0);
    request_ask(request, request->people->logouts, 0, mailbox, logout_work);
}

enum fault people_admin_create(const struct ledger_place *place, const char *username, const char *password,
                               enum people_result *result)
{
    *result = PEOPLE_FAILED;
    const char *objection = people_username_objection(slice_of(username));
    if (objection == NULL) objection = people_password_objection(slice_of(password));
    if (objection != NULL) {
        log_error("people", "%s", objection);
        return FAULT_CONFIG;
    }
    struct ledger *ledger;
    enum fault fault = ledger_open(&ledger, place, LEDGER_OWNER);
    if (fault != FAULT_NONE) return fault;
    *result = user_make(ledger, username, password, ROLE_ADMIN);
    ledger_close(ledger);
    return *result == PEOPLE_FAILED || *result == PEOPLE_BUSY ? FAULT_LEDGER : FAULT_NONE;
}
