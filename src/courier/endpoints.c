/* The courier's hooks, as the ledger has them, sorted by seller. */
#include "courier/desk.h"

#include <stdlib.h>

static int endpoint_order(const void *a, const void *b)
{
    const struct endpoint *const *x = a, *const *y = b;
    return strcmp((*x)->hook.seller, (*y)->hook.seller);
}

/* Among the first so many, which are sorted. */
static struct endpoint *endpoint_among(const struct desk *desk, size_t count, const char *seller)
{
    for (size_t low = 0, high = count; low < high;) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(desk->endpoints[middle]->hook.seller, seller);
        if (order == 0) return desk->endpoints[middle];
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return NULL;
}

struct endpoint *endpoint_find(const struct desk *desk, const char *seller)
{
    struct endpoint *endpoint = endpoint_among(desk, desk->endpoint_count, seller);
    return endpoint == NULL || endpoint->gone ? NULL : endpoint;
}

/* A reading under way: what was there before is sorted, what is new comes after it. */
struct refresh {
    struct desk *desk;
    size_t before;
};

static enum fault hook_take(void *arg, const struct hook *hook)
{
    struct refresh *refresh = arg;
    struct desk *desk = refresh->desk;
    struct endpoint *endpoint = endpoint_among(desk, refresh->before, hook->seller);
    if (endpoint != NULL) {
        endpoint_change(endpoint, hook);
        endpoint->gone = false;
        return FAULT_NONE;
    }
    if (desk->endpoint_count == desk->endpoint_capacity) {
        size_t capacity = desk->endpoint_capacity == 0 ? 16 : desk->endpoint_capacity * 2;
        struct endpoint **larger = realloc(desk->endpoints, capacity * sizeof *larger);
        if (larger == NULL) return FAULT_MEMORY;
        desk->endpoints = larger;
        desk->endpoint_capacity = capacity;
    }
    endpoint = calloc(1, sizeof *endpoint);
    if (endpoint == NULL) return FAULT_MEMORY;
    endpoint->hook = *hook;
    desk->endpoints[desk->endpoint_count++] = endpoint;
    return FAULT_NONE;
}

/* One whose deliveries are still to be recorded stays until the next time. */
static void gone_free(struct desk *desk)
{
    size_t kept = 0;
    for (size_t i = 0; i < desk->endpoint_count; i++) {
        struct endpoint *endpoint = desk->endpoints[i];
        if (endpoint->gone && endpoint->known == 0) {
            free(endpoint);
        } else {
            desk->endpoints[kept++] = endpoint;
        }
    }
    desk->endpoint_count = kept;
}

enum fault endpoints_refresh(struct desk *desk)
{
    struct outbox_mark mark;
    enum fault fault = ledger_outbox_mark(desk->ledger, &mark);
    if (fault != FAULT_NONE || (desk->hooks_read && mark.hooks_version == desk->hooks_version)) return fault;
    /* The mark is read first: a hook that changes in between is read again the next time. */
    struct refresh refresh = { desk, desk->endpoint_count };
    for (size_t i = 0; i < desk->endpoint_count; i++) desk->endpoints[i]->gone = true;
    fault = ledger_each_hook(desk->ledger, hook_take, &refresh);
    gone_free(desk);
    if (desk->endpoint_count > 0) qsort(desk->endpoints, desk->endpoint_count, sizeof *desk->endpoints, endpoint_order);
    if (fault != FAULT_NONE) return fault;
    if (mark.told_ms > desk->told_ms) desk->told_ms = mark.told_ms;
    desk->hooks_version = mark.hooks_version;
    desk->hooks_read = true;
    return FAULT_NONE;
}

void endpoints_clear(struct desk *desk)
{
    for (size_t i = 0; i < desk->endpoint_count; i++) free(desk->endpoints[i]);
    free(desk->endpoints);
    desk->endpoints = NULL;
    desk->endpoint_count = desk->endpoint_capacity = 0;
}
