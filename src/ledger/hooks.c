/* Hooks: where sellers want to be told. Rare, so they are written straight away, and durable when these return. */
#include "base/log.h"
#include "ledger/outbox.h"
#include "ledger/shared_file.h"

#include <assert.h>

enum fault small_begin(struct ledger *ledger)
{
    assert(!ledger->filing);
    ledger_queue_enter();
    enum fault fault = ledger_begin(ledger, TRANSACTION_WRITE);
    ledger_queue_leave();
    if (fault != FAULT_NONE || ledger->fence.job == NULL) return fault;
    fault = fence_check(ledger, &ledger->fence);
    if (fault != FAULT_NONE) ledger_undo(ledger);
    return fault;
}

enum fault small_end(struct ledger *ledger, enum fault fault)
{
    if (fault == FAULT_NONE) fault = ledger_commit(ledger);
    if (fault != FAULT_NONE) ledger_undo(ledger);
    return fault;
}

static bool row_hook(struct cursor *s, struct hook *out)
{
    bool good = row_string(s, 0, out->seller, sizeof(out->seller)) && row_string(s, 1, out->url, sizeof(out->url)) &&
                row_string(s, 2, out->secret, sizeof(out->secret)) &&
                row_string(s, 3, out->secret_before, sizeof(out->secret_before)) &&
                row_u64(s, 4, INT64_MAX, &out->before_until_ms) && row_u64(s, 5, INT64_MAX, &out->since_ms) &&
                row_u64(s, 6, INT64_MAX, &out->failed_ms) && row_string(s, 7, out->error, sizeof(out->error));
    if (!good) log_error("ledger", "a hook has a value that cannot be");
    return good;
}

enum fault ledger_hook(struct ledger *ledger, struct slice seller, struct hook *out, bool *found)
{
    *found = false;
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_HOOK, &s);
    if (fault != FAULT_NONE) return fault;
    bind_slice(s, 1, seller);
    enum step step = cursor_step(s);
    *found = step == STEP_ROW;
    bool damaged = *found && !row_hook(s, out);
    fault = statement_close(ledger, STATEMENT_HOOK, step);
    return damaged ? FAULT_DAMAGE : fault;
}

enum fault ledger_each_hook(struct ledger *ledger, enum fault (*visit)(void *arg, const struct hook *hook), void *arg)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_HOOKS_EACH, &s);
    if (fault != FAULT_NONE) return fault;
    struct hook hook;
    enum step step;
    while ((step = cursor_step(s)) == STEP_ROW) {
        fault = row_hook(s, &hook) ? visit(arg, &hook) : FAULT_DAMAGE;
        if (fault != FAULT_NONE) break;
    }
    enum fault closed = statement_close(ledger, STATEMENT_HOOKS_EACH, step);
    return fault != FAULT_NONE ? fault : closed;
}

static bool row_health(struct cursor *s, struct hook_health *out)
{
    bool good = row_string(s, 0, out->seller, sizeof(out->seller)) && row_string(s, 1, out->url, sizeof(out->url)) &&
                row_u64(s, 2, INT64_MAX, &out->since_ms) && row_u64(s, 3, INT64_MAX, &out->failed_ms) &&
                row_string(s, 4, out->error, sizeof(out->error)) && row_u64(s, 5, INT64_MAX, &out->pending) &&
                row_u64(s, 6, INT64_MAX, &out->failed);
    if (!good) log_error("ledger", "a hook has a value that cannot be");
    return good;
}

enum fault ledger_hooks_worst(struct ledger *ledger, uint32_t limit,
                              void (*visit)(void *arg, const struct hook_health *health), void *arg)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_HOOKS_WORST, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, limit);
    struct hook_health health;
    bool good = true;
    enum step step;
    while ((step = cursor_step(s)) == STEP_ROW && (good = row_health(s, &health))) visit(arg, &health);
    fault = statement_close(ledger, STATEMENT_HOOKS_WORST, step);
    return good ? fault : FAULT_DAMAGE;
}

static enum fault hooks_changed(struct ledger *ledger)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_HOOKS_CHANGED, &s);
    return fault != FAULT_NONE ? fault : statement_close(ledger, STATEMENT_HOOKS_CHANGED, cursor_step(s));
}

static enum fault some_drop(struct ledger *ledger, enum statement id, struct slice seller, uint64_t parameter,
                            uint64_t *count)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, id, &s);
    if (fault != FAULT_NONE) return fault;
    bind_slice(s, 1, seller);
    bind_number(s, 2, parameter);
    ledger_queue_enter();
    fault = statement_close(ledger, id, cursor_step(s));
    ledger_queue_leave();
    *count = fault == FAULT_NONE ? (uint64_t)ledger_changes(ledger) : 0;
    return fault;
}

/* What the hook of before was still to be told. Not in one transaction: a million rows would keep the clerk waiting. */
static enum fault notices_purge(struct ledger *ledger, struct slice seller)
{
    uint64_t some = OUTBOX_AT_ONCE;
    enum fault fault = FAULT_NONE;
    while (fault == FAULT_NONE && some == OUTBOX_AT_ONCE)
        fault = some_drop(ledger, STATEMENT_OUTBOX_PURGE, seller, OUTBOX_AT_ONCE, &some);
    return fault;
}

/* What has failed holds back nothing: no stream has to go on. */
enum fault ledger_outbox_drop(struct ledger *ledger, struct slice seller, uint64_t id, uint64_t *count)
{
    return id != 0 ? some_drop(ledger, STATEMENT_OUTBOX_DROP, seller, id, count)
                   : some_drop(ledger, STATEMENT_OUTBOX_DROP_ALL, seller, OUTBOX_AT_ONCE, count);
}

static void text_set(char *out, size_t size, struct slice text)
{
    assert(text.len < size);
    memcpy(out, text.data, text.len);
    out[text.len] = '\0';
}

/* The hook as the put leaves it. */
static void hook_change(struct hook *hook, const struct hook_put *put, bool found, bool fresh)
{
    if (!found) {
        *hook = (struct hook){ .since_ms = put->now_ms };
        text_set(hook->seller, sizeof(hook->seller), put->seller);
    } else if (fresh) {
        memcpy(hook->secret_before, hook->secret, sizeof(hook->secret_before));
        hook->before_until_ms = put->before_until_ms;
    }
    if (fresh) text_set(hook->secret, sizeof(hook->secret), put->secret);
    text_set(hook->url, sizeof(hook->url), put->url);
}

static enum fault hook_write(struct ledger *ledger, const struct hook *hook)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_HOOK_PUT, &s);
    if (fault != FAULT_NONE) return fault;
    bind_string(s, 1, hook->seller);
    bind_string(s, 2, hook->url);
    bind_string(s, 3, hook->secret);
    bind_string(s, 4, hook->secret_before);
    bind_number(s, 5, hook->before_until_ms);
    bind_number(s, 6, hook->since_ms);
    return statement_close(ledger, STATEMENT_HOOK_PUT, cursor_step(s));
}

enum fault ledger_hook_put(struct ledger *ledger, const struct hook_put *put, struct hook *out, bool *fresh)
{
    bool found;
    enum fault fault = ledger_hook(ledger, put->seller, out, &found);
    /* A test may have been asked for while the hook before was deleted. */
    if (fault == FAULT_NONE && !found) fault = notices_purge(ledger, put->seller);
    if (fault == FAULT_NONE) fault = small_begin(ledger);
    if (fault != FAULT_NONE) return fault;
    fault = ledger_hook(ledger, put->seller, out, &found);
    *fresh = !found || put->rotate;
    if (fault == FAULT_NONE) {
        hook_change(out, put, found, *fresh);
        fault = hook_write(ledger, out);
    }
    if (fault == FAULT_NONE) fault = hooks_changed(ledger);
    return small_end(ledger, fault);
}

/* The hook goes with the last of its notices, those that have come since most were purged: there is none without a hook. */
enum fault ledger_hook_delete(struct ledger *ledger, struct slice seller, bool *found)
{
    *found = false;
    enum fault fault = notices_purge(ledger, seller);
    if (fault == FAULT_NONE) fault = small_begin(ledger);
    if (fault != FAULT_NONE) return fault;
    struct cursor *s;
    fault = notices_purge(ledger, seller);
    if (fault == FAULT_NONE) fault = statement_open(ledger, STATEMENT_HOOK_DELETE, &s);
    if (fault == FAULT_NONE) {
        bind_slice(s, 1, seller);
        fault = statement_close(ledger, STATEMENT_HOOK_DELETE, cursor_step(s));
        *found = ledger_changes(ledger) == 1;
    }
    if (fault == FAULT_NONE) fault = hooks_changed(ledger);
    return small_end(ledger, fault);
}

enum fault ledger_outbox_mark(struct ledger *ledger, struct outbox_mark *out)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_OUTBOX_MARK, &s);
    if (fault != FAULT_NONE) return fault;
    enum step step = cursor_step(s);
    bool found = step == STEP_ROW;
    if (found) {
        out->hooks_version = (uint64_t)column_number(s, 0);
        out->told_ms = (uint64_t)column_number(s, 1);
        out->hooks_any = column_number(s, 2) != 0;
    }
    fault = statement_close(ledger, STATEMENT_OUTBOX_MARK, step);
    if (fault == FAULT_NONE && !found) {
        log_error("ledger", "%s does not say how far its outbox was filled", ledger->path);
        return FAULT_DAMAGE;
    }
    return fault;
}
