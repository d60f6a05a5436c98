/* The preparer: the next segment, zeros and all, before it is needed, and an eye on the space that is free. */
#include "base/clock.h"
#include "base/disk.h"
#include "base/log.h"
#include "base/thread.h"
#include "journal/commit.h"

#include <inttypes.h>
#include <time.h>

#define SPACE_LOOK_MS 1000
#define PREPARER_NICE 10
/* Zeros synced at a time, so that a commit never queues behind a whole segment of them. */
#define PREPARE_STEP_BYTES (4u << 20)
/* Of the time that a spare takes, less than this many are too few to begin with it: under a rush it takes longer. */
#define SPARES_AHEAD 4

void journal_look_at_space(struct journal *journal)
{
    uint64_t bytes_free = 0;
    /* A file system that cannot say how much is free gets nothing more to keep. */
    const bool low = disk_space(journal->folder, &bytes_free) != FAULT_NONE || bytes_free < journal->options.space_bytes_min;
    if (atomic_exchange_explicit(&journal->space_low, low, memory_order_relaxed) == low) return;
    if (low)
        log_warn("journal", "%" PRIu64 " bytes are free: nothing is sold until there are %" PRIu64, bytes_free,
                 journal->options.space_bytes_min);
    else
        log_info("journal", "%" PRIu64 " bytes are free: selling goes on", bytes_free);
}

static bool space_for_spare(const struct journal *journal)
{
    uint64_t bytes_free = 0;
    return disk_space(journal->folder, &bytes_free) == FAULT_NONE &&
           bytes_free >= journal->options.space_bytes_min + journal->options.segment_bytes;
}

static enum fault spare_make(struct journal *journal)
{
    char path[PATH_BYTES];
    folder_path(path, journal->folder, SPARE_NAME);
    int fd;
    enum fault fault = disk_create(path, &fd);
    if (fault != FAULT_NONE) return fault;
    fault = segment_zero(fd, 0, journal->options.segment_bytes, PREPARE_STEP_BYTES, &journal->stop);
    if (fault == FAULT_NONE) fault = disk_sync_all(fd);
    if (fault != FAULT_NONE) {
        disk_close(fd);
        return fault;
    }
    journal->spare_fd = fd;
    /* Before the committer can see it: it may use this one up and want another at once. */
    atomic_store_explicit(&journal->spare_wanted, false, memory_order_relaxed);
    pthread_mutex_lock(journal->options.lock);
    journal->spare_ready = true;
    pthread_mutex_unlock(journal->options.lock);
    return FAULT_NONE;
}

/* A segment of zeros is as much for disk and processor as the decisions that it will hold: those of a rush were seen to take
 * half as long again meanwhile. So the rush goes first while half of the segment that has begun is left, and while it would
 * take several times as long to fill that as a spare takes: a slow disk begins at once. */
static bool rush_goes_first(struct journal *journal)
{
    const uint64_t left = journal->segment_left, now_ms = mono_ms();
    const uint64_t began = journal->look.left >= left ? journal->look.left : journal->options.segment_bytes;
    const uint64_t used = began - left, took_ms = now_ms - journal->look.ms;
    const bool rush = journal_sees_rush(journal, &journal->look.seq, RUSH_DECISIONS);
    journal->look.left = left;
    journal->look.ms = now_ms;
    if (!rush || left <= journal->options.segment_bytes / 2) return false;
    return left * took_ms >= used * SPARES_AHEAD * (journal->look.spare_ms + RUSH_LOOK_MS);
}

static bool spare_is_wanted(const struct journal *journal)
{
    return atomic_load_explicit(&journal->spare_wanted, memory_order_acquire);
}

enum fault journal_prepare_spare(struct journal *journal)
{
    journal_look_at_space(journal);
    if (!spare_is_wanted(journal) || !space_for_spare(journal) || rush_goes_first(journal)) return FAULT_NONE;
    const uint64_t began_ms = mono_ms();
    const enum fault fault = spare_make(journal);
    journal->look.spare_ms = mono_ms() - began_ms;
    if (fault == FAULT_NONE)
        journal_look_at_space(journal);
    else if (fault != FAULT_TIMEOUT)
        atomic_store_explicit(&journal->prepare_failed, true, memory_order_release);
    return fault;
}

static void preparer_rest(struct journal *journal)
{
    const uint64_t until_ms = mono_ms() + (spare_is_wanted(journal) ? RUSH_LOOK_MS : SPACE_LOOK_MS);
    const struct timespec until = { .tv_sec = (time_t)(until_ms / 1000), .tv_nsec = (long)(until_ms % 1000) * 1000000 };
    pthread_mutex_lock(&journal->rest_lock);
    if (!journal->poked) pthread_cond_timedwait(&journal->rest, &journal->rest_lock, &until);
    journal->poked = false;
    pthread_mutex_unlock(&journal->rest_lock);
}

void *journal_preparer_run(void *arg)
{
    struct journal *journal = arg;
    thread_begin("preparer");
    thread_be_nice("journal", PREPARER_NICE);
    while (!atomic_load_explicit(&journal->stop, memory_order_acquire) && !journal_poisoned(journal)) {
        const enum fault fault = journal_prepare_spare(journal);
        if (fault == FAULT_TIMEOUT) break;
        if (fault != FAULT_NONE) {
            pthread_mutex_lock(journal->options.lock);
            pthread_cond_signal(&journal->work);
            pthread_mutex_unlock(journal->options.lock);
            break;
        }
        preparer_rest(journal);
    }
    return NULL;
}

void journal_preparer_wake(struct journal *journal)
{
    pthread_mutex_lock(&journal->rest_lock);
    journal->poked = true;
    pthread_cond_signal(&journal->rest);
    pthread_mutex_unlock(&journal->rest_lock);
}
