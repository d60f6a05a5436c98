/* journal: the durable order of decisions.
 *
 * journal_append() encodes a decision into the open batch; the committer thread makes a whole batch durable with one
 * write and one fdatasync, then publishes the durable mark. No buyer hears "won" before the batch that holds the win is
 * durable (P3). A failed write or sync poisons the journal for good (P10): the kernel may already have dropped the dirty
 * pages, so a retry that succeeds would prove nothing.
 *
 * The open batch is guarded by the lock the caller decides under, given at open, so that journal order is decision order.
 * The format stands in journal/format.h as offset tables. */
#ifndef STAMPEDE_JOURNAL_JOURNAL_H
#define STAMPEDE_JOURNAL_JOURNAL_H

#include "base/fault.h"
#include "engine/decision.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct journal;

struct journal_options {
    const char *folder;       /* DATA/journal; made if missing */
    uint32_t segment_bytes;   /* for new segments */
    uint64_t space_bytes_min; /* free bytes under which journal_has_room() is false */
    pthread_mutex_t *lock;    /* the decision lock */
    /* Called on the committer's thread after each advance of the durable mark, and once when poisoned. */
    void (*on_durable)(void *arg, uint64_t seq_durable);
    void *arg;
};

/* Where recovery starts and what it checks against; all zero for an empty ledger. */
struct journal_point {
    uint64_t seq;     /* last decision the ledger has filed */
    uint64_t digest;  /* engine digest at seq */
    uint8_t uuid[16]; /* the journal the ledger belongs to; all zero: none yet */
};

/* What recovery found wrong: a sentence for the operator. */
struct journal_damage {
    bool of_ledger; /* set by the gate: not the journal, so there is neither file nor offset */
    char file[256];
    uint64_t offset;
    char reason[256];
};

/* Gives each durable decision after point.seq in order; a non-NULL answer is the reason it cannot be, which is damage. At
 * the end of every batch batch_end, where given, is called with the digest stored in it; answers likewise. Before them
 * batch_begin is, where given, with the batch's version, which is the kind of that digest (enum digest_kind). */
struct journal_reader {
    void (*batch_begin)(void *arg, uint32_t version);
    const char *(*decision)(void *arg, const struct decision *decision);
    const char *(*batch_end)(void *arg, uint64_t seq, uint64_t digest);
    void *arg;
};

/* Scans, judges and replays; cuts an unacknowledged torn tail; rewrites the good part of the last segment; then is ready
 * to append. FAULT_DAMAGE fills *damage and changes nothing on disk. The committer is not running yet. */
enum fault journal_open(struct journal **out, const struct journal_options *options, const struct journal_point *point,
                        const struct journal_reader *reader, struct journal_damage *damage) MUST_USE;
enum fault journal_start(struct journal *journal) MUST_USE;
/* Commits what is open, stops the committer, closes. */
void journal_close(struct journal *journal);

/* Under the lock. Room for one more decision of any size; false means BUSY: the batch is full, the disk space low, the
 * segment at its end and the next not prepared yet, or the journal poisoned. Never waits. */
bool journal_has_room(const struct journal *journal);
/* The same for those who can wait, such as expiries: they leave half of what fits to those who cannot. */
bool journal_has_room_to_spare(const struct journal *journal);
/* Under the lock, after journal_has_room(). digest is the engine's after applying the decision. */
void journal_append(struct journal *journal, const struct decision *decision, uint64_t digest);

/* Any thread, not under the lock: what has been appended is to be committed now. A lane says so at the end of its turn, so
 * that all that was decided in it shares one sync; a committer woken by the first decision of a turn would take it alone. */
void journal_urge(struct journal *journal);

/* A rush: so many decisions have become durable between two looks, which are far enough apart that a disk or a core that
 * stands still for a moment does not end it. Whatever can wait gives way to it. Any thread; *seq_looked is whose look it is:
 * the mark as of the last one. */
#define RUSH_LOOK_MS 50
#define RUSH_DECISIONS 500
bool journal_sees_rush(const struct journal *journal, uint64_t *seq_looked, uint64_t decisions);

uint64_t journal_seq_durable(const struct journal *journal); /* any thread, acquire */
uint64_t journal_commit_us(const struct journal *journal);   /* any thread: how long a commit takes of late */
bool journal_poisoned(const struct journal *journal);        /* any thread */
const uint8_t *journal_uuid(const struct journal *journal);

/* Reading behind the durable mark, for the clerk, and read only, for audit and repair: one thread per reader. */
struct journal_scan;
/* Offers the first decision after seq_after. live: the journal to stay behind the durable mark of; NULL for offline, where
 * the scan ends at the end of the good part. */
enum fault journal_scan_open(struct journal_scan **out, const char *folder, const struct journal *live, uint64_t seq_after,
                             struct journal_damage *damage) MUST_USE;
/* Gives one whole batch to the reader. *more is false when there is none yet (live) or no more (offline). After a reader's
 * objection the next call gives the same batch again. */
enum fault journal_scan_batch(struct journal_scan *scan, const struct journal_reader *reader, bool *more,
                              struct journal_damage *damage) MUST_USE;
const uint8_t *journal_scan_uuid(const struct journal_scan *scan); /* all zero where there is no segment */
void journal_scan_close(struct journal_scan *scan);

/* What stampede repair shows. Damage that cannot be cut safely (bytes before what the ledger has filed, the beginning of the
 * journal missing, another journal than the ledger's) has cuttable false. What only a replay can find, a decision the engine
 * objects to, is not found here. */
struct journal_diagnosis {
    bool damaged;
    bool cuttable;
    struct journal_damage damage;
    uint64_t seq_good;           /* last decision before the damage */
    uint64_t decisions_lost_min; /* valid decisions found after the damage, which a cut would lose */
    uint64_t bytes_lost;
    uint8_t uuid[16]; /* of a journal without damage; all zero: it has no segment */
};
enum fault journal_diagnose(const char *folder, const struct journal_point *point, struct journal_diagnosis *out) MUST_USE;
/* Copies the segments to FOLDER.damaged-N, then cuts at the damage. copy_path gets where the copy is. FAULT_DAMAGE: the
 * journal is not as it was diagnosed, and nothing was changed. May be asked for again after a crash. */
enum fault journal_cut(const char *folder, const struct journal_diagnosis *diagnosis, char copy_path[512]) MUST_USE;

#endif
