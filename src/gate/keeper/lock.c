#include "gate/keeper/lock.h"

#include "base/clock.h"
#include "base/log.h"
#include "gate/keeper/inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void lock_init(struct lock *lock, const struct keeper *keeper, const char *job)
{
    char who[24];
    memset(lock, 0, sizeof *lock);
    snprintf(lock->job, sizeof lock->job, "%s", job);
    snprintf(lock->owned.key, sizeof lock->owned.key, "%slock:%s", keeper->remote->options.prefix, job);
    snprintf(who, sizeof who, "node %u", numbers_node(&keeper->remote->numbers));
    owned_sign(&lock->owned, who);
    lock->fence.job = lock->job;
}

static void lock_lasts_from(struct lock *lock, uint64_t asked_ms)
{
    lock->renew_ms = asked_ms + LOCK_MS / 3;
    lock->until_ms = asked_ms + LOCK_MS;
}

static void lock_give_back(struct lock *lock, struct keeper *keeper)
{
    lock->held = false;
    if (!owned_release(&lock->owned, keeper)) log_debug("keeper", "the lock of %s ends by itself", lock->job);
}

bool lock_take(struct lock *lock, struct keeper *keeper)
{
    struct ledger *ledger = keeper_ledger(keeper);
    struct owned_answer answer;
    if (ledger == NULL || !keeper_ledger_takes(keeper)) return false;
    lock_lasts_from(lock, mono_ms());
    if (!owned_take(&lock->owned, keeper, LOCK_MS, &answer) || !answer.ours) return false;
    enum fault fault = ledger_fence_raise(ledger, &lock->fence);
    if (fault != FAULT_NONE) keeper_ledger_failed(keeper, fault);
    if (fault != FAULT_NONE || mono_ms() >= lock->until_ms) {
        lock_give_back(lock, keeper);
        return false;
    }
    lock->held = true;
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

    struct owned_answer answer;
    if (!owned_renew(&lock->owned, keeper, LOCK_MS, &answer)) { /* it may last until its end, and is asked for before */
        lock->renew_ms = now_ms + LOCK_MS / 6;
        return mono_ms() < lock->until_ms;
    }
    if (!answer.ours) lock_lose(lock, "another has it, or Redis has forgotten it");
    if (answer.ours) lock_lasts_from(lock, now_ms);
    return lock->held;
}

void lock_release(struct lock *lock, struct keeper *keeper)
{
    if (lock->held) lock_give_back(lock, keeper);
}
