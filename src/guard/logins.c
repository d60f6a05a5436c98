#include "guard/logins.h"

#include "base/log.h"
#include "base/random.h"
#include "base/region.h"
#include "base/siphash.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define WAYS 8
#define NOTES 1024

/* Something that is remembered for a while and makes wait: an address, a pair of account and address, that the pair has
 * logged in, or that it has failed. idle_ms in the past is the same as never seen. */
struct mark {
    uint64_t key;
    uint64_t idle_ms; /* when it may be forgotten */
    uint64_t free_ms; /* until then it waits */
    uint64_t last_ms; /* of an address: up to when failures have been forgiven */
    uint64_t count;
};

/* The tries of an account: when each of them stops to count, in no order. In the past: it does not. */
struct tries {
    uint64_t key;
    uint64_t ends_ms[LOGIN_TRIES_MAX];
    uint64_t newcomers_ms; /* until then it has no try for an address that has failed */
};

#define TABLES 5

struct logins {
    pthread_mutex_t lock;
    struct region regions[TABLES];
    struct mark *pairs, *addresses, *known, *failed;
    struct tries *accounts;
    uint64_t set_mask;
    uint8_t secret[16];
    void (*wake)(void *arg); /* NULL: nothing is noted */
    void *wake_arg;
    struct login_event notes[NOTES]; /* a ring: those from notes_first on */
    uint32_t notes_first, notes_count;
    uint64_t untold;
};

_Static_assert(LOGIN_PAIR_WAIT_MS_MAX < LOGIN_PAIR_QUIET_MS, "nobody is forgotten while they wait");
_Static_assert(LOGIN_NEWCOMER_MS > LOGIN_TRIES_SPAN_MS, "a newcomer who comes again when told to finds a try");

enum fault logins_open(struct logins **out, uint32_t places)
{
    assert(places > 0 && places <= UINT32_C(1) << 28);
    uint64_t sets = 1;
    while (sets * WAYS < places) sets *= 2;

    struct logins *logins = calloc(1, sizeof(*logins));
    if (logins == NULL) {
        log_error("logins", "no memory for the protection of logins");
        return FAULT_MEMORY;
    }
    for (int i = 0; i < TABLES; i++) {
        size_t cell = i == TABLES - 1 ? sizeof(struct tries) : sizeof(struct mark);
        if (region_open(&logins->regions[i], sets * WAYS * cell) != FAULT_NONE) goto fail;
    }
    logins->pairs = (struct mark *)(void *)logins->regions[0].base;
    logins->addresses = (struct mark *)(void *)logins->regions[1].base;
    logins->known = (struct mark *)(void *)logins->regions[2].base;
    logins->failed = (struct mark *)(void *)logins->regions[3].base;
    logins->accounts = (struct tries *)(void *)logins->regions[TABLES - 1].base;
    logins->set_mask = sets - 1;
    random_bytes(logins->secret, sizeof(logins->secret));
    pthread_mutex_init(&logins->lock, NULL);
    *out = logins;
    return FAULT_NONE;

fail:
    for (int i = 0; i < TABLES; i++) region_close(&logins->regions[i]);
    free(logins);
    return FAULT_MEMORY;
}

void logins_close(struct logins *logins)
{
    if (logins == NULL) return;
    pthread_mutex_destroy(&logins->lock);
    for (int i = 0; i < TABLES; i++) region_close(&logins->regions[i]);
    free(logins);
}

/* Who tries, as the tables know them. */
struct asker {
    uint64_t account, address, pair;
    uint64_t now_ms;
};

static struct asker asker_of(const struct logins *logins, struct slice account, const struct address *address,
                             uint64_t now_ms)
{
    struct address seen = address_rate_key(address);
    struct asker asker = { .now_ms = now_ms };
    asker.account = siphash(logins->secret, account.data, account.len);
    asker.address = siphash(logins->secret, seen.bytes, sizeof(seen.bytes));
    uint8_t both[sizeof(asker.account) + sizeof(seen.bytes)];
    memcpy(both, &asker.account, sizeof(asker.account));
    memcpy(both + sizeof(asker.account), seen.bytes, sizeof(seen.bytes));
    asker.pair = siphash(logins->secret, both, sizeof(both));
    return asker;
}

/* NULL if it is not remembered. */
static struct mark *mark_find(const struct logins *logins, struct mark *table, uint64_t key, uint64_t now_ms)
{
    struct mark *set = &table[(key & logins->set_mask) * WAYS];
    for (int i = 0; i < WAYS; i++) {
        if (set[i].key == key && set[i].idle_ms > now_ms) return &set[i];
    }
    return NULL;
}

/* Whether a is to be forgotten rather than b: one that is idle, then one with the smaller count, so that a flood of names
 * each tried once does not make us forget one tried often; among equals the older. */
static bool mark_is_less(const struct mark *a, const struct mark *b, uint64_t now_ms)
{
    bool a_idle = a->idle_ms <= now_ms, b_idle = b->idle_ms <= now_ms;
    if (a_idle || b_idle) return a_idle && !b_idle;
    return a->count != b->count ? a->count < b->count : a->idle_ms < b->idle_ms;
}

/* The one that is remembered, or else a new one in place of the least. */
static struct mark *mark_make(const struct logins *logins, struct mark *table, uint64_t key, uint64_t now_ms)
{
    struct mark *mark = mark_find(logins, table, key, now_ms);
    if (mark != NULL) return mark;
    struct mark *set = &table[(key & logins->set_mask) * WAYS];
    mark = &set[0];
    for (int i = 1; i < WAYS; i++) {
        if (mark_is_less(&set[i], mark, now_ms)) mark = &set[i];
    }
    *mark = (struct mark){ .key = key, .last_ms = now_ms };
    return mark;
}

static uint64_t mark_wait(const struct mark *mark, uint64_t now_ms)
{
    return mark != NULL && mark->free_ms > now_ms ? mark->free_ms - now_ms : 0;
}

static int tries_live(const struct tries *tries, uint64_t now_ms)
{
    int live = 0;
    for (int i = 0; i < LOGIN_TRIES_MAX; i++) live += tries->ends_ms[i] > now_ms;
    return live;
}

static uint64_t tries_last(const struct tries *tries)
{
    uint64_t last = 0;
    for (int i = 0; i < LOGIN_TRIES_MAX; i++) last = tries->ends_ms[i] > last ? tries->ends_ms[i] : last;
    return last;
}

static struct tries *tries_find(const struct logins *logins, uint64_t key)
{
    struct tries *set = &logins->accounts[(key & logins->set_mask) * WAYS];
    for (int i = 0; i < WAYS; i++) {
        if (set[i].key == key) return &set[i];
    }
    return NULL;
}

/* As mark_make(): the account with the fewest tries makes room, among equals the one that was tried longest ago. */
static struct tries *tries_make(const struct logins *logins, uint64_t key, uint64_t now_ms)
{
    struct tries *found = tries_find(logins, key);
    if (found != NULL) return found;
    struct tries *set = &logins->accounts[(key & logins->set_mask) * WAYS];
    struct tries *least = &set[0];
    for (int i = 1; i < WAYS; i++) {
        int a = tries_live(&set[i], now_ms), b = tries_live(least, now_ms);
        if (a < b || (a == b && tries_last(&set[i]) < tries_last(least))) least = &set[i];
    }
    *least = (struct tries){ .key = key };
    return least;
}

/* How long until fewer than max of them count. */
static uint64_t tries_wait(const struct tries *tries, int max, uint64_t now_ms)
{
    if (tries == NULL) return 0;
    uint64_t sorted[LOGIN_TRIES_MAX];
    int live = 0;
    for (int i = 0; i < LOGIN_TRIES_MAX; i++) {
        uint64_t ends_ms = tries->ends_ms[i];
        if (ends_ms <= now_ms) continue;
        int at = live++;
        for (; at > 0 && sorted[at - 1] > ends_ms; at--) sorted[at] = sorted[at - 1];
        sorted[at] = ends_ms;
    }
    return live < max ? 0 : sorted[live - max] - now_ms;
}

/* NULL: none counts. */
static uint64_t *tries_oldest(struct tries *tries, uint64_t now_ms)
{
    uint64_t *oldest = NULL;
    for (int i = 0; i < LOGIN_TRIES_MAX; i++) {
        uint64_t *one = &tries->ends_ms[i];
        if (*one > now_ms && (oldest == NULL || *one < *oldest)) oldest = one;
    }
    return oldest;
}

/* Beyond max, which only what another node let through can be, it counts from when the oldest stops to. */
static void tries_add(struct tries *tries, int max, uint64_t now_ms)
{
    if (tries_live(tries, now_ms) >= max) {
        *tries_oldest(tries, now_ms) += LOGIN_TRIES_SPAN_MS;
        return;
    }
    int at = 0;
    while (tries->ends_ms[at] > now_ms) at++;
    tries->ends_ms[at] = now_ms + LOGIN_TRIES_SPAN_MS;
}

/* One try less. The oldest goes, whichever it was: so no failed one stops to count before its time. */
static void tries_remove(struct tries *tries, uint64_t now_ms)
{
    uint64_t *oldest = tries != NULL ? tries_oldest(tries, now_ms) : NULL;
    if (oldest != NULL) *oldest = 0;
}

/* first, doubled so many times, at most max. */
static uint64_t wait_grown(uint64_t first, uint64_t doubled, uint64_t max)
{
    return doubled >= 32 || first << doubled > max ? max : first << doubled;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* What the account itself makes this asker wait; a newcomer who has to is remembered. */
static uint64_t account_wait(struct logins *logins, const struct asker *asker, bool known)
{
    struct tries *tries = tries_find(logins, asker->account);
    uint64_t now_ms = asker->now_ms;
    if (tries == NULL || known) return tries_wait(tries, LOGIN_TRIES_MAX, now_ms);

    const struct mark *pair = mark_find(logins, logins->pairs, asker->pair, now_ms);
    bool newcomer = (pair == NULL || pair->count == 0) && mark_find(logins, logins->failed, asker->pair, now_ms) == NULL;
    uint64_t wait_ms = tries_wait(tries, LOGIN_TRIES_MAX - LOGIN_TRIES_KEPT, now_ms);
    if (newcomer && wait_ms > 0) tries->newcomers_ms = now_ms + LOGIN_NEWCOMER_MS;
    if (!newcomer && tries->newcomers_ms > now_ms) wait_ms = larger(wait_ms, tries->newcomers_ms - now_ms);
    return wait_ms;
}

static bool asker_is_known(const struct logins *logins, const struct asker *asker)
{
    return mark_find(logins, logins->known, asker->pair, asker->now_ms) != NULL;
}

static uint64_t asker_wait(struct logins *logins, const struct asker *asker)
{
    uint64_t now_ms = asker->now_ms;
    bool known = asker_is_known(logins, asker);
    uint64_t wait_ms = mark_wait(mark_find(logins, logins->pairs, asker->pair, now_ms), now_ms);
    if (!known) wait_ms = larger(wait_ms, mark_wait(mark_find(logins, logins->addresses, asker->address, now_ms), now_ms));
    return larger(wait_ms, account_wait(logins, asker, known));
}

/* Counted now, not when it has failed: many tries sent at once would all come before the first failure. */
static void tried_locked(struct logins *logins, const struct asker *asker)
{
    uint64_t now_ms = asker->now_ms;
    int max = asker_is_known(logins, asker) ? LOGIN_TRIES_MAX : LOGIN_TRIES_MAX - LOGIN_TRIES_KEPT;
    tries_add(tries_make(logins, asker->account, now_ms), max, now_ms);
    struct mark *pair = mark_make(logins, logins->pairs, asker->pair, now_ms);
    pair->count++;
    pair->idle_ms = now_ms + LOGIN_PAIR_QUIET_MS;
    if (pair->count >= LOGIN_PAIR_TRIES)
        pair->free_ms = now_ms + wait_grown(LOGIN_PAIR_WAIT_MS, pair->count - LOGIN_PAIR_TRIES, LOGIN_PAIR_WAIT_MS_MAX);
}

static void address_forgive(struct mark *mark, uint64_t now_ms)
{
    if (now_ms <= mark->last_ms) return;
    uint64_t forgiven = (now_ms - mark->last_ms) / LOGIN_ADDRESS_FORGIVE_MS;
    mark->count -= forgiven < mark->count ? forgiven : mark->count;
    mark->last_ms += forgiven * LOGIN_ADDRESS_FORGIVE_MS;
}

static void failed_locked(struct logins *logins, const struct asker *asker)
{
    uint64_t now_ms = asker->now_ms;
    struct mark *mark = mark_make(logins, logins->addresses, asker->address, now_ms);
    address_forgive(mark, now_ms);
    mark->count++;
    if (mark->count > LOGIN_ADDRESS_FAILURES) {
        uint64_t doubled = (mark->count - LOGIN_ADDRESS_FAILURES) / LOGIN_ADDRESS_DOUBLES;
        uint64_t wait_ms = wait_grown(LOGIN_ADDRESS_WAIT_MS, doubled, LOGIN_ADDRESS_WAIT_MS_MAX);
        mark->free_ms = larger(mark->free_ms, now_ms + wait_ms);
        /* Failures that could not make the wait longer are not remembered either: quiet then helps within two minutes. */
        if (wait_ms == LOGIN_ADDRESS_WAIT_MS_MAX) mark->count--;
    }
    mark->idle_ms = larger(mark->free_ms, now_ms + mark->count * LOGIN_ADDRESS_FORGIVE_MS);

    struct mark *failed = mark_make(logins, logins->failed, asker->pair, now_ms);
    failed->count++;
    failed->idle_ms = now_ms + LOGIN_STRANGER_MS;
}

static void succeeded_locked(struct logins *logins, const struct asker *asker)
{
    struct mark *pair = mark_find(logins, logins->pairs, asker->pair, asker->now_ms);
    if (pair != NULL) *pair = (struct mark){ 0 };
    tries_remove(tries_find(logins, asker->account), asker->now_ms);
    struct mark *known = mark_make(logins, logins->known, asker->pair, asker->now_ms);
    known->count = 1;
    known->idle_ms = asker->now_ms + LOGIN_KNOWN_MS;
}

static void untried_locked(struct logins *logins, const struct asker *asker)
{
    struct mark *pair = mark_find(logins, logins->pairs, asker->pair, asker->now_ms);
    if (pair != NULL && pair->count > 0) {
        pair->count--;
        pair->free_ms = asker->now_ms;
    }
    tries_remove(tries_find(logins, asker->account), asker->now_ms);
}

static void (*const happened[LOGIN_NEWS_COUNT])(struct logins *logins, const struct asker *asker) = {
    [LOGIN_TRIED] = tried_locked,
    [LOGIN_FAILED] = failed_locked,
    [LOGIN_SUCCEEDED] = succeeded_locked,
    [LOGIN_UNTRIED] = untried_locked,
};

static void note_locked(struct logins *logins, enum login_news news, const struct asker *asker)
{
    if (logins->wake == NULL) return;
    if (logins->notes_count == NOTES) {
        logins->untold++;
        return;
    }
    logins->notes[(logins->notes_first + logins->notes_count++) % NOTES] = (struct login_event){
        .news = news, .account = asker->account, .address = asker->address, .pair = asker->pair
    };
    logins->wake(logins->wake_arg);
}

/* It happened here. */
static void happens(struct logins *logins, enum login_news news, const struct asker *asker)
{
    pthread_mutex_lock(&logins->lock);
    happened[news](logins, asker);
    note_locked(logins, news, asker);
    pthread_mutex_unlock(&logins->lock);
}

bool logins_may_try(struct logins *logins, struct slice account, const struct address *address, uint64_t now_ms,
                    uint64_t *retry_ms)
{
    struct asker asker = asker_of(logins, account, address, now_ms);
    pthread_mutex_lock(&logins->lock);
    *retry_ms = asker_wait(logins, &asker);
    bool pass = *retry_ms == 0;
    if (pass) {
        tried_locked(logins, &asker);
        note_locked(logins, LOGIN_TRIED, &asker);
    }
    pthread_mutex_unlock(&logins->lock);
    return pass;
}

void logins_failed(struct logins *logins, struct slice account, const struct address *address, uint64_t now_ms)
{
    struct asker asker = asker_of(logins, account, address, now_ms);
    happens(logins, LOGIN_FAILED, &asker);
}

void logins_succeeded(struct logins *logins, struct slice account, const struct address *address, uint64_t now_ms)
{
    struct asker asker = asker_of(logins, account, address, now_ms);
    happens(logins, LOGIN_SUCCEEDED, &asker);
}

void logins_untried(struct logins *logins, struct slice account, const struct address *address, uint64_t now_ms)
{
    struct asker asker = asker_of(logins, account, address, now_ms);
    happens(logins, LOGIN_UNTRIED, &asker);
}

void logins_agree(struct logins *logins, const uint8_t secret[16])
{
    memcpy(logins->secret, secret, sizeof(logins->secret));
}

void logins_on_noted(struct logins *logins, void (*wake)(void *arg), void *arg)
{
    logins->wake_arg = arg;
    logins->wake = wake;
}

uint32_t logins_noted(struct logins *logins, struct login_event *out, uint32_t max)
{
    uint32_t count = 0;
    pthread_mutex_lock(&logins->lock);
    for (; count < max && logins->notes_count > 0; logins->notes_count--) {
        out[count++] = logins->notes[logins->notes_first];
        logins->notes_first = (logins->notes_first + 1) % NOTES;
    }
    pthread_mutex_unlock(&logins->lock);
    return count;
}

uint64_t logins_untold(struct logins *logins)
{
    pthread_mutex_lock(&logins->lock);
    uint64_t untold = logins->untold;
    pthread_mutex_unlock(&logins->lock);
    return untold;
}

void logins_hear(struct logins *logins, const struct login_event *event, uint64_t then_ms)
{
    assert(event->news < LOGIN_NEWS_COUNT);
    const struct asker asker = {
        .account = event->account, .address = event->address, .pair = event->pair, .now_ms = then_ms
    };
    pthread_mutex_lock(&logins->lock);
    happened[event->news](logins, &asker);
    pthread_mutex_unlock(&logins->lock);
}
