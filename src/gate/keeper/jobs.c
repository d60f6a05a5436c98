/* Whose job is it? Each job of one node at a time has a lock of its own name. The keeper takes, renews and loses those
 * locks; jobs that others do ask here whether they may go on. What they are told lasts no longer than the lock does, also
 * where the whole node has slept meanwhile: time goes on. */
#include "base/clock.h"
#include "base/log.h"
#include "gate/keeper/inside.h"

#define ASKED_MS 30000 /* who has not asked for so long does not want it any more, or is stuck */
#define TRY_MS 1000
/* What the ledger may be away for from when a lock should be renewed. More than the loss of one connection takes, and over
 * before the lock ends. */
#define WITHOUT_LEDGER_MS (LOCK_MS / 3)

static const char *const names[KEEPER_LOCKS] = {
    [KEEPER_LOCK_EXPIRY] = "expiry",
    [KEEPER_LOCK_WARM] = "warm",
    [KEEPER_LOCK_RECONCILE] = "reconcile",
    [KEEPER_LOCK_JOBS + GATE_JOB_COURIER] = "courier",
    [KEEPER_LOCK_JOBS + GATE_JOB_PUBLISHER] = "publisher",
};

void locks_init(struct keeper *keeper)
{
    for (int i = 0; i < KEEPER_LOCKS; i++) lock_init(&keeper->locks[i], keeper, names[i]);
}

static void locks_tell(struct keeper *keeper)
{
    pthread_mutex_lock(&keeper->lock);
    for (int i = 0; i < KEEPER_LOCKS; i++) keeper->status.owns[i] = keeper->locks[i].held;
    for (int i = 0; i < GATE_JOB_COUNT; i++) {
        const struct lock *lock = &keeper->locks[KEEPER_LOCK_JOBS + i];
        struct keeper_job *job = &keeper->jobs[i];
        job->number = lock->fence.number;
        job->until_ms = lock->held && job->fenced != job->number ? lock->until_ms : 0;
    }
    pthread_mutex_unlock(&keeper->lock);
}

/* All of them write into the ledger: who cannot reach it must not keep them from others, who may. Where nobody can they are
 * nobody's, until somebody can. */
bool job_keep(struct keeper *keeper, enum keeper_lock which)
{
    struct lock *lock = &keeper->locks[which];
    uint64_t now_ms = mono_ms();
    if (!lock->held || now_ms >= lock->until_ms || keeper_ledger_takes(keeper)) return lock_keep(lock, keeper);
    if (now_ms >= lock->renew_ms + WITHOUT_LEDGER_MS) {
        log_warn("keeper", "%s is left to other nodes: the ledger takes nothing from here", lock->job);
        lock_release(lock, keeper);
    }
    return lock->held;
}

void locks_keep(struct keeper *keeper)
{
    for (enum keeper_lock i = 0; i < KEEPER_LOCKS; i++) {
        if (keeper->locks[i].held && !job_keep(keeper, i)) log_debug("keeper", "%s is another's job", names[i]);
    }
    locks_tell(keeper);
}

void locks_release(struct keeper *keeper)
{
    for (int i = 0; i < KEEPER_LOCKS; i++) lock_release(&keeper->locks[i], keeper);
    locks_tell(keeper);
}

static void job_look(struct keeper *keeper, enum gate_job which)
{
    struct lock *lock = &keeper->locks[KEEPER_LOCK_JOBS + which];
    uint64_t now_ms = mono_ms();
    pthread_mutex_lock(&keeper->lock);
    struct keeper_job *job = &keeper->jobs[which];
    bool wanted = job->asked_ms != 0 && now_ms < job->asked_ms + ASKED_MS, fenced = job->fenced == lock->fence.number;
    pthread_mutex_unlock(&keeper->lock);
    if (lock->held && fenced) lock_fenced(lock);
    if (lock->held && !wanted) lock_release(lock, keeper);
    bool away = !redis_client_reaches(keeper->client, slice_of(lock->owned.key));
    if (lock->held || !wanted || away || now_ms < keeper->jobs_try_ms[which]) return;
    keeper->jobs_try_ms[which] = now_ms + TRY_MS;
    if (lock_take(lock, keeper)) log_info("keeper", "%s is this node's job from now on", lock->job);
}

void jobs_look(struct keeper *keeper)
{
    for (enum gate_job job = 0; job < GATE_JOB_COUNT; job++) job_look(keeper, job);
    locks_keep(keeper);
}

bool keeper_owns(struct keeper *keeper, enum gate_job which, struct ledger_fence *fence)
{
    uint64_t now_ms = mono_ms();
    pthread_mutex_lock(&keeper->lock);
    struct keeper_job *job = &keeper->jobs[which];
    bool owns = now_ms < job->until_ms;
    job->asked_ms = now_ms;
    *fence = (struct ledger_fence){ names[KEEPER_LOCK_JOBS + which], job->number };
    pthread_mutex_unlock(&keeper->lock);
    return owns;
}

void keeper_disown(struct keeper *keeper, enum gate_job which, const struct ledger_fence *fence)
{
    pthread_mutex_lock(&keeper->lock);
    struct keeper_job *job = &keeper->jobs[which];
    job->fenced = fence->number;
    if (job->number == fence->number) job->until_ms = 0;
    pthread_mutex_unlock(&keeper->lock);
}

void keeper_give_away(struct keeper *keeper, enum gate_job which)
{
    pthread_mutex_lock(&keeper->lock);
    keeper->jobs[which].asked_ms = keeper->jobs[which].until_ms = 0;
    pthread_mutex_unlock(&keeper->lock);
}
