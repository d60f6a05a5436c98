/* kept: rows of the ledger that somebody keeps. Inside this room only.
 *
 * A row that is not to be had at once may be kept, or in demand: other nodes file into it, one after the other. What tells
 * the two apart is that the second changes. So whoever misses a row says what stands in it, and only one that has not
 * changed for a while is kept. Its sale is left alone for a moment after each try: who asks for it hears BUSY at once, and
 * nobody who files for others stands behind it. It is remembered until its row was had, or has changed, so that no try
 * waits.
 *
 * Any thread. Asking takes no lock. */
#ifndef STAMPEDE_GATE_REMOTE_KEPT_H
#define STAMPEDE_GATE_REMOTE_KEPT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define KEPT_MAX 16 /* of more than so many those that were tried longest ago are forgotten */

struct kept {
    pthread_mutex_t lock;       /* of those who change it */
    _Atomic uint64_t waited_ms; /* when somebody waited in vain for a row, monotonic */
    _Atomic uint32_t count;
    struct kept_row {
        _Atomic uint64_t sale_id, until_ms; /* 0: none; 0: nobody is sure yet */
        uint64_t standing, first_ms, last_ms;
    } rows[KEPT_MAX];
};

void kept_init(struct kept *kept);
void kept_deinit(struct kept *kept);

/* Somebody has waited in vain: what was under way may be late for that alone, see gate_was_kept(). */
void kept_wait(struct kept *kept);
bool kept_since(const struct kept *kept, uint64_t since_ms);

enum kept_state {
    KEPT_UNSURE, /* look again soon */
    KEPT_SURE,   /* it is left alone for a moment */
    KEPT_MOVES,  /* it has changed: whoever waits for it has it in turn. What was told by kept_wait() is taken back */
};
/* The row of a sale was not to be had; standing is different once it has changed. */
enum kept_state kept_miss(struct kept *kept, uint64_t sale_id, uint64_t standing, uint64_t now_ms);
/* It was had. */
void kept_remove(struct kept *kept, uint64_t sale_id);
/* Whether there is any at all: nearly always there is none, and nobody need be looked up. */
static inline bool kept_any(const struct kept *kept)
{
    return atomic_load_explicit(&kept->count, memory_order_relaxed) > 0;
}
bool kept_has(const struct kept *kept, uint64_t sale_id); /* for sure */
bool kept_now(const struct kept *kept, uint64_t sale_id); /* and it is left alone */

#endif
