/* What a ledger does in the same way on every database. */
#include "ledger/database.h"

#include "base/clock.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PATIENCE_MS_DEFAULT 5000
#define LOCK_POLL_US 500
#define YIELD_MS_MAX 100

/* SQLite gives the write lock to whoever happens to ask while it is free. A clerk that drains a backlog asks again within
 * microseconds of each commit, so a login or logout could starve beside it: those who write little are counted here, and the
 * clerk waits a moment while there are any. */
static _Atomic uint32_t queue_count;

void ledger_queue_enter(void)
{
    atomic_fetch_add(&queue_count, 1);
}

void ledger_queue_leave(void)
{
    atomic_fetch_sub(&queue_count, 1);
}

void ledger_lock_pause(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = LOCK_POLL_US * 1000L }, NULL);
}

void ledger_queue_yield(void)
{
    for (uint64_t until_ms = mono_ms() + YIELD_MS_MAX; atomic_load(&queue_count) > 0 && mono_ms() < until_ms;)
        ledger_lock_pause();
}

void ledger_set_patience(struct ledger *ledger, uint32_t wait_ms_max)
{
    ledger->patience_ms = wait_ms_max;
}

enum fault ledger_open(struct ledger **out, const struct ledger_place *place, enum ledger_mode mode)
{
    *out = NULL;
    struct ledger *ledger = calloc(1, sizeof(*ledger));
    if (ledger == NULL) return FAULT_MEMORY;
    ledger->driver = place->path != NULL ? &driver_sqlite : &driver_mysql;
    ledger->place = *place;
    ledger->path = place->path != NULL ? place->path : ledger->place.name;
    ledger->patience_ms = PATIENCE_MS_DEFAULT;
    enum fault fault = ledger->driver->open(ledger, mode);
    if (fault != FAULT_NONE) {
        ledger_close(ledger);
        return fault;
    }
    *out = ledger;
    return FAULT_NONE;
}

void ledger_close(struct ledger *ledger)
{
    if (ledger == NULL) return;
    for (int i = 0; i < STATEMENT_COUNT; i++) {
        if (ledger->statements[i] != NULL) ledger->driver->release(ledger->statements[i]);
    }
    ledger->driver->close(ledger);
    explicit_bzero(ledger->place.password, sizeof(ledger->place.password));
    free(ledger);
}

enum fault ledger_begin(struct ledger *ledger, enum transaction kind)
{
    return ledger->driver->begin(ledger, kind);
}

enum fault ledger_commit(struct ledger *ledger)
{
    return ledger->driver->commit(ledger);
}

void ledger_undo(struct ledger *ledger)
{
    ledger->driver->undo(ledger);
}

int64_t ledger_changes(struct ledger *ledger)
{
    return ledger->driver->changes(ledger);
}

uint64_t ledger_last_id(struct ledger *ledger)
{
    return ledger->driver->last_id(ledger);
}

const char *ledger_error(struct ledger *ledger)
{
    return ledger->driver->error(ledger);
}

enum fault statement_open(struct ledger *ledger, enum statement id, struct cursor **out)
{
    enum fault fault = ledger->driver->prepare(ledger, id, &ledger->statements[id]);
    *out = ledger->statements[id];
    return fault;
}

enum fault statement_close(struct ledger *ledger, enum statement id, enum step step)
{
    enum fault fault = FAULT_NONE;
    if (step != STEP_ROW && step != STEP_DONE) fault = ledger->driver->fault(ledger, statement_sql[id]);
    ledger->driver->reset(ledger->statements[id]);
    return fault;
}

enum step cursor_step(struct cursor *cursor)
{
    return cursor->ledger->driver->step(cursor);
}

void cursor_reset(struct cursor *cursor)
{
    cursor->ledger->driver->reset(cursor);
}

void bind_number(struct cursor *cursor, int at, uint64_t value)
{
    cursor->ledger->driver->bind_number(cursor, at, (int64_t)value);
}

void bind_signed(struct cursor *cursor, int at, int64_t value)
{
    cursor->ledger->driver->bind_number(cursor, at, value);
}

void bind_slice(struct cursor *cursor, int at, struct slice text)
{
    /* NULL would be bound as SQL's NULL, which equals nothing. */
    if (text.data == NULL) text = SLICE("");
    cursor->ledger->driver->bind_text(cursor, at, text);
}

void bind_string(struct cursor *cursor, int at, const char *text)
{
    bind_slice(cursor, at, slice_of(text));
}

void bind_blob(struct cursor *cursor, int at, struct slice bytes)
{
    cursor->ledger->driver->bind_blob(cursor, at, bytes);
}

int64_t column_number(struct cursor *cursor, int column)
{
    return cursor->ledger->driver->number(cursor, column);
}

struct slice column_text(struct cursor *cursor, int column)
{
    return cursor->ledger->driver->bytes(cursor, column);
}
