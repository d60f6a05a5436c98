/* Users and logouts: rare, so they are written straight away, and durable when these return. */
#include "base/log.h"
#include "ledger/database.h"

#include <assert.h>

const char *role_word(enum role role)
{
    static const char *const words[] = { "none", "customer", "seller", "admin" };
    assert((size_t)role < sizeof(words) / sizeof(words[0]));
    return words[role];
}

enum fault ledger_user_add(struct ledger *ledger, const struct ledger_user *user, uint64_t now_ms, bool *taken)
{
    *taken = false;
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_USER_INSERT, &s);
    if (fault != FAULT_NONE) return fault;
    bind_string(s, 1, user->username);
    bind_number(s, 2, (uint64_t)user->role);
    bind_string(s, 3, user->password_hash);
    bind_number(s, 4, now_ms);

    ledger_queue_enter();
    enum step step = cursor_step(s);
    ledger_queue_leave();
    if (step == STEP_CONFLICT) {
        *taken = true;
        cursor_reset(s);
        return FAULT_NONE;
    }
    *taken = step == STEP_DONE && ledger_changes(ledger) == 0;
    return statement_close(ledger, STATEMENT_USER_INSERT, step);
}

enum fault ledger_user(struct ledger *ledger, struct slice username, struct ledger_user *out, bool *found)
{
    *found = false;
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_USER, &s);
    if (fault != FAULT_NONE) return fault;
    bind_slice(s, 1, username);
    enum step step = cursor_step(s);
    bool damaged = false;
    if (step == STEP_ROW) {
        int64_t role = column_number(s, 1);
        damaged = role < ROLE_CUSTOMER || role > ROLE_ADMIN || !row_string(s, 0, out->username, sizeof(out->username)) ||
                  !row_string(s, 2, out->password_hash, sizeof(out->password_hash));
        out->role = (enum role)role;
        *found = !damaged;
    }
    fault = statement_close(ledger, STATEMENT_USER, step);
    if (damaged) {
        log_error("ledger", "%s: a user has a value that cannot be", ledger->path);
        return FAULT_DAMAGE;
    }
    return fault;
}

_Static_assert(ROLE_SELLER == 2 && ROLE_ADMIN > ROLE_SELLER, "as STATEMENT_SELLS has it");

enum fault ledger_sells(struct ledger *ledger, struct slice name, bool *sells)
{
    *sells = false;
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_SELLS, &s);
    if (fault != FAULT_NONE) return fault;
    bind_slice(s, 1, name);
    enum step step = cursor_step(s);
    if (step == STEP_ROW) *sells = column_number(s, 0) != 0;
    return statement_close(ledger, STATEMENT_SELLS, step);
}

enum fault ledger_revoke(struct ledger *ledger, uint64_t token_id, uint64_t expires_ms)
{
    enum fault fault = small_begin(ledger); /* alone: rows get their ids in the order in which they can be seen */
    if (fault != FAULT_NONE) return fault;
    struct cursor *s;
    fault = statement_open(ledger, STATEMENT_REVOKED_INSERT, &s);
    if (fault == FAULT_NONE) {
        bind_number(s, 1, token_id);
        bind_number(s, 2, expires_ms);
        fault = statement_close(ledger, STATEMENT_REVOKED_INSERT, cursor_step(s));
    }
    return small_end(ledger, fault);
}

enum fault ledger_each_revoked(struct ledger *ledger, uint64_t now_ms,
                               enum fault (*visit)(void *arg, uint64_t token_id, uint64_t expires_ms), void *arg)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_REVOKED_EACH, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, now_ms);
    enum step step;
    while ((step = cursor_step(s)) == STEP_ROW) {
        fault = visit(arg, (uint64_t)column_number(s, 0), (uint64_t)column_number(s, 1));
        if (fault != FAULT_NONE) break;
    }
    enum fault closed = statement_close(ledger, STATEMENT_REVOKED_EACH, step);
    return fault != FAULT_NONE ? fault : closed;
}

enum fault ledger_forget_revoked(struct ledger *ledger, uint64_t now_ms)
{
    struct cursor *s;
    enum fault fault = statement_open(ledger, STATEMENT_REVOKED_DELETE, &s);
    if (fault != FAULT_NONE) return fault;
    bind_number(s, 1, now_ms);
    ledger_queue_enter();
    enum step step = cursor_step(s);
    ledger_queue_leave();
    return statement_close(ledger, STATEMENT_REVOKED_DELETE, step);
}
