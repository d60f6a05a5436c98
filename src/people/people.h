/* people: who someone is. Users and passwords, tokens and their revocation, tokens of the operator's own provider.
 *
 * people_check() runs on the hot path: any thread, no lock, no allocation, no database. (A provider's token is another
 * matter the first time a thread sees it, or sees it under new keys.) The rest runs on threads of this room's own with a
 * bounded queue for each kind, because argon2 takes about 40 ms (promises.md, security settings); logins and registrations
 * take turns, so neither waits behind a flood of the other. Completions come back through the crew's mailbox on the thread
 * that asked. */
#ifndef STAMPEDE_PEOPLE_PEOPLE_H
#define STAMPEDE_PEOPLE_PEOPLE_H

#include "base/crew.h"
#include "base/fault.h"
#include "base/slice.h"
#include "ledger/ledger.h"

#include <stdbool.h>
#include <stdint.h>

struct people;
struct jwt_ring;
struct resp_accounts;

/* The operator's own identity provider. Texts are copied. */
struct people_external {
    const char *issuer, *audience; /* as the tokens say them, to the byte */
    const char *key_path;          /* PEM or JWKS; empty: there is no such provider */
    const char *alg;               /* RS256, ES256 or EdDSA */
    const char *subject_claim;
    const char *role_claim; /* empty: everybody is a customer */
    const char *roles;      /* "value=role,…": what the role claim must be, or hold, for a role beyond customer */
    uint32_t leeway_s;
};
#define PEOPLE_LEEWAY_S_MAX 300
/* What is wrong with these, as a sentence; NULL: nothing, or there is no such provider. Its keys are not looked at. */
const char *people_external_objection(const struct people_external *options);

/* Whether its keys can be used, too: read as people_open() would. What is wrong has been logged. */
enum fault people_external_try(const struct people_external *options) MUST_USE;

struct people_options {
    const struct ledger_place *ledger; /* its path outlives people */
    const char *key_path; /* file of signing keys, one "kid hexbytes" a line, newest first; made 0600 when missing */
    struct slice key_env; /* same format, from the environment; wins over the file when not empty */
    uint32_t token_ttl_s;
    uint32_t threads;
    struct people_external external;
    struct resp_accounts *accounts; /* whose names nobody may register; NULL: none */
    /* What tokens go by, any thread; NULL: the clock of this machine. */
    uint64_t (*now_ms)(const void *arg);
    const void *now_arg;
};

enum fault people_open(struct people **out, const struct people_options *options) MUST_USE;
/* Takes no more requests; those that wait are answered BUSY. Any thread, any number of times. */
void people_stop(struct people *people);
void people_close(struct people *people);
/* SIGHUP: reads the keys of the identity provider again. Any thread. */
void people_reload(struct people *people);
/* The signing keys, for signatures that rotate with them. Lives as long as people. */
const struct jwt_ring *people_ring(const struct people *people);

/* A token was logged out on another machine that shares the ledger, which has it. Any thread; told twice it counts once. */
void people_logged_out(struct people *people, uint64_t token_id, uint64_t expires_ms);

struct identity {
    struct slice name; /* inside name_bytes */
    enum role role;    /* ROLE_NONE: nobody */
    uint64_t token_id;
    uint64_t expires_ms;
    char name_bytes[BUYER_BYTES_MAX + 1];
};

enum token_check { TOKEN_GOOD, TOKEN_BAD, TOKEN_EXPIRED };
/* The bare token, without "Bearer ": ours, or the provider's. now_ms is the time that tokens go by, as in people_options.
 * The first check of a thread makes crypto contexts for it, which are kept until people_close(). *out points into itself:
 * copy what is needed, not the struct. */
enum token_check people_check(struct people *people, struct slice token, uint64_t now_ms, struct identity *out);

/* What the workers do. The request and its answer live in the asker's memory until done() is called. */
enum people_result { PEOPLE_OK, PEOPLE_TAKEN, PEOPLE_BAD_LOGIN, PEOPLE_BUSY, PEOPLE_FAILED };
struct people_request {
    struct crew_job job; /* first */
    void (*done)(struct people_request *request);
    struct people *people;
    char username[USERNAME_BYTES_MAX + 1];
    char password[PASSWORD_CHARS_MAX * 4 + 1]; /* wiped when done */
    enum role role;                            /* register: in; login: out */
    uint64_t token_id, expires_ms;             /* logout: in; login: out */
    /* login, NULL: a token as usual. Else one for a door: it lives an hour at most and says username and kind, too, in the
     * word that the door has for the role. */
    const char *(*kind)(enum role role);
    enum people_result result;
    char token[TOKEN_BYTES_MAX]; /* login: out, ended by NUL */
};
#define PEOPLE_DOOR_TTL_S 3600
/* done() is called on the mailbox's thread, also for PEOPLE_BUSY. How long a password must be is for the way in to say. */
void people_register(struct people_request *request, struct crew_mailbox *mailbox);
void people_login(struct people_request *request, struct crew_mailbox *mailbox);
void people_logout(struct people_request *request, struct crew_mailbox *mailbox);

/* For stampede admin create: synchronous. */
enum fault people_admin_create(const struct ledger_place *place, const char *username, const char *password,
                               enum people_result *result) MUST_USE;
/* What a username may be: 1 to 64 bytes of UTF-8, no control characters, spaces, quotes, backslash, slash or colon. Says
 * what is wrong, or NULL. */
const char *people_username_objection(struct slice username);
const char *people_password_objection(struct slice password);

#endif
