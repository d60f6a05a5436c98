#include "gate/reconcile.h"

#include "base/clock.h"
#include "gate/keeper/facts.h"
#include "gate/keeper/inside.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define TRIES 4
#define TRY_APART_MS 700
#define TOLD_MAX 100 /* of one sale */

struct table {
    struct keeper *keeper;
    struct reconcile *reconcile;
    struct peek_list sales; /* of the shelf */
    enum fault fault;
};

static void tell(struct reconcile *reconcile, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void tell(struct reconcile *reconcile, const char *format, ...)
{
    char line[FACT_BYTES + 64];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    reconcile->differences++;
    reconcile->tell(reconcile->arg, line);
}

/* Keeps of the first what the second has, too. */
static void facts_keep(struct facts *first, const struct facts *second)
{
    size_t kept = 0;
    for (size_t i = 0; i < first->count; i++) {
        if (facts_has(second, facts_line(first, i))) first->lines[kept++] = first->lines[i];
    }
    first->count = kept;
}

static enum fault row_read(struct table *table, uint64_t sale_id, struct ledger_shelved *row, bool *found)
{
    struct ledger *ledger = keeper_ledger(table->keeper);
    *found = false;
    return ledger == NULL ? FAULT_LEDGER : ledger_shelved(ledger, sale_id, row, found);
}

static void table_pause(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = TRY_APART_MS * 1000000L }, NULL);
}

/* What differs each time. */
static enum fault sale_differences(struct table *table, uint64_t sale_id, struct facts *out)
{
    enum fault fault = FAULT_NONE;
    for (int i = 0; i < TRIES && fault == FAULT_NONE && (i == 0 || out->count > 0); i++) {
        struct facts now = { .text = NULL };
        struct ledger_shelved row;
        bool found;
        if (i > 0) table_pause();
        keeper_pulse(table->keeper);
        fault = row_read(table, sale_id, &row, &found);
        if (fault == FAULT_NONE && found) fault = sale_compare(table->keeper, &row, &now);
        if (i == 0) {
            *out = now;
        } else {
            if (fault == FAULT_NONE) facts_keep(out, &now);
            facts_free(&now);
        }
    }
    return fault;
}

static bool repair_goes_on(struct table *table)
{
    return job_keep(table->keeper, KEEPER_LOCK_RECONCILE);
}

static bool sale_build(struct keeper *keeper, uint64_t sale_id)
{
    return sale_rebuild(keeper, sale_id, true);
}

/* A node may be building it: then it is waited for, and what it has built is good. */
static enum fault sale_repair(struct table *table, uint64_t sale_id, bool (*mend)(struct keeper *keeper, uint64_t sale_id))
{
    struct keeper *keeper = table->keeper;
    for (uint64_t until_ms = mono_ms() + LOCK_MS + TRY_APART_MS; mono_ms() < until_ms; table_pause()) {
        if (!repair_goes_on(table)) return FAULT_FENCED;
        if (mend(keeper, sale_id)) {
            table->reconcile->repaired++;
            return FAULT_NONE;
        }
        if (keeper->redis_silent || sale_is_away(keeper, sale_id) || keeper->ledger == NULL) break;
    }
    return FAULT_NONE;
}

static enum fault sale_tell(struct table *table, uint64_t sale_id, const struct facts *found)
{
    struct reconcile *reconcile = table->reconcile;
    for (size_t i = 0; i < found->count && i < TOLD_MAX; i++)
        tell(reconcile, "sale %" PRIu64 ": %s", sale_id, facts_line(found, i));
    if (found->count > TOLD_MAX) {
        tell(reconcile, "sale %" PRIu64 ": and %zu more", sale_id, found->count - TOLD_MAX);
        reconcile->differences += found->count - TOLD_MAX - 1;
    }
    reconcile->differing++;
    return reconcile->repair ? sale_repair(table, sale_id, sale_build) : FAULT_NONE;
}

static void sale_add(const struct sale *sale, uint64_t epoch, void *arg)
{
    struct table *table = arg;
    if (!peek_list_add(&table->sales, sale->id, epoch)) table->fault = FAULT_MEMORY;
}

static enum fault stranger_judge(struct table *table, uint64_t sale_id)
{
    struct keeper *keeper = table->keeper;
    struct ledger_shelved row;
    bool found;
    uint64_t entries;
    enum fault fault = row_read(table, sale_id, &row, &found);
    if (fault != FAULT_NONE) return fault;
    if (!found) {
        tell(table->reconcile, "sale %" PRIu64 ": it is in Redis, and the ledger does not know it", sale_id);
        table->reconcile->differing++;
        return table->reconcile->repair ? sale_repair(table, sale_id, sale_drop) : FAULT_NONE;
    }
    struct peek peek;
    sale_peek(keeper, sale_id, 0, &peek);
    if (peek.state == PEEK_DAMAGED) {
        tell(table->reconcile, "sale %" PRIu64 ": it is over, and what Redis has of it cannot be used: %s", sale_id,
             peek.why);
    } else {
        fault = stream_unfiled(keeper, sale_id, &entries);
        if (fault != FAULT_NONE || entries == 0) return fault;
        tell(table->reconcile, "sale %" PRIu64 ": it is over, and %" PRIu64 " decisions in its log are not filed", sale_id,
             entries);
    }
    table->reconcile->differing++;
    if (!table->reconcile->repair) return FAULT_NONE;
    if (!repair_goes_on(table)) return FAULT_FENCED;
    if (stranger_file(keeper, sale_id, &found)) table->reconcile->repaired++;
    return FAULT_NONE;
}

static enum fault strangers_judge(struct table *table)
{
    struct strangers strangers = { .tried = 0 };
    enum fault fault = strangers_look(table->keeper, &strangers, UINT32_MAX) ? FAULT_NONE : FAULT_TIMEOUT;
    for (size_t i = 0; i < strangers.found.count && fault == FAULT_NONE; i++)
        fault = stranger_judge(table, strangers.found.ids[i]);
    strangers_deinit(&strangers);
    return fault;
}

/* What an earlier one left behind when it was killed ends by itself. */
static enum fault repair_begin(struct keeper *keeper)
{
    struct lock *lock = &keeper->locks[KEEPER_LOCK_RECONCILE];
    locks_init(keeper);
    for (uint64_t until_ms = mono_ms() + LOCK_MS + TRY_APART_MS; !lock_take(lock, keeper); table_pause()) {
        bool away = !redis_client_reaches(keeper->client, slice_of(lock->owned.key));
        if (keeper->redis_silent || away) return FAULT_TIMEOUT;
        if (keeper->ledger == NULL) return FAULT_LEDGER;
        if (mono_ms() > until_ms) return FAULT_IN_USE;
    }
    return FAULT_NONE;
}

enum fault gate_reconcile(struct gate *gate, struct reconcile *reconcile)
{
    struct remote *remote = remote_of(gate);
    struct table table = { .reconcile = reconcile };
    enum fault fault = keeper_make(&table.keeper, remote);
    if (fault != FAULT_NONE) return fault;
    shelf_each(remote->shelf, sale_add, &table);
    fault = table.fault;
    if (fault == FAULT_NONE && reconcile->repair) fault = repair_begin(table.keeper);
    for (size_t i = 0; i < table.sales.count && fault == FAULT_NONE; i++) {
        struct facts found = { .text = NULL };
        fault = sale_differences(&table, table.sales.ids[i], &found);
        if (fault == FAULT_NONE) reconcile->sales++;
        if (fault == FAULT_NONE && found.count > 0) fault = sale_tell(&table, table.sales.ids[i], &found);
        facts_free(&found);
    }
    if (fault == FAULT_NONE) fault = strangers_judge(&table);
    peek_list_free(&table.sales);
    keeper_close(table.keeper);
    return fault;
}
