#include "journal/commit.h"

#include "base/clock.h"
#include "base/disk.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/thread.h"
#include "journal/record.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The next decision often comes within microseconds of the last sync: a short spin is cheaper than sleeping and being woken
 * under the decision lock. Bounded, because a reactor may need this core. */
#define SPINS_MAX 400
#define GATHER_US_MAX 100

enum fault journal_acquire(struct journal **out, const struct journal_options *options)
{
    const uint32_t quarter = options->segment_bytes / 4 / SECTOR_BYTES * SECTOR_BYTES;
    const uint32_t batch_bytes_max = quarter < BATCH_BYTES_MAX ? quarter : BATCH_BYTES_MAX;
    assert(options->segment_bytes % SECTOR_BYTES == 0 && options->segment_bytes <= SEGMENT_BYTES_MAX);
    assert(batch_bytes_max >= BATCH_HEADER_BYTES + RECORD_BYTES_MAX);
    if (strlen(options->folder) >= FOLDER_BYTES_MAX) return FAULT_CONFIG;

    struct journal *journal = calloc(1, sizeof *journal);
    if (journal == NULL) return FAULT_MEMORY;
    journal->options = *options;
    memcpy(journal->folder, options->folder, strlen(options->folder) + 1);
    journal->options.folder = journal->folder;
    journal->batch_bytes_max = batch_bytes_max;
    journal->fd = journal->spare_fd = -1;
    journal->filling = &journal->batches[0];
    journal->writing = &journal->batches[1];
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&journal->work, &monotonic);
    pthread_cond_init(&journal->rest, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&journal->rest_lock, NULL);

    enum fault fault = chain_open(&journal->chain);
    for (int i = 0; i < 2; i++) {
        journal->batches[i].bytes = aligned_alloc(4096, (batch_bytes_max + 4095) / 4096 * 4096);
        if (journal->batches[i].bytes == NULL) fault = FAULT_MEMORY;
        batch_reset(&journal->batches[i]);
    }
    if (fault != FAULT_NONE) {
        journal_release(journal);
        return fault;
    }
    *out = journal;
    return FAULT_NONE;
}

void journal_release(struct journal *journal)
{
    if (journal->fd >= 0) disk_close(journal->fd);
    if (journal->spare_fd >= 0) disk_close(journal->spare_fd);
    chain_close(&journal->chain);
    free(journal->batches[0].bytes);
    free(journal->batches[1].bytes);
    pthread_cond_destroy(&journal->work);
    pthread_cond_destroy(&journal->rest);
    pthread_mutex_destroy(&journal->rest_lock);
    free(journal);
}

bool journal_has_room(const struct journal *journal)
{
    if (atomic_load_explicit(&journal->poisoned, memory_order_relaxed)) return false;
    if (atomic_load_explicit(&journal->space_low, memory_order_relaxed)) return false;
    const uint32_t length = journal->filling->length + RECORD_BYTES_MAX;
    if (length > journal->batch_bytes_max) return false;
    return journal->spare_ready || batch_span(length) <= journal->segment_left;
}

bool journal_has_room_to_spare(const struct journal *journal)
{
    uint64_t room = journal->batch_bytes_max;
    if (!journal->spare_ready && journal->segment_left < room) room = journal->segment_left;
    return journal_has_room(journal) && journal->filling->length + RECORD_BYTES_MAX <= room / 2;
}

void journal_append(struct journal *journal, const struct decision *decision, uint64_t digest)
{
    struct batch *batch = journal->filling;
    const uint64_t seq_last = atomic_load_explicit(&journal->seq_appended, memory_order_relaxed);
    assert(decision->seq == seq_last + 1);
    assert(batch->length + RECORD_BYTES_MAX <= journal->batch_bytes_max);

    if (batch->count == 0) batch->seq_first = decision->seq;
    batch->length += (uint32_t)record_encode(decision, batch->bytes + batch->length);
    batch->count++;
    batch->awaited += decision->kind != DECISION_EXPIRED;
    batch->at_ms = decision->at_ms;
    batch->digest = digest;
    atomic_store_explicit(&journal->seq_appended, decision->seq, memory_order_relaxed);
}

void journal_urge(struct journal *journal)
{
    atomic_store_explicit(&journal->urged_cpu, sched_getcpu(), memory_order_relaxed);
    pthread_mutex_lock(journal->options.lock);
    const uint64_t seq = atomic_load_explicit(&journal->seq_appended, memory_order_relaxed);
    atomic_store_explicit(&journal->seq_urged, seq, memory_order_relaxed);
    const bool wake = journal->sleeping && journal->filling->awaited >= journal->gather_enough;
    if (wake) journal->sleeping = false;
    pthread_mutex_unlock(journal->options.lock);
    /* Not before: woken on this processor it would find the lock held, and sleep again until it is not. */
    if (wake) pthread_cond_signal(&journal->work);
}

bool journal_sees_rush(const struct journal *journal, uint64_t *seq_looked, uint64_t decisions)
{
    const uint64_t before = *seq_looked;
    *seq_looked = journal_seq_durable(journal);
    return *seq_looked - before >= decisions;
}

uint64_t journal_seq_durable(const struct journal *journal)
{
    return atomic_load_explicit(&journal->seq_durable, memory_order_acquire);
}

uint64_t journal_commit_us(const struct journal *journal)
{
    return atomic_load_explicit(&journal->commit_ns, memory_order_relaxed) / 1000;
}

bool journal_poisoned(const struct journal *journal)
{
    return atomic_load_explicit(&journal->poisoned, memory_order_acquire);
}

const uint8_t *journal_uuid(const struct journal *journal)
{
    return journal->uuid;
}

/* For good (P10): nothing is written after this, so nothing is acknowledged. The waiting are woken once, to be told. */
static void journal_poison(struct journal *journal, const char *what)
{
    if (atomic_exchange_explicit(&journal->poisoned, true, memory_order_acq_rel)) return;
    log_error("journal", "%s failed: nothing after %" PRIu64 " is durable, and nothing more will be", what,
              journal_seq_durable(journal));
    if (journal->options.on_durable != NULL) {
        journal->options.on_durable(journal->options.arg, journal_seq_durable(journal));
    }
}

/* Under the lock, and short: the buffers change places, and it is settled where the batch goes. */
static bool batch_take(struct journal *journal)
{
    struct batch *batch = journal->filling;
    if (batch->count == 0) return false;
    const uint32_t span = batch_span(batch->length);
    journal->rotate = span > journal->segment_left;
    if (journal->rotate) {
        assert(journal->spare_ready);
        journal->spare_ready = false;
        journal->segment_left = segment_room(journal->options.segment_bytes, SEGMENT_HEADER_BYTES);
    }
    assert(span <= journal->segment_left);
    journal->segment_left -= span;
    journal->filling = journal->writing;
    journal->writing = batch;
    batch_reset(journal->filling);
    journal->seq_taken = batch->seq_first + batch->count - 1;
    return true;
}

/* The spare becomes the segment. Before the first batch goes into it, it has its name for good, and then the one before says
 * that it follows: the other way round a crash between the two would look like a lost segment. */
static enum fault segment_rotate(struct journal *journal, uint64_t seq_first)
{
    struct segment_header header = journal->header;
    header.bytes = journal->options.segment_bytes;
    header.number++;
    header.seq_first = seq_first;
    memcpy(header.chain_before, journal->chain.value, CHAIN_BYTES);
    uint8_t sector[SECTOR_BYTES];
    segment_header_put(&header, sector);
    char from[PATH_BYTES], to[PATH_BYTES];
    folder_path(from, journal->folder, SPARE_NAME);
    segment_path(to, journal->folder, seq_first, "");

    enum fault fault = disk_write_at(journal->spare_fd, sector, sizeof sector, 0);
    if (fault == FAULT_NONE) fault = disk_sync(journal->spare_fd);
    if (fault == FAULT_NONE) fault = disk_rename(from, to);
    if (fault == FAULT_NONE) fault = disk_sync_folder(journal->folder);
    if (fault == FAULT_NONE) fault = segment_mark(journal->fd, &journal->header, seq_first);
    if (fault != FAULT_NONE) return fault;

    disk_close(journal->fd);
    journal->fd = journal->spare_fd;
    journal->spare_fd = -1;
    journal->header = header;
    journal->seed = segment_seed(&header);
    chain_begin(&journal->chain, sector);
    journal->offset = SEGMENT_HEADER_BYTES;
    atomic_store_explicit(&journal->spare_wanted, true, memory_order_release);
    journal_preparer_wake(journal);
    return FAULT_NONE;
}

/* One that took long among many that do not says little about the next. */
static void commit_time_note(struct journal *journal, uint64_t took_ns)
{
    const uint64_t before_ns = atomic_load_explicit(&journal->commit_ns, memory_order_relaxed);
    atomic_store_explicit(&journal->commit_ns, before_ns - before_ns / 8 + took_ns / 8, memory_order_relaxed);
    metrics_observe(METRIC_COMMIT_SECONDS, took_ns);
}

/* Makes the batch taken durable and says so. Without the lock. */
static enum fault batch_commit(struct journal *journal)
{
    struct batch *batch = journal->writing;
    const uint64_t began_ns = mono_ns();
    enum fault fault = journal->rotate ? segment_rotate(journal, batch->seq_first) : FAULT_NONE;
    if (fault != FAULT_NONE) goto poison;
    const uint32_t span = batch_seal(batch, journal->seed, &journal->chain);
    fault = disk_write_at(journal->fd, batch->bytes, span, journal->offset);
    if (fault != FAULT_NONE) goto poison;
    fault = disk_sync(journal->fd);
    if (fault != FAULT_NONE) goto poison;

    journal->offset += span;
    const uint64_t seq_durable = batch->seq_first + batch->count - 1;
    atomic_store_explicit(&journal->seq_durable, seq_durable, memory_order_release);
    commit_time_note(journal, mono_ns() - began_ns);
    metrics_observe(METRIC_BATCH_DECISIONS, batch->count);
    metrics_add(METRIC_COMMITS, 1);
    metrics_add(METRIC_DECISIONS, batch->count);
    if (journal->options.on_durable != NULL) journal->options.on_durable(journal->options.arg, seq_durable);
    return FAULT_NONE;

poison:
    journal_poison(journal, "commit");
    return fault;
}

/* A spare that failed is a disk that fails, though nothing durable is touched yet. */
static bool preparer_ok(struct journal *journal)
{
    if (!atomic_load_explicit(&journal->prepare_failed, memory_order_acquire)) return true;
    journal_poison(journal, "preparing a segment");
    return false;
}

enum fault journal_commit_open(struct journal *journal)
{
    if (!preparer_ok(journal) || journal_poisoned(journal)) return FAULT_DISK;
    pthread_mutex_lock(journal->options.lock);
    const bool taken = batch_take(journal);
    pthread_mutex_unlock(journal->options.lock);
    return taken ? batch_commit(journal) : FAULT_NONE;
}

static bool work_waits(const struct journal *journal)
{
    return atomic_load_explicit(&journal->seq_urged, memory_order_relaxed) > journal->seq_taken ||
           atomic_load_explicit(&journal->stop, memory_order_relaxed) ||
           atomic_load_explicit(&journal->prepare_failed, memory_order_relaxed);
}

/* Whoever urged last decides on the processor that the committer runs on. Of several reactors another may be elsewhere; they
 * are known no better than by who came last. */
static bool shares_processor(const struct journal *journal)
{
    const int cpu = sched_getcpu();
    return cpu >= 0 && atomic_load_explicit(&journal->urged_cpu, memory_order_relaxed) == cpu;
}

static void work_await(struct journal *journal)
{
    const int spins_max = shares_processor(journal) ? 0 : SPINS_MAX; /* nobody could decide meanwhile */
    for (int i = 0; i < spins_max && !work_waits(journal); i++) {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("yield");
#endif
    }
    if (work_waits(journal)) return;
    pthread_mutex_lock(journal->options.lock);
    while (!work_waits(journal)) {
        journal->sleeping = true;
        pthread_cond_wait(&journal->work, journal->options.lock);
    }
    journal->sleeping = false;
    pthread_mutex_unlock(journal->options.lock);
}

/* A batch much smaller than the one before is the vanguard of a crowd that is still writing: a sync now would make the rest
 * wait for a second one. They get a moment; someone who is alone never waits, because the batch before was theirs alone too.
 * Expiries make no crowd, and where no one waits for the batch yet, one who was in the last may be about to come again.
 * Where the crowd's reactor has this processor, too, a commit that is under way costs it nothing while the disk works, and a
 * moment waited is one in which the disk does not. */
static void batch_gather(struct journal *journal)
{
    if (shares_processor(journal)) return;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += GATHER_US_MAX * 1000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(journal->options.lock);
    const uint32_t before = journal->writing->awaited;
    journal->gather_enough = before < 4 ? before > 0 : before / 2;
    int late = 0;
    while (late == 0 && journal->filling->awaited < journal->gather_enough && !atomic_load(&journal->stop)) {
        journal->sleeping = true;
        late = pthread_cond_timedwait(&journal->work, journal->options.lock, &until);
    }
    journal->sleeping = false;
    journal->gather_enough = 0;
    pthread_mutex_unlock(journal->options.lock);
}

static void *committer_run(void *arg)
{
    struct journal *journal = arg;
    thread_begin("committer");
    for (;;) {
        work_await(journal);
        batch_gather(journal);
        const bool stopping = atomic_load_explicit(&journal->stop, memory_order_acquire);
        if (journal_commit_open(journal) != FAULT_NONE || stopping) return NULL;
    }
}

enum fault journal_start(struct journal *journal)
{
    assert(!journal->started);
    if (pthread_create(&journal->committer, NULL, committer_run, journal) != 0) return FAULT_MEMORY;
    if (pthread_create(&journal->preparer, NULL, journal_preparer_run, journal) != 0) {
        atomic_store_explicit(&journal->stop, true, memory_order_release);
        pthread_mutex_lock(journal->options.lock);
        pthread_cond_signal(&journal->work);
        pthread_mutex_unlock(journal->options.lock);
        pthread_join(journal->committer, NULL);
        return FAULT_MEMORY;
    }
    journal->started = true;
    return FAULT_NONE;
}

static void threads_stop(struct journal *journal)
{
    pthread_mutex_lock(journal->options.lock);
    atomic_store_explicit(&journal->stop, true, memory_order_release);
    pthread_cond_signal(&journal->work);
    pthread_mutex_unlock(journal->options.lock);
    journal_preparer_wake(journal);
    pthread_join(journal->committer, NULL);
    pthread_join(journal->preparer, NULL);
}

void journal_close(struct journal *journal)
{
    if (journal == NULL) return;
    if (journal->started)
        threads_stop(journal);
    else if (!journal_poisoned(journal) && journal_commit_open(journal) != FAULT_NONE) {
        log_error("journal", "closed with decisions that are not durable");
    }

    /* A spare takes the space of a segment and is made anew at the next start. */
    if (journal->spare_fd >= 0 && !journal_poisoned(journal)) {
        char path[PATH_BYTES];
        folder_path(path, journal->folder, SPARE_NAME);
        if (disk_remove(path) != FAULT_NONE) log_warn("journal", "%s is left behind until the next start", path);
    }
    journal_release(journal);
}
