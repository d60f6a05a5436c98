/* commit: the inside of a journal that is open for appending, shared by commit.c (decisions become durable), prepare.c (the
 * next segment), recover.c (how it comes to be) and the simulation, which runs the same steps on one thread.
 *
 * Who owns what:
 *   under the decision lock      filling, segment_left (which the preparer reads without it), spare_ready, sleeping,
 *                                gather_enough
 *   the committer                writing, rotate, seq_taken, fd, header, seed, chain, offset
 *   the preparer                 the file of the spare, until spare_ready; the committer from then on; look
 *   whoever urges, atomically    urged_cpu
 *   anyone, atomically           seq_appended, seq_durable, poisoned, space_low, spare_wanted, prepare_failed, stop
 *
 * Where a batch will stand is settled when it is taken, under the lock: journal_has_room() is true only if the rest of the
 * segment or a spare that is ready can hold what it admits, so the committer never waits for a segment. */
#ifndef STAMPEDE_JOURNAL_COMMIT_H
#define STAMPEDE_JOURNAL_COMMIT_H

#include "journal/batch.h"
#include "journal/journal.h"
#include "journal/segment.h"

#include <pthread.h>
#include <stdatomic.h>

struct journal {
    struct journal_options options;
    char folder[FOLDER_BYTES_MAX];
    uint8_t uuid[UUID_BYTES]; /* that of every header; apart, because anyone may read it at any time */
    uint32_t batch_bytes_max;

    struct batch batches[2];
    struct batch *filling, *writing;
    _Atomic uint64_t segment_left; /* bytes of the segment not yet given to a batch */
    bool spare_ready;
    bool sleeping;
    uint32_t gather_enough; /* decisions that are waited for before it is woken; 0: any urge does it */
    pthread_cond_t work;

    int fd;
    bool rotate; /* the batch taken begins the spare */
    struct segment_header header;
    uint32_t seed;
    struct chain chain;
    uint64_t offset;

    int spare_fd;
    struct {
        uint64_t seq, ms, left; /* the durable mark, the clock and segment_left as of the last look for a rush */
        uint64_t spare_ms;      /* what the last spare took */
    } look;
    pthread_mutex_t rest_lock; /* the preparer's sleep */
    pthread_cond_t rest;
    bool poked;

    _Atomic uint64_t seq_appended, seq_durable;
    _Atomic uint64_t commit_ns; /* a running mean; written by the committer */
    _Atomic uint64_t seq_urged; /* written under the decision lock */
    _Atomic int urged_cpu;      /* the processor of whoever urged last */
    uint64_t seq_taken;
    _Atomic bool poisoned, space_low, spare_wanted, prepare_failed, stop;

    bool started;
    pthread_t committer, preparer;
};

/* recover.c makes one with everything but the segment; commit.c frees it. */
enum fault journal_acquire(struct journal **out, const struct journal_options *options) MUST_USE;
void journal_release(struct journal *journal);

/* One turn of the committer: takes the open batch, if it holds anything, and makes it durable. FAULT_DISK or FAULT_SPACE
 * have poisoned the journal. Never while the committer runs. */
enum fault journal_commit_open(struct journal *journal) MUST_USE;
/* One turn of the preparer: looks at the space, makes a spare if one is wanted and no rush goes before it. A failure poisons
 * at the next commit. */
enum fault journal_prepare_spare(struct journal *journal) MUST_USE;
void *journal_preparer_run(void *journal); /* its thread */
void journal_preparer_wake(struct journal *journal);

/* Free space, compared with the limit. */
void journal_look_at_space(struct journal *journal);

#endif
