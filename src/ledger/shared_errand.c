/* What gates have still to be told, who may write as the owner of a job, and logouts that other nodes have taken. */
#include "ledger/shared_file.h"

#include "base/log.h"

#include <inttypes.h>

enum fault errand_leave(struct ledger *ledger, struct ledger_errand *errand)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_ERRAND_INSERT, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, (uint64_t)errand->kind);
    bind_number(s, 2, errand->sale_id);
    bind_number(s, 3, errand->epoch);
    bind_number(s, 4, errand->order_no);
    bind_number(s, 5, errand->units);
    bind_number(s, 6, errand->made_ms);
    fault = statement_close(ledger, STATEMENT_ERRAND_INSERT, cursor_step(s));
    errand->id = ledger_last_id(ledger);
    return fault;
}

bool row_errand(struct cursor *s, struct ledger_errand *out)
{
    uint32_t kind;
    bool good = row_u64(s, 0, INT64_MAX, &out->id) && row_u32(s, 1, ERRAND_REFUND, &kind) && kind != 0 &&
                row_u64(s, 2, INT64_MAX, &out->sale_id) && row_u64(s, 3, INT64_MAX, &out->epoch) &&
                row_u64(s, 4, INT64_MAX, &out->order_no) && row_u32(s, 5, STOCK_MAX, &out->units) &&
                row_u64(s, 6, TIME_MS_MAX, &out->made_ms);
    if (good) out->kind = (enum errand_kind)kind;
    if (!good) log_error("ledger", "errand %lld has a value that cannot be", (long long)column_number(s, 0));
    return good;
}

enum fault ledger_errands(struct ledger *ledger, const struct ledger_errand_page *page,
                          void (*visit)(void *arg, const struct ledger_errand *errand), void *arg)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_ERRANDS, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, page->id_after);
    bind_number(s, 2, page->made_before_ms);
    bind_number(s, 3, page->max);
    bool damaged = false;
    enum step step;
    while ((step = cursor_step(s)) == STEP_ROW) {
        struct ledger_errand errand;
        damaged = !row_errand(s, &errand);
        if (damaged) break;
        visit(arg, &errand);
    }
    fault = statement_close(ledger, STATEMENT_ERRANDS, step);
    return damaged ? FAULT_DAMAGE : fault;
}

struct done {
    const uint64_t *ids;
    size_t count;
};

static enum fault done_work(struct ledger *ledger, void *arg, bool *wrote)
{
    const struct done *done = arg;
    enum fault fault = FAULT_NONE;
    for (size_t i = 0; i < done->count && fault == FAULT_NONE; i++) {
        struct cursor *s;
        fault = statement_open(ledger, STATEMENT_ERRAND_DELETE, &s);
        if (fault != FAULT_NONE) break;
        bind_number(s, 1, done->ids[i]);
        fault = statement_close(ledger, STATEMENT_ERRAND_DELETE, cursor_step(s));
    }
    *wrote = done->count > 0;
    return fault;
}

enum fault ledger_errands_done(struct ledger *ledger, const uint64_t *ids, size_t count)
{
    struct done done = { ids, count };
    return shared_run(ledger, done_work, &done);
}

static enum fault fence_read(struct ledger *ledger, const char *job, uint64_t *number)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_FENCE, &s);
    if (fault != FAULT_NONE) return fault;
    bind_string(s, 1, job);
    enum step step = cursor_step(s);
    *number = step == STEP_ROW ? (uint64_t)column_number(s, 0) : 0;
    return statement_close(ledger, STATEMENT_FENCE, step);
}

enum fault fence_check(struct ledger *ledger, const struct ledger_fence *fence)
{
    uint64_t number;
    enum fault fault = fence_read(ledger, fence->job, &number);
    if (fault != FAULT_NONE || number == fence->number) return fault;
    log_warn("ledger",
             "%s: the job %s was given on as number %" PRIu64 ": what number %" PRIu64 " was about to write, is not",
             ledger->path, fence->job, number, fence->number);
    return FAULT_FENCED;
}

void ledger_set_fence(struct ledger *ledger, const struct ledger_fence *fence)
{
    ledger->fence = *fence;
}

static enum fault raise_work(struct ledger *ledger, void *arg, bool *wrote)
{
    struct ledger_fence *fence = arg;
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_FENCE_RAISE, &s);
    if (fault != FAULT_NONE) return fault;
    bind_string(s, 1, fence->job);
    fault = statement_close(ledger, STATEMENT_FENCE_RAISE, cursor_step(s));
    *wrote = true;
    return fault != FAULT_NONE ? fault : fence_read(ledger, fence->job, &fence->number);
}

enum fault ledger_fence_raise(struct ledger *ledger, struct ledger_fence *fence)
{
    return shared_run(ledger, raise_work, fence);
}

enum fault ledger_each_revoked_after(struct ledger *ledger, uint64_t *last,
                                     void (*visit)(void *arg, uint64_t token_id, uint64_t expires_ms), void *arg)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_REVOKED_AFTER, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, *last);
    enum step step;
    while ((step = cursor_step(s)) == STEP_ROW) {
        visit(arg, (uint64_t)column_number(s, 1), (uint64_t)column_number(s, 2));
        *last = (uint64_t)column_number(s, 0);
    }
    return statement_close(ledger, STATEMENT_REVOKED_AFTER, step);
}
