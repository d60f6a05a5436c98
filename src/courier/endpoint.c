#include "courier/endpoint.h"

#include <assert.h>

uint64_t backoff_ms(const struct backoff *backoff, uint32_t failures, uint32_t dice)
{
    assert(failures > 0);
    uint64_t wait_ms = backoff->ms_min;
    for (uint32_t i = 1; i < failures && wait_ms < backoff->ms_max; i++) wait_ms *= 2;
    if (wait_ms > backoff->ms_max) wait_ms = backoff->ms_max;
    return wait_ms * (800 + dice % 401) / 1000;
}

enum endpoint_pace endpoint_pace(const struct endpoint *endpoint)
{
    if (endpoint->overdue || endpoint->mean_ms > ENDPOINT_SLOW_MS) return ENDPOINT_SLOW;
    return endpoint->known_pace ? ENDPOINT_QUICK : ENDPOINT_UNKNOWN;
}

/* Once slow, it takes many quick answers, one after the other, to be quick again. */
void endpoint_timed(struct endpoint *endpoint, uint64_t took_ms)
{
    endpoint->mean_ms = endpoint->known_pace ? (endpoint->mean_ms * 7 + took_ms) / 8 : took_ms;
    endpoint->known_pace = true;
}

/* As many as a quick endpoint has answered in the same time. */
static uint32_t parallel_max(const struct endpoint *endpoint)
{
    if (endpoint->failures >= ENDPOINT_FAILURES_MAX || endpoint_pace(endpoint) != ENDPOINT_QUICK) return 1;
    if (endpoint->mean_ms <= ENDPOINT_QUICK_MS) return ENDPOINT_PARALLEL_MAX;
    return (uint32_t)(ENDPOINT_PARALLEL_MAX * ENDPOINT_QUICK_MS / endpoint->mean_ms);
}

uint32_t endpoint_room(const struct endpoint *endpoint, uint64_t now_ms)
{
    if (endpoint->gone || now_ms < endpoint->paused_until_ms) return 0;
    uint32_t parallel = parallel_max(endpoint);
    return endpoint->in_flight < parallel ? parallel - endpoint->in_flight : 0;
}

void endpoint_failed(struct endpoint *endpoint, const struct backoff *backoff, const struct endpoint_failure *failure)
{
    uint64_t until_ms = failure->wait_ms_min > 0 ? failure->now_ms + failure->wait_ms_min : 0;
    if (endpoint->failures == 0 || failure->started_ms >= endpoint->failed_ms) {
        endpoint->failures++;
        endpoint->failed_ms = failure->now_ms;
        if (endpoint->failures >= ENDPOINT_FAILURES_MAX) {
            uint64_t paused_ms = backoff_ms(backoff, endpoint->failures - ENDPOINT_FAILURES_MAX + 1, failure->dice);
            endpoint->stale = true;
            if (failure->now_ms + paused_ms > until_ms) until_ms = failure->now_ms + paused_ms;
        }
    }
    if (until_ms > endpoint->paused_until_ms) endpoint->paused_until_ms = until_ms;
}

void endpoint_answered(struct endpoint *endpoint)
{
    endpoint->failures = 0;
    endpoint->paused_until_ms = 0;
}

void endpoint_change(struct endpoint *endpoint, const struct hook *hook)
{
    if (strcmp(endpoint->hook.url, hook->url) != 0) {
        endpoint_answered(endpoint);
        endpoint->known_pace = false;
        endpoint->mean_ms = 0;
    }
    endpoint->hook = *hook;
}
