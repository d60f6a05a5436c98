/* The outbox: what sellers are still to be told. Filing runs inside the clerk's transaction; the rest are small
 * transactions of the courier and of sellers who look after their hook. */
#include "ledger/outbox.h"

#include "base/log.h"
#include "base/random.h"
#include "ledger/database.h"

#include <assert.h>

const char *notice_kind_word(enum notice_kind kind)
{
    static const char *const words[] = {
        [NOTICE_ORDER_WON] = "order.won",         [NOTICE_ORDER_PAID] = "order.paid",
        [NOTICE_ORDER_PAID_LATE] = "order.paid",  [NOTICE_ORDER_CANCELLED] = "order.cancelled",
        [NOTICE_ORDER_EXPIRED] = "order.expired", [NOTICE_ORDER_REFUND_DUE] = "order.refund_due",
        [NOTICE_SALE_SOLD_OUT] = "sale.sold_out", [NOTICE_SALE_CLOSED] = "sale.closed",
        [NOTICE_SALE_TIMED_OUT] = "sale.closed",  [NOTICE_EVENT_OPENED] = "event.opened",
        [NOTICE_TEST] = "webhook.test",
    };
    assert(kind >= NOTICE_ORDER_WON && kind <= NOTICE_KIND_LAST);
    return words[kind];
}

/* What a notice is about, as one number: orders, sales and events count each for themselves. A test is about nothing, and
 * waits for nothing. */
static uint64_t stream_of(const struct notice *notice)
{
    uint32_t number;
    if (notice->order_no != 0) return notice->order_no * 4;
    if (notice->sale_id != 0) return notice->sale_id * 4 + 1;
    if (notice->event_id != 0) return notice->event_id * 4 + 2;
    random_bytes(&number, sizeof(number));
    return (notice->at_ms << 16 | (number & 0xffff)) * 4 + 3;
}

/* A win is the first that there is to tell of its order: nothing can be pending before it. Others look whether there is. */
static enum fault notice_insert(struct ledger *ledger, struct slice seller, const struct notice *notice)
{
    struct cursor *s;
    bool first = notice->kind == NOTICE_ORDER_WON, conflict;
    enum statement id = first ? STATEMENT_OUTBOX_INSERT_FIRST : STATEMENT_OUTBOX_INSERT;
    enum fault fault = first ? FAULT_NONE : filing_flush_one(ledger, STATEMENT_OUTBOX_INSERT_FIRST);
    if (fault == FAULT_NONE) fault = statement_open(ledger, id, &s);
    if (fault != FAULT_NONE) return fault;
    bind_slice(s, 1, seller);
    bind_number(s, 2, (uint64_t)notice->kind);
    bind_number(s, 3, stream_of(notice));
    bind_number(s, 4, notice->sale_id);
    bind_number(s, 5, notice->order_no);
    bind_number(s, 6, notice->event_id);
    bind_number(s, 7, notice->at_ms);
    return first ? filing_insert(ledger, id, &conflict) : statement_close(ledger, id, cursor_step(s));
}

/* Filing. */

/* Hooks change seldom: what is known of each sale's is kept until one has. */
enum fault outbox_file_begin(struct ledger *ledger)
{
    struct outbox_mark mark;
    enum fault fault = ledger_outbox_mark(ledger, &mark);
    if (fault == FAULT_NONE) fault = publications_file_begin(ledger);
    if (fault != FAULT_NONE) return fault;
    ledger->transaction++;
    if (ledger->hooks_version == mark.hooks_version + 1) return FAULT_NONE;
    memset(ledger->hooked, 0, sizeof(ledger->hooked));
    ledger->hooks_any = mark.hooks_any;
    ledger->hooks_version = mark.hooks_version + 1;
    return FAULT_NONE;
}

/* How many more units are available after the decision. */
static int64_t available_change(const struct decision *d)
{
    switch (d->kind) {
    case DECISION_STOCK_ADDED:
        return d->stock_added;
    case DECISION_WON:
        return -(int64_t)d->won.units;
    case DECISION_RETAKEN:
        return -(int64_t)d->ended.units;
    case DECISION_CANCELLED:
    case DECISION_EXPIRED:
        return d->ended.units;
    default:
        return 0;
    }
}

static enum fault hooked_read(struct ledger *ledger, uint64_t sale_id, struct hooked_sale *hooked)
{
    *hooked = (struct hooked_sale){ .sale_id = 0 };
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_OUTBOX_SALE, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, sale_id);
    enum step step = cursor_step(s);
    bool good = step == STEP_ROW && row_string(s, 0, hooked->seller, sizeof(hooked->seller));
    if (good) {
        const struct tally *tally = &ledger->tallies[sale_id % TALLIES];
        hooked->available = column_number(s, 1) + (tally->sale_id == sale_id ? tally->available : 0);
        int64_t since_ms = column_number(s, 2);
        hooked->hooked = since_ms >= 0;
        hooked->since_ms = since_ms >= 0 ? (uint64_t)since_ms : 0;
        hooked->sale_id = sale_id;
        hooked->transaction = ledger->transaction;
    }
    fault = statement_close(ledger, STATEMENT_OUTBOX_SALE, step);
    if (fault == FAULT_NONE && !good) {
        log_error("ledger", "sale %llu of a decision just filed is not there", (unsigned long long)sale_id);
        return FAULT_DAMAGE;
    }
    return fault;
}

/* What is available is read once for a transaction, with the decision at hand in it, and then counted along. */
static enum fault hooked_find(struct ledger *ledger, const struct decision *d, struct hooked_sale **out)
{
    struct hooked_sale *hooked = &ledger->hooked[d->sale_id % HOOKED_SALES];
    *out = hooked;
    bool current = hooked->transaction == ledger->transaction || (!hooked->hooked && !ledger->publishing.on);
    if (hooked->sale_id != d->sale_id || !current) return hooked_read(ledger, d->sale_id, hooked);
    hooked->available += available_change(d);
    return FAULT_NONE;
}

static enum notice_kind notice_kind_of(enum decision_kind kind)
{
    switch (kind) {
    case DECISION_WON:
        return NOTICE_ORDER_WON;
    case DECISION_PAID:
        return NOTICE_ORDER_PAID;
    case DECISION_RETAKEN:
        return NOTICE_ORDER_PAID_LATE;
    case DECISION_CANCELLED:
        return NOTICE_ORDER_CANCELLED;
    case DECISION_EXPIRED:
        return NOTICE_ORDER_EXPIRED;
    case DECISION_REFUND_DUE:
        return NOTICE_ORDER_REFUND_DUE;
    case DECISION_SALE_CLOSED:
        return NOTICE_SALE_CLOSED;
    default:
        return 0;
    }
}

/* Into the outbox of its seller, if they have a hook, and among what is published. */
static enum fault notice_file(struct ledger *ledger, const struct hooked_sale *hooked, const struct notice *notice)
{
    bool told = hooked->hooked && notice->at_ms >= hooked->since_ms;
    enum fault fault = told ? notice_insert(ledger, slice_of(hooked->seller), notice) : FAULT_NONE;
    return fault == FAULT_NONE && ledger->publishing.on ? publications_file(ledger, notice) : fault;
}

enum fault outbox_file(struct ledger *ledger, const struct decision *d)
{
    if (!ledger->hooks_any && !ledger->publishing.on) return FAULT_NONE;
    struct hooked_sale *hooked;
    enum fault fault = hooked_find(ledger, d, &hooked);
    if (fault != FAULT_NONE) return fault;

    struct notice notice = { .kind = notice_kind_of(d->kind), .sale_id = d->sale_id, .at_ms = d->at_ms };
    if (d->kind == DECISION_WON) {
        notice.order_no = d->seq;
    } else if (notice.kind != 0 && notice.kind != NOTICE_SALE_CLOSED) {
        notice.order_no = d->ended.order_no;
    }
    if (notice.kind != 0) fault = notice_file(ledger, hooked, &notice);
    if (fault != FAULT_NONE || hooked->available != 0 || available_change(d) >= 0) return fault;
    return notice_file(ledger, hooked,
                       &(struct notice){ .kind = NOTICE_SALE_SOLD_OUT, .sale_id = d->sale_id, .at_ms = d->at_ms });
}

enum fault moments_find(struct ledger *ledger, enum statement id, struct outbox_span span, bool *any)
{
    *any = false;
    struct cursor *s;
    enum fault fault = statement_open(ledger, id, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, span.from_ms);
    bind_number(s, 2, span.to_ms);
    enum step step = cursor_step(s);
    *any = step == STEP_ROW && column_number(s, 0) != 0;
    return statement_close(ledger, id, step);
}

enum fault moments_mark(struct ledger *ledger, enum statement id, struct outbox_span span, bool *first)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, id, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, span.from_ms);
    bind_number(s, 2, span.to_ms);
    fault = statement_close(ledger, id, cursor_step(s));
    *first = fault == FAULT_NONE && ledger_changes(ledger) == 1;
    return fault;
}

enum fault closings_file(struct ledger *ledger, enum statement id, struct outbox_span span)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, id, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, span.from_ms);
    bind_number(s, 2, span.to_ms);
    bind_number(s, 3, NOTICE_SALE_TIMED_OUT);
    return statement_close(ledger, id, cursor_step(s));
}

enum fault ledger_outbox_moments(struct ledger *ledger, struct outbox_span span, bool *any)
{
    return moments_find(ledger, STATEMENT_OUTBOX_CLOSINGS, span, any);
}

/* Those whose seller has no hook, or has one since later, are told with this, too. */
static enum fault openings_file(struct ledger *ledger, uint64_t to_ms)
{
    static const enum statement steps[] = { STATEMENT_OUTBOX_FILE_OPENINGS, STATEMENT_EVENTS_TOLD };
    enum fault fault = FAULT_NONE;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && fault == FAULT_NONE; i++) {
        struct cursor *s;
        fault = statement_open(ledger, steps[i], &s);
        if (fault != FAULT_NONE) break;
        bind_number(s, 1, to_ms);
        if (i == 0) bind_number(s, 2, NOTICE_EVENT_OPENED);
        fault = statement_close(ledger, steps[i], cursor_step(s));
    }
    return fault;
}

static enum fault moments_write(struct ledger *ledger, struct outbox_span span)
{
    enum fault fault = closings_file(ledger, STATEMENT_OUTBOX_FILE_CLOSINGS, span);
    return fault == FAULT_NONE ? openings_file(ledger, span.to_ms) : fault;
}

/* Each kind of moment is one INSERT … SELECT over the span; its question stands in ledger_outbox_moments(). */
enum fault ledger_outbox_file_moments(struct ledger *ledger, struct outbox_span span)
{
    enum fault fault = small_begin(ledger);
    if (fault != FAULT_NONE) return fault;
    bool first;
    fault = moments_mark(ledger, STATEMENT_OUTBOX_TOLD, span, &first);
    if (fault == FAULT_NONE && first) fault = moments_write(ledger, span);
    return small_end(ledger, fault);
}

/* Drops those that failed, and counts those pending. */
static enum fault tests_count(struct ledger *ledger, struct slice seller, int64_t *count)
{
    static const enum statement steps[] = { STATEMENT_OUTBOX_TESTS_DROP, STATEMENT_OUTBOX_TESTS };
    enum fault fault = FAULT_NONE;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && fault == FAULT_NONE; i++) {
        struct cursor *s;
        fault = statement_open(ledger, steps[i], &s);
        if (fault != FAULT_NONE) break;
        bind_slice(s, 1, seller);
        enum step step = cursor_step(s);
        *count = step == STEP_ROW ? column_number(s, 0) : 0;
        fault = statement_close(ledger, steps[i], step);
    }
    return fault;
}

enum fault ledger_outbox_test(struct ledger *ledger, struct slice seller, uint64_t now_ms, uint64_t *id)
{
    int64_t count;
    *id = 0;
    enum fault fault = small_begin(ledger);
    if (fault != FAULT_NONE) return fault;
    fault = tests_count(ledger, seller, &count);
    if (fault == FAULT_NONE && count < OUTBOX_TESTS_MAX) {
        fault = notice_insert(ledger, seller, &(struct notice){ .kind = NOTICE_TEST, .at_ms = now_ms });
        *id = ledger_last_id(ledger);
    }
    return small_end(ledger, fault);
}

/* What the courier asks and records. */

static bool row_notice(struct cursor *s, struct notice *out)
{
    uint32_t kind, state;
    bool good = row_u64(s, 0, INT64_MAX, &out->id) && row_string(s, 1, out->seller, sizeof(out->seller)) &&
                row_u32(s, 2, NOTICE_KIND_LAST, &kind) && kind != 0 && row_u64(s, 3, INT64_MAX, &out->sale_id) &&
                row_u64(s, 4, INT64_MAX, &out->order_no) && row_u64(s, 5, INT64_MAX, &out->event_id) &&
                row_u64(s, 6, TIME_MS_MAX, &out->at_ms) && row_u32(s, 7, NOTICE_FAILED, &state) &&
                row_u64(s, 8, TIME_MS_MAX, &out->since_ms) && row_u64(s, 9, INT64_MAX, &out->next_ms) &&
                row_u32(s, 10, UINT32_MAX, &out->attempts) && row_u32(s, 11, UINT32_MAX, &out->status) &&
                row_string(s, 12, out->error, sizeof(out->error)) && row_u32(s, 13, UINT32_MAX, &out->part);
    if (!good) {
        log_error("ledger", "notice %lld has a value that cannot be", (long long)column_number(s, 0));
        return false;
    }
    out->kind = (enum notice_kind)kind;
    out->state = (enum notice_state)state;
    return true;
}

/* Visits the rows of a list whose parameters are bound, and ends its use. */
static enum fault notices_list(struct ledger *ledger, enum statement id,
                               void (*visit)(void *arg, const struct notice *notice), void *arg)
{
    struct cursor *s = ledger->statements[id];
    struct notice notice;
    bool damaged = false;
    enum step step;
    while ((step = cursor_step(s)) == STEP_ROW) {
        damaged = !row_notice(s, &notice);
        if (damaged) break;
        visit(arg, &notice);
    }
    enum fault fault = statement_close(ledger, id, step);
    return damaged ? FAULT_DAMAGE : fault;
}

enum fault ledger_outbox_seller(struct ledger *ledger, char seller[USERNAME_BYTES_MAX + 1], bool *found)
{
    *found = false;
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_OUTBOX_SELLER, &s);
    if (fault != FAULT_NONE) return fault;
    char after[USERNAME_BYTES_MAX + 1];
    memcpy(after, seller, sizeof(after));
    bind_string(s, 1, after);
    enum step step = cursor_step(s);
    bool damaged = step == STEP_ROW && !row_string(s, 0, seller, USERNAME_BYTES_MAX + 1);
    *found = step == STEP_ROW && !damaged;
    fault = statement_close(ledger, STATEMENT_OUTBOX_SELLER, step);
    return damaged ? FAULT_DAMAGE : fault;
}

enum fault ledger_outbox_due(struct ledger *ledger, const struct outbox_due *due,
                             void (*visit)(void *arg, const struct notice *notice), void *arg)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_OUTBOX_DUE, &s);
    if (fault != FAULT_NONE) return fault;
    bind_slice(s, 1, due->seller);
    bind_number(s, 2, due->now_ms);
    bind_number(s, 3, due->limit);
    return notices_list(ledger, STATEMENT_OUTBOX_DUE, visit, arg);
}

/* The stream of a notice; 0 if it is not there any more. */
static enum fault stream_read(struct ledger *ledger, uint64_t id, uint64_t *stream)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_OUTBOX_STREAM, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, id);
    enum step step = cursor_step(s);
    *stream = step == STEP_ROW ? (uint64_t)column_number(s, 0) : 0;
    return statement_close(ledger, STATEMENT_OUTBOX_STREAM, step);
}

/* The first pending notice of a stream need not wait any longer. */
static enum fault stream_go_on(struct ledger *ledger, uint64_t stream, uint64_t now_ms)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_OUTBOX_NEXT, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, stream);
    bind_number(s, 2, now_ms);
    return statement_close(ledger, STATEMENT_OUTBOX_NEXT, cursor_step(s));
}

static enum fault failure_record(struct ledger *ledger, const struct outbox_result *result, uint64_t now_ms, uint64_t *gone)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_OUTBOX_FAILED, &s);
    if (fault != FAULT_NONE) return fault;
    bool given_up = result->outcome == TRY_GIVEN_UP;
    bind_number(s, 1, result->id);
    bind_number(s, 2, given_up ? NOTICE_FAILED : NOTICE_PENDING);
    bind_number(s, 3, given_up ? NOTICE_PARKED : result->next_ms);
    bind_number(s, 4, result->status);
    bind_string(s, 5, result->error);
    bind_number(s, 6, result->since_ms);
    fault = statement_close(ledger, STATEMENT_OUTBOX_FAILED, cursor_step(s));
    if (fault == FAULT_NONE && given_up) *gone += (uint64_t)ledger_changes(ledger);
    if (fault == FAULT_NONE) fault = statement_open(ledger, STATEMENT_HOOK_FAILED, &s);
    if (fault != FAULT_NONE) return fault;
    bind_slice(s, 1, result->seller);
    bind_number(s, 2, now_ms);
    bind_string(s, 3, result->error);
    return statement_close(ledger, STATEMENT_HOOK_FAILED, cursor_step(s));
}

static enum fault result_record(struct ledger *ledger, const struct outbox_result *result, uint64_t now_ms,
                                uint64_t *given_up)
{
    uint64_t stream;
    enum fault fault = stream_read(ledger, result->id, &stream);
    if (fault != FAULT_NONE || stream == 0) return fault;
    if (result->outcome == TRY_DELIVERED) {
        struct cursor *s;
        fault = statement_open(ledger, STATEMENT_OUTBOX_DELETE, &s);
        if (fault != FAULT_NONE) return fault;
        bind_number(s, 1, result->id);
        fault = statement_close(ledger, STATEMENT_OUTBOX_DELETE, cursor_step(s));
    } else {
        fault = failure_record(ledger, result, now_ms, given_up);
    }
    if (fault != FAULT_NONE || result->outcome == TRY_FAILED) return fault;
    return stream_go_on(ledger, stream, now_ms);
}

enum fault ledger_outbox_record(struct ledger *ledger, const struct outbox_results *results, uint64_t *given_up)
{
    *given_up = 0;
    enum fault fault = small_begin(ledger);
    if (fault != FAULT_NONE) return fault;
    for (size_t i = 0; i < results->count && fault == FAULT_NONE; i++)
        fault = result_record(ledger, results->all[i], results->now_ms, given_up);
    return small_end(ledger, fault);
}

enum fault ledger_outbox_counts(struct ledger *ledger, struct slice seller, struct outbox_counts *out)
{
    *out = (struct outbox_counts){ .pending = 0 };
    enum statement id = seller.len > 0 ? STATEMENT_OUTBOX_COUNTS_SELLER : STATEMENT_OUTBOX_COUNTS;
    struct cursor *s;
    enum fault fault = statement_open(ledger, id, &s);
    if (fault != FAULT_NONE) return fault;
    if (seller.len > 0) bind_slice(s, 1, seller);
    enum step step = cursor_step(s);
    if (step == STEP_ROW) {
        out->pending = (uint64_t)column_number(s, 0);
        out->failed = (uint64_t)column_number(s, 1);
        out->oldest_ms = (uint64_t)column_number(s, 2);
    }
    return statement_close(ledger, id, step);
}

enum fault ledger_outbox_list(struct ledger *ledger, const struct outbox_query *query,
                              void (*visit)(void *arg, const struct notice *notice), void *arg)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_OUTBOX_LIST, &s);
    if (fault != FAULT_NONE) return fault;
    bind_slice(s, 1, query->seller);
    bind_number(s, 2, (uint64_t)query->state);
    bind_number(s, 3, query->after == 0 ? INT64_MAX : query->after);
    bind_number(s, 4, query->limit);
    return notices_list(ledger, STATEMENT_OUTBOX_LIST, visit, arg);
}
