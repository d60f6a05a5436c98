/* kept: rows of the ledger that somebody keeps, found out by waiting for them in vain. Inside this room only.
 *
 * A sale whose row is kept is left alone for a moment after each try: who asks for it hears BUSY at once, and nobody who
 * files for others stands behind it. It is remembered until its row was had again, so that the next try does not wait.
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
    _Atomic uint64_t waited_ms; /* when somebody waited in vain for any row, monotonic */
    _Atomic uint32_t count;
    struct {
        _Atomic uint64_t sale_id, until_ms; /* 0: none */
    } rows[KEPT_MAX];
};

void kept_init(struct kept *kept);
void kept_deinit(struct kept *kept);

/* Somebody has waited in vain. Until a row was had again, what was under way is late for that alone: see gate_was_kept(). */
void kept_wait(struct kept *kept);
bool kept_since(const struct kept *kept, uint64_t since_ms);

/* The row of a sale is not to be had: it is left alone until then. And it was had. */
void kept_add(struct kept *kept, uint64_t sale_id, uint64_t until_ms);
void kept_remove(struct kept *kept, uint64_t sale_id);
bool kept_has(const struct kept *kept, uint64_t sale_id);
bool kept_now(const struct kept *kept, uint64_t sale_id);

#endif
