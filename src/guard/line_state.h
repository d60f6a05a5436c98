/* line_state: what line.c, waiter.c, pacer.c and places.c share, all of it behind one lock. Nobody else includes this. */
#ifndef STAMPEDE_GUARD_LINE_STATE_H
#define STAMPEDE_GUARD_LINE_STATE_H

#include "base/index.h"
#include "base/pool.h"
#include "base/siphash.h"
#include "guard/line.h"
#include "guard/pace.h"

#include <pthread.h>

#define NEVER UINT64_MAX

enum {
    ENTRY_OUT,
    ENTRY_WAITING,
    ENTRY_BESIDE, /* the same grab waits or has been let through: its answer will do */
    ENTRY_CALLED,
};

/* One sale's. A cell once used stays with its sale until another sale needs it and nobody waits. */
struct line {
    uint64_t sale_id;
    uint32_t hash, link; /* of lines->by_sale */
    struct line_terms terms;
    struct pace pace;
    struct queue queue;
    uint32_t called; /* let through, and their mail is not taken yet */
    uint64_t entered_last_ns;
    uint64_t told_until_ns; /* whoever entered up to here is to be told */
    enum line_outcome told; /* this */
    uint32_t busy_prev, busy_next;
};

struct mail_list {
    struct line_waiter *first, *last;
};

struct line_mailbox {
    struct lines *lines;
    void (*wake)(void *arg);
    void *arg;
    struct mail_list mail;  /* behind the lock */
    struct mail_list taken; /* being delivered; the mailbox's thread's own */
};

struct places;

struct lines {
    pthread_mutex_t lock;
    pthread_cond_t sooner; /* due_ns has become earlier, or the pacer is to stop */
    pthread_t pacer;
    bool pacer_runs, stopping, shut;
    uint64_t due_ns;   /* when the next turn has something to do */
    struct pool cells; /* struct line */
    struct index by_sale;
    uint32_t busy; /* the first line in which somebody waits; 0: none */
    uint32_t waiting, parked, mailboxes;
    uint64_t lot;
    uint8_t keys[2][16];   /* of tags */
    struct parties buyers; /* of one buyer in one sale, those in the queue */
    struct parties grabs;  /* of one grab with a key: who stands in the queue or was let through, then others */
    struct lines_options options;
    struct places *places;
    struct line_declared declared[LINES_DECLARED_MAX];
    uint32_t declared_count;
};

/* Names are not kept: 96 bits of a keyed hash stand for sale and buyer, or for these and the grab. By chance two of a
 * million share them once in 10^17 times, and nobody can work towards it without the keys. */
struct party_tag tag_of_buyer(const struct lines *lines, uint64_t sale_id, struct slice buyer);
struct party_tag tag_of_grab(const struct lines *lines, const struct party_tag *buyer, const struct line_ask *ask);

void lines_lock(struct lines *lines);
void lines_unlock(struct lines *lines);

/* All of these with the lock held. */
struct line *line_at(const struct lines *lines, uint32_t cell);
struct line *line_find(const struct lines *lines, uint64_t sale_id); /* NULL: none */
enum line_outcome outcome_count(enum line_outcome outcome);          /* says what it was given */
/* LINE_WAITING: the entry stands in the line of the sale. Anything else: it does not, and the outcome is counted. */
enum line_outcome entry_put(struct lines *lines, struct line_entry *entry, uint64_t sale_id, const struct line_terms *terms,
                            uint64_t now_ns);
/* Takes a waiting entry out of its line, with its one outcome. Its owner is not told; if he is to be, by mail, the outcome
 * is counted only then, for it may still change. */
void entry_take(struct lines *lines, struct line_entry *entry, enum line_outcome outcome);
/* The same, and tells: a waiter by mail, a place by its state. */
void entry_tell(struct lines *lines, struct line_entry *entry, enum line_outcome outcome, uint64_t now_ns);
uint64_t entry_deadline_ns(const struct line *line, const struct line_entry *entry);
void lines_due(struct lines *lines, uint64_t due_ns); /* the next turn is wanted by then */

/* places.c, for the pacer and for lines_open(). */
enum fault places_open(struct places **out, struct lines *lines) MUST_USE;
void places_close(struct places *places);
void place_told(struct places *places, struct line_entry *entry, uint64_t now_ns);
bool place_waits(const struct places *places, const struct party_tag *buyer);
void place_give_up(struct places *places, const struct party_tag *buyer); /* if it waits */
uint32_t places_count(const struct places *places);
/* Gives up those without a heartbeat, at most *budget, which it lowers; *due_ns becomes when the next may die. False: there
 * may be more. */
bool places_sweep(struct places *places, uint64_t now_ns, uint32_t *budget, uint64_t *due_ns);

#endif
