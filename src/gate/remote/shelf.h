/* shelf: the sales that are not over, as this node of several knows them.
 *
 * Terms, state and epoch come from the ledger, by the keeper; counts from the replies of Redis, each with the time of its
 * script, so that an older reply never overwrites a newer one. A sale on the shelf may be a moment behind what another node
 * has done; the scripts and the ledger decide by what is, not by what stands here.
 *
 * Reading a notice takes no lock, for it is on the way of every grab. */
#ifndef STAMPEDE_GATE_REMOTE_SHELF_H
#define STAMPEDE_GATE_REMOTE_SHELF_H

#include "engine/board.h"
#include "engine/engine.h"
#include "ledger/shared.h"

struct shelf;
enum fault shelf_open(struct shelf **out) MUST_USE;
void shelf_close(struct shelf *shelf);

/* A sale as the ledger has it; counts are taken only from one that is new here or of a higher epoch. False: no room. */
bool shelf_put(struct shelf *shelf, const struct ledger_shelved *sale);
void shelf_drop(struct shelf *shelf, uint64_t sale_id);

/* What a script told of a sale, at its time. */
struct shelf_counts {
    uint64_t epoch, at_ms, version;
    uint64_t asked_mono_ms; /* when it was asked for: what came before is in it */
    struct sale_counts counts;
    uint64_t orders_made, tokens_given;
};
/* True: its seller has changed the sale since what stands here; the ledger has the rest of it. */
bool shelf_count(struct shelf *shelf, uint64_t sale_id, const struct shelf_counts *counts);
/* What a decision left available, on the notice only, until the counts are told again. What was told of an earlier time is
 * passed over; within a millisecond a win lowers it, and nothing else does: nobody is turned away who might get it. */
struct shelf_left {
    uint64_t epoch, at_ms;
    uint32_t available;
    bool won; /* by this node just now */
};
void shelf_left(struct shelf *shelf, uint64_t sale_id, const struct shelf_left *left);

/* Copies out; false where it is not on the shelf. Who asks for a sale, its notice or a grab of it keeps it fresh. */
bool shelf_sale(struct shelf *shelf, uint64_t sale_id, struct sale *out);
bool shelf_epoch(struct shelf *shelf, uint64_t sale_id, uint64_t *epoch);
bool shelf_notice(const struct shelf *shelf, uint64_t sale_id, struct board_notice *out); /* no lock */
uint64_t shelf_by_name(struct shelf *shelf, struct slice seller, struct slice name);      /* 0: not on the shelf */
/* Names of sales that are over are found too, if they were told here not long ago: nothing changes them any more. */
void shelf_name_past(struct shelf *shelf, struct slice seller, struct slice name, uint64_t sale_id);
uint64_t shelf_names_version(const struct shelf *shelf); /* no lock */
void shelf_each(struct shelf *shelf, void (*look)(const struct sale *sale, uint64_t epoch, void *arg), void *arg);
uint32_t shelf_size(struct shelf *shelf);
/* Sales that an order can be of, a page at a time: those with one of these marks (number.h; mark n is bit n) that were open
 * by then. *from is SHELF_PAGE_FIRST at first and 0 after the last page. How many ids were written; none is no end. */
#define SHELF_PAGE_FIRST UINT32_MAX
struct shelf_sought {
    uint32_t marks;
    uint64_t open_by_ms;
};
uint32_t shelf_page(struct shelf *shelf, const struct shelf_sought *sought, uint32_t *from, uint64_t *ids, uint32_t ids_max);

/* Ids given out so far, as far as this node knows: one up to it that is not on the shelf is over. Only who sees all new
 * sales in their order tells it: one that comes alone may be before others. */
void shelf_saw_id(struct shelf *shelf, uint64_t sale_id);
uint64_t shelf_id_last(const struct shelf *shelf);

/* The pre-count: who is turned away without Redis. The winners of a sale that is sold out are counted into a filter, all up
 * to the time of a peek; as long as nothing has been won or given back since, whoever is not in it holds nothing. What
 * another node has given back is not known here at once: counts that were asked for longer ago than SHELF_FRESH_MS turn
 * nobody away, so a SOLD_OUT may be that much behind, and not more, whatever keeps us from Redis.
 *
 * since_mono_ms: counts that were asked for before it turn nobody away either; 0: any that are fresh. No lock; DONE: ask. */
#define SHELF_FRESH_MS 300
enum verdict shelf_refuse(const struct shelf *shelf, const struct grab *grab, uint64_t now_ms, uint64_t since_mono_ms);

/* The share: how many grabs of a sale this node asks Redis for at once. Of so many nodes each has its part of what is known
 * to be available, times percent / 100, and at least SHELF_SHARE_MIN: nothing stays unsold for it, however wrong what is
 * known may be, and where the last units are fewer than anybody wants, who asks for more is told so without standing in
 * line. When all is sold nobody asks for the moment that it takes until the pre-count knows all winners, and those that it
 * does not turn away ask then. Sales with tokens or a line, and those that do not run, are not shared: their crowds stand
 * elsewhere. No lock. */
#define SHELF_SHARE_MIN 8
struct shelf_share {
    uint32_t nodes, percent; /* both at least 1 */
    bool patient;            /* has waited for so long that the pre-count should have known: asks although all is sold */
};
enum shelf_turn {
    SHELF_FREE,  /* asks, and is not counted */
    SHELF_TAKEN, /* asks; shelf_leave() is owed once Redis has answered */
    SHELF_WAIT,  /* not now */
};
enum shelf_turn shelf_enter(const struct shelf *shelf, uint64_t sale_id, uint64_t now_ms, const struct shelf_share *share);
void shelf_leave(const struct shelf *shelf, uint64_t sale_id);
/* buyers: all who had won in the sale when it had made so many orders, in that epoch; passed over where the shelf has
 * another by now. False: no memory. */
bool shelf_winners(struct shelf *shelf, uint64_t sale_id, const struct shelf_counts *then, const struct slice *buyers,
                   size_t count);
/* Sales that somebody asked for within the last ms, and whether their winners are wanted. */
void shelf_each_asked(struct shelf *shelf, uint64_t since_mono_ms, void (*look)(uint64_t sale_id, bool winners, void *arg),
                      void *arg);

#endif
