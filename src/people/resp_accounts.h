/* resp_accounts: the backends that may use the Redis protocol, and their passwords.
 *
 * A file of one "account password" a line, which only its owner may read; read at start and again at SIGHUP. Without a file
 * there is one account, "default", which needs no password and is served on loopback only. Passwords are kept as SHA-256 and
 * compared in constant time: they are secrets of machines, long and random, not words of people.
 *
 * Sales of an account are those of the seller of its name, its buyers are called ACCOUNT:USER: so the name is the account's
 * for good, also when the file names it no more (P8). The ledger has it as a user who cannot log in, before the account
 * counts; a user who had the name before keeps it, and that is logged. An identity provider, whose buyers are called
 * ISSUER:SUBJECT, never shares a name with an account.
 *
 * An account stays where it is for as long as the server runs, so that a peer may point to it; one that a reload does not
 * find any more is gone. Any thread. */
#ifndef STAMPEDE_PEOPLE_RESP_ACCOUNTS_H
#define STAMPEDE_PEOPLE_RESP_ACCOUNTS_H

#include "base/fault.h"
#include "base/slice.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define RESP_ACCOUNTS_MAX 64 /* ever named while the server runs */
#define RESP_ACCOUNT_BYTES_MAX 24
#define RESP_PASSWORD_BYTES_MIN 16
#define RESP_PASSWORD_BYTES_MAX 256

struct resp_account {
    char name[RESP_ACCOUNT_BYTES_MAX + 1];
    uint8_t name_len;
    _Atomic bool gone;
    uint8_t digest[32]; /* of the password; under the lock of the accounts */
};

struct resp_accounts;

/* Texts are copied. */
struct resp_accounts_options {
    const char *path;                  /* empty: the one account without a password */
    const struct ledger_place *ledger; /* made already; its path outlives the accounts */
    const char *issuer;                /* of the identity provider; empty: there is none */
};

/* Whether the file can be used, as far as no ledger has to be asked. What is wrong has been logged, as below. */
enum fault resp_accounts_try(const struct resp_accounts_options *options) MUST_USE;
/* FAULT_CONFIG has been logged, with the number of the line and never what it says. */
enum fault resp_accounts_open(struct resp_accounts **out, const struct resp_accounts_options *options) MUST_USE;
void resp_accounts_close(struct resp_accounts *accounts); /* NULL is fine */
/* SIGHUP: reads the file again. What cannot be used is logged and changes nothing. Main thread. */
void resp_accounts_reload(struct resp_accounts *accounts);

/* The account of a peer that has not said who it is; NULL where it has to. */
const struct resp_account *resp_accounts_unasked(const struct resp_accounts *accounts);
/* NULL: no such account, or not its password; both take as long. Where there are no passwords, any is right for "default",
 * as clients that are configured with one expect. */
const struct resp_account *resp_accounts_check(struct resp_accounts *accounts, struct slice name, struct slice password);
/* Whether this is the name of an account: nobody may register it. "default" is always one, accounts may be NULL. An account
 * that was taken out before this start is not known here: its name is, to the ledger. */
bool resp_accounts_have(struct resp_accounts *accounts, struct slice name);

#endif
