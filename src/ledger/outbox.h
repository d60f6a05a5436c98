/* outbox: where sellers want to be told (hooks), and what they are still to be told (notices).
 *
 * The clerk puts notices into the outbox in the transaction that files what they tell of, so that each is there exactly once
 * (P4). The courier takes them out again once they were delivered. Functions that write are small transactions of their own;
 * none may be called while decisions are filed on the same connection. Where there are several couriers, the connection says
 * by which right they are (ledger_set_fence()).
 *
 * Notices about one order, one sale or one event are a stream, told in the order of their ids. Only the first pending one
 * of a stream has a time at which it is due; the others are parked until it is gone or given up. */
#ifndef STAMPEDE_LEDGER_OUTBOX_H
#define STAMPEDE_LEDGER_OUTBOX_H

#include "ledger/ledger.h"

/* A seller's hook. */
struct hook {
    char seller[USERNAME_BYTES_MAX + 1];
    char url[HOOK_URL_BYTES_MAX + 1];
    char secret[HOOK_SECRET_BYTES_MAX + 1];
    char secret_before[HOOK_SECRET_BYTES_MAX + 1]; /* of before the last rotation; empty: none */
    uint64_t before_until_ms;                      /* messages are signed with it, too, until then */
    uint64_t since_ms;                             /* since when the seller has a hook: nothing older is told */
    uint64_t failed_ms;                            /* of the last try that failed; 0: none did */
    char error[NOTICE_ERROR_BYTES_MAX + 1];        /* of that try */
};

struct hook_put {
    struct slice seller, url;
    struct slice secret; /* for a hook that is new, or rotates */
    bool rotate;
    uint64_t now_ms, before_until_ms;
};
/* Makes or changes the hook; *fresh tells whether its secret is the one given. */
enum fault ledger_hook_put(struct ledger *ledger, const struct hook_put *put, struct hook *out, bool *fresh) MUST_USE;
enum fault ledger_hook(struct ledger *ledger, struct slice seller, struct hook *out, bool *found) MUST_USE;
/* With all its notices, a few thousand in each transaction. */
enum fault ledger_hook_delete(struct ledger *ledger, struct slice seller, bool *found) MUST_USE;
enum fault ledger_each_hook(struct ledger *ledger, enum fault (*visit)(void *arg, const struct hook *hook),
                            void *arg) MUST_USE;

/* How a seller's hook is doing: no secrets. */
struct hook_health {
    char seller[USERNAME_BYTES_MAX + 1];
    char url[HOOK_URL_BYTES_MAX + 1];
    uint64_t since_ms, failed_ms; /* as in a hook */
    char error[NOTICE_ERROR_BYTES_MAX + 1];
    uint64_t pending, failed; /* notices */
};
/* Those with most failed notices first, then those with most pending ones; limit of them at most. */
enum fault ledger_hooks_worst(struct ledger *ledger, uint32_t limit,
                              void (*visit)(void *arg, const struct hook_health *health), void *arg) MUST_USE;

/* What the outbox knows besides its rows. */
struct outbox_mark {
    uint64_t hooks_version; /* rises whenever a hook changes */
    uint64_t told_ms;       /* what happened by time alone has been filed up to here */
    bool hooks_any;         /* whether there is a hook at all */
};
enum fault ledger_outbox_mark(struct ledger *ledger, struct outbox_mark *out) MUST_USE;

/* The numbers are stored. */
enum notice_kind {
    NOTICE_ORDER_WON = 1,
    NOTICE_ORDER_PAID = 2,
    NOTICE_ORDER_PAID_LATE = 3, /* after its hold had expired; also told as order.paid */
    NOTICE_ORDER_CANCELLED = 4,
    NOTICE_ORDER_EXPIRED = 5,
    NOTICE_ORDER_REFUND_DUE = 6,
    NOTICE_SALE_SOLD_OUT = 7,
    NOTICE_SALE_CLOSED = 8,    /* by its seller */
    NOTICE_SALE_TIMED_OUT = 9, /* by closes_at; also told as sale.closed */
    NOTICE_EVENT_OPENED = 10,
    NOTICE_TEST = 11,
};
#define NOTICE_KIND_LAST NOTICE_TEST
const char *notice_kind_word(enum notice_kind kind); /* "order.won" */

enum notice_state { NOTICE_PENDING = 0, NOTICE_FAILED = 1 };

struct notice {
    uint64_t id;
    char seller[USERNAME_BYTES_MAX + 1];
    enum notice_kind kind;
    uint64_t sale_id, order_no, event_id; /* 0: it is not about one */
    uint32_t part;                        /* of an event: which of its subscribers, see events.h */
    uint64_t at_ms;                       /* of what it tells */
    enum notice_state state;
    uint64_t since_ms; /* from when on give_up counts: at_ms, or when it was last asked to be sent again */
    uint64_t next_ms;  /* when it is due; NOTICE_PARKED: not before those ahead of it in its stream are gone */
    uint32_t attempts; /* since since_ms */
    uint32_t status;   /* of the last try; 0: no answer came, see error */
    char error[NOTICE_ERROR_BYTES_MAX + 1];
};
#define NOTICE_PARKED ((uint64_t)INT64_MAX)

/* What happens by time alone has no decision, so that the courier files it: from_ms < time <= to_ms, for a to_ms up to which
 * all decisions have been filed. Sales that closes_at has closed; and events that have opened by to_ms and are not told yet,
 * one notice for each part of their subscribers, which from then on do not change. */
struct outbox_span {
    uint64_t from_ms, to_ms;
};
enum fault ledger_outbox_moments(struct ledger *ledger, struct outbox_span span, bool *any) MUST_USE;
/* Files them and moves told_ms from from_ms to to_ms, in one transaction; nothing if it is not at from_ms. */
enum fault ledger_outbox_file_moments(struct ledger *ledger, struct outbox_span span) MUST_USE;
/* A notice that tells of nothing, for a seller who tries the hook. Those that failed before are dropped: they are of no use
 * any more. *id is 0 where too many are pending. */
#define OUTBOX_TESTS_MAX 5
enum fault ledger_outbox_test(struct ledger *ledger, struct slice seller, uint64_t now_ms, uint64_t *id) MUST_USE;

/* The first seller after the one in seller that has notices to be sent at some time; false in *found after the last. */
enum fault ledger_outbox_seller(struct ledger *ledger, char seller[USERNAME_BYTES_MAX + 1], bool *found) MUST_USE;
struct outbox_due {
    struct slice seller;
    uint64_t now_ms;
    uint32_t limit;
};
/* The longest due first. */
enum fault ledger_outbox_due(struct ledger *ledger, const struct outbox_due *due,
                             void (*visit)(void *arg, const struct notice *notice), void *arg) MUST_USE;

/* What became of a try. */
struct outbox_result {
    uint64_t id, since_ms; /* of the notice as it was tried: one that was asked for again meanwhile has not failed yet */
    struct slice seller;
    enum { TRY_DELIVERED, TRY_FAILED, TRY_GIVEN_UP } outcome;
    uint64_t next_ms; /* TRY_FAILED: when to try again */
    uint32_t status;
    const char *error;
};
struct outbox_results {
    const struct outbox_result *const *all;
    size_t count;
    uint64_t now_ms;
};
/* *given_up: how many have failed for good by this. */
enum fault ledger_outbox_record(struct ledger *ledger, const struct outbox_results *results, uint64_t *given_up) MUST_USE;
/* Gives up pending notices of a seller whose since_ms is not after since_ms_max, OUTBOX_AT_ONCE at most; *count of them. */
struct outbox_age {
    struct slice seller;
    uint64_t since_ms_max, now_ms;
};
enum fault ledger_outbox_give_up(struct ledger *ledger, const struct outbox_age *age, uint64_t *count) MUST_USE;
/* A change of many rows takes so many in one transaction, so that nobody waits long for theirs. */
#define OUTBOX_AT_ONCE 5000
/* Failed notices of a seller become pending again: the one of this id, or the next OUTBOX_AT_ONCE for id 0. *count of them;
 * as many as that: there may be more. Those that were sent again since now_ms have had their turn. */
enum fault ledger_outbox_retry(struct ledger *ledger, struct slice seller, uint64_t id, uint64_t now_ms,
                               uint64_t *count) MUST_USE;

/* Failed notices of a seller are dropped, in the same way. */
enum fault ledger_outbox_drop(struct ledger *ledger, struct slice seller, uint64_t id, uint64_t *count) MUST_USE;

struct outbox_counts {
    uint64_t pending, failed;
    uint64_t oldest_ms; /* of the pending ones; 0: there is none */
};
/* Of a seller, or of all for an empty slice; no notices are read for it, but the oldest of each seller. */
enum fault ledger_outbox_counts(struct ledger *ledger, struct slice seller, struct outbox_counts *out) MUST_USE;

/* Newest first; after: id to go on below, 0 to begin. */
struct outbox_query {
    struct slice seller;
    enum notice_state state;
    uint64_t after;
    uint32_t limit;
};
enum fault ledger_outbox_list(struct ledger *ledger, const struct outbox_query *query,
                              void (*visit)(void *arg, const struct notice *notice), void *arg) MUST_USE;

#endif
