#include "gate/lock.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "base/text.h"
#include "gate/keeper_jobs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Only its owner renews or ends a lock. */
static const char renew_text[] =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0";
static const char release_text[] =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

void lock_init(struct lock *lock, const struct keeper *keeper, const char *job)
{
    uint8_t bytes[8];
    char hex[2 * sizeof bytes + 1] = "";
    random_bytes(bytes, sizeof bytes);
    hex_encode(hex, bytes, sizeof bytes);
    memset(lock, 0, sizeof *lock);
    snprintf(lock->job, sizeof lock->job, "%s", job);
    snprintf(lock->key, sizeof lock->key, "%slock:%s", keeper->remote->options.prefix, job);
    snprintf(lock->owner, sizeof lock->owner, "node %u %s", numbers_node(&keeper->remote->numbers), hex);
    lock->fence.job = lock->job;
}

static void is_ok(void *arg, const struct redis_reply *reply)
{
    *(bool *)arg = reply->type == REDIS_WORD && slice_is(reply->text, "OK");
}

static void is_one(void *arg, const struct redis_reply *reply)
{
    *(bool *)arg = reply->type == REDIS_NUMBER && reply->number == 1;
}

static void lock_lasts_from(struct lock *lock, uint64_t asked_ms)
{
    lock->renew_ms = asked_ms + LOCK_MS / 3;
    lock->until_ms = asked_ms + LOCK_MS;
}

static bool lock_set(struct lock *lock, struct keeper *keeper)
{
    char ttl[24];
    bool ok = false;
    snprintf(ttl, sizeof ttl, "%d", LOCK_MS);
    const struct slice argv[] = { SLICE("SET"), slice_of(lock->key), slice_of(lock->owner),
                                  SLICE("NX"),  SLICE("PX"),         slice_of(ttl) };
    struct command_ask ask = { .argv = argv, .argc = 6, .key = argv[1], .read = is_ok, .arg = &ok };
    lock_lasts_from(lock, mono_ms());
    return keeper_command(keeper, &ask) && ok;
}

bool lock_take(struct lock *lock, struct keeper *keeper)
{
    struct ledger *ledger = keeper_ledger(keeper);
    if (ledger == NULL || !lock_set(lock, keeper)) return false;
    enum fault fault = ledger_fence_raise(ledger, &lock->fence);
    lock->held = fault == FAULT_NONE && mono_ms() < lock->until_ms;
    if (fault != FAULT_NONE) keeper_ledger_failed(keeper, fault);
    if (!lock->held) {
        lock->held = true;
        lock_release(lock, keeper);
        return false;
    }
    log_debug("keeper", "%s is ours as number %" PRIu64, lock->job, lock->fence.number);
    return true;
}

static void lock_lose(struct lock *lock, const char *why)
{
    lock->held = false;
    log_warn("keeper", "the lock of %s is lost: %s", lock->job, why);
}

void lock_fenced(struct lock *lock)
{
    if (lock->held) lock_lose(lock, "the job was given to another");
}

bool lock_keep(struct lock *lock, struct keeper *keeper)
{
    uint64_t now_ms = mono_ms();
    if (lock->held && now_ms >= lock->until_ms) lock_lose(lock, "it was not renewed in time");
    if (!lock->held || now_ms < lock->renew_ms) return lock->held;

    char ttl[24];
    bool ours = false;
    snprintf(ttl, sizeof ttl, "%d", LOCK_MS);
    const struct slice argv[] = { SLICE("EVAL"),       slice_of(renew_text),  SLICE("1"),
                                  slice_of(lock->key), slice_of(lock->owner), slice_of(ttl) };
    struct command_ask ask = { .argv = argv, .argc = 6, .key = argv[3], .read = is_one, .arg = &ours };
    if (!keeper_command(keeper, &ask)) { /* no answer: it may last until its end, and is asked for again before */
        lock->renew_ms = now_ms + LOCK_MS / 6;
        return mono_ms() < lock->until_ms;
    }
    if (!ours) lock_lose(lock, "another has it, or Redis has forgotten it");
    if (ours) lock_lasts_from(lock, now_ms);
    return lock->held;
}

void lock_release(struct lock *lock, struct keeper *keeper)
{
    if (!lock->held) return;
    lock->held = false;
    bool gone;
    const struct slice argv[] = { SLICE("EVAL"), slice_of(release_text), SLICE("1"), slice_of(lock->key),
                                  slice_of(lock->owner) };
    struct command_ask ask = { .argv = argv, .argc = 5, .key = argv[3], .read = is_one, .arg = &gone };
    if (!keeper_command(keeper, &ask)) log_debug("keeper", "the lock of %s ends by itself", lock->job);
}
