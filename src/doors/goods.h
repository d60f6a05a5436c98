/* goods: which sale the clients of the cart mean by goods and event, for a crowd that asks for the same again and again.
 *
 * Each thread remembers a few for GOODS_MS and asks anew then: a name, and the event of a sale that is not open yet, may
 * change. Only what was found is remembered. No lock. */
#ifndef STAMPEDE_DOORS_GOODS_H
#define STAMPEDE_DOORS_GOODS_H

#include "bounds.h"

#include <stdbool.h>
#include <stdint.h>

#define GOODS_MS 1000

/* As the client gave them: each an id or a name. */
struct goods {
    char name[SALE_NAME_BYTES_MAX + 1];
    char event[EVENT_NAME_BYTES_MAX + 1];
};

/* False: it is not known, or is to be asked for anew. Then one asks, and the others go on with what is known until a second
 * time GOODS_MS has passed. */
bool goods_recall(const struct goods *goods, uint64_t now_ms, uint64_t *sale_id);
void goods_remember(const struct goods *goods, uint64_t now_ms, uint64_t sale_id);
/* It is not there any more. */
void goods_forget(const struct goods *goods);

#endif
