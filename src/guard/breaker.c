#include "guard/breaker.h"

#include "base/log.h"

#include <assert.h>
#include <stddef.h>

/* The word: bits 0-1 state, 2-11 probes let in, 12-21 probes found good, 22-63 since when in ms. All of a transition is one
 * exchange of it, so there is no moment at which half of it is true. */
#define STATE_BITS 2
#define COUNT_BITS 10
#define SINCE_SHIFT (STATE_BITS + 2 * COUNT_BITS)
#define COUNT_MASK ((UINT64_C(1) << COUNT_BITS) - 1)
_Static_assert(BREAKER_PROBES_MAX <= COUNT_MASK, "probes can be counted");

struct view {
    enum breaker_state state;
    uint32_t entered, good; /* probes */
    uint64_t since_ms;
};

static uint64_t word_of(struct view view)
{
    return view.since_ms << SINCE_SHIFT | (uint64_t)view.good << (STATE_BITS + COUNT_BITS) |
           (uint64_t)view.entered << STATE_BITS | (uint64_t)view.state;
}

static struct view view_of(uint64_t word)
{
    return (struct view){ .state = (enum breaker_state)(word & 3),
                          .entered = (uint32_t)(word >> STATE_BITS & COUNT_MASK),
                          .good = (uint32_t)(word >> (STATE_BITS + COUNT_BITS) & COUNT_MASK),
                          .since_ms = word >> SINCE_SHIFT };
}

/* A bucket: bits 0-19 bad answers, 20-39 answers, 40-63 which stretch of time. A full one counts no further: the share
 * stays. */
#define TALLY_BITS 20
#define TALLY_MAX ((UINT64_C(1) << TALLY_BITS) - 1)
#define STRETCH_SHIFT (2 * TALLY_BITS)
#define STRETCH_MASK ((UINT64_C(1) << (64 - STRETCH_SHIFT)) - 1)

void breaker_init(struct breaker *breaker, const char *name, const struct breaker_numbers *numbers)
{
    assert(numbers->window_ms >= BREAKER_BUCKETS && numbers->share_percent <= 100 && numbers->open_ms > 0);
    assert(numbers->probes > 0 && numbers->probes <= BREAKER_PROBES_MAX);
    breaker->name = name;
    breaker->numbers = *numbers;
    breaker->bucket_ms = numbers->window_ms / BREAKER_BUCKETS;
    atomic_init(&breaker->word, word_of((struct view){ .state = BREAKER_CLOSED }));
    atomic_init(&breaker->opened_total, 0);
    atomic_init(&breaker->refused_total, 0);
    for (size_t i = 0; i < BREAKER_SHARDS; i++)
        for (size_t j = 0; j < BREAKER_BUCKETS; j++) atomic_init(&breaker->shards[i].buckets[j], 0);
}

/* Each thread counts on one shard, always the same. */
static size_t shard_mine(void)
{
    static _Atomic uint32_t threads;
    static __thread uint32_t mine; /* 0: none yet */
    if (mine == 0) mine = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) % BREAKER_SHARDS + 1;
    return mine - 1;
}

static uint64_t stretch_of(const struct breaker *breaker, uint64_t now_ms)
{
    return now_ms / breaker->bucket_ms;
}

static void tally(struct breaker *breaker, bool bad, uint64_t now_ms)
{
    uint64_t stretch = stretch_of(breaker, now_ms);
    uint64_t fresh = (stretch & STRETCH_MASK) << STRETCH_SHIFT;
    _Atomic uint64_t *bucket = &breaker->shards[shard_mine()].buckets[stretch % BREAKER_BUCKETS];
    uint64_t was = atomic_load_explicit(bucket, memory_order_relaxed), next;
    do {
        uint64_t base = was >> STRETCH_SHIFT == (stretch & STRETCH_MASK) ? was : fresh;
        if ((base >> TALLY_BITS & TALLY_MAX) == TALLY_MAX) return;
        next = base + (UINT64_C(1) << TALLY_BITS) + bad;
    } while (!atomic_compare_exchange_weak_explicit(bucket, &was, next, memory_order_relaxed, memory_order_relaxed));
}

static void tally_sum(const struct breaker *breaker, uint64_t now_ms, uint64_t *answers, uint64_t *bad)
{
    uint64_t stretch = stretch_of(breaker, now_ms);
    *answers = *bad = 0;
    for (size_t i = 0; i < BREAKER_SHARDS; i++) {
        for (size_t j = 0; j < BREAKER_BUCKETS; j++) {
            uint64_t bucket = atomic_load_explicit(&breaker->shards[i].buckets[j], memory_order_relaxed);
            uint64_t age = (stretch - (bucket >> STRETCH_SHIFT)) & STRETCH_MASK;
            if (age >= BREAKER_BUCKETS) continue;
            *answers += bucket >> TALLY_BITS & TALLY_MAX;
            *bad += bucket & TALLY_MAX;
        }
    }
}

/* What was counted before it opened says nothing of what comes after it closes. Nobody counts while it is not closed, so
 * this is done before closing; a straggler that is wiped out or slips through is one answer of many. */
static void tally_clear(struct breaker *breaker)
{
    for (size_t i = 0; i < BREAKER_SHARDS; i++)
        for (size_t j = 0; j < BREAKER_BUCKETS; j++)
            atomic_store_explicit(&breaker->shards[i].buckets[j], 0, memory_order_relaxed);
}

static bool word_change(struct breaker *breaker, uint64_t *was, struct view next)
{
    return atomic_compare_exchange_strong_explicit(&breaker->word, was, word_of(next), memory_order_acq_rel,
                                                   memory_order_acquire);
}

/* Threads read their clocks at different moments: what lies ahead is now. */
static uint64_t passed_ms(uint64_t since_ms, uint64_t now_ms)
{
    return now_ms > since_ms ? now_ms - since_ms : 0;
}

/* Entering a breaker that is not closed. */
static bool enter_probing(struct breaker *breaker, uint64_t word, uint64_t now_ms, struct breaker_pass *pass)
{
    for (;;) {
        struct view view = view_of(word);
        bool waited = passed_ms(view.since_ms, now_ms) >= breaker->numbers.open_ms;
        struct view next = view;
        if (view.state == BREAKER_CLOSED) {
            *pass = (struct breaker_pass){ .since_ms = view.since_ms };
            return true;
        }
        if (waited) {
            next = (struct view){ .state = BREAKER_HALF_OPEN, .entered = 1, .since_ms = now_ms };
        } else if (view.state == BREAKER_HALF_OPEN && view.entered < breaker->numbers.probes) {
            next.entered++;
        } else {
            return false;
        }
        if (!word_change(breaker, &word, next)) continue;
        *pass = (struct breaker_pass){ .since_ms = next.since_ms, .probe = true };
        if (view.state == BREAKER_OPEN) log_info("guard", "breaker %s: letting probes through", breaker->name);
        return true;
    }
}

static uint32_t retry_after(const struct breaker *breaker, uint64_t word, uint64_t now_ms)
{
    struct view view = view_of(word);
    uint64_t passed = passed_ms(view.since_ms, now_ms);
    if (view.state != BREAKER_OPEN || passed >= breaker->numbers.open_ms) return 1;
    return (uint32_t)((breaker->numbers.open_ms - passed + 999) / 1000);
}

bool breaker_try(struct breaker *breaker, uint64_t now_ms, struct breaker_pass *pass)
{
    uint64_t word = atomic_load_explicit(&breaker->word, memory_order_acquire);
    if ((word & 3) == BREAKER_CLOSED) {
        *pass = (struct breaker_pass){ .since_ms = word >> SINCE_SHIFT };
        return true;
    }
    return enter_probing(breaker, word, now_ms, pass);
}

bool breaker_enter(struct breaker *breaker, uint64_t now_ms, struct breaker_pass *pass, uint32_t *retry_after_s)
{
    if (breaker_try(breaker, now_ms, pass)) return true;
    atomic_fetch_add_explicit(&breaker->refused_total, 1, memory_order_relaxed);
    *retry_after_s = retry_after(breaker, atomic_load_explicit(&breaker->word, memory_order_relaxed), now_ms);
    return false;
}

/* False: somebody else was first, and *word is what they made of it. */
static bool open_now(struct breaker *breaker, uint64_t *word, uint64_t now_ms, const char *why)
{
    if (!word_change(breaker, word, (struct view){ .state = BREAKER_OPEN, .since_ms = now_ms })) return false;
    atomic_fetch_add_explicit(&breaker->opened_total, 1, memory_order_relaxed);
    log_warn("guard", "breaker %s: open, %s; BUSY for %u ms", breaker->name, why, breaker->numbers.open_ms);
    return true;
}

/* An answer of the closed breaker. */
static void leave_closed(struct breaker *breaker, const struct breaker_pass *pass, bool bad, uint64_t now_ms)
{
    uint64_t word = atomic_load_explicit(&breaker->word, memory_order_acquire), answers, bad_answers;
    struct view view = view_of(word);
    if (view.state != BREAKER_CLOSED || view.since_ms != pass->since_ms) return; /* of a period that is over */
    tally(breaker, bad, now_ms);
    if (!bad || breaker->numbers.share_percent == 0) return;
    tally_sum(breaker, now_ms, &answers, &bad_answers);
    if (answers < breaker->numbers.answers_min || bad_answers * 100 < answers * breaker->numbers.share_percent) return;
    (void)open_now(breaker, &word, now_ms, "too many answers failed or were slow");
}

static void leave_probe(struct breaker *breaker, const struct breaker_pass *pass, enum breaker_outcome outcome, bool bad,
                        uint64_t now_ms)
{
    uint64_t word = atomic_load_explicit(&breaker->word, memory_order_acquire);
    for (;;) {
        struct view view = view_of(word);
        if (view.state != BREAKER_HALF_OPEN || view.since_ms != pass->since_ms) return;
        if (outcome != BREAKER_UNKNOWN && bad) {
            if (open_now(breaker, &word, now_ms, "a probe failed or was slow")) return;
            continue;
        }
        struct view next = view;
        if (outcome == BREAKER_UNKNOWN) {
            next.entered--; /* its place is for another */
        } else if (++next.good == breaker->numbers.probes) {
            next = (struct view){ .state = BREAKER_CLOSED, .since_ms = now_ms };
            tally_clear(breaker);
        }
        if (!word_change(breaker, &word, next)) continue;
        if (next.state == BREAKER_CLOSED) log_info("guard", "breaker %s: closed, the probes were good", breaker->name);
        return;
    }
}

void breaker_leave(struct breaker *breaker, const struct breaker_pass *pass, enum breaker_outcome outcome, uint32_t took_ms,
                   uint64_t now_ms)
{
    bool slow = breaker->numbers.slow_ms > 0 && took_ms > breaker->numbers.slow_ms;
    bool bad = outcome == BREAKER_FAILED || slow;
    if (pass->probe) {
        leave_probe(breaker, pass, outcome, bad, now_ms);
    } else if (outcome != BREAKER_UNKNOWN) {
        leave_closed(breaker, pass, bad, now_ms);
    }
}

enum breaker_state breaker_state(const struct breaker *breaker)
{
    return view_of(atomic_load_explicit(&breaker->word, memory_order_acquire)).state;
}
