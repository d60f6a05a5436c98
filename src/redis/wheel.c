#include "redis/wheel.h"

#include <assert.h>
#include <stddef.h>

void wheel_init(struct wheel *wheel, uint64_t now_ms)
{
    for (uint32_t i = 0; i < WHEEL_BUCKETS; i++) {
        struct wheel_timer *head = &wheel->buckets[i];
        *head = (struct wheel_timer){ .next = head, .prev = head };
    }
    wheel->tick = now_ms / WHEEL_TICK_MS;
    wheel->count = 0;
}

void wheel_add(struct wheel *wheel, struct wheel_timer *timer, uint64_t due_ms)
{
    assert(timer->next == NULL);
    /* One tick up, so that a bucket that is looked into has only what is due or of a later round. */
    uint64_t tick = due_ms / WHEEL_TICK_MS + 1;
    /* A time that has passed would wait a whole round in the bucket of its own. */
    if (tick < wheel->tick) tick = wheel->tick;
    struct wheel_timer *head = &wheel->buckets[tick % WHEEL_BUCKETS];
    timer->due_ms = due_ms;
    timer->next = head;
    timer->prev = head->prev;
    head->prev->next = timer;
    head->prev = timer;
    wheel->count++;
}

void wheel_remove(struct wheel *wheel, struct wheel_timer *timer)
{
    if (timer->next == NULL) return;
    timer->prev->next = timer->next;
    timer->next->prev = timer->prev;
    timer->next = timer->prev = NULL;
    wheel->count--;
}

struct wheel_timer *wheel_due(struct wheel *wheel, uint64_t now_ms)
{
    uint64_t now_tick = now_ms / WHEEL_TICK_MS;
    /* After a long sleep one round sees every bucket. */
    if (now_tick >= wheel->tick + WHEEL_BUCKETS) wheel->tick = now_tick - WHEEL_BUCKETS + 1;
    for (;;) {
        struct wheel_timer *head = &wheel->buckets[wheel->tick % WHEEL_BUCKETS];
        for (struct wheel_timer *timer = head->next; timer != head && wheel->count > 0; timer = timer->next) {
            if (timer->due_ms > now_ms) continue;
            wheel_remove(wheel, timer);
            return timer;
        }
        if (wheel->tick >= now_tick) return NULL;
        wheel->tick++;
    }
}
