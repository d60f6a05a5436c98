#include "fixture.h"

#include "base/log.h"

#include <assert.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int fixture_setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    snprintf(f->folder, sizeof(f->folder), "/tmp/stampede-ledger-XXXXXX");
    if (mkdtemp(f->folder) == NULL) return -1;
    snprintf(f->path, sizeof(f->path), "%s/ledger.db", f->folder);
    assert_int_equal(ledger_open(&f->ledger, LEDGER_FILE(f->path), LEDGER_OWNER), FAULT_NONE);
    *state = f;
    return 0;
}

int fixture_teardown(void **state)
{
    struct fixture *f = *state;
    ledger_close(f->ledger);
    static const char *const ends[] = { "", "-wal", "-shm", "-journal" };
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        char path[160];
        snprintf(path, sizeof(path), "%s%s", f->path, ends[i]);
        unlink(path);
    }
    rmdir(f->folder);
    free(f);
    return 0;
}

void fixture_reopen(struct fixture *f)
{
    ledger_close(f->ledger);
    assert_int_equal(ledger_open(&f->ledger, LEDGER_FILE(f->path), LEDGER_OWNER), FAULT_NONE);
}

int64_t outside_number(const struct fixture *f, const char *sql)
{
    sqlite3 *db;
    sqlite3_stmt *s;
    assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 1000);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
    int rc = sqlite3_step(s);
    int64_t number = rc == SQLITE_ROW ? sqlite3_column_int64(s, 0) : -1;
    assert_true(rc == SQLITE_ROW || rc == SQLITE_DONE);
    sqlite3_finalize(s);
    sqlite3_close(db);
    return number;
}

void outside(const struct fixture *f, const char *sql)
{
    outside_number(f, sql);
}

struct sale_terms terms_named(const char *name)
{
    struct sale_terms terms = {
        .description = "a thing",
        .currency = "EUR",
        .price = 250,
        .units_per_grab_max = 5,
        .grabs_per_buyer_max = 3,
        .opens_ms = 1000,
        .admission = ADMISSION_LOGIN,
    };
    snprintf(terms.name, sizeof(terms.name), "%s", name);
    return terms;
}

enum fault decisions_try(struct fixture *f, const struct decision *decisions, size_t count)
{
    struct ledger_point from, to;
    assert_int_equal(ledger_file_begin(f->ledger, &from), FAULT_NONE);
    to = from;
    for (size_t i = 0; i < count; i++) {
        enum fault fault = ledger_file(f->ledger, &decisions[i]);
        if (fault != FAULT_NONE) {
            ledger_file_rollback(f->ledger);
            return fault;
        }
        to.seq = decisions[i].seq;
        to.digest = to.seq * 31;
        to.at_ms = decisions[i].at_ms;
        if (decisions[i].kind == DECISION_SALE_CREATED) to.sale_id_last = decisions[i].sale_id;
    }
    enum fault fault = ledger_file_commit(f->ledger, &from, &to);
    if (fault == FAULT_NONE) f->seq = to.seq;
    return fault;
}

void decision_must(struct fixture *f, const struct decision *decision)
{
    assert_int_equal(decisions_try(f, decision, 1), FAULT_NONE);
}

uint64_t sale_file(struct fixture *f, const char *seller, const struct sale_terms *terms, uint32_t stock)
{
    struct decision d = {
        .seq = f->seq + 1, .at_ms = 5000 + f->seq, .kind = DECISION_SALE_CREATED, .sale_id = ++f->sale_id
    };
    d.created.seller = slice_of(seller);
    d.created.terms = terms;
    d.created.stock = stock;
    decision_must(f, &d);
    return d.sale_id;
}

struct decision win_of(uint64_t seq, uint64_t sale_id, const char *buyer, const char *key, uint32_t units)
{
    struct decision d = { .seq = seq, .at_ms = 5000 + seq, .kind = DECISION_WON, .sale_id = sale_id };
    d.won.buyer = slice_of(buyer);
    d.won.key = slice_of(key);
    d.won.units = units;
    d.won.amount = 250 * (int64_t)units;
    return d;
}

uint64_t win_file(struct fixture *f, uint64_t sale_id, const char *buyer, const char *key, uint32_t units)
{
    struct decision d = win_of(f->seq + 1, sale_id, buyer, key, units);
    decision_must(f, &d);
    return d.seq;
}

uint64_t hold_file(struct fixture *f, uint64_t sale_id, const char *buyer, uint32_t units, uint64_t pay_by_ms)
{
    struct decision d = win_of(f->seq + 1, sale_id, buyer, "", units);
    d.won.pay_by_ms = pay_by_ms;
    decision_must(f, &d);
    return d.seq;
}

struct decision end_of(const struct fixture *f, enum decision_kind kind, uint64_t sale_id, uint64_t order_no, uint32_t units)
{
    struct decision d = { .seq = f->seq + 1, .at_ms = 6000 + f->seq, .kind = kind, .sale_id = sale_id };
    d.ended.order_no = order_no;
    d.ended.units = units;
    if (kind == DECISION_CANCELLED) {
        d.ended.by = CANCELLER_SELLER;
        d.ended.reason = SLICE("it's broken");
    } else if (kind != DECISION_EXPIRED) {
        d.ended.ref = SLICE("pay-1");
    }
    return d;
}
