/* ledger_bench: how fast the ledger files.
 *
 *   ledger_bench DATA COUNT    files COUNT wins that are held into a new ledger in the folder DATA, or in the database of
 * the URL DATA, whose password STAMPEDE_LEDGER_PASSWORD has; then the expiry of all of them; prints wins a second and
 * expiries a second
 *
 * In transactions as long as the clerk's when it drains a backlog, on nothing but the ledger. */
#include "base/clock.h"
#include "base/text.h"
#include "ledger/ledger.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define DECISIONS_PER_TRANSACTION 60000
#define NAME_BYTES 16

static void must(enum fault fault)
{
    if (fault == FAULT_NONE) return;
    fprintf(stderr, "ledger_bench: the ledger failed\n");
    exit(1);
}

static void file_sale(struct ledger *ledger)
{
    static const struct sale_terms terms = {
        .name = "filed", .price = -1, .units_per_grab_max = 1, .grabs_per_buyer_max = 1, .pay_within_s = 900
    };
    struct ledger_point from, to;
    struct decision d = { .seq = 1, .at_ms = 1, .kind = DECISION_SALE_CREATED, .sale_id = 1 };
    d.created.seller = SLICE("seller");
    d.created.terms = &terms;
    d.created.stock = STOCK_MAX;
    must(ledger_file_begin(ledger, &from));
    must(ledger_file(ledger, &d));
    to = from;
    to.seq = 1;
    must(ledger_file_commit(ledger, &from, &to));
}

static void won_make(struct decision *d, uint64_t nth, char name[NAME_BYTES + 1])
{
    snprintf(name, NAME_BYTES + 1, "filled%010" PRIu64, nth * 7919 % 9999999967);
    d->kind = DECISION_WON;
    d->won.buyer = (struct slice){ name, NAME_BYTES };
    d->won.units = 1;
    d->won.amount = -1;
    d->won.pay_by_ms = d->at_ms + 900000;
}

static void expired_make(struct decision *d, uint64_t nth)
{
    d->kind = DECISION_EXPIRED;
    d->ended.order_no = nth + 2;
    d->ended.units = 1;
}

/* Decisions a second. */
static double file_all(struct ledger *ledger, uint64_t count, enum decision_kind kind)
{
    uint64_t start_ns = mono_ns();
    for (uint64_t nth = 0; nth < count;) {
        struct ledger_point from, to;
        must(ledger_file_begin(ledger, &from));
        to = from;
        for (uint64_t end = nth + DECISIONS_PER_TRANSACTION; nth < count && nth < end; nth++) {
            char name[NAME_BYTES + 1];
            struct decision d = { .seq = ++to.seq, .sale_id = 1, .at_ms = UINT64_C(1700000000000) + to.seq / 100 };
            if (kind == DECISION_WON) {
                won_make(&d, nth, name);
            } else {
                expired_make(&d, nth);
            }
            must(ledger_file(ledger, &d));
        }
        must(ledger_file_commit(ledger, &from, &to));
    }
    return (double)count * 1e9 / (double)(mono_ns() - start_ns);
}

int main(int argc, char **argv)
{
    uint64_t count;
    char path[512], mistake[LEDGER_MISTAKE_BYTES];
    struct ledger *ledger;
    struct ledger_place place;
    if (argc != 3 || !text_to_u64(slice_of(argv[2]), &count) || count == 0 || count > ORDERS_OPEN_MAX) {
        fprintf(stderr, "usage: ledger_bench DATA COUNT\n");
        return 2;
    }
    snprintf(path, sizeof path, "%s/ledger.db", argv[1]);
    const char *password = getenv("STAMPEDE_LEDGER_PASSWORD");
    if (!ledger_place_read(&place, slice_of(argv[1]), mistake)) place = *LEDGER_FILE(path);
    if (password != NULL) snprintf(place.password, sizeof place.password, "%s", password);
    must(ledger_open(&ledger, &place, LEDGER_OWNER));
    file_sale(ledger);
    double wins = file_all(ledger, count, DECISION_WON);
    printf("%.0f\t%.0f\n", wins, file_all(ledger, count, DECISION_EXPIRED));
    ledger_close(ledger);
    return 0;
}
