/* logins: guessing passwords is slow, knowing one is not.
 *
 * Three things are looked at before a password is, and all must agree; a try they refuse counts nowhere.
 * - The account and the address together: three tries, then a wait that doubles with each further one, from 2 s to 5
 * minutes. This is what a guesser meets first, and it is nobody else's wait. A success, or a quarter of an hour of quiet,
 * ends it.
 * - The account: at most LOGIN_TRIES_MAX failed or unfinished tries in any minute, from everywhere together. The last
 *   LOGIN_TRIES_KEPT of them are kept for addresses from which the account has logged in before, so that its owner gets in
 *   while others guess. One guesser alone never reaches this limit, so an owner elsewhere is not locked out by one at all.
 *   Many can reach it. But when it has turned a newcomer away, an address that has not failed on this account within a day,
 *   the tries of the next LOGIN_NEWCOMER_MS are for newcomers and for those who have logged in before: guessers who have had
 *   their try stand back, and an owner at a new address gets in within a minute. To keep her out for longer, guessers need
 *   LOGIN_TRIES_MAX - LOGIN_TRIES_KEPT further addresses for every minute, none of which is of use again that day.
 * - The address: after LOGIN_ADDRESS_FAILURES failures a wait that grows up to 30 s. One failure is forgiven every 2 s.
 *   Successes forgive nothing: whoever guesses may have an account of their own.
 *
 * Nodes of several machines count together: each notes what it has let through and what became of it, and is told what
 * others have noted (guard/gossip.h), which counts as if it had happened here. What several nodes let through before they
 * heard of each other may be more than LOGIN_TRIES_MAX; it is a debt, and each such try counts for a minute after the
 * others.
 *
 * Names are hashed, never looked up: an account that does not exist behaves as one that does. Memory is fixed; in a full
 * table whoever has tried least is forgotten first. Addresses count by their rate key. Times are mono_ms(). Any thread; one
 * short lock, which only logins take. */
#ifndef STAMPEDE_GUARD_LOGINS_H
#define STAMPEDE_GUARD_LOGINS_H

#include "base/fault.h"
#include "base/slice.h"
#include "base/address.h"

#include <stdbool.h>
#include <stdint.h>

#define LOGIN_TRIES_MAX 10
#define LOGIN_TRIES_KEPT 2
#define LOGIN_TRIES_SPAN_MS UINT64_C(60000)

#define LOGIN_PAIR_TRIES 3
#define LOGIN_PAIR_WAIT_MS UINT64_C(2000)
#define LOGIN_PAIR_WAIT_MS_MAX UINT64_C(300000)
#define LOGIN_PAIR_QUIET_MS UINT64_C(900000)

#define LOGIN_ADDRESS_FAILURES 50
#define LOGIN_ADDRESS_WAIT_MS UINT64_C(250)
#define LOGIN_ADDRESS_WAIT_MS_MAX UINT64_C(30000)
#define LOGIN_ADDRESS_DOUBLES 8 /* failures after which the wait doubles */
#define LOGIN_ADDRESS_FORGIVE_MS UINT64_C(2000)

#define LOGIN_KNOWN_MS (UINT64_C(30) * 86400 * 1000)
#define LOGIN_STRANGER_MS (UINT64_C(86400) * 1000) /* a failure makes nobody a newcomer for so long */
#define LOGIN_NEWCOMER_MS (2 * LOGIN_TRIES_SPAN_MS)

struct logins;

/* places: how many accounts, addresses and pairs are remembered at once, rounded up to a power of two; about 250 bytes each.
 */
enum fault logins_open(struct logins **out, uint32_t places) MUST_USE;
void logins_close(struct logins *logins);

/* True: the try is counted and the password may be looked at; one of the three below must follow. False: *retry_ms is how
 * long until a try could pass. */
bool logins_may_try(struct logins *logins, struct slice account, const struct address *address, uint64_t now_ms,
                    uint64_t *retry_ms);
void logins_failed(struct logins *logins, struct slice account, const struct address *address, uint64_t now_ms);
void logins_succeeded(struct logins *logins, struct slice account, const struct address *address, uint64_t now_ms);
/* The password was not looked at after all, because we were too busy: the try never was. */
void logins_untried(struct logins *logins, struct slice account, const struct address *address, uint64_t now_ms);

/* What happened to a login, as nodes tell each other: hashes, no names. */
enum login_news { LOGIN_TRIED, LOGIN_FAILED, LOGIN_SUCCEEDED, LOGIN_UNTRIED, LOGIN_NEWS_COUNT };
struct login_event {
    uint64_t news;
    uint64_t account, address, pair;
};

/* Before the first try: the secret that other nodes have, too; and that what happens from now on is noted, and wake() called
 * each time, on any thread and under the lock. */
void logins_agree(struct logins *logins, const uint8_t secret[16]);
void logins_on_noted(struct logins *logins, void (*wake)(void *arg), void *arg);
/* What was noted since, oldest first, at most max; how many. */
uint32_t logins_noted(struct logins *logins, struct login_event *out, uint32_t max);
uint64_t logins_untold(struct logins *logins); /* what could not be noted, because nobody asked for what was */
/* The same happened at another node, at this time. */
void logins_hear(struct logins *logins, const struct login_event *event, uint64_t then_ms);

#endif
